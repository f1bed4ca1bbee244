//! tree.*: reading a state tree node by node, and as a value of Rust's own.

use ckpt::{KeyRef, Node, NodeValue};

use crate::line::{Command, Line, NOTHING, PAIRS};
use crate::notation::{parse_hex, parse_int, parse_unsigned};
use crate::objects::{wrong, Object, Outcome, Runner};
use crate::tree::KINDS;

fn count(runner: &mut Runner, line: &Line) -> Outcome {
    let found = runner.with_tree(&line.words[0], |tree| Ok(tree.node_count()))?;
    if found == parse_unsigned::<u64>(line.name(1)?)? {
        return Ok(());
    }
    wrong(format!("expected {} nodes, found {found}", line.name(1)?))
}

fn expect_link(line: &Line, key: &str, found: Option<u64>) -> Outcome {
    match line.value_text(key)? {
        Some("-") if found.is_none() => Ok(()),
        Some(wanted) if wanted == "-" || Some(parse_unsigned(wanted)?) != found => {
            wrong(format!("expected {key}={wanted}, found {found:?}"))
        }
        _ => Ok(()),
    }
}

fn expect_node(line: &Line, node: &Node<'_>) -> Outcome {
    let (key_kind, key, key_int) = match node.key() {
        None => (0, "", 0),
        Some(KeyRef::Text(key)) => (1, key, 0),
        Some(KeyRef::Int(key)) => (2, "", key),
    };
    let (mut bool, mut int, mut float, mut text, mut bytes) = (0, 0, 0.0, "", None);
    match node.value() {
        NodeValue::Bool(value) => bool = value.into(),
        NodeValue::Int(value) => int = value,
        NodeValue::Float(value) => float = value,
        NodeValue::BigInt(own) | NodeValue::Text(own) | NodeValue::Tensor(own) | NodeValue::Record(own) => text = own,
        NodeValue::Bytes(own) => bytes = Some(own),
        _ => {}
    }
    line.expect_name("kind", &KINDS, node.kind().0)?;
    line.expect_name("key_kind", &[("none", 0), ("text", 1), ("int", 2)], key_kind)?;
    line.expect_text("key", key)?;
    line.expect_int("key_int", key_int)?;
    line.expect_int("bool", bool)?;
    line.expect_int("int", int)?;
    line.expect_float("float", float)?;
    line.expect_text("text", text)?;
    if let Some(wanted) = line.value_text("bytes")? {
        if bytes != Some(parse_hex(wanted)?.as_slice()) {
            return wrong(format!("expected bytes {wanted}, found {bytes:02x?}"));
        }
    }
    line.expect_unsigned("child_count", node.child_count())?;
    expect_link(line, "first_child", node.first_child())?;
    expect_link(line, "next_sibling", node.next_sibling())?;
    expect_link(line, "parent", node.parent())
}

fn node(runner: &mut Runner, line: &Line) -> Outcome {
    let index = parse_unsigned(line.name(1)?)?;
    runner.with_tree(&line.words[0], |tree| expect_node(line, &tree.node(index)?))
}

fn expect_found(line: &Line, found: u64) -> Outcome {
    if found == parse_unsigned::<u64>(line.name(3)?)? {
        return Ok(());
    }
    wrong(format!("expected node {}, found {found}", line.name(3)?))
}

fn find(runner: &mut Runner, line: &Line) -> Outcome {
    let (parent, key) = (parse_unsigned(line.name(1)?)?, line.text(2)?);
    expect_found(line, runner.with_tree(&line.words[0], |tree| Ok(tree.find(parent, key)?))?)
}

fn find_int(runner: &mut Runner, line: &Line) -> Outcome {
    let (parent, key) = (parse_unsigned(line.name(1)?)?, parse_int(line.name(2)?)?);
    expect_found(line, runner.with_tree(&line.words[0], |tree| Ok(tree.find(parent, key)?))?)
}

fn native(runner: &mut Runner, line: &Line) -> Outcome {
    let value = runner.with_tree(&line.words[0], |tree| Ok(tree.to_value()?))?;
    runner.put(&line.words[1], Object::Tree(value.to_tree()?));
    Ok(())
}

pub const COMMANDS: &[Command] = &[
    Command { name: "tree.count", words: 2, takes: NOTHING, run: count },
    Command { name: "tree.node", words: 2, takes: PAIRS, run: node },
    Command { name: "tree.find", words: 4, takes: NOTHING, run: find },
    Command { name: "tree.find_int", words: 4, takes: NOTHING, run: find_int },
    Command { name: "tree.native", words: 2, takes: NOTHING, run: native },
];
