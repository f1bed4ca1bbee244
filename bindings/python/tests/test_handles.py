"""How long handles and Python's memory live; forks; the end of the interpreter."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest
from conftest import load_one, python


def test_every_handle_is_a_context_manager_and_refuses_use_after_close(tmp_path: Path) -> None:
    store = ckpt.Store(tmp_path)
    session = ckpt.Session(store)
    save = ckpt.Save(session, "a")
    save.add_tensor("w", b"bytes")
    save.run()
    reader = ckpt.Reader(store)
    load = ckpt.Load(reader)
    tree = reader.tree()
    job = reader.verify()
    reader.export(tmp_path / "x.safetensors")
    file = ckpt.File(tmp_path / "x.safetensors")
    uses: list[tuple[Any, Any]] = [
        (store, store.list), (session, lambda: session.string), (save, lambda: save.add_object("o", b"")),
        (reader, lambda: reader.info), (load, load.report), (tree, tree.json), (job, lambda: job.state),
        (file, file.tensors), (store, lambda: ckpt.Reader(store)), (session, lambda: ckpt.Save(session, "b"))]
    for handle, use in uses:
        if not handle.closed:
            with handle as entered:
                assert entered is handle
        handle.close()
        assert handle.closed
        with pytest.raises(ckpt.InvalidError, match="is closed"):
            use()


def test_handles_may_end_in_any_order(tmp_path: Path) -> None:
    store = ckpt.Store(tmp_path)
    session = ckpt.Session(store)
    save = ckpt.Save(session, "a")
    session.close()
    store.close()
    save.add_tensor("w", b"bytes")
    job = save.start()
    save.close()
    job.wait()
    del job, save
    reader = ckpt.Reader(ckpt.Store(tmp_path))
    load, view = ckpt.Load(reader), reader.map("w")
    reader.close()
    into = bytearray(5)
    load.add_tensor("w", into)
    load.run()
    assert into == b"bytes" == bytes(view)


class Array(np.ndarray[Any, Any]):
    """Can be referred to weakly."""


def array() -> Any:
    return np.arange(100.0).view(Array)


def test_memory_is_held_from_add_until_run(store: ckpt.Store, session: ckpt.Session) -> None:
    save = ckpt.Save(session, "a")
    data = array()
    gone = weakref.ref(data)
    save.add_tensor("w", data)
    del data
    assert gone() is not None
    save.run()
    assert gone() is None
    with ckpt.Reader(store) as reader:
        assert (load_one(reader, "w", np.empty(100)) == np.arange(100)).all()


@pytest.mark.parametrize("end", ["close", "del", "staged", "state", "failed add", "failed run"])
def test_memory_is_let_go_at_every_end(store: ckpt.Store, session: ckpt.Session, end: str) -> None:
    save = ckpt.Save(session, "a", timeout_ms=200)
    data = array()
    gone = weakref.ref(data)
    job: ckpt.Job | None = None
    if end == "failed add":
        with pytest.raises(ckpt.InvalidError):
            save.add_tensor("..", data)
    else:
        save.add_tensor("w", data)
    if end == "failed run":
        ckpt.Session(store).close()  # a newer session
        with pytest.raises(ckpt.FencedError):
            save.run()
    del data
    if end == "close":
        save.close()
    elif end == "del":
        del save
    elif end in ("staged", "state"):
        job = save.start()
        if end == "staged":
            job.wait(ckpt.JobState.STAGED)
        while gone() is not None:
            assert job.state <= ckpt.JobState.COMMITTED
    assert gone() is None
    if job is not None:
        job.wait()


def test_a_target_is_held_until_its_load_has_ended(reader_of: Any) -> None:
    reader = reader_of({"w": np.ones(100)})
    load = ckpt.Load(reader)
    data = array()
    gone = weakref.ref(data)
    load.add_tensor("w", data)
    del data
    job = load.start()
    load.close()
    job.wait()
    assert gone() is None


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def one_round(path: Path, data: Any) -> None:
    ckpt.save(path, {"w": data, "tied": data, "n": [1, {"x": 2**80}]}, label="a", on_existing="replace")
    ckpt.load(path, into={"w": np.empty_like(data)})
    for wrong in (lambda: ckpt.save(path, {"w": data, "x": object()}, label="b"),
                  lambda: ckpt.save(path, {"w": data[::-1]}, label="b"),
                  lambda: ckpt.save(path, {"w": data}, label="a"),
                  lambda: ckpt.load(path, "absent"),
                  lambda: ckpt.load(path, into={"w": data[:5]})):
        try:
            wrong()
        except (ckpt.Error, TypeError):
            continue
        raise AssertionError("it must fail")


def test_rounds_leave_no_references_descriptors_or_threads(tmp_path: Path) -> None:
    data = np.arange(1000.0)
    for _ in range(3):
        one_round(tmp_path / "s", data)
    gc.collect()
    before = (sys.getrefcount(data), descriptors(), threads(), len(gc.get_objects()))
    for _ in range(10):
        one_round(tmp_path / "s", data)
    gc.collect()
    after = (sys.getrefcount(data), descriptors(), threads(), len(gc.get_objects()))
    assert after[:3] == before[:3]
    assert after[3] - before[3] < 50


def test_an_interpreter_that_ends_in_the_middle_leaks_nothing(tmp_path: Path) -> None:
    code = """
