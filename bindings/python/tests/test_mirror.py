"""Stores with a mirror: what is committed comes there, and a training whose disk is lost goes on from it."""
from __future__ import annotations

import shutil
from pathlib import Path

import ckpt
import numpy as np
import pytest


def train(disk: Path, mirror: Path, steps: range) -> int:
    """Saves a state at each step; the step that was restored before, or -1."""
    state = {"w": np.zeros(1000, np.float32)}
    with ckpt.Checkpointer(disk, every=1, keep_last=1, mirror=str(mirror)) as keeper:
        restored = keeper.restore(state)
        for step in steps:
            state["w"] += step
            keeper.step(step, state, metrics={"loss": float(-step)})
    return restored.step if restored else -1


def test_a_checkpointer_whose_disk_is_lost_goes_on_from_the_mirror(tmp_path: Path) -> None:
    assert train(tmp_path / "a", tmp_path / "m", range(1, 4)) == -1
    shutil.rmtree(tmp_path / "a")
    assert train(tmp_path / "b", tmp_path / "m", range(4, 6)) == 3
    assert [info.step for info in ckpt.ls(tmp_path / "m")] == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(ckpt.load(tmp_path / "m")["w"], np.full(1000, 15, np.float32))


def test_listings_tell_what_the_mirror_has(tmp_path: Path) -> None:
    store = ckpt.Store(tmp_path / "a", mirror=str(tmp_path / "m"))
    with ckpt.Session(store) as session:
        ckpt.save(session, {"w": np.ones(3)}, step=1)
        with session.mirror() as job:
            job.wait()
            assert job.report().findings == ()
    assert ckpt.ls(store)[0].flags == ckpt.CheckpointFlags.MIRRORED
    shutil.rmtree(tmp_path / "a")
    assert ckpt.ls(store)[0].flags == ckpt.CheckpointFlags.MIRROR_ONLY
    np.testing.assert_array_equal(ckpt.load(store)["w"], np.ones(3))


def test_a_session_without_a_mirror_has_no_job_for_it(tmp_path: Path) -> None:
    with ckpt.Session(ckpt.Store(tmp_path)) as session, pytest.raises(ckpt.InvalidError, match="mirror"):
        session.mirror()
