//! tree.*: building a state tree, its text, and reading one node by node.

use std::cell::RefCell;

use ckpt::{KeyRef, Node, NodeKind, NodeValue, Tree};

use crate::call::{field, name_of, named, nothing, word, Call, Reply};
use crate::objects::{refused, Outcome, Runner};
use crate::{record, Command};

pub fn put_tree(runner: &mut Runner, call: &Call, index: usize, tree: Tree) -> Outcome<Reply> {
    runner.put(call, index, RefCell::new(tree))
}

/// Adds one value or key.
fn add(runner: &Runner, call: &Call, add_to: impl FnOnce(&mut Tree) -> Outcome) -> Outcome<Reply> {
    nothing(add_to(&mut runner.get::<RefCell<Tree>>(call, 0)?.borrow_mut())?)
}

fn tensor(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let name = call.key_text("name")?;
    Ok(vec![field("path", runner.get::<RefCell<Tree>>(call, 0)?.borrow_mut().add_tensor(name)?)])
}

fn begin(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let kind = named(NodeKind, &call.text(1)?.to_uppercase())?;
    match call.key_text("class")? {
        None => add(runner, call, |tree| Ok(tree.begin(kind).map(drop)?)),
        Some(class) if kind == NodeKind::RECORD => add(runner, call, |tree| Ok(tree.begin_record(class).map(drop)?)),
        Some(_) => refused("only a record has a class", None),
    }
}

// ---- reading ----

fn node_record(node: &Node<'_>) -> Reply {
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
    let mut said = record!(node: child_count; kind = name_of(node.kind()), key_kind = key_kind, key = key,
        key_int = key_int, bool = u8::from(bool), int = int, float = float, text = text,
        first_child = link(node.first_child()), next_sibling = link(node.next_sibling()), parent = link(node.parent()));
    said.extend(bytes.map(|bytes| (Some("bytes".to_owned()), bytes.to_vec())));
    said
}

fn native(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let value = runner.with_tree(call, 0, |tree| Ok(tree.to_value()?))?;
    put_tree(runner, call, 1, value.to_tree()?)
}

pub const COMMANDS: &[Command] = &[
    ("tree.new", |r, c| put_tree(r, c, 0, Tree::new()?)),
    ("tree.parse", |r, c| put_tree(r, c, 0, Tree::parse(&c.words[1])?)),
    ("tree.json", |r, c| r.with_tree(c, 0, |tree| word(tree.json()?))),
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
    ("tree.count", |r, c| r.with_tree(c, 0, |tree| word(tree.node_count()))),
    ("tree.node", |r, c| r.with_tree(c, 0, |tree| Ok(node_record(&tree.node(c.number(1)?)?)))),
    ("tree.find", |r, c| r.with_tree(c, 0, |tree| word(tree.find(c.number(1)?, c.text(2)?)?))),
    ("tree.find_int", |r, c| r.with_tree(c, 0, |tree| word(tree.find(c.number(1)?, c.number::<i64>(2)?)?))),
    ("tree.native", native),
];
