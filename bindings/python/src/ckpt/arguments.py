"""Arguments of calls, checked before the layer beneath sees them: its words are not the user's."""

from __future__ import annotations

import datetime
import functools
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from . import _core
from .enums import OptionKind, Status
from .errors import error_of, type_error, value_error
from .hints import shown

WORDS = ("at", "attrs", "convert", "framework", "in_place", "into", "job", "label", "options", "progress", "rank",
         "selector", "session_string", "step", "world_size")
"""Keywords of calls that are no options, for those that are misspelt."""


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _found(value: object) -> str:
    short = value is not None and isinstance(value, (bool, int, float, str, bytes))
    return f"{_kind(value)} {value!r}" if short else "None" if value is None else _kind(value)


def whole(name: str, value: Any, low: int = -2**63, high: int = 2**63 - 1) -> int:
    """An integer, of any type that is one."""
    try:
        found = operator.index(value)
    except TypeError:
        raise type_error(f"{name}: expected an int, found {_found(value)}") from None
    if not low <= found <= high:
        raise value_error(f"{name}: expected {low} to {high}, found {found}")
    return found


def number(name: str, value: Any) -> float:
    """A number, or an array of one."""
    try:
        return float(value) if not isinstance(value, (str, bytes)) else float("")
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise type_error(f"{name}: expected a number, found {_found(value)}") from None


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
        raise type_error(f"{name}: expected text, found {_found(value)}")
    return value


def patterns(given: str | Iterable[str]) -> tuple[str, ...]:
    """only= or without= as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given)


def path_of(value: Any, name: str = "uri") -> Any:
    """What names a store."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise type_error(f"{name}: expected a path or an address of a store, found {_found(value)}")
    _without_nul(name, value)
    return value


def _without_nul(name: str, value: Any) -> None:
    if isinstance(value, _PATH) and "\0" in os.fsdecode(value):
        raise error_of(Status.INVALID, f"{name}: expected a path without a NUL, found {os.fsdecode(value)!r}")


def store_of(name: str, value: Any) -> _core.Store:
    """An open store."""
    if isinstance(value, (str, os.PathLike)):
        address = shown(os.fsdecode(value))
        raise type_error(f"{name}: expected a ckpt.Store, found {_kind(value)}; give ckpt.Store({address!r})")
    if not isinstance(value, _core.Store):
        raise type_error(f"{name}: expected a ckpt.Store, found {_kind(value)}")
    return value


# ---- doors: what each parameter takes, by its name ----

_PATH = (str, bytes, os.PathLike)

Door: TypeAlias = Callable[[str, Any], object]
Names: TypeAlias = "str | Sequence[str]"
Rename: TypeAlias = "Mapping[str, str] | Mapping[str, Names] | Callable[[str], Names] | None"


def _is(words: str, fits: Callable[[Any], bool]) -> Door:
    def door(name: str, value: Any) -> None:
        if not fits(value):
            raise type_error(f"{name}: expected {words}, found {_found(value)}")
    return door


def _path(words: str, *kinds: type) -> Door:
    is_one = _is(f"a path, an address{words}", _of(*_PATH, *kinds))

    def door(name: str, value: Any) -> None:
        is_one(name, value)
        _without_nul(name, value)
    return door


def _whole(low: int, high: int = 2**63 - 1) -> Door:
    return lambda name, value: whole(name, value, low, high)


def _of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds)


def _each(*kinds: type) -> Callable[[Any], bool]:
    """Of a list or the like, no text, all of these kinds."""
    return lambda value: (isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
                          and not hasattr(value, "__next__") and all(isinstance(one, kinds) for one in value))


def _ints(value: Any) -> bool:
    return _each(object)(value) and all(hasattr(one, "__index__") for one in value)


_SPAN = (int, float, datetime.timedelta)
_FLAG = _is("True or False", lambda value: type(value).__name__ in ("bool", "bool_") or _of(int)(value) and value in (
    0, 1))
A_DICT = _is("a dict", lambda value: isinstance(value, Mapping))
_TEXT = _is("text", _of(str))
_PATTERNS = _is("a pattern or a list of them", lambda value: isinstance(value, str) or _each(str)(value))
_TEXT_OR_STEP = _is("text or a step", _of(str))
_SHAPE = _is("a tuple of ints", _ints)
_IDS = _is("integers (a list or an array)", lambda value: any(hasattr(value, name) for name in (
    "__iter__", "__array__", "__dlpack__")))
