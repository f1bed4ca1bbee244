//! What the tests share.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ckpt::{Reader, Save, Session, Store, TensorDesc};

/// A new folder, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A store in memory that no other test uses, and a session of one rank.
pub fn memory_store() -> (Store, Session) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let store = Store::open(format!("mem:test-{}", COUNT.fetch_add(1, Ordering::Relaxed))).unwrap();
    let session = Session::open(&store).unwrap();
    (store, session)
}

pub fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| i as f32).collect()
}

/// Saves one f32 tensor `w` of this shape, 0, 1, 2, …, and opens the checkpoint.
pub fn one_tensor(shape: &[usize]) -> (Store, Session, Reader) {
    let (store, session) = memory_store();
    let data = numbers(shape.iter().product());
    let mut save = Save::new(&session, "one", Some(1)).unwrap();
    save.add_tensor("w", &TensorDesc::of::<f32>(shape), &data).unwrap();
    save.run().unwrap();
    let reader = Reader::open(&store, "latest").unwrap();
    (store, session, reader)
}
