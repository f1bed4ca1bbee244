"""Saves that outlive their handles: a session has one in flight, which it keeps alive and whose failure it tells.

A Turn belongs to a session: it is the right to save there. A Running is a save and the thread that waits for its end,
which notes and logs how it ended and frees what it used. The thread is no daemon, so the end of the interpreter waits
for it, in a forked process too.
"""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType
from typing import Any

from ._core import Job, Session
from .arguments import checked
from .enums import FindingKind, JobState, Status
from .errors import Error, InvalidError, LaterStepsWarning, TimeoutError, error_of, line, warn
from .progress import ended
from .records import JobStats

_running: set[Running] = set()
_IN_PYTHON = " (of a Checkpointer: restore(), or fresh=True)"


def log(level: str, text: str, **how: Any) -> None:
    """Writes to the logger "ckpt"; `how` as in logging."""
    import logging  # not before it is needed
    getattr(logging.getLogger("ckpt"), level)("%s", line(text), **how)


def _last_exception() -> BaseException | None:
    """The exception of which Python has printed the traceback last."""
    found = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return found if isinstance(found, BaseException) else None


class Running:
    """A save that has started. `owned`: the session that was opened for it alone, if one was."""

    def __init__(self, job: Job, identifier: str, owned: Session | None) -> None:
        self.id = identifier
        self.cancelled = False  # by this process, so that it is no failure
        self.of_keeper = False  # of a Checkpointer, which has a word of its own for on_existing
        self._job, self._owned = job, owned
        self._error: Error | None = None
        self._anew = ""  # of a save that does not go on from what the run has: why, until the caller was told
        self._told = False
        self._over = threading.Event()
        self._stats: JobStats | None = None
        self._turn: Turn | None = None  # once a thread waits for its end
        self._process = os.getpid()
        self._exception_before = _last_exception()

    @property
    def here(self) -> bool:
        """Whether this is the process that started it, and no forked child."""
        return self._process == os.getpid()

    # ---- the end ----

    def watch(self, turn: Turn) -> None:
        """Makes a thread that waits for its end. A failure is told in that turn."""
        self._turn = turn
        _running.add(self)
        try:
            threading.Thread(target=self._watch, name=f"ckpt save {self.id}", daemon=False).start()
        except RuntimeError:  # the interpreter ends, and starts no threads any more
            self._watch()

    def _watch(self) -> None:
        try:
            while not ended(self._job):
                if not self.cancelled and self._process_dies():
                    self.cancel("the process dies of an exception")
        except Error:
            pass  # of the save; finish() asks for it again
        finally:
            self.finish()

    def _process_dies(self) -> bool:
        """Whether the main thread has ended with an exception since the save began. At a prompt none ends it."""
        if threading.main_thread().is_alive() or hasattr(sys, "ps1"):
            return False
        return _last_exception() not in (None, self._exception_before)

    def finish(self) -> None:
        """Waits for the end, notes how it ended, and frees what it used."""
        try:
            self._job.wait()
        except Error as error:
            self._note(error.with_traceback(None))
        else:
            self.look_at_report()
            if self._anew:
                log("warning", f"save of {self.id}: {self._anew}")
        self._stats = self._job.stats
        self._job.close()
        self.release()
        if self._turn is not None:
            self._turn.forget(self)
        _running.discard(self)
        self._over.set()

    def release(self) -> None:
        """Closes the session that was opened for this save."""
        if self._owned is not None:
            self._owned.close()

    def _note(self, error: Error) -> None:
        error.__context__ = None  # such as a KeyboardInterrupt, whose frames hold the state
        self._error = error
        self._told = self.cancelled or self._turn is None  # who started it sees it
        if self.of_keeper:
            error.message = error.message.replace("option on_existing says what to do then",
                                                  "overwrite=True of the Checkpointer replaces it")
        error._name_place(f"save of {self.id} in the background")
        if not self._told:
            log("error", str(error))

    # ---- for all threads ----

    @property
    def over(self) -> bool:
        """Whether it has ended and everything is noted."""
        return self._over.is_set()

    @property
    def failed(self) -> bool:
        """Whether it has failed and nobody was told."""
        return self._error is not None and not self._told

    @property
    def anew(self) -> bool:
        """Whether it does not go on from what the run has, and nobody was told."""
        return bool(self._anew)

    @property
    def stats(self) -> JobStats:
        """Counters of the work so far."""
        try:
            return self._job.stats
        except InvalidError:  # closed: it has ended
            assert self._stats is not None
            return self._stats

    def done(self) -> bool:
        """Whether it has ended."""
        try:
            return self.over or self._job.state >= JobState.COMMITTED
        except InvalidError:
            return True

    def cancel(self, why: str = "") -> None:
        """Asks it to stop; says so in the log if that was not what the caller asked for."""
        self.cancelled = True
        if why:
            log("warning", f"the save of {self.id} is cancelled, since {why}")
        try:
            self._job.cancel()
        except InvalidError:
            pass  # it has ended

    def stage(self, timeout_ms: int = -1) -> None:
        """Waits until the arrays may change. Raises the error of a save that has failed."""
        try:
            self._job.wait(JobState.STAGED, timeout_ms)
        except Error:
            if self._turn is None or not self.done():  # its own error, or the time is up
                raise
        if self._turn is not None and self.done():  # it may have been staged before it failed
            self.result()

    def join(self, timeout_ms: int = -1) -> None:
        """Waits until it has ended and uses nothing any more, or raises TimeoutError."""
        if self._turn is None:  # in the foreground of a thread, which may be this one, below a signal handler
            try:
                self._job.wait(timeout_ms=timeout_ms)
            except Error:
                if not self.done():
                    raise
        elif not self._over.wait(None if timeout_ms < 0 else min(timeout_ms / 1000, threading.TIMEOUT_MAX)):
            raise error_of(Status.TIMEOUT, f"the save of {self.id} has not ended within {timeout_ms} ms; it goes on")

    def look_at_report(self) -> None:
        """Of a save that has been committed: whether it does not go on from what the run has."""
        for finding in self._job.report():
            if finding.kind == FindingKind.ANEW:
                self._anew = f"{finding.text}{_IN_PYTHON if ';' in finding.text else ''}"

    def tell_anew(self) -> None:
        """Warns of that, once."""
        text, self._anew = self._anew, ""
        if text:
            warn(LaterStepsWarning(text))

    def tell(self) -> None:
        """Raises the failure of a save that has ended, unless it was told."""
        self.tell_anew()
        if self.failed and self._error is not None:
            self._told = True
            raise self._error

    def result(self, timeout_ms: int = -1) -> None:
        """Waits for the end. Raises the error of a save that failed, which is told then."""
        if not self.here:
            raise error_of(Status.FORKED, f"the save of {self.id} was started by the parent of this process")
        self.join(timeout_ms)
        self.tell_anew()
        self._told = True
        if self._error is not None:
            raise self._error


