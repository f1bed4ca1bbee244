"""ckpt.recis.CheckpointManager: what it saves, when, and what a restore or a model bank loads."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest
from ckpt.recis import CheckpointManager
from conftest import in_threads, run_ranks
from hash_tables import NumpyTable, torch_table
from test_checkpointer import Thing, damage, labels


class Io:
    """Where a worker is in its data."""

    def __init__(self, place: int = -1) -> None:
        self.place = place

    def dump_io_state(self) -> dict[str, int]:
        return {"place": self.place}

    def load_io_state(self, state: dict[str, int]) -> None:
        self.place = state["place"]


class Trainer:
    """A model with two dense tensors and two tables, an io state, an object and a value."""

    def __init__(self, path: Path, value: float = 0, ids: Any = (), **options: Any) -> None:
        self.model = {"dense1.w": np.full(3, float(value)), "dense2.w": np.full(2, float(value))}
        self.tables = {name: NumpyTable(embedding=2, exp_avg=1) for name in ("items", "users")}
        for table in self.tables.values():
            fill(table, ids, value)
        self.optim, self.thing, self.io = Thing(int(value)), Thing(int(value)), Io(int(value))
        self.manager = CheckpointManager(path, self.model, tables=self.tables, sparse_optim=self.optim,
                                         **{"signals": (), **options})
        self.manager.register_for_checkpointing("thing", self.thing)
        self.manager.register_for_checkpointing("note", f"at {value}")
        self.manager.register_io_state("train_io", self.io)

    def has(self) -> dict[str, Any]:
        """One number of each class, or of each variable of the first table."""
        rows = self.tables["items"].export_rows().as_dict()
        return {"dense": self.model["dense1.w"][0], "ids": sorted(rows), "thing": self.thing.value,
                "embedding": sorted({row["embedding"][0] for row in rows.values()}),
                "exp_avg": sorted({row["exp_avg"][0] for row in rows.values()}),
                "sparse_optim": self.optim.value, "io": self.io.place, "step": self.manager.global_step}

    def saved(self) -> Trainer:
        with self.manager:
            self.manager.step()
            self.manager.save()
        return self


def fill(table: NumpyTable, ids: Any, value: float) -> None:
    table.insert_rows(ids, {name: np.full((len(ids), array.shape[1]), value)
                            for name, array in table.arrays.items()})


def everything(value: float, ids: Any, step: int = 1) -> dict[str, Any]:
    return {"dense": value, "ids": sorted(ids), "thing": value, "embedding": [value], "exp_avg": [value],
            "sparse_optim": value, "io": value, "step": step}


NOTHING = {"dense": 0, "ids": [], "thing": 0, "embedding": [], "exp_avg": [], "sparse_optim": 0, "io": 0, "step": 0}


def bank(trainer: Trainer, *entries: dict[str, Any]) -> dict[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ckpt.MissingWarning)
        return trainer.manager.load_model_bank(entries)


# ---- what is registered and saved ----


def test_a_name_is_registered_once(tmp_path: Path) -> None:
    manager = Trainer(tmp_path).manager
    for name in ("thing", "train_io", "items", "model", "sparse_optim", "global_step"):
        with pytest.raises(ValueError, match=f"'{name}' is taken"):
            manager.register_for_checkpointing(name, 1)
        with pytest.raises(ValueError, match=f"'{name}' is taken"):
            manager.register_io_state(name, Io())
    with pytest.raises(ValueError, match="'model' is taken"):
        CheckpointManager(tmp_path, tables={"model": NumpyTable(embedding=1)}, signals=())


def test_an_io_state_must_give_and_take_a_state(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="dump_io_state"):
        Trainer(tmp_path).manager.register_io_state("eval_io", 3)


def test_steps_are_saved_at_the_interval_and_max_keep_of_them_stay(tmp_path: Path) -> None:
    with Trainer(tmp_path, save_interval=3, max_keep=2).manager as manager:
        assert manager.save_interval == 3
        made = [manager.step() for _ in range(11)]
        assert [place + 1 for place, one in enumerate(made) if one] == [3, 6, 9] and manager.global_step == 11
    assert labels(tmp_path) == ["ckpt_6", "ckpt_9"]


def test_tables_are_exported_only_where_a_save_is_due(tmp_path: Path) -> None:
    trainer, exported = Trainer(tmp_path, 1, [5], save_interval=4), []
    table = trainer.tables["items"]
    rows = table.export_rows
    table.export_rows = lambda: exported.append(1) or rows()  # type: ignore[method-assign, func-returns-value]
    with trainer.manager as manager:
        for _ in range(8):
            manager.step()
    assert len(exported) == 2


def test_the_newest_is_restored_or_that_of_a_step(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path, 1, [1, 70000], save_interval=1, max_keep=None)
    with trainer.manager as manager:
        manager.step()
        trainer.model["dense1.w"][:] = trainer.thing.value = trainer.io.place = trainer.optim.value = 2
        fill(trainer.tables["items"], [1, 70000, 3], 2)
        manager.set_extra_data("note", "later")
        manager.step()
    fresh = Trainer(tmp_path)
    assert fresh.manager.restore() == 2 and fresh.has() == everything(2, [1, 3, 70000], 2)
    assert fresh.manager.get_extra_data("note") == "later"
    assert fresh.manager.restore(1) == 1 and fresh.has() == everything(1, [1, 70000])
    assert fresh.manager.get_extra_data("note") == "at 1"
    with pytest.raises(ckpt.NotFoundError, match="ckpt_1"):
        fresh.manager.restore(7)


def test_after_an_older_step_is_restored_later_ones_are_saved_anew(tmp_path: Path) -> None:
    with Trainer(tmp_path, 1, [1], save_interval=1, max_keep=None).manager as manager:
        for _ in range(3):
            manager.step()
    fresh = Trainer(tmp_path, save_interval=1, max_keep=None)
    with fresh.manager as manager:
        manager.restore(1)
        fresh.model["dense1.w"][:] = 8
        manager.step()
    again = Trainer(tmp_path)
    assert again.manager.restore() == 2 and again.has()["dense"] == 8
    with pytest.raises(ckpt.ExistsError, match="ckpt_1"), Trainer(tmp_path, save_interval=1).manager as manager:
        manager.step()  # who forgot to restore


def test_without_a_checkpoint_restore_changes_nothing(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path / "none", 1, [4])
    assert trainer.manager.restore() == 0 and trainer.has() == everything(1, [4], 0)


def damage_rows(path: Path, label: str, table: str) -> None:
    with ckpt.Store(path) as store, ckpt.Reader(store, label) as reader:
        segment = next(reader.segment(tensor.name, 0) for tensor in reader.tensors()
                       if tensor.name.startswith(f"{table}/") and "embedding" in tensor.name)
        part = next(path.glob(f"{label}.*")) / reader.part(segment.part).name
    with open(part, "r+b") as file:
        file.seek(segment.part_offset)
        file.write(b"\xff")


def test_a_table_that_is_damaged_is_passed_over_with_its_checkpoint(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path, 1, [1, 2], save_interval=1, max_keep=None)
    with trainer.manager as manager:
        manager.step()
        fill(trainer.tables["items"], [1, 2, 3], 2)
        manager.step()
    damage_rows(tmp_path, "ckpt_2", "items")
    fresh = Trainer(tmp_path)
    with pytest.warns(ckpt.PassedOverWarning, match="ckpt_2"):
        assert fresh.manager.restore() == 1
    assert fresh.has() == everything(1, [1, 2])


def test_what_a_passed_over_checkpoint_has_changed_is_replaced_or_told(tmp_path: Path) -> None:
    old = Trainer(tmp_path, 1, [1, 2], max_keep=None)
    del old.manager._parts.tables["users"]  # type: ignore[attr-defined]
    del old.model["dense2.w"]
    old.saved()
    new = Trainer(tmp_path, 2, [7], max_keep=None)
    new.manager.restore(load=["global_step"])
    new.saved()
    damage_rows(tmp_path, "ckpt_2", "users")
    Trainer(tmp_path / "bank", 5, [3]).saved()
    with pytest.warns(ckpt.PassedOverWarning), pytest.raises(
            ckpt.CorruptError, match="passed over, has changed .*dense2.w.*users@id"):
        Trainer(tmp_path, 0, [4]).manager.restore(strict=False)
    fresh = Trainer(tmp_path)
    del fresh.model["dense2.w"]
    with pytest.warns(ckpt.PassedOverWarning):
        fresh.manager.restore(strict=False)
    assert fresh.has() == everything(1, [1, 2]) and not fresh.tables["users"].places
    whole = Trainer(tmp_path, model_bank=[{"path": tmp_path / "bank"}])
    with pytest.warns(ckpt.PassedOverWarning):
        whole.manager.restore()
    assert whole.has() == everything(1, [1, 2]) and list(whole.tables["users"].places) == [3]
    assert whole.model["dense2.w"][0] == 5
    joining = Trainer(tmp_path, 0, [4], model_bank=[{"path": tmp_path / "bank", "hashtable_clear": False}])
    with pytest.warns(ckpt.PassedOverWarning), pytest.raises(ckpt.CorruptError, match="has changed 'users@id'"):
        joining.manager.restore()


def test_a_table_is_loaded_in_windows_of_bounded_size(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).permutation(10_000)
    Trainer(tmp_path, 1, ids).saved()
    fresh, sizes = Trainer(tmp_path, window_bytes=20_000), []
    table = fresh.tables["items"]
    insert = table.insert_rows

    def counted(ids: Any, columns: Any) -> None:
        sizes.append(len(ids))
        insert(ids, columns)

    table.insert_rows = counted  # type: ignore[method-assign]
    fresh.manager.restore()
    assert sum(sizes) == 10_000 and max(sizes) <= 1000 and fresh.has()["ids"] == list(range(10_000))


# ---- io states ----


def ranks_saved(path: Path, world: int) -> None:
    def work(rank: int) -> None:
        trainer = Trainer(path, 7, range(rank, 60, world), rank=rank, world_size=world)
        trainer.io.place = 10 + rank
        trainer.saved()
    assert in_threads(world, work) == [None] * world


def test_io_states_of_another_number_of_workers_are_refused_with_both_counts(tmp_path: Path) -> None:
    ranks_saved(tmp_path, 2)
    for rank in range(3):
        fresh = Trainer(tmp_path, rank=rank, world_size=3)
        with pytest.raises(ckpt.MismatchError, match="'train_io' are those of 2 workers, and this run has 3"):
            fresh.manager.restore()
        assert fresh.has() == NOTHING


def test_io_states_are_each_workers_own_or_rank_0s_where_asked(tmp_path: Path) -> None:
    ranks_saved(tmp_path, 2)

    def work(rank: int) -> int:
        fresh = Trainer(tmp_path, rank=rank, world_size=3)
        fresh.manager.restore(or_rank0=True)
        return fresh.io.place

    assert in_threads(3, work) == [10, 11, 10]
    same = Trainer(tmp_path, rank=1, world_size=2)
    same.manager.restore()
    assert same.io.place == 11
    left = Trainer(tmp_path, rank=0, world_size=3)
    left.manager.restore(exclude=["io_state"])
    assert left.io.place == 0 and left.has()["dense"] == 7


@pytest.mark.parametrize("worlds", [(2, 3), (3, 2), (1, 4), (4, 1)])
def test_rows_go_to_any_number_of_ranks_each_to_one(tmp_path: Path, worlds: tuple[int, int]) -> None:
    ranks_saved(tmp_path, worlds[0])

    def work(rank: int) -> list[int]:
        fresh = Trainer(tmp_path, rank=rank, world_size=worlds[1])
        fresh.manager.restore(exclude=["io_state"])
        assert fresh.has()["embedding"] in ([7], [])
        return list(fresh.has()["ids"])

    told = in_threads(worlds[1], work)
    assert sorted(id for ids in told for id in ids) == list(range(60))


def test_a_rank_may_load_the_rows_that_another_rule_gives_it(tmp_path: Path) -> None:
    ranks_saved(tmp_path, 2)
    fresh = Trainer(tmp_path, rank=2, world_size=3, rowset=ckpt.Rowset.mod)
    fresh.manager.restore(exclude=["io_state"])
    assert fresh.has()["ids"] == list(range(2, 60, 3))


# ---- load configs ----


@pytest.mark.parametrize("config, changed", [
    ({}, "dense ids embedding exp_avg thing sparse_optim io step"),
    ({"load": ["*"], "exclude": ["*"]}, ""),
    ({"load": ["dense"]}, "dense"),
    ({"load": ["sparse"]}, "ids embedding"),
    ({"load": ["sparse", "sparse_opt"]}, "ids embedding exp_avg sparse_optim"),
    ({"load": ["extra"]}, "thing step"),
    ({"load": ["io_state"]}, "io"),
    ({"exclude": ["io_state", "extra"]}, "dense ids embedding exp_avg sparse_optim"),
    ({"exclude": ["sparse_opt"]}, "dense ids embedding thing io step"),
    ({"exclude": ["global_step", "recis.dense.optim"]}, "dense ids embedding exp_avg thing sparse_optim io"),
    ({"load": ["items"]}, "ids embedding exp_avg"),
    ({"load": ["items*"], "exclude": ["items@*avg*"]}, "ids embedding"),
    ({"load": ["dense1*", "thing"]}, "dense thing"),
])
def test_a_load_config_chooses_by_class_table_name_and_stars(tmp_path: Path, config: Any, changed: str) -> None:
    Trainer(tmp_path, 5, [1, 2]).saved()
    fresh = Trainer(tmp_path)
    fresh.manager.restore(**config)
    expected = everything(5, [1, 2])
    wanted = {key: expected[key] if key in changed.split() else NOTHING[key] for key in expected}
    if "ids" in changed.split() and "exp_avg" not in changed.split():
        wanted["exp_avg"] = [0]  # new rows have what the table gives any new row
    assert fresh.has() == wanted


def test_slots_without_ids_fill_the_rows_that_are_there(tmp_path: Path) -> None:
    Trainer(tmp_path, 5, [1, 2, 3]).saved()
    fresh = Trainer(tmp_path, 1, [2, 9])
    fresh.manager.restore(load=["sparse_opt"])
    rows = fresh.tables["items"].export_rows().as_dict()
    assert sorted(rows) == [2, 9] and [row["embedding"][0] for row in rows.values()] == [1, 1]
    assert (rows[2]["exp_avg"], rows[9]["exp_avg"]) == (5, 1)


def test_strict_names_what_is_missing_and_unexpected(tmp_path: Path) -> None:
    Trainer(tmp_path, 5, [1]).saved()
    fresh = Trainer(tmp_path)
    fresh.model["dense3.w"] = fresh.model.pop("dense1.w")
    with pytest.raises(ckpt.MismatchError, match=r"lacks 'dense3\.w' of the state.*'dense1\.w' of the checkpoint"):
        fresh.manager.restore()
    assert fresh.model["dense2.w"][0] == 0 and len(fresh.tables["items"].places) == 0
    fresh.manager.restore(strict=False)
    assert fresh.model["dense2.w"][0] == 5 and fresh.model["dense3.w"][0] == 0 and fresh.tables["items"].places


def test_another_shape_is_refused_before_anything_changes(tmp_path: Path) -> None:
    Trainer(tmp_path, 5, [1]).saved()
    fresh = Trainer(tmp_path)
    fresh.model["dense2.w"] = np.zeros(9)
    with pytest.raises(ckpt.MismatchError, match=r"dense2\.w"):
        fresh.manager.restore()
    assert fresh.model["dense1.w"][0] == 0 and not fresh.tables["items"].places


def test_a_name_that_the_model_lacks_is_refused_with_what_was_meant(tmp_path: Path) -> None:
    Trainer(tmp_path, 5, [1]).saved()
    with pytest.raises(ckpt.NotFoundError, match="nothing that is called 'denze1.w'; did you mean 'dense1.w'"):
        Trainer(tmp_path).manager.restore(load=["denze1.w"])


# ---- model banks ----


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Runs a and b: of other values and rows."""
    Trainer(tmp_path / "a", 1, [1, 2]).saved()
    Trainer(tmp_path / "b", 2, [2, 3]).saved()
    return tmp_path


