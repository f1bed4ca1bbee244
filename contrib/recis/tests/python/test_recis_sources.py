"""Sources of a model bank: what RecIS itself has saved, in place, what was imported of it, and files of others."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest
from ckpt.recis import CheckpointManager
from ckpt.sources import FileReader, FileShare
from conftest import in_threads
from test_recis import NOTHING, Trainer, bank, everything


class Steps:
    """A sparse optimizer's own state, which is of tensors."""

    def __init__(self) -> None:
        self.value = 0

    def state_dict(self) -> dict[str, Any]:
        return {"value": np.array(self.value)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = int(state["value"])


def trainer(*arguments: Any, **options: Any) -> Trainer:
    """With such an optimizer."""
    made = Trainer(*arguments, **options)
    made.optim = made.manager._parts.sparse_optim = Steps()  # type: ignore[assignment]
    return made


def recis_run(folder: Path, value: float = 5, ids: Any = (1, 2, 40000, 70000), workers: int = 2, step: int = 7) -> Path:
    """A run of RecIS with one checkpoint, of what a Trainer has."""
    store = folder.with_name(f"{folder.name}-{step}-store")

    def save(rank: int) -> None:
        made = trainer(store, value, ids[rank::workers], rank=rank, world_size=workers)
        made.optim.value, made.io.place = int(value), int(value) + rank
        made.manager.set_extra_data("note", "theirs")
        made.manager.set_extra_data("global_step", step)
        with made.manager:
            made.manager.save()

    assert in_threads(workers, save) == [None] * workers
    with ckpt.Store(store) as opened, ckpt.Reader(opened) as reader:
        reader.export(folder if not folder.exists() else folder / f"ckpt_{step}", format="recis", shards=workers)
    if (folder / f"ckpt_{step}").exists() and f"ckpt_{step}\n" not in (folder / "checkpoint").read_text():
        (folder / "checkpoint").write_text((folder / "checkpoint").read_text() + f"ckpt_{step}\n")
    return folder


def as_source(run: Path, kind: str) -> Path:
    if kind != "imported":
        return run if kind == "run" else run / "ckpt_7"
    with ckpt.Store(run.with_name("imported")) as store:
        store.import_file(run, "recis")
    return run.with_name("imported")


@pytest.mark.parametrize("kind", ["run", "checkpoint", "imported"])
def test_a_bank_takes_all_that_recis_has_saved(tmp_path: Path, kind: str) -> None:
    source = as_source(recis_run(tmp_path / "run"), kind)
    fresh = trainer(tmp_path / "new")
    taken = bank(fresh, {"path": source, "or_rank0": True})
    assert fresh.has() == everything(5, [1, 2, 40000, 70000], 7)
    assert set(taken) == set(fresh.manager._parts.variables())
    assert fresh.manager.get_extra_data("note") == "theirs"
    assert sorted(fresh.tables["users"].places) == [1, 2, 40000, 70000]
    fresh.manager.step()
    assert fresh.manager.global_step == 8


@pytest.mark.parametrize("kind", ["run", "imported"])
def test_io_states_of_another_number_of_recis_workers_are_refused(tmp_path: Path, kind: str) -> None:
    source = as_source(recis_run(tmp_path / "run"), kind)
    fresh = trainer(tmp_path / "new")
    with pytest.raises(ckpt.MismatchError, match="those of 2 workers, and this run has 1"):
        bank(fresh, {"path": source})
    assert fresh.has() == NOTHING
    bank(fresh, {"path": source, "exclude": ["io_state"]})
    assert fresh.has() == {**everything(5, [1, 2, 40000, 70000], 7), "io": 0}

    places = in_threads(2, lambda rank: worker_place(tmp_path / "same", source, rank))
    assert places == [5, 6]


def worker_place(path: Path, source: Path, rank: int) -> int:
    same = trainer(path, rank=rank, world_size=2)
    bank(same, {"path": source, "load": ["io_state"]})
    return same.io.place


@pytest.mark.parametrize("load, changed", [
    (["sparse"], "ids embedding"), (["items"], "ids embedding exp_avg"), (["dense", "thing"], "dense thing"),
    (["sparse_opt"], "sparse_optim"), (["items*", "dense1*"], "dense ids embedding exp_avg"),
])
def test_a_load_config_chooses_of_recis_as_of_any_source(tmp_path: Path, load: Any, changed: str) -> None:
    fresh = trainer(tmp_path / "new")
    bank(fresh, {"path": recis_run(tmp_path / "run", ids=(1, 2)), "load": load})
    expected = {key: (everything(5, [1, 2], 7) if key in changed.split() else NOTHING)[key] for key in NOTHING}
    if "embedding" in changed.split() and "exp_avg" not in changed.split():
        expected["exp_avg"] = [0]
    assert fresh.has() == expected


def test_rows_of_recis_are_renamed_and_join_and_fill_those_that_are_there(tmp_path: Path) -> None:
    run = recis_run(tmp_path / "run", ids=(1, 2))
    fresh = trainer(tmp_path / "new", 3, [2, 9])
    bank(fresh, {"path": run, "load": ["items@exp_avg"], "oname": {"items@*": "users@*"}})
    rows = fresh.tables["items"].export_rows().as_dict()
    assert {id: (row["embedding"][0], row["exp_avg"][0]) for id, row in rows.items()} == {2: (3, 5), 9: (3, 3)}
    bank(fresh, {"path": run, "load": ["items"], "hashtable_clear": False})
    assert fresh.has()["ids"] == [1, 2, 9]


@pytest.mark.parametrize("rowset", [ckpt.Rowset.slice, ckpt.Rowset.mod])
def test_rows_of_recis_go_to_any_number_of_ranks_each_to_one(tmp_path: Path, rowset: Any) -> None:
    ids: list[int] = [*range(0, 3_000_000_000, 7_777_777), -1, -(2**63), 2**63 - 1]
    run = recis_run(tmp_path / "run", ids=ids, workers=3)
    reader = FileReader(str(run), {})
    (info,) = [table for table in reader.tables() if table.name == "tables/items"]
    for world in (1, 2, 5):
        shares = [[int(id) for window in FileShare(reader, info, rowset(rank, world), 50).windows(["embedding"])
                   for id in window.ids] for rank in range(world)]
        assert sorted(sum(shares, [])) == sorted(ids) and all(shares)
        for rank, share in enumerate(shares):
            bucket = [id % 2**64 % 65536 for id in share]
            if rowset is ckpt.Rowset.mod:
                assert all(id % 2**64 % world == rank for id in share)
            else:
                assert rank * 65536 // world - 1 <= min(bucket) and max(bucket) <= (rank + 1) * 65536 // world + 1


def test_rows_of_a_file_come_with_their_own_values_in_any_window(tmp_path: Path) -> None:
    ids: Any = np.arange(0, 9_000_000, 4_321, dtype=np.int64)
    table = ckpt.Table(ids, {"embedding": (ids[:, None] + np.arange(3)).astype(np.float64)})
    with ckpt.Checkpointer(tmp_path / "s", signals=()) as keeper:
        keeper.save(1, {"tables": {"t": table}, "extra": {"x": 1}})
    with ckpt.Store(tmp_path / "s") as store, ckpt.Reader(store) as reader:
        reader.export(tmp_path / "ckpt_1", format="recis", shards=4)
    file = FileReader(str(tmp_path / "ckpt_1"), {})
    (info,) = file.tables()
    wanted = np.concatenate([ids[::-7], [5, -3]])
    inside = ids[(ids % 65536 >= 100) & (ids % 65536 < 30000)]
    for rows, expected in ((ckpt.Rowset.all(), ids), (ckpt.Rowset.buckets(100, 30000), inside),
                           (ckpt.Rowset.ids(wanted), wanted[:-2])):
        for window in (1, 97, 0):
            if window == 1 and len(expected) > 500:
                continue
            parts = list(FileShare(file, info, rows, window).windows(["embedding"], framework="numpy"))
            found = np.concatenate([part.ids for part in parts])
            assert np.array_equal(found if rows.kind == "ids" else np.sort(found), expected)
            values = np.concatenate([part.columns["embedding"] for part in parts])
            assert np.array_equal(values, (found[:, None] + np.arange(3)).astype(np.float64))
            assert window == 0 or max(len(part) for part in parts) <= window


def test_what_the_manager_saved_is_exported_as_recis_has_it_and_read_again(tmp_path: Path) -> None:
    Trainer(tmp_path / "ours", 5, [1, 2]).saved()
    with ckpt.Store(tmp_path / "ours") as store, ckpt.Reader(store) as reader:
        with pytest.raises(ckpt.MismatchError, match="sparse_optim"):  # RecIS' is a dict of tensors
            reader.export(tmp_path / "run", format="recis", shards=3)
        reader.export(tmp_path / "run", format="recis", shards=3, exclude="sparse_optim", verify_after=1)
    names = {path.name for path in (tmp_path / "run" / "ckpt_1").iterdir()}
    assert {"model.pt", "extra.pt", "io_state_0.pt", "io_state_count", "index", "tensorkey.json"} < names
    assert FileReader(str(tmp_path / "run"), {}).tree().json().count('"train_io"') == 1
    fresh = trainer(tmp_path / "new")
    bank(fresh, {"path": tmp_path / "run"})
    assert fresh.has() == {**everything(5, [1, 2]), "sparse_optim": 0}
    assert fresh.manager.get_extra_data("note") == "at 5"


def test_a_directory_of_recis_is_loaded_as_any_source(tmp_path: Path) -> None:
    run = recis_run(tmp_path / "run")
    state = ckpt.load(run, rank=1, framework="numpy")
    table = state["tables"]["items"]
    assert sorted(table.ids) == [1, 2, 40000, 70000] and (table.columns["exp_avg"] == 5).all()
    assert state["extra"]["note"] == "theirs" and state["io_state"] == {"train_io": {"place": 6}}
    some = ckpt.load(run, into=ckpt.Rowset.ids([70000, 1], columns=["embedding"]), at=("tables", "users"))
    assert list(some.ids) == [70000, 1] and list(some.columns) == ["embedding"]


def test_a_table_of_recis_goes_to_parquet_and_back(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = ckpt.load(recis_run(tmp_path / "run"), at=("tables", "items"), framework="numpy")
    parquet.write_table(table.to_arrow(), tmp_path / "items.parquet")
    rows = parquet.read_table(tmp_path / "items.parquet").to_pylist()
    assert {row["id"]: (row["embedding"], row["exp_avg"]) for row in rows} == {
        id: ([5.0, 5.0], [5.0]) for id in (1, 2, 40000, 70000)}


def test_shards_of_what_changed_hold_the_changes_alone(tmp_path: Path) -> None:
    store = ckpt.Store(tmp_path / "store")
    for step, ids, value in ((1, [1, 2, 70000], 5), (2, [1, 70000, 3], 6)):
        values = np.full((3, 2), value, "f4")
        values[0] = 5  # of id 1
        table = ckpt.Table(np.array(ids), {"embedding": values})
        ckpt.save(store, {"tables": {"items": table}}, step=step)
    with ckpt.Reader(store, "step:1") as earlier, ckpt.Reader(store) as reader:
        with reader.share("tables/items", since=earlier) as share:
            news = share.read()
            assert share.missing == [2]
    ckpt.save(tmp_path / "news", {"tables": {"items": news}})
    with ckpt.Reader(ckpt.Store(tmp_path / "news")) as reader:
        reader.export(tmp_path / "run", format="recis", shards=2)
    rows = ckpt.load(tmp_path / "run", framework="numpy")["tables"]["items"].as_dict()
    assert {id: row["embedding"].tolist() for id, row in rows.items()} == {3: [6, 6], 70000: [6, 6]}


def test_an_id_that_a_directory_has_twice_is_named_before_a_table_changes(tmp_path: Path) -> None:
    run = recis_run(tmp_path / "run", ids=(5, 65541), workers=1)
    (path,) = (run / "ckpt_7").glob("*.safetensors")
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    begin = 8 + length + json.loads(data[8:8 + length])["items.id/part_0_1"]["data_offsets"][0]
    data[begin:begin + 16] = struct.pack("<qq", 5, 5)
    path.write_bytes(data)
    fresh = trainer(tmp_path / "new", 3, [9])
    with pytest.raises(ckpt.MismatchError, match="model bank entry 0 .*'?tables/items'?.*id 5 is there twice"):
        bank(fresh, {"path": run, "load": ["items"]})
    assert fresh.has()["ids"] == [9]


def test_a_dynamic_recis_run_is_loaded_again_when_it_has_a_newer_checkpoint(tmp_path: Path) -> None:
    run = recis_run(tmp_path / "run")
    fresh = trainer(tmp_path / "new")
    bank(fresh, {"path": run, "load": ["items", "dense"], "is_dynamic": True})
    assert fresh.manager.reload_model_bank() == {}
    recis_run(run, 6, [3], step=8)
    taken = fresh.manager.reload_model_bank()
    assert fresh.has()["ids"] == [3] and fresh.has()["dense"] == 6 and all("ckpt_8" in one for one in taken.values())


def test_a_table_that_is_loaded_again_has_all_that_its_sources_give(tmp_path: Path) -> None:
    for name, value, ids in (("a", 1, [1, 2]), ("b", 2, [2, 3]), ("c", 3, [2, 3])):
        Trainer(tmp_path / name, value, ids).saved()
    fresh = Trainer(tmp_path / "new")
    bank(fresh, {"path": tmp_path / "a"},
         {"path": tmp_path / "b", "load": ["items@id", "items@emb*"], "is_dynamic": True},
         {"path": tmp_path / "c", "load": ["items", "users"], "hashtable_clear": False})

    def rows(column: str) -> dict[int, float]:
        return {id: row[column][0] for id, row in fresh.tables["items"].export_rows().as_dict().items()}

    assert (rows("embedding"), rows("exp_avg")) == ({2: 3, 3: 3}, {2: 1, 3: 3})
    with Trainer(tmp_path / "b", 6, [1, 6]).manager as manager:
        manager.restore(load=["global_step"])
        manager.step()
        manager.save()
    fresh.tables["users"].clear()
    assert set(fresh.manager.reload_model_bank()) == {"items@id", "items@embedding", "items@exp_avg"}
    assert rows("embedding") == {1: 6, 2: 3, 3: 3, 6: 6} and rows("exp_avg") == {1: 1, 2: 1, 3: 3, 6: 0}
    assert not fresh.tables["users"].places and fresh.has()["thing"] == 1


def test_a_shard_that_is_gone_is_named(tmp_path: Path) -> None:
    run = recis_run(tmp_path / "run")
    next((run / "ckpt_7").glob("model-000001*.safetensors")).unlink()
    fresh = trainer(tmp_path / "new")
    with pytest.raises(ckpt.IncompleteError, match="model bank entry 0 .*model-000001"):
        bank(fresh, {"path": run})
    assert fresh.has() == NOTHING
    shutil.rmtree(run)
    with pytest.raises(ckpt.NotFoundError, match="model bank entry 0 .*run"):
        bank(fresh, {"path": run})


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["pt", "nested pt", "safetensors"])
def test_a_source_may_be_a_file_of_pytorch_or_safetensors(tmp_path: Path, torch: Any, kind: str) -> None:
    saved = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
    path = tmp_path / f"x.{kind.split()[-1]}"
    if kind == "safetensors":
        with ckpt.Checkpointer(tmp_path / "s", signals=()) as keeper:
            keeper.save(1, saved)
        with ckpt.Store(tmp_path / "s") as store, ckpt.Reader(store) as reader:
            reader.export(path)
    else:
        torch.save({"model": saved.state_dict(), "step": 3} if "nested" in kind else saved.state_dict(), path)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
    last = model[1].weight.clone()
    manager = CheckpointManager(tmp_path / "new", model, signals=())
    taken = manager.load_model_bank([{"path": path, "load": ["0.*"]}])
    assert torch.equal(model[0].weight, saved[0].weight) and torch.equal(model[1].weight, last)
    assert set(taken) == {"0.weight", "0.bias"}
    manager.load_model_bank([{"path": path, "load": ["1.weight"], "oname": {"1.*": "1.*"}}])
    assert torch.equal(model[1].weight, saved[1].weight)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")  # of what a bank lacks
def test_an_optimizer_is_loaded_by_other_names_whoever_gives_the_model(tmp_path: Path, torch: Any) -> None:
    def made(path: Path, *names: str) -> tuple[Any, Any]:
        model = torch.nn.ParameterDict({name: torch.ones(2, 2) for name in names})
        optimizer = torch.optim.Adam([model[name] for name in names])
        manager = CheckpointManager(path, model, signals=())
        manager.register_for_checkpointing("optim", optimizer)
        return manager, optimizer

    manager, optimizer = made(tmp_path / "a", "x", "y")
    for value, tensor in enumerate(optimizer.param_groups[0]["params"], 1):
        tensor.grad = torch.full((2, 2), 10.0 * value)
    optimizer.step()
    with manager:
        manager.step()
        manager.save()
    names = {"path": tmp_path / "a", "oname": {"v": "x", "y2": "y"}}
    for entries in ([{**names, "load": ["optim"], "ignore_error": True}], [names, {**names, "load": ["dense"]}]):
        manager, tuner = made(tmp_path / "b", "y2", "v")
        manager.load_model_bank(entries)
        assert [round(float(tuner.state[one]["exp_avg"][0, 0])) for one in tuner.param_groups[0]["params"]] == [2, 1]


@pytest.mark.parametrize("imported", [False, True])
def test_rows_of_another_dtype_or_shape_are_refused_before_anything_changes(tmp_path: Path, imported: bool) -> None:
    good, path = recis_run(tmp_path / "a"), tmp_path / "b"
    rows = {"embedding": np.ones((2, 2), np.float16), "exp_avg": np.ones((2, 3), np.float32)}
    with ckpt.Store(tmp_path / "s") as store:
        ckpt.save(store, {"tables": {"items": ckpt.Table(np.array([3, 4]), rows)}})
        if not imported:
            with ckpt.Reader(store) as reader:
                reader.export(tmp_path / "b", {"format": "recis"})
    source = {"path": tmp_path / "s" if imported else path}
    fresh = Trainer(tmp_path / "new", 0, [8])
    for column, told in (("embedding", r"expected rows of float32 \(2,\), found float16 \(2,\)"),
                         ("exp_avg", r"expected rows of float32 \(1,\), found float32 \(3,\)")):
        before = fresh.has()
        with pytest.raises(ckpt.MismatchError, match=f"entry 1 .*table 'items', column '{column}': {told}"):
            bank(fresh, {"path": good, "or_rank0": True}, {**source, "load": [f"items@{column}"]})
        assert fresh.has() == before
