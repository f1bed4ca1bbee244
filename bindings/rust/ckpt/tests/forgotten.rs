//! Forgotten jobs (`std::mem::forget`) leak, but the engine never touches memory that was freed. These tests have their
//! own file because leak checkers rightly complain; tests that leak have "forgotten" in their names.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ckpt::{JobState, Load, Options, Reader, Save, Session, Store, TensorDesc};
use common::{memory_store, numbers, one_tensor};

const COUNT: usize = 1 << 20;

fn desc() -> TensorDesc {
    TensorDesc::of::<f32>(&[COUNT])
}

/// A forgotten job is not cancelled: it commits in the end.
fn wait_for_a_checkpoint(store: &Store) -> Reader {
    let start = Instant::now();
    while store.find("latest").is_err() {
        assert!(start.elapsed() < Duration::from_secs(120), "no checkpoint came");
        std::thread::sleep(Duration::from_millis(5));
    }
    Reader::open(store, "latest").unwrap()
}

#[test]
fn a_scope_ends_only_when_saves_are_staged_even_if_their_jobs_are_forgotten() {
    let (store, session) = memory_store();
    let mut weights = numbers(COUNT);
    let mut save = Save::new(&session, "one", None).unwrap();
    save.add_tensor("w", &desc(), &weights).unwrap();
    ckpt::scope(|scope| std::mem::forget(save.start_in(scope).unwrap()));
    weights.fill(-1.0);
    drop(weights);
    assert_eq!(wait_for_a_checkpoint(&store).read::<f32>("w").unwrap(), numbers(COUNT));
}

#[test]
fn a_scope_ends_only_when_loads_have_ended_even_if_their_jobs_are_forgotten() {
    let (_store, _session, reader) = one_tensor(&[COUNT]);
    let mut got = vec![-1f32; COUNT];
    let mut load = Load::new(&reader).unwrap();
    load.add_tensor("w", &desc(), &mut got).unwrap();
    ckpt::scope(|scope| std::mem::forget(load.start_in(scope).unwrap()));
    assert_eq!(got, numbers(COUNT));
}

/// Does something when it is dropped.
struct Last<F: FnMut()>(F);
impl<F: FnMut()> Drop for Last<F> {
    fn drop(&mut self) {
        self.0();
    }
}

#[test]
fn a_scope_waits_when_its_closure_panics() {
    let (store, _session) = memory_store();
    let first = Session::open_rank(&store, 0, 2, None, &Options::new()).unwrap();
    let second = Session::open_rank(&store, 1, 2, Some(first.string().unwrap()), &Options::new()).unwrap();
    let weights = numbers(COUNT);
    // With held_by=some the second rank's save is staged only after the first's has begun, which ends the closure.
    let some = Options::new().set("held_by", "some");
    let [mut first, mut second] = [first, second].map(|session| Save::new_with(&session, "one", None, &some).unwrap());
    second.add_tensor("w", &desc(), &weights).unwrap();
    let (mut job, mut others) = (None, None);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        ckpt::scope(|scope| {
            job = Some(second.start_in(scope).unwrap());
            let _last = Last(|| others = first.start().ok());
            panic!("on purpose");
        })
    }));
    let state = job.unwrap().state();
    assert!(panicked.is_err());
    assert!(state >= JobState::STAGED, "{state:?}");
}

#[test]
fn shared_memory_outlives_a_forgotten_job_and_a_dropped_save() {
    let (store, session) = memory_store();
    let slice: Arc<[f32]> = numbers(COUNT).into();
    let mut save = Save::new(&session, "one", None).unwrap();
    save.add_tensor_shared("slice", &desc(), Arc::clone(&slice)).unwrap();
    save.add_tensor_shared("boxed", &desc(), numbers(COUNT).into_boxed_slice()).unwrap();
    std::mem::forget(save.start().unwrap());
    drop((save, slice));
    let reader = wait_for_a_checkpoint(&store);
    assert_eq!(reader.read::<f32>("slice").unwrap(), numbers(COUNT));
    assert_eq!(reader.read::<f32>("boxed").unwrap(), numbers(COUNT));
}
