//! reader.*: a committed checkpoint as a whole, and what it holds.

use ckpt::{Reader, SegmentRegion, Store};

use crate::call::{dtype_text, shape_text, Call};
use crate::objects::{wrong, JobObject, Outcome, Runner};
use crate::save::scope_text;
use crate::tree::put_tree;
use crate::Command;

fn reader<'r>(runner: &'r Runner, call: &Call) -> Outcome<&'r Reader> {
    runner.get(call, 0)
}

fn copy(runner: &mut Runner, call: &Call) -> Outcome {
    let report = reader(runner, call)?.copy(runner.get(call, 1)?, &runner.settings(call)?)?;
    runner.put(call, 2, report)
}

fn diff(runner: &mut Runner, call: &Call) -> Outcome {
    let report = reader(runner, call)?.diff(runner.get(call, 1)?, &runner.settings(call)?)?;
    runner.put(call, 2, report)
}

fn tensors(runner: &mut Runner, call: &Call) -> Outcome {
    let names = reader(runner, call)?.tensors().map(|info| Ok(info?.name())).collect::<Outcome<Vec<_>>>()?;
    call.expect_words(1, names)
}

fn tensor(runner: &mut Runner, call: &Call) -> Outcome {
    let info = reader(runner, call)?.tensor(call.text(1)?)?;
    call.expect_word(1, info.name())?;
    call.expect("dtype", dtype_text(info.dtype()))?;
    call.expect("shape", shape_text(info.shape()))?;
    call.expect("bytes", info.bytes())?;
    call.expect("stored_bytes", info.stored_bytes())?;
    call.expect("segment_count", info.segment_count())?;
    call.expect("alias_of", info.alias_of().unwrap_or_default())
}

fn alias(runner: &mut Runner, call: &Call) -> Outcome {
    let info = reader(runner, call)?.alias(call.text(1)?)?;
    call.expect("shape", shape_text(&info.shape))?;
    call.expect("strides", shape_text(&info.strides))?;
    call.expect("offset", info.offset)?;
    call.expect("dtype", dtype_text(info.dtype))
}

fn segment(runner: &mut Runner, call: &Call) -> Outcome {
    let info = reader(runner, call)?.segment(call.text(1)?, call.number(2)?)?;
    let (boxed, flat) = match &info.region {
        SegmentRegion::Box { offset, extent } => {
            (format!("{}:{}", shape_text(offset), shape_text(extent)), String::new())
        }
        SegmentRegion::Flat { offset, size } => (String::new(), format!("{offset}:{size}")),
        other => return wrong(format!("expected a box or a flat range, found {other:?}")),
    };
    call.expect("box", boxed)?;
    call.expect("flat", flat)?;
    call.expect("part", info.part)?;
    call.expect("codec", info.codec)?;
    call.expect("filter", info.filter)?;
    call.expect("chunk_count", info.chunk_count)?;
    call.expect("stored_bytes", info.stored_bytes)
}

fn objects(runner: &mut Runner, call: &Call) -> Outcome {
    let mut found = Vec::new();
    for info in reader(runner, call)?.objects() {
        let info = info?;
        found.push(format!("{}:{}", info.name(), info.rank().map_or("-".to_owned(), |rank| rank.to_string())));
    }
    call.expect_words(1, found)
}

fn object(runner: &mut Runner, call: &Call) -> Outcome {
    let info = reader(runner, call)?.object(call.text(1)?, call.number(2)?)?;
    call.expect("scope", scope_text(info.scope()))?;
    call.expect("rank", info.rank().unwrap_or(0))?;
    call.expect("size", info.size())?;
    call.expect("media_type", info.media_type())
}

fn part(runner: &mut Runner, call: &Call) -> Outcome {
    let info = reader(runner, call)?.part(call.number(1)?)?;
    call.expect("name", &info.name)?;
    call.expect("rank", info.rank)
}

fn attrs(runner: &mut Runner, call: &Call) -> Outcome {
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
    call.expect_words(2, found)
}

fn attr(runner: &mut Runner, call: &Call) -> Outcome {
    let reader = reader(runner, call)?;
    let found = match call.key_text("tensor")? {
        Some(tensor) => reader.tensor_attr(tensor, call.text(1)?)?,
        None => reader.attr(call.text(1)?)?,
    };
    call.expect_word(2, found.unwrap_or_default())
}

pub const COMMANDS: &[Command] = &[
    ("reader.open", |r, c| r.put(c, 0, Reader::open_with(r.get::<Store>(c, 1)?, c.text(2)?, &c.settings()?)?)),
    ("reader.info", |r, c| c.expect_checkpoint(&reader(r, c)?.info()?)),
    ("reader.report", |r, c| r.put(c, 1, reader(r, c)?.report()?)),
    ("reader.map", |r, c| r.put_memory(c, 2, reader(r, c)?.map(c.text(1)?, &c.settings()?)?.to_vec()?)),
    ("reader.verify", |r, c| r.put(c, 1, JobObject::Other(reader(r, c)?.verify(&c.settings()?)?))),
    ("reader.copy", copy),
    ("reader.diff", diff),
    ("reader.tree", |r, c| {
        let name = c.key_text("name")?;
        let made = match c.key_numbers("rank")? {
            Some(rank) => reader(r, c)?.tree_of_rank(name, rank[0] as u32)?,
            None => reader(r, c)?.tree(name)?,
        };
        put_tree(r, c, 1, made)
    }),
    ("reader.export", |r, c| Ok(reader(r, c)?.export(c.text(1)?, &r.settings(c)?)?)),
    ("reader.tensors", tensors),
    ("reader.tensor", tensor),
    ("reader.alias", alias),
    ("reader.segment", segment),
    ("reader.objects", objects),
    ("reader.object", object),
    ("reader.part", part),
    ("reader.attrs", attrs),
    ("reader.attr", attr),
];
