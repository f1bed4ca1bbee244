//! save.*: one rank's share of a checkpoint.

use std::cell::{RefCell, RefMut};

use ckpt::{Dtype, ObjectScope, Save, Session, SharedMemory, TensorDesc};

use crate::call::{name_of, nothing, word, Call, Reply};
use crate::objects::{wrong, JobObject, Outcome, Runner};
use crate::store::step;
use crate::Command;

pub fn save<'r>(runner: &'r Runner, call: &Call) -> Outcome<RefMut<'r, Save<'static>>> {
    Ok(runner.get::<RefCell<Save<'static>>>(call, 0)?.borrow_mut())
}

fn new(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let made = Save::new_with(runner.get::<Session>(call, 1)?, call.text(2)?, step(call)?, &call.settings()?)?;
    runner.put(call, 0, RefCell::new(made))
}

fn tensor(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let (mut save, name) = (save(runner, call)?, call.text(1)?);
    let memory = match call.words[4].as_slice() {
        [] => SharedMemory::from(Vec::<u8>::new()),
        _ => runner.bytes(call, 4)?.into(),
    };
    let desc = call.tensor(name, 2)?;
    match call.device()? {
        None => nothing(save.add_tensor_shared(name, &desc, memory)?),
        // There is no device here, so this has no memory.
        // SAFETY: the memory has 0 bytes.
        Some(device) => nothing(unsafe { save.add_tensor_raw(name, &desc, std::ptr::null(), 0, device) }?),
    }
}

fn tensors(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let (mut save, prefix) = (save(runner, call)?, call.text(2)?);
    let (memory, desc) = (SharedMemory::from(runner.bytes(call, 5)?), call.tensor(prefix, 3)?);
    for index in 0..call.number(1)? {
        let index: u64 = index;
        save.add_tensor_shared(&format!("{prefix}{index}"), &desc, memory.clone())?;
    }
    nothing(())
}

pub fn scope_text(scope: ObjectScope) -> String {
    name_of(scope).to_lowercase().replace('_', "-")
}

fn object(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let scope =
        [ObjectScope::SHARED, ObjectScope::PER_RANK].into_iter().find(|s| call.words[3] == scope_text(*s).as_bytes());
    let Some(scope) = scope else { return wrong("expected shared or per-rank") };
    nothing(save(runner, call)?.add_object(call.text(1)?, call.text(2)?, scope, &runner.bytes(call, 4)?)?)
}

fn alias(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let name = call.text(1)?;
    let mut view = call.key_extents("shape", name)?.map(|shape| TensorDesc::new(Dtype(0), &shape));
    if let Some(strides) = call.key_extents("strides", name)? {
        view = view.map(|view| view.strides(&strides));
    }
    if let Some(offset) = call.key_extents("offset", name)? {
        view = view.map(|view| view.view_offset(offset[0]));
    }
    nothing(save(runner, call)?.add_alias(name, call.text(2)?, view.as_ref())?)
}

fn attr(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let (mut save, key, value) = (save(runner, call)?, call.text(1)?, call.text(2)?);
    match call.key_text("tensor")? {
        Some(tensor) => nothing(save.set_tensor_attr(tensor, key, value)?),
        None => nothing(save.set_attr(key, value)?),
    }
}

fn tree(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let (mut save, name) = (save(runner, call)?, call.key_text("name")?);
    runner.with_tree(call, 1, |tree| nothing(save.add_tree(name, tree)?))
}

pub const COMMANDS: &[Command] = &[
    ("save.new", new),
    ("save.tensor", tensor),
    ("save.tensors", tensors),
    ("save.object", object),
    ("save.alias", alias),
    ("save.attr", attr),
    ("save.tree", tree),
    ("save.id", |r, c| word(save(r, c)?.id()?)),
    ("save.run", |r, c| nothing(save(r, c)?.run()?)),
    ("save.start", |r, c| {
        let job = save(r, c)?.start()?;
        r.put(c, 1, JobObject::Other(job))
    }),
    ("save.start_in_place", |r, c| {
        let job = save(r, c)?.start_in_place()?;
        r.put(c, 1, JobObject::Other(job))
    }),
    ("save.give_up", |r, c| nothing(save(r, c)?.give_up(c.text(1)?)?)),
    ("save.report", |r, c| {
        let report = save(r, c)?.report()?;
        r.put(c, 1, report)
    }),
];
