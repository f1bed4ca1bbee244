//! What is saved is what is loaded.

mod common;

use ckpt::{
    AnyBits, CheckpointState, Dtype, Element, Load, ObjectScope, Options, Reader, Region, Save, SegmentRegion,
    TensorDesc,
};
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
fn scalars_and_empty_tensors_come_back() {
    let (store, session) = memory_store();
    let mut save = Save::new(&session, "one", None).unwrap();
    save.add_tensor("scalar", &TensorDesc::of::<f64>(&[]), &[2.5f64]).unwrap();
    save.add_tensor::<f32>("empty", &TensorDesc::of::<f32>(&[0, 7]), &[]).unwrap();
    save.run().unwrap();
    let reader = Reader::open(&store, "latest").unwrap();
    assert_eq!(reader.read::<f64>("scalar").unwrap(), [2.5]);
    assert_eq!(reader.tensor("empty").unwrap().shape(), [0, 7]);
    assert!(reader.read::<f32>("empty").unwrap().is_empty());
}

#[test]
fn a_box_a_flat_range_and_strides_select_what_they_say() {
    let (_store, _session, reader) = one_tensor(&[4, 3]);
    let whole = TensorDesc::of::<f32>(&[4, 3]);
    let (mut boxed, mut flat, mut columns) = ([0f32; 4], [0f32; 3], [-1f32; 12]);
    let mut load = Load::new(&reader).unwrap();
    let middle = Region::Box { offset: &[1, 1], extent: &[2, 2] };
    load.add_tensor("w", &whole.clone().region(middle), &mut boxed).unwrap();
    load.add_tensor("w", &whole.clone().region(Region::Flat { offset: 5, size: 3 }), &mut flat).unwrap();
    load.add_tensor("w", &whole.strides(&[1, 4]), &mut columns).unwrap();
    load.run().unwrap();
    assert_eq!(boxed, [4.0, 5.0, 7.0, 8.0]);
    assert_eq!(flat, [5.0, 6.0, 7.0]);
    assert_eq!(columns, [0.0, 3.0, 6.0, 9.0, 1.0, 4.0, 7.0, 10.0, 2.0, 5.0, 8.0, 11.0]);
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
fn floats_are_converted_on_load_where_asked() {
    let (_store, _session, reader) = one_tensor(&[3]);
    let mut halves = [0u8; 6];
    let mut load = Load::new(&reader).unwrap();
    load.add_tensor("w", &TensorDesc::new(Dtype::F16, &[3]).convert(), &mut halves).unwrap();
    load.run().unwrap();
    assert_eq!(halves, [0, 0, 0, 0x3c, 0, 0x40]);
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
    let segment = reader.segment("w", 0).unwrap();
    assert_eq!(segment.region, SegmentRegion::Box { offset: vec![0], extent: vec![1000] });
}

#[test]
fn verify_and_diff_report_what_differs_and_nothing_else() {
    let (store, session, reader) = one_tensor(&[10]);
    let job = reader.verify(&Options::new()).unwrap();
    job.wait_done().unwrap();
    assert!(job.report().unwrap().is_empty());
    let mut other = numbers(10);
    other[3] = -1.0;
    let mut save = Save::new(&session, "two", None).unwrap();
    save.add_tensor("w", &TensorDesc::of::<f32>(&[10]), &other).unwrap();
    save.run().unwrap();
    let report = reader.diff(&Reader::open(&store, "two").unwrap(), &Options::new()).unwrap();
    let finding = report.get(0).unwrap();
    assert_eq!((report.len(), finding.name(), finding.count()), (1, Some("w"), 1));
    assert_eq!((finding.elements(), finding.max_abs()), (Some((3, 3)), 4.0));
}

#[test]
fn a_store_lists_finds_prunes_and_removes_its_checkpoints() {
    let (store, session) = memory_store();
    for step in 1..=4 {
        let data = [step as f32];
        let mut save = Save::new(&session, &format!("step-{step}"), Some(step)).unwrap();
        save.add_tensor("w", &TensorDesc::of::<f32>(&[1]), &data).unwrap();
        save.run().unwrap();
    }
    let steps = |store: &ckpt::Store| -> Vec<_> {
        store.list().unwrap().iter().map(|info| info.unwrap().step().unwrap()).collect()
    };
    assert_eq!(steps(&store), [1, 2, 3, 4]);
    assert_eq!(store.find("step:3").unwrap().label(), "step-3");
    let report = store.prune(&Options::new().set("keep_last", 2)).unwrap();
    assert_eq!(report.iter().filter(|f| f.as_ref().unwrap().kind() == ckpt::FindingKind::REMOVED).count(), 2);
    store.remove(store.find("step-3").unwrap().id()).unwrap();
    assert_eq!(steps(&store), [4]);
}

#[test]
fn newer_checkpoints_that_cannot_be_loaded_are_reported_or_are_the_error() {
    let folder = Folder::new();
    let store = ckpt::Store::open(folder.path("store")).unwrap();
    let session = ckpt::Session::open(&store).unwrap();
    for step in 1..=2 {
        let data = [step as f32];
        let mut save = Save::new(&session, &format!("s{step}"), Some(step)).unwrap();
        save.add_tensor("w", &TensorDesc::of::<f32>(&[1]), &data).unwrap();
        save.run().unwrap();
    }
    assert!(Reader::open(&store, "latest").unwrap().report().unwrap().is_empty());
    let manifest = folder.path("store/s2.1.1/MANIFEST");
    let mut bytes = std::fs::read(&manifest).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&manifest, bytes).unwrap();
    let reader = Reader::open(&store, "latest").unwrap();
    let info = reader.info().unwrap();
    assert_eq!((info.step(), info.passed_over(), info.is_copy()), (Some(1), 1, false));
    assert_eq!(store.find("latest").unwrap().passed_over(), 1);
    let report = reader.report().unwrap();
    let finding = report.get(0).unwrap();
    assert_eq!((report.len(), finding.kind()), (1, ckpt::FindingKind::PASSED_OVER));
    assert_eq!((finding.name(), finding.status()), (Some("s2.1.1"), ckpt::Status::CORRUPT));
    let strict = Options::new().set("on_damaged", "error");
    assert_eq!(Reader::open_with(&store, "latest", &strict).unwrap_err().status(), ckpt::Status::CORRUPT);
}

#[test]
fn the_report_of_a_save_says_what_retention_did() {
    static DATA: [f32; 1] = [1.0];
    let (_store, session) = memory_store();
    for step in 1..=2 {
        let options = Options::new().set("keep_last", 1);
        let mut save = Save::new_with(&session, &format!("s{step}"), Some(step), &options).unwrap();
        save.add_tensor("w", &TensorDesc::of::<f32>(&[1]), &DATA).unwrap();
        let job = save.start().unwrap();
        job.wait_committed().unwrap();
        let report = job.report().unwrap();
        assert_eq!(report.len() as u64, step - 1);
    }
}
