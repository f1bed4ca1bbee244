"""What a training knows of its earlier checkpoints: the best of them, and those of steps that it went back from."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import ckpt
import pytest


def test_the_best_is_known_wherever_metrics_are(tmp_path: Path) -> None:
    def train(path: Path, metrics: list[dict[str, float]], **keeping: Any) -> None:
        with ckpt.Checkpointer(path, every=1, **keeping) as keeper:
            for n, told in enumerate(metrics, 1):
                keeper.step(n, {"n": n}, metrics=told)

    losses = [{"loss": 0.5}, {"loss": 0.1}, {"loss": 0.4}]
    train(tmp_path / "one", losses)
    train(tmp_path / "told", [{"x": -value["loss"], "y": 1} for value in losses], keep_best=("x", "max", 1))
    for path, best in ((tmp_path / "one", 2), (tmp_path / "told", 2)):
        assert ckpt.load(path, "best")["n"] == best == ckpt.load(ckpt.Store(path), "best")["n"]
        with ckpt.open(path, "best") as found, ckpt.Checkpointer(path) as keeper:
            restored = keeper.restore({"n": 0}, "best")
            assert restored is not None and found.info is not None and restored.info.id == found.info.id
    assert ckpt.load(tmp_path / "told", "best:x:min")["n"] == 1 and ckpt.load(tmp_path / "one", "best:loss")["n"] == 2
    train(tmp_path / "two", [{"loss": 1, "acc": 1}])
    with pytest.raises(ckpt.InvalidError, match="have 'acc', 'loss': \"best:loss:min\""):
        ckpt.load(tmp_path / "two", "best")
    train(tmp_path / "none", [{}])
    with pytest.raises(ckpt.NotFoundError, match="has metrics"):
        ckpt.load(tmp_path / "none", "best")
    ckpt.save(tmp_path / "one", {"n": 7}, label="best")
    assert ckpt.load(tmp_path / "one", "best")["n"] == 7  # its own label


def test_going_back_to_an_older_step_is_told_once_and_saves_on(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with ckpt.Checkpointer(path, every=10) as keeper:
        for n in range(10, 60, 10):
            keeper.step(n, {"n": n})
        with pytest.warns(ckpt.LaterStepsWarning, match="from step 20, and has 'step-30', 'step-40', 'step-50'"):
            keeper.restore({"n": 0}, 20)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for n in range(21, 41):
                keeper.step(n, {"n": 1000 + n})
    with ckpt.Checkpointer(path, every=10) as keeper:  # killed, and started again
        with pytest.warns(ckpt.LaterStepsWarning, match="from step 40, and has 'step-50'"):
            assert keeper.restore({"n": 0}).step == 40
        for n in range(41, 61):
            keeper.step(n, {"n": 1000 + n})
    assert [ckpt.load(path, f"step-{n}")["n"] for n in range(10, 70, 10)] == [10, 20, 1030, 1040, 1050, 1060]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_training_that_begins_anew_in_an_old_directory_removes_nothing_of_the_old_one(tmp_path: Path,
                                                                                        fresh: bool) -> None:
    def train(first: int, last: int, **how: Any) -> list[str]:
        with ckpt.Checkpointer(tmp_path, every=5, keep_last=2, **how) as keeper:
            for n in range(first, last + 1):
                keeper.step(n, {"n": n})
        return [info.label for info in ckpt.ls(tmp_path)]

    assert train(1, 100) == ["step-95", "step-100"]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert train(1, 20, fresh=fresh) == ["step-95", "step-100", "step-15", "step-20"]
    assert [warning.category for warning in told] == ([] if fresh else [ckpt.LaterStepsWarning])
    if not fresh:
        assert all(way in str(told[0].message) for way in ("restore()", "fresh=True", "another directory"))
    with ckpt.Checkpointer(tmp_path, every=5, keep_last=2) as keeper, pytest.warns(ckpt.LaterStepsWarning):
        assert keeper.restore({"n": 0}).step == 20
        for n in range(21, 41):
            keeper.step(n, {"n": n})
    assert [info.label for info in ckpt.ls(tmp_path)] == ["step-95", "step-100", "step-35", "step-40"]
