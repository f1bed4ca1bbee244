//! store.*: what a store holds, and what is done to it.

use ckpt::{CheckpointState, Store};

use crate::expect::CHECKPOINT_STATES;
use crate::line::{Command, Line, MORE, NOTHING, OPTIONS, PAIRS};
use crate::notation::{name_of, parse_int};
use crate::objects::{refused, Object, Outcome, Runner};

fn open(runner: &mut Runner, line: &Line) -> Outcome {
    let store = Store::open_with(line.text(1)?, &line.settings()?)?;
    runner.put(&line.words[0], Object::Store(store));
    Ok(())
}

fn list(runner: &mut Runner, line: &Line) -> Outcome {
    let mut found = Vec::new();
    for info in &runner.store(&line.words[0])?.list()? {
        let info = info?;
        if info.state() == CheckpointState::COMMITTED {
            found.push(info.id().to_owned());
        }
    }
    line.expect_list(1, &found)
}

fn states(runner: &mut Runner, line: &Line) -> Outcome {
    let mut found = Vec::new();
    for info in &runner.store(&line.words[0])?.list()? {
        let info = info?;
        found.push(format!("{}:{}", info.id(), name_of(&CHECKPOINT_STATES, info.state().0)));
    }
    line.expect_list(1, &found)
}

fn find(runner: &mut Runner, line: &Line) -> Outcome {
    let info = runner.store(&line.words[0])?.find_with(line.text(1)?, &line.settings()?)?;
    line.expect_checkpoint(&info)
}

fn remove(runner: &mut Runner, line: &Line) -> Outcome {
    Ok(runner.store(&line.words[0])?.remove(line.text(1)?)?)
}

fn prune(runner: &mut Runner, line: &Line) -> Outcome {
    let report = runner.store(&line.words[0])?.prune(&line.settings()?)?;
    runner.put(&line.words[1], Object::Report(report));
    Ok(())
}

fn repair(runner: &mut Runner, line: &Line) -> Outcome {
    let report = runner.store(&line.words[0])?.repair(line.text(1)?, &line.settings()?)?;
    runner.put(&line.words[2], Object::Report(report));
    Ok(())
}

/// -1 is none; what is below cannot be said in Rust.
pub fn parse_step(text: &str) -> Outcome<Option<u64>> {
    match parse_int(text)? {
        -1 => Ok(None),
        step => u64::try_from(step).map(Some).or_else(|_| refused(&format!("step {step}"), None)),
    }
}

fn import(runner: &mut Runner, line: &Line) -> Outcome {
    let (path, step) = (runner.path(line.text(1)?), parse_step(line.name(3)?)?);
    let info = runner.store(&line.words[0])?.import(path, line.text(2)?, step, &line.settings()?)?;
    line.expect_checkpoint(&info)
}

pub const COMMANDS: &[Command] = &[
    Command { name: "store.open", words: 2, takes: OPTIONS, run: open },
    Command { name: "store.list", words: 1, takes: MORE, run: list },
    Command { name: "store.states", words: 1, takes: MORE, run: states },
    Command { name: "store.find", words: 2, takes: PAIRS | OPTIONS, run: find },
    Command { name: "store.remove", words: 2, takes: NOTHING, run: remove },
    Command { name: "store.prune", words: 2, takes: OPTIONS, run: prune },
    Command { name: "store.repair", words: 3, takes: OPTIONS, run: repair },
    Command { name: "store.import", words: 4, takes: PAIRS | OPTIONS, run: import },
];
