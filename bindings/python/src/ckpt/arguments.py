"""Arguments of calls, checked before the layer beneath sees them: its words are not the user's."""

from __future__ import annotations

import operator
import os
from typing import Any

from . import _core
from .enums import Status
from .errors import error_of, type_error
from .hints import shown

WORDS = ("at", "attrs", "convert", "framework", "in_place", "into", "job", "label", "options", "progress", "rank",
         "selector", "session_string", "step", "world_size")
"""Keywords of calls that are no options, for those that are misspelt."""


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def whole(name: str, value: Any) -> int:
    """An integer, of any type that is one."""
    try:
        return operator.index(value)
    except TypeError:
        raise type_error(f"{name}: expected an int, found {_kind(value)} {value!r}") from None


def step_of(value: Any) -> int | None:
    """A step, or None."""
    step = None if value is None else whole("step", value)
    if step is not None and not 0 <= step < 2**63:
        raise error_of(Status.INVALID, f"step: expected 0 to 2**63-1, found {step}; leave it out for a checkpoint "
                       "without a step", {"expected": "0 or more", "found": str(step)})
    return step


def text_of(name: str, value: Any) -> str | None:
    """Text, or None."""
    if value is not None and not isinstance(value, str):
        raise type_error(f"{name}: expected text, found {_kind(value)} {value!r}")
    return value


def path_of(value: Any) -> Any:
    """What names a store."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise type_error(f"uri: expected a path or an address of a store, found {_kind(value)}")
    return value


def store_of(what: str, value: Any) -> _core.Store:
    """An open store."""
    if isinstance(value, (str, os.PathLike)):
        address = shown(os.fsdecode(value))
        raise type_error(f"{what}: expected a ckpt.Store, found {_kind(value)}; give ckpt.Store({address!r})")
    if not isinstance(value, _core.Store):
        raise type_error(f"{what}: expected a ckpt.Store, found {_kind(value)}")
    return value
