//! Raw bindings of `ckpt.h`, `ckpt_maintain.h`, `ckpt_table.h`, `ckpt_tree.h` and `ckpt_file.h`, written by build.rs
//! from the `api.json` of the installed library.
//!
//! The headers are the documentation. The crate `ckpt` is the safe interface. Constants are plain numbers, because a
//! newer library may return ones that are not listed here.
//!
//! Linking: the library is found by pkg-config (`PKG_CONFIG_PATH`). `CKPT_STATIC=1` links `libckpt.a`. With
//! the feature `vendored` the engine is compiled from this crate.
#![no_std]

#[allow(missing_docs, non_camel_case_types, non_upper_case_globals, non_snake_case)]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
mod raw {
    include!(concat!(env!("OUT_DIR"), "/raw.rs"));
}
pub use raw::*;

/// True if the engine is in the program, false if it is in the shared library.
pub const LINKED_STATICALLY: bool = cfg!(ckpt_static);

/// True if the engine was compiled from this crate. It has no libckpt_files.
pub const VENDORED: bool = cfg!(ckpt_vendored);

/// The dtype of DLPack type code `code` with `bits` bits per element, like the macro of that name.
#[allow(non_snake_case)]
#[must_use]
pub const fn CKPT_DTYPE(code: i32, bits: i32) -> i32 {
    code * 256 + bits
}
const _: () = assert!(CKPT_DTYPE(2, 32) == CKPT_DTYPE_F32);
