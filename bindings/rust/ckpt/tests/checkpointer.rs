//! A training that saves by a policy, is killed, and goes on.

mod common;

use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use ckpt::{Checkpointer, Error, Options, Ranks, Reader, Result, Save, Status, Store, TensorDesc};

fn policy() -> Options {
    Options::new().set("every", "3 steps").set("keep_last", 2)
}

/// The whole state of a training: each step changes all of it.
#[derive(Clone, Debug, PartialEq)]
struct State(Vec<f32>);

impl State {
    fn new() -> Self {
        State(common::numbers(1000))
    }

    fn train(&mut self, step: u64) {
        self.0.iter_mut().for_each(|one| *one = *one * 0.75 + step as f32);
    }

    fn add_to<'a>(&'a self, save: &mut Save<'a>) -> Result<()> {
        save.add_tensor("w", &TensorDesc::of::<f32>(&[1000]), &self.0)
    }

    fn load(&mut self, reader: &Reader) -> Result<()> {
        self.0 = reader.read("w")?;
        Ok(())
    }
}

/// Trains up to `steps` from what there is; returns the step that it went on from.
fn train(store: &Store, steps: u64) -> Result<(u64, State)> {
    let mut state = State::new();
    let mut keeper = Checkpointer::new(store, &policy())?;
    let start = keeper.restore(|reader| state.load(reader))?.map_or(0, |restored| restored.step);
    for step in start + 1..=steps {
        state.train(step);
        keeper.step(step, |save| state.add_to(save))?;
    }
    keeper.close()?;
    Ok((start, state))
}

fn labels(store: &Store) -> Vec<String> {
    let mut all: Vec<_> = store.list().unwrap().iter().map(|info| info.unwrap().label().to_owned()).collect();
    all.sort();
    all
}

/// It starts this program again for this test alone, which then is the training that it kills.
#[test]
fn a_killed_training_goes_on_bit_for_bit() {
    if let Some(place) = std::env::var_os("CKPT_TEST_STORE") {
        train(&Store::open(place).unwrap(), u64::MAX / 2).unwrap();
    }
    let folder = common::Folder::new();
    let store = Store::open(folder.path("store")).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_training_goes_on_bit_for_bit"])
        .env("CKPT_TEST_STORE", folder.path("store"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let saved = || store.find("latest").ok().and_then(|info| info.step());
    let is_ready = || saved().is_some_and(|step| step >= 9);
    while !is_ready() && child.try_wait().unwrap().is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
    assert!(is_ready(), "the child saves nothing");
    let steps = saved().unwrap() + 10;
    let (start, resumed) = train(&store, steps).unwrap();
    assert_eq!(start + 10, steps);
    let (from, whole) = train(&Store::open("mem:whole").unwrap(), steps).unwrap();
    assert_eq!((from, &whole), (0, &resumed));
    let bits = |state: &State| state.0.iter().map(|one| one.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&whole), bits(&resumed));
}

#[test]
fn what_is_damaged_is_passed_over_and_saved_again() {
    let folder = common::Folder::new();
    let store = Store::open(folder.path("store")).unwrap();
    train(&store, 6).unwrap();
    let part = folder.path("store").join(store.find("latest").unwrap().id()).join("PART_000");
    let mut bytes = std::fs::read(&part).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    let mut loads = 0;
    let mut keeper = Checkpointer::new(&store, &policy()).unwrap();
    let refused = keeper.restore_from("step:6", |reader| State::new().load(reader)).unwrap_err();
    assert_eq!(refused.status(), Status::CORRUPT);
    let restored = keeper.restore(|reader| {
        loads += 1;
        State::new().load(reader)
    });
    assert_eq!((restored.unwrap().unwrap().step, loads), (3, 2));
    drop(keeper);
    assert_eq!(train(&store, 6).unwrap().0, 3);
    assert_eq!(train(&store, 6).unwrap().0, 6);
}

#[test]
fn numbers_labels_and_failures_are_told() {
    let (store, _) = common::memory_store();
    let state = State::new();
    let mut keeper = Checkpointer::new(&store, &policy().set("keep_best", "loss:min")).unwrap();
    assert_eq!(keeper.restore(|_| unreachable!()).unwrap(), None);
    keeper.tell_metric("loss", 0.5).unwrap();
    keeper.tell_counter("epoch", 2.0).unwrap();
    let first = keeper.save(1, Some("mine"), |save| state.add_to(save)).unwrap();
    assert_eq!(keeper.save(1, Some("mine"), |_| unreachable!("it is there already")).unwrap(), first);
    assert_eq!(keeper.step(2, |_| unreachable!("it is not due")).unwrap(), None);
    let refused = keeper.step(3, |save| save.add_tensor("w", &TensorDesc::of::<f64>(&[1]), &state.0)).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID);
    let restored = keeper.restore_from("best", |_| Ok(())).unwrap().unwrap();
    assert_eq!((restored.id, restored.step), (first, 1));
    assert_eq!((restored.metrics["loss"], restored.counters["epoch"]), (0.5, 2.0));
    keeper.keeper().stop(15);
    keeper.step(6, |_| Err(Error::new(Status::IO, "the last save fails"))).unwrap_err();
    assert_eq!(keeper.stopping(), None);
    assert!(keeper.step(7, |save| state.add_to(save)).unwrap().is_some()); // not due, but tried again
    assert_eq!(keeper.stopping().as_deref(), Some("SIGTERM"));
    assert_eq!(keeper.step(8, |_| unreachable!("the last save is done")).unwrap(), None);
    assert_eq!(labels(&store), ["mine", "step-7"]); // committed, though nobody waited
    let refused = Checkpointer::new(&store, &policy().set("ranks_agree", false)).unwrap_err();
    assert!(refused.message().contains("use a Keeper"), "{refused}");
}

