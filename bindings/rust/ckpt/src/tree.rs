//! State trees: nested trainer state, with tensors as leaves.

use std::fmt;
use std::ptr::NonNull;

use ckpt_sys as sys;

use crate::error::{check, Error, Result, Status};
use crate::handle::{c_text, c_text_or_null, lent, lent_bytes, or_null, sized, Handle, Items};
use crate::numbers::numbers;

/// The most containers inside each other.
pub const TREE_MAX_DEPTH: usize = sys::CKPT_TREE_MAX_DEPTH as usize;

/// The class of a record that holds what is each rank's own: see [`Value::per_rank`](crate::Value::per_rank).
pub const PER_RANK_CLASS: &str = match sys::CKPT_PER_RANK_CLASS.to_str() {
    Ok(class) => class,
    Err(_) => panic!("not UTF-8"),
};

ckpt_sys::each_node!(numbers! {
    /// What a node of a tree is.
    NodeKind
});

/// The key of a value in a dict or record; `0` and `"0"` are two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyRef<'a> {
    /// Text.
    Text(&'a str),
    /// An integer.
    Int(i64),
}

impl<'a> From<&'a str> for KeyRef<'a> {
    fn from(key: &'a str) -> Self {
        KeyRef::Text(key)
    }
}

impl From<i64> for KeyRef<'_> {
    fn from(key: i64) -> Self {
        KeyRef::Int(key)
    }
}

/// The value of a node; the nodes of a container are its children.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum NodeValue<'a> {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer that fits `i64`.
    Int(i64),
    /// An integer that does not fit: decimal digits with an optional `-`.
    BigInt(&'a str),
    /// A double.
    Float(f64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// The name of a tensor.
    Tensor(&'a str),
    /// A list.
    List,
    /// A tuple.
    Tuple,
    /// A set.
    Set,
    /// A dict.
    Dict,
    /// A record of this class.
    Record(&'a str),
}

/// A node; its texts are borrowed from the tree.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    raw: sys::ckpt_node,
    index: u64,
    key: Option<KeyRef<'a>>,
    value: NodeValue<'a>,
}

fn some_node(node: u64) -> Option<u64> {
    (node != sys::CKPT_NODE_END).then_some(node)
}

impl<'a> Node<'a> {
    /// # Safety
    /// The texts of `raw` live for 'a.
    unsafe fn of(index: u64, raw: sys::ckpt_node) -> Result<Self> {
        let utf8 = |bytes| {
            let what = |_| Error::new(Status::FORMAT, format!("node {index}: text that is not UTF-8"));
            std::str::from_utf8(bytes).map_err(what)
        };
        // SAFETY: as the caller says; both sizes belong to their texts.
        let (key, bytes) =
            unsafe { (lent_bytes(raw.key.cast(), raw.key_size), lent_bytes(raw.text.cast(), raw.text_size)) };
        let key = match raw.key_kind {
            sys::CKPT_KEY_TEXT => Some(KeyRef::Text(utf8(key)?)),
            sys::CKPT_KEY_INT => Some(KeyRef::Int(raw.key_int)),
            _ => None,
        };
        let value = match NodeKind(raw.kind) {
            NodeKind::NULL => NodeValue::Null,
            NodeKind::BOOL => NodeValue::Bool(raw.bool_value != 0),
            NodeKind::INT => NodeValue::Int(raw.int_value),
            NodeKind::BIGINT => NodeValue::BigInt(utf8(bytes)?),
            NodeKind::FLOAT => NodeValue::Float(raw.float_value),
            NodeKind::TEXT => NodeValue::Text(utf8(bytes)?),
            NodeKind::BYTES => NodeValue::Bytes(bytes),
            NodeKind::TENSOR => NodeValue::Tensor(utf8(bytes)?),
            NodeKind::LIST => NodeValue::List,
            NodeKind::TUPLE => NodeValue::Tuple,
            NodeKind::SET => NodeValue::Set,
            NodeKind::DICT => NodeValue::Dict,
            NodeKind::RECORD => NodeValue::Record(utf8(bytes)?),
            other => return Err(Error::new(Status::REVISION, format!("node {index} is of kind {}", other.0))),
        };
        Ok(Node { raw, index, key, value })
    }

    /// Its number in the tree, in document order; the root's is 0.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> NodeKind {
        NodeKind(self.raw.kind)
    }

    /// Its key in a dict or record.
    #[must_use]
    pub fn key(&self) -> Option<KeyRef<'a>> {
        self.key
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> NodeValue<'a> {
        self.value
    }

    /// The number of its children.
    #[must_use]
    pub fn child_count(&self) -> u64 {
        self.raw.child_count
    }

    /// Its first child.
    #[must_use]
    pub fn first_child(&self) -> Option<u64> {
        some_node(self.raw.first_child)
    }

    /// The next node in the same container.
    #[must_use]
    pub fn next_sibling(&self) -> Option<u64> {
        some_node(self.raw.next_sibling)
    }

    /// The container that it is in.
    #[must_use]
    pub fn parent(&self) -> Option<u64> {
        some_node(self.raw.parent)
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("index", &self.index).field("key", &self.key).field("value", &self.value).finish()
    }
}

