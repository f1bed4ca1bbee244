//! The engine that is compiled within the crate has no libckpt_files.

use ckpt::{sys, File, Status};

#[test]
fn a_file_of_another_program_is_unsupported_and_the_error_says_what_to_do() {
    let error = File::open("/nowhere/model.pt").unwrap_err();
    let expected = if sys::VENDORED { Status::UNSUPPORTED } else { Status::NOT_FOUND };
    assert_eq!(error.status(), expected);
    assert_eq!(error.to_string().contains("link an installed ckpt"), sys::VENDORED, "{error}");
}
