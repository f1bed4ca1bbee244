//! The documents are right: the README's program is the example, and each program that must not compile differs in one
//! line from one that does.

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

fn sources() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = std::fs::read_dir(folder).unwrap();
    files.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
}

/// The programs in a file's documents: whether each must not compile, and its lines.
fn programs(source: &str) -> Vec<(bool, Vec<&str>)> {
    let mut found: Vec<(bool, Vec<&str>)> = Vec::new();
    let mut inside = false;
    for line in source.lines().filter_map(|line| line.trim().strip_prefix("///").map(str::trim)) {
        match line.strip_prefix("```") {
            Some(kind) => {
                inside = !inside;
                if inside {
                    found.push((kind.starts_with("compile_fail"), Vec::new()));
                }
            }
            None if inside => found.last_mut().unwrap().1.push(line),
            None => {}
        }
    }
    found
}

/// Otherwise a renamed method would let it fail for another reason.
#[test]
fn what_must_not_compile_has_a_twin_that_does_and_differs_in_one_line() {
    let mut count = 0;
    for source in sources() {
        for pair in programs(&source).windows(2).filter(|pair| pair[0].0) {
            let [(_, wrong), (twin_is_wrong, twin)] = pair else { unreachable!() };
            let lacks = |a: &[&str], b: &[&str]| a.iter().filter(|line| !b.contains(line)).count();
            assert!(!twin_is_wrong && wrong != twin, "{wrong:#?}");
            assert!(lacks(wrong, twin) <= 1 && lacks(twin, wrong) <= 1, "{wrong:#?}\n{twin:#?}");
            count += 1;
        }
    }
    let all = sources().iter().map(|source| source.matches("```compile_fail").count()).sum::<usize>();
    assert!(count > 5 && count == all, "{count} twins of {all}");
}
