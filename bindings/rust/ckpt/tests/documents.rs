//! What the documents say is so: the README's program is the example, and every function of the ABI is wrapped.

use std::collections::BTreeSet;
use std::path::Path;

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_first_program_of_the_readme_is_the_example_readme() {
    let readme = read("../README.md");
    let program = readme.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(program, read("examples/readme.rs"));
}

/// Names that begin like a function of the library.
fn names(text: &str) -> BTreeSet<&str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !word(c)).filter(|name| name.starts_with("ckpt_")).collect()
}

#[test]
fn every_function_of_the_library_is_wrapped_or_listed_with_a_reason() {
    let bindings = read("../ckpt-sys/src/bindings.rs");
    let functions = bindings.lines().filter_map(|line| line.trim().strip_prefix("pub fn ")?.split('(').next());
    let mut sources = String::new();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        sources += &std::fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    // A file of lines "ckpt_function  reason"; there is none while all are wrapped.
    let listed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../unwrapped.txt");
    let listed = std::fs::read_to_string(listed).unwrap_or_default();
    let (used, listed) = (names(&sources), names(&listed));
    let functions: BTreeSet<&str> = functions.collect();
    let missing: Vec<_> = functions.iter().filter(|name| !used.contains(**name) && !listed.contains(**name)).collect();
    assert!(functions.len() > 80 && missing.is_empty(), "{missing:?} of {}", functions.len());
    assert!(listed.iter().all(|name| functions.contains(name) && !used.contains(name)), "{listed:?}");
}
