//! State trees as Rust values.

use crate::error::{Error, Result, Status};
use crate::tree::{KeyRef, Node, NodeKind, NodeValue, Tree, TreeRef, PER_RANK_CLASS};

/// Nested trainer state, with tensors as leaves: a [`Tree`] as a Rust value.
///
/// ```
/// use ckpt::Value;
/// let state = Value::dict([
///     ("epoch", 3.into()),
///     ("model", Value::dict([("w", Value::tensor())])),
///     ("betas", Value::Tuple(vec![0.9.into(), 0.999.into()])),
/// ]);
/// let tree = state.to_tree()?;
/// assert_eq!(tree.node_count(), 7);
/// let back = tree.to_value()?;
/// assert_eq!(back.get("epoch"), Some(&Value::Int(3)));
/// assert_eq!(back.get("model").and_then(|model| model.get("w")), Some(&Value::tensor_named("model/w")));
/// # Ok::<_, ckpt::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Value {
    /// Nothing.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer that does not fit `i64`: decimal digits with an optional `-`.
    BigInt(String),
    /// A double.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A tensor of the checkpoint by its name; `None` names it by its path in the tree.
    Tensor(Option<String>),
    /// A list.
    List(Vec<Value>),
    /// A tuple.
    Tuple(Vec<Value>),
    /// A set, in the order given.
    Set(Vec<Value>),
    /// Pairs in the order given. Each key comes once.
    Dict(Vec<(Key, Value)>),
    /// An object of a class.
    Record {
        /// The class, such as `torch.Size`.
        class: String,
        /// Its fields, in the order given.
        items: Vec<(String, Value)>,
    },
}

/// The key of a value in a dict; `0` and `"0"` are two keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Text.
    Text(String),
    /// An integer.
    Int(i64),
}

impl Key {
    /// The same key, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> KeyRef<'_> {
        match self {
            Key::Text(key) => KeyRef::Text(key),
            Key::Int(key) => KeyRef::Int(*key),
        }
    }
}

impl From<&str> for Key {
    fn from(key: &str) -> Self {
        Key::Text(key.to_owned())
    }
}

impl From<String> for Key {
    fn from(key: String) -> Self {
        Key::Text(key)
    }
}

impl From<i64> for Key {
    fn from(key: i64) -> Self {
        Key::Int(key)
    }
}

impl From<KeyRef<'_>> for Key {
    fn from(key: KeyRef<'_>) -> Self {
        match key {
            KeyRef::Text(key) => Key::Text(key.to_owned()),
            KeyRef::Int(key) => Key::Int(key),
        }
    }
}

macro_rules! values {
    ($($type:ty => $kind:ident)*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Value::$kind(value.into())
            }
        }
    )*};
}
values! {
    bool => Bool i32 => Int u32 => Int i64 => Int f32 => Float f64 => Float
    &str => Text String => Text Vec<Value> => List
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or_else(|_| Value::BigInt(value.to_string()), Value::Int)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        (value as u64).into()
    }
}

