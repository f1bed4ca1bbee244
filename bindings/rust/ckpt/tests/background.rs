//! A save in the background belongs to its session: nothing depends on its job.

mod common;

use ckpt::{Job, JobState, Options, Reader, Save, Session, Status, Store, TensorDesc};
use common::{memory_store, numbers};

const COUNT: usize = 1000;

struct Ranks {
    store: Store,
    first: Session,
    second: Session,
}

fn ranks() -> Ranks {
    let (store, _) = memory_store();
    let first = Session::open_rank(&store, 0, 2, None, &Options::new()).unwrap();
    let second = Session::open_rank(&store, 1, 2, Some(first.string().unwrap()), &Options::new()).unwrap();
    Ranks { store, first, second }
}

fn save(session: &Session, label: &str) -> Save<'static> {
    let mut save = Save::new(session, label, None).unwrap();
    save.add_tensor_shared("w", &TensorDesc::of::<f32>(&[COUNT]), numbers(COUNT)).unwrap();
    save
}

fn start(session: &Session, label: &str) -> Job {
    save(session, label).start().unwrap()
}

#[test]
fn a_save_whose_job_is_dropped_is_committed_with_the_memory_as_it_was() {
    let ranks = ranks();
    let mut weights = numbers(COUNT);
    let mut first = Save::new(&ranks.first, "a", None).unwrap();
    first.add_tensor("w", &TensorDesc::of::<f32>(&[COUNT]), &weights).unwrap();
    drop(first.stage().unwrap());
    weights.fill(-1.0);
    drop(start(&ranks.second, "a"));
    ranks.first.close().unwrap();
    let reader = Reader::open(&ranks.store, "latest").unwrap();
    assert_eq!(reader.read::<f32>("w").unwrap(), numbers(COUNT));
}

#[test]
fn a_save_that_goes_on_from_nothing_says_so_on_stderr_whoever_waits_for_it() {
    const NAME: &str = "a_save_that_goes_on_from_nothing_says_so_on_stderr_whoever_waits_for_it";
    if std::env::var_os("CKPT_TEST_BEGINS_ANEW").is_some() {
        let (store, session) = memory_store();
        Save::new(&session, "step-10", Some(10)).unwrap().run().unwrap();
        Save::new(&Session::open(&store).unwrap(), "step-1", Some(1)).unwrap().run().unwrap();
        drop(Save::new(&Session::open(&store).unwrap(), "step-0", Some(0)).unwrap().stage().unwrap());
        let meant = Session::open_rank(&store, 0, 1, None, &Options::new().set("continue_from", "none")).unwrap();
        return Save::new(&meant, "step-2", Some(2)).unwrap().run().unwrap();
    }
    let child = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new(child);
    let ended = command.args(["--exact", "--nocapture", NAME]).env("CKPT_TEST_BEGINS_ANEW", "1").output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{told}");
    assert_eq!(told.matches("does not go on from step-10.").count(), 2, "{told}");
    assert!(told.contains("continue_from=none") && told.contains("another directory"), "{told}");
}

#[test]
fn dropping_a_session_waits_for_its_saves() {
    let ranks = ranks();
    drop(start(&ranks.first, "a"));
    drop(start(&ranks.second, "a"));
    drop(ranks.first);
    assert_eq!(ranks.store.find("latest").unwrap().label(), "a");
}

#[test]
fn a_save_that_is_started_after_its_session_was_dropped_is_committed() {
    let (store, session) = memory_store();
    let mut save = save(&session, "a");
    drop(session);
    drop(save.start().unwrap());
    drop(save);
    assert_eq!(store.find("latest").unwrap().label(), "a");
}

#[test]
fn a_failure_of_which_nobody_was_told_is_that_of_the_save_after_it() {
    let ranks = ranks();
    drop(start(&ranks.first, "a"));
    save(&ranks.second, "a").give_up("no room").unwrap();
    let told = loop {
        if let Err(error) = Save::new(&ranks.first, "probe", None) {
            break error;
        }
    };
    assert_eq!(told.status(), Status::ABORTED);
    assert!(told.message().starts_with("the save \"a.2.1\" in the background failed: "), "{told}");
    // Told once; the session can be used again.
    drop((start(&ranks.first, "b"), start(&ranks.second, "b")));
    ranks.first.close().unwrap();
    ranks.second.close().unwrap();
    assert_eq!(ranks.store.find("latest").unwrap().label(), "b");
}

#[test]
fn close_fails_as_the_save_that_failed_unless_a_wait_told_it() {
    for waits in [false, true] {
        let ranks = ranks();
        let job = start(&ranks.first, "a");
        let mut other = save(&ranks.second, "a");
        other.give_up("no room for the optimizer").unwrap();
        assert_eq!(other.give_up("again").unwrap_err().status(), Status::INVALID);
        if waits {
            assert_eq!(job.wait_committed().unwrap_err().status(), Status::ABORTED);
        }
        let closed = ranks.first.close();
        assert_eq!(closed.is_ok(), waits, "{closed:?}");
        assert!(waits || closed.unwrap_err().message().contains("no room for the optimizer"));
    }
}

#[test]
fn a_panic_that_drops_the_session_cancels_its_saves_at_once() {
    let Ranks { store: _store, first, second } = ranks();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let session = first; // without the cancel its drop would wait for the other rank
        drop(start(&session, "a"));
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(save(&second, "a").run().unwrap_err().status(), Status::ABORTED);
}

#[test]
fn a_label_that_is_taken_is_told_by_the_job_on_every_rank() {
    let ranks = ranks();
    for taken in [false, true] {
        let jobs = [&ranks.second, &ranks.first].map(|session| save(session, "a").stage().unwrap());
        for job in jobs {
            let told = job.wait_committed().map_err(|error| error.status());
            assert_eq!(told, if taken { Err(Status::EXISTS) } else { Ok(()) });
        }
    }
}

#[test]
fn a_panic_in_a_scope_cancels_what_still_uses_its_memory() {
    let ranks = ranks();
    let weights = numbers(COUNT);
    let mut job = None;
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let some = Options::new().set("held_by", "some"); // not staged before the first rank begins
        let mut second = Save::new_with(&ranks.second, "a", None, &some).unwrap();
        second.add_tensor("w", &TensorDesc::of::<f32>(&[COUNT]), &weights).unwrap();
        ckpt::scope(|scope| {
            job = Some(second.start_in(scope).unwrap());
            panic!("on purpose");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(job.unwrap().state(), JobState::CANCELLED);
}
