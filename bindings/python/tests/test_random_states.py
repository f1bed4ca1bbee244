"""ckpt.random_states(): what a process draws after a load is what it drew after the save."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest
from conftest import python


def draws() -> list[Any]:
    """The second gauss of a pair is kept in the state."""
    return [random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn()]


def test_python_and_numpy_draw_the_same_after_a_load(tmp_path: Path) -> None:
    random.seed(1)
    np.random.seed(2)
    draws()
    ckpt.save(tmp_path, {"random": ckpt.random_states()}, step=1)
    expected = [draws() for _ in range(3)]
    ckpt.load(tmp_path, into={"random": ckpt.random_states()})
    assert [draws() for _ in range(3)] == expected


def test_numpy_draws_the_same_if_it_is_imported_after_the_load(tmp_path: Path) -> None:
    np.random.seed(2)
    ckpt.save(tmp_path, {"random": ckpt.random_states()}, step=1)
    code = ("import ckpt, sys; ckpt.load(sys.argv[1], into={'random': ckpt.random_states()})\n"
            "import numpy; print(numpy.random.rand())")
    assert python(code, str(tmp_path)) == f"{np.random.rand()}\n"


def test_a_checkpointer_restores_them_with_the_rest(tmp_path: Path) -> None:
    state = {"w": np.ones(3), "random": ckpt.random_states()}
    with ckpt.Checkpointer(tmp_path, every=1) as keeper:
        keeper.step(1, state)
        expected = draws()
    with ckpt.Checkpointer(tmp_path) as keeper:
        keeper.restore(state)
        assert draws() == expected


def test_without_a_template_they_are_plain_values(tmp_path: Path) -> None:
    ckpt.save(tmp_path, {"random": ckpt.random_states()}, step=1)
    assert set(ckpt.load(tmp_path)["random"]) >= {"python", "numpy"}


def test_ranks_that_saved_none_draw_streams_of_their_own(tmp_path: Path) -> None:
    random.seed(3)
    np.random.seed(4)
    ckpt.save(tmp_path, {"random": ckpt.random_states()}, step=1)
    own = draws()

    def drawn_by(rank: int) -> list[Any]:
        with ckpt.Checkpointer(tmp_path, rank=rank, world_size=3) as keeper:
            keeper.restore({"random": ckpt.random_states()})
        return draws()

    first = [drawn_by(rank) for rank in range(3)]
    assert first[0] == own and first == [drawn_by(rank) for rank in range(3)]
    assert all(len(set(column)) == 3 for column in zip(*first))
    ckpt.load(tmp_path, into={"random": ckpt.random_states()}, rank=2)
    assert draws() == first[2]


@pytest.mark.torch
def test_torch_draws_the_same_after_a_load(tmp_path: Path) -> None:
    import torch
    torch.manual_seed(5)
    torch.rand(3)
    ckpt.save(tmp_path, {"random": ckpt.random_states()}, step=1)
    expected = torch.randn(20)
    ckpt.load(tmp_path, into={"random": ckpt.random_states()})
    assert torch.equal(torch.randn(20), expected)
