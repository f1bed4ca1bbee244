"""Values that a load into the caller's own makes anew or fills: dataclasses, named tuples, enums, and what kinds.py
knows. What others may hold (a dataclass, a dict, a random generator) stays the same object.

They are saved as records, with what would make the object (STATE_TREE.md section 5). Without one of the caller's own
they load as what kinds.py makes, or else as ckpt.Record: no class is looked up by its name.
"""

from __future__ import annotations

import copy
import copyreg
import dataclasses
import enum
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

from . import generators
from .enums import Status
from .errors import Error, error_of
from .frameworks import loaded
from .kinds import FUNCTIONS, class_name, made_like, pickled
from .kinds import record_of as record_of_kind
from .regions import PerRank, Regions, Shard
from .trees import Record


def record_of_object(value: Any) -> Record | None:
    """The record of an object; None if it is of another kind."""
    name = class_name(type(value))
    if isinstance(value, enum.Enum):
        return Record(name, {"args": (value.value,)})
    if is_named_tuple(value):
        return Record(name, {"args": tuple(value)})
    if _is_dataclass(value):
        return Record(name, {"state": fields_of(value)})
    record = record_of_kind(value)
    if record is not None and type(attributes := record.items.get("state")) is dict and _is_pytree(value):
        from .jaxes import without_code
        return Record(record.class_name, {**record.items, "state": without_code(attributes)})
    return record