/// A tree to read; threads may share it. [`Tree`] dereferences to it, and a [`File`](crate::File) lends one.
///
/// It is used by reference only, like `str`, and is neither `Copy` nor `Clone`: it cannot outlive its owner.
pub struct TreeRef {
    tree: NonNull<sys::ckpt_tree>,
}

// SAFETY: it calls only functions that take `const ckpt_tree *`, which may run concurrently.
unsafe impl Send for TreeRef {}
// SAFETY: as above.
unsafe impl Sync for TreeRef {}

impl TreeRef {
    /// # Safety
    /// The tree lives as long as the result, which is passed on by reference only.
    pub(crate) unsafe fn new(tree: *const sys::ckpt_tree) -> Option<Self> {
        NonNull::new(tree.cast_mut()).map(|tree| TreeRef { tree })
    }

    pub(crate) fn get(&self) -> *const sys::ckpt_tree {
        self.tree.as_ptr()
    }

    /// The number of its nodes.
    #[must_use]
    pub fn node_count(&self) -> u64 {
        // SAFETY: the tree is alive.
        unsafe { sys::ckpt_tree_node_count(self.get()) }
    }

    /// One node by its number; the root is 0.
    pub fn node(&self, index: u64) -> Result<Node<'_>> {
        let mut raw = sized!(ckpt_node);
        // SAFETY: `raw` is ours and has its size set; its texts live as long as the tree.
        unsafe {
            check(|err| sys::ckpt_tree_at(self.get(), index, &mut raw, err))?;
            Node::of(index, raw)
        }
    }

    /// All nodes in document order.
    pub fn nodes(&self) -> Items<'_, Self, Result<Node<'_>>> {
        Items::new(self, self.node_count(), |tree, index| tree.node(index))
    }

    /// The children of a node.
    pub fn children(&self, parent: u64) -> Children<'_> {
        match self.node(parent) {
            Ok(node) => Children { tree: self, next: node.first_child(), failed: None },
            Err(error) => Children { tree: self, next: None, failed: Some(error) },
        }
    }

    /// A child of a dict or record by its key, or of a list, tuple or set by its position. `NOT_FOUND`.
    pub fn find<'k>(&self, parent: u64, key: impl Into<KeyRef<'k>>) -> Result<u64> {
        let mut out = 0;
        match key.into() {
            KeyRef::Int(key) => {
                // SAFETY: the tree is alive and `out` is ours.
                check(|err| unsafe { sys::ckpt_tree_find_int(self.get(), parent, key, &mut out, err) })?;
            }
            // The call takes no size, so it cannot find a key that holds a NUL.
            KeyRef::Text(key) if key.contains('\0') => return self.find_among_children(parent, key),
            KeyRef::Text(key) => {
                let key = c_text(key)?;
                // SAFETY: as above; the text lives until the call returns.
                check(|err| unsafe { sys::ckpt_tree_find(self.get(), parent, key.as_ptr(), &mut out, err) })?;
            }
        }
        Ok(out)
    }

    fn find_among_children(&self, parent: u64, key: &str) -> Result<u64> {
        for child in self.children(parent) {
            let child = child?;
            if child.key() == Some(KeyRef::Text(key)) {
                return Ok(child.index());
            }
        }
        Err(Error::new(Status::NOT_FOUND, format!("node {parent} has no key {key:?}")))
    }

    /// The tree as JSON: equal trees give equal bytes. `INVALID` while it is unfinished.
    pub fn json(&self) -> Result<&str> {
        let (mut json, mut size) = (std::ptr::null(), 0);
        // SAFETY: both outputs are ours; the text lives as long as the tree.
        let bytes = unsafe {
            check(|err| sys::ckpt_tree_json(self.get(), &mut json, &mut size, err))?;
            lent_bytes(json.cast(), size)
        };
        std::str::from_utf8(bytes).map_err(|_| Error::new(Status::INTERNAL, "JSON that is not UTF-8"))
    }
}

