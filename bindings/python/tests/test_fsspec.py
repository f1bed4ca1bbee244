"""ckpt.fsspec_store: stores on file systems of fsspec: in this process's memory, local, and on an FTP server."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ckpt
import ckpt.fsspecs
import fsspec
import numpy as np
import pytest
from conftest import in_threads
from pyftpdlib.authorizers import DummyAuthorizer  # type: ignore[import-untyped,unused-ignore]
from pyftpdlib.handlers import FTPHandler  # type: ignore[import-untyped,unused-ignore]
from pyftpdlib.servers import ThreadedFTPServer  # type: ignore[import-untyped,unused-ignore]


@contextmanager
def ftp_server(folder: Path) -> Iterator[str]:
    """The address of one that serves a folder, to a user with a password."""
    authorizer = DummyAuthorizer()
    authorizer.add_user("me", "hunter2", str(folder), perm="elradfmwMT")
    with ThreadedFTPServer(("127.0.0.1", 0), type("Handler", (FTPHandler,), {"authorizer": authorizer})) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ftp://me:hunter2@127.0.0.1:{server.address[1]}"
        server.close_all()
        thread.join()


@pytest.fixture(params=["memory", "file", "ftp"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An address of each kind, where nothing is."""
    if request.param == "ftp":
        with ftp_server(tmp_path) as address:
            yield f"{address}/run7"
    else:
        yield f"memory://{tmp_path.name}/run7" if request.param == "memory" else f"file://{tmp_path}/run7"
    fsspec.filesystem("memory").store.clear()


def state(step: int) -> dict[str, Any]:
    """One whose large tensor takes several writes."""
    return {"w": np.full((3, 1 << 20), step, "f4"), "small": np.arange(5), "epoch": step}


def test_what_is_saved_is_loaded_and_listed(url: str) -> None:
    store = ckpt.fsspec_store(url)
    for step in (1, 2, 3):
        ckpt.save(store, state(step), step=step, keep_last=2)
    assert [info.step for info in ckpt.ls(store)] == [2, 3]
    loaded = ckpt.load(store)
    assert loaded["epoch"] == 3
    np.testing.assert_array_equal(loaded["w"], state(3)["w"])
    with ckpt.Reader(store, "step:2") as reader:
        assert reader.info.step == 2


def test_a_second_handle_sees_the_same_store(url: str) -> None:
    ckpt.save(ckpt.fsspec_store(url), state(1), step=1)
    assert ckpt.load(ckpt.fsspec_store(url + "/"))["epoch"] == 1
    with pytest.raises(ckpt.NotFoundError):
        ckpt.load(ckpt.fsspec_store(url + "8"))


def test_a_checkpointer_goes_on_where_it_was(url: str) -> None:
    with ckpt.Checkpointer(ckpt.fsspec_store(url), every=2, keep_last=2) as keeper:
        assert keeper.restore(state(0)) is None
        for step in range(1, 8):
            keeper.step(step, state(step))
    with ckpt.Checkpointer(ckpt.fsspec_store(url), every=2, keep_last=2) as keeper:
        restored = keeper.restore(state(0))
        assert restored is not None and restored.step == 6


def test_what_is_pruned_leaves_nothing(url: str) -> None:
    store = ckpt.fsspec_store(url)
    for step in (1, 2):
        ckpt.save(store, state(step), step=step)
    id = store.find("step:1").id
    store.remove(id)
    fs, root = fsspec.core.url_to_fs(url)
    assert not [path for path in fs.find(root) if f"{id}/PART_" in path]
    assert [info.step for info in store.list()] == [2]


def test_several_ranks_need_names_that_can_be_made_exclusively(url: str) -> None:
    store = ckpt.fsspec_store(url)
    if not url.startswith("file"):
        with pytest.raises(ckpt.UnsupportedError, match="exclusive puts"):
            ckpt.Session(store, 0, 2)
        return
    sessions = [ckpt.Session(store, 0, 2)]
    sessions.append(ckpt.Session(ckpt.fsspec_store(url), 1, 2, sessions[0].string))
    def save(rank: int) -> None:
        ckpt.save(sessions[rank], {"mine": ckpt.PerRank(np.full(4, rank))}, step=1)
    assert in_threads(2, save) == [None, None]
    assert [info.step for info in store.list()] == [1]
    for session in sessions:
        session.close()