class Turn:
    """The right to save in a session: one save at a time, by whatever thread. A signal handler may take it again."""

    def __init__(self, place: str = "") -> None:
        self.place = place  # where the store is; "" of a session that the caller opened
        self.lock = threading.RLock()
        self.running: Running | None = None  # in flight, or with something that is not told yet

    def wait(self, timeout_ms: int = -1) -> None:
        """Waits for the save in flight. Raises its failure, once."""
        running = self.running
        if running is None:
            return
        running.join(timeout_ms)
        if self.running is running:
            self.running = None
        running.tell()

    def forget(self, running: Running) -> None:
        """Lets go of a save that has ended, unless its failure, or that it begins anew, is still to be told."""
        if self.running is running and not running.failed and not running.anew:
            self.running = None

    def cancel(self, why: str) -> None:
        """Cancels the save in flight, of whatever thread."""
        running = self.running
        if running is not None and not running.done():
            running.cancel(why)


class SaveHandle:
    """A save in the background, from ckpt.save_async. It need not be kept: the session waits for the save and tells its
    failure.

    The end of a `with` block waits for the commit; an exception in the block cancels the save instead. Several threads
    may use it at once.
    """

    def __init__(self, running: Running, in_place: bool) -> None:
        self.id: str = running.id
        """The id that the checkpoint will have once committed."""
        self._running, self._in_place = running, in_place
        self._closed = False

    @checked()
    def staged(self, timeout_ms: int = -1) -> None:
        """Waits until the arrays may change again, for a save with in_place=True: others are staged from the start.
        Raises like result()."""
        self._running.stage(timeout_ms)

    @checked()
    def result(self, timeout_ms: int = -1) -> str:
        """Waits for the commit and returns the checkpoint's id. Raises the error of a save that failed, which the
        session then does not raise again, or TimeoutError when the time is up (the save goes on); a negative timeout
        waits without limit."""
        self._running.result(timeout_ms)
        return self.id

    def done(self) -> bool:
        """Whether it has ended: committed, failed or cancelled."""
        return self._running.done()

    def cancel(self) -> None:
        """Asks it to stop and returns at once. A save that is not yet committed will not be."""
        self._running.cancel()

    @property
    def stats(self) -> JobStats:
        """Counters of the work so far."""
        return self._running.stats

    def close(self) -> None:
        """Cancels the save if it still runs, and waits until the arrays are no longer used."""
        self._closed = True
        if self._running.here:
            if not self._running.done():
                self._running.cancel()
            self._running.join()

    def __enter__(self) -> SaveHandle:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            if kind is None and not self._closed:
                self._running.result()
        finally:
            self.close()

    def __repr__(self) -> str:
        state = "failed" if self._running.failed else self._running.stats.state.name.lower()
        return f"<ckpt.SaveHandle {self.id}: {state}>"

    def __del__(self) -> None:
        running: Any = getattr(self, "_running", None)
        if running is None or not self._in_place or running.over or not running.here:
            return
        try:
            running.stage()  # nobody could ask any more whether the arrays may change
        except Error:
            pass  # the session tells it
        except BaseException:
            running.cancel()
            running.join()
            raise


def cancel_what_is_left() -> None:
    """For the end of the interpreter. There is something only after Ctrl-C has ended the interpreter's own wait for the
    threads: nothing may run when it is gone."""
    for running in list(_running):
        if running.here:
            running.cancel("the interpreter ends")
            running.join()