import sys, ckpt
store = ckpt.Store(sys.argv[1])
session = ckpt.Session(store)
save = ckpt.Save(session, "a")
save.add_tensor("w", bytearray(100))
save.run()
reader = ckpt.Reader(store)
view = memoryview(reader.map("w"))
tree = reader.tree()
load = ckpt.Load(reader)
print("end")
"""
    assert python(code, str(tmp_path)) == "end\n"  # nanobind reports leaks on stderr


FORKED = """
import os, sys, ckpt
store = ckpt.Store(sys.argv[1])
session = ckpt.Session(store)
save = ckpt.Save(session, "a")
save.add_tensor("w", b"bytes")
child = os.fork()
if child == 0:
    caught = []
    for use in (store.list, save.run, lambda: ckpt.Reader(store), lambda: ckpt.Save(session, "b")):
        try:
            use()
        except ckpt.ForkedError as error:
            caught.append(error.status.name)
    save.close(), session.close(), store.close()
    os._exit(caught != ["FORKED"] * 4)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
save.run()
print([info.label for info in store.list()])
"""


def test_a_forked_child_is_told_and_may_free(tmp_path: Path) -> None:
    assert python(FORKED, str(tmp_path)) == "0\n['a']\n"


def test_an_object_is_used_by_one_thread_at_a_time(store: ckpt.Store) -> None:
    first = ckpt.Session(store, 0, 2)  # the other rank never saves
    save = ckpt.Save(first, "a", timeout_ms=1500)
    save.add_tensor("w", b"bytes")
    failed: list[ckpt.Status] = []

    def run() -> None:
        try:
            save.run(interruptible=False)
        except ckpt.Error as error:
            failed.append(error.status)

    thread = threading.Thread(target=run)
    thread.start()
    said = ""
    added = 0
    while not failed and not said:
        try:
            save.add_object(f"o{added}", b"")
            added += 1
        except ckpt.InvalidError as error:
            said = error.message
    thread.join()
    assert said == "Save is in use by another thread"
    assert failed == [ckpt.Status.TIMEOUT]
    assert save.id == "a.1.1"  # it may be used again


ENDED = """
import atexit, sys, threading, time, ckpt
session = ckpt.Session(ckpt.Store(sys.argv[1]), 0, 2)  # the other rank never saves
waiting = threading.Event()

def wait():
    waiting.set()
    ckpt.save(session, {"x": 1}, label="a")

class Slow:
    def __del__(self):
        time.sleep(0.5)  # longer than a slice of waiting

threading.Thread(target=wait, daemon=True).start()
waiting.wait()
time.sleep(0.2)
sys.slow = Slow()
print("end")
"""


def test_a_daemon_thread_that_waits_does_not_end_the_program_badly(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ENDED, tmp_path], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr  # with nanobind's leak report
