//! file.*: other people's files, opened in place.

use std::cell::{Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use ckpt::File;

use crate::call::{dtype_text, shape_text, Call};
use crate::objects::{Bytes, FileObject, FileTree, Memory, Outcome, Runner};
use crate::Command;

fn file<'r>(runner: &'r Runner, call: &Call) -> Outcome<Ref<'r, File>> {
    Ok(runner.get::<FileObject>(call, 0)?.borrow())
}

fn tensors(runner: &mut Runner, call: &Call) -> Outcome {
    let file = file(runner, call)?;
    let names = file.tensors().map(|tensor| Ok(tensor?.name())).collect::<Outcome<Vec<_>>>()?;
    call.expect_words(1, names)
}

fn tensor(runner: &mut Runner, call: &Call) -> Outcome {
    let file = file(runner, call)?;
    let found = file.tensor(call.number(1)?)?;
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

/// Into memory of the scenario; a save that still has it keeps the old bytes.
fn read(runner: &mut Runner, call: &Call) -> Outcome {
    let (index, desc) = (call.number(1)?, call.tensor("", 2)?);
    let mut file = runner.get::<FileObject>(call, 0)?.borrow_mut();
    if call.words[4].is_empty() {
        return Ok(file.read::<u8>(index, &desc, &mut [])?);
    }
    let mut bytes = runner.bytes(call, 4)?;
    let memory = runner.get::<Memory>(call, 4)?;
    *memory.borrow_mut() = Bytes::Lent;
    let result = file.read(index, &desc, Arc::make_mut(&mut bytes).as_mut_slice());
    *memory.borrow_mut() = Bytes::Here(bytes);
    Ok(result?)
}

fn tree(runner: &mut Runner, call: &Call) -> Outcome {
    let file = Rc::clone(runner.get::<FileObject>(call, 0)?);
    file.borrow().tree()?;
    runner.put(call, 1, FileTree(file))
}

pub const COMMANDS: &[Command] = &[
    ("file.open", |r, c| {
        let file: FileObject = Rc::new(RefCell::new(File::open_with(c.text(1)?, &c.settings()?)?));
        r.put(c, 0, file)
    }),
    ("file.format", |r, c| {
        let file = file(r, c)?;
        assert!(file.left_out().is_empty(), "nothing lies beside a file");
        c.expect_word(1, file.format())
    }),
    ("file.tensors", tensors),
    ("file.tensor", tensor),
    ("file.data", |r, c| {
        let bytes = file(r, c)?.tensor(c.number(1)?)?.data().to_vec()?;
        r.put_memory(c, 2, bytes)
    }),
    ("file.read", read),
    ("file.tree", tree),
];
