//! reader.* and file.*: a committed checkpoint, and other people's files, opened in place.

use std::cell::{Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use ckpt::{File, Reader, SegmentRegion, Store};

use crate::call::{dtype_text, nothing, shape_text, word, words, Call, Reply};
use crate::objects::{wrong, Bytes, FileObject, FileTree, JobObject, Memory, Outcome, Runner};
use crate::save::scope_text;
use crate::store::checkpoint;
use crate::tree::put_tree;
use crate::{record, Command};

fn reader<'r>(runner: &'r Runner, call: &Call) -> Outcome<&'r Reader> {
    runner.get(call, 0)
}

fn tensor(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let info = reader(runner, call)?.tensor(call.text(1)?)?;
    Ok(record!(info: name bytes stored_bytes segment_count; dtype = dtype_text(info.dtype()),
        shape = shape_text(info.shape()), alias_of = info.alias_of().unwrap_or_default()))
}

fn alias(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let info = reader(runner, call)?.alias(call.text(1)?)?;
    Ok(record!(.info: offset; shape = shape_text(&info.shape), strides = shape_text(&info.strides),
        dtype = dtype_text(info.dtype)))
}

fn segment(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let info = reader(runner, call)?.segment(call.text(1)?, call.number(2)?)?;
    let (boxed, flat) = match &info.region {
        SegmentRegion::Box { offset, extent } => {
            (format!("{}:{}", shape_text(offset), shape_text(extent)), String::new())
        }
        SegmentRegion::Flat { offset, size } => (String::new(), format!("{offset}:{size}")),
        other => return wrong(format!("expected a box or a flat range, found {other:?}")),
    };
    let mut said = record!(.info: part codec filter chunk_count stored_bytes; flat = flat);
    said.push(crate::call::field("box", boxed));
    Ok(said)
}

fn objects(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let mut found = Vec::new();
    for info in reader(runner, call)?.objects() {
        let info = info?;
        found.push(format!("{}:{}", info.name(), info.rank().map_or("-".to_owned(), |rank| rank.to_string())));
    }
    words(found)
}

fn object(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let info = reader(runner, call)?.object(call.text(1)?, call.number(2)?)?;
    Ok(record!(info: name size media_type; scope = scope_text(info.scope()), rank = info.rank().unwrap_or(0)))
}

fn part(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let info = reader(runner, call)?.part(call.number(1)?)?;
    Ok(record!(.info: name rank;))
}

fn attrs(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let reader = reader(runner, call)?;
    let attrs = match call.text(1)? {
        "" => reader.attrs(),
        tensor => reader.tensor_attrs(tensor)?,
    };
    let mut found = Vec::new();
    for attr in attrs {
        let (key, value) = attr?;
        found.push(format!("{key}={value}"));
    }
    words(found)
}

fn attr(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let reader = reader(runner, call)?;
    let found = match call.key_text("tensor")? {
        Some(tensor) => reader.tensor_attr(tensor, call.text(1)?)?,
        None => reader.attr(call.text(1)?)?,
    };
    word(found.unwrap_or_default())
}

fn tree(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let name = call.key_text("name")?;
    let made = match call.key_numbers("rank")? {
        Some(rank) => reader(runner, call)?.tree_of_rank(name, rank[0] as u32)?,
        None => reader(runner, call)?.tree(name)?,
    };
    put_tree(runner, call, 1, made)
}

// ---- files ----

fn file<'r>(runner: &'r Runner, call: &Call) -> Outcome<Ref<'r, File>> {
    Ok(runner.get::<FileObject>(call, 0)?.borrow())
}

fn file_tensor(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let file = file(runner, call)?;
    let found = file.tensor(call.number(1)?)?;
    let (alias_of, alias_offset) = found.alias_of().unwrap_or_default();
    Ok(record!(found: name bytes; dtype = dtype_text(found.dtype()), shape = shape_text(found.shape()),
        strides = shape_text(found.strides()), data_bytes = found.data().len(), alias_of = alias_of,
        alias_offset = alias_offset))
}

/// Into memory of the scenario; a save that still has it keeps the old bytes.
fn file_read(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let (index, desc) = (call.number(1)?, call.tensor("", 2)?);
    let mut file = runner.get::<FileObject>(call, 0)?.borrow_mut();
    if call.words[4].is_empty() {
        return nothing(file.read::<u8>(index, &desc, &mut [])?);
    }
    let mut bytes = runner.bytes(call, 4)?;
    let memory = runner.get::<Memory>(call, 4)?;
    *memory.borrow_mut() = Bytes::Lent;
    let result = file.read(index, &desc, Arc::make_mut(&mut bytes).as_mut_slice());
    *memory.borrow_mut() = Bytes::Here(bytes);
    nothing(result?)
}

fn file_tree(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let file = Rc::clone(runner.get::<FileObject>(call, 0)?);
    file.borrow().tree()?;
    runner.put(call, 1, FileTree(file))
}

pub const COMMANDS: &[Command] = &[
    ("reader.open", |r, c| r.put(c, 0, Reader::open_with(r.get::<Store>(c, 1)?, c.text(2)?, &c.settings()?)?)),
    ("reader.info", |r, c| checkpoint(&reader(r, c)?.info()?)),
    ("reader.report", |r, c| r.put(c, 1, reader(r, c)?.report()?)),
    ("reader.map", |r, c| r.put_memory(c, 2, reader(r, c)?.map(c.text(1)?, &c.settings()?)?.to_vec()?)),
    ("reader.verify", |r, c| r.put(c, 1, JobObject::Other(reader(r, c)?.verify(&c.settings()?)?))),
    ("reader.copy", |r, c| r.put(c, 2, reader(r, c)?.copy(r.get(c, 1)?, &r.settings(c)?)?)),
    ("reader.diff", |r, c| r.put(c, 2, reader(r, c)?.diff(r.get(c, 1)?, &r.settings(c)?)?)),
    ("reader.tree", tree),
    ("reader.export", |r, c| nothing(reader(r, c)?.export(c.text(1)?, &r.settings(c)?)?)),
    ("reader.tensors", |r, c| {
        words(reader(r, c)?.tensors().map(|info| Ok(info?.name())).collect::<Outcome<Vec<_>>>()?)
    }),
    ("reader.tensor", tensor),
    ("reader.alias", alias),
    ("reader.segment", segment),
    ("reader.objects", objects),
    ("reader.object", object),
    ("reader.part", part),
    ("reader.attrs", attrs),
    ("reader.attr", attr),
    ("file.open", |r, c| {
        let file: FileObject = Rc::new(RefCell::new(File::open_with(c.text(1)?, &c.settings()?)?));
        r.put(c, 0, file)
    }),
    ("file.format", |r, c| {
        let file = file(r, c)?;
        words(std::iter::once(file.format().to_string()).chain(file.left_out().iter().map(|word| word.to_string())))
    }),
    ("file.tensors", |r, c| {
        words(file(r, c)?.tensors().map(|tensor| Ok(tensor?.name())).collect::<Outcome<Vec<_>>>()?)
    }),
    ("file.tensor", file_tensor),
    ("file.data", |r, c| {
        let bytes = file(r, c)?.tensor(c.number(1)?)?.data().to_vec()?;
        r.put_memory(c, 2, bytes)
    }),
    ("file.read", file_read),
    ("file.tree", file_tree),
];
