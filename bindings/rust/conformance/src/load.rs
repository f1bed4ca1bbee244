//! load.*: requests that are planned and read together.

use std::rc::Rc;

use ckpt::{Device, Load, Slot};

use crate::line::{Command, Line, NOTHING, OPTIONS, PAIRS};
use crate::notation::{parse_device, parse_int, parse_region, parse_unsigned};
use crate::objects::{give_back, Bytes, JobObject, LoadObject, Object, Outcome, Runner};

fn new(runner: &mut Runner, line: &Line) -> Outcome {
    let load = Load::new_with(runner.reader(&line.words[1])?, &line.settings()?)?;
    runner.put(&line.words[0], Object::Load(Box::new(LoadObject { load, lent: Vec::new() })));
    Ok(())
}

/// Moves a memory into the load, where it is not there yet.
fn lend(runner: &mut Runner, load: &[u8], name: &[u8]) -> Outcome<Slot<u8>> {
    let memory = Rc::clone(runner.memory(name)?);
    let lent = &runner.load(load)?.lent;
    if let Some((_, slot)) = lent.iter().find(|(own, _)| Rc::ptr_eq(own, &memory)) {
        return Ok(*slot);
    }
    let bytes = match runner.bytes(name) {
        // Moved where nobody shares it; a save that still has it keeps the old bytes.
        Ok(bytes) => {
            *memory.borrow_mut() = Bytes::Lent;
            std::sync::Arc::unwrap_or_clone(bytes)
        }
        Err(fail) => return Err(fail),
    };
    let object = runner.load_mut(load)?;
    let slot = object.load.hold(bytes);
    object.lent.push((memory, slot));
    Ok(slot)
}

/// Memory that a load has once it ran is the scenario's again.
fn settle(object: &mut LoadObject) {
    let buffers = object.load.take_buffers();
    give_back(buffers, &object.lent);
    object.lent.clear();
}

fn tensor(runner: &mut Runner, line: &Line) -> Outcome {
    runner.load(&line.words[0])?;
    let name = line.text(1)?;
    let slot = if line.words[4].is_empty() { None } else { Some(lend(runner, &line.words[0], &line.words[4])?) };
    let (mut desc, device) = (parse_region(line, name, 2, 3)?, parse_device(line)?);
    if line.value_text("convert")?.map(parse_int).transpose()?.unwrap_or(0) != 0 {
        desc = desc.convert();
    }
    let load = &mut runner.load_mut(&line.words[0])?.load;
    match (device, slot) {
        (None | Some(Device::CPU), Some(slot)) => Ok(load.add_tensor_into(name, &desc, slot, ..)?),
        (None | Some(Device::CPU), None) => Ok(load.add_tensor::<u8>(name, &desc, &mut [])?),
        // No device is at hand, so there is no memory of one.
        // SAFETY: none of it is said to be there.
        (Some(device), _) => Ok(unsafe { load.add_tensor_raw(name, &desc, std::ptr::null_mut(), 0, device) }?),
    }
}

fn tensors(runner: &mut Runner, line: &Line) -> Outcome {
    let (count, prefix) = (parse_unsigned::<u64>(line.name(1)?)?, line.text(2)?);
    let slot = lend(runner, &line.words[0], &line.words[5])?;
    let desc = parse_region(line, prefix, 3, 4)?;
    let load = &mut runner.load_mut(&line.words[0])?.load;
    for index in 0..count {
        load.add_tensor_into(&format!("{prefix}{index}"), &desc, slot, ..)?;
    }
    Ok(())
}

fn object(runner: &mut Runner, line: &Line) -> Outcome {
    let slot = lend(runner, &line.words[0], &line.words[3])?;
    let rank = parse_unsigned(line.name(2)?)?;
    Ok(runner.load_mut(&line.words[0])?.load.add_object_into(line.text(1)?, rank, slot, ..)?)
}

fn run(runner: &mut Runner, line: &Line) -> Outcome {
    let object = runner.load_mut(&line.words[0])?;
    let result = object.load.run();
    settle(object);
    Ok(result?)
}

fn start(runner: &mut Runner, line: &Line) -> Outcome {
    let object = runner.load_mut(&line.words[0])?;
    let job = object.load.start()?;
    let lent = std::mem::take(&mut object.lent);
    runner.put(&line.words[1], Object::Job(JobObject::Load { job: Some(job), lent }));
    Ok(())
}

fn report(runner: &mut Runner, line: &Line) -> Outcome {
    let report = runner.load(&line.words[0])?.load.report()?;
    runner.put(&line.words[1], Object::Report(report));
    Ok(())
}

pub const COMMANDS: &[Command] = &[
    Command { name: "load.new", words: 2, takes: OPTIONS, run: new },
    Command { name: "load.tensor", words: 5, takes: PAIRS, run: tensor },
    Command { name: "load.tensors", words: 6, takes: NOTHING, run: tensors },
    Command { name: "load.object", words: 4, takes: NOTHING, run: object },
    Command { name: "load.run", words: 1, takes: NOTHING, run },
    Command { name: "load.start", words: 2, takes: NOTHING, run: start },
    Command { name: "load.report", words: 2, takes: NOTHING, run: report },
];