def test_of_a_bank_the_last_source_of_a_variable_wins(runs: Path) -> None:
    fresh = Trainer(runs / "new")
    taken = bank(fresh, {"path": runs / "a"}, {"path": runs / "b", "load": ["dense1*", "items"]})
    assert fresh.has() == {**everything(1, [2, 3]), "dense": 2, "embedding": [2], "exp_avg": [2]}
    assert fresh.model["dense2.w"][0] == 1 and sorted(fresh.tables["users"].places) == [1, 2]
    assert (taken["items@id"], taken["users@id"]) == (f"{runs}/b/ckpt_1.1.1", f"{runs}/a/ckpt_1.1.1")
    assert set(taken) == set(fresh.manager._parts.variables())
    bank(fresh, {"path": runs / "b", "load": ["dense1*", "items"]}, {"path": runs / "a"})
    assert fresh.has() == everything(1, [1, 2])


def test_a_columns_source_may_be_another_than_that_of_the_ids(runs: Path) -> None:
    fresh = Trainer(runs / "new")
    bank(fresh, {"path": runs / "a"}, {"path": runs / "b", "load": ["items"], "exclude": ["items@*avg*"]})
    rows = fresh.tables["items"].export_rows().as_dict()
    assert {id: (row["embedding"][0], row["exp_avg"][0]) for id, row in rows.items()} == {2: (2, 1), 3: (2, 0)}


