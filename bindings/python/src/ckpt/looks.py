"""Looks at files of this machine. Their disk may hang, so a thread of its own looks, and is left behind then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .enums import Status
from .errors import error_of

T = TypeVar("T")
TIMEOUT_MS = 600000
"""What option timeout_ms has by default."""


def look(path: str, options: Mapping[str, Any], at: Callable[[], T]) -> T:
    """What `at` returns, or raises, of that path. TimeoutError if it has not ended by option timeout_ms."""
    given = options.get("timeout_ms", TIMEOUT_MS)
    limit = given if isinstance(given, int) and given > 0 else TIMEOUT_MS  # the library refuses any other
    ends: list[Callable[[], T]] = []

    def work() -> None:
        try:
            found = at()
            ends.append(lambda: found)
        except BaseException as error:
            failed = error  # which its own block forgets
            ends.append(lambda: _raise(failed))

    thread = threading.Thread(target=work, name=f"ckpt looks at {path}", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends, and starts no threads any more
        return at()
    thread.join(min(limit / 1000, threading.TIMEOUT_MAX))
    if not ends:
        raise error_of(Status.TIMEOUT, f"looking at {path} has not ended for {limit} ms; the system holds its thread, "
                       "which was left behind", {"path": path})
    return ends[0]()


def _raise(error: BaseException) -> Any:
    raise error
