"""What a training knows of its earlier checkpoints: the best of them, and those of steps that it went back from."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import ckpt
import pytest


def test_the_best_is_known_wherever_metrics_are(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with ckpt.Checkpointer(path, every=1, keep_best=("x", "max", 1)) as keeper:
        for n, x in enumerate((-0.5, -0.1, -0.4), 1):
            keeper.step(n, {"n": n}, metrics={"x": x, "y": 1})
    assert ckpt.load(path, "best")["n"] == 2 == ckpt.load(ckpt.Store(path), "best")["n"]
    with ckpt.open(path, "best") as found, ckpt.Checkpointer(path) as keeper:
        restored = keeper.restore({"n": 0}, "best")
        assert restored is not None and found.info is not None and restored.info.id == found.info.id
    assert ckpt.load(path, "best:x:min")["n"] == 1
    with pytest.raises(ckpt.InvalidError, match='/s: "best:y" does not say .* have x, y: "best:y:min"'):
        ckpt.load(path, "best:y")
    with pytest.raises(ckpt.NotFoundError, match="has the metric \"z\""):
        ckpt.load(path, "best:z:min")
    ckpt.save(path, {"n": 7}, label="best")
    assert ckpt.load(path, "best")["n"] == 7  # its own label


def test_going_back_to_an_older_step_is_told_once_and_saves_on(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with ckpt.Checkpointer(path, every=10) as keeper:
        for n in range(10, 60, 10):
            keeper.step(n, {"n": n})
        with pytest.warns(ckpt.LaterStepsWarning, match="from step 20, and has step-30, step-40, step-50"):
            keeper.restore({"n": 0}, 20)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for n in range(21, 41):
                keeper.step(n, {"n": 1000 + n})
    with ckpt.Checkpointer(path, every=10) as keeper:  # killed, and started again
        with pytest.warns(ckpt.LaterStepsWarning, match="from step 40, and has step-50"):
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
    assert [warning.category for warning in told] == [ckpt.LaterStepsWarning]
    if fresh:
        assert "begins anew on purpose, and has step-95, step-100" in str(told[0].message)
    else:
        assert all(way in str(told[0].message) for way in ("restore()", "fresh=True", "another directory"))
    with ckpt.Checkpointer(tmp_path, every=5, keep_last=2) as keeper, pytest.warns(ckpt.LaterStepsWarning):
        assert keeper.restore({"n": 0}).step == 20
        for n in range(21, 41):
            keeper.step(n, {"n": n})
    assert [info.label for info in ckpt.ls(tmp_path)] == ["step-95", "step-100", "step-35", "step-40"]


def test_a_training_that_begins_anew_replaces_what_has_the_label_that_it_saves(tmp_path: Path, caplog: Any) -> None:
    def train(last: int, value: int, **how: Any) -> None:
        with ckpt.Checkpointer(tmp_path, every=5, keep_last=2, **how) as keeper:
            for n in range(1, last + 1):
                keeper.step(n, {"n": value})

    def there() -> dict[str, int]:
        return {info.label: ckpt.load(tmp_path, info.label)["n"] for info in ckpt.ls(tmp_path)}

    train(20, 1)
    assert len(warned(lambda: train(15, 2, fresh=True))) == 1
    assert there() == {"step-10": 2, "step-15": 2, "step-20": 1}
    with pytest.raises(ckpt.ExistsError, match="overwrite=True of the Checkpointer replaces it"), (
            pytest.warns(ckpt.LaterStepsWarning)), ckpt.Checkpointer(tmp_path, fresh=True) as keeper:
        for value in (3, 4):  # what it has saved itself is no old run's
            keeper.save(5, {"n": value}, label="mine")
            keeper.save(6, {"n": value}, label="other")
    assert there()["mine"] == 3 and "on_existing" not in caplog.text


def warned(call: Any) -> list[str]:
    """What LaterStepsWarning says in a call; any other warning fails the test."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call()
    assert all(one.category is ckpt.LaterStepsWarning and one.filename == __file__ for one in told)
    return [str(one.message) for one in told]


def test_a_plain_save_that_goes_on_from_nothing_that_the_run_has_warns_where_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert warned(lambda: [ckpt.save(path, n, step=n, keep_last=2) for n in (8, 9, 10)]) == []
    (told,) = warned(lambda: [ckpt.save(path, n, step=n, keep_last=2) for n in (1, 2, 3, 4)])
    assert "step 1 does not go on from step-10." in told and "continue_from=none" in told
    assert [info.label for info in ckpt.ls(path)] == ["step-9", "step-10", "step-3", "step-4"]
    assert warned(lambda: ckpt.save(path, 1, step=1, continue_from="none")) == []
    ckpt.load(path, "step-10")
    assert warned(lambda: ckpt.save(path, 11, step=11)) == []
    with ckpt.Session(ckpt.Store(path)) as session:
        ckpt.save(session, 12, step=12)
        (told,) = warned(lambda: ckpt.save(session, 5, step=5))
        assert told.startswith("step 5 is below the step that this session saved before")


def test_a_background_save_that_goes_on_from_nothing_is_logged_at_once_and_warned_of_once(tmp_path: Path,
                                                                                          caplog: Any) -> None:
    path = tmp_path / "s"
    ckpt.save(path, 10, step=10)
    handle = ckpt.save_async(path, 1, step=1)
    (told,) = warned(handle.result)
    assert "does not go on from step-10." in told and told in caplog.text
    assert warned(lambda: ckpt.save_async(path, 2, step=2).result()) == []
    ckpt.save_async(path, 1, step=1, on_existing="replace")
    assert len(warned(lambda: ckpt.save(path, 5, step=5))) == 1  # of the save before


def test_a_counter_that_goes_back_is_told(tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path, every=1) as keeper:
        assert warned(lambda: [keeper.step(n, n) for n in (3, 4)]) == []
        (told,) = warned(lambda: keeper.step(2, 2))
        assert told.startswith("step 2 comes after step 4, and nothing was restored")