def test_rows_join_those_of_earlier_sources_unless_the_table_is_cleared(runs: Path) -> None:
    for clear, ids in ((True, [2, 3]), (False, [1, 2, 3])):
        fresh = Trainer(runs / "new", 9, [8])
        bank(fresh, {"path": runs / "a"}, {"path": runs / "b", "load": ["items"], "hashtable_clear": clear})
        rows = fresh.tables["items"].export_rows().as_dict()
        assert sorted(rows) == ids and rows[2]["embedding"][0] == 2
    fresh = Trainer(runs / "new", 9, [2, 8])
    bank(fresh, {"path": runs / "b", "load": ["items"], "hashtable_clear": False})
    rows = fresh.tables["items"].export_rows().as_dict()
    assert {id: row["embedding"][0] for id, row in rows.items()} == {2: 2, 3: 2, 8: 9}


def test_oname_says_what_the_source_calls_it(runs: Path) -> None:
    fresh = Trainer(runs / "new")
    del fresh.manager._parts.tables["users"]  # type: ignore[attr-defined]
    fresh.manager._parts.tables["goods"] = goods = NumpyTable(embedding=2, exp_avg=1)  # type: ignore[index]
    fresh.model["layer.2.w"] = np.zeros(2)
    bank(fresh, {"path": runs / "a", "load": ["goods", "layer.2.w"], "oname": [{"goods*": "users*"},
                                                                             {"layer.*.w": "dense*.w"}]})
    assert sorted(goods.places) == [1, 2] and fresh.model["layer.2.w"][0] == 1 and fresh.model["dense1.w"][0] == 0


