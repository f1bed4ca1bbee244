//! store.* and session.*: what a store holds, and how ranks find each other.

use std::path::Path;
use std::time::Duration;

use ckpt::{CheckpointState, Session, Store};

use crate::call::{name_of, Call};
use crate::objects::{refused, wrong, JobObject, Outcome, Runner};
use crate::Command;

fn list(runner: &mut Runner, call: &Call) -> Outcome {
    let mut found = Vec::new();
    for info in &runner.get::<Store>(call, 0)?.list()? {
        let info = info?;
        if info.state() == CheckpointState::COMMITTED {
            found.push(info.id().to_owned());
        }
    }
    call.expect_words(1, found)
}

fn states(runner: &mut Runner, call: &Call) -> Outcome {
    let mut found = Vec::new();
    for info in &runner.get::<Store>(call, 0)?.list()? {
        let info = info?;
        found.push(format!("{}:{}", info.id(), name_of(info.state())));
    }
    call.expect_words(1, found)
}

fn runs(runner: &mut Runner, call: &Call) -> Outcome {
    let found = runner.get::<Store>(call, 0)?.runs()?.into_iter().map(|run| {
        let step = run.newest_step.map_or("-1".to_owned(), |step| step.to_string());
        let (id, label) = (run.newest_id.unwrap_or_default(), run.newest_label.unwrap_or_default());
        format!("{}:{}:{}:{step}:{id}:{label}", run.name, run.token, run.checkpoint_count)
    });
    call.expect_words(1, found)
}

/// -1 is none; Rust's types cannot express lower numbers.
pub fn step(call: &Call) -> Outcome<Option<u64>> {
    match call.number(3)? {
        -1 => Ok(None),
        step => u64::try_from(step).map(Some).or_else(|_| refused(&format!("step {step}"), None)),
    }
}

fn import(runner: &mut Runner, call: &Call) -> Outcome {
    let store = runner.get::<Store>(call, 0)?;
    call.expect_checkpoint(&store.import(call.text(1)?, call.text(2)?, step(call)?, &runner.settings(call)?)?)
}

/// The file appears complete: there is nothing to wait for once it exists.
fn read_string(path: &Path) -> Outcome<String> {
    for _ in 0..6000 {
        if let Ok(text) = std::fs::read_to_string(path) {
            return Ok(text);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    wrong(format!("expected a file {} within 60 s, found none", path.display()))
}

fn session_open(runner: &mut Runner, call: &Call) -> Outcome {
    let other = call.key("string").map(|other| runner.get_named::<Session>(&other.value)).transpose()?;
    let mut string = other.map(|other| other.string().map(str::to_owned)).transpose()?;
    if let Some(file) = call.key_text("file")? {
        string = Some(read_string(file.as_ref())?);
    }
    let (store, settings) = (runner.get::<Store>(call, 1)?, runner.settings(call)?);
    let session = Session::open_rank(store, call.number(2)?, call.number(3)?, string.as_deref(), &settings)?;
    runner.put(call, 0, session)
}

fn session_string(runner: &mut Runner, call: &Call) -> Outcome {
    let (path, aside) = (call.text(1)?, format!("{}.aside", call.text(1)?));
    let written = std::fs::write(&aside, runner.get::<Session>(call, 0)?.string()?);
    let done = written.and_then(|()| std::fs::rename(&aside, path));
    done.or_else(|error| wrong(format!("expected to write {path}, found: {error}")))
}

pub const COMMANDS: &[Command] = &[
    ("store.open", |r, c| r.put(c, 0, Store::open_with(c.text(1)?, &c.settings()?)?)),
    ("store.list", list),
    ("store.states", states),
    ("store.runs", runs),
    ("store.find", |r, c| c.expect_checkpoint(&r.get::<Store>(c, 0)?.find_with(c.text(1)?, &c.settings()?)?)),
    ("store.remove", |r, c| Ok(r.get::<Store>(c, 0)?.remove(c.text(1)?)?)),
    ("store.prune", |r, c| r.put(c, 1, r.get::<Store>(c, 0)?.prune(&r.settings(c)?)?)),
    ("store.repair", |r, c| r.put(c, 2, r.get::<Store>(c, 0)?.repair(c.text(1)?, &r.settings(c)?)?)),
    ("store.import", import),
    ("session.open", session_open),
    ("session.mirror", |r, c| r.put(c, 1, JobObject::Other(r.get::<Session>(c, 0)?.mirror()?))),
    ("session.string", session_string),
];
