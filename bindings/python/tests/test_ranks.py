"""Ranks whose states differ: pipeline stages, what is each rank's own, replicas, and a rank that cannot save."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpt
from conftest import in_threads, sessions_of

StateOf = Callable[[int], Any]


def save(path: Path, world_size: int, state_of: StateOf, **options: Any) -> list[Any]:
    """Saves the state of each rank on a thread of its own. What each returned, or raised."""
    store = ckpt.Store(path)
    sessions = sessions_of(store, world_size)
    outcomes = in_threads(world_size, lambda rank: ckpt.save(sessions[rank], state_of(rank), step=1, **options))
    for session in sessions:
        session.close()
    return outcomes


def test_the_stages_of_a_pipeline_are_one_state(tmp_path: Path) -> None:
    def stage(rank: int) -> Any:
        return {"layers": {rank: {"w": np.full(4, rank, "f4")}}, "norm": np.ones(3), "step": 7}

    outcomes = save(tmp_path, 3, stage, held_by="some")
    assert len(set(outcomes)) == 1, outcomes
    state = ckpt.load(tmp_path)
    assert list(state["layers"]) == [0, 1, 2] and state["step"] == 7
    assert [state["layers"][rank]["w"][0] for rank in range(3)] == [0, 1, 2]
    into = {"layers": {1: {"w": np.zeros(4, "f4")}}}
    assert ckpt.load(tmp_path, into=into)["layers"][1]["w"] is into["layers"][1]["w"]
    assert into["layers"][1]["w"][0] == 1


def test_a_tensor_that_only_some_ranks_hold_is_saved_by_one_of_them(tmp_path: Path) -> None:
    experts = {0: ["a"], 1: ["a", "b"], 2: ["b"]}
    outcomes = save(tmp_path, 3, lambda rank: {name: np.arange(5.0) for name in experts[rank]}, held_by="some")
    assert len(set(outcomes)) == 1, outcomes
    with ckpt.Reader(ckpt.Store(tmp_path)) as reader:
        parts = {name: {reader.segment(name, 0).part} for name in "ab"}
    assert parts["a"] <= {0, 1} and parts["b"] <= {1, 2}


def test_what_is_each_ranks_own_comes_back_to_it(tmp_path: Path) -> None:
    def state_of(rank: int) -> Any:
        return {"rng": ckpt.PerRank({"seed": rank, "bits": np.full(3, rank)}), "epoch": 2}

    assert len(set(save(tmp_path, 3, state_of))) == 1
    for rank, seed in ((0, 0), (2, 2), (5, 0)):
        if rank == 5:
            with pytest.raises(ckpt.MismatchError, match="state at 'rng': the values of 3 ranks.* this is rank 5;"):
                ckpt.load(tmp_path, rank=rank)
        state = ckpt.load(tmp_path, rank=rank, or_rank0=True)
        assert state["epoch"] == 2 and state["rng"]["seed"] == seed and state["rng"]["bits"].tolist() == [seed] * 3
    everyone = ckpt.load(tmp_path, rank=None)["rng"]
    assert [everyone.items[f"rank{rank}"]["seed"] for rank in range(3)] == [0, 1, 2]
    assert ckpt.load(tmp_path, at=("rng", "seed"), rank=1) == 1
    with pytest.raises(ckpt.MismatchError, match="of 3 ranks, each its own, and this is rank 0 of 1") as caught:
        ckpt.load(tmp_path, into={"rng": ckpt.PerRank({"seed": 9, "bits": np.zeros(3, int)})})
    assert (caught.value.details["expected"], caught.value.details["found"]) == ("3", "1")


def test_memory_that_a_ranks_own_value_shares_with_the_state_of_all_is_both(tmp_path: Path) -> None:
    def state_of(rank: int) -> Any:
        w = np.arange(6.0)
        return {"mine": ckpt.PerRank({"whole": w, "tail": w[1:]}), "w": w, "view": w[2:]}

    outcomes = save(tmp_path, 2, state_of)
    assert len(set(outcomes)) == 1, outcomes
    for rank in range(2):
        state = ckpt.load(tmp_path, rank=rank)
        assert state["w"].tolist() == [0, 1, 2, 3, 4, 5] == state["mine"]["whole"].tolist()
        assert np.shares_memory(state["mine"]["whole"], state["mine"]["tail"])
        assert np.shares_memory(state["w"], state["view"])


def test_one_rank_gets_its_own_value_back_into_its_array(tmp_path: Path) -> None:
    ckpt.save(tmp_path, {"rng": ckpt.PerRank(np.arange(4))}, step=1)
    into = {"rng": ckpt.PerRank(np.zeros(4, "i8"))}
    assert ckpt.load(tmp_path, into=into)["rng"] is into["rng"].value
    assert into["rng"].value.tolist() == [0, 1, 2, 3]


def test_values_that_differ_are_named_by_key_and_ranks(tmp_path: Path) -> None:
    outcomes = save(tmp_path, 3, lambda rank: {"trainer": {"lr": 0.1, "seen": 100 + rank // 2}})
    assert isinstance(outcomes[0], ckpt.MismatchError)
    assert "state at \"trainer/seen\": rank 0 has 100, rank 2 has 101" in outcomes[0].message
    assert outcomes[0].details["ranks"] == "0, 2"


def test_arrays_that_differ_are_never_mixed(tmp_path: Path) -> None:
    outcomes = save(tmp_path, 2, lambda rank: {name: np.full(1, rank) for name in "abcdef"})
    assert isinstance(outcomes[0], ckpt.MismatchError) and outcomes[0].details["tensor"] == "a"
    outcomes = save(tmp_path, 2, lambda rank: {name: np.full(1, rank) for name in "abcdef"}, replicas="rank0")
    assert len(set(outcomes)) == 1, outcomes
    assert [ckpt.load(tmp_path)[name][0] for name in "abcdef"] == [0] * 6


def test_the_others_learn_why_a_rank_could_not_save(tmp_path: Path) -> None:
    outcomes = save(tmp_path, 2, lambda rank: {"x": threading.Lock() if rank else 1})
    assert isinstance(outcomes[1], TypeError)
    assert isinstance(outcomes[0], ckpt.AbortedError)
    assert "rank 1 gave up: TypeError: state at 'x': a value of type _thread.lock" in outcomes[0].message


def test_an_error_whose_text_is_not_unicode_is_raised_and_told_all_the_same(tmp_path: Path) -> None:
    class Factory:
        def __call__(self) -> int:
            return 0

        def __repr__(self) -> str:
            return "\udc80"

    outcomes = save(tmp_path, 2, lambda rank: {"x": defaultdict(Factory()) if rank else 1})
    assert isinstance(outcomes[1], TypeError)
    assert isinstance(outcomes[0], ckpt.AbortedError) and "rank 1 gave up" in outcomes[0].message


@pytest.mark.torch
def test_ranks_of_torch_states_differ_too(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def state_of(rank: int) -> Any:
        generator = torch.Generator().manual_seed(rank)
        return {"model": {f"l{rank}.w": torch.full((2,), float(rank))},
                "rng": ckpt.PerRank(generator.get_state())}

    assert len(set(save(tmp_path, 2, state_of, held_by="some"))) == 1
    state = ckpt.load(tmp_path, rank=1, framework="torch")
    assert state["model"]["l1.w"].tolist() == [1, 1] and state["model"]["l0.w"].tolist() == [0, 0]
    assert torch.equal(state["rng"], torch.Generator().manual_seed(1).get_state())