def test_oname_may_change_names_with_each_other(runs: Path) -> None:
    with ckpt.Checkpointer(runs / "c", signals=()) as keeper:
        keeper.save(1, {"model": {"a.w": np.full(2, 1.0), "b.w": np.full(2, 2.0)}})
    model: dict[str, Any] = {"a.w": np.zeros(2), "b.w": np.zeros(2)}
    manager = CheckpointManager(runs / "new", model, signals=())
    manager.load_model_bank([{"path": runs / "c", "load": ["dense"], "oname": {"a*": "b*", "b*": "a*"}}])
    assert (model["a.w"][0], model["b.w"][0]) == (2, 1)


def test_a_table_cannot_come_out_of_two(runs: Path) -> None:
    with pytest.raises(ValueError, match="'items' cannot come out of two, 'items' and 'users'"):
        bank(Trainer(runs / "new"), {"path": runs / "a", "oname": {"items@exp_avg": "users@exp_avg"}})


@pytest.mark.parametrize("entry, told", [
    ({"load": ["nothing"]}, "the model has nothing that is called 'nothing'"),
    ({"exclude": ["item"]}, "the model has nothing that is called 'item'; did you mean"),
    ({"load": ["dense3*"]}, r"it lacks 'dense3\*'"),
    ({"oname": {"none*": "items*"}}, r"oname: the model has nothing that is called 'none\*'"),
    ({"oname": {"items*": "none*"}}, r"oname: it has nothing that is called 'none\*'"),
])
def test_names_that_are_not_there_are_refused_or_warned_of(runs: Path, entry: Any, told: str) -> None:
    fresh = Trainer(runs / "new")
    fresh.model["dense3.w"] = np.zeros(2)
    with pytest.raises(ckpt.NotFoundError, match=f"model bank entry 1 .*/a/.*: {told}"):
        bank(fresh, {"path": runs / "b"}, {"path": runs / "a", **entry})
    assert fresh.has() == NOTHING
    with pytest.warns(ckpt.MissingWarning, match=told), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the model bank has nothing for")
        fresh.manager.load_model_bank([{"path": runs / "b"}, {"path": runs / "a", "ignore_error": True, **entry}])
    assert fresh.has()["ids"]


