//! State trees to and from Rust values, with kinds, order and keys kept.

mod common;

use ckpt::{Key, KeyRef, NodeKind, NodeValue, Reader, Save, Status, TensorDesc, Tree, Value};
use common::{memory_store, numbers};

fn everything() -> Value {
    let state =
        Value::dict([(0, Value::dict([("exp_avg", Value::tensor()), ("step", 7.into())]))].map(|(k, v)| (k as i64, v)));
    Value::dict([
        ("null", Value::Null),
        ("yes", true.into()),
        ("int", i64::MIN.into()),
        ("big", u64::MAX.into()),
        ("small", Value::BigInt("-123456789012345678901234567890".into())),
        ("size", usize::MAX.into()),
        ("single", 0.1f32.into()),
        ("float", (-0.0).into()),
        ("inf", f64::NEG_INFINITY.into()),
        ("text", "größe \u{1f600} \0".into()),
        ("bytes", Value::Bytes(vec![0, 255])),
        ("list", vec![1.into(), Value::List(vec![])].into()),
        ("tuple", Value::Tuple(vec![0.9.into(), 0.999.into()])),
        ("set", Value::Set(vec![3.into(), 1.into(), 2.into()])),
        ("keys", Value::Dict(vec![(Key::Int(0), "int".into()), (Key::Text("0".into()), "text".into())])),
        (
            "record",
            Value::Record { class: "torch.Size".into(), items: vec![("items".into(), Value::Tuple(vec![2.into()]))] },
        ),
        ("optimizer", Value::dict([("state", state)])),
    ])
}

/// Tensors named by their paths have names when they are read.
fn named(value: Value) -> Value {
    value.to_tree().unwrap().to_value().unwrap()
}

#[test]
fn a_value_of_every_kind_comes_back_through_a_checkpoint() {
    let (store, session) = memory_store();
    let moments = numbers(3);
    let mut save = Save::new(&session, "one", None).unwrap();
    save.add_value(None, &everything()).unwrap();
    save.add_tensor("optimizer/state/0/exp_avg", &TensorDesc::of::<f32>(&[3]), &moments).unwrap();
    save.run().unwrap();
    let reader = Reader::open(&store, "latest").unwrap();
    let back = reader.tree(None).unwrap().to_value().unwrap();
    assert_eq!(back, named(everything()));
    let state = back.get("optimizer").and_then(|value| value.get("state")).and_then(|value| value.get(0)).unwrap();
    assert_eq!(state.get("step").and_then(Value::as_int), Some(7));
    let name = state.get("exp_avg").and_then(Value::as_tensor).unwrap();
    assert_eq!(reader.read::<f32>(name).unwrap(), moments);
    assert_eq!(back.get("big"), Some(&Value::BigInt("18446744073709551615".into())));
    assert!(back.get("float").unwrap().as_float().unwrap().is_sign_negative());
}

#[test]
fn order_and_the_kinds_of_keys_are_kept() {
    let value = named(everything());
    let Value::Dict(items) = &value else { panic!("a dict") };
    let (Value::Dict(before), order) =
        (everything(), |items: &[(Key, Value)]| -> Vec<Key> { items.iter().map(|(key, _)| key.clone()).collect() })
    else {
        panic!("a dict")
    };
    assert_eq!(order(items), order(&before));
    let keys = value.get("keys").unwrap();
    assert_eq!((keys.get(0).unwrap().as_text(), keys.get("0").unwrap().as_text()), (Some("int"), Some("text")));
    assert_eq!(value.get("set"), Some(&Value::Set(vec![3.into(), 1.into(), 2.into()])));
    assert_eq!(value.get("tuple").unwrap().get(1), Some(&Value::Float(0.999)));
}

#[test]
fn a_nan_is_a_nan_and_a_float_is_no_integer() {
    let tree = Value::List(vec![f64::NAN.into(), 1.0.into(), 1.into()]).to_tree().unwrap();
    assert_eq!(tree.json().unwrap(), r#"[{"$":"float","value":"nan"},1.0,1]"#);
    let back = tree.to_value().unwrap();
    assert!(back.get(0).unwrap().as_float().unwrap().is_nan());
    assert_eq!((back.get(1), back.get(2)), (Some(&Value::Float(1.0)), Some(&Value::Int(1))));
}

#[test]
fn a_tree_is_built_and_read_node_by_node() {
    let mut tree = Tree::new().unwrap();
    tree.begin(NodeKind::DICT).unwrap().key("a\0b").unwrap().add_int(1).unwrap().key(-5).unwrap();
    assert_eq!(tree.add_tensor(None).unwrap(), "-5");
    assert_eq!(tree.json().unwrap_err().status(), Status::INVALID, "it is unfinished");
    tree.end().unwrap();
    let root = tree.node(0).unwrap();
    assert_eq!((root.value(), root.child_count(), root.parent()), (NodeValue::Dict, 2, None));
    let keys: Vec<_> = tree.children(0).map(|node| node.unwrap().key().unwrap()).collect();
    assert_eq!(keys, [KeyRef::Text("a\0b"), KeyRef::Int(-5)]);
    assert_eq!(tree.find(0, "a\0b").unwrap(), 1);
    assert_eq!(tree.find(0, -5).unwrap(), 2);
    assert_eq!(tree.find(0, "a\0c").unwrap_err().status(), Status::NOT_FOUND);
    assert_eq!(tree.find(0, "-5").unwrap_err().status(), Status::NOT_FOUND);
    assert_eq!(tree.nodes().map(|node| node.unwrap().index()).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(tree.children(99).map(|node| node.unwrap_err().status()).next(), Some(Status::NOT_FOUND));
}
