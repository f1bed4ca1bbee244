//! Shared memory lives as long as the engine may read it, and no longer.

mod common;

use std::sync::{Arc, Weak};

use ckpt::{Reader, Save, SharedMemory, Status, TensorDesc};
use common::{memory_store, numbers};

const COUNT: usize = 1 << 20;

/// A save that shares "w" and names a tensor "b" that it does not have yet; and whether "w" is still alive.
fn shares_w_and_lacks_b(session: &ckpt::Session) -> (Save<'static>, Weak<Vec<f32>>) {
    let weights = Arc::new(numbers(COUNT));
    let mut save = Save::new(session, "one", None).unwrap();
    save.add_tensor_shared("w", &TensorDesc::of::<f32>(&[COUNT]), Arc::clone(&weights)).unwrap();
    save.set_tensor_attr("b", "unit", "m").unwrap();
    (save, Arc::downgrade(&weights))
}

#[test]
fn shared_memory_stays_as_long_as_a_save_that_failed() {
    let (store, session) = memory_store();
    let (mut save, weights) = shares_w_and_lacks_b(&session);
    assert_eq!(save.run().unwrap_err().status(), Status::NOT_FOUND);
    assert!(weights.upgrade().is_some(), "the engine still knows where it is");
    // Either the save is over, or it runs now with the bytes that it was given.
    let b = save.add_tensor_shared("b", &TensorDesc::of::<f32>(&[1]), vec![0f32]);
    match b.and_then(|()| save.run()) {
        Ok(()) => {
            assert_eq!(Reader::open(&store, "latest").unwrap().read::<f32>("w").unwrap(), numbers(COUNT));
        }
        Err(error) => assert_eq!(error.status(), Status::INVALID),
    }
    drop(save);
    assert!(weights.upgrade().is_none());
}

/// Its memory lies in the owner itself, and moves with it.
struct Owner {
    memory: [f32; 4],
    _alive: Arc<()>,
}
impl AsRef<[f32]> for Owner {
    fn as_ref(&self) -> &[f32] {
        &self.memory
    }
}

#[test]
fn memory_of_any_owner_is_saved_and_the_owner_dropped_when_staged() {
    let (store, session) = memory_store();
    let alive = Arc::new(());
    let owner = Owner { memory: [1.0, 2.0, 3.0, 4.0], _alive: Arc::clone(&alive) };
    let memory = SharedMemory::from_owner::<f32, _>(owner);
    let mut save = Save::new(&session, "one", None).unwrap();
    let error = save.add_tensor_shared("w", &TensorDesc::of::<f64>(&[2]), memory.clone()).unwrap_err();
    assert_eq!(error.status(), Status::INVALID, "its elements are known");
    save.add_tensor_shared("w", &TensorDesc::of::<f32>(&[4]), memory).unwrap();
    let job = save.start().unwrap();
    job.wait_staged().unwrap();
    assert_eq!(Arc::strong_count(&alive), 1);
    job.wait_committed().unwrap();
    assert_eq!(Reader::open(&store, "latest").unwrap().read::<f32>("w").unwrap(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn shared_memory_is_let_go_when_a_run_succeeds() {
    let (_store, session) = memory_store();
    let (mut save, weights) = shares_w_and_lacks_b(&session);
    save.add_tensor_shared("b", &TensorDesc::of::<f32>(&[1]), vec![0f32]).unwrap();
    save.run().unwrap();
    assert!(weights.upgrade().is_none());
    drop(save);
}