def test_what_no_source_has_is_named_and_stays(runs: Path) -> None:
    fresh = Trainer(runs / "new")
    fresh.model["dense3.w"] = np.ones(2)
    with pytest.warns(ckpt.MissingWarning, match=r"nothing for 1 variables.*dense3\.w") as caught:
        fresh.manager.load_model_bank([{"path": runs / "a"}])
    assert fresh.model["dense3.w"][0] == 1 and caught[0].message.missing == ("dense3.w",)  # type: ignore[union-attr]
    with pytest.raises(ckpt.MismatchError, match=r"entry 0 .*dense3\.w"):
        fresh.manager.load_model_bank([{"path": runs / "a", "strict": True}])


def test_a_source_is_skipped_where_asked(runs: Path) -> None:
    fresh = Trainer(runs / "new")
    bank(fresh, {"path": runs / "a"}, {"path": runs / "not there", "skip": True}, {"path": runs / "b", "skip": True})
    assert fresh.has() == everything(1, [1, 2])


def test_an_entry_that_says_nothing_sensible_is_refused(runs: Path) -> None:
    for entry, told in (({"load": ["*"]}, "path must be given"), ({"path": ""}, "path must be given"),
                        ({"path": "a", "exlude": []}, "unknown key 'exlude'; did you mean 'exclude'"),
                        ({"path": "a", "load": "*"}, "load: expected a list"),
                        ({"path": "a", "oname": [{"a*": "b"}]}, "the same number of stars")):
        with pytest.raises(ValueError, match=told):
            bank(Trainer(runs / "new"), entry)


