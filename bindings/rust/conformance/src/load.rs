//! load.*: requests that are planned and read together.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;

use ckpt::{Load, Reader, Slot};

use crate::call::{nothing, Call, Reply};
use crate::objects::{give_back, Bytes, JobObject, LoadObject, Memory, Outcome, Runner};
use crate::Command;

pub fn load<'r>(runner: &'r Runner, call: &Call) -> Outcome<RefMut<'r, LoadObject>> {
    Ok(runner.get::<RefCell<LoadObject>>(call, 0)?.borrow_mut())
}

fn new(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let load = Load::new_with(runner.get::<Reader>(call, 1)?, &call.settings()?)?;
    runner.put(call, 0, RefCell::new(LoadObject { load, lent: Vec::new() }))
}

/// Moves the memory of this name into the load, unless it is there already.
pub fn lend(runner: &Runner, call: &Call, name: &[u8]) -> Outcome<Slot<u8>> {
    let memory = runner.get_named::<Memory>(name)?;
    if let Some((_, slot)) = load(runner, call)?.lent.iter().find(|(own, _)| Rc::ptr_eq(own, memory)) {
        return Ok(*slot);
    }
    // Moved if nobody shares it; a save that still has it keeps the old bytes.
    let bytes = runner.bytes_named(name)?;
    *memory.borrow_mut() = Bytes::Lent;
    let mut object = load(runner, call)?;
    let slot = object.load.hold(Arc::unwrap_or_clone(bytes));
    object.lent.push((Rc::clone(memory), slot));
    Ok(slot)
}

fn tensor(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    load(runner, call)?;
    let name = call.text(1)?;
    let slot = if call.words[4].is_empty() { None } else { Some(lend(runner, call, &call.words[4])?) };
    let mut desc = call.tensor(name, 2)?;
    if call.key_numbers("convert")?.is_some_and(|convert| convert != [0]) {
        desc = desc.convert();
    }
    let load = &mut load(runner, call)?.load;
    match (call.device()?, slot) {
        (None, Some(slot)) => nothing(load.add_tensor_into(name, &desc, slot, ..)?),
        (None, None) => nothing(load.add_tensor::<u8>(name, &desc, &mut [])?),
        // There is no device here, so this has no memory.
        // SAFETY: the memory has 0 bytes.
        (Some(device), _) => nothing(unsafe { load.add_tensor_raw(name, &desc, std::ptr::null_mut(), 0, device) }?),
    }
}

fn tensors(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let (prefix, slot) = (call.text(2)?, lend(runner, call, &call.words[5])?);
    let (desc, mut load) = (call.tensor(prefix, 3)?, load(runner, call)?);
    for index in 0..call.number(1)? {
        let index: u64 = index;
        load.load.add_tensor_into(&format!("{prefix}{index}"), &desc, slot, ..)?;
    }
    nothing(())
}

fn object(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let slot = lend(runner, call, &call.words[3])?;
    nothing(load(runner, call)?.load.add_object_into(call.text(1)?, call.number(2)?, slot, ..)?)
}

/// After a run the scenario has its memory again.
fn run(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let mut object = load(runner, call)?;
    let result = object.load.run();
    let buffers = object.load.take_buffers();
    give_back(buffers, &std::mem::take(&mut object.lent));
    nothing(result?)
}

fn start(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let mut object = load(runner, call)?;
    let (job, lent) = (object.load.start()?, std::mem::take(&mut object.lent));
    drop(object);
    runner.put(call, 1, JobObject::Load { job: Some(job), lent })
}

pub const COMMANDS: &[Command] = &[
    ("load.new", new),
    ("load.tensor", tensor),
    ("load.tensors", tensors),
    ("load.object", object),
    ("load.run", run),
    ("load.start", start),
    ("load.report", |r, c| {
        let report = load(r, c)?.load.report()?;
        r.put(c, 1, report)
    }),
];
