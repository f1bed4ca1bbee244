//! tree.*: building a state tree, and its text; `node.rs` reads one.

use ckpt::{NodeKind, Tree};

use crate::line::{Command, Line, NOTHING, PAIRS};
use crate::notation::{parse_float, parse_hex, parse_int, parse_name};
use crate::objects::{refused, wrong, Object, Outcome, Runner};

pub const KINDS: [(&str, i32); 13] = [
    ("null", NodeKind::NULL.0),
    ("bool", NodeKind::BOOL.0),
    ("int", NodeKind::INT.0),
    ("bigint", NodeKind::BIGINT.0),
    ("float", NodeKind::FLOAT.0),
    ("text", NodeKind::TEXT.0),
    ("bytes", NodeKind::BYTES.0),
    ("tensor", NodeKind::TENSOR.0),
    ("list", NodeKind::LIST.0),
    ("tuple", NodeKind::TUPLE.0),
    ("set", NodeKind::SET.0),
    ("dict", NodeKind::DICT.0),
    ("record", NodeKind::RECORD.0),
];

fn new(runner: &mut Runner, line: &Line) -> Outcome {
    runner.put(&line.words[0], Object::Tree(Tree::new()?));
    Ok(())
}

fn parse(runner: &mut Runner, line: &Line) -> Outcome {
    runner.put(&line.words[0], Object::Tree(Tree::parse(&line.words[1])?));
    Ok(())
}

fn json(runner: &mut Runner, line: &Line) -> Outcome {
    runner.with_tree(&line.words[0], |tree| match tree.json()? {
        found if found.as_bytes() == line.words[1] => Ok(()),
        found => wrong(format!("expected {}, found {found}", String::from_utf8_lossy(&line.words[1]))),
    })
}

/// One value or key more.
fn add(runner: &mut Runner, line: &Line, call: impl FnOnce(&mut Tree) -> Outcome) -> Outcome {
    call(runner.tree_mut(&line.words[0])?)
}

fn key(runner: &mut Runner, line: &Line) -> Outcome {
    let key = line.text(1)?;
    add(runner, line, |tree| Ok(tree.key(key).map(drop)?))
}

fn key_int(runner: &mut Runner, line: &Line) -> Outcome {
    let key = parse_int(line.name(1)?)?;
    add(runner, line, |tree| Ok(tree.key(key).map(drop)?))
}

fn null(runner: &mut Runner, line: &Line) -> Outcome {
    add(runner, line, |tree| Ok(tree.add_null().map(drop)?))
}

fn bool(runner: &mut Runner, line: &Line) -> Outcome {
    let value = parse_int(line.name(1)?)? != 0;
    add(runner, line, |tree| Ok(tree.add_bool(value).map(drop)?))
}

fn int(runner: &mut Runner, line: &Line) -> Outcome {
    let value = parse_int(line.name(1)?)?;
    add(runner, line, |tree| Ok(tree.add_int(value).map(drop)?))
}

fn bigint(runner: &mut Runner, line: &Line) -> Outcome {
    let digits = line.text(1)?;
    add(runner, line, |tree| Ok(tree.add_bigint(digits).map(drop)?))
}

fn float(runner: &mut Runner, line: &Line) -> Outcome {
    let value = parse_float(line.name(1)?)?;
    add(runner, line, |tree| Ok(tree.add_float(value).map(drop)?))
}

fn text(runner: &mut Runner, line: &Line) -> Outcome {
    let text = line.text(1)?;
    add(runner, line, |tree| Ok(tree.add_text(text).map(drop)?))
}

fn bytes(runner: &mut Runner, line: &Line) -> Outcome {
    let bytes = parse_hex(line.name(1)?)?;
    add(runner, line, |tree| Ok(tree.add_bytes(&bytes).map(drop)?))
}

fn tensor(runner: &mut Runner, line: &Line) -> Outcome {
    let name = line.value_text("name")?;
    let path = runner.tree_mut(&line.words[0])?.add_tensor(name)?;
    line.expect_text("path", path)
}

fn begin(runner: &mut Runner, line: &Line) -> Outcome {
    let kind = NodeKind(parse_name(&KINDS, line.name(1)?)?);
    match line.value_text("class")? {
        None => add(runner, line, |tree| Ok(tree.begin(kind).map(drop)?)),
        Some(class) if kind == NodeKind::RECORD => add(runner, line, |tree| Ok(tree.begin_record(class).map(drop)?)),
        Some(_) => refused("only a record has a class", None),
    }
}

fn end(runner: &mut Runner, line: &Line) -> Outcome {
    add(runner, line, |tree| Ok(tree.end().map(drop)?))
}

pub const COMMANDS: &[Command] = &[
    Command { name: "tree.new", words: 1, takes: NOTHING, run: new },
    Command { name: "tree.parse", words: 2, takes: NOTHING, run: parse },
    Command { name: "tree.json", words: 2, takes: NOTHING, run: json },
    Command { name: "tree.key", words: 2, takes: NOTHING, run: key },
    Command { name: "tree.key_int", words: 2, takes: NOTHING, run: key_int },
    Command { name: "tree.null", words: 1, takes: NOTHING, run: null },
    Command { name: "tree.bool", words: 2, takes: NOTHING, run: bool },
    Command { name: "tree.int", words: 2, takes: NOTHING, run: int },
    Command { name: "tree.bigint", words: 2, takes: NOTHING, run: bigint },
    Command { name: "tree.float", words: 2, takes: NOTHING, run: float },
    Command { name: "tree.text", words: 2, takes: NOTHING, run: text },
    Command { name: "tree.bytes", words: 2, takes: NOTHING, run: bytes },
    Command { name: "tree.tensor", words: 1, takes: PAIRS, run: tensor },
    Command { name: "tree.begin", words: 2, takes: PAIRS, run: begin },
    Command { name: "tree.end", words: 1, takes: NOTHING, run: end },
];