def test_a_source_that_is_not_there_is_named(runs: Path) -> None:
    fresh = Trainer(runs / "new")
    for path in (runs / "c", runs / "a" / "ckpt_9"):
        with pytest.raises(ckpt.NotFoundError, match=f"model bank entry 1 .*{path.name}"):
            bank(fresh, {"path": runs / "b"}, {"path": path, "ignore_error": True})
    assert fresh.has() == NOTHING


@pytest.mark.parametrize("what", ["manifest", "data"])
def test_a_source_that_is_damaged_is_named(runs: Path, what: str) -> None:
    damage(runs / "a", "ckpt_1", what)
    with pytest.raises(ckpt.CorruptError if what == "data" else ckpt.Error, match="model bank entry 0 .*/a"):
        bank(Trainer(runs / "new"), {"path": runs / "a"})


def test_a_source_may_be_any_checkpoint_of_a_run(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path / "a", 1, [1], save_interval=1, max_keep=None, run="first")
    with trainer.manager as manager:
        manager.step()
        trainer.model["dense1.w"][:] = 2
        manager.step()
    directory = next((tmp_path / "a").glob("ckpt_1.*"))
    for entry in ({"path": tmp_path / "a", "run": "first", "select": "step:1"}, {"path": directory},
                  {"path": tmp_path / "a" / "ckpt_1", "run": "first"}):
        fresh = Trainer(tmp_path / "new")
        bank(fresh, entry)
        assert fresh.has()["dense"] == 1
    fresh = Trainer(tmp_path / "new")
    bank(fresh, {"path": f"file://{tmp_path}/a", "run": "first"})
    assert fresh.has()["dense"] == 2


def test_io_states_of_a_bank_are_those_of_as_many_workers(tmp_path: Path) -> None:
    ranks_saved(tmp_path / "two", 2)
    fresh = Trainer(tmp_path / "new")
    with pytest.raises(ckpt.MismatchError, match="entry 0 .*of 2 workers, and this run has 1"):
        bank(fresh, {"path": tmp_path / "two"})
    bank(fresh, {"path": tmp_path / "two", "or_rank0": True})
    assert fresh.io.place == 10


def test_restore_takes_of_the_bank_what_the_runs_own_checkpoint_lacks(runs: Path) -> None:
    own = Trainer(runs / "own", 5, [7])
    del own.manager._parts.tables["users"]  # type: ignore[attr-defined]
    own.saved()
    fresh = Trainer(runs / "own", model_bank=[{"path": runs / "a"}])
    assert fresh.manager.restore() == 1
    assert fresh.has() == everything(5, [7]) and sorted(fresh.tables["users"].places) == [1, 2]
    first = Trainer(runs / "new", model_bank=[{"path": runs / "b", "exclude": ["global_step"]}])
    assert first.manager.restore() == 0 and first.has() == everything(2, [2, 3], 0)


