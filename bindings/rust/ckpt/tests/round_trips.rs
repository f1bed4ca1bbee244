//! What is saved is what is loaded.

mod common;

use ckpt::{AnyBits, CheckpointState, Element, Load, ObjectScope, Options, Reader, Save, SegmentRegion, TensorDesc};
use common::{memory_store, numbers, one_tensor, Folder};

fn comes_back<E: AnyBits + Default + PartialEq + std::fmt::Debug>(values: &[E]) {
    let (store, session) = memory_store();
    let mut save = Save::new(&session, "one", None).unwrap();
    save.add_tensor("t", &TensorDesc::of::<E>(&[values.len()]), values).unwrap();
    save.run().unwrap();
    let reader = Reader::open(&store, "latest").unwrap();
    assert_eq!(reader.tensor("t").unwrap().dtype(), E::DTYPE);
    assert_eq!(reader.read::<E>("t").unwrap(), values);
}

#[test]
fn typed_slices_of_all_primitive_elements_come_back() {
    comes_back(&[0u8, 1, u8::MAX]);
    comes_back(&[0u16, 1, u16::MAX]);
    comes_back(&[0u32, 1, u32::MAX]);
    comes_back(&[0u64, 1, u64::MAX]);
    comes_back(&[i8::MIN, -1, i8::MAX]);
    comes_back(&[i16::MIN, -1, i16::MAX]);
    comes_back(&[i32::MIN, -1, i32::MAX]);
    comes_back(&[i64::MIN, -1, i64::MAX]);
    comes_back(&[f32::MIN, -0.0, f32::INFINITY]);
    comes_back(&[f64::MIN, -0.0, f64::EPSILON]);
}

#[test]
fn bools_are_saved_as_bool_and_loaded_as_bytes() {
    let (store, session) = memory_store();
    let mut save = Save::new(&session, "one", None).unwrap();
    save.add_tensor("mask", &TensorDesc::of::<bool>(&[3]), &[true, false, true]).unwrap();
    save.run().unwrap();
    let tensor = Reader::open(&store, "latest").unwrap().read_tensor("mask").unwrap();
    assert_eq!((tensor.dtype, tensor.data), (bool::DTYPE, vec![1, 0, 1]));
}

#[test]
fn several_requests_interleave_in_memory_that_the_load_holds() {
    let (_store, _session, reader) = one_tensor(&[4, 2]);
    let mut load = Load::new(&reader).unwrap();
    let slot = load.hold(vec![0f32; 16]);
    let spread = TensorDesc::of::<f32>(&[4, 2]).strides(&[4, 1]);
    load.add_tensor_into("w", &spread, slot, ..).unwrap();
    load.add_tensor_into("w", &spread, slot, 2..).unwrap();
    load.run().unwrap();
    assert_eq!(load.memory(slot).unwrap()[..8], [0.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0, 3.0]);
    let memory = load.take_buffers().take(slot).unwrap();
    assert_eq!(memory[12..], [6.0, 7.0, 6.0, 7.0]);
}

#[test]
fn objects_attributes_and_aliases_come_back_with_their_names() {
    let (store, session) = memory_store();
    let data = numbers(6);
    let mut save = Save::new(&session, "all", Some(7)).unwrap();
    save.add_tensor("größe/重み", &TensorDesc::of::<f32>(&[2, 3]), &data).unwrap();
    save.add_alias("tied", "größe/重み", None).unwrap();
    let row = TensorDesc::of::<f32>(&[3]).strides(&[1]).view_offset(3);
    save.add_alias("row", "größe/重み", Some(&row)).unwrap();
    save.add_object("trainer", "application/json", ObjectScope::SHARED, b"{}").unwrap();
    save.add_object("rng", "application/octet-stream", ObjectScope::PER_RANK, &[1, 2, 3]).unwrap();
    save.set_attr("lr", "0.1").unwrap();
    save.set_tensor_attr("größe/重み", "unit", "m").unwrap();
    let id = save.id().unwrap().to_owned();
    save.run().unwrap();

    let reader = Reader::open(&store, &id).unwrap();
    let info = reader.info().unwrap();
    assert_eq!((info.id(), info.step(), info.state()), (id.as_str(), Some(7), CheckpointState::COMMITTED));
    let names: Vec<_> = reader.tensors().map(|info| info.unwrap().name()).collect();
    assert_eq!(names, ["größe/重み", "row", "tied"]);
    assert_eq!(reader.tensors().rev().len(), 3);
    assert_eq!(reader.tensor("tied").unwrap().alias_of(), Some("größe/重み"));
    assert_eq!(reader.read::<f32>("row").unwrap(), [3.0, 4.0, 5.0]);
    let view = reader.alias("row").unwrap();
    assert_eq!((view.shape, view.strides, view.offset), (vec![3], vec![1], 3));
    let objects: Vec<_> = reader.objects().map(|info| info.unwrap()).collect();
    assert_eq!((objects[0].name(), objects[0].rank(), objects[1].rank()), ("rng", Some(0), None));
    assert_eq!(reader.read_object("rng", 0).unwrap(), [1, 2, 3]);
    assert_eq!(reader.attrs().collect::<Result<Vec<_>, _>>().unwrap(), [("lr", "0.1")]);
    assert_eq!(reader.tensor_attr("größe/重み", "unit").unwrap(), Some("m"));
    assert_eq!(reader.attr("absent").unwrap(), None);
    assert_eq!(reader.part(0).unwrap().rank, 0);
}

#[test]
fn a_view_of_a_mapped_tensor_is_its_bytes() {
    let folder = Folder::new();
    let store = ckpt::Store::open(folder.path("store")).unwrap();
    let session = ckpt::Session::open(&store).unwrap();
    let data = numbers(1000);
    let mut save = Save::new(&session, "one", None).unwrap();
    save.add_tensor("w", &TensorDesc::of::<f32>(&[1000]), &data).unwrap();
    save.run().unwrap();
    let reader = Reader::open(&store, "latest").unwrap();
    let view = reader.map("w", &Options::new()).unwrap();
    assert_eq!(view.to_vec().unwrap(), ckpt::bytes_of(&data));
    // SAFETY: nobody else uses the folder.
    assert_eq!(unsafe { view.as_slice_of::<f32>() }.unwrap(), data);
    // A copy of the folder under another name is the same save.
    std::fs::create_dir(folder.path("store/two.1.1")).unwrap();
    for name in ["MANIFEST", "PART_000"] {
        let path = |id: &str| folder.path("store").join(id).join(name);
        std::fs::copy(path("one.1.1"), path("two.1.1")).unwrap();
    }
    assert!(store.find("two.1.1").unwrap().is_copy() && !store.find("one.1.1").unwrap().is_copy());
    let segment = reader.segment("w", 0).unwrap();
    assert_eq!(segment.region, SegmentRegion::Box { offset: vec![0], extent: vec![1000] });
}
