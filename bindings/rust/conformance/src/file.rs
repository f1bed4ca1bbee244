//! file.*: other people's files, opened in place.

use std::rc::Rc;

use ckpt::File;

use crate::call::{dtype_text, shape_text, Call};
use crate::objects::{FileTree, Outcome, Runner};
use crate::Command;

fn file<'r>(runner: &'r Runner, call: &Call) -> Outcome<&'r Rc<File>> {
    runner.get(call, 0)
}

fn tensors(runner: &mut Runner, call: &Call) -> Outcome {
    let names = file(runner, call)?.tensors().map(|tensor| Ok(tensor?.name())).collect::<Outcome<Vec<_>>>()?;
    call.expect_words(1, names)
}

fn tensor(runner: &mut Runner, call: &Call) -> Outcome {
    let found = file(runner, call)?.tensor(call.number(1)?)?;
    let (alias_of, alias_offset) = found.alias_of().unwrap_or_default();
    call.expect("name", found.name())?;
    call.expect("dtype", dtype_text(found.dtype()))?;
    call.expect("shape", shape_text(found.shape()))?;
    call.expect("strides", shape_text(found.strides()))?;
    call.expect("bytes", found.bytes())?;
    call.expect("data_bytes", found.data().len())?;
    call.expect("alias_of", alias_of)?;
    call.expect("alias_offset", alias_offset)
}

fn tree(runner: &mut Runner, call: &Call) -> Outcome {
    let file = Rc::clone(file(runner, call)?);
    file.tree()?;
    runner.put(call, 1, FileTree(file))
}

pub const COMMANDS: &[Command] = &[
    ("file.open", |r, c| r.put(c, 0, Rc::new(File::open_with(c.text(1)?, &c.settings()?)?))),
    ("file.format", |r, c| c.expect_word(1, file(r, c)?.format())),
    ("file.tensors", tensors),
    ("file.tensor", tensor),
    ("file.read", |r, c| r.put_memory(c, 2, file(r, c)?.tensor(c.number(1)?)?.data().to_vec()?)),
    ("file.tree", tree),
];