impl From<i128> for Value {
    fn from(value: i128) -> Self {
        i64::try_from(value).map_or_else(|_| Value::BigInt(value.to_string()), Value::Int)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

impl Value {
    /// A dict of these pairs.
    pub fn dict<K: Into<Key>>(items: impl IntoIterator<Item = (K, Value)>) -> Self {
        Value::Dict(items.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// A tensor named by its path in the tree.
    #[must_use]
    pub fn tensor() -> Self {
        Value::Tensor(None)
    }

    /// A tensor of this name.
    pub fn tensor_named(name: impl Into<String>) -> Self {
        Value::Tensor(Some(name.into()))
    }

    /// What is each rank's own: a random state, a position in the data. Rank `rank` saves its value so.
    pub fn per_rank(rank: u32, value: impl Into<Value>) -> Self {
        Value::Record { class: PER_RANK_CLASS.to_owned(), items: vec![(format!("rank{rank}"), value.into())] }
    }

    /// The value of one rank, of a [`per_rank`](Self::per_rank) in a tree of
    /// [`Reader::tree_of_rank`](crate::Reader::tree_of_rank); `None` for anything else, or with the values of several
    /// ranks.
    #[must_use]
    pub fn own(&self) -> Option<&Value> {
        match self {
            Value::Record { class, items } if class == PER_RANK_CLASS => match items.as_slice() {
                [(_, value)] => Some(value),
                _ => None,
            },
            _ => None,
        }
    }

    /// The value of a key in a dict or record, or at a position in a list, tuple or set.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<&Value> {
        match (self, key.into()) {
            (Value::Dict(items), key) => items.iter().find(|(own, _)| own.as_ref() == key).map(|(_, value)| value),
            (Value::Record { items, .. }, KeyRef::Text(key)) => {
                items.iter().find(|(own, _)| own == key).map(|(_, value)| value)
            }
            (Value::List(items) | Value::Tuple(items) | Value::Set(items), KeyRef::Int(place)) => {
                items.get(usize::try_from(place).ok()?)
            }
            _ => None,
        }
    }

    /// The value of an integer that fits `i64`.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        if let Value::Int(value) = self {
            Some(*value)
        } else {
            None
        }
    }

    /// The value of a double; `None` for an integer.
    #[must_use]
    pub fn as_float(&self) -> Option<f64> {
        if let Value::Float(value) = self {
            Some(*value)
        } else {
            None
        }
    }

    /// The value of a text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Value::Text(value) = self {
            Some(value)
        } else {
            None
        }
    }

    /// The name of a tensor that has one.
    #[must_use]
    pub fn as_tensor(&self) -> Option<&str> {
        if let Value::Tensor(name) = self {
            name.as_deref()
        } else {
            None
        }
    }

    /// Makes a tree. `INVALID` if a key comes twice, or it is deeper than [`TREE_MAX_DEPTH`](crate::TREE_MAX_DEPTH).
    pub fn to_tree(&self) -> Result<Tree> {
        let mut tree = Tree::new()?;
        self.add_to(&mut tree)?;
        Ok(tree)
    }

    fn add_to(&self, tree: &mut Tree) -> Result<()> {
        match self {
            Value::Null => tree.add_null()?,
            Value::Bool(value) => tree.add_bool(*value)?,
            Value::Int(value) => tree.add_int(*value)?,
            Value::BigInt(digits) => tree.add_bigint(digits)?,
            Value::Float(value) => tree.add_float(*value)?,
            Value::Text(text) => tree.add_text(text)?,
            Value::Bytes(bytes) => tree.add_bytes(bytes)?,
            Value::Tensor(name) => return tree.add_tensor(name.as_deref()).map(drop),
            Value::List(items) => return add_items(tree, NodeKind::LIST, items),
            Value::Tuple(items) => return add_items(tree, NodeKind::TUPLE, items),
            Value::Set(items) => return add_items(tree, NodeKind::SET, items),
            Value::Dict(items) => {
                tree.begin(NodeKind::DICT)?;
                for (key, value) in items {
                    value.add_to(tree.key(key.as_ref())?)?;
                }
                tree.end()?
            }
            Value::Record { class, items } => {
                tree.begin_record(class)?;
                for (key, value) in items {
                    value.add_to(tree.key(key.as_str())?)?;
                }
                tree.end()?
            }
        };
        Ok(())
    }

    fn of(tree: &TreeRef, node: &Node<'_>) -> Result<Self> {
        let items = || tree.children(node.index()).map(|child| Value::of(tree, &child?)).collect::<Result<Vec<_>>>();
        Ok(match node.value() {
            NodeValue::Null => Value::Null,
            NodeValue::Bool(value) => Value::Bool(value),
            NodeValue::Int(value) => Value::Int(value),
            NodeValue::BigInt(digits) => Value::BigInt(digits.to_owned()),
            NodeValue::Float(value) => Value::Float(value),
            NodeValue::Text(text) => Value::Text(text.to_owned()),
            NodeValue::Bytes(bytes) => Value::Bytes(bytes.to_owned()),
            NodeValue::Tensor(name) => Value::Tensor(Some(name.to_owned())),
            NodeValue::List => Value::List(items()?),
            NodeValue::Tuple => Value::Tuple(items()?),
            NodeValue::Set => Value::Set(items()?),
            NodeValue::Dict => Value::Dict(pairs(tree, node, |key| Ok(key.into()))?),
            NodeValue::Record(class) => {
                let items = pairs(tree, node, |key| match key {
                    KeyRef::Text(key) => Ok(key.to_owned()),
                    KeyRef::Int(key) => Err(Error::new(Status::FORMAT, format!("a record with integer key {key}"))),
                })?;
                Value::Record { class: class.to_owned(), items }
            }
        })
    }
}

impl TreeRef {
    /// The tree as a value, tensors by their names. `INVALID` if it is empty.
    pub fn to_value(&self) -> Result<Value> {
        if self.node_count() == 0 {
            return Err(Error::new(Status::INVALID, "the tree is empty"));
        }
        Value::of(self, &self.node(0)?)
    }
}

fn add_items(tree: &mut Tree, kind: NodeKind, items: &[Value]) -> Result<()> {
    tree.begin(kind)?;
    for value in items {
        value.add_to(tree)?;
    }
    tree.end().map(drop)
}

fn pairs<K>(tree: &TreeRef, node: &Node<'_>, to_key: impl Fn(KeyRef<'_>) -> Result<K>) -> Result<Vec<(K, Value)>> {
    let mut out = Vec::new();
    for child in tree.children(node.index()) {
        let child = child?;
        let key = child.key().ok_or_else(|| Error::new(Status::INTERNAL, "a value without a key in a dict"))?;
        out.push((to_key(key)?, Value::of(tree, &child)?));
    }
    Ok(out)
}
