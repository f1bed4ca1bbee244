//! Background work: memory lives until the engine is done with it, whatever the program does meanwhile.

mod common;

use std::sync::Arc;
use std::time::Duration;

use ckpt::{Job, JobState, Load, Options, Reader, Save, Session, Status, Store, TensorDesc};
use common::{memory_store, numbers, one_tensor, Folder};

const COUNT: usize = 1 << 20;

fn desc() -> TensorDesc {
    TensorDesc::of::<f32>(&[COUNT])
}

/// The first of two ranks: alone, its save is staged and written but never committed.
fn waits_for_a_rank_that_does_not_come(store: &Store) -> (Session, Save<'static>) {
    let session = Session::open_rank(store, 0, 2, None, &Options::new()).unwrap();
    let mut save = Save::new(&session, "waits", None).unwrap();
    save.add_tensor_shared("w", &desc(), numbers(COUNT)).unwrap();
    (session, save)
}

#[test]
fn after_stage_memory_may_change_and_the_checkpoint_has_the_old_values() {
    let (store, session) = memory_store();
    let mut weights = numbers(COUNT);
    let mut save = Save::new(&session, "one", None).unwrap();
    save.add_tensor("w", &desc(), &weights).unwrap();
    let job = save.stage().unwrap();
    weights.fill(-1.0);
    job.wait_committed().unwrap();
    assert_eq!(job.state(), JobState::COMMITTED);
    assert_eq!(job.stats().unwrap().bytes_done, 4 * COUNT as u64);
    assert_eq!(Reader::open(&store, "latest").unwrap().read::<f32>("w").unwrap(), numbers(COUNT));
}

#[test]
fn a_job_that_leaves_its_scope_goes_on_and_commits() {
    let (store, session) = memory_store();
    let weights = numbers(COUNT);
    let mut save = Save::new(&session, "one", None).unwrap();
    save.add_tensor("w", &desc(), &weights).unwrap();
    let job = ckpt::scope(|scope| save.start_in(scope)).unwrap();
    drop(weights);
    job.wait_committed().unwrap();
    assert_eq!(store.find("latest").unwrap().label(), "one");
}

#[test]
fn shared_memory_is_let_go_as_soon_as_it_is_seen_to_be_staged() {
    let (store, session) = memory_store();
    let mut weights = Arc::new(numbers(COUNT));
    let mut save = Save::new(&session, "one", None).unwrap();
    save.add_tensor_shared("w", &desc(), Arc::clone(&weights)).unwrap();
    let job = save.start().unwrap();
    job.wait_staged().unwrap();
    let before = weights.as_ptr();
    Arc::make_mut(&mut weights).fill(-1.0);
    assert_eq!(weights.as_ptr(), before, "nothing is copied any more");
    job.wait_committed().unwrap();
    assert_eq!(Reader::open(&store, "latest").unwrap().read::<f32>("w").unwrap(), numbers(COUNT));
}

#[test]
fn a_job_that_fails_by_its_own_deadline_fails_a_limited_wait_too() {
    let (store, _session) = memory_store();
    let session = Session::open_rank(&store, 0, 2, None, &Options::new()).unwrap();
    let options = Options::new().set("timeout_ms", 30);
    let mut save = Save::new_with(&session, "late", None, &options).unwrap();
    save.add_tensor_shared("w", &TensorDesc::of::<f32>(&[1]), vec![1f32]).unwrap();
    let job = save.start().unwrap();
    let error = job.wait_timeout(JobState::COMMITTED, Duration::from_secs(60)).unwrap_err();
    assert_eq!((error.status(), error.detail("ranks")), (Status::TIMEOUT, Some("1")));
    assert_eq!(job.state(), JobState::FAILED);
}

#[test]
fn threads_share_a_job() {
    let (store, _session) = memory_store();
    let (_session, mut save) = waits_for_a_rank_that_does_not_come(&store);
    let job: Job = save.start().unwrap();
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| job.wait_committed().unwrap_err().status());
        threads.spawn(|| job.cancel());
        assert_eq!(waiting.join().unwrap(), Status::CANCELLED);
    });
}

