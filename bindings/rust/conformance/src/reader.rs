//! reader.*: what is done with a committed checkpoint as a whole; `content.rs` looks at what is in it.

use ckpt::Reader;

use crate::line::{Command, Line, NOTHING, OPTIONS, PAIRS};
use crate::objects::{JobObject, Object, Outcome, Runner};

fn open(runner: &mut Runner, line: &Line) -> Outcome {
    let reader = Reader::open_with(runner.store(&line.words[1])?, line.text(2)?, &line.settings()?)?;
    runner.put(&line.words[0], Object::Reader(reader));
    Ok(())
}

fn info(runner: &mut Runner, line: &Line) -> Outcome {
    line.expect_checkpoint(&runner.reader(&line.words[0])?.info()?)
}

fn map(runner: &mut Runner, line: &Line) -> Outcome {
    let copy = runner.reader(&line.words[0])?.map(line.text(1)?, &line.settings()?)?.to_vec()?;
    runner.put_memory(&line.words[2], copy);
    Ok(())
}

fn verify(runner: &mut Runner, line: &Line) -> Outcome {
    let job = runner.reader(&line.words[0])?.verify(&line.settings()?)?;
    runner.put(&line.words[1], Object::Job(JobObject::Other(job)));
    Ok(())
}

fn diff(runner: &mut Runner, line: &Line) -> Outcome {
    let (a, b) = (runner.reader(&line.words[0])?, runner.reader(&line.words[1])?);
    let report = a.diff(b, &line.settings()?)?;
    runner.put(&line.words[2], Object::Report(report));
    Ok(())
}

fn tree(runner: &mut Runner, line: &Line) -> Outcome {
    let tree = runner.reader(&line.words[0])?.tree(line.value_text("name")?)?;
    runner.put(&line.words[1], Object::Tree(tree));
    Ok(())
}

fn export(runner: &mut Runner, line: &Line) -> Outcome {
    let path = runner.path(line.text(1)?);
    Ok(runner.reader(&line.words[0])?.export(path, &line.settings()?)?)
}

pub const COMMANDS: &[Command] = &[
    Command { name: "reader.open", words: 3, takes: OPTIONS, run: open },
    Command { name: "reader.info", words: 1, takes: PAIRS, run: info },
    Command { name: "reader.map", words: 3, takes: OPTIONS, run: map },
    Command { name: "reader.verify", words: 2, takes: OPTIONS, run: verify },
    Command { name: "reader.diff", words: 3, takes: OPTIONS, run: diff },
    Command { name: "reader.tree", words: 2, takes: PAIRS, run: tree },
    Command { name: "reader.export", words: 2, takes: OPTIONS | NOTHING, run: export },
];
