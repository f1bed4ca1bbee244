"""Sparse tables: rows by id as leaves of states, shares of them, and how other packages see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest

from conftest import bits, python


def row(id: int) -> list[float]:
    return [id % 1000 + 0.25, -float(id % 1000)]


def table_of(ids: list[int], dtype: str = "int64", **more: Any) -> ckpt.Table:
    """A table whose rows tell their ids."""
    return ckpt.Table(np.array(ids, dtype), {"emb": np.array([row(id) for id in ids], "f4").reshape(len(ids), 2),
                                             "opt/step": np.array([id % 100 for id in ids], "i4")}, **more)


def check_rows(table: ckpt.Table) -> list[int]:
    """Each row is that of its id. Returns the ids."""
    ids: list[int] = table.ids.tolist()
    for place, id in enumerate(ids):
        assert table.columns["emb"][place].tolist() == row(id)
        assert int(table.columns["opt/step"][place]) == id % 100
    return ids


def sessions_of(store: ckpt.Store, ranks: int) -> list[ckpt.Session]:
    first = ckpt.Session(store, 0, ranks, timeout_ms=60000)
    return [first, *(ckpt.Session(store, rank, ranks, first.string, timeout_ms=60000) for rank in range(1, ranks))]


def save_ranks(store: ckpt.Store, states: list[Any], label: str = "a") -> None:
    """One checkpoint of several ranks, from one process."""
    sessions = sessions_of(store, len(states))
    handles = [ckpt.save_async(session, state, label=label, step=1) for session, state in zip(sessions, states)]
    for handle in handles:
        handle.result()
    for session in sessions:
        session.close()


IDS = [7, 1, 4, -1, 2**40 + 3, 65536, 12]


@pytest.fixture
def saved(store: ckpt.Store) -> ckpt.Store:
    """Of two ranks, with four buckets."""
    save_ranks(store, [{"step": 5, "emb": table_of(IDS[:4], bucket_count=4)},
                       {"step": 5, "emb": table_of(IDS[4:], bucket_count=4)}])
    return store


def test_a_table_of_several_ranks_loads_whole_with_its_rows(saved: ckpt.Store) -> None:
    state = ckpt.load(saved)
    assert list(state) == ["step", "emb"] and state["step"] == 5
    table = state["emb"]
    assert isinstance(table, ckpt.Table) and sorted(check_rows(table)) == sorted(IDS)
    assert (table.ids.dtype, table.columns["emb"].dtype, table.columns["emb"].shape) == ("int64", "float32", (7, 2))
    assert (len(table), table.bucket_count, table.missing) == (7, 4, ())


def test_ranks_load_shares_of_any_kind_that_together_are_the_table(saved: ckpt.Store) -> None:
    for count in (1, 2, 3):
        for kind in (ckpt.Rowset.slice, ckpt.Rowset.mod):
            shares = [ckpt.load(saved, into={"emb": kind(rank, count)})["emb"] for rank in range(count)]
            assert sorted(id for share in shares for id in check_rows(share)) == sorted(IDS)
            if kind == ckpt.Rowset.mod:
                assert all(id % 2**64 % count == rank for rank in range(count) for id in shares[rank].ids.tolist())
    found = ckpt.load(saved, into={"emb": ckpt.Rowset.buckets(1, 4, columns=["opt/step"])})["emb"]
    assert sorted(found.ids.tolist()) == sorted(id for id in IDS if id % 4) and list(found.columns) == ["opt/step"]


def test_a_list_of_ids_loads_in_its_order_and_names_what_is_missing(saved: ckpt.Store) -> None:
    wanted = [12, 5, -1, 7, 2**62]
    found = ckpt.load(saved, into={"emb": ckpt.Rowset.ids(wanted)})["emb"]
    assert check_rows(found) == [12, -1, 7] and found.missing == (5, 2**62)
    assert "2 ids missing" in repr(found)
    with ckpt.Reader(saved) as reader, reader.share("emb", ckpt.Rowset.ids(np.array(wanted)), window_rows=1) as share:
        assert (share.row_count, share.missing) == (3, [5, 2**62])
        assert check_rows(share.read()) == [12, -1, 7]
        assert len(ckpt.load(reader, into={"emb": ckpt.Rowset.ids([])})["emb"]) == 0


def test_windows_pass_a_whole_table_through_in_bounded_memory(store: ckpt.Store) -> None:
    ids = [id * 7919 for id in range(5000)]
    ckpt.save(store, table_of(ids, "uint64", bucket_count=512))
    with ckpt.Reader(store) as reader, reader.share("state", window_rows=600) as share:
        assert share.most_rows <= 600 and share.window_count >= 9 and share.row_count == 5000
        windows = share.windows(["opt/step", "emb"])
        assert isinstance(windows, Iterator)
        found = [check_rows(window) for window in windows]
        assert [len(window) for window in found] == [share.rows_of(i) for i in range(share.window_count)]
        assert sorted(id for window in found for id in window) == ids
        assert check_rows(share.read()) == [id for window in found for id in window]


def test_windows_become_a_parquet_file_row_group_by_row_group(store: ckpt.Store, tmp_path: Path) -> None:
    import pyarrow.parquet
    ckpt.save(store, table_of(list(range(100)), bucket_count=64))
    with ckpt.Reader(store) as reader, reader.share("state", window_rows=30) as share:
        writer = None
        for window in share.windows():
            rows = window.to_arrow()
            writer = writer or pyarrow.parquet.ParquetWriter(tmp_path / "emb.parquet", rows.schema)
            writer.write_table(rows)
        writer.close()
    found = pyarrow.parquet.read_table(tmp_path / "emb.parquet").to_pydict()
    assert dict(zip(found["id"], found["emb"])) == {id: row(id) for id in range(100)}
    assert found["opt/step"] == [id % 100 for id in found["id"]]


def test_a_reader_tells_tables_and_columns(saved: ckpt.Store) -> None:
    with ckpt.Reader(saved) as reader:
        info = reader.table("emb")
        assert reader.tables() == [info]
        assert (info.name, info.id_dtype, info.row_count, info.bucket_count) == ("emb", ckpt.DType.I64, 7, 4)
        assert [(column.name, column.dtype, column.shape, column.row_bytes) for column in info.columns] == [
            ("emb", ckpt.DType.F32, (2,), 8), ("opt/step", ckpt.DType.I32, (), 4)]
        assert (info.bytes, info.column_count) == (7 * 20, 2)
        assert "7 rows" in repr(info) and "emb f32 2" in repr(info)
        for name in ("emb/ids", "nothing"):
            with pytest.raises(ckpt.NotFoundError):
                reader.table(name)
            with pytest.raises(ckpt.NotFoundError):
                reader.share(name)


def test_into_a_table_fills_the_rows_of_its_own_ids(saved: ckpt.Store) -> None:
    mine = ckpt.Table([65536, 7], {"emb": np.zeros((2, 2), "f4")})
    memory = mine.columns["emb"]
    state = ckpt.load(saved, into={"emb": mine})
    assert state["emb"] is mine and mine.columns["emb"] is memory
    assert memory.tolist() == [row(65536), row(7)]
    other = ckpt.Table([7, 8], {"emb": np.zeros((2, 2), "f4")})
    with pytest.raises(ckpt.NotFoundError, match="lacks 1 of the 2 ids that into has, 8 the first"):
        ckpt.load(saved, into={"emb": other})
    assert not other.columns["emb"].any()


@pytest.mark.parametrize("columns, error, text", [
    ({"emb": np.zeros((2, 2), "f8")}, ckpt.MismatchError, "emb/emb.*expected rows of f32"),
    ({"emb": np.zeros((2, 3), "f4")}, ckpt.MismatchError, "emb/emb.*expected rows of f32"),
    ({"emb": np.zeros((3, 2), "f4")}, ckpt.InvalidError, "3 rows of column 'emb' for 2 ids"),
    ({"nothing": np.zeros((2, 2), "f4")}, ckpt.NotFoundError, "no column \"nothing\""),
])
def test_into_a_table_that_does_not_fit_changes_nothing(saved: ckpt.Store, columns: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        ckpt.load(saved, into={"emb": ckpt.Table([7, 12], columns)})
    assert not any(column.any() for column in columns.values())


def test_into_must_match_what_is_a_table_and_what_is_not(store: ckpt.Store) -> None:
    ckpt.save(store, {"emb": table_of([1]), "w": np.ones(3, "f4"), "size": {"a": 1}})
    with pytest.raises(TypeError, match="into at 'emb': expected a ckpt.Table or ckpt.Rowset, found"):
        ckpt.load(store, into={"emb": np.zeros(1)})
    with pytest.raises(TypeError, match="into at 'size': expected"):
        ckpt.load(store, into={"size": ckpt.Rowset.all()})
    with pytest.raises(ckpt.NotFoundError, match="a sparse table where the checkpoint has none: other"):
        ckpt.load(store, into={"other": ckpt.Rowset.all()})
    with pytest.raises(ckpt.NotFoundError, match="no column 'x'; it has emb, opt/step"):
        ckpt.load(store, into={"emb": ckpt.Rowset.all(columns=["x"])})
    assert ckpt.load(store, into={"emb": ckpt.Rowset.all(), "w": np.zeros(3, "f4")}, strict="exact")["w"].all()
    with pytest.raises(ckpt.MismatchError, match="'emb'"):
        ckpt.load(store, into={"w": np.zeros(3, "f4")}, strict="exact")


def test_a_rank_without_rows_may_have_an_empty_table_or_none(store: ckpt.Store) -> None:
    save_ranks(store, [{"a": table_of([]), "b": table_of([3])}, {"a": table_of([1, 2])}, {}])
    state = ckpt.load(store)
    assert sorted(check_rows(state["a"])) == [1, 2] and check_rows(state["b"]) == [3]
    save_ranks(store, [{"a": table_of([])}, {"a": table_of([])}], "empty")
    empty = ckpt.load(store, "empty")["a"]
    assert len(empty) == 0 and empty.columns["emb"].shape == (0, 2) and empty.as_dict() == {} and 1 not in empty


def test_blocks_and_positions_save_the_rows_of_a_hash_table(store: ckpt.Store) -> None:
    ids = [10, 11, 12, 13, 14]
    whole = table_of(ids)
    blocks = {name: [column[0:2], column[2:4], column[4:5]] for name, column in whole.columns.items()}
    slots = np.zeros((8, 2), "f4")
    slots[[6, 1, 3, 0, 7]] = whole.columns["emb"]
    placed = {"emb": [slots[0:3], slots[3:6], slots[6:8]]}
    ckpt.save(store, {"blocks": ckpt.Table(ids, blocks), "placed": ckpt.Table(ids, placed, positions=[6, 1, 3, 0, 7])})
    state = ckpt.load(store)
    assert sorted(check_rows(state["blocks"])) == ids
    assert {id: values["emb"].tolist() for id, values in state["placed"].as_dict().items()} == {
        id: row(id) for id in ids}
    with pytest.raises(ckpt.UnsupportedError, match="in blocks or with positions can only be saved"):
        ckpt.Table(ids, blocks)[10]


@pytest.mark.parametrize("table, error, text", [
    (ckpt.Table([1, 2], {"x": np.zeros((3, 2))}), ckpt.InvalidError, "t/x.*expected 2, one for each id, found 3"),
    (ckpt.Table([1, 2], {"x": np.float32(1)}), ckpt.InvalidError, "t/x.*first dimension is rows, found a scalar"),
    (ckpt.Table(np.array([1, 2], "i4"), {}), ckpt.InvalidError, "t/ids.*expected i64 or u64"),
    (ckpt.Table([1, 2], {"x": np.zeros((2, 4))[:, ::2]}), ckpt.UnsupportedError, "t/x.*contiguous"),
    (ckpt.Table([1, 2], {"x": [np.zeros((1, 2)), np.zeros((1, 3))]}), ckpt.InvalidError, "t/x.*blocks of one column"),
    (ckpt.Table([1, 2, 3], {"x": [np.zeros(1), np.zeros(2)]}), ckpt.InvalidError, "t/x.*expected 1 rows, found 2"),
    (ckpt.Table([1, 2], {"x": np.zeros(2)}, positions=[0]), ckpt.InvalidError, "'t'.*positions: expected 2"),
    (ckpt.Table([1, 2], {"x": np.zeros(2)}, positions=[0, 2]), ckpt.InvalidError, "position 2"),
    (ckpt.Table([1, 2], {"ids": np.zeros(2)}), ckpt.ExistsError, "t/ids"),
    (ckpt.Table([1, 2], {"x": np.zeros(2)}, bucket_count=0), ckpt.InvalidError, "bucket_count"),
    (ckpt.Table([5, 5], {"x": np.zeros(2)}), ckpt.MismatchError, "id 5"),
])
def test_a_table_that_cannot_be_saved_is_refused_by_name(store: ckpt.Store, table: ckpt.Table, error: Any,
                                                         text: str) -> None:
    with pytest.raises(error, match=text):
        ckpt.save(store, {"t": table}, label="bad")
    ckpt.save(store, {"t": table_of([1])}, label="good")
    assert [info.label for info in ckpt.ls(store)] == ["good"]


def test_ids_of_python_are_integers_of_64_bits() -> None:
    assert ckpt.Table([2**63], {}).ids.typecode == "Q" and ckpt.Table([-1, 5], {}).ids.typecode == "q"
    for ids, error, text in (([1.5], TypeError, "float"), ([2**64], OverflowError, f"found {2**64} to {2**64}"),
                             ([-2**63 - 1], OverflowError, "int64"), ([2**63, -1], OverflowError, f"-1 to {2**63}")):
        with pytest.raises(error, match=text):
            ckpt.Table(ids, {})
    for call in (ckpt.Rowset.mod, ckpt.Rowset.slice, ckpt.Rowset.buckets):
        for numbers in ((-1, 3), (0, 2**64)):
            with pytest.raises(ckpt.InvalidError, match=rf"Rowset.{call.__name__}: expected numbers from 0 on, found "):
                call(*numbers)


def test_an_id_of_two_ranks_is_found_by_load_and_verify(store: ckpt.Store) -> None:
    save_ranks(store, [table_of([1, 5]), table_of([5, 9])])
    with pytest.raises(ckpt.MismatchError, match="id 5"):
        ckpt.load(store)
    with ckpt.Reader(store) as reader, reader.verify() as job:
        job.wait()
        assert "ranks 0 and 1 both saved id 5" in str(job.report())
        assert check_rows(reader.share("state", ckpt.Rowset.ids([9])).read()) == [9]


def test_rows_are_found_by_their_ids() -> None:
    table = table_of([9, -3, 2**40, 5])
    assert 5 in table and 6 not in table and -3 in table
    assert table[2**40]["emb"].tolist() == row(2**40)
    assert np.shares_memory(table[9]["emb"], table.columns["emb"])
    with pytest.raises(KeyError, match="id 6"):
        table[6]
    some = table.take([5, 6, 9])
    assert check_rows(some) == [5, 9] and some.missing == (6,)
    assert {id: int(values["opt/step"]) for id, values in table.as_dict().items()} == {
        id: id % 100 for id in (9, -3, 2**40, 5)}
    assert 2**64 - 1 in ckpt.Table(np.array([2**64 - 1], "u8"), {})


def test_arrow_and_pandas_see_the_same_memory() -> None:
    ids = np.array([5, 7, 9])
    table = ckpt.Table(ids, {"emb": np.arange(12, dtype="f4").reshape(3, 2, 2), "step": np.array([1, 2, 3], "i4")})
    arrow = table.to_arrow()
    assert arrow.column_names == ["id", "emb", "step"]
    assert arrow["emb"].to_pylist() == table.columns["emb"].tolist() and arrow["id"].to_pylist() == [5, 7, 9]
    for name, array in ("id", ids), ("step", table.columns["step"]):
        assert arrow[name].chunk(0).buffers()[1].address == array.ctypes.data
    assert arrow["emb"].chunk(0).flatten().flatten().buffers()[1].address == table.columns["emb"].ctypes.data
    frame = table.to_pandas()
    assert frame.index.tolist() == [5, 7, 9] and frame.index.name == "id"
    assert frame.loc[7, "step"] == 2 and frame.loc[9, "emb"] == [[8.0, 9.0], [10.0, 11.0]]
    assert np.shares_memory(frame["step"].to_numpy(), table.columns["step"])
    assert np.shares_memory(frame.index.to_numpy(), ids)


def test_arrow_refuses_dtypes_that_it_lacks_and_copies_booleans() -> None:
    import ml_dtypes
    for values in np.zeros(1, ml_dtypes.bfloat16), np.zeros(1, "c8"):
        with pytest.raises(ckpt.UnsupportedError, match=f"column 'x': Arrow has no {values.dtype}"):
            ckpt.Table([1], {"x": values}).to_arrow()
    assert ckpt.Table([1, 2], {"x": np.array([True, False])}).to_arrow()["x"].to_pylist() == [True, False]


def test_without_arrow_or_pandas_the_error_names_the_package() -> None:
    code = """
