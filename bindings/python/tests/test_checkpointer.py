"""ckpt.Checkpointer: when it saves, what it keeps, and what it restores."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest
from conftest import in_threads


def labels(path: Path | ckpt.Store, run: str | None = None) -> list[str]:
    return [info.label for info in ckpt.ls(path, run)]


def at(value: float = 0) -> dict[str, Any]:
    return {"w": np.full(1000, float(value)), "step": value}


def restore(keeper: ckpt.Checkpointer, *given: Any, **choice: Any) -> ckpt.Restored:
    found = keeper.restore(*given, **choice)
    assert found is not None
    return found


def damage(path: Path, label: str, what: str = "data") -> None:
    """Changes a byte of a tensor, or of the manifest."""
    file, place = next(path.glob(f"{label}.*")) / "MANIFEST", -100
    if what == "data":
        with ckpt.Store(path) as store, ckpt.Reader(store, label) as reader:
            name = next(info.name for info in reader.tensors() if info.stored_bytes)
            segment = reader.segment(name, 0)
            file, place = file.with_name(reader.part(segment.part).name), segment.part_offset
    with open(file, "r+b") as opened:
        opened.seek(place, 0 if place >= 0 else 2)
        byte = opened.read(1)
        opened.seek(-1, 1)
        opened.write(bytes([byte[0] ^ 255]))


class Thing:
    """An object with a state, as a scheduler or a data loader is."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]


# ---- when ----


