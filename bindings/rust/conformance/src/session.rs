//! session.*: ranks, and the string by which they find each other.

use std::path::Path;
use std::time::Duration;

use ckpt::Session;

use crate::line::{Command, Line, NOTHING, OPTIONS, PAIRS};
use crate::notation::parse_unsigned;
use crate::objects::{wrong, Object, Outcome, Runner};

/// The file appears complete, so what is there is all of it.
fn read_string(path: &Path) -> Outcome<String> {
    for _ in 0..6000 {
        if let Ok(text) = std::fs::read_to_string(path) {
            return Ok(text);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    wrong(format!("expected a file {} within 60 s, found none", path.display()))
}

fn open(runner: &mut Runner, line: &Line) -> Outcome {
    let (rank, world) = (parse_unsigned(line.name(2)?)?, parse_unsigned(line.name(3)?)?);
    let mut string = match line.value("string") {
        Some(other) => Some(runner.session(other)?.string()?.to_owned()),
        None => None,
    };
    if let Some(file) = line.value_text("file")? {
        string = Some(read_string(&runner.path(file))?);
    }
    let store = runner.store(&line.words[1])?;
    let session = Session::open_rank(store, rank, world, string.as_deref(), &line.settings()?)?;
    runner.put(&line.words[0], Object::Session(session));
    Ok(())
}

fn string(runner: &mut Runner, line: &Line) -> Outcome {
    let path = runner.path(line.name(1)?);
    let mut aside = path.clone().into_os_string();
    aside.push(".aside");
    let written = std::fs::write(&aside, runner.session(&line.words[0])?.string()?);
    let done = written.and_then(|()| std::fs::rename(&aside, &path));
    done.or_else(|error| wrong(format!("expected to write {}, found: {error}", path.display())))
}

pub const COMMANDS: &[Command] = &[
    Command { name: "session.open", words: 4, takes: PAIRS | OPTIONS, run: open },
    Command { name: "session.string", words: 2, takes: NOTHING, run: string },
];
