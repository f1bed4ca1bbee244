//! The example trainer proves what it says.

mod common;

#[allow(dead_code)]
#[path = "../examples/trainer.rs"]
mod trainer;

#[test]
fn a_resumed_run_equals_an_uninterrupted_one_bit_for_bit() {
    let folder = common::Folder::new();
    let trained = trainer::prove(folder.path("store").to_str().unwrap()).unwrap();
    assert!(trained.accuracy() > 0.9, "{}", trained.accuracy());
}
