"""Store, Reader and Session: those of ckpt._core with what is easier said in Python."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from types import TracebackType

from . import _core
from .arguments import checked, path_of, store_of
from .background import Turn
from .errors import NotFoundError
from .hints import not_found, shown
from .records import CheckpointInfo
from .tables import Rowset, Share


class Store(_core.Store):
    """A directory that holds checkpoints ("/data/run7", any os.PathLike, "file:///data/run7"), a prefix in a bucket of
    an object store ("s3://bucket/run7", "gs://bucket/run7", "az://container/run7"), a directory of a web server
    ("https://host/run7": to be read, and checkpoints are opened by their ids), or a store in this process's memory
    ("mem:NAME"). Opening it creates nothing. Several threads may use it at once."""

    @checked()
    def __init__(self, uri: str | os.PathLike[str], options: Mapping[str, int | str] | None = None,
                 **keywords: int | str) -> None:
        super().__init__(path_of(uri), options, **keywords)
        self.uri = os.fsdecode(uri)
        """What it was opened with."""
        given = {**(options or {}), **keywords}
        self.limit = {key: given[key] for key in ("timeout_ms",) if key in given}
        """Its option timeout_ms, if it was given."""
        self.mirror = str(given.get("mirror", ""))
        """The store that its checkpoints are copied into, as option `mirror` names it; "" if there is none."""

    @checked()
    def find(self, selector: str = "latest", options: Mapping[str, int | str] | None = None,
             **keywords: int | str) -> CheckpointInfo:
        """The committed checkpoint that `selector` names: "latest", a label, "label:L", "name:N", "step:N" or an
        id. NotFoundError if there is none; it names those that exist. With several ranks call it on one and send the id
        to the others."""
        try:
            return super().find(selector, options, **keywords)
        except NotFoundError as error:
            raise not_found(error, self, selector, {**(options or {}), **keywords}) from None

    def __enter__(self) -> Store:
        return self

    def __repr__(self) -> str:
        return f"<ckpt.Store {shown(self.uri)!r}{', closed' if self.closed else ''}>"


class Reader(_core.Reader):
    """One committed checkpoint, read-only; pruning keeps it while the reader is open. Opening checks the manifest and
    reads no tensor data. It warns (PassedOverWarning) if newer checkpoints cannot be loaded; on_damaged="error" raises
    instead. NotFoundError names the checkpoints that exist. Several threads may use it at once."""

    @checked(store=store_of)
    def __init__(self, store: _core.Store, selector: str = "latest", options: Mapping[str, int | str] | None = None,
                 **keywords: int | str) -> None:
        try:
            super().__init__(store, selector, options, **keywords)
        except NotFoundError as error:
            raise not_found(error, store, selector, {**(options or {}), **keywords}) from None

    @checked()
    def share(self, table: str, rows: Rowset | None = None, *, window_rows: int = 0, since: Reader | None = None,
              options: Mapping[str, int | str] | None = None, job: _core.Job | None = None,
              **keywords: int | str) -> Share:
        """Some rows of sparse table `table` (None: all), counted; read() and windows() of it read them. `since`: of
        these only what changed since that checkpoint; `missing` then has the ids that are gone. NotFoundError if there
        is no such table. With `job` (ckpt.Job()) another thread can watch and cancel the counting."""
        return Share(self, table, rows, window_rows=window_rows, since=since, options=options, job=job, **keywords)

    def __enter__(self) -> Reader:
        return self

    def __repr__(self) -> str:
        if self.closed:
            return "<ckpt.Reader, closed>"
        return f"<ckpt.Reader {self.info.id}: {self.tensor_count} tensors>"


class Session(_core.Session):
    """One start of all ranks of a run; it owns the run until a newer session is opened. One rank: Session(store).
    Several: rank 0 opens it without session_string and sends .string to the others, who pass it; or all pass
    rendezvous=1. Opening waits up to option timeout_ms for missing ranks; Ctrl-C takes effect after that, job.cancel()
    from another thread at once.

    A session has one save of ckpt.save or ckpt.save_async in flight, and keeps it alive. close() and the end of a
    `with` block wait for it and raise its failure if nothing has yet; an exception that leaves the block cancels it at
    once, so that the other ranks need not wait (sys.exit() with code 0 or None is no exception here)."""

    @checked(store=store_of)
    def __init__(self, store: _core.Store, rank: int = 0, world_size: int = 1, session_string: str | None = None,
                 options: Mapping[str, int | str] | None = None, *, job: _core.Job | None = None,
                 **keywords: int | str) -> None:
        rank, world_size = operator.index(rank), operator.index(world_size)
        super().__init__(store, rank, world_size, session_string, options, job=job, **keywords)
        self.rank = rank
        """Which rank of the session this is."""
        chosen = {"run": "main", "timeout_ms": 600000, **(options or {}), **keywords}
        self._run = chosen["run"]
        self.timeout_ms = int(chosen["timeout_ms"])
        """How long it waits for other ranks: option timeout_ms."""
        self._turn = Turn()
        self._process = os.getpid()

    @checked()
    def wait(self, timeout_ms: int = -1) -> None:
        """Waits for the save in flight, if there is one, and raises its failure, once. TimeoutError when the time is
        up: the save goes on."""
        self._turn.wait(timeout_ms)

    def close(self) -> None:
        """Waits for the save in flight, closes the session, and raises the failure of the save if nothing has yet.
        Calling it again does nothing."""
        if self.closed or self._process != os.getpid():
            super().close()
            return
        with self._turn.lock:
            try:
                self._turn.wait()
            finally:
                super().close()

    def _unwind(self) -> None:
        """Closes it without waiting for others."""
        if not self.closed and self._process == os.getpid():
            self._turn.cancel("an exception left the block of its session")
            with self._turn.lock:
                if self._turn.running is not None:
                    self._turn.running.join()
        super().close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if type is None or (isinstance(value, SystemExit) and value.code in (None, 0)):
            self.close()
        else:
            self._unwind()

    def __repr__(self) -> str:
        return (f"<ckpt.Session rank {self.rank} of {self.world_size}, run {self._run!r}"
                f"{', closed' if self.closed else ''}>")
