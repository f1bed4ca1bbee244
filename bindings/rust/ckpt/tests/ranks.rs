//! Several ranks in one process: threads, and jobs that one thread started.

mod common;

use ckpt::{Load, ObjectScope, Options, Reader, Region, Save, Session, Status, Store, TensorDesc, Value};
use common::{numbers, Folder};

const ROWS: usize = 6;
const COLUMNS: usize = 5;

fn rows(first: usize, count: usize) -> TensorDesc {
    let (offset, extent) = ([first, 0], [count, COLUMNS]);
    TensorDesc::of::<f32>(&[ROWS, COLUMNS]).region(Region::Box { offset: &offset, extent: &extent })
}

/// Two ranks, each with half of the rows of `sharded` and the whole of `replicated`.
fn add_share<'a>(save: &mut Save<'a>, rank: usize, all: &'a [f32]) {
    let half = ROWS / 2;
    let mine = &all[rank * half * COLUMNS..(rank + 1) * half * COLUMNS];
    save.add_tensor("sharded", &rows(rank * half, half), mine).unwrap();
    save.add_tensor("replicated", &TensorDesc::of::<f32>(&[ROWS, COLUMNS]), all).unwrap();
    save.add_object("rng", "text/plain", ObjectScope::PER_RANK, format!("rank {rank}").as_bytes()).unwrap();
    save.add_value(None, &Value::dict([("seed", Value::per_rank(rank as u32, 100 + rank as i64))])).unwrap();
}

/// Three ranks load what two saved.
fn check(store: &Store) {
    let reader = Reader::open(store, "latest").unwrap();
    assert_eq!(reader.info().unwrap().world_size(), 2);
    for rank in 0..3 {
        let (mut sharded, mut replicated) = (vec![0f32; 2 * COLUMNS], vec![0f32; 2 * COLUMNS]);
        let mut load = Load::new(&reader).unwrap();
        load.add_tensor("sharded", &rows(2 * rank, 2), &mut sharded).unwrap();
        load.add_tensor("replicated", &rows(2 * rank, 2), &mut replicated).unwrap();
        load.run().unwrap();
        assert_eq!(sharded, numbers(ROWS * COLUMNS)[2 * rank * COLUMNS..][..2 * COLUMNS]);
        assert_eq!(sharded, replicated);
    }
    assert_eq!(reader.read_object("rng", 1).unwrap(), b"rank 1");
    assert_eq!(reader.object("rng", 2).unwrap_err().status(), Status::NOT_FOUND);
    let whole = reader.tree(None).unwrap().to_value().unwrap();
    assert_eq!(whole.get("seed").unwrap().get("rank1"), Some(&Value::Int(101)));
    assert_eq!((whole.own(), whole.get("seed").unwrap().own()), (None, None), "a dict; the values of two ranks");
    // A sixth rank has rank 0's.
    for (rank, own) in [(0, 100), (1, 101), (5, 100)] {
        let tree = reader.tree_of_rank(None, rank).unwrap().to_value().unwrap();
        assert_eq!(tree.get("seed").unwrap().own(), Some(&Value::Int(own)), "rank {rank}");
    }
}

#[test]
fn two_threads_are_two_ranks_that_meet_in_the_store() {
    let folder = Folder::new();
    let place = folder.path("store");
    let all = numbers(ROWS * COLUMNS);
    std::thread::scope(|threads| {
        for rank in 0..2 {
            let (place, all) = (&place, &all);
            threads.spawn(move || {
                let store = Store::open(place).unwrap();
                let meet = Options::new().set("rendezvous", true);
                let session = Session::open_rank(&store, rank, 2, None, &meet).unwrap();
                let mut save = Save::new(&session, "two", Some(2)).unwrap();
                add_share(&mut save, rank as usize, all);
                save.run().unwrap();
            });
        }
    });
    check(&Store::open(place).unwrap());
}

#[test]
fn one_thread_starts_the_saves_of_two_ranks_in_a_scope() {
    let (store, _) = common::memory_store();
    let first = Session::open_rank(&store, 0, 2, None, &Options::new()).unwrap();
    let second = Session::open_rank(&store, 1, 2, Some(first.string().unwrap()), &Options::new()).unwrap();
    let all = numbers(ROWS * COLUMNS);
    let mut saves = [&first, &second].map(|session| Save::new(session, "two", Some(2)).unwrap());
    for (rank, save) in saves.iter_mut().enumerate() {
        add_share(save, rank, &all);
    }
    let jobs = ckpt::scope(|scope| saves.each_mut().map(|save| save.start_in(scope).unwrap()));
    drop(saves);
    drop((all, first, second));
    jobs.iter().for_each(|job| job.wait_committed().unwrap());
    check(&store);
}
