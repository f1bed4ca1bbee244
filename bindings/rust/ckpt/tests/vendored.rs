//! The engine that is compiled within the crate, which has no libckpt_files.
#![cfg(feature = "vendored")]

use ckpt::{File, Status};

#[test]
fn a_file_of_another_program_is_unsupported_and_the_error_says_what_to_do() {
    let error = File::open("model.pt").unwrap_err();
    assert_eq!(error.status(), Status::UNSUPPORTED);
    assert!(error.to_string().contains("link an installed ckpt"), "{error}");
}