def test_a_dynamic_source_is_loaded_again_once_it_has_a_newer_checkpoint(runs: Path) -> None:
    fresh = Trainer(runs / "new")
    bank(fresh, {"path": runs / "a"}, {"path": runs / "b", "load": ["items"], "is_dynamic": True})
    fill(fresh.tables["items"], [4], 4)
    assert fresh.manager.reload_model_bank() == {}
    for name in ("a", "b"):
        with Trainer(runs / name, 6, [6]).manager as manager:
            manager.restore(load=["global_step"])
            manager.step()
            manager.save()
    taken = fresh.manager.reload_model_bank()
    assert set(taken) == {"items@id", "items@embedding", "items@exp_avg"}
    assert fresh.has() == {**everything(1, [6]), "embedding": [6], "exp_avg": [6]}


# ---- torch ----


@pytest.mark.torch
def test_modules_optimizers_and_tables_of_torch_go_on(tmp_path: Path, torch: Any) -> None:
    def trainer(path: Path) -> Any:
        torch.manual_seed(0)
        model, table = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)), torch_table(torch, 3)
        optimizer = torch.optim.Adam(model.parameters())
        manager = CheckpointManager(path, model, tables={"items": table}, save_interval=2, signals=())
        manager.register_for_checkpointing("recis.dense.optim", optimizer)
        return model, table, optimizer, manager

    def train(one: Any, first: int, last: int) -> None:
        model, table, optimizer, manager = one
        for n in range(first, last + 1):
            ids = torch.tensor([n, 2 * n, 70000])
            table.insert_rows(ids, {"embedding": torch.full((3, 3), float(n))})
            model(table.values["embedding"]).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            manager.step()

    killed = trainer(tmp_path / "s")
    train(killed, 1, 7)
    killed[3].close()
    again, straight = trainer(tmp_path / "s"), trainer(tmp_path / "t")
    assert again[3].restore() == 6
    train(again, 7, 9)
    train(straight, 1, 9)
    for one in (again, straight):
        one[3].close()
    assert all(torch.equal(a, b) for a, b in zip(again[0].state_dict().values(), straight[0].state_dict().values()))
    assert torch.equal(again[1].ids, straight[1].ids)
    assert torch.equal(again[1].values["embedding"], straight[1].values["embedding"])


# ---- ranks of torch ----

PROGRAM = Path(__file__).with_name("recis_ranks.py")


def of_ranks(folder: Path, world: int, mode: str) -> list[list[str]]:
    """What each process prints: the error, the step, whether it has the model, whether rows are right, their ids."""
    outs = run_ranks(PROGRAM, world, folder, folder / f"meet-{mode}-{world}", folder / "s", mode)
    return [out.split() for out, _ in outs]


@pytest.mark.torch
def test_two_processes_save_and_three_restore_or_load_it_as_a_bank(tmp_path: Path) -> None:
    of_ranks(tmp_path, 2, "save")
    for mode in ("restore", "bank"):
        told = of_ranks(tmp_path, 3, mode)
        assert [one[:4] for one in told] == [["fine", "4", "1.0", "True"]] * 3
        assert sorted(int(id) for one in told for id in one[4:]) == list(range(100))


@pytest.mark.torch
def test_a_rank_that_cannot_load_a_bank_leaves_no_other_waiting(tmp_path: Path) -> None:
    of_ranks(tmp_path, 2, "save")
    assert [one[0] for one in of_ranks(tmp_path, 2, "fail")] == ["AbortedError", "MismatchError"]


@pytest.mark.torch
def test_what_a_rank_has_of_a_passed_over_checkpoint_is_emptied_or_told_on_all(tmp_path: Path) -> None:
    of_ranks(tmp_path, 2, "save")
    of_ranks(tmp_path, 2, "late")
    damage_rows(tmp_path / "s", "ckpt_6", "items")  # which rank 1, who has rows of users then, does not read
    assert [one[:2] + one[-1:] for one in of_ranks(tmp_path, 2, "empty")] == [["fine", "4", "users"]] * 2
    assert [one[0] for one in of_ranks(tmp_path, 2, "full")] == ["CorruptError"] * 2


@pytest.mark.torch
def test_a_rank_that_cannot_make_its_state_leaves_no_other_waiting(tmp_path: Path) -> None:
    assert [one[0] for one in of_ranks(tmp_path, 2, "unmade")] == ["AbortedError", "ZeroDivisionError"]
    assert labels(tmp_path / "s") == ["after"]
