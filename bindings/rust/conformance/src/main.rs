//! The conformance runner over crate `ckpt`; `tests/conformance/README.md` says what it reads and prints.

mod call;
mod keeper;
mod library;
mod load;
mod objects;
mod reader;
mod save;
mod store;
mod table;
mod tree;

use std::io::{self, BufRead, Write};
use std::time::Instant;

use call::{quoted, Call, Reply};
use objects::{wrong, Fail, Outcome, Runner};

type Command = (&'static str, fn(&mut Runner, &Call) -> Outcome<Reply>);

const COMMANDS: [&[Command]; 8] = [
    library::COMMANDS,
    store::COMMANDS,
    save::COMMANDS,
    reader::COMMANDS,
    load::COMMANDS,
    table::COMMANDS,
    tree::COMMANDS,
    keeper::COMMANDS,
];

fn carry_out(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let found = COMMANDS.into_iter().flatten().find(|(name, _)| *name == call.name);
    found.map_or_else(|| wrong("no such command"), |(_, run)| run(runner, call))
}

fn main() -> io::Result<()> {
    let (mut runner, mut out) = (Runner::default(), io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let (call, start) = (Call::parse(&line?), Instant::now());
        let outcome = carry_out(&mut runner, &call);
        let seconds = start.elapsed().as_secs_f64();
        let (status, fields) = match outcome {
            Ok(fields) => ("OK", fields),
            Err(Fail::Call(failure)) => (failure.status.name(), failure.fields()),
            Err(Fail::Wrong(why)) => ("-", vec![(None, why.into_bytes())]),
        };
        write!(out, "{} {seconds:.6} {status}", call.name)?;
        for (key, value) in fields {
            write!(out, " {}{}", key.map_or(String::new(), |key| key + "="), quoted(&value))?;
        }
        writeln!(out)?;
        out.flush()?;
    }
    Ok(())
}