impl fmt::Debug for TreeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.json() {
            Ok(json) => f.write_str(json),
            Err(_) => write!(f, "an unfinished tree of {} nodes", self.node_count()),
        }
    }
}

/// Iterates over the children of a node.
#[derive(Debug)]
pub struct Children<'a> {
    tree: &'a TreeRef,
    next: Option<u64>,
    failed: Option<Error>,
}

impl<'a> Iterator for Children<'a> {
    type Item = Result<Node<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let node = self.tree.node(self.next?);
        self.next = node.as_ref().ok().and_then(Node::next_sibling);
        Some(node)
    }
}

/// A tree to build in document order, and to read. [`Value`](crate::Value) has the same as Rust values.
pub struct Tree {
    /// Frees what `view` points at.
    handle: Handle<sys::ckpt_tree>,
    view: TreeRef,
}

impl From<Handle<sys::ckpt_tree>> for Tree {
    fn from(handle: Handle<sys::ckpt_tree>) -> Self {
        let tree = NonNull::new(handle.get().cast_mut()).expect("a handle is never null");
        Tree { handle, view: TreeRef { tree } }
    }
}

impl std::ops::Deref for Tree {
    type Target = TreeRef;

    fn deref(&self) -> &Self::Target {
        &self.view
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view.fmt(f)
    }
}

impl Tree {
    /// An empty tree; add one root value.
    pub fn new() -> Result<Self> {
        // SAFETY: `make` passes places for both outputs.
        Handle::make(|out, err| unsafe { sys::ckpt_tree_new(out, err) }).map(Tree::from)
    }

    /// Parses JSON as `schemas/STATE_TREE.md` defines it. `FORMAT`, `REVISION`.
    pub fn parse(json: impl AsRef<[u8]>) -> Result<Self> {
        let json = json.as_ref();
        // SAFETY: the text lives until the call returns.
        Handle::make(|out, err| unsafe { sys::ckpt_tree_parse(out, json.as_ptr().cast(), json.len() as u64, err) })
            .map(Tree::from)
    }

    fn add(&mut self, call: impl FnOnce(*mut sys::ckpt_tree, *mut *mut sys::ckpt_error) -> i32) -> Result<&mut Self> {
        check(|err| call(self.handle.get_mut(), err))?;
        Ok(self)
    }

