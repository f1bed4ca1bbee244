"""ckpt.fsspec_store: a store on any file system of fsspec, for reading, and for one process that writes."""

from __future__ import annotations

import errno
import functools
import os
import re
import threading
import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from . import _core
from .enums import Status
from .errors import Error, error_of, value_error
from .handles import Store
from .hints import shown

_SCHEME = "fsspec+"
_UNNAMED = "%part"  # a directory: files that have no key yet
# What tells one file under a path from the next, as file systems call it.
_VERSION = ("ETag", "etag", "version_id", "versionId", "generation", "md5", "checksum", "ino", "mtime", "created",
            "LastModified", "last_modified", "modified", "modify", "unique", "updated")

_given: dict[str, Mapping[str, Any]] = {}  # by address: the options of its file system


def fsspec_store(url: str, *, options: Mapping[str, int | str] | None = None, **storage: Any) -> Store:
    """A store on a file system of fsspec ("memory://run7", "sftp://host/run7"), for ckpt.save, load and Checkpointer.
    `storage` are the options of that file system, `options` those of ckpt.Store.

    It reads, and one process may write: a session of several ranks is UNSUPPORTED, but on local files ("file://"),
    where a name can be made exclusively. A file is written under another name and moved, so on buckets each costs a
    copy by the server: use "s3://" and "gs://" of ckpt.Store there. Needs fsspec."""
    protocol, found, path = str(url).partition("://")
    if not found or not path or not re.fullmatch(r"[a-z][a-z0-9+.-]*", protocol):
        raise value_error(f"url: expected PROTOCOL://PATH of a file system of fsspec, found {shown(str(url))!r}")
    address = _SCHEME + url.rstrip("/")
    _given[address] = storage
    _core.register_backend(_SCHEME + protocol, _Files)
    return Store(address, options)


def status_of(raised: BaseException) -> tuple[int, str]:
    """What a failure of a file system is to the engine."""
    status = Status.IO
    for kind, meaning in ((FileNotFoundError, Status.NOT_FOUND), (FileExistsError, Status.EXISTS),
                          (NotImplementedError, Status.UNSUPPORTED), (MemoryError, Status.NOMEM)):
        if isinstance(raised, kind):
            status = meaning
    if isinstance(raised, Error):
        status = raised.status
    elif isinstance(raised, OSError) and raised.errno == errno.ENOSPC:
        status = Status.NO_SPACE
    return int(status), f"{type(raised).__name__}: {raised}"


def _in_turn(method: Any) -> Any:
    """One call at a time on a file system that has one connection."""
    @functools.wraps(method)
    def call(self: Any, *arguments: Any) -> Any:
        with self.turn:
            return method(self, *arguments)
    return call


class _Files:
    """The calls of ckpt_backend.h on one file system."""

    def __init__(self, address: str) -> None:
        import fsspec  # type: ignore[import-untyped,unused-ignore]
        from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped,unused-ignore]
        self.fs, self.root = fsspec.core.url_to_fs(address.removeprefix(_SCHEME), **_given.get(address, {}))
        self.is_local = isinstance(self.fs, LocalFileSystem)
        here = self.is_local or "memory" in self.fs.protocol
        self.turn: Any = nullcontext() if here or self.fs.async_impl else threading.RLock()
        self.promises = (_core.BACKEND_EXCLUSIVE if self.is_local else 0) | (0 if here else _core.BACKEND_REMOTE)

    def path(self, key: str) -> str:
        """That of a key; "" is the root."""
        return f"{self.root.rstrip('/')}/{key}" if key else self.root

    @_in_turn
    def look(self, key: str) -> tuple[int, str]:
        """Size and version."""
        self.fs.invalidate_cache()
        info = self.fs.info(self.path(key))
        if info["type"] != "file":
            raise FileNotFoundError(self.path(key))
        return int(info["size"]), " ".join(str(info[name]) for name in _VERSION if info.get(name) is not None)[:60]

    @_in_turn
    def read(self, key: str, version: str, offset: int, out: memoryview) -> int:
        """How many bytes of that version were read."""
        try:
            found = self.look(key)[1]
            data = self.fs.cat_file(self.path(key), offset, offset + len(out)) if found == version else None
        except FileNotFoundError:
            data = None
        if data is None:
            raise error_of(Status.GONE, f"{self.path(key)} was removed or replaced", {})
        out[:len(data)] = data
        return len(data)

    @_in_turn
    def list(self, directory: str) -> list[tuple[str, bool, int]]:
        """Name, whether it is a directory, and size of what is in a directory."""
        self.fs.invalidate_cache()
        path = self.path(directory)
        try:
            entries = self.fs.ls(path, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = [(info["name"].rstrip("/"), info["type"] == "directory", int(info["size"] or 0)) for info in entries]
        return [(name.rpartition("/")[2], *rest) for name, *rest in found  # a file lists itself
                if name.strip("/") != path.strip("/") and not name.endswith("/" + _UNNAMED)]

    @_in_turn
    def create(self, key: str, over: bool) -> _NewFile:
        """A file that is to be written."""
        return _NewFile(self, key, over)

    @_in_turn
    def remove(self, key: str) -> None:
        """Removes a file, and the directories above it that are empty then."""
        self.look(key)
        self.fs.rm_file(self.path(key))
        while key := key.rpartition("/")[0]:
            try:
                self.fs.rmdir(self.path(key))
            except Exception:  # it is not empty, or cannot be removed, whatever that is called here
                return


class _NewFile:
    def __init__(self, files: _Files, key: str, over: bool) -> None:
        self.files, self.fs, self.turn, self.key, self.over = files, files.fs, files.turn, key, over
        self.made = files.path(f"{_UNNAMED}/{uuid.uuid4().hex}")
        self.fs.makedirs(files.path(_UNNAMED), exist_ok=True)
        self.file = self.fs.open(self.made, "wb")

    @_in_turn
    def append(self, data: memoryview) -> None:
        """Takes the next bytes."""
        self.file.write(bytes(data))

    @_in_turn
    def publish(self) -> None:
        """Moves it to its key."""
        try:
            if self.files.is_local:
                self.file.flush()
                os.fsync(self.file.fileno())
            self.file.close()
            path = self.files.path(self.key)
            self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            if self.files.is_local:
                self._name(path)
            elif not self.over and self.fs.exists(path):
                raise FileExistsError(path)
            else:
                self.fs.mv(self.made, path)
        except BaseException:
            self.discard()
            raise

    def _name(self, path: str) -> None:
        try:
            if self.over:
                os.replace(self.made, path)
            else:
                os.link(self.made, path)
                os.unlink(self.made)
        finally:
            above = path
            while len(above := os.path.dirname(above)) >= len(self.files.root.rstrip("/")):
                descriptor = os.open(above, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)

    @_in_turn
    def discard(self) -> None:
        """Leaves nothing of it but what has its key."""
        try:
            self.file.close()
            self.fs.rm_file(self.made)
        except Exception:  # nobody looks for it
            pass
