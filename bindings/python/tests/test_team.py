"""Ranks that form a team: which are missing, which disagree, and which nobody told ckpt of."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest
from ckpt.board import Board
from conftest import in_threads, run_ranks

PROGRAM = Path(__file__).with_name("team_ranks.py")


def run(folder: Path, mode: str, world: int = 2, meet: str = "") -> list[tuple[list[str], str]]:
    """What each rank prints, and what it says on stderr."""
    outs = run_ranks(PROGRAM, world, folder, meet or folder / "meet", folder / "store", mode)
    return [(out.splitlines(), err) for out, err in outs]


class Memory:
    """A key-value store of threads."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def put(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def drop(self, key: str) -> None:
        self.values.pop(key, None)


Call = tuple[str, dict[str, object], float]


def rounds(boards: list[Board], calls_of: Callable[[int], list[Call]]) -> list[list[Any]]:
    """What each rank gets of its calls: the values of all, or the error."""
    def work(rank: int) -> list[Any]:
        out: list[Any] = []
        for call, same, timeout in calls_of(rank):
            try:
                out.append(boards[rank].round(call, same, rank, timeout))
            except ckpt.Error as error:
                out.append(error)
        return out

    return in_threads(len(boards), work)


def test_rounds_give_all_values_to_all_and_leave_only_the_last() -> None:
    store = Memory()
    boards = [Board(store, rank, 3) for rank in range(3)]
    assert rounds(boards, lambda rank: [("save", {"step": n}, 60.0) for n in range(5)]) == [[[0, 1, 2]] * 5] * 3
    assert {key.partition("/")[0] for key in store.values} == {"4"}


def test_a_call_that_one_rank_made_alone_is_over_for_the_next_that_all_make() -> None:
    for lone in (0, 2):
        store = Memory()
        boards = [Board(store, rank, 3) for rank in range(3)]
        others = ", ".join(str(rank) for rank in range(3) if rank != lone)
        with pytest.raises(ckpt.TimeoutError, match=f"for ranks {others};") as caught:
            boards[lone].round("save", {"step": 1}, lone, 0.1)
        assert caught.value.details["ranks"] == others
        assert rounds(boards, lambda rank: [("load", {}, 60.0)]) == [[[0, 1, 2]]] * 3


@pytest.mark.torch
def test_what_ranks_disagree_on_is_told_at_once_with_both_values(tmp_path: Path) -> None:
    for lines, _ in run(tmp_path, "disagree"):
        expected = (("step", "5", "6"), ("label", "'mine-0'", "'mine-1'"), ("path", "store/0", "store/1"),
                    ("rank", "Checkpointer.restore", "ckpt.save"), ("step", "5", "6"), ("step", "1", "2"))
        for line, words in zip(lines, expected):
            assert line.startswith("MismatchError: ") and line.endswith("[at once]"), lines
            assert re.search(f"{words[0]}.* 0 .*{words[1]}.* 1 .*{words[2]}", line), line
        assert lines[6].startswith("'step-7."), lines


@pytest.mark.torch
def test_no_two_collectives_wait_for_each_other(tmp_path: Path) -> None:
    others = ["Checkpointer.save at step 2", "Checkpointer.restore", "Checkpointer.check", "ckpt.save at step 2"]
    step = "Checkpointer.step at step 3"
    for lines, _ in run(tmp_path, "pairs"):
        pairs = [pair for other in others for pair in ((other, step), (step, other))]
        for line, (first, second) in zip(lines, [*pairs, (others[0], step)], strict=False):
            assert line.startswith(f"MismatchError: MISMATCH: rank 0 has {first}, rank 1 has {second};"), lines
            assert line.endswith("[at once]"), lines
        assert lines[9].startswith("'step-7."), lines


@pytest.mark.torch
def test_a_rank_alone_is_told_who_is_missing_and_meets_nobody_elses_barrier(tmp_path: Path) -> None:
    (first, first_err), (second, second_err) = run(tmp_path, "alone")
    assert first[0].startswith("TimeoutError: TIMEOUT: ckpt.save has waited 1 s on rank 0 for rank 1;")
    assert second[0].startswith("TimeoutError: TIMEOUT: ckpt.save has waited 1 s on rank 1 for rank 0;")
    assert "ckpt.save has waited" in first_err and "ckpt.save has waited" in second_err
    assert second[1].startswith("'step-2.")
    assert first[1].startswith("TimeoutError: TIMEOUT: Checkpointer.step has waited 2 s on rank 0 for rank 1;")
    assert first[2].startswith("'step-7.") and second[3].startswith("'step-7.")


@pytest.mark.torch
def test_a_load_takes_the_rank_from_the_process_group_as_a_save_does(tmp_path: Path) -> None:
    assert [lines[1:] for lines, _ in run(tmp_path, "own")] == [["0 [at once]"] * 2, ["1 [at once]"] * 2]


@pytest.mark.jax
def test_processes_of_jax_are_ranks_as_those_of_torch_are(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        address = f"localhost:{probe.getsockname()[1]}"
    outs = [lines for lines, _ in run(tmp_path, "jax", meet=address)]
    assert outs[0][0] == outs[1][0] and outs[0][0].startswith("'step-1."), outs
    assert [lines[1] for lines in outs] == ["0.0 [at once]", "1.0 [at once]"]
    assert all('tensor "all": its values differ' in lines[2] for lines in outs), outs
    assert [lines[3] for lines in outs] == ["1 [at once]"] * 2
    assert outs[0][4] == outs[1][4] and outs[0][4].startswith("'step-3.")
    assert all("rank 0 is at step 4, rank 1 at step 5" in lines[5] for lines in outs), outs
    with ckpt.open(tmp_path / "store", "step-3") as found:
        assert set(found) == {"only 0", "only 1"}


def test_a_process_that_looks_like_a_rank_is_told_so_and_fences_with_the_cause(tmp_path: Path,
                                                                               monkeypatch: Any) -> None:
    for rank, size in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"),
                       ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"),
                       ("HOROVOD_RANK", "HOROVOD_SIZE"), ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
                       ("PALS_RANKID", "PALS_SIZE")):
        with monkeypatch.context() as changed:
            changed.setenv(rank, "1")
            changed.setenv(size, "2")
            with pytest.warns(ckpt.RanksWarning, match=f"{rank} and {size} .*rank 1 of 2"):
                ckpt.save(tmp_path / rank, {"x": 1}, step=1)
            with pytest.warns(ckpt.RanksWarning), ckpt.Checkpointer(tmp_path / rank):
                pass
            ckpt.save(tmp_path / rank, {"x": 1}, step=2, rank=0, world_size=1)  # says that it is alone
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    with pytest.warns(ckpt.RanksWarning, match="LOCAL_WORLD_SIZE .*one of 4 ranks"):
        ckpt.save(tmp_path / "local", {"x": 1}, step=1)
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    with ckpt.Session(ckpt.Store(tmp_path)) as old, ckpt.Session(ckpt.Store(tmp_path)):
        with pytest.raises(ckpt.FencedError, match="without knowing of each other"):
            ckpt.save(old, {"x": np.ones(2)}, step=3)
