//! After fork() the child may only drop: calls return FORKED, and nothing hangs. In its own file, so few threads run.

mod common;

use ckpt::{JobState, Options, Save, Session, Status, TensorDesc};

extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

#[test]
fn a_child_is_told_so_and_may_drop_everything() {
    let (store, _) = common::memory_store();
    let session = Session::open_rank(&store, 0, 2, None, &Options::new()).unwrap();
    let mut save = Save::new(&session, "one", None).unwrap();
    save.add_tensor_shared("w", &TensorDesc::of::<f32>(&[4]), vec![1f32; 4]).unwrap();
    let job = save.start().unwrap();
    job.wait(JobState::WRITTEN).unwrap();
    // SAFETY: the child calls nothing that needs another thread, and ends by _exit.
    let pid = unsafe { fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let told = [job.wait_committed().unwrap_err(), Save::new(&session, "two", None).unwrap_err()];
        let right = told.iter().all(|error| error.status() == Status::FORKED);
        drop((job, save, session, store));
        // SAFETY: ends the process.
        unsafe { _exit(if right { 0 } else { 1 }) }
    }
    let mut status = -1;
    // SAFETY: `status` is ours.
    assert_eq!(unsafe { waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
    job.cancel(); // the end of the session would wait for the other rank
}
