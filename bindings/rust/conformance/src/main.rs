//! The conformance runner over crate `ckpt`; what a runner is says `tests/conformance/README.md`.
//!
//! `ckpt-conformance SCENARIO DIR [NAME=VALUE…]`, or `ckpt-conformance --commands`.

mod content;
mod expect;
mod file;
mod job;
mod library;
mod line;
mod load;
mod memory;
mod node;
mod notation;
mod objects;
mod reader;
mod save;
mod session;
mod store;
mod tree;

use std::process::ExitCode;
use std::time::Instant;

use line::{Command, Line, PAIRS};
use objects::{Fail, Failure, Outcome, Runner};

const SUBJECTS: [&[Command]; 13] = [
    library::COMMANDS,
    memory::COMMANDS,
    store::COMMANDS,
    session::COMMANDS,
    save::COMMANDS,
    job::COMMANDS,
    reader::COMMANDS,
    content::COMMANDS,
    load::COMMANDS,
    tree::COMMANDS,
    node::COMMANDS,
    file::COMMANDS,
    &[Command { name: "timed", words: 0, takes: PAIRS, run: timed_again }],
];

fn timed_again(_: &mut Runner, _: &Line) -> Outcome {
    objects::wrong("expected a command, found timed again")
}

fn command_named(name: &str) -> Option<&'static Command> {
    SUBJECTS.iter().copied().flatten().find(|command| command.name == name)
}

/// Whether the call came to what the line says.
fn check_outcome(line: &Line, outcome: Outcome) -> Result<(), String> {
    match (outcome, &line.status) {
        (Err(Fail::Wrong(why)), _) => Err(why),
        (Ok(()), None) => match line.unused_pair() {
            None => Ok(()),
            Some(key) => Err(format!("expected a key of this command, found {key}")),
        },
        (Ok(()), Some(status)) => Err(format!("expected {status}, found OK")),
        (Err(Fail::Call(found)), None) => Err(format!("expected OK, found {}: {}", found.status.name(), found.message)),
        (Err(Fail::Call(found)), Some(status)) => {
            if found.status.name() != status {
                return Err(format!("expected {status}, found {}: {}", found.status.name(), found.message));
            }
            line.details.iter().try_for_each(|detail| check_detail(&found, detail))
        }
    }
}

fn check_detail(found: &Failure, detail: &line::Pair) -> Result<(), String> {
    let (value, wanted) = (found.fact(&detail.key), String::from_utf8_lossy(&detail.value));
    let right = if detail.contains { value.contains(&*wanted) } else { value == wanted };
    if right {
        return Ok(());
    }
    let sign = if detail.contains { '~' } else { '=' };
    Err(format!("expected {}{sign}{wanted}, found '{value}'", detail.key))
}

/// Whether the line held a command.
fn run_line(runner: &mut Runner, text: &str) -> Result<bool, (String, String)> {
    let at = |command: &str| {
        let command = command.to_owned();
        move |why| (command, why)
    };
    let Some(line) = line::parse(runner, text, command_named)? else {
        return Ok(false);
    };
    let start = Instant::now();
    let outcome = (line.command.run)(runner, &line);
    if let Some(timed) = &line.timed {
        println!("{:.6} {timed}", start.elapsed().as_secs_f64());
    }
    check_outcome(&line, outcome).map_err(at(line.command.name))?;
    Ok(true)
}

fn run_scenario(scenario: &str, runner: &mut Runner) -> Result<usize, String> {
    let text = std::fs::read(scenario).map_err(|error| format!("{scenario}:0: scenario: {error}"))?;
    let text = String::from_utf8_lossy(&text);
    let mut count = 0;
    for (number, line) in text.lines().enumerate() {
        let done = run_line(runner, line);
        count += usize::from(done.map_err(|(command, why)| format!("{scenario}:{}: {command}: {why}", number + 1))?);
    }
    Ok(count)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--commands"] {
        let mut names: Vec<_> = SUBJECTS.iter().copied().flatten().map(|command| command.name).collect();
        names.sort_unstable();
        println!("{}", names.join("\n"));
        return ExitCode::SUCCESS;
    }
    let [scenario, directory, variables @ ..] = arguments.as_slice() else {
        eprintln!("usage: ckpt-conformance SCENARIO DIR [NAME=VALUE…] | --commands");
        return ExitCode::from(2);
    };
    let outcome = Runner::new(directory, variables).and_then(|mut runner| run_scenario(scenario, &mut runner));
    match outcome {
        Ok(count) => {
            println!("ok {count}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
