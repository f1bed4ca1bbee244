//! tree.*: building a state tree, its text, and reading one node by node.

use std::cell::RefCell;

use ckpt::{KeyRef, Node, NodeKind, NodeValue, Tree};

use crate::call::{name_of, named, Call};
use crate::objects::{refused, wrong, Outcome, Runner};
use crate::Command;

pub fn put_tree(runner: &mut Runner, call: &Call, index: usize, tree: Tree) -> Outcome {
    runner.put(call, index, RefCell::new(tree))
}

fn json(runner: &mut Runner, call: &Call) -> Outcome {
    runner.with_tree(call, 0, |tree| call.expect_word(1, tree.json()?))
}

/// Adds one value or key.
fn add(runner: &Runner, call: &Call, add_to: impl FnOnce(&mut Tree) -> Outcome) -> Outcome {
    add_to(&mut runner.get::<RefCell<Tree>>(call, 0)?.borrow_mut())
}

fn tensor(runner: &mut Runner, call: &Call) -> Outcome {
    let name = call.key_text("name")?;
    call.expect("path", runner.get::<RefCell<Tree>>(call, 0)?.borrow_mut().add_tensor(name)?)
}

fn begin(runner: &mut Runner, call: &Call) -> Outcome {
    let kind = named(NodeKind, &call.text(1)?.to_uppercase())?;
    match call.key_text("class")? {
        None => add(runner, call, |tree| Ok(tree.begin(kind).map(drop)?)),
        Some(class) if kind == NodeKind::RECORD => add(runner, call, |tree| Ok(tree.begin_record(class).map(drop)?)),
        Some(_) => refused("only a record has a class", None),
    }
}

// ---- reading ----

fn expect_node(call: &Call, node: &Node<'_>) -> Outcome {
    let (key_kind, key, key_int) = match node.key() {
        None => ("none", "", 0),
        Some(KeyRef::Text(key)) => ("text", key, 0),
        Some(KeyRef::Int(key)) => ("int", "", key),
    };
    let (mut bool, mut int, mut float, mut text, mut bytes) = (false, 0, 0.0, "", None);
    match node.value() {
        NodeValue::Bool(value) => bool = value,
        NodeValue::Int(value) => int = value,
        NodeValue::Float(value) => float = value,
        NodeValue::BigInt(own) | NodeValue::Text(own) | NodeValue::Tensor(own) | NodeValue::Record(own) => text = own,
        NodeValue::Bytes(own) => bytes = Some(own),
        _ => {}
    }
    let link = |node: Option<u64>| node.map_or("-".to_owned(), |node| node.to_string());
    call.expect("kind", name_of(node.kind()).to_lowercase())?;
    call.expect("key_kind", key_kind)?;
    call.expect("key", key)?;
    call.expect("key_int", key_int)?;
    call.expect("bool", i32::from(bool))?;
    call.expect("int", int)?;
    call.expect_float("float", float)?;
    call.expect("text", text)?;
    if bytes.is_none() && call.key("bytes").is_some() {
        return wrong(format!("expected bytes, found {:?}", node.kind()));
    }
    call.expect_bytes("bytes", bytes.unwrap_or_default())?;
    call.expect("child_count", node.child_count())?;
    call.expect("first_child", link(node.first_child()))?;
    call.expect("next_sibling", link(node.next_sibling()))?;
    call.expect("parent", link(node.parent()))
}

fn native(runner: &mut Runner, call: &Call) -> Outcome {
    let value = runner.with_tree(call, 0, |tree| Ok(tree.to_value()?))?;
    put_tree(runner, call, 1, value.to_tree()?)
}

pub const COMMANDS: &[Command] = &[
    ("tree.new", |r, c| put_tree(r, c, 0, Tree::new()?)),
    ("tree.parse", |r, c| put_tree(r, c, 0, Tree::parse(&c.words[1])?)),
    ("tree.json", json),
    ("tree.key", |r, c| add(r, c, |tree| Ok(tree.key(c.text(1)?).map(drop)?))),
    ("tree.key_int", |r, c| add(r, c, |tree| Ok(tree.key(c.number::<i64>(1)?).map(drop)?))),
    ("tree.null", |r, c| add(r, c, |tree| Ok(tree.add_null().map(drop)?))),
    ("tree.bool", |r, c| add(r, c, |tree| Ok(tree.add_bool(c.number::<i64>(1)? != 0).map(drop)?))),
    ("tree.int", |r, c| add(r, c, |tree| Ok(tree.add_int(c.number(1)?).map(drop)?))),
    ("tree.bigint", |r, c| add(r, c, |tree| Ok(tree.add_bigint(c.text(1)?).map(drop)?))),
    ("tree.float", |r, c| add(r, c, |tree| Ok(tree.add_float(c.number(1)?).map(drop)?))),
    ("tree.text", |r, c| add(r, c, |tree| Ok(tree.add_text(c.text(1)?).map(drop)?))),
    ("tree.bytes", |r, c| add(r, c, |tree| Ok(tree.add_bytes(&c.words[1]).map(drop)?))),
    ("tree.tensor", tensor),
    ("tree.begin", begin),
    ("tree.end", |r, c| add(r, c, |tree| Ok(tree.end().map(drop)?))),
    ("tree.count", |r, c| r.with_tree(c, 0, |tree| c.expect_word(1, tree.node_count()))),
    ("tree.node", |r, c| r.with_tree(c, 0, |tree| expect_node(c, &tree.node(c.number(1)?)?))),
    ("tree.find", |r, c| r.with_tree(c, 0, |tree| c.expect_word(3, tree.find(c.number(1)?, c.text(2)?)?))),
    ("tree.find_int", |r, c| r.with_tree(c, 0, |tree| c.expect_word(3, tree.find(c.number(1)?, c.number::<i64>(2)?)?))),
    ("tree.native", native),
];
