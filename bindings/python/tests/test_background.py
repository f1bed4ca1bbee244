"""ckpt.save_async: the arrays are free at once, and no save is lost, whatever becomes of its handle."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest
from conftest import in_threads, python, sessions_of


def labels(store: ckpt.Store) -> list[str]:
    return [info.label for info in store.list() if info.state == ckpt.CheckpointState.COMMITTED]


@pytest.fixture
def alone(store: ckpt.Store) -> Iterator[ckpt.Session]:
    """Rank 0 of 2, of which rank 1 never saves: a save runs until it is cancelled or its time is up."""
    session = ckpt.Session(store, 0, 2)
    yield session
    try:
        session.__exit__(KeyError, None, None)
    except ckpt.Error:
        pass


def fails_soon(session: ckpt.Session, label: str = "a") -> ckpt.SaveHandle:
    return ckpt.save_async(session, {"x": np.ones(3)}, label=label, timeout_ms=300)


# ---- staged, and kept alive ----


def test_the_arrays_may_change_as_soon_as_the_call_returns(store: ckpt.Store, session: ckpt.Session) -> None:
    state = {f"w{i}": np.full(20_000, 1.0) for i in range(100)}
    ckpt.save_async(session, state, label="a")
    for array in state.values():
        array[:] = 2
    session.close()
    assert all((array == 1).all() for array in ckpt.load(store).values())


def test_a_handle_that_is_dropped_takes_nothing_with_it(store: ckpt.Store, session: ckpt.Session) -> None:
    for step in range(3):
        ckpt.save_async(session, {"w": np.ones(1000)}, step=step)
        gc.collect()
    session.wait()
    assert labels(store) == ["step-0", "step-1", "step-2"]


def test_a_session_that_is_dropped_lives_until_its_save_has_ended(store: ckpt.Store) -> None:
    handle = ckpt.save_async(ckpt.Session(store), {"w": np.ones(1000)}, label="a")
    gc.collect()
    assert handle.result() == "a.1.1" and labels(store) == ["a"]


def test_the_end_of_a_block_waits_for_the_save(store: ckpt.Store) -> None:
    with ckpt.Session(store) as session:
        ckpt.save_async(session, {"w": np.ones(1000)}, label="a")
    assert session.closed and labels(store) == ["a"]


def test_saves_to_a_path_follow_one_another(tmp_path: Path) -> None:
    for step in range(3):  # each opens a session of its own, which would fence the one before
        ckpt.save_async(tmp_path / "s", {"step": step}, step=step)
    ckpt.save(f"file://{tmp_path}/s", {"step": 3}, step=3)
    assert labels(ckpt.Store(tmp_path / "s")) == ["step-0", "step-1", "step-2", "step-3"]


def test_only_one_save_is_in_flight(store: ckpt.Store) -> None:
    first, second = sessions_of(store)
    a = ckpt.save_async(first, 1, label="a")
    b: list[ckpt.SaveHandle] = []
    thread = threading.Thread(target=lambda: b.append(ckpt.save_async(first, 1, label="b")))
    thread.start()
    thread.join(0.3)
    assert not b and not a.done()
    ckpt.save(second, 1, label="a")
    thread.join()
    assert a.done()
    ckpt.save(second, 1, label="b")
    assert b[0].result() == "b.1.1"


def test_several_threads_save_in_one_session(store: ckpt.Store, session: ckpt.Session) -> None:
    def work(name: int) -> None:
        for call in (ckpt.save_async, ckpt.save):
            call(session, {"w": np.full(100, name)}, label=f"{call.__name__}-{name}")

    assert in_threads(4, work) == [None] * 4
    session.close()
    assert len(labels(store)) == 8


# ---- in place ----


def test_in_place_returns_before_the_arrays_are_free(store: ckpt.Store, session: ckpt.Session) -> None:
    w = np.ones(100_000)
    handle = ckpt.save_async(session, {"w": w}, label="a", in_place=True)
    handle.staged()
    w[:] = 2
    handle.result()
    assert (ckpt.load(store)["w"] == 1).all()


def test_a_dropped_handle_of_an_in_place_save_waits_until_the_arrays_are_free(store: ckpt.Store,
                                                                             session: ckpt.Session) -> None:
    w = np.ones(2_000_000)
    ckpt.save_async(session, {"w": w}, label="a", in_place=True)
    w[:] = 2
    session.close()
    assert (ckpt.load(store)["w"] == 1).all()


def test_save_async_says_in_place_in_the_first_line_of_its_docstring() -> None:
    first = (ckpt.save_async.__doc__ or "").splitlines()[0]
    assert "in_place" in first and "staged()" in first


# ---- failures ----


NEXT = {
    "save": lambda session: ckpt.save(session, 1, label="b"),
    "save_async": lambda session: ckpt.save_async(session, 1, label="b"),
    "wait": lambda session: session.wait(),
    "close": lambda session: session.close(),
}


@pytest.mark.parametrize("call", NEXT)
def test_the_next_call_raises_the_failure_of_a_save_once(alone: ckpt.Session, call: str) -> None:
    fails_soon(alone)
    with pytest.raises(ckpt.TimeoutError, match=r"a\.1\.1.*in the background") as caught:
        NEXT[call](alone)
    assert caught.value.details["ranks"] == "1"
    alone.wait() if call != "close" else alone.close()  # not again
    assert alone.closed == (call == "close")


def test_a_failure_is_logged_at_once(alone: ckpt.Session, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "ckpt"):
        with pytest.raises(ckpt.TimeoutError):
            fails_soon(alone).result()
    assert [(record.name, record.levelname) for record in caplog.records] == [("ckpt", "ERROR")]
    assert "a.1.1" in caplog.records[0].getMessage() and "TIMEOUT" in caplog.records[0].getMessage()


@pytest.mark.parametrize("how", ["result", "staged", "block"])
def test_what_a_handle_has_told_the_session_does_not_tell_again(alone: ckpt.Session, how: str) -> None:
    handle = fails_soon(alone)
    while not handle.done():
        time.sleep(0.01)
    with pytest.raises(ckpt.TimeoutError):
        if how == "block":
            with handle:
                pass
        else:
            getattr(handle, how)()
    alone.wait()


def test_the_end_of_a_block_raises_the_failure_unless_another_exception_leaves_it(store: ckpt.Store) -> None:
    with pytest.raises(ckpt.TimeoutError), ckpt.Session(store, 0, 2) as session:
        fails_soon(session)
    assert session.closed
    with pytest.raises(KeyError), ckpt.Session(store, 0, 2) as session:
        fails_soon(session)
        raise KeyError("mine")
    assert session.closed


def test_a_save_to_a_path_tells_the_failure_of_the_one_before(tmp_path: Path) -> None:
    ckpt.save_async(tmp_path / "s", 1, label="a", world_size=2, timeout_ms=300)
    with pytest.raises(ckpt.TimeoutError):
        ckpt.save(tmp_path / "s", 1, label="b")
    assert ckpt.save(tmp_path / "s", 1, label="b").startswith("b.")


def test_a_cancelled_save_is_no_failure(alone: ckpt.Session) -> None:
    handle = ckpt.save_async(alone, 1, label="a")
    handle.cancel()
    with pytest.raises(ckpt.CancelledError):
        handle.result()
    with pytest.raises(KeyError), ckpt.save_async(alone, 1, label="b"):
        raise KeyError("mine")
    alone.close()


def test_a_result_that_does_not_come_in_time_is_a_timeout_and_the_save_goes_on(store: ckpt.Store) -> None:
    first = ckpt.Session(store, 0, 2)
    handle = ckpt.save_async(first, 1, label="a")
    for wait in (handle.result, first.wait):
        with pytest.raises(ckpt.TimeoutError, match="within 50 ms"):
            wait(timeout_ms=50)
    ckpt.save(ckpt.Session(store, 1, 2, first.string), 1, label="a")
    first.wait()
    assert handle.result() == "a.1.1"


def test_a_label_that_is_taken_is_told_by_the_next_call_on_every_rank(store: ckpt.Store) -> None:
    first, second = sessions_of(store)
    for taken in (False, True):
        for session in (second, first):
            ckpt.save_async(session, {"w": np.arange(10)}, label="a")
        for session in (first, second):
            with pytest.raises(ckpt.ExistsError) if taken else contextlib.nullcontext():
                session.wait()


# ---- unwinding ----


def test_an_exception_out_of_the_sessions_block_cancels_at_once(store: ckpt.Store,
                                                               caplog: pytest.LogCaptureFixture) -> None:
    first, second = sessions_of(store)
    with pytest.raises(KeyError), first:
        ckpt.save_async(first, 1, label="a")
        raise KeyError("mine")
    assert "cancelled" in caplog.text and "a.1.1" in caplog.text
    with pytest.raises(ckpt.RankError):  # learns it, and does not wait for its deadline of ten minutes
        ckpt.save(second, 1, label="a")


@pytest.mark.parametrize("code,committed", [(0, True), (None, True), (1, False)])
def test_leaving_the_block_by_sys_exit_is_clean_unless_its_code_is_an_error(store: ckpt.Store, code: int | None,
                                                                          committed: bool) -> None:
    first, second = sessions_of(store)

    def other() -> None:
        try:
            ckpt.save(second, 1, label="a")
        except ckpt.RankError:
            assert not committed

    thread = threading.Timer(0.3, other)
    thread.start()
    with pytest.raises(SystemExit), first:
        ckpt.save_async(first, 1, label="a")
        sys.exit(code)
    thread.join()
    assert (labels(store) == ["a"]) == committed


SCRIPT = """
import sys, threading, numpy, ckpt
if sys.argv[2] == "path":
    ckpt.save_async(sys.argv[1], {"w": numpy.ones(2_000_000)}, label="a")
