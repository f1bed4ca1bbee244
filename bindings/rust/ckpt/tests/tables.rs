//! Sparse tables: rows by id that any ranks save, loaded by any other number of ranks.

mod common;

use ckpt::{
    Device, DeviceKind, Dtype, FindingKind, Load, Options, Reader, RowMemory, Rows, RowsMut, Rowset, Save, Session,
    SharedMemory, Status,
};
use common::memory_store;

#[test]
fn shared_rows_are_saved_in_the_background_and_held_memory_loaded() {
    let (store, session) = memory_store();
    let mut save = Save::new(&session, "a", None).unwrap();
    // The row of id 5 lies first, each in a slab of its own.
    let (ids, positions) = (SharedMemory::from(vec![u64::MAX, 5]), SharedMemory::from(vec![1u64, 0]));
    let slabs = [vec![5u8, 5], vec![9, 9]].map(SharedMemory::from);
    let rows = Rows::with_ids(Dtype::U64, ids).column_in_blocks("x", Dtype::BF16, &[], slabs);
    let rows = rows.rows_per_block(1).positions(positions);
    save.add_table("t", &rows).unwrap();
    drop(rows);
    save.start().unwrap().wait_committed().unwrap();
    let reader = Reader::open(&store, "latest").unwrap();
    assert_eq!(reader.table("t").unwrap().id_dtype(), Dtype::U64);
    let share = reader.share("t", &Rowset::ids(&[u64::MAX, 5])).unwrap();
    let mut load = Load::new(&reader).unwrap();
    let (ids, data) = (load.hold(vec![0u64; 2]), load.hold(vec![0u8; 8]));
    load.add_table(&share, 0, RowsMut::new().ids_into(ids, ..).column_into("x", data, 4..)).unwrap();
    drop((share, reader));
    let mut buffers = load.start().unwrap().finish().unwrap();
    assert_eq!(buffers.take(ids).unwrap(), [u64::MAX, 5]);
    assert_eq!(buffers.take(data).unwrap(), [0, 0, 0, 0, 9, 9, 5, 5]);
}

#[test]
fn tables_and_columns_may_be_empty() {
    let (store, session) = memory_store();
    let mut save = Save::new(&session, "a", None).unwrap();
    save.add_table("none", &Rows::new::<i64>(&[]).column_in_blocks("x", Dtype::F32, &[3], [&[0f32; 0]; 0])).unwrap();
    save.add_table("ids", &Rows::new(&[3i64, 1])).unwrap();
    save.run().unwrap();
    let reader = Reader::open(&store, "latest").unwrap();
    assert_eq!(reader.share("none", &Rowset::all()).unwrap().row_count(), 0);
    assert_eq!(reader.share("none", &Rowset::ids(&[4i64])).unwrap().missing::<i64>().unwrap(), [4]);
    let mut ids = [0i64; 2];
    let mut load = Load::new(&reader).unwrap();
    load.add_table(&reader.share("ids", &Rowset::all()).unwrap(), 0, RowsMut::new().ids(&mut ids)).unwrap();
    load.run().unwrap();
    assert_eq!(ids, [1, 3]);
}

#[test]
fn a_share_of_what_changed_leaves_the_rest_and_lists_what_is_gone() {
    let (store, session) = memory_store();
    let readers = [("a", vec![3i64, 1, 2], [30i32, 10, 20]), ("b", vec![4, 1, 2], [40, 10, 21])].map(|(id, ids, x)| {
        let mut save = Save::new(&session, id, None).unwrap();
        save.add_table("t", &Rows::new(&ids).column("x", Dtype::I32, &[], &x[..])).unwrap();
        save.run().unwrap();
        Reader::open(&store, "latest").unwrap()
    });
    let share = readers[1].share_since("t", &Rowset::all(), &readers[0], &Options::new()).unwrap();
    assert_eq!((share.row_count(), share.missing::<i64>().unwrap()), (2, vec![3]));
    let mut ids = [0i64; 2];
    let mut load = Load::new(&readers[1]).unwrap();
    load.add_table(&share, 0, RowsMut::new().ids(&mut ids)).unwrap();
    load.run().unwrap();
    assert_eq!(ids, [2, 4]);
}

#[test]
fn an_id_that_two_ranks_save_is_found_by_load_lookup_and_verification() {
    let (store, _) = memory_store();
    let first = Session::open_rank(&store, 0, 2, None, &Options::new()).unwrap();
    let second = Session::open_rank(&store, 1, 2, Some(first.string().unwrap()), &Options::new()).unwrap();
    let jobs = [(&first, [1i64, 5]), (&second, [5, 9])].map(|(session, ids)| {
        let mut save = Save::new(session, "a", None).unwrap();
        save.add_table("t", &Rows::with_ids(Dtype::I64, SharedMemory::from(ids.to_vec()))).unwrap();
        save.start().unwrap()
    });
    jobs.iter().for_each(|job| job.wait_committed().unwrap());
    let reader = Reader::open(&store, "latest").unwrap();
    let share = reader.share("t", &Rowset::all()).unwrap();
    let mut ids = [0i64; 4];
    let mut load = Load::new(&reader).unwrap();
    load.add_table(&share, 0, RowsMut::new().ids(&mut ids)).unwrap();
    let looked_up = reader.share("t", &Rowset::ids(&[5i64])).unwrap_err();
    for error in [load.run().unwrap_err(), looked_up] {
        assert_eq!((error.status(), error.detail("ranks")), (Status::MISMATCH, Some("0, 1")), "{error}");
    }
    let job = reader.verify(&Options::new()).unwrap();
    job.wait_done().unwrap();
    let report = job.report().unwrap();
    let found = report.iter().next().unwrap().unwrap();
    assert_eq!((found.kind(), found.status()), (FindingKind::DAMAGED, Status::MISMATCH));
}

