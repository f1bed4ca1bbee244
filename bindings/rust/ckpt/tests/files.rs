//! Other people's files: opened in place, imported, exported.

mod common;

use std::path::{Path, PathBuf};

use ckpt::{Dtype, File, KeyRef, NodeValue, Options, Reader, Region, Status, Store, TensorDesc, Value};
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

/// A directory of DCP that two ranks wrote, in whose files tensors are cut; and PyTorch's own conversion to one file.
fn dcp(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../interop/tests/fixtures/dcp").join(name)
}

fn find(file: &File, name: &str) -> u64 {
    file.tensors().position(|tensor| tensor.unwrap().name() == name).expect("it is there") as u64
}

#[test]
fn tensors_in_several_pieces_are_read_whole_as_boxes_and_as_flat_ranges() {
    let (mut cut, whole) = (File::open(dcp("fsdp2")).unwrap(), File::open(dcp("fsdp2.pt")).unwrap());
    let index = find(&cut, "model/0.weight");
    assert_eq!((cut.format(), cut.tensor(index).unwrap().shape()), ("dcp", [7, 5].as_slice()));
    assert_eq!(cut.tensor(index).unwrap().data().len(), 0); // no address
    let expected = whole.tensor(find(&whole, "model/0.weight")).unwrap().data().to_vec().unwrap();
    let all = cut.read_vec::<f32>(index).unwrap();
    assert_eq!(ckpt::bytes_of(&all), expected);
    let owned = cut.read_tensor(index).unwrap();
    assert_eq!((owned.dtype, owned.shape, owned.data), (Dtype::F32, vec![7, 5], expected));

    let desc = TensorDesc::of::<f32>(&[7, 5]);
    let mut part = [0f32; 4];
    let corner = desc.clone().region(Region::Box { offset: &[3, 1], extent: &[2, 2] }); // on both ranks
    cut.read(index, &corner, &mut part).unwrap();
    assert_eq!(part, [all[16], all[17], all[21], all[22]]);
    cut.read(index, &corner.clone().strides(&[1, 2]), &mut part).unwrap(); // transposed
    assert_eq!(part, [all[16], all[21], all[17], all[22]]);
    cut.read(index, &desc.clone().region(Region::Flat { offset: 18, size: 4 }), &mut part).unwrap();
    assert_eq!(part, all[18..22]);
    let mut bytes = [0u8; 16]; // of any dtype
    cut.read(index, &corner, &mut bytes).unwrap();
    assert_eq!(bytes, ckpt::bytes_of(&[all[16], all[17], all[21], all[22]]));
}

#[test]
fn every_tensor_of_a_dcp_directory_is_that_of_pytorchs_own_conversion() {
    let (whole, options) = (File::open(dcp("fsdp2.pt")).unwrap(), Options::new().set("tensor_data", 0));
    let mut cut = File::open_with(dcp("fsdp2"), &options).unwrap();
    let mut compared = 0;
    for index in 0..cut.tensors().len() as u64 {
        let name = cut.tensor(index).unwrap().name().to_owned();
        let same = whole.tensors().map(Result::unwrap).find(|tensor| tensor.name() == name).expect(&name);
        let found = cut.read_tensor(index).unwrap();
        assert_eq!((found.dtype, found.shape.as_slice()), (same.dtype(), same.shape()), "{name}");
        if same.strides() == row_major(same.shape()) {
            assert_eq!(found.data, same.data().to_vec().unwrap(), "{name}");
            compared += 1;
        }
    }
    assert!(compared > 20, "only {compared}");
}

fn row_major(shape: &[usize]) -> Vec<usize> {
    (0..shape.len()).map(|d| shape[d + 1..].iter().map(|extent| (*extent).max(1)).product()).collect()
}

#[test]
fn a_mapping_renames_and_rearranges_what_is_read() {
    let folder = Folder::new();
    let rules = r#"{"unmatched": "keep", "rules": [{"match": "0.weight", "to": "turned", "ops": ["a b -> b a"]}]}"#;
    std::fs::write(folder.path("map.json"), rules).unwrap();
    let mut plain = File::open(dcp("fsdp2")).unwrap();
    let index = find(&plain, "model/0.weight");
    let straight = plain.read_vec::<f32>(index).unwrap();
    let map = Options::new().set("map", folder.path("map.json").to_str().unwrap()).set("map_at", "model");
    let mut mapped = File::open_with(dcp("fsdp2"), &map.set("tensor_data", 0)).unwrap();
    let index = find(&mapped, "model/turned");
    let turned = mapped.read_vec::<f32>(index).unwrap();
    assert_eq!(mapped.tensor(index).unwrap().shape(), [5, 7]);
    assert!((0..35).all(|i| turned[i] == straight[i % 7 * 5 + i / 7]));
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
