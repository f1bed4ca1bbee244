"""A disk that hangs holds no call for longer than its timeout_ms: no call looks at files on the caller's thread."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ckpt
import pytest

SOON: Any = {"timeout_ms": 300}
CALLS: dict[str, Callable[[Path], Any]] = {
    "save": lambda path: ckpt.save(path, {"n": 2}, step=2, **SOON),
    "save_async": lambda path: ckpt.save_async(path, {"n": 2}, step=2, **SOON).result(),
    "save of a Store": lambda path: ckpt.save(ckpt.Store(path, SOON), {"n": 2}, step=2),
    "load": lambda path: ckpt.load(path, **SOON),
    "load of a link": lambda path: ckpt.load(path.with_name("link"), **SOON),
    "load of one checkpoint": lambda path: ckpt.load(next(path.glob("step-1.*")), **SOON),
    "load of a file": lambda path: ckpt.load(path.with_name("x.npy"), **SOON),
    "find": lambda path: ckpt.Store(path, SOON).find("nothing"),
    "open": lambda path: ckpt.open(path, "nothing", **SOON),
    "ls": lambda path: ckpt.ls(ckpt.Store(path, SOON)),
    "check": lambda path: ckpt.Checkpointer(path, signals=(), **SOON).check({}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_disk_that_hangs_ends_each_call_in_time(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    ckpt.save(tmp_path / "store", {"n": 1}, step=1)
    (tmp_path / "link").symlink_to(tmp_path / "store")
    (tmp_path / "x.npy").touch()
    answers, held = threading.Event(), []

    def hangs(real: Callable[..., Any]) -> Callable[..., Any]:
        def look(path: Any = ".", *rest: Any, **more: Any) -> Any:
            if threading.current_thread().name.startswith("ckpt looks at"):
                held.append(path)
                answers.wait(30)
            elif str(path).startswith(str(tmp_path)):
                raise AssertionError(f"{real.__name__} of {path} on the caller's thread")
            return real(path, *rest, **more)
        return look

    call = CALLS[name]
    directory = next((tmp_path / "store").glob("step-1.*"))
    monkeypatch.setattr(Path, "glob", lambda *_: iter([directory]))
    for function in ("stat", "lstat", "listdir", "scandir", "statvfs", "readlink"):
        monkeypatch.setattr(os, function, hangs(getattr(os, function)))
    begun = time.monotonic()
    with pytest.raises((ckpt.TimeoutError, ckpt.NotFoundError)) as caught:
        call(tmp_path / "store")
    assert held and time.monotonic() - begun < 5
    assert "which was left behind" in str(caught.value) or name in ("find", "open"), caught.value
    answers.set()
