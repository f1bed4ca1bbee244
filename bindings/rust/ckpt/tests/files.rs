//! Other people's files: opened in place, imported, exported.

mod common;

use ckpt::{Dtype, File, KeyRef, NodeValue, Options, Reader, Status, Store, Value};
use common::Folder;

/// A safetensors file of one f32 tensor `w` of shape 2x2.
fn write_safetensors(path: &std::path::Path) {
    let header = r#"{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}      "#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    (1..=4).for_each(|i| bytes.extend((i as f32).to_le_bytes()));
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_file_is_read_in_place() {
    let folder = Folder::new();
    write_safetensors(&folder.path("w.safetensors"));
    let file = File::open(folder.path("w.safetensors")).unwrap();
    assert_eq!((file.format(), file.tensors().len()), ("safetensors", 1));
    let tensor = file.tensor(0).unwrap();
    assert_eq!((tensor.name(), tensor.dtype(), tensor.shape()), ("w", Dtype::F32, [2, 2].as_slice()));
    assert_eq!((tensor.strides(), tensor.bytes(), tensor.alias_of()), ([2, 1].as_slice(), 16, None));
    assert_eq!(tensor.data().to_vec().unwrap(), ckpt::bytes_of(&[1f32, 2.0, 3.0, 4.0]));
    let tree = file.tree().unwrap();
    assert_eq!(tree.to_value().unwrap(), Value::dict([("w", Value::tensor_named("w"))]));
    let first = file.tree().unwrap().node(1).unwrap(); // lent by the file
    assert_eq!((first.key(), first.value()), (Some(KeyRef::Text("w")), NodeValue::Tensor("w")));
    assert_eq!(file.tensor(1).unwrap_err().status(), Status::NOT_FOUND);
    assert_eq!(File::open(folder.path("absent")).unwrap_err().status(), Status::NOT_FOUND);
}

#[test]
fn a_file_is_imported_and_exported() {
    let folder = Folder::new();
    write_safetensors(&folder.path("w.safetensors"));
    let store = Store::open(folder.path("store")).unwrap();
    let info = store.import(folder.path("w.safetensors"), "base", Some(3), &Options::new()).unwrap();
    assert_eq!((info.run(), info.label(), info.step(), info.tensor_count()), ("main", "base", Some(3), 1));
    let reader = Reader::open(&store, info.id()).unwrap();
    assert_eq!(reader.read::<f32>("w").unwrap(), [1.0, 2.0, 3.0, 4.0]);
    reader.export(folder.path("out.safetensors"), &Options::new()).unwrap();
    let file = File::open(folder.path("out.safetensors")).unwrap();
    assert_eq!(file.tensor(0).unwrap().data().to_vec().unwrap().len(), 16);
    let error = reader.export(folder.path("out.safetensors"), &Options::new()).unwrap_err();
    assert_eq!(error.status(), Status::EXISTS);
}
