//! Every failure is reported, and says what, where and what was found.

mod common;

use std::error::Error as _;

use ckpt::{Dtype, FindingKind, Load, Options, Reader, Save, Session, Status, Store, TensorDesc};
use common::{memory_store, one_tensor, Folder};

#[test]
fn an_error_has_status_message_and_details() {
    let (_store, _session, reader) = one_tensor(&[4]);
    let error = reader.tensor("absent").unwrap_err();
    assert_eq!(error.status(), Status::NOT_FOUND);
    assert_eq!(error.detail("tensor"), Some("absent"));
    assert_eq!(error.detail("part"), None);
    assert!(error.message().contains("absent"));
    assert_eq!(error.to_string(), format!("NOT_FOUND: {}", error.message()));
    assert!(error.source().is_none());
    assert_eq!(error.details().collect::<Vec<_>>(), [("tensor", "absent")]);
}

fn find_file(folder: &std::path::Path, end: &str) -> std::path::PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with(end) {
                return path;
            }
        }
    }
    panic!("{end} is nowhere");
}

#[test]
fn findings_about_a_path_that_is_not_utf8_can_be_read() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    let place = folder.path("x").with_file_name(std::ffi::OsStr::from_bytes(b"st\xffore"));
    let store = Store::open(&place).unwrap();
    let session = Session::open(&store).unwrap();
    let mut save = Save::new(&session, "one", None).unwrap();
    save.add_tensor_shared("w", &TensorDesc::of::<u8>(&[4]), vec![7u8; 4]).unwrap();
    save.run().unwrap();
    let reader = Reader::open(&store, "latest").unwrap();
    std::fs::remove_file(find_file(&place, "PART_000")).unwrap();
    let job = reader.verify(&Options::new()).unwrap();
    job.wait_done().unwrap();
    let report = job.report().unwrap();
    assert_eq!(report.len(), 1);
    let finding = report.get(0).unwrap();
    assert_eq!((finding.kind(), finding.part()), (FindingKind::MISSING, Some("PART_000")));
    assert!(finding.text().contains(r"st\xffore"), "{finding}");
}

#[test]
fn what_a_setter_refuses_is_told_by_the_call_that_gets_the_options() {
    for options in
        [Options::new().set("nonsense", 1), Options::new().set("threads", -1), Options::new().set("strict", 1)]
    {
        let error = Store::open_with("mem:x", &options).unwrap_err();
        assert_eq!(error.status(), Status::INVALID, "{options:?}");
    }
    assert!(ckpt::options().any(|info| info.unwrap().key == "keep_last"));
}

#[test]
fn a_size_past_what_options_count_with_is_told_by_the_call_that_gets_the_options() {
    let session = memory_store().1;
    let options = Options::new().set_u64("staging_bytes", 1 << 63).set_u64("threads", u64::MAX);
    let error = Save::new_with(&session, "one", None, &options).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    let (key, found) = ("staging_bytes", "9223372036854775808");
    assert!(error.message().contains(key) && error.message().contains(found), "{error}");
}

#[test]
fn five_gib_are_five_gib_however_they_are_written() {
    let wanted = Options::new().set("staging_bytes", 5_368_709_120_i64);
    assert_eq!(Options::new().set("staging_bytes", 5 << 30), wanted);
    assert_eq!(Options::new().set_u64("staging_bytes", 5 << 30), wanted);
    let session = memory_store().1;
    Save::new_with(&session, "one", None, &wanted).unwrap();
}

#[test]
fn memory_of_another_type_than_described_is_refused() {
    let (_store, session) = memory_store();
    let mut save = Save::new(&session, "one", None).unwrap();
    let error = save.add_tensor("w", &TensorDesc::new(Dtype::BF16, &[2]), &[1f32]).unwrap_err();
    assert_eq!((error.status(), error.detail("found")), (Status::INVALID, Some("f32")));
    save.add_tensor("w", &TensorDesc::new(Dtype::BF16, &[2]), &[0u8; 4]).unwrap();
}

#[test]
fn memory_that_is_too_short_is_refused() {
    let (_store, session, reader) = one_tensor(&[4]);
    let mut save = Save::new(&session, "two", None).unwrap();
    let error = save.add_tensor("w", &TensorDesc::of::<f32>(&[4]), &[0f32; 3]).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    let mut short = [0f32; 3];
    let error = Load::new(&reader).unwrap().add_tensor("w", &TensorDesc::of::<f32>(&[4]), &mut short).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    let mut load = Load::new(&reader).unwrap();
    let slot = load.hold(vec![0f32; 4]);
    for range in [1..6, 5..5] {
        let error = load.add_tensor_into("w", &TensorDesc::of::<f32>(&[4]), slot, range).unwrap_err();
        assert_eq!(error.status(), Status::INVALID);
    }
    let error = load.add_tensor_into("w", &TensorDesc::of::<f32>(&[4]), slot, 1..).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
}

#[test]
fn text_with_a_nul_is_refused() {
    let (store, session) = memory_store();
    assert_eq!(Store::open("mem:a\0b").unwrap_err().status(), Status::INVALID);
    assert_eq!(store.find("a\0b").unwrap_err().status(), Status::INVALID);
    assert_eq!(Save::new(&session, "a\0b", None).unwrap_err().status(), Status::INVALID);
}

#[test]
fn a_status_that_nobody_knows_is_kept_as_its_number() {
    assert_eq!(Status(999).name(), "UNKNOWN");
    assert_eq!(Status(999).to_string(), "UNKNOWN 999");
    assert_eq!(format!("{:?} {:?}", Status::CORRUPT, Status(31337)), "Status::CORRUPT Status(31337)");
    assert_eq!(Dtype(0x7f40).bits(), 64);
}

#[test]
fn an_error_becomes_an_io_error_of_its_kind() {
    let error = Reader::open(&Store::open("mem:nothing").unwrap(), "latest").unwrap_err();
    let io = std::io::Error::from(error.clone());
    assert_eq!(io.kind(), std::io::ErrorKind::NotFound);
    assert_eq!(io.get_ref().unwrap().downcast_ref::<ckpt::Error>(), Some(&error));
}
