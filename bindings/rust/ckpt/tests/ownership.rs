//! Handles: any order of dropping, any thread, as the ABI promises.

mod common;

use ckpt::{
    Buffers, Checkpoints, ColumnInfo, Error, File, Job, Load, LoadJob, Options, Reader, Report, Rows, RowsMut, Rowset,
    Save, Session, Share, Slot, Store, TableInfo, TensorDesc, Tree, TreeRef, Value, View,
};
use common::{numbers, one_tensor};

#[test]
fn every_handle_may_move_to_and_be_shared_by_threads() {
    fn both<T: Send + Sync>() {}
    both::<(Store, Session, Save<'_>, Reader, Load<'_>, Job, LoadJob, Report)>();
    both::<(Rows<'_>, RowsMut<'_>, Rowset, Share, TableInfo<'_>, ColumnInfo<'_>)>();
    both::<(Tree, TreeRef, File, View<'_>, Checkpoints, Buffers, Slot<f32>, Options, Error, Value)>();
}

#[test]
fn objects_are_dropped_in_any_order() {
    let (store, session, reader) = one_tensor(&[4]);
    let memory = numbers(4);
    let mut save = Save::new(&session, "two", None).unwrap();
    save.add_tensor("w", &TensorDesc::of::<f32>(&[4]), &memory).unwrap();
    drop(session);
    drop(store);
    let job = save.stage().unwrap();
    drop(save);
    job.wait_committed().unwrap();
    let mut load = Load::new(&reader).unwrap();
    let slot = load.hold(vec![0f32; 4]);
    load.add_tensor_into("w", &TensorDesc::of::<f32>(&[4]), slot, ..).unwrap();
    let verify = reader.verify(&Options::new()).unwrap();
    drop(reader);
    let job = load.start().unwrap();
    drop(load);
    assert_eq!(job.finish().unwrap().take(slot).unwrap(), memory);
    verify.wait_done().unwrap();
    let report = verify.report().unwrap();
    drop(verify);
    assert!(report.is_empty());
}

#[test]
fn threads_share_a_reader_and_load_at_once() {
    let (_store, _session, reader) = one_tensor(&[100, 10]);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                assert_eq!(reader.read::<f32>("w").unwrap(), numbers(1000));
                assert_eq!(reader.tensors().len(), 1);
            });
        }
    });
}

#[test]
fn a_save_may_be_made_on_one_thread_and_run_on_another() {
    let (store, session) = common::memory_store();
    let memory = numbers(4);
    let mut save = Save::new(&session, "two", None).unwrap();
    save.add_tensor("w", &TensorDesc::of::<f32>(&[4]), &memory).unwrap();
    std::thread::scope(|threads| threads.spawn(|| save.run()).join().unwrap()).unwrap();
    assert_eq!(Reader::open(&store, "latest").unwrap().read::<f32>("w").unwrap(), memory);
}

#[test]
fn memory_of_a_save_that_never_ran_is_free_again() {
    let (_store, session) = common::memory_store();
    let mut memory = numbers(4);
    let mut save = Save::new(&session, "two", None).unwrap();
    save.add_tensor("w", &TensorDesc::of::<f32>(&[4]), &memory).unwrap();
    drop(save);
    memory[0] = 1.0;
}