@pytest.mark.parametrize("every, wanted", [
    (3, [3, 6, 9]), (["4 steps", 3], [3, 4, 6, 8, 9]), (None, []), ("1 epoch, 7 steps", [4, 7, 8]),
    (lambda moment: moment.step in (2, 7), [2, 7]),
    ([lambda moment: moment.metrics["loss"] < 2, datetime.timedelta(hours=1), 5], [5, 9]),
    (datetime.timedelta(microseconds=1), [1, 2, 3, 4, 5, 6, 7, 8, 9]),
])
def test_a_save_is_due(tmp_path: Path, every: Any, wanted: list[int]) -> None:
    with ckpt.Checkpointer(tmp_path / "s", every=every) as keeper:
        saved = [n for n in range(1, 10)
                 if keeper.step(n, at(n), metrics={"loss": 10 - n}, epoch=n // 4) is not None]
    assert saved == wanted
    assert not wanted or labels(tmp_path / "s") == [f"step-{n}" for n in wanted]


@pytest.mark.parametrize("wrong, why", [
    ({"every": 0}, "every"), ({"every": "10 parsecs"}, "every"), ({"every": ["1 epoch", ""]}, "every"),
    ({"every": True}, "every"), ({"every": 1.5}, "every"), ({"keep_every": 10}, "without keep_last"),
    ({"keep_last": 0}, "keep_last"), ({"keep_last": 2, "label": "ep{epoch}"}, "{step}"), ({"label": "{x}"}, "label"),
    ({"keep_best": ("loss", "low", 2)}, "keep_best"), ({"time_limit": "soon"}, "time_limit"),
    ({"signals": ["SIGNOTHING"]}, "signals"),
])
def test_a_policy_that_means_nothing_is_refused(tmp_path: Path, wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(TypeError if type(wrong.get("every")) in (bool, float) else ValueError, match=why):
        ckpt.Checkpointer(tmp_path / "s", **wrong)


def test_a_counter_that_step_was_not_told_is_an_error(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s", every="1 epoch", label="ep{epoch}") as keeper:
        for call in (lambda: keeper.step(1, at()), lambda: keeper.save(1, at()),
                     lambda: keeper.step(1, at(), epoch=float("nan"))):
            with pytest.raises(ValueError, match="epoch"):
                call()


def test_counters_go_on_after_a_restart(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s", every="2 epochs") as keeper:
        keeper.step(40, at(), metrics={"loss": 1, "worst": float("inf")}, epoch=4, sample=2.5)
    with ckpt.Checkpointer(tmp_path / "s", every="2 epochs") as keeper:
        restored = restore(keeper, at())
        assert repr(restored.counters) == "{'epoch': 4, 'sample': 2.5}"
        assert repr(restored.metrics) == "{'loss': 1.0, 'worst': inf}"
        assert [n for n in (41, 50, 60) if keeper.step(n, at(), epoch=n // 10)] == [60]


# ---- what is kept ----


def test_a_restart_knows_the_best(tmp_path: Path) -> None:
    for first, losses in ((1, [5, 1, 5]), (4, [4, 3, 6]), (7, [7, 8, 9])):
        with ckpt.Checkpointer(tmp_path / "s", every=1, keep_last=1, keep_best=("loss", "min", 1)) as keeper:
            for n, loss in enumerate(losses, first):
                keeper.step(n, at(n), metrics={"loss": loss})
    assert labels(tmp_path / "s") == ["step-2", "step-9"]
    with ckpt.Checkpointer(tmp_path / "s", keep_last=1, keep_best=("loss", "min", 1)) as keeper:
        restored = restore(keeper, at(), select="best")
    assert restored.step == 2 and restored.metrics == {"loss": 1}


# ---- saving ----


def test_the_state_may_change_after_step(tmp_path: Path) -> None:
    state = {f"w{i}": np.full(20_000, 1.0) for i in range(50)}
    with ckpt.Checkpointer(tmp_path / "s", every=1) as keeper:
        keeper.step(1, state)
        for array in state.values():
            array[:] = 2
    assert all((array == 1).all() for array in ckpt.load(tmp_path / "s").values())


def test_a_step_that_was_just_saved_is_not_saved_again(tmp_path: Path) -> None:
    asked = []
    with ckpt.Checkpointer(tmp_path / "s", every=5) as keeper:
        first = keeper.step(5, at(5))
        assert keeper.save(5, lambda: asked.append(1)) == first
    assert labels(tmp_path / "s") == ["step-5"] and not asked


def test_a_failure_is_raised_by_the_next_save_and_by_close(tmp_path: Path) -> None:
    keeper = ckpt.Checkpointer(tmp_path / "s", every=10)
    keeper.save(5, at())
    keeper.wait()
    ckpt.Session(ckpt.Store(tmp_path / "s")).close()  # fences ours
    for end in (lambda: keeper.save(7, at()), keeper.close):
        try:
            keeper.save(6, at())
        except ckpt.FencedError:
            continue
        with pytest.raises(ckpt.FencedError):
            end()
    assert labels(tmp_path / "s") == ["step-5"]


def test_an_exception_that_leaves_the_block_leaves_nothing_behind(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyError):
        with ckpt.Checkpointer(tmp_path / "s", every=1) as keeper:
            keeper.step(1, at())
            raise KeyError
    assert signal.getsignal(signal.SIGTERM) is before and "closed" in repr(keeper)


def test_commits_are_told_once(tmp_path: Path) -> None:
    told: list[ckpt.CheckpointInfo] = []
    with ckpt.Checkpointer(tmp_path / "s", every=2, on_commit=told.append) as keeper:
        for n in range(1, 8):
            keeper.step(n, at(n))
    assert [(info.label, info.step, info.state.name) for info in told] == [
        (f"step-{n}", n, "COMMITTED") for n in (2, 4, 6)]


def test_an_on_commit_that_raises_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def tell(info: ckpt.CheckpointInfo) -> None:
        told.append(info.label)
        raise RuntimeError("the pager is down")

    with ckpt.Checkpointer(tmp_path / "s", every=2, on_commit=tell) as keeper:
        for n in range(1, 6):
            keeper.step(n, at(n))
    assert told == labels(tmp_path / "s") == ["step-2", "step-4"] and "the pager is down" in caplog.text


def test_updating_waits_until_arrays_in_place_are_written(tmp_path: Path) -> None:
    w = np.zeros(3_000_000)
    with ckpt.Checkpointer(tmp_path / "s", every=1, in_place=True) as keeper:
        for n in range(1, 4):
            with keeper.updating():
                w[:] = n
            keeper.step(n, {"w": w})
    for n in range(1, 4):
        assert (ckpt.load(tmp_path / "s", f"step-{n}")["w"] == n).all()


# ---- restoring ----


def test_a_store_without_checkpoints_restores_none(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        assert keeper.restore(at()) is None
        assert not (tmp_path / "s").exists()


def test_restoring_is_in_place(tmp_path: Path) -> None:
    thing, w, history = Thing(7), np.full(10, 3.0), [1, 2]
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        keeper.save(9, {"thing": thing, "w": w, "more": {"history": history, "pair": (w, 1)}, "epoch": 2})
        keeper.wait()
        other, fresh, longer = Thing(), np.zeros(10), [0]
        state: dict[str, Any] = {"thing": other, "w": fresh, "more": {"history": longer, "pair": (fresh, 0)},
                                 "epoch": 0}
        restored = restore(keeper, state)
    assert restored.state is state and restored.step == 9
    assert state["thing"] is other and other.value == 7
    assert state["w"] is fresh and (fresh == 3).all() and state["more"]["pair"][1] == 1 and state["epoch"] == 2
    assert state["more"]["history"] is longer and longer == [1, 2]


def test_a_step_a_label_and_an_id_are_selected(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        for n in (1, 2, 3):
            keeper.save(n, at(n), label="half" if n == 2 else None)
        keeper.wait()
        assert [restore(keeper, at(), select).step for select in (1, "half", "step-3.1.1", "latest")] == [1, 2, 3, 3]
        with pytest.raises(ckpt.NotFoundError, match="step-3"):
            keeper.restore(at(), "nothing")


def test_restoring_alone_takes_the_run_from_nobody(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s") as trainer:
        trainer.save(1, at())
        trainer.wait()
        ckpt.Checkpointer(tmp_path / "s", signals=()).restore(at())
        trainer.save(2, at())


@pytest.mark.parametrize("what", ["MANIFEST", "data"])
def test_a_damaged_newest_is_passed_over_aloud_and_its_step_saved_again(tmp_path: Path, what: str) -> None:
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        for n in (1, 2, 3):
            keeper.save(n, at(n))
    damage(tmp_path / "s", "step-3", what)
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        state = at()
        with pytest.warns(ckpt.PassedOverWarning, match="step-3"):
            assert restore(keeper, state).step == 2
        assert state["step"] == 2 and (state["w"] == 2).all()
        keeper.save(3, at(33))
    assert ckpt.load(tmp_path / "s")["step"] == 33


def test_damage_of_all_checkpoints_is_an_error(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        for n in (1, 2):
            keeper.save(n, at(n))
    for n in (1, 2):
        damage(tmp_path / "s", f"step-{n}")
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        for _ in range(2):  # the second begins anew
            with pytest.raises(ckpt.CorruptError, match="step-1"):
                keeper.restore(at())
        keeper.save(3, at(3))
        assert restore(keeper, at()).step == 3


def test_a_checkpoint_that_was_chosen_is_not_passed_over(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        for n in (1, 2):
            keeper.save(n, at(n))
        keeper.wait()
        damage(tmp_path / "s", "step-2")
        with pytest.raises(ckpt.CorruptError):
            keeper.restore(at(), 2)


def test_only_the_parts_of_the_state_are_restored(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        keeper.save(1, {"a": np.ones(3), "b": np.ones(4), "n": 5})
        keeper.wait()
        state = {"a": np.zeros(3)}
        keeper.restore(state)
        assert list(state) == ["a"] and (state["a"] == 1).all()
        with pytest.raises(ckpt.NotFoundError, match="'c'"):
            keeper.restore({"c": 0})


def test_only_and_without_choose(tmp_path: Path) -> None:
    saved = {"a": {"x": np.ones(3), "y": np.ones(3)}, "b": np.ones(3), "n": 5}
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        keeper.save(1, saved)
        keeper.wait()

        def restored(**choice: Any) -> list[str]:
            state: dict[str, Any] = {"a": {"x": np.zeros(3), "y": np.zeros(3)}, "b": np.zeros(3), "n": 0}
            keeper.restore(state, **choice)
            found = {"a/x": state["a"]["x"][0], "a/y": state["a"]["y"][0], "b": state["b"][0], "n": state["n"]}
            return [path for path, value in found.items() if value]

        assert restored() == ["a/x", "a/y", "b", "n"]
        assert restored(only="a") == ["a/x", "a/y"]
        assert restored(only=["a/x", "n"]) == ["a/x", "n"]
        assert restored(without=["a"]) == ["b", "n"]
        assert restored(without="*y") == ["a/x", "b", "n"]
        assert restored(only="a", without="a/x") == ["a/y"]


@pytest.mark.parametrize("choice, said", [
    ({"only": "modle"}, "only: .*'modle' fits; there are 'model', 'epoch', 'old'.*did you mean 'model'"),
    ({"only": ["epoch", "modell*"]}, r"'modell\*' fits.*did you mean 'model'"),
    ({"only": "Model/*", "strict": False}, "'Model/.' fits"),
    ({"without": "model/wieght"}, "without: .*did you mean 'model/weight'"),
    ({"rename": {"modle": "net"}}, "rename: the checkpoint has nothing that is called 'modle'.*did you mean 'model'"),
])
def test_a_pattern_or_name_that_fits_nothing_is_an_error_before_anything_changes(tmp_path: Path, choice: Any,
                                                                                 said: str) -> None:
    ckpt.save(tmp_path / "s", {"model": {"weight": np.ones(2)}, "old": 1, "epoch": 3}, step=1)
    state: dict[str, Any] = {"model": {"weight": np.zeros(2), "head": np.zeros(1)}, "epoch": 0}
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        with pytest.raises(ckpt.NotFoundError, match=said):
            keeper.restore(state, **choice)
        if "strict" not in choice:
            with pytest.raises(ckpt.NotFoundError, match=said):
                ckpt.load(tmp_path / "s", into=state, **choice)
        assert not state["model"]["weight"].any() and state["epoch"] == 0
        # Of the state alone, of the checkpoint alone, and a new name that the checkpoint has already.
        assert keeper.restore(state, without=["model/head", "old"], rename={"start": "epoch"}) is not None
    assert state["model"]["weight"].all() and state["epoch"] == 3
    for option in ("map", "exclude"):
        with pytest.raises(ValueError, match=f"{option}: 'modle' is for files of another program"):
            ckpt.load(tmp_path / "s", options={option: "modle"})


def test_a_function_is_called_by_what_saves_and_refused_by_restore(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        keeper.save(1, lambda: at(1))
        assert keeper.check(lambda: at(1)).ok
        with pytest.raises(TypeError, match="state: .*found a function.*give what it returns"):
            keeper.restore(lambda: at())


def test_names_are_mapped(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        keeper.save(1, {"net": {"encoder.w": np.ones(3), "head.w": np.ones(2)}})
        keeper.wait()
        state = {"model": {"backbone.w": np.zeros(3), "head.w": np.zeros(2)}}
        keeper.restore(state, rename={"net/encoder": "net/backbone", "net": "model"})
        assert (state["model"]["backbone.w"] == 1).all() and (state["model"]["head.w"] == 1).all()


def test_other_shapes_are_an_error_or_left_alone(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        keeper.save(1, {"m": {"body": np.ones(3), "head": np.ones(10)}})
        keeper.wait()
        state = {"m": {"body": np.zeros(3), "head": np.zeros(4)}}
        with pytest.raises(ckpt.MismatchError):
            keeper.restore(state)
        with pytest.raises(ckpt.MismatchError, match='on_shape_mismatch="skip"'):
            keeper.restore(state, only="m")
        assert (state["m"]["body"] == 0).all()
        restored = restore(keeper, state, on_shape_mismatch="skip")
        assert (state["m"]["body"] == 1).all() and (state["m"]["head"] == 0).all() and len(state["m"]["head"]) == 4
        assert restored.other_shape == ("m/head: (4,) in the state, (10,) in the checkpoint",)


def test_what_is_not_strict_restores_what_there_is(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        keeper.save(1, {"m": {"a": np.ones(3)}})
        keeper.wait()
        state: dict[str, Any] = {"m": {"a": np.zeros(3), "b": np.zeros(2)}, "late": 1}
        restored = restore(keeper, state, strict=False)
        assert (state["m"]["a"] == 1).all() and (state["m"]["b"] == 0).all() and state["late"] == 1
        assert sorted(restored.missing) == ["late", "m/b"]


# ---- before step 1 ----


def test_check_writes_nothing_and_says_what_is_refused(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        found = keeper.check({"w": np.zeros(1000), "thing": Thing(), "bad": {"x": object(), "y": lambda: 0}, "n": 1})
        assert not (tmp_path / "s").exists()
        assert found.names == {"w": 8000} and found.bytes == 8000 and found.free is not None and not found.ok
        assert [text.split(":")[0] for text in found.refused] == ["state at 'bad/x'", "state at 'bad/y'"]
        assert "REFUSED" in repr(found)
        assert len(keeper.check({"a": {"\ud800": 1}, "b": object()}).refused) == 1  # nothing is known beyond a bad key
        assert keeper.check({**at(), "rng": ckpt.PerRank(np.random.default_rng(0))}).ok


# ---- stopping ----


def test_a_signal_saves_once_and_sets_stopping(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s", every=1000) as keeper:
        keeper.step(1, at(1))
        os.kill(os.getpid(), signal.SIGTERM)
        assert keeper.stopping is None and labels_or_none(tmp_path / "s") == []
        keeper.step(2, at(2))
        assert keeper.stopping == "SIGTERM" and labels(tmp_path / "s") == ["step-2"]
        keeper.step(3, at(3))
    assert labels(tmp_path / "s") == ["step-2"]


def labels_or_none(path: Path) -> list[str]:
    return labels(path) if path.exists() else []


def test_the_handler_that_was_there_before_is_called_too(tmp_path: Path) -> None:
    told: list[int] = []

    def mine(number: int, frame: Any) -> None:
        told.append(number)

    before = signal.signal(signal.SIGTERM, mine)
    try:
        with ckpt.Checkpointer(tmp_path / "s") as keeper:
            os.kill(os.getpid(), signal.SIGTERM)
            keeper.step(1, at(1))
            assert keeper.stopping == "SIGTERM"
        assert told == [signal.SIGTERM] and signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_loop_that_only_saves_stops(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        saved = 0
        while keeper.stopping is None and saved < 5:
            saved += 1
            if saved == 2:
                os.kill(os.getpid(), signal.SIGTERM)
            keeper.save(saved, at())
    assert keeper.stopping == "SIGTERM" and labels(tmp_path / "s") == ["step-1", "step-2"]


def test_a_file_is_no_store_that_is_empty(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a file")
    with ckpt.Checkpointer(tmp_path / "s") as keeper, pytest.raises(ckpt.InvalidError, match="expected a directory"):
        keeper.restore(at())


def test_a_second_interrupt_interrupts(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell start without
    try:
        with ckpt.Checkpointer(tmp_path / "s"):
            os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(10)
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_end_of_the_job_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_END_TIME", "1000")  # long ago
    limits: list[Any] = [1, datetime.timedelta(seconds=100), "slurm",
                         datetime.datetime.now() + datetime.timedelta(seconds=60)]
    for place, limit in enumerate(limits):
        with ckpt.Checkpointer(tmp_path / str(place), time_limit=limit, time_margin=120) as keeper:
            keeper.step(1, at())
            assert keeper.stopping == "time limit" and labels(tmp_path / str(place)) == ["step-1"]
    with ckpt.Checkpointer(tmp_path / "long", time_limit=3600) as keeper:
        assert keeper.step(1, at()) is None and keeper.stopping is None


def test_the_signal_of_slurm_is_caught_in_its_jobs_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with ckpt.Checkpointer(tmp_path / "s"):
        assert signal.getsignal(signal.SIGUSR1) is before
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        os.kill(os.getpid(), signal.SIGUSR1)
        keeper.step(1, at())
        assert keeper.stopping == "SIGUSR1"


def test_the_last_save_is_made_although_the_one_before_failed(tmp_path: Path) -> None:
    keeper = ckpt.Checkpointer(tmp_path / "s")
    with ckpt.Session(ckpt.Store(tmp_path / "s"), 0, 2) as half:
        handle = ckpt.save_async(half, 1, label="a", timeout_ms=300, held_by="all")  # rank 1 never comes
        keeper._flight = handle
        os.kill(os.getpid(), signal.SIGTERM)
        keeper.step(1, at())
    assert keeper.stopping == "SIGTERM" and labels(tmp_path / "s") == ["step-1"]
    keeper.close()


def test_another_thread_must_say_that_it_wants_no_signals(tmp_path: Path) -> None:
    errors: list[str] = []

    def work() -> None:
        try:
            ckpt.Checkpointer(tmp_path / "s")
        except ValueError as error:
            errors.append(str(error))
        ckpt.Checkpointer(tmp_path / "s", signals=()).close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(errors) == 1 and "main thread" in errors[0]


TRAINER = """
import sys, ckpt, numpy as np
rng = np.random.default_rng(1)
state = {"w": np.zeros(1000), "rng": rng, "step": 0}
keeper = ckpt.Checkpointer(sys.argv[1], every=int(sys.argv[2]), keep_last=2)
start = keeper.restore(state)
w, rng = state["w"], state["rng"]
for n in range(start.step + 1 if start else 1, 41):
    w += rng.standard_normal(1000)
    state["step"] = n
    if n == int(sys.argv[3]):
        keeper.wait()
        print("now", flush=True)
        sys.stdin.readline()
    keeper.step(n, state)
    if keeper.stopping:
        break
keeper.close()
print(n, keeper.stopping, w.tobytes().hex())
"""


def train(path: Path, every: int, kill: int | None = None, at_step: int = -1) -> str:
    """The last line of a training, which gets a signal in a step."""
    process = subprocess.Popen([sys.executable, "-c", TRAINER, str(path), str(every), str(at_step)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdin is not None
    if kill is not None:
        assert process.stdout.readline() == "now\n"
        process.send_signal(kill)
        if kill == signal.SIGKILL:
            process.wait()
            return ""
    out, _ = process.communicate("\n", timeout=120)
    assert process.returncode == 0
    return out.splitlines()[-1]


@pytest.mark.parametrize("kill", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_training_that_is_ended_goes_on_bit_for_bit(tmp_path: Path, kill: int) -> None:
    whole = train(tmp_path / "whole", 10)
    ended = train(tmp_path / "ended", 10, kill, 17)
    assert ended == "" if kill == signal.SIGKILL else ended.startswith(f"17 {signal.Signals(kill).name} ")
    assert labels(tmp_path / "ended")[-1] == ("step-10" if kill == signal.SIGKILL else "step-17")
    assert train(tmp_path / "ended", 10) == whole and whole.startswith("40 None ")


# ---- several ranks ----


def test_ranks_that_cannot_agree_save_by_steps_only(tmp_path: Path) -> None:
    refused: list[dict[str, Any]] = [{"every": "1 h"}, {"signals": ["SIGTERM"]}, {"time_limit": 60},
                                     {"every": lambda moment: True}]
    for more in refused:
        with pytest.raises(ValueError, match="agree"):
            ckpt.Checkpointer(tmp_path / "s", rank=0, world_size=2, **more)


@pytest.mark.parametrize("wait", [1, 0])
def test_ranks_without_torch_meet_in_the_store(tmp_path: Path, wait: int) -> None:
    def work(rank: int) -> str:
        with ckpt.Checkpointer(tmp_path / "s", every=2, rank=rank, world_size=2, wait=wait) as keeper:
            for n in range(1, 5):
                keeper.step(n, {"w": ckpt.Shard(np.full(3, rank + n), (6,), (3 * rank,)), "step": n})
            return keeper.save(4, {})  # that is there, as each rank knows

    assert in_threads(2, work) == ["step-4.1.1"] * 2 and labels(tmp_path / "s") == ["step-2", "step-4"]
    assert ckpt.load(tmp_path / "s")["w"].tolist() == [4, 4, 4, 5, 5, 5]
