//! The conformance runner over crate `ckpt`; `tests/conformance/README.md` describes runners.
//!
//! `ckpt-conformance TOKENS`, or `ckpt-conformance --commands`.

mod call;
mod file;
mod job;
mod library;
mod load;
mod memory;
mod objects;
mod reader;
mod save;
mod store;
mod table;
mod tree;

use std::process::ExitCode;
use std::time::Instant;

use call::{Call, Token};
use objects::{wrong, Fail, Outcome, Runner};

type Command = (&'static str, fn(&mut Runner, &Call) -> Outcome);

fn commands() -> impl Iterator<Item = &'static Command> {
    [
        library::COMMANDS,
        memory::COMMANDS,
        store::COMMANDS,
        save::COMMANDS,
        job::COMMANDS,
        reader::COMMANDS,
        load::COMMANDS,
        table::COMMANDS,
        tree::COMMANDS,
        file::COMMANDS,
    ]
    .into_iter()
    .flatten()
}

/// The first token, and what follows it.
fn split_token(text: &[u8]) -> Option<(Token, &[u8])> {
    let (kind, rest) = text.split_first()?;
    let blank = rest.iter().position(|byte| *byte == b' ')?;
    let size: usize = std::str::from_utf8(&rest[..blank]).ok()?.parse().ok()?;
    let value = rest.get(blank + 1..blank + 1 + size)?;
    Some((Token::new(*kind, value), rest.get(blank + size + 2..)?))
}

/// The next command, and what follows it; `None` at the end.
fn split_call(mut text: &[u8]) -> Option<(Call, &[u8])> {
    let mut call = Call::default();
    loop {
        let (token, rest) = split_token(text)?;
        text = rest;
        match token.kind {
            b'.' => return Some((call, text)),
            b':' => call.at = token.text(),
            b'c' | b't' => (call.name, call.timed) = (token.text(), token.kind == b't'),
            b'w' => call.words.push(token.value),
            b'!' => call.status = Some(token.text()),
            b'i' | b's' => call.options.push(token),
            b'=' | b'>' => call.keys.push(token),
            _ => call.details.push(token),
        }
    }
}

fn check_outcome(call: &Call, outcome: Outcome) -> Outcome {
    let (found, failure) = match outcome {
        Err(Fail::Wrong(why)) => return wrong(why),
        Err(Fail::Call(failure)) => (failure.status.name(), Some(failure)),
        Ok(()) => ("OK", None),
    };
    let wanted = call.status.as_deref().unwrap_or("OK");
    let message = failure.as_ref().map_or("", |failure| &failure.message);
    if found != wanted {
        return wrong(format!("expected {wanted}, found {found}: {message}"));
    }
    for detail in &call.details {
        let (value, wanted) = (failure.as_ref().map_or("", |failure| failure.fact(&detail.key)), detail.text());
        let right = if detail.kind == b'~' { value.contains(&wanted) } else { value == wanted };
        if !right {
            return wrong(format!("expected {} {} '{wanted}', found '{value}'", detail.key, detail.kind as char));
        }
    }
    Ok(())
}

fn carry_out(runner: &mut Runner, call: &Call) -> Outcome {
    let Some((_, run)) = commands().find(|(name, _)| *name == call.name) else {
        return wrong("expected a command, found none");
    };
    let start = Instant::now();
    let outcome = run(runner, call);
    if call.timed {
        println!("{:.6} {}", start.elapsed().as_secs_f64(), call.name);
    }
    check_outcome(call, outcome)
}

fn run(mut text: &[u8]) -> Result<usize, String> {
    let (mut runner, mut count) = (Runner::default(), 0);
    while let Some((call, rest)) = split_call(text) {
        if let Err(Fail::Wrong(why)) = carry_out(&mut runner, &call) {
            return Err(format!("{}: {why}", call.at));
        }
        (text, count) = (rest, count + 1);
    }
    Ok(count)
}

fn main() -> ExitCode {
    let Some(given) = std::env::args().nth(1) else {
        eprintln!("usage: ckpt-conformance TOKENS | --commands");
        return ExitCode::from(2);
    };
    if given == "--commands" {
        let mut names: Vec<_> = commands().map(|(name, _)| *name).collect();
        names.sort_unstable();
        println!("{}", names.join("\n"));
        return ExitCode::SUCCESS;
    }
    match std::fs::read(&given).map_err(|error| format!("{given}: {error}")).and_then(|text| run(&text)) {
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
