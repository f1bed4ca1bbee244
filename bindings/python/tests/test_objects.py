"""Objects as parts of a state: what comes back into the caller's own, and what stands for it without one."""

from __future__ import annotations

import dataclasses
import enum
import pathlib
from collections import namedtuple
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest


class Phase(enum.Enum):
    WARM = "warm"
    LONG = "long"


@dataclasses.dataclass(frozen=True)
class Config:
    lr: float
    phase: Phase
    weights: Any
    data: pathlib.PurePath = pathlib.PurePosixPath("/none")


Adam = namedtuple("Adam", "count mu")


class Counter:
    """Any object with the two methods, such as a sampler."""

    def __init__(self, count: int, memory: Any) -> None:
        self.count, self.memory = count, memory

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "memory": self.memory}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def state(count: int) -> dict[str, Any]:
    phase = Phase.LONG if count else Phase.WARM
    config = Config(0.5 * count, phase, np.full(3, count), pathlib.PurePosixPath(f"/data/{count}"))
    return {"config": config, "optax": [Adam(count, {"w": np.full(2, count)})], "phase": phase}


def test_objects_come_back_into_the_callers_own(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", state(1))
    mine = state(0)
    back = ckpt.load(tmp_path / "s", into=mine)
    assert back["config"].weights is mine["config"].weights and mine["config"].weights.tolist() == [1, 1, 1]
    assert back["optax"][0].mu["w"] is mine["optax"][0].mu["w"]
    assert type(back["config"]) is Config and back["config"] == dataclasses.replace(
        state(1)["config"], weights=back["config"].weights)
    assert type(back["optax"][0]) is Adam and back["optax"][0].count == 1 and back["phase"] is Phase.LONG
    assert mine["config"].lr == 0


def test_without_a_template_objects_are_records_by_name_and_are_saved_as_such(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", state(1))
    back = ckpt.load(tmp_path / "s")
    assert back["phase"] == ckpt.Record(f"{__name__}.Phase", {"args": ("long",)})
    assert back["config"].class_name == f"{__name__}.Config" and back["config"].items["state"]["lr"] == 0.5
    ckpt.save(tmp_path / "t", back)
    assert ckpt.load(tmp_path / "t", into=state(0))["config"].phase is Phase.LONG


def test_a_value_that_contains_itself_is_an_error_and_as_a_template_harmless(tmp_path: Path) -> None:
    loop: list[Any] = [np.ones(2)]
    loop += [loop, loop, loop]
    with pytest.raises(ckpt.InvalidError, match="state at 'loop/1': a value that holds itself"):
        ckpt.save(tmp_path / "s", {"loop": loop})
    ckpt.save(tmp_path / "t", {"loop": [np.ones(2)]})
    into = {"loop": [np.zeros(2)]}
    into["loop"] += [into["loop"], into]
    assert ckpt.load(tmp_path / "t", into=into)["loop"][0].tolist() == [1, 1]


def test_a_record_that_does_not_fit_the_callers_object_is_a_mismatch(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"x": Phase.LONG})

    class Other(enum.Enum):
        SHORT = "short"

    with pytest.raises(ckpt.MismatchError, match="Other.*Phase"):
        ckpt.load(tmp_path / "s", into={"x": Other.SHORT})
    ckpt.save(tmp_path / "g", {"g": np.random.Generator(np.random.Philox(2))})
    with pytest.raises(ckpt.MismatchError, match="'g'.*it draws by Philox: give a generator that draws by that"):
        ckpt.load(tmp_path / "g", into={"g": np.random.default_rng(1)})


def test_an_object_with_a_state_is_filled_in_place_and_given_the_rest(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"sampler": Counter(7, np.ones(2))})
    mine = Counter(0, np.zeros(2))
    assert ckpt.load(tmp_path / "s", into={"sampler": mine})["sampler"] is mine
    assert mine.count == 7 and mine.memory.tolist() == [1, 1]
    assert ckpt.load(tmp_path / "s")["sampler"]["count"] == 7
    with pytest.raises(ckpt.NotFoundError, match="Counter"):
        ckpt.load(tmp_path / "s", into={"absent": mine})