    /// Sets the key of the next value, in a dict or record.
    pub fn key<'k>(&mut self, key: impl Into<KeyRef<'k>>) -> Result<&mut Self> {
        match key.into() {
            KeyRef::Text(key) => {
                // SAFETY: the tree is ours alone; the text lives until the call returns.
                self.add(|tree, err| unsafe { sys::ckpt_tree_key(tree, key.as_ptr().cast(), key.len() as u64, err) })
            }
            // SAFETY: the tree is ours alone.
            KeyRef::Int(key) => self.add(|tree, err| unsafe { sys::ckpt_tree_key_int(tree, key, err) }),
        }
    }

    /// Adds a null.
    pub fn add_null(&mut self) -> Result<&mut Self> {
        // SAFETY: the tree is ours alone.
        self.add(|tree, err| unsafe { sys::ckpt_tree_add_null(tree, err) })
    }

    /// Adds true or false.
    pub fn add_bool(&mut self, value: bool) -> Result<&mut Self> {
        // SAFETY: the tree is ours alone.
        self.add(|tree, err| unsafe { sys::ckpt_tree_add_bool(tree, value.into(), err) })
    }

    /// Adds an integer.
    pub fn add_int(&mut self, value: i64) -> Result<&mut Self> {
        // SAFETY: the tree is ours alone.
        self.add(|tree, err| unsafe { sys::ckpt_tree_add_int(tree, value, err) })
    }

    /// Adds an integer of any size from its decimal digits; one that fits `i64` becomes an `INT`.
    pub fn add_bigint(&mut self, digits: &str) -> Result<&mut Self> {
        let digits = c_text(digits)?;
        // SAFETY: the tree is ours alone; the text lives until the call returns.
        self.add(|tree, err| unsafe { sys::ckpt_tree_add_bigint(tree, digits.as_ptr(), err) })
    }

    /// Adds a double, also NaN and infinities; the bits of a NaN are not kept.
    pub fn add_float(&mut self, value: f64) -> Result<&mut Self> {
        // SAFETY: the tree is ours alone.
        self.add(|tree, err| unsafe { sys::ckpt_tree_add_float(tree, value, err) })
    }

    /// Adds text.
    pub fn add_text(&mut self, text: &str) -> Result<&mut Self> {
        // SAFETY: the tree is ours alone; the text lives until the call returns.
        self.add(|tree, err| unsafe { sys::ckpt_tree_add_text(tree, text.as_ptr().cast(), text.len() as u64, err) })
    }

    /// Adds bytes.
    pub fn add_bytes(&mut self, bytes: &[u8]) -> Result<&mut Self> {
        // SAFETY: the tree is ours alone; the bytes live until the call returns.
        self.add(|tree, err| unsafe { sys::ckpt_tree_add_bytes(tree, bytes.as_ptr().cast(), bytes.len() as u64, err) })
    }

    /// Adds a tensor and returns the name to save it under: `name`, or its path in the tree.
    pub fn add_tensor(&mut self, name: Option<&str>) -> Result<&str> {
        let name = c_text_or_null(name)?;
        let mut path = std::ptr::null();
        // SAFETY: the tree is ours alone; the path lives until the next call that changes it.
        unsafe {
            check(|err| sys::ckpt_tree_add_tensor(self.handle.get_mut(), or_null(&name), &mut path, err))?;
            lent(path)
        }
    }

    /// Begins a list, tuple, set or dict.
    pub fn begin(&mut self, kind: NodeKind) -> Result<&mut Self> {
        // SAFETY: the tree is ours alone.
        self.add(|tree, err| unsafe { sys::ckpt_tree_begin(tree, kind.0, std::ptr::null(), err) })
    }

    /// Begins a record of a class, such as `torch.Size`.
    pub fn begin_record(&mut self, class: &str) -> Result<&mut Self> {
        let class = c_text(class)?;
        // SAFETY: the tree is ours alone; the text lives until the call returns.
        self.add(|tree, err| unsafe { sys::ckpt_tree_begin(tree, sys::CKPT_NODE_RECORD, class.as_ptr(), err) })
    }

    /// Ends the innermost open container.
    pub fn end(&mut self) -> Result<&mut Self> {
        // SAFETY: the tree is ours alone.
        self.add(|tree, err| unsafe { sys::ckpt_tree_end(tree, err) })
    }
}
