"""What tests share. A test that needs torch, jax or an S3 server asks for the fixture and is marked; a run without them
must say so (-m "not torch and not jax and not s3"). Nothing is skipped by itself.

Two things cost most of the time, so they are made once. tmp_path lies in memory (/dev/shm, unless --basetemp says
otherwise), where a sync is nothing; what a sync does is proven in tests/api. And processes that need torch are forked
off one that has imported it."""

from __future__ import annotations

import importlib
import itertools
import multiprocessing
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest

_MEMORY = Path("/dev/shm")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.basetemp is None and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 6 << 30:
        config.option.basetemp = Path(tempfile.mkdtemp(prefix="ckpt-tests-", dir=_MEMORY))
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


PRELOADED = ["ckpt", "torch.distributed", "torch._dynamo", "sharded_layouts"]  # a test file may add to it


def forking() -> Any:
    """Makes processes that have imported torch already."""
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _run(program: str, arguments: list[str], out: str, err: str) -> None:
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = [program, *arguments]
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        ckpt.ranks.close()  # as the end of an interpreter does


_runs = itertools.count()


def run_ranks(program: Path, world: int, folder: Path, *arguments: object) -> list[tuple[str, str]]:
    """What each rank of a program prints, and what it says on stderr. Its arguments are RANK WORLD and these."""
    return run_at_once(folder, *([program, rank, world, *arguments] for rank in range(world)))


def run_at_once(folder: Path, *programs: list[object]) -> list[tuple[str, str]]:
    """Of programs with their arguments: what each prints, and what it says on stderr. All must succeed."""
    outs = [[str(folder / f"{name}-{number}") for name in ("out", "err")]
            for number in itertools.islice(_runs, len(programs))]
    processes = [forking().Process(target=_run, args=(str(program), [*map(str, arguments)], *out))
                 for (program, *arguments), out in zip(programs, outs)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        process.kill()
    said = [(Path(out).read_text(), Path(err).read_text()) for out, err in outs]
    assert [process.exitcode for process in processes] == [0] * len(programs), said
    return said


def serve(rank: int, pipe: Any) -> None:
    """One process of `ranks`: runs functions as this rank of process groups."""
    import warnings

    import torch
    from sharded_layouts import process_group

    warnings.simplefilter("ignore")
    while (work := pipe.recv()) is not None:
        function, size, file, arguments = work
        torch.set_num_threads(1)  # a test before may have changed it (accelerate does), and sums would differ by rank
        try:
            with process_group(rank, size, file):
                pipe.send((function(*arguments), None))
        except BaseException as error:
            pipe.send((None, f"rank {rank}: {''.join(traceback.format_exception(error))}"))
    os._exit(0)  # torch takes many seconds to end after FSDP


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: Any) -> Iterator[Callable[..., list[Any]]]:
    """Calls a function of a test file on some ranks, and returns what each of them returned. Four processes serve all
    tests."""
    context, numbers = forking(), itertools.count()
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


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ckpt.Store]:
    with ckpt.Store(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def session(store: ckpt.Store) -> Iterator[ckpt.Session]:
    with ckpt.Session(store) as opened:
        yield opened


def sessions_of(store: ckpt.Store, count: int = 2) -> list[ckpt.Session]:
    """One for each of several ranks."""
    first = ckpt.Session(store, 0, count)
    return [first, *(ckpt.Session(store, rank, count, first.string) for rank in range(1, count))]


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What `work` returns or raises for each number, each on a thread of its own, all at once."""
    outcomes: list[Any] = [None] * count

    def run(number: int) -> None:
        try:
            outcomes[number] = work(number)
        except Exception as error:
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


@pytest.fixture
def torch() -> Any:
    return importlib.import_module("torch")


@pytest.fixture(scope="session")
def jax() -> Any:
    """With eight devices, which it must be told before it is used."""
    module = importlib.import_module("jax")
    module.config.update("jax_num_cpu_devices", 8)
    return module


@pytest.fixture
def reader_of(store: ckpt.Store, session: ckpt.Session) -> Iterator[Callable[..., ckpt.Reader]]:
    """Saves tensors (and regions of them) as one checkpoint and opens it."""
    opened: list[ckpt.Reader] = []

    def save_and_open(tensors: dict[str, Any], **options: Any) -> ckpt.Reader:
        with ckpt.Save(session, f"c{len(opened)}", len(opened), options) as save:
            for name, tensor in tensors.items():
                save.add_tensor(name, tensor)
            save.run()
        opened.append(ckpt.Reader(store, f"c{len(opened)}"))
        return opened[-1]

    yield save_and_open
    for reader in opened:
        reader.close()


def load_one(reader: ckpt.Reader, name: str, into: Any, **region: Any) -> Any:
    with ckpt.Load(reader) as load:
        load.add_tensor(name, into, **region)
        load.run()
    return into


def bits(array: Any) -> bytes:
    """The elements of an array as bytes, in row-major order."""
    return np.ascontiguousarray(array).tobytes()


def python(code: str, *arguments: str) -> str:
    """What a program prints in an interpreter of its own; it must succeed and print nothing on stderr."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code, *arguments], capture_output=True, text=True,
                          timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