def is_named_tuple(value: Any) -> bool:
    """Whether its class came from collections.namedtuple or typing.NamedTuple."""
    return isinstance(value, tuple) and type(value) is not tuple and hasattr(type(value), "_fields")


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that have a value. Of a pytree of jax only what is data."""
    out = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if hasattr(value, field.name)}
    if not _is_pytree(value):
        return out
    from .jaxes import data_in
    return data_in(value, out)


def _is_pytree(value: Any) -> bool:
    """Whether jax knows what lies in it."""
    jax = loaded("jax")
    return jax is not None and not jax.tree_util.all_leaves([value])


def is_frozen(value: Any) -> bool:
    """Whether it is a dataclass that nobody may change."""
    return _is_dataclass(value) and bool(type(value).__dataclass_params__.frozen)


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, (type, Record, Shard, Regions, PerRank))


def is_object(like: Any) -> bool:
    """Whether it is such an object, of whose class a record can come back."""
    return isinstance(like, enum.Enum) or is_named_tuple(like) or _is_dataclass(like)


def template_of(like: Any) -> dict[str, Any]:
    """The items of the record, to load into. Those of a generator are copies."""
    record = None if generators.is_generator(like) else record_of_object(like)
    return {} if record is None else record.items


def check_fits(like: Any, record: Record, path: str) -> None:
    """Raises MismatchError if a record, whose tensors are not yet read, does not make an object of the class of `like`,
    which is at `path`: before anything changes."""
    mine = record_of_object(like)
    assert mine is not None
    why = ""
    if _is_dataclass(like):
        names = {field.name for field in dataclasses.fields(like)}
        lost = [name for name in record.items.get("state", {}) if name not in names]
        why = f"it has no field {lost[0]!r}" if lost else "" if "state" in record.items else "it has no fields"
    elif is_named_tuple(like):
        count = len(record.items.get("args", ()))
        why = "" if count == len(like) else f"it has {len(like)} fields, not {count}"
    elif isinstance(like, enum.Enum) and not any(isinstance(arg, Record) for arg in record.items.get("args", ())):
        try:
            type(like)(*record.items.get("args", ()))
        except (TypeError, ValueError) as error:
            why = str(error)
    elif record.class_name != mine.class_name or (
            generators.is_generator(like) and not generators.fits(like, record)):
        why = "it is of another class"
        if record.class_name == mine.class_name and generators.is_generator(like):
            why = (f"it draws by {generators.drawn_by(record)}: give a generator that draws by that, or leave this one "
                   "out")
    elif mine.class_name == "builtins.type" and record != mine:
        why = f"it is {mine.items['name']}, not {record.items.get('name')}"
    if why:
        raise _does_not_make(like, record, why, f" at '{path}'")


def takes(like: Any, saved_class: str) -> bool:
    """Whether a record of that class goes into `like`, or a new object of its class, and is no value by itself."""
    if is_object(like) or generators.is_generator(like) or isinstance(like, (type, *FUNCTIONS)):
        return True
    mine = record_of_object(like)
    return mine is not None and (mine.class_name == saved_class or mine.items.keys() == {"state"})


def _does_not_make(like: Any, record: Record, why: object, where: str = "") -> Error:
    kind = class_name(type(like))
    return error_of(Status.MISMATCH, f"into{where} has a {kind}, and the saved {record.class_name} does not make one: "
                    f"{why}", {"expected": kind, "found": record.class_name})


def rebuild(like: Any, made: Any) -> Any:
    """The caller's object with the values of a loaded record, or a new one of its class where nobody can change it.
    `made`: the object of the record where kinds.py makes one, else the record."""
    record = made if type(made) is Record else Record(class_name(type(made)))
    try:
        if isinstance(like, enum.Enum) or is_named_tuple(like):
            return type(like)(*record.items["args"])
        if _is_dataclass(like):
            out = copy.copy(like) if is_frozen(like) else like
            anew = out is not like and _is_pytree(like)  # with dicts of its own: that of the caller stays as it is
            for name, value in record.items["state"].items():
                object.__setattr__(out, name, value if anew else put_back(getattr(out, name, None), value))
            return out
        if isinstance(like, type) or made is like:
            return like
        if type(made) is Record:
            made = like if record.class_name == "builtins.type" else made_like(like, record.items)
        return put_back(like, made)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise _does_not_make(like, record, error) from error


# ---- in place ----


def put_back(state: Any, loaded_value: Any) -> Any:
    """Puts what was loaded into the caller's own, in place where that can be. Returns it, or what stands for it now.
    Objects with a state have taken theirs already."""
    if state is loaded_value:
        return state
    if type(state) is PerRank:
        inside = loaded_value.value if type(loaded_value) is PerRank else loaded_value
        return PerRank(put_back(state.value, inside))
    if isinstance(state, dict) and isinstance(loaded_value, Mapping):
        if isinstance(state, Counter):
            state.clear()
        for key, value in loaded_value.items():
            state[key] = put_back(state[key], value) if key in state else value
        return _with_attributes(state, loaded_value)
    if isinstance(state, list) and isinstance(loaded_value, (list, tuple)):
        state[:] = _each(state, loaded_value)
        return _with_attributes(state, loaded_value)
    if type(state) is tuple and isinstance(loaded_value, tuple) and len(state) == len(loaded_value):
        return tuple(_each(state, loaded_value))
    if is_named_tuple(state) and type(state) is type(loaded_value):
        return state._make(_each(state, loaded_value))
    if type(state) is not type(loaded_value):
        return loaded_value
    return _filled(state, loaded_value)


def _each(state: Any, loaded_value: Any) -> list[Any]:
    same = len(state) == len(loaded_value)
    return [put_back(old, new) for old, new in zip(state, loaded_value)] if same else list(loaded_value)


def _with_attributes(state: Any, made: Any) -> Any:
    if type(state) is type(made) and hasattr(state, "__dict__"):
        for name, value in vars(made).items():
            vars(state)[name] = put_back(vars(state).get(name), value)
    for name in (_slots_of(state) or ()) if type(state) is type(made) else ():
        if hasattr(made, name):
            setattr(state, name, put_back(getattr(state, name, None), getattr(made, name)))
    return state


def _slots_of(value: Any) -> list[str] | None:
    """The names of its __slots__; None if it does not let them be set (a UUID, a Variable of flax)."""
    kind: Any = type(value)
    names: list[str] = copyreg._slotnames(kind)  # type: ignore[attr-defined]
    return names if not names or kind.__setattr__ is object.__setattr__ else None


def _filled(state: Any, made: Any) -> Any:
    """Of the same class: what can be changed is changed."""
    if is_frozen(state):
        return made
    if generators.is_generator(state):
        generators.fill(state, made)
        return state
    if isinstance(state, (set, bytearray, deque)) and getattr(state, "maxlen", 0) == getattr(made, "maxlen", 0):
        state.clear()
        state.update(made) if isinstance(state, set) else state.extend(made)
        return _with_attributes(state, made)
    numpy, torch, jax = loaded("numpy"), loaded("torch"), loaded("jax")
    tensors = tuple(kind for kind in (numpy and numpy.ndarray, torch and torch.Tensor, jax and jax.Array) if kind)
    told = None if isinstance(state, tensors) else pickled(state)
    slots = _slots_of(state)
    only_attributes = told is not None and set(told[2]) == {"state"} and slots is not None and (
        hasattr(state, "__dict__") or bool(slots))
    return _with_attributes(state, made) if only_attributes else made