#[test]
fn what_does_not_fit_is_refused_and_named() {
    let (store, session) = memory_store();
    let (ids, data) = ([3i64, 1], [1f32, 2.0]);
    let refused = |rows: Rows<'_>, words: &str| {
        let mut save = Save::new(&session, "a", None).unwrap();
        let error = save.add_table("t", &rows).unwrap_err();
        assert_eq!(error.status(), Status::INVALID, "{error}");
        assert!(error.message().contains(words), "{error}");
    };
    refused(Rows::new(&ids).column("x", Dtype::I32, &[], &data), r#"column "x": expected memory of i32, found f32"#);
    refused(Rows::new(&ids).column("x", Dtype::F32, &[2], &data), "memory for 1 rows");
    refused(Rows::new(&ids).column("x", Dtype::F32, &[1; 16], &data), "16 dimensions");
    refused(Rows::new(&ids).column("a\0b", Dtype::F32, &[], &data), "NUL");
    refused(Rows::new(&ids).buckets(0), "bucket_count");
    refused(Rows::new(&ids).positions(&[0u64]), "1 positions for 2 rows");
    refused(Rows::new(&ids).positions(&[0i32, 1]), "positions: expected memory of u64, found i32");
    refused(Rows::with_ids(Dtype::U64, &ids), "ids: expected memory of u64, found i64");
    refused(Rows::with_ids(Dtype::I32, &[1i32, 2]), "id_dtype");
    let two = [&data[..1], &data[1..]];
    let other = Rows::new(&ids).column("x", Dtype::F32, &[], &data).column_in_blocks("y", Dtype::F32, &[], two);
    refused(other, r#"column "y": 2 blocks"#);

    let mut save = Save::new(&session, "b", None).unwrap();
    save.add_table("t", &Rows::new(&ids).column("x", Dtype::F32, &[], &data)).unwrap();
    save.run().unwrap();
    let reader = Reader::open(&store, "latest").unwrap();
    let share = reader.share_with("t", &Rowset::all(), &Options::new().set("threads", 1)).unwrap();
    let (mut ids, mut wrong, mut few, mut unsigned) = ([0i64; 2], [0i32; 2], [0f32; 1], [0u64; 2]);
    let add = |rows: RowsMut<'_>| Load::new(&reader).unwrap().add_table(&share, 0, rows).unwrap_err();
    assert!(add(RowsMut::new().ids(&mut ids).column("x", &mut wrong)).message().contains("found i32"));
    assert!(add(RowsMut::new().ids(&mut unsigned)).message().contains("found u64"));
    assert_eq!(add(RowsMut::new().ids(&mut ids).column("x", &mut few)).detail("found"), Some("4"));
    assert_eq!(add(RowsMut::new().column("x", &mut few)).status(), Status::INVALID);
    assert_eq!(add(RowsMut::new().ids(&mut ids).column("y", &mut few)).status(), Status::NOT_FOUND);
}

#[test]
fn columns_are_where_the_rows_say() {
    let (store, session) = memory_store();
    let (ids, data) = ([3i64, 1], [1f32, 2.0]);
    let bytes = size_of_val(&data) as u64;
    let column = || {
        // SAFETY: `data` outlives the saves.
        let memory = unsafe { RowMemory::raw(data.as_ptr().cast(), bytes) };
        Rows::new(&ids).column("x", Dtype::F32, &[], memory)
    };
    let cuda = Device { kind: DeviceKind::CUDA, id: 0 }; // which no machine of the tests has
    let error = Save::new(&session, "a", None).unwrap().add_table("t", &column().device(cuda, -1)).unwrap_err();
    assert_eq!(error.status(), Status::UNSUPPORTED);
    let mut save = Save::new(&session, "b", None).unwrap();
    save.add_table("t", &column()).unwrap();
    save.run().unwrap();
    let reader = Reader::open(&store, "latest").unwrap();
    let share = reader.share("t", &Rowset::ids(&ids)).unwrap();
    let mut loaded = [0f32; 2];
    // SAFETY: `loaded` outlives the loads, and nobody else uses it.
    let rows = |to: &mut [f32; 2]| unsafe { RowsMut::new().column_raw("x", to.as_mut_ptr().cast(), bytes) };
    let there = rows(&mut loaded).device(cuda, -1);
    assert_eq!(Load::new(&reader).unwrap().add_table(&share, 0, there).unwrap_err().status(), Status::UNSUPPORTED);
    let mut load = Load::new(&reader).unwrap();
    load.add_table(&share, 0, rows(&mut loaded)).unwrap();
    load.run().unwrap();
    assert_eq!(loaded, data);
}