/// Two threads as ranks.
#[derive(Default)]
struct Board {
    text: String,
    numbers: Vec<i64>,
}
#[derive(Clone)]
struct Thread {
    rank: u32,
    board: Arc<(Mutex<Board>, Barrier)>,
}

impl Ranks for Thread {
    fn rank(&self) -> (u32, u32) {
        (self.rank, 2)
    }
    fn max(&self, numbers: &mut [i64]) {
        let (board, barrier) = &*self.board;
        if self.rank == 0 {
            board.lock().unwrap().numbers = numbers.to_vec();
        }
        barrier.wait();
        if self.rank == 1 {
            let mut board = board.lock().unwrap();
            board.numbers.iter_mut().zip(numbers.iter()).for_each(|(most, own)| *most = *own.max(most));
        }
        barrier.wait();
        numbers.copy_from_slice(&board.lock().unwrap().numbers);
        barrier.wait();
    }
    fn of_first(&self, text: Option<String>) -> String {
        let (board, barrier) = &*self.board;
        if let Some(text) = text {
            board.lock().unwrap().text = text;
        }
        barrier.wait();
        let told = board.lock().unwrap().text.clone();
        barrier.wait();
        told
    }
}

/// What a rank does until it is to stop, which only rank 1 is told; and then restores, which fails there twice.
fn rank_of_two(ranks: Thread, folder: &common::Folder) {
    let (rank, mut state, mut loads) = (ranks.rank, State::new(), 0);
    let store = Store::open(folder.path("store")).unwrap();
    let mut keeper = Checkpointer::of_ranks(&store, &policy(), ranks, &[10]).unwrap();
    for step in 1..=8 {
        state.train(step);
        if (rank, step) == (1, 4) {
            keeper.keeper().stop(10);
        }
        keeper.step(step, |save| state.add_to(save)).unwrap();
        if keeper.stopping().is_some() {
            assert_eq!(step, 4);
            break;
        }
    }
    let mut load = |reader: &Reader| {
        loads += 1;
        match (rank, loads) {
            (1, 1) => Err(Error::new(Status::IO, "no damage, so no other is tried")),
            (0, 2) => Err(Error::new(Status::INCOMPLETE, "damage of another kind")),
            (1, 2) => Err(Error::new(Status::CORRUPT, "what one rank finds damaged none takes")),
            _ => state.load(reader),
        }
    };
    assert!(keeper.restore(&mut load).is_err());
    assert_eq!(keeper.restore(&mut load).unwrap().unwrap().step, 3);
    keeper.close().unwrap();
}

/// Runs this as two ranks.
fn as_two_ranks(each: impl Fn(Thread) + Sync) {
    let board = Arc::new((Mutex::default(), Barrier::new(2)));
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let (ranks, each) = (Thread { rank, board: Arc::clone(&board) }, &each);
            scope.spawn(move || each(ranks));
        }
    });
}

#[test]
fn ranks_agree_on_all() {
    let folder = common::Folder::new();
    as_two_ranks(|ranks| rank_of_two(ranks, &folder));
    assert_eq!(labels(&Store::open(folder.path("store")).unwrap()), ["step-3", "step-4"]);
}

#[test]
fn all_ranks_get_the_failure_of_rank_0_after_the_load() {
    let (folder, loaded) = (common::Folder::new(), Barrier::new(2));
    let options = Options::new().set("mirror", folder.path("mirror").to_str().unwrap());
    let open = || Store::open_with(folder.path("store"), &options).unwrap();
    train(&open(), 3).unwrap();
    as_two_ranks(|ranks| {
        let (rank, store) = (ranks.rank, open());
        let mut keeper = Checkpointer::of_ranks(&store, &policy(), ranks, &[]).unwrap();
        let restored = keeper.restore(|_| {
            loaded.wait();
            if rank == 0 {
                std::fs::remove_dir_all(folder.path("mirror")).unwrap(); // so that rank 0 cannot list it
            }
            Ok(())
        });
        assert_eq!(restored.unwrap_err().status(), [Status::IO, Status::ABORTED][rank as usize]);
    });
}
