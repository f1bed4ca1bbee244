//! reader.*: the tensors, objects, parts and attributes of a checkpoint.

use ckpt::SegmentRegion;

use crate::line::{Command, Line, MORE, PAIRS};
use crate::notation::{parse_unsigned, shape_text};
use crate::objects::{wrong, Outcome, Runner};
use crate::save::SCOPES;

fn tensors(runner: &mut Runner, line: &Line) -> Outcome {
    let reader = runner.reader(&line.words[0])?;
    let names = reader.tensors().map(|info| Ok(info?.name())).collect::<Outcome<Vec<_>>>()?;
    line.expect_list(1, &names)
}

fn tensor(runner: &mut Runner, line: &Line) -> Outcome {
    let info = runner.reader(&line.words[0])?.tensor(line.text(1)?)?;
    if info.name().as_bytes() != line.words[1] {
        return wrong(format!("expected {}, found {}", line.name(1)?, info.name()));
    }
    line.expect_dtype("dtype", info.dtype())?;
    line.expect_text("shape", &shape_text(info.shape()))?;
    line.expect_unsigned("bytes", info.bytes())?;
    line.expect_unsigned("stored_bytes", info.stored_bytes())?;
    line.expect_unsigned("segment_count", info.segment_count())?;
    line.expect_text("alias_of", info.alias_of().unwrap_or_default())
}

fn alias(runner: &mut Runner, line: &Line) -> Outcome {
    let info = runner.reader(&line.words[0])?.alias(line.text(1)?)?;
    line.expect_text("shape", &shape_text(&info.shape))?;
    line.expect_text("strides", &shape_text(&info.strides))?;
    line.expect_unsigned("offset", info.offset)?;
    line.expect_dtype("dtype", info.dtype)
}

fn segment(runner: &mut Runner, line: &Line) -> Outcome {
    let info = runner.reader(&line.words[0])?.segment(line.text(1)?, parse_unsigned(line.name(2)?)?)?;
    let (boxed, flat) = match &info.region {
        SegmentRegion::Box { offset, extent } => {
            (format!("{}:{}", shape_text(offset), shape_text(extent)), String::new())
        }
        SegmentRegion::Flat { offset, size } => (String::new(), format!("{offset}:{size}")),
        other => return wrong(format!("expected a box or a flat range, found {other:?}")),
    };
    line.expect_text("box", &boxed)?;
    line.expect_text("flat", &flat)?;
    line.expect_unsigned("part", info.part)?;
    line.expect_int("codec", info.codec.into())?;
    line.expect_int("filter", info.filter.into())?;
    line.expect_unsigned("chunk_count", info.chunk_count)?;
    line.expect_unsigned("stored_bytes", info.stored_bytes)
}

fn objects(runner: &mut Runner, line: &Line) -> Outcome {
    let mut found = Vec::new();
    for info in runner.reader(&line.words[0])?.objects() {
        let info = info?;
        found.push(format!("{}:{}", info.name(), info.rank().map_or("-".to_owned(), |rank| rank.to_string())));
    }
    line.expect_list(1, &found)
}

fn object(runner: &mut Runner, line: &Line) -> Outcome {
    let info = runner.reader(&line.words[0])?.object(line.text(1)?, parse_unsigned(line.name(2)?)?)?;
    line.expect_name("scope", &SCOPES, info.scope().0)?;
    line.expect_unsigned("rank", info.rank().unwrap_or(0))?;
    line.expect_unsigned("size", info.size())?;
    line.expect_text("media_type", info.media_type())
}

fn part(runner: &mut Runner, line: &Line) -> Outcome {
    let info = runner.reader(&line.words[0])?.part(parse_unsigned(line.name(1)?)?)?;
    line.expect_text("name", &info.name)?;
    line.expect_unsigned("rank", info.rank)
}

fn attrs(runner: &mut Runner, line: &Line) -> Outcome {
    let reader = runner.reader(&line.words[0])?;
    let tensor = line.words.get(1).and_then(|word| word.strip_prefix(b"tensor:"));
    let (first, attrs) = match tensor {
        Some(_) => (2, reader.tensor_attrs(&line.text(1)?["tensor:".len()..])?),
        None => (1, reader.attrs()),
    };
    let mut found = Vec::new();
    for attr in attrs {
        let (key, value) = attr?;
        found.push(format!("{key}={value}"));
    }
    line.expect_list(first, &found)
}

fn attr(runner: &mut Runner, line: &Line) -> Outcome {
    let reader = runner.reader(&line.words[0])?;
    let found = match line.value_text("tensor")? {
        Some(tensor) => reader.tensor_attr(tensor, line.text(1)?)?,
        None => reader.attr(line.text(1)?)?,
    };
    let found = found.unwrap_or_default();
    if found.as_bytes() == line.words[2] {
        return Ok(());
    }
    wrong(format!("expected '{}', found '{found}'", line.name(2)?))
}

pub const COMMANDS: &[Command] = &[
    Command { name: "reader.tensors", words: 1, takes: MORE, run: tensors },
    Command { name: "reader.tensor", words: 2, takes: PAIRS, run: tensor },
    Command { name: "reader.alias", words: 2, takes: PAIRS, run: alias },
    Command { name: "reader.segment", words: 3, takes: PAIRS, run: segment },
    Command { name: "reader.objects", words: 1, takes: MORE, run: objects },
    Command { name: "reader.object", words: 3, takes: PAIRS, run: object },
    Command { name: "reader.part", words: 2, takes: PAIRS, run: part },
    Command { name: "reader.attrs", words: 1, takes: MORE, run: attrs },
    Command { name: "reader.attr", words: 3, takes: PAIRS, run: attr },
];