elif sys.argv[2] == "clean":
    ckpt.save_async(ckpt.Session(ckpt.Store(sys.argv[1])), {"w": numpy.ones(2_000_000)}, label="a")
    try:
        1 / 0
    except ZeroDivisionError:
        pass
else:
    session = ckpt.Session(ckpt.Store(sys.argv[1]), 0, 2)  # the other rank never saves
    ckpt.save_async(session, 1, label="a")
    raise KeyError("mine")
"""


@pytest.mark.parametrize("end", ["path", "clean"])
def test_the_end_of_the_interpreter_waits_for_a_save(tmp_path: Path, end: str) -> None:
    python(SCRIPT, str(tmp_path / "s"), end)
    assert labels(ckpt.Store(tmp_path / "s")) == ["a"]


def test_a_script_that_dies_cancels_its_save_at_once(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "s"), "dies"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 1 and "KeyError: 'mine'" in done.stderr
    assert "save of a.1.1" in done.stderr and "cancelled" in done.stderr
    assert labels(ckpt.Store(tmp_path / "s")) == []


INTERRUPTED = """
import os, signal, sys, threading, numpy, ckpt
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell start without
store = ckpt.Store(sys.argv[1])
first = ckpt.Session(store, 0, 2)
session = ckpt.Session(store, 1, 2, first.string)
w = bytearray(1000)
try:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    # With held_by=some nothing is staged before rank 0 has begun.
    ckpt.save_async(session, {"w": numpy.frombuffer(w, "u1")}, label="a", held_by="some")
