//! Other people's files, opened in place. Not of the engine that is in a crate: tests/vendored.rs.

mod common;

use std::path::{Path, PathBuf};

use ckpt::{Dtype, File, KeyRef, NodeValue, Region, Status, TensorDesc, Value};
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
    let mut file = File::open(folder.path("w.safetensors")).unwrap();
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
    assert_eq!(file.read_vec::<f32>(0).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    let owned = file.read_tensor(0).unwrap();
    let expected = ckpt::bytes_of(&[1f32, 2.0, 3.0, 4.0]).to_vec();
    assert_eq!((owned.dtype, owned.shape, owned.data), (Dtype::F32, vec![2, 2], expected));
    let (desc, mut part) = (TensorDesc::of::<f32>(&[2, 2]), [0f32; 2]);
    file.read(0, &desc.clone().region(Region::Box { offset: &[0, 1], extent: &[2, 1] }), &mut part).unwrap();
    assert_eq!(part, [2.0, 4.0]);
    file.read(0, &desc.clone().region(Region::Flat { offset: 1, size: 2 }), &mut part).unwrap();
    assert_eq!(part, [2.0, 3.0]);
    let mut turned = [0f32; 4];
    file.read(0, &desc.strides(&[1, 2]), &mut turned).unwrap();
    assert_eq!(turned, [1.0, 3.0, 2.0, 4.0]);
    assert_eq!(File::open(folder.path("absent")).unwrap_err().status(), Status::NOT_FOUND);
}

/// A directory of DCP that two ranks wrote, in whose files tensors are cut; and PyTorch's own conversion to one file.
fn dcp(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../interop/tests/fixtures/dcp").join(name)
}

fn find(file: &File, name: &str) -> u64 {
    file.tensors().position(|tensor| tensor.unwrap().name() == name).expect("it is there") as u64
}

#[test]
fn a_wrong_read_is_refused_and_names_the_tensor() {
    let mut file = File::open(dcp("fsdp2")).unwrap();
    let index = find(&file, "model/0.weight");
    let whole = TensorDesc::of::<f32>(&[7, 5]);
    let mut data = [7f32; 35];
    assert_eq!(file.read(99, &whole, &mut data).unwrap_err().status(), Status::NOT_FOUND);
    assert_eq!(file.read_vec::<f32>(99).unwrap_err().status(), Status::NOT_FOUND);
    assert_eq!(file.read_tensor(99).unwrap_err().status(), Status::NOT_FOUND);
    for (desc, status) in [
        (TensorDesc::of::<f32>(&[5, 7]), Status::MISMATCH),
        (TensorDesc::of::<f32>(&[7, 5]).region(Region::Box { offset: &[6, 0], extent: &[2, 5] }), Status::INVALID),
        (TensorDesc::of::<f32>(&[7, 5]).region(Region::Box { offset: &[6], extent: &[1] }), Status::INVALID),
    ] {
        let error = file.read(index, &desc, &mut data).unwrap_err();
        assert_eq!((error.status(), error.detail("tensor")), (status, Some("model/0.weight")), "{error}");
    }
    let mut short = [0f32; 34];
    assert_eq!(file.read(index, &whole, &mut short).unwrap_err().status(), Status::INVALID);
    let mut integers = [0i32; 35]; // memory of another type than the descriptor
    assert_eq!(file.read(index, &whole, &mut integers).unwrap_err().status(), Status::INVALID);
    let other = TensorDesc::of::<i32>(&[7, 5]); // a descriptor of another type than the tensor
    assert_eq!(file.read(index, &other, &mut integers).unwrap_err().status(), Status::MISMATCH);
    let error = file.read_vec::<i32>(index).unwrap_err();
    assert_eq!((error.status(), error.detail("found")), (Status::MISMATCH, Some("f32")));
    assert_eq!(data, [7f32; 35]);
}
