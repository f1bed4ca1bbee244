"""States of torch that are spread over ranks: saved under one layout, loaded under another, on other numbers of ranks,
bit for bit what torch itself gathers. Four processes serve all tests; gloo on the CPU."""

from __future__ import annotations

import itertools
import multiprocessing
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ckpt
import pytest

pytestmark = pytest.mark.torch
SIZES = {"none": 1, "ddp": 2, "fsdp1": 3, "fsdp1_orig": 4, "fsdp1_hybrid": 4, "fsdp1_no_shard": 2, "fsdp2": 3,
         "hsdp": 4, "tp": 2, "tp_fsdp": 4, "tp_ddp": 4}
TIED = ["none", "ddp", "fsdp1", "fsdp1_orig", "fsdp2", "hsdp"]  # tensor parallel unties


def serve(rank: int, pipe: Any) -> None:
    """One process: runs functions as this rank of process groups."""
    import warnings

    import torch
    from sharded_layouts import process_group

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    while (work := pipe.recv()) is not None:
        function, size, file, arguments = work
        try:
            with process_group(rank, size, file):
                pipe.send((function(*arguments), None))
        except BaseException as error:
            pipe.send((None, f"rank {rank}: {''.join(traceback.format_exception(error))}"))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: Any) -> Iterator[Callable[..., list[Any]]]:
    """Calls a function of this file on some ranks, and returns what each of them returned."""
    context, numbers = multiprocessing.get_context("spawn"), itertools.count()
    home = tmp_path_factory.mktemp("groups")
    pipes, processes = [], []
    for rank in range(4):
        mine, theirs = context.Pipe()
        processes.append(context.Process(target=serve, args=(rank, theirs), daemon=True))
        processes[-1].start()
        pipes.append(mine)

    def call(size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        file = str(home / str(next(numbers)))
        for pipe in pipes[:size]:
            pipe.send((function, size, file, arguments))
        answers = [pipe.recv() for pipe in pipes[:size]]
        failed = [error for _, error in answers if error]
        assert not failed, "\n".join(failed)
        return [answer for answer, _ in answers]

    yield call
    for pipe, process in zip(pipes, processes):
        pipe.send(None)
        process.join(20)
        process.kill()


def differences(found: Any, wanted: Any) -> dict[str, Any]:
    """The values that are not equal bit for bit, by name."""
    import torch

    def same(a: Any, b: Any) -> bool:
        return torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b

    return {name: (found.get(name), wanted.get(name)) for name in {**wanted, **found}
            if not same(found.get(name), wanted.get(name))}


# ---- what the ranks do ----


def save_and_go_on(layout: str, net: str, path: str) -> tuple[Any, Any]:
    """The gathered state at the save, and one step later."""
    import sharded_layouts as layouts
    made = layouts.trainer(layout, getattr(layouts, net), 0, steps=2)
    ckpt.save(path, made.state(), step=2)
    saved = layouts.gathered(made)
    made.step(2)
    return saved, layouts.gathered(made)


def load_and_go_on(layout: str, net: str, path: str, steps: int) -> tuple[Any, Any]:
    """The same after a load into a trainer that began otherwise, and has made this number of steps."""
    import sharded_layouts as layouts
    made = layouts.trainer(layout, getattr(layouts, net), 1, steps)
    back = ckpt.load(path, into=made.state())
    assert all(back[key] is value for key, value in made.state().items())
    loaded = layouts.gathered(made)
    made.step(2)
    return loaded, layouts.gathered(made)


def cases(layouts: list[str], net: str) -> list[Any]:
    """Each layout, with itself and the three after it."""
    return [pytest.param(layout, net, [layouts[(place + more) % len(layouts)] for more in range(4)],
                         id=f"{layout}-{net}") for place, layout in enumerate(layouts)]


@pytest.mark.parametrize("layout,net,others", cases(list(SIZES), "Net") + cases(TIED, "Tied"))
def test_a_state_comes_back_under_every_layout_as_torch_gathers_it(ranks: Any, tmp_path: Path, layout: str, net: str,
                                                                   others: list[str]) -> None:
    path, wrong = str(tmp_path / "s"), {}
    saved, later = ranks(SIZES[layout], save_and_go_on, layout, net, path)[0]
    for steps, other in enumerate(others):
        loaded, after = ranks(SIZES[other], load_and_go_on, other, net, path, steps % 2)[0]
        wrong[other] = differences(loaded, saved) or (differences(after, later) if other == layout else {})
    assert not any(wrong.values()), wrong