import sys
sys.modules.update(pyarrow=None, pandas=None)
import ckpt
for convert in ckpt.Table([1], {}).to_arrow, ckpt.Table([1], {}).to_pandas:
    try:
        convert()
    except ImportError as error:
        print(error)
print("numpy" in sys.modules)
"""
    assert python(code).splitlines() == ["Table.to_arrow needs the package pyarrow: pip install pyarrow",
                                         "Table.to_pandas needs the package pandas: pip install pandas", "False"]


def test_the_layer_beneath_takes_arrays_and_raw_bytes(store: ckpt.Store, session: ckpt.Session) -> None:
    with ckpt.Save(session, "a", 1) as save:
        save.add_table("t", np.array([4, 2]), {"x": b"\x01\x02\x03\x04", "y": np.array([1.5, 2.5])}, bucket_count=8,
                       raw={"x": ("bf16", ())})
        with pytest.raises(ckpt.ExistsError):
            save.add_table("t", np.array([4, 2]), {})
        save.run()
    with ckpt.Reader(store) as reader, ckpt.Load(reader) as load, reader.share("t") as share:
        ids, x, y = np.zeros(2, "i8"), bytearray(4), np.zeros(3)
        load.add_table(share, ids, {"x": x, "y": y})  # more room than rows
        with pytest.raises(ckpt.InvalidError, match="ids: expected memory of i64 or u64"):
            load.add_table(share, np.zeros(2, "f8"), {})
        with pytest.raises(ckpt.NotFoundError):
            load.add_table(share, ids, {}, 1)
        load.run()
        assert (ids.tolist(), bytes(x), y.tolist()) == ([2, 4], b"\x03\x04\x01\x02", [2.5, 1.5, 0.0])
        assert share.table == reader.table("t")
        share.close()
        with pytest.raises(ckpt.InvalidError, match="Share is closed"):
            share.read()


def test_changes_since_an_earlier_checkpoint_bring_a_copy_up_to_date(store: ckpt.Store) -> None:
    with ckpt.Session(store, incremental="on") as session:
        ckpt.save(session, {"emb": table_of(IDS, changed=[])}, step=1)
        now = table_of([*IDS[2:], 99], changed=[-1, 99], removed=IDS[:2])
        now.columns["opt/step"][1] = -5  # of id -1
        ckpt.save(session, {"emb": now}, step=2)
    with ckpt.Reader(store, "step:1") as earlier, ckpt.Reader(store) as reader:
        assert reader.table("emb").run_count == 2
        with reader.share("emb", since=earlier) as share:
            news = share.read()
            assert sorted(news.ids.tolist()) == [-1, 99] and sorted(share.missing) == [1, 7] == sorted(news.missing)
            assert news[-1]["opt/step"] == -5 and news[99]["emb"].tolist() == row(99)
        with earlier.share("emb", ckpt.Rowset.all(["opt/step"]), since=reader, window_rows=2) as share:
            assert sorted(id for window in share.windows() for id in window.ids.tolist()) == [-1, 1, 7]
            assert share.missing == [99]
        with pytest.raises(ckpt.InvalidError, match="a list of ids, of changes"):
            reader.share("emb", ckpt.Rowset.ids([1]), since=earlier)


def test_a_share_outlives_the_name_of_its_reader(saved: ckpt.Store) -> None:
    share = ckpt.Reader(saved).share("emb")
    assert sorted(check_rows(share.read())) == sorted(IDS)


def test_a_checkpointer_keeps_tables(tmp_path: Path) -> None:
    ids = list(range(50))
    with ckpt.Checkpointer(tmp_path / "store", every=1) as keeper:
        checked = keeper.check({"emb": table_of(ids)})
        assert checked.ok and checked.names == {"emb": 50 * 20}
        keeper.step(1, {"emb": table_of(ids)})
    with ckpt.Checkpointer(tmp_path / "store", every=1) as keeper:
        state = {"emb": ckpt.Rowset.slice(0, 1)}
        keeper.restore(state)
        assert sorted(check_rows(state["emb"])) == ids  # type: ignore[arg-type]


@pytest.mark.torch
def test_tables_of_torch_load_as_torch(store: ckpt.Store, torch: Any) -> None:
    weights = torch.arange(6, dtype=torch.bfloat16).reshape(3, 2).requires_grad_()
    ids = torch.tensor([3, 1, 2])
    ckpt.save(store, {"emb": ckpt.Table(ids, {"w": weights, "seen": torch.tensor([True, False, True])}),
                      "plain": table_of([5])})
    state = ckpt.load(store)
    assert {id: values["w"].tolist() for id, values in state["emb"].as_dict().items()} == {
        3: [0, 1], 1: [2, 3], 2: [4, 5]}
    assert state["emb"].columns["w"].dtype == torch.bfloat16 and isinstance(state["emb"].ids, torch.Tensor)
    assert isinstance(state["plain"].ids, np.ndarray)
    mine = torch.zeros((2, 2), dtype=torch.bfloat16)
    ckpt.load(store, into={"emb": ckpt.Table(torch.tensor([2, 3]), {"w": mine})})
    assert mine.tolist() == [[4, 5], [0, 1]]
    assert state["emb"].take([2]).columns["w"].tolist() == [[4, 5]]
    elsewhere = ckpt.Table([1], {"w": torch.zeros(1, device="meta")})
    with pytest.raises(ckpt.UnsupportedError, match="column 'w': it is on device meta, copy it to the CPU"):
        elsewhere.to_arrow()
    with pytest.raises(ckpt.UnsupportedError, match="column 'w': numpy has no torch.bfloat16"):
        state["emb"].to_arrow()
    assert isinstance(ckpt.load(store, framework="torch")["plain"].ids, torch.Tensor)
    assert bits(ckpt.load(store, framework="numpy")["emb"].columns["w"]) != b""


def test_slices_of_small_ids_are_even_with_few_buckets_and_mod_always_is(tmp_path: Path) -> None:
    for count, even in ((65536, False), (64, True)):
        ids = np.arange(3000)
        table = ckpt.Table(ids, {"e": np.zeros((3000, 1), "f4")}, bucket_count=count)
        ckpt.save(tmp_path / str(count), {"emb": table}, step=1)
        with ckpt.Reader(ckpt.Store(tmp_path / str(count))) as reader:
            slices = [reader.share("emb", ckpt.Rowset.slice(rank, 4)).row_count for rank in range(4)]
            assert (max(slices) - min(slices) < 300) == even and sum(slices) == 3000
            assert [reader.share("emb", ckpt.Rowset.mod(rank, 4)).row_count for rank in range(4)] == [750] * 4
