//! keeper.*: when a training saves, what is kept, and what it starts from.

use std::cell::{RefCell, RefMut};

use ckpt::{Error, Keeper, Numbers, Reader, Session, Status, Store, Todo, Votes};

use crate::call::{field, name_of, named, nothing, word, words, Call, Reply};
use crate::objects::{refused, wrong, Outcome, Runner};
use crate::Command;

fn keeper<'r>(runner: &'r Runner, call: &Call) -> Outcome<RefMut<'r, Keeper>> {
    Ok(runner.get::<RefCell<Keeper>>(call, 0)?.borrow_mut())
}

fn new(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let made = Keeper::new(runner.get::<Store>(call, 1)?, call.number(2)?, call.number(3)?, &call.settings()?)?;
    runner.put(call, 0, RefCell::new(made))
}

fn tell(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let (mut keeper, name, value) = (keeper(runner, call)?, call.text(2)?, call.number(3)?);
    match call.text(1)? {
        "counter" => nothing(keeper.tell_counter(name, value)?),
        "metric" => nothing(keeper.tell_metric(name, value)?),
        other => wrong(format!("expected counter or metric, found {other}")),
    }
}

/// Rust's types cannot express a negative one.
fn step(call: &Call) -> Outcome<u64> {
    let step: i64 = call.number(1)?;
    step.try_into().or_else(|_| refused(&format!("step {step}"), None))
}

fn what(todo: Todo) -> Outcome<Reply> {
    word(name_of(todo).to_lowercase())
}

fn decide(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let mut votes = Votes::default();
    for (index, vote) in votes.iter_mut().enumerate() {
        *vote = call.number(1 + index)?;
    }
    what(keeper(runner, call)?.decide(Some(&votes))?)
}

fn begin(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let label = Some(call.text(3)?).filter(|label| !label.is_empty());
    let mut keeper = runner.get::<RefCell<Keeper>>(call, 1)?.borrow_mut();
    let plan = match call.key("from") {
        Some(other) => runner.get_named::<RefCell<Keeper>>(other)?.borrow_mut().plan(label)?,
        None => keeper.plan(label)?,
    };
    let made = keeper.save(runner.get::<Session>(call, 2)?, &plan, &call.settings()?)?;
    drop(keeper);
    let Some(save) = made else { return word(0) };
    runner.put(call, 0, RefCell::new(save))?;
    word(1)
}

fn number(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let keeper = keeper(runner, call)?;
    let all: Numbers = if call.text(1)? == "metric" { keeper.metrics() } else { keeper.counters() };
    let (name, value) = all.into_iter().nth(call.number(2)?).unwrap_or_default();
    Ok(vec![field("name", name), field("value", value)])
}

pub const COMMANDS: &[Command] = &[
    ("keeper.new", new),
    ("keeper.tell", tell),
    ("keeper.step", |r, c| words(keeper(r, c)?.step(step(c)?, c.number::<u8>(2)? != 0)?)),
    ("keeper.note", |r, c| nothing(keeper(r, c)?.at_step(step(c)?)?)),
    ("keeper.decide", decide),
    ("keeper.decide_alone", |r, c| what(keeper(r, c)?.decide(None)?)),
    ("keeper.needs_votes", |r, c| word(u8::from(keeper(r, c)?.needs_votes()))),
    ("keeper.stop", |r, c| {
        keeper(r, c)?.stop(c.number(1)?);
        nothing(())
    }),
    ("keeper.catch", |r, c| nothing(keeper(r, c)?.catch(c.number(1)?)?)),
    ("keeper.stopping", |r, c| word(keeper(r, c)?.stopping().unwrap_or_default())),
    ("keeper.warning", |r, c| word(keeper(r, c)?.warning().unwrap_or_default())),
    ("keeper.begin", begin),
    ("keeper.saved", |r, c| word(keeper(r, c)?.saved().unwrap_or_default())),
    ("keeper.find", |r, c| word(keeper(r, c)?.find(c.text(1)?)?.unwrap_or_default())),
    ("keeper.pass_over", |r, c| nothing(keeper(r, c)?.pass_over(&Error::new(named(Status, c.text(1)?)?, "damaged"))?)),
    ("keeper.restored", |r, c| nothing(keeper(r, c)?.restored(r.get::<Reader>(c, 1)?)?)),
    ("keeper.number", number),
];
