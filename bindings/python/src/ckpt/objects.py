"""Dataclasses, named tuples, enums and paths: saved as records, with what would make the object (STATE_TREE.md section
5), and loaded into the caller's own. Without one they load as ckpt.Record: no class is looked up by its name."""

from __future__ import annotations

import copy
import dataclasses
import enum
import pathlib
from typing import Any

from .enums import Status
from .errors import error_of
from .regions import PerRank, Regions, Shard
from .trees import Record


def record_of_object(value: Any) -> Record | None:
    """The record of an object; None if it is of another kind."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if not is_object(value):
        return None
    if isinstance(value, enum.Enum):
        return Record(name, {"args": (value.value,)})
    if isinstance(value, pathlib.PurePath):
        return Record(name, {"args": (str(value),)})
    if is_named_tuple(value):
        return Record(name, {"args": tuple(value)})
    return Record(name, {"state": fields_of(value)})


def is_named_tuple(value: Any) -> bool:
    """Whether its class came from collections.namedtuple or typing.NamedTuple."""
    return isinstance(value, tuple) and type(value) is not tuple and hasattr(type(value), "_fields")


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that have a value."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if hasattr(value, field.name)}


def is_object(like: Any) -> bool:
    """Whether it is such an object, of whose class a record can come back."""
    return isinstance(like, (enum.Enum, pathlib.PurePath)) or is_named_tuple(like) or (
        dataclasses.is_dataclass(like) and not isinstance(like, (type, Record, Shard, Regions, PerRank)))


def template_of(like: Any) -> dict[str, Any]:
    """The items of the record, to load into."""
    record = record_of_object(like)
    return {} if record is None else record.items


def rebuild(like: Any, record: Record) -> Any:
    """An object of the class of `like` with the values of a loaded record."""
    try:
        if isinstance(like, enum.Enum):
            return type(like)(*record.items["args"])
        if isinstance(like, pathlib.PurePath):
            return type(like)(*record.items["args"])
        if is_named_tuple(like):
            return type(like)(*record.items["args"])
        made = copy.copy(like)
        for name, value in record.items["state"].items():
            if name not in {field.name for field in dataclasses.fields(like)}:
                raise KeyError(name)
            object.__setattr__(made, name, value)  # frozen ones, too
        return made
    except (LookupError, TypeError, ValueError) as error:
        kind = f"{type(like).__module__}.{type(like).__qualname__}"
        raise error_of(Status.MISMATCH, f"into has a {kind}, and the saved {record.class_name} does not make one: "
                       f"{error}", {"expected": kind, "found": record.class_name}) from error