def test_of_several_that_publish_one_name_on_local_files_one_does(tmp_path: Path) -> None:
    files = ckpt.fsspecs._Files(f"fsspec+file://{tmp_path}")
    made = [files.create("d/slot", False) for _ in range(8)]
    def publish(number: int) -> None:
        made[number].append(memoryview(str(number).encode()))
        made[number].publish()
    outcomes = in_threads(8, publish)
    assert outcomes.count(None) == 1 and sum(isinstance(found, FileExistsError) for found in outcomes) == 7
    assert [name for name, _, _ in files.list("d")] == ["slot"] and not list((tmp_path / "%part").iterdir())


def test_what_is_replaced_is_gone_for_its_reader(url: str) -> None:
    files = ckpt.fsspecs._Files("fsspec+" + url)
    def put(text: bytes, over: bool = False) -> None:
        file = files.create("a", over)
        file.append(memoryview(text))
        file.publish()
    put(b"one")
    version = files.look("a")[1]
    assert version
    out = bytearray(2)
    assert files.read("a", version, 1, memoryview(out)) == 2 and out == b"ne"
    with pytest.raises(FileExistsError):
        put(b"other")
    put(b"two", over=True)
    with pytest.raises(ckpt.GoneError):
        files.read("a", version, 0, memoryview(out))
    files.remove("a")
    with pytest.raises(ckpt.GoneError):
        files.read("a", version, 0, memoryview(out))
    with pytest.raises(FileNotFoundError):
        files.remove("a")
    assert not list(files.list("")) and not list(files.list("none"))


@pytest.mark.parametrize("raised, expected", [
    (PermissionError("no entry"), ckpt.IoError), (ValueError("no such bucket"), ckpt.IoError),
    (MemoryError(), ckpt.NoMemoryError), (NotImplementedError("only read"), ckpt.UnsupportedError),
    (OSError(28, "full"), ckpt.NoSpaceError)])
def test_what_a_file_system_raises_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, raised: Exception,
                                           expected: type[ckpt.Error]) -> None:
    def fail(*_: object, **__: object) -> None:
        raise raised
    store = ckpt.fsspec_store(f"memory://{tmp_path.name}")
    monkeypatch.setattr(fsspec.get_filesystem_class("memory"), "_open", fail)
    with pytest.raises(expected, match=type(raised).__name__):
        ckpt.save(store, state(1), step=1)


def test_options_are_those_of_the_file_system_and_of_the_store(tmp_path: Path) -> None:
    store = ckpt.fsspec_store(f"file://{tmp_path}", auto_mkdir=False, options={"timeout_ms": 7000})
    assert store.limit == {"timeout_ms": 7000}
    with pytest.raises(ckpt.InvalidError):
        ckpt.fsspec_store(f"file://{tmp_path}", options={"no_such": 1})
    with pytest.raises(ckpt.Error, match="nosuch"):
        ckpt.fsspec_store("nosuch://x")
    for url in ("", "/tmp/x", "memory:x", "memory://", "simplecache::memory://x", "my_fs://x"):
        with pytest.raises(ValueError, match="expected PROTOCOL://PATH"):
            ckpt.fsspec_store(url)


def test_a_password_in_the_address_is_shown_to_nobody(tmp_path: Path) -> None:
    with ftp_server(tmp_path) as address:
        store = ckpt.fsspec_store(f"{address}/run7")
        assert "hunter2" not in repr(store)
        with pytest.raises(ckpt.NotFoundError) as found:
            ckpt.load(store)
        assert "hunter2" not in str(found.value) and "/run7" in str(found.value)


def test_a_store_that_is_closed_lets_its_file_system_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[weakref.ref[Any]] = []
    before: Callable[..., None] = ckpt.fsspecs._Files.__init__
    def init(self: Any, address: str) -> None:
        before(self, address)
        made.append(weakref.ref(self))
    monkeypatch.setattr(ckpt.fsspecs._Files, "__init__", init)
    with ckpt.fsspec_store(f"memory://{tmp_path.name}") as store:
        ckpt.save(store, state(1), step=1)
    del store
    gc.collect()
    assert made and made[0]() is None


ENDS = """
import sys, threading, time, ckpt, ckpt.fsspecs
begun = threading.Event()
def slow(self, data):
    begun.set()
    time.sleep(1)
ckpt.fsspecs._NewFile.append = slow
save = ckpt.Save(ckpt.Session(ckpt.fsspec_store("file://" + sys.argv[1])), "a", 1)
save.add_object("x", b"1" * 100_000)
job = save.start()
begun.wait()
"""


def test_a_process_may_end_while_a_store_is_asked(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ENDS, tmp_path / "s"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr  # a thread that is ended with the interpreter aborts the process