except KeyboardInterrupt:
    pass
w.append(1)  # a buffer that somebody holds cannot be resized
session.close()
try:
    ckpt.save(first, {"w": 1}, label="a")
except ckpt.RankError:
    print("rank 0 knows")
"""


def test_ctrl_c_while_it_stages_cancels_and_lets_go_of_the_memory(tmp_path: Path) -> None:
    assert python(INTERRUPTED, str(tmp_path / "s")) == "rank 0 knows\n"


SIGNAL_AT_EXIT = """
import os, signal, sys, threading, ckpt
signal.signal(signal.SIGINT, signal.default_int_handler)
session = ckpt.Session(ckpt.Store(sys.argv[1]), 0, 2)  # the other rank never saves
ckpt.save_async(session, 1, label="a")
timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
timer.daemon = True
timer.start()
"""


def test_ctrl_c_while_the_interpreter_waits_cancels(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SIGNAL_AT_EXIT, str(tmp_path / "s")], capture_output=True, text=True,
                          timeout=60)
    assert "nanobind" not in done.stderr and "Fatal" not in done.stderr, done.stderr
    assert labels(ckpt.Store(tmp_path / "s")) == []


FORKED = """
import os, sys, ckpt
store = ckpt.Store(sys.argv[1])
first = ckpt.Session(store, 0, 2)
second = ckpt.Session(store, 1, 2, first.string)
handle = ckpt.save_async(first, 1, label="a")
child = os.fork()
if child == 0:
    try:
        handle.result()
    except ckpt.ForkedError as error:
        first.close()
        os._exit(0)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
ckpt.save(second, 1, label="a")
print(handle.result())
"""


def test_a_forked_child_does_nothing(tmp_path: Path) -> None:
    assert python(FORKED, str(tmp_path / "s")) == "0\na.1.1\n"


def test_a_signal_handler_may_save_while_the_session_waits(store: ckpt.Store, session: ckpt.Session) -> None:
    def handler(*_: Any) -> None:
        ckpt.save(session, {"n": 2}, label="signal", on_existing="keep")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        ckpt.save(session, {"n": 1}, label="a", progress=lambda *_: os.kill(os.getpid(), signal.SIGUSR1))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert sorted(labels(store)) == ["a", "signal"]
