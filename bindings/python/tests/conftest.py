"""What tests share. A test that needs torch, jax or an S3 server asks for the fixture and is marked; a run without them
must say so (-m "not torch and not jax and not s3"). Nothing is skipped by itself."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ckpt.Store]:
    with ckpt.Store(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def session(store: ckpt.Store) -> Iterator[ckpt.Session]:
    with ckpt.Session(store) as opened:
        yield opened


@pytest.fixture
def torch() -> Any:
    return importlib.import_module("torch")


@pytest.fixture
def jax() -> Any:
    return importlib.import_module("jax")


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
