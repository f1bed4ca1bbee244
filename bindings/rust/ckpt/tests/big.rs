//! Memory of more than 2 GiB, too large for 32-bit sizes.

mod common;

use ckpt::{Load, Options, Reader, Save, Session, Store, TensorDesc};

#[test]
fn memory_of_more_than_2_gib_comes_back() {
    const SIZE: usize = 2_362_232_012; // 2.2 GiB and a bit
    const PLACES: [usize; 4] = [0, (1 << 31) - 1, 1 << 31, SIZE - 1];
    let folder = common::Folder::new();
    let store = Store::open(folder.path("store")).unwrap();
    let session = Session::open(&store).unwrap();
    let desc = TensorDesc::of::<u8>(&[SIZE]);
    // Untouched zeros take no memory, and hardly any space once compressed.
    let mut data = vec![0u8; SIZE];
    PLACES.iter().zip(1..).for_each(|(&place, value)| data[place] = value);
    let options = Options::new().set("compression", "lz4");
    let mut save = Save::new_with(&session, "big", None, &options).unwrap();
    save.add_tensor_shared("w", &desc, data).unwrap();
    save.run().unwrap();
    drop(save);

    let reader = Reader::open(&store, "latest").unwrap();
    assert_eq!(reader.tensor("w").unwrap().bytes(), SIZE as u64);
    let mut got = vec![0u8; SIZE];
    let mut load = Load::new(&reader).unwrap();
    load.add_tensor("w", &desc, &mut got).unwrap();
    load.run().unwrap();
    for (place, value) in PLACES.into_iter().zip(1..) {
        assert_eq!(got[place], value);
        got[place] = 0;
    }
    // SAFETY: u128 takes any bits.
    let (head, middle, tail) = unsafe { got.align_to::<u128>() };
    assert!(head.iter().chain(tail).all(|&byte| byte == 0) && middle.iter().all(|&word| word == 0));
}
