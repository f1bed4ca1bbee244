//! The library that is linked answers, and it is linked as it was asked for.

use std::ffi::CStr;

#[test]
fn the_linked_library_answers_with_its_version() {
    // SAFETY: both take nothing and return static data.
    let (text, number) = unsafe { (CStr::from_ptr(ckpt_sys::ckpt_version_string()), ckpt_sys::ckpt_version_number()) };
    let text = text.to_str().unwrap();
    let parts: Vec<i32> = text.split('.').map(|part| part.parse().unwrap()).collect();
    assert_eq!(parts[0] * 1_000_000 + parts[1] * 1_000 + parts[2], number, "{text}");
}

#[test]
fn the_library_is_linked_as_the_environment_said() {
    // SAFETY: takes nothing. It keeps the shared library from being left out as unused.
    let _ = unsafe { ckpt_sys::ckpt_version_number() };
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    // `cargo test` runs this with the environment that it built with.
    let said = |name: &str| std::env::var(name).is_ok_and(|value| value != "0");
    let is_static = ckpt_sys::VENDORED || said("CKPT_STATIC") || said("PKG_CONFIG_ALL_STATIC");
    assert_eq!(maps.contains("libckpt.so"), !is_static);
    assert_eq!(ckpt_sys::LINKED_STATICALLY, is_static);
}

#[test]
fn a_checkpoint_is_saved_through_the_raw_calls() {
    use ckpt_sys::*;
    use std::ptr::{null, null_mut};
    let mut desc = ckpt_tensor_desc {
        struct_size: std::mem::size_of::<ckpt_tensor_desc>() as u32,
        dtype: CKPT_DTYPE_F32,
        ndim: 1,
        ..Default::default()
    };
    desc.shape[0] = 4;
    let w = [1f32, 2.0, 3.0, 4.0];
    // SAFETY: pointers are to live locals of the right types; `w` outlives the save; every handle is freed once.
    unsafe {
        let (mut store, mut session, mut save, mut err) = (null_mut(), null_mut(), null_mut(), null_mut());
        assert_eq!(ckpt_store_open(&mut store, c"mem:link".as_ptr(), null(), &mut err), CKPT_OK);
        assert_eq!(ckpt_session_open(&mut session, store, 0, 1, null(), null(), &mut err), CKPT_OK);
        assert_eq!(ckpt_save_new(&mut save, session, c"one".as_ptr(), 1, null(), &mut err), CKPT_OK);
        let (data, size) = (w.as_ptr().cast(), std::mem::size_of_val(&w) as u64);
        let added = ckpt_save_add_tensor(save, c"w".as_ptr(), &desc, data, size, CKPT_DEVICE_CPU, 0, &mut err);
        assert_eq!(added, CKPT_OK);
        assert_eq!(ckpt_save_run(save, &mut err), CKPT_OK);
        let mut info = ckpt_checkpoint_info {
            struct_size: std::mem::size_of::<ckpt_checkpoint_info>() as u32,
            ..Default::default()
        };
        assert_eq!(ckpt_store_find(store, c"latest".as_ptr(), null(), &mut info, &mut err), CKPT_OK);
        assert_eq!((info.step, info.tensor_count), (1, 1));
        ckpt_save_free(save);
        ckpt_session_free(session);
        ckpt_store_free(store);
    }
}
