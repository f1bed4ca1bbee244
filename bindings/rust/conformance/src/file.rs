//! file.*: other people's files, opened in place.

use std::rc::Rc;

use ckpt::File;

use crate::line::{Command, Line, MORE, NOTHING, OPTIONS, PAIRS};
use crate::notation::{parse_unsigned, shape_text};
use crate::objects::{wrong, Object, Outcome, Runner};

fn open(runner: &mut Runner, line: &Line) -> Outcome {
    let file = File::open_with(runner.path(line.text(1)?), &line.settings()?)?;
    runner.put(&line.words[0], Object::File(Rc::new(file)));
    Ok(())
}

fn format(runner: &mut Runner, line: &Line) -> Outcome {
    let found = runner.file(&line.words[0])?.format();
    if found == line.name(1)? {
        Ok(())
    } else {
        wrong(format!("expected {}, found {found}", line.name(1)?))
    }
}

fn tensors(runner: &mut Runner, line: &Line) -> Outcome {
    let file = runner.file(&line.words[0])?;
    let names = file.tensors().map(|tensor| Ok(tensor?.name())).collect::<Outcome<Vec<_>>>()?;
    line.expect_list(1, &names)
}

fn tensor(runner: &mut Runner, line: &Line) -> Outcome {
    let found = runner.file(&line.words[0])?.tensor(parse_unsigned(line.name(1)?)?)?;
    let (alias_of, alias_offset) = found.alias_of().unwrap_or_default();
    line.expect_text("name", found.name())?;
    line.expect_dtype("dtype", found.dtype())?;
    line.expect_text("shape", &shape_text(found.shape()))?;
    line.expect_text("strides", &shape_text(found.strides()))?;
    line.expect_unsigned("bytes", found.bytes())?;
    line.expect_unsigned("data_bytes", found.data().len() as u64)?;
    line.expect_text("alias_of", alias_of)?;
    line.expect_unsigned("alias_offset", alias_offset)
}

fn read(runner: &mut Runner, line: &Line) -> Outcome {
    let copy = runner.file(&line.words[0])?.tensor(parse_unsigned(line.name(1)?)?)?.data().to_vec()?;
    runner.put_memory(&line.words[2], copy);
    Ok(())
}

fn tree(runner: &mut Runner, line: &Line) -> Outcome {
    let file = Rc::clone(runner.file(&line.words[0])?);
    file.tree()?;
    runner.put(&line.words[1], Object::FileTree(file));
    Ok(())
}

pub const COMMANDS: &[Command] = &[
    Command { name: "file.open", words: 2, takes: OPTIONS, run: open },
    Command { name: "file.format", words: 2, takes: NOTHING, run: format },
    Command { name: "file.tensors", words: 1, takes: MORE, run: tensors },
    Command { name: "file.tensor", words: 2, takes: PAIRS, run: tensor },
    Command { name: "file.read", words: 3, takes: NOTHING, run: read },
    Command { name: "file.tree", words: 2, takes: NOTHING, run: tree },
];
