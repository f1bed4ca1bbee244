//! The committed bindings against the installed headers, without libclang.

use std::collections::BTreeSet;
use std::path::Path;

const BINDINGS: &str = include_str!("../src/bindings.rs");

fn header(name: &str) -> String {
    let path = Path::new(env!("CKPT_INCLUDE")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn declared() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in ["ckpt.h", "ckpt_maintain.h", "ckpt_table.h", "ckpt_tree.h", "ckpt_file.h"] {
        for line in header(file).lines().filter(|line| line.starts_with("CKPT_API ")) {
            let head = line.split('(').next().unwrap();
            names.insert(head.rsplit([' ', '*']).next().unwrap().to_owned());
        }
    }
    names
}

#[test]
fn every_function_of_the_headers_is_bound_and_no_other() {
    let bound: BTreeSet<String> = BINDINGS
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub fn "))
        .map(|rest| rest.split('(').next().unwrap().to_owned())
        .collect();
    assert!(bound.len() > 80, "only {} functions are bound", bound.len());
    assert_eq!(bound, declared());
}

#[test]
fn every_constant_of_the_headers_is_bound() {
    let mut count = 0;
    for file in ["ckpt.h", "ckpt_maintain.h", "ckpt_table.h", "ckpt_tree.h"] {
        for line in header(file).lines() {
            let line = line.trim();
            let Some(name) = line.split([' ', ',', '=']).next().filter(|name| name.starts_with("CKPT_")) else {
                continue;
            };
            if name == "CKPT_API" || !line.contains(" = ") {
                continue;
            }
            count += 1;
            assert!(BINDINGS.contains(&format!("pub const {name}: i32 =")), "{name} is not bound");
        }
    }
    assert!(count > 80, "only {count} constants were found");
}

#[test]
fn what_is_written_by_hand_is_what_the_headers_say() {
    assert!(header("ckpt_tree.h").contains("#define CKPT_NODE_END UINT64_MAX"));
    assert!(header("ckpt.h").contains("#define CKPT_DTYPE(code, bits) ((int32_t)((code) * 256 + (bits)))"));
    assert_eq!(ckpt_sys::CKPT_DTYPE(2, 32), ckpt_sys::CKPT_DTYPE_F32);
}
