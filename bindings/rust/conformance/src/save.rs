//! save.*: one rank's share of a checkpoint.

use ckpt::{Device, Dtype, ObjectScope, Save, SharedMemory, TensorDesc};

use crate::line::{Command, Line, NOTHING, OPTIONS, PAIRS};
use crate::notation::{parse_device, parse_name, parse_region, parse_shape, parse_unsigned};
use crate::objects::{refused, wrong, JobObject, Object, Outcome, Runner};
use crate::store::parse_step;

pub const SCOPES: [(&str, i32); 2] = [("shared", ObjectScope::SHARED.0), ("per-rank", ObjectScope::PER_RANK.0)];

fn new(runner: &mut Runner, line: &Line) -> Outcome {
    let step = parse_step(line.name(3)?)?;
    let save = Save::new_with(runner.session(&line.words[1])?, line.text(2)?, step, &line.settings()?)?;
    runner.put(&line.words[0], Object::Save(save));
    Ok(())
}

fn tensor(runner: &mut Runner, line: &Line) -> Outcome {
    runner.save(&line.words[0])?;
    let memory = match line.words[4].as_slice() {
        [] => SharedMemory::from(Vec::<u8>::new()),
        name => runner.bytes(name)?.into(),
    };
    let name = line.text(1)?;
    let (desc, device) = (parse_region(line, name, 2, 3)?, parse_device(line)?);
    let save = runner.save_mut(&line.words[0])?;
    match device {
        None | Some(Device::CPU) => save.add_tensor_shared(name, &desc, memory)?,
        // No device is at hand, so there is no memory of one.
        // SAFETY: none of it is said to be there.
        Some(device) => unsafe { save.add_tensor_raw(name, &desc, std::ptr::null(), 0, device)? },
    }
    Ok(())
}

fn tensors(runner: &mut Runner, line: &Line) -> Outcome {
    let (count, prefix) = (parse_unsigned::<u64>(line.name(1)?)?, line.text(2)?);
    let memory = SharedMemory::from(runner.bytes(&line.words[5])?);
    let desc = parse_region(line, prefix, 3, 4)?;
    let save = runner.save_mut(&line.words[0])?;
    for index in 0..count {
        save.add_tensor_shared(&format!("{prefix}{index}"), &desc, memory.clone())?;
    }
    Ok(())
}

fn object(runner: &mut Runner, line: &Line) -> Outcome {
    let scope = ObjectScope(parse_name(&SCOPES, line.name(3)?)?);
    let data = runner.bytes(&line.words[4])?;
    Ok(runner.save_mut(&line.words[0])?.add_object(line.text(1)?, line.text(2)?, scope, &data)?)
}

fn alias(runner: &mut Runner, line: &Line) -> Outcome {
    let name = line.text(1)?;
    let [shape, strides, offset] = ["shape", "strides", "offset"].map(|key| line.value_text(key));
    let (shape, strides, offset) = (shape?, strides?, offset?);
    let mut view = None;
    if let Some(shape) = shape {
        let mut desc = TensorDesc::new(Dtype(0), &parse_shape(shape, Some(name))?);
        if let Some(strides) = strides {
            desc = desc.strides(&parse_shape(strides, Some(name))?);
        }
        if let Some(offset) = offset {
            let Ok(offset) = offset.parse() else { return refused("a negative offset", Some(name)) };
            desc = desc.view_offset(offset);
        }
        view = Some(desc);
    }
    Ok(runner.save_mut(&line.words[0])?.add_alias(name, line.text(2)?, view.as_ref())?)
}

fn attr(runner: &mut Runner, line: &Line) -> Outcome {
    let (key, value, tensor) = (line.text(1)?, line.text(2)?, line.value_text("tensor")?);
    let save = runner.save_mut(&line.words[0])?;
    match tensor {
        Some(tensor) => Ok(save.set_tensor_attr(tensor, key, value)?),
        None => Ok(save.set_attr(key, value)?),
    }
}

fn tree(runner: &mut Runner, line: &Line) -> Outcome {
    let name = line.value_text("name")?;
    runner.with_save_and_tree(&line.words[0], &line.words[1], |save, tree| Ok(save.add_tree(name, tree)?))
}

fn id(runner: &mut Runner, line: &Line) -> Outcome {
    let found = runner.save(&line.words[0])?.id()?;
    if found.as_bytes() == line.words[1] {
        Ok(())
    } else {
        wrong(format!("expected {}, found {found}", line.name(1)?))
    }
}

fn run(runner: &mut Runner, line: &Line) -> Outcome {
    Ok(runner.save_mut(&line.words[0])?.run()?)
}

fn start(runner: &mut Runner, line: &Line) -> Outcome {
    let job = runner.save_mut(&line.words[0])?.start()?;
    runner.put(&line.words[1], Object::Job(JobObject::Other(job)));
    Ok(())
}

fn start_in_place(runner: &mut Runner, line: &Line) -> Outcome {
    let job = runner.save_mut(&line.words[0])?.start_in_place()?;
    runner.put(&line.words[1], Object::Job(JobObject::Other(job)));
    Ok(())
}

pub const COMMANDS: &[Command] = &[
    Command { name: "save.new", words: 4, takes: OPTIONS, run: new },
    Command { name: "save.tensor", words: 5, takes: PAIRS, run: tensor },
    Command { name: "save.tensors", words: 6, takes: NOTHING, run: tensors },
    Command { name: "save.object", words: 5, takes: NOTHING, run: object },
    Command { name: "save.alias", words: 3, takes: PAIRS, run: alias },
    Command { name: "save.attr", words: 3, takes: PAIRS, run: attr },
    Command { name: "save.tree", words: 2, takes: PAIRS, run: tree },
    Command { name: "save.id", words: 2, takes: NOTHING, run: id },
    Command { name: "save.run", words: 1, takes: NOTHING, run },
    Command { name: "save.start", words: 2, takes: NOTHING, run: start },
    Command { name: "save.start_in_place", words: 2, takes: NOTHING, run: start_in_place },
];