_LARGE = _whole(-2**64, 2**64)
_INT32 = _whole(0, 2**31 - 1)
_DOORS: dict[str, Door] = {
    "at": _is("the keys that lead there, such as ('model', 0)", _each(str, int)),
    "attrs": A_DICT,
    "bucket_count": _LARGE,
    "changed": _IDS,
    "columns": _is("a list of names", _each(str)),
    "convert": _FLAG,
    "count": _LARGE,
    "end": _LARGE,
    "every": _is("a number of steps, a timedelta, text, a function or a list of these", lambda value: (
        callable(value) or _of(int, str, datetime.timedelta)(value) or _each(object)(value))),
    "first": _LARGE,
    "flat_offset": _whole(0),
    "framework": _TEXT,
    "fresh": _FLAG,
    "index": _LARGE,
    "ids": _IDS,
    "in_place": _FLAG,
    "job": _is("a ckpt.Job", _of(_core.Job)),
    "keep": _is("a function of a Moment", callable),
    "keep_best": _is("(metric, 'min' or 'max', how many), or a list of these", (
        lambda value: isinstance(value, (str, tuple, list)))),
    "keep_every": _is("a number of steps, a timedelta, text such as '1 h', or a list of these", lambda value: (
        (hasattr(value, "__index__") and not isinstance(value, bool)) or isinstance(value, (str, datetime.timedelta))
        or _each(int, str, datetime.timedelta)(value))),
    "keep_last": _whole(1),
    "label": _TEXT,
    "metrics": A_DICT,
    "missing": _IDS,
    "offset": _SHAPE,
    "on_commit": _is("a function or a list of them", lambda value: callable(value) or (
        _each(object)(value) and all(map(callable, value)))),
    "on_commit_ranks": _TEXT,
    "on_event": _is("a function or a list of them", lambda value: callable(value) or (
        _each(object)(value) and all(map(callable, value)))),
    "on_shape_mismatch": _TEXT,
    "only": _PATTERNS,
    "options": A_DICT,
    "or_rank0": _FLAG,
    "overwrite": _FLAG,
    "path": _path(" or a ckpt.Store", _core.Store),
    "positions": _IDS,
    "progress": _is("True, False or a function", lambda value: callable(value) or _of(bool)(value)),
    "rank": _INT32,
    "read_only": _FLAG,
    "removed": _IDS,
    "rename": _is("a dict or a function", lambda value: callable(value) or isinstance(value, Mapping)),
    "replica": _is("(group, index, count)", lambda value: _ints(value) and len(tuple(value)) == 3),
    "rows": lambda name, value: _is("a ckpt.Rowset", lambda found: type(found).__name__ == "Rowset")(name, value),
    "run": _TEXT,
    "save_on_exception": _FLAG,
    "select": lambda name, value: whole(name, value, 0) if hasattr(value, "__index__") else _TEXT_OR_STEP(name, value),
    "selector": _TEXT,
    "session_string": _TEXT,
    "shape": _SHAPE,
    "signals": _is("a list of names, such as ('SIGTERM',)", _each(str)),
    "since": _is("a ckpt.Reader", _of(_core.Reader)),
    "source": _path(", a ckpt.Store or a ckpt.Reader", _core.Store, _core.Reader),
    "step": lambda name, value: step_of(value),
    "store": _path(" or a ckpt.Store", _core.Store),
    "strict": _FLAG,
    "table": _TEXT,
    "target": _path(", a ckpt.Store or a ckpt.Session", _core.Store, _core.Session),
    "time_limit": _is("seconds, a timedelta, a datetime or 'slurm'", _of(*_SPAN, datetime.datetime, str)),
    "time_margin": _is("seconds or a timedelta", _of(*_SPAN)),
    "timeout_ms": _whole(-1),
    "window_rows": _whole(0),
    "without": _PATTERNS,
    "world_size": _whole(1, 2**31 - 1),
}

_options: dict[str, OptionKind] = {}


def option(name: str, value: Any) -> None:
    """An option of the library, which checks how large it is, and which text."""
    if not _options:
        _options.update((one.key, OptionKind(one.kind)) for one in _core.options())
    if name not in _options:
        raise error_of(Status.INVALID, f'unknown option "{name}"', {"found": str(name)})
    if not isinstance(value, (int, str)):
        raise type_error(f"option {name}: expected {'an int' if _options[name] == OptionKind.INT else 'text'}, found "
                         f"{_found(value)}; leave it out for what it is by default")


def check(given: Mapping[str, Any]) -> None:
    """What was given by name, other than None."""
    for name, value in given.items():
        if value is not None and (door := _DOORS.get(name)):
            door(name, value)


Function = TypeVar("Function", bound=Callable[..., Any])


def checked(**special: Door | None) -> Callable[[Function], Function]:
    """A function whose arguments are checked by their names before anything is done; `special`: other doors of its
    own. What is as it is by default fits."""
    return lambda function: _checked(function, special)


def _checked(function: Any, special: Mapping[str, Door | None]) -> Any:
    code = function.__code__
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    defaults = dict(zip(reversed(names[:code.co_argcount]), reversed(function.__defaults__ or ())))
    defaults.update(function.__kwdefaults__ or {})
    doors = {name: special.get(name, _DOORS.get(name)) for name in names}
    nothing = object()

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        for name, value in (*zip(names, args), *given.items()):
            if name not in doors:
                if "options" in doors:
                    option(name, value)
            elif value is not defaults.get(name, nothing):
                if (door := doors[name]) is not None:
                    door(name, value)
                if name == "options":
                    for key in value:
                        option(key, value[key])
        return function(*args, **given)

    return call
