"""ckpt.Checkpointer: what other checkpoint managers have (docs/managers.md)."""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ckpt
import numpy as np
import pytest
from test_checkpointer import at, labels

PAGE = Path(__file__).parents[3] / "docs/managers.md"


def train(path: Path, losses: Sequence[float], accuracies: Sequence[float] = (), **policy: Any) -> None:
    """Steps from 1 on, each of which is saved."""
    with ckpt.Checkpointer(path, **{"every": 1, **policy}) as keeper:
        for n, loss in enumerate(losses, 1):
            keeper.step(n, at(n), metrics={"loss": loss, **({"acc": accuracies[n - 1]} if accuracies else {})})


def test_each_test_that_the_page_names_is_there() -> None:
    tests = {found for file in Path(__file__).parent.glob("test_*.py")
             for found in re.findall(r"^def test_(\w+)", file.read_text(), re.M)}
    cpp = {found for file in PAGE.parents[1].glob("tests/keeper/*.cpp")
           for found in re.findall(r"^TEST\(\w+, (\w+)", file.read_text(), re.M)}
    named = set(re.findall(r"`(\w+)` \|$", PAGE.read_text(), re.M))
    assert len(named) > 10 and named <= tests | cpp


# ---- what there is ----


def test_steps_metrics_and_the_best_are_asked_of_the_store(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s", keep_best=[("loss", "min"), ("acc", "max")]) as keeper:
        assert (keeper.all_steps(), keeper.latest_step(), keeper.best_step()) == ([], None, None)
        for n, loss, acc in ((3, 2.0, 0.5), (7, 1.0, float("inf")), (9, 3.0, 0.1)):
            keeper.save(n, at(n), metrics={"loss": loss, "acc": acc})
        keeper.wait()
        assert (keeper.all_steps(), keeper.latest_step(), keeper.best_step()) == ([3, 7, 9], 9, 7)
        assert keeper.metrics(7) == {"loss": 1, "acc": float("inf")}
        assert keeper.metrics("latest") == keeper.metrics("step-9.1.1") == {"loss": 3, "acc": 0.1}
        with pytest.raises(ckpt.NotFoundError):
            keeper.metrics(8)


def test_what_is_deleted_is_forgotten_by_retention(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s", every=1, keep_last=2, keep_best="loss:min") as keeper:
        for n, loss in enumerate([1, 2, 9], 1):
            keeper.step(n, at(n), metrics={"loss": loss})
        keeper.wait()
        assert keeper.delete(1) == "step-1.1.1" and keeper.all_steps() == [2, 3]
        keeper.step(4, at(4), metrics={"loss": 9})
        keeper.wait()
        assert keeper.all_steps() == [2, 3, 4], "2 is the best now"
        keeper.delete(4)
        assert keeper.save(4, at(4)) == "step-4.1.2", "it was not just saved"
        keeper.wait()
        with pytest.raises(ckpt.NotFoundError):
            keeper.delete(1)
        keeper._store.keep("step-3.1.1")
        with pytest.raises(ckpt.ConflictError):
            keeper.delete(3)


def test_one_that_is_read_only_refuses_before_anything_is_touched(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s", read_only=True) as keeper:
        assert keeper.restore(at()) is None
        for call in (lambda: keeper.step(1, at()), lambda: keeper.save(1, at()), lambda: keeper.should_save(1),
                     lambda: keeper.delete(1)):
            with pytest.raises(ckpt.InvalidError, match="read-only"):
                call()
        assert not (tmp_path / "s").exists()
        with ckpt.Checkpointer(tmp_path / "s", every=1, signals=()) as trainer:
            trainer.step(1, at(1))
            trainer.wait()
            restored = keeper.restore(at())
            assert restored is not None and restored.step == 1 and keeper.all_steps() == [1]
            with pytest.raises(ckpt.InvalidError, match="checkpoint 1 is neither saved nor removed"):
                keeper.delete(1)
            trainer.step(2, at(2))  # nobody has taken its run


# ---- when ----


def test_should_save_says_what_step_does(tmp_path: Path) -> None:
    asked: list[int] = []
    with ckpt.Checkpointer(tmp_path / "s", every="2 epochs, 5 steps", label="s{step}-{metrics.loss:.1f}") as keeper:
        for n in range(1, 8):
            if keeper.should_save(n, epoch=n // 3):
                assert keeper.should_save(n, epoch=n // 3)
                asked.append(n)
                assert keeper.step(n, at(n), metrics={"loss": n}) is not None
            else:
                assert keeper.step(n, at(n), metrics={"loss": -1.0}) is None
        assert keeper.step(8, at(8), epoch=4) is not None, "it was not asked"
        keeper.wait()
        assert keeper.metrics(5) == {"loss": 5} and keeper.metrics(8) == {}
    assert asked == [5, 6] and labels(tmp_path / "s") == ["s5-5.0", "s6-6.0", "s8-none"]


def test_idle_saves_whenever_no_save_runs(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s", every="idle") as keeper:
        for n in (1, 2, 3):
            assert keeper.step(n, at(n)) is not None
            keeper.wait()
    with ckpt.Checkpointer(tmp_path / "t", every="idle 1 h") as keeper:
        assert keeper.step(1, at(1)) is None
    with pytest.raises(ValueError, match="idle"):
        ckpt.Checkpointer(tmp_path / "s", every="idle 3 steps")


def test_what_a_training_had_when_it_failed_is_a_run_of_its_own(tmp_path: Path,
                                                                caplog: pytest.LogCaptureFixture) -> None:
    w = np.zeros(4)
    state: Any
    for name, state in (("dict", {"w": w}), ("function", lambda: {"w": w})):
        with pytest.raises(KeyError):
            with ckpt.Checkpointer(tmp_path / name, every=2, save_on_exception=True) as keeper:
                for n in range(1, 4):
                    w[:] = n
                    keeper.step(n, state)
                raise KeyError("out of data")
        assert labels(tmp_path / name, "main") == ["step-2"], "what was in flight is committed, and the latest"
        assert labels(tmp_path / name, "main.exception") == ["step-3"]
        assert (ckpt.load(tmp_path / name, run="main.exception")["w"] == 3).all()
        with ckpt.open(tmp_path / name, run="main.exception") as opened:
            assert "out of data" in opened.attrs["trainer.exception"]
    with pytest.raises(KeyError):
        with ckpt.Checkpointer(tmp_path / "s", save_on_exception=True) as keeper:
            keeper.step(1, {"w": object()})
            raise KeyError
    assert "could not be saved into run main.exception" in caplog.text
    with pytest.raises(KeyboardInterrupt):
        with ckpt.Checkpointer(tmp_path / "k", save_on_exception=True) as keeper:
            keeper.step(1, at())
            raise KeyboardInterrupt
    assert not (tmp_path / "k").exists(), "who interrupts does not want to wait"


# ---- what stays ----


def test_what_a_predicate_is_true_for_stays_for_ever(tmp_path: Path) -> None:
    train(tmp_path / "s", [1, 9, 1, 9, 1], keep_last=1, keep=lambda moment: moment.metrics["loss"] > 5)
    assert labels(tmp_path / "s") == ["step-2", "step-4", "step-5"]
    with ckpt.Store(tmp_path / "t") as store:
        train(tmp_path / "t", [9, 1, 1, 1], keep_last=3, keep=lambda moment: moment.metrics["loss"] > 5)
        store.prune(keep_last=1)
    assert labels(tmp_path / "t") == ["step-1", "step-4"], "no other removal takes it"


@pytest.mark.parametrize("every, wanted", [
    (datetime.timedelta(hours=1), [1, 5]), ("1 h", [1, 5]), ([2, "1 h"], [1, 2, 4, 5]),
    (datetime.timedelta(milliseconds=1), None), (2, [2, 4, 5])])
def test_of_checkpoints_an_interval_apart_one_stays(tmp_path: Path, every: Any, wanted: list[int] | None) -> None:
    with ckpt.Checkpointer(tmp_path / "s", every=1, keep_last=1, keep_every=every) as keeper:
        for n in range(1, 6):
            keeper.step(n, at(n))
        keeper.wait()
        assert keeper.all_steps() == wanted or (wanted is None and len(keeper.all_steps()) > 2)


def test_the_best_of_several_metrics_stay_each_for_itself(tmp_path: Path) -> None:
    def score(moment: ckpt.Moment) -> float | None:
        return None if moment.step == 1 else abs(moment.metrics["loss"] - 3)

    losses, accuracies = [1, 2, 3.5, 4, 5, 6], [1, 9, 2, 3, 4, 5]
    best: Any
    for name, best, wanted in (
            ("list", [("loss", "min"), ("acc", "max")], [1, 2, 6]), ("texts", ["loss:min:2", "acc:max"], [1, 2, 6]),
            ("text", "loss:min, acc:max", [1, 2, 6]), ("one", ["loss", "min"], [1, 6]),
            ("score", [(score, "min", 2), "acc:max"], [2, 3, 4, 6]),
            ("lambda", (lambda moment: moment.metrics["acc"], "max"), [2, 6])):
        train(tmp_path / name, losses, accuracies, keep_last=1, keep_best=best)
        assert [info.step for info in ckpt.ls(tmp_path / name)] == wanted, name
    with ckpt.Checkpointer(tmp_path / "score", keep_best=[(score, "min"), "acc:max"], signals=()) as keeper:
        assert keeper.best_step() == 3 and keeper.metrics(3) == {"loss": 3.5, "acc": 2, "score": 0.5}
        assert keeper.metrics(2) == {"loss": 2, "acc": 9, "score": 1}
    with pytest.raises(ValueError, match="two functions"):
        ckpt.Checkpointer(tmp_path / "s", keep_best=[(lambda moment: 1, "min"), (lambda moment: 2, "max")])


# ---- what is told ----


def test_events_tell_how_long_it_took(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    events: list[ckpt.Event] = []
    scalars: dict[str, float] = {}
    caplog.set_level(logging.INFO)
    page = {"ckpt": ckpt, "path": tmp_path / "page", "logging": logging, "run": SimpleNamespace(log=scalars.update),
            "writer": SimpleNamespace(add_scalar=lambda name, value, step: scalars.update({f"{name}@{step}": value}))}
    exec(PAGE.read_text().split("```python\n")[1].split("```")[0], page)  # the hooks of the page
    page["keeper"].close()
    hooks = [events.append, *(page[name] for name in ("to_log", "to_tensorboard", "to_wandb"))]
    with ckpt.Checkpointer(tmp_path / "s", on_event=hooks) as keeper:
        keeper.save(1, {"w": np.zeros(1000)})
        keeper.save(2, {"w": np.zeros(1000)})
        keeper.wait()
        keeper.restore({"w": np.zeros(1000)})
        ckpt.Session(ckpt.Store(tmp_path / "s")).close()  # fences ours
        with pytest.raises(ckpt.FencedError):
            keeper.save(3, {"w": np.zeros(1000)})
            keeper.wait()
    told = [(event.what, event.step, event.id, type(event.error)) for event in events]
    assert told[:3] == [("committed", 1, "step-1.1.1", type(None)), ("committed", 2, "step-2.1.1", type(None)),
                        ("restored", 2, "step-2.1.1", type(None))]
    numbers = events[0].numbers
    assert numbers["bytes"] >= 8000 and numbers["bytes_written"] >= 8000
    assert 0 < numbers["seconds"] and 0 < numbers["seconds_blocked"] < 60
    assert events[2].numbers["seconds"] > 0 and "committed step-1.1.1, seconds_blocked 0." in caplog.text
    assert scalars["ckpt/committed/bytes@1"] == scalars["ckpt/committed/bytes"] == numbers["bytes"]


# ---- part of a checkpoint, in another model ----


def test_load_takes_the_words_of_restore(tmp_path: Path) -> None:
    state = {"model": {"a": np.ones(2), "b": np.full(3, 2.0), "n": 5}, "list": [np.ones(1), {"x": np.zeros(2), "y": 1}],
             "odd": {1.5: 1, 2.5: np.ones(1)}, "step": 7}
    ckpt.save(tmp_path / "s", state, step=7)

    def loaded(**given: Any) -> Any:
        return ckpt.load(tmp_path / "s", **given)

    def shown(value: Any) -> Any:
        return {key: shown(one) for key, one in value.items()} if isinstance(value, dict) else (
            [shown(one) for one in value] if isinstance(value, list) else
            value.tolist() if isinstance(value, np.ndarray) else value)

    assert shown(loaded(only="model/a")) == {"model": {"a": [1, 1]}}
    assert shown(loaded(only=["model", "step"], without="model/b")) == {"model": {"a": [1, 1], "n": 5}, "step": 7}
    assert shown(loaded(only="list/1/x")) == {"list": [None, {"x": [0, 0]}]}
    assert shown(loaded(only="odd/2.5")) == {"odd": {1.5: 1, 2.5: [1]}}, "one value"
    assert shown(loaded(at=("model",), only="[ab]")) == {"a": [1, 1], "b": [2, 2, 2]}
    assert type(loaded(only="model/a")["model"]) is dict
    own: dict[str, Any] = {"model": {"a": np.zeros(2), "b": np.zeros(3)}}
    assert loaded(into=own, only="model/b") is own and shown(own) == {"model": {"a": [0, 0], "b": [2, 2, 2]}}
    own = {"c": np.zeros(2), "d": np.zeros(2), "b": np.zeros(9), "e": np.zeros(1)}
    with pytest.warns(ckpt.MissingWarning, match="'e'"):
        loaded(at=("model",), into=own, rename={"a": ["c", "d"]}, on_shape_mismatch="skip", strict="none")
    assert shown(own) == {"c": [1, 1], "d": [1, 1], "b": [0] * 9, "e": [0]}
    with pytest.raises(ckpt.MismatchError, match='lacks .*e.*strict="none" restores the rest'):
        loaded(into={"model": {"e": np.zeros(1)}}, without="step")
    given: dict[str, Any]
    for given in ({"only": "modle"}, {"only": "modle", "into": {"model": own}}, {"without": "x"}):
        with pytest.raises(ckpt.NotFoundError, match="nothing in the state or the checkpoint has a path"):
            loaded(**given)
    for given in ({"rename": {"model": "m"}}, {"only": "step", "into": [1]}):
        with pytest.raises(ValueError, match="need an into= that is a dict"):
            loaded(**given)


def test_load_chooses_in_files_of_other_programs(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"a": {"x": np.ones(2)}, "b": np.zeros(2)}, step=1)
    with ckpt.Reader(ckpt.Store(tmp_path / "s")) as reader:
        reader.export(tmp_path / "m.safetensors")
    assert set(ckpt.load(tmp_path / "m.safetensors", without="b")) == set(ckpt.load(tmp_path / "m.safetensors")) - {"b"}
    assert set(ckpt.load(tmp_path / "m.safetensors", only=["b"])) == {"b"}
    with pytest.raises(ValueError, match="option map"):
        ckpt.load(tmp_path / "m.safetensors", into={}, rename={"b": "c"})


def test_a_part_is_restored_into_several_places_of_another_model(tmp_path: Path) -> None:
    block = {"w": np.arange(3.0), "b": np.ones(1)}
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        keeper.save(1, {"model": {"block": block, "head": np.ones(9)}, "optimizer": {"lr": 1}})
    student: dict[str, Any] = {"student": {"one": {"w": np.zeros(3), "b": np.zeros(1)},
                                           "two": {"w": np.zeros(3), "b": np.zeros(1)}, "new": np.zeros(5)}}
    with ckpt.Checkpointer(tmp_path / "s", read_only=True) as keeper:
        restored = keeper.restore(student, only=["student/one", "student/two"],
                                  rename={"model/block": ["student/one", "student/two"], "model": "student"})
    assert restored is not None and restored.missing == ()
    for part in ("one", "two"):
        assert (student["student"][part]["w"] == block["w"]).all() and student["student"][part]["b"] == 1
    assert not student["student"]["new"].any() and set(student) == {"student"}


# ---- several ranks ----


def on_ranks(path: str) -> tuple[Any, ...]:
    """Rank 1 fails; what becomes of the other, and of what rank 0 finds."""
    import torch.distributed as dist
    rank = dist.get_rank()
    with ckpt.Checkpointer(path, every="idle", keep=lambda moment: moment.step == 1) as keeper:
        keeper.step(1, at(1), metrics={"loss": 2.0 + rank})
        keeper.wait()
        saves = keeper.should_save(2)
        keeper.step(2, at(2))
        keeper.wait()
        found = (saves, keeper.all_steps(), keeper.latest_step(), keeper.metrics(1), keeper.delete(2))
    try:
        with ckpt.Checkpointer(path, save_on_exception=True, timeout_ms=2000) as keeper:
            keeper.restore(at())
            keeper.step(3, at(3))
            if rank == 1:
                raise KeyError("one rank")
            keeper.step(4, at(4))
    except (KeyError, ckpt.Error) as error:
        return (*found, type(error).__name__)
    return found


def both_fail(path: str) -> str:
    try:
        with ckpt.Checkpointer(path, save_on_exception=True) as keeper:
            keeper.step(5, at(5))
            raise KeyError("all")
    except KeyError as error:
        return str(error)


@pytest.mark.torch
def test_ranks_find_the_same_and_save_together_what_they_had(ranks: Any, tmp_path: Path) -> None:
    found = ranks(2, on_ranks, str(tmp_path / "s"))
    assert [one[:5] for one in found] == [(True, [1, 2], 2, {"loss": 2.0}, "step-2.1.1")] * 2
    assert found[1][5] == "KeyError" and found[0][5] in ("MismatchError", "AbortedError")
    assert labels(tmp_path / "s") == ["step-1"], "nothing is saved of what one rank had"
    assert ranks(2, both_fail, str(tmp_path / "s")) == ["'all'"] * 2
    assert labels(tmp_path / "s", "main.exception") == ["step-5"]


def test_ranks_that_cannot_agree_refuse_what_needs_that(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="exception"):
        ckpt.Checkpointer(tmp_path / "s", rank=0, world_size=2, save_on_exception=True)
    with ckpt.Checkpointer(tmp_path / "s", rank=0, world_size=2) as keeper:
        assert keeper.all_steps() == []
        with pytest.raises(ckpt.InvalidError, match="would all remove it"):
            keeper.delete(1)
        with pytest.raises(ValueError, match="clock"):
            ckpt.Checkpointer(tmp_path / "s", rank=0, world_size=2, every="idle")