#[test]
fn memory_that_a_load_holds_comes_back_from_its_job() {
    let (_store, _session, reader) = one_tensor(&[COUNT]);
    let mut load = Load::new(&reader).unwrap();
    let slot = load.hold(vec![-1f32; COUNT]);
    load.add_tensor_into("w", &desc(), slot, ..).unwrap();
    let job = load.start().unwrap();
    assert!(load.memory(slot).is_none(), "the job has it");
    job.wait_done().unwrap();
    let mut buffers = job.take_buffers().unwrap();
    assert_eq!(buffers.take(slot).unwrap(), numbers(COUNT));
    assert_eq!(buffers.take(slot), None);
    assert_eq!(job.stats().unwrap().bytes_requested, 4 * COUNT as u64);
}

#[test]
fn memory_comes_back_from_a_load_that_failed_or_was_cancelled() {
    let (_store, _session, reader) = one_tensor(&[COUNT]);
    let mut load = Load::new(&reader).unwrap();
    let slot = load.hold(vec![-1f32; COUNT]);
    load.add_tensor_into("absent", &desc(), slot, ..).unwrap();
    assert_eq!(load.run().unwrap_err().status(), Status::NOT_FOUND);
    assert_eq!(load.take_buffers().take(slot), Some(vec![-1f32; COUNT]));

    let mut load = Load::new(&reader).unwrap();
    let slot = load.hold(vec![-1f32; COUNT]);
    load.add_tensor_into("w", &desc(), slot, ..).unwrap();
    let job = load.start().unwrap();
    assert_eq!(job.into_buffers().take(slot).unwrap().len(), COUNT);
}

#[test]
fn a_load_whose_memory_was_taken_cannot_run() {
    let (_store, _session, reader) = one_tensor(&[COUNT]);
    let mut load = Load::new(&reader).unwrap();
    let slot = load.hold(vec![-1f32; COUNT]);
    load.add_tensor_into("w", &desc(), slot, ..).unwrap();
    drop(load.take_buffers());
    assert_eq!(load.run().unwrap_err().status(), Status::INVALID);
    assert_eq!(load.start().unwrap_err().status(), Status::INVALID);
}

#[test]
fn a_slot_of_another_load_is_refused() {
    let (_store, _session, reader) = one_tensor(&[4]);
    let (mut a, mut b) = (Load::new(&reader).unwrap(), Load::new(&reader).unwrap());
    let slot = a.hold(vec![0f32; 4]);
    let _ = b.hold(vec![0f32; 4]);
    let error = b.add_tensor_into("w", &TensorDesc::of::<f32>(&[4]), slot, ..).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    assert_eq!(b.take_buffers().take(slot), None);
}

#[test]
fn a_staged_save_writes_to_a_folder_while_the_trainer_goes_on() {
    let folder = Folder::new();
    let store = Store::open(folder.path("store")).unwrap();
    let arena = Options::new().set("arena_bytes", 16 << 20);
    let session = Session::open_rank(&store, 0, 1, None, &arena).unwrap();
    let mut weights = numbers(COUNT);
    let mut jobs = Vec::new();
    for step in 0..5 {
        weights[0] = step as f32;
        let mut save = Save::new(&session, &format!("step-{step}"), Some(step)).unwrap();
        save.add_tensor("w", &desc(), &weights).unwrap();
        jobs.push(save.stage().unwrap());
    }
    jobs.iter().for_each(|job| job.wait_committed().unwrap());
    for step in 0..5 {
        let reader = Reader::open(&store, &format!("step:{step}")).unwrap();
        assert_eq!(reader.read::<f32>("w").unwrap()[0], step as f32);
    }
}

#[test]
fn a_session_that_waits_for_ranks_is_cancelled_by_another_thread() {
    let store = Store::open("mem:call-jobs").unwrap();
    let job = ckpt::Job::new().unwrap();
    let error = std::thread::scope(|threads| {
        let options = Options::new().set("rendezvous", 1).job(&job);
        let waiting = threads.spawn(|| Session::open_rank(&store, 1, 2, None, &{ options }).unwrap_err());
        while job.state() == JobState::NEW {
            std::thread::yield_now();
        }
        job.cancel();
        waiting.join().unwrap()
    });
    assert_eq!(error.status(), Status::CANCELLED);
    assert_eq!(job.state(), JobState::CANCELLED);
    let again = Options::new().set("keep_last", 1).job(&job);
    assert_eq!(store.prune(&again).unwrap_err().status(), Status::INVALID);
    assert_eq!(store.find_with("latest", &again).unwrap_err().status(), Status::INVALID);
}
