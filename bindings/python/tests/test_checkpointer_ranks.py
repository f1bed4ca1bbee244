"""ckpt.Checkpointer under torch.distributed: what one rank decides, all do."""

from __future__ import annotations

from pathlib import Path

import ckpt
import pytest
from conftest import run_ranks
from test_checkpointer import damage, labels

pytestmark = pytest.mark.torch
PROGRAM = Path(__file__).with_name("checkpointer_ranks.py")


def train(folder: Path, store: str, mode: str, world: int = 2) -> list[list[str]]:
    """What each rank prints: from which step, to which, why it stopped, how often it warned, commits, parameters."""
    meet = folder / f"meet-{store}-{mode}-{len(list(folder.iterdir()))}"
    return [out.strip().split(" ") for out, _ in run_ranks(PROGRAM, world, folder, meet, folder / store, mode)]


def test_a_signal_of_one_rank_stops_all_and_the_training_goes_on_bit_for_bit(tmp_path: Path) -> None:
    whole = train(tmp_path, "whole", "plain")
    stopped = train(tmp_path, "stopped", "signal")
    assert [one[:3] for one in stopped] == [["None", "8", "SIGTERM"]] * 2
    assert labels(tmp_path / "stopped") == ["step-5", "step-8"]
    on = train(tmp_path, "stopped", "plain", world=3)
    assert [one[:3] for one in on] == [["8", "20", "None"]] * 3
    assert {one[5] for one in on} == {whole[0][5]} == {whole[1][5]}
    assert [one[4] for one in whole] == ["step-5,step-10,step-15,step-20", ""]  # told on rank 0, once
    assert labels(tmp_path / "whole") == ["step-10", "step-15", "step-20"]  # the best, by the metrics of rank 0


def test_a_predicate_of_one_rank_saves_on_all(tmp_path: Path) -> None:
    assert train(tmp_path, "s", "predicate")[0][4] == "step-5,step-7,step-10,step-15,step-20"
    assert {info.world_size for info in ckpt.ls(tmp_path / "s")} == {2}


def test_damage_that_only_a_load_finds_sends_all_ranks_to_the_one_before(tmp_path: Path) -> None:
    train(tmp_path, "s", "plain")
    damage(tmp_path / "s", "step-20")
    again = train(tmp_path, "s", "plain")
    assert [one[:2] + [one[3]] for one in again] == [["15", "20", "1"]] * 2
    assert labels(tmp_path / "s")[-1] == "step-20"
    assert ckpt.load(tmp_path / "s", "step-20")["step"] == 20
