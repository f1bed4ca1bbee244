"""Objects with state_dict() and load_state_dict() as parts of a state: modules, optimizers, schedulers, samplers.

A save writes their states in their place. A load fills their own memory where it can, and gives the rest to
load_state_dict(). What torch's modules and optimizers need beyond that is in ckpt.torch.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

from .enums import Status
from .errors import Error, error_of
from .hints import some
from .objects import record_of_object
from .regions import PerRank, Regions, Shard


class OnlyThese(dict[Any, Any]):
    """As a template: keys of the checkpoint that it lacks are not read."""


class AsSaved:
    """In a template: what is saved there is made anew, with the arrays that were saved, and given to the object. New
    arrays are of the kind of `like`, and where it is."""

    def __init__(self, like: Any = None) -> None:
        self.like = like


class Made:
    """In a template: what is saved there, which is made already."""

    def __init__(self, value: Any) -> None:
        self.value = value


class OtherShape:
    """In a template: the saved state of a parameter that has another shape here, so that none of it is of use."""

    def __init__(self, expected: tuple[int, ...], found: tuple[int, ...]) -> None:
        self.expected, self.found = expected, found


class Saved(Protocol):
    """What a checkpoint has at the place of an object."""

    def fits(self, array: Any) -> bool:
        """Whether it is a tensor of the shape and dtype of an array."""

    def top(self) -> Saved:
        """All that the load is of."""

    def child(self, *keys: str | int) -> Saved | None:
        """What it has at these keys; None if it has nothing there."""

    def keys(self) -> list[str | int]:
        """The keys of a dict."""

    def count(self) -> int:
        """How many values a list or tuple has."""

    def shape(self) -> tuple[int, ...] | None:
        """Of a tensor; None for anything else."""

    def value(self) -> Any:
        """All of it, with ckpt.TensorName for tensors."""

    def dtype(self) -> Any:
        """Of a tensor, as the framework of the load names it."""


class StateObject(Protocol):
    """An object in `into`."""

    object: Any
    strict: bool
    """Whether it should have a place for all that is saved there."""

    def template(self, saved: Saved) -> Any:
        """What to load into: a state of the form that is saved there."""

    def apply(self, state: Any) -> None:
        """Takes the state that was loaded."""


def handed_over(own: Any, saved: Saved) -> Any:
    """The template of what an object takes by its own method: its own arrays where what is saved fits them."""
    if type(own) in (dict, OrderedDict, defaultdict):
        if not all(type(key) in (str, int) for key in own):  # which the checkpoint has in a list
            return {key: item if _is_filled(item) else AsSaved(item) for key, item in own.items()}
        children = {key: saved.child(key) for key in saved.keys()}
        return {key: handed_over(own.get(key), child) for key, child in children.items() if child is not None}
    if type(own) in (list, tuple) and len(own) == saved.count():
        children = {place: saved.child(place) for place in range(len(own))}
        return [handed_over(value, child) for value, child in zip(own, children.values()) if child is not None]
    return own if _is_filled(own) or saved.fits(own) else AsSaved(own)


def _is_filled(own: Any) -> bool:
    """Whether a load fills it, or makes another of its class."""
    return isinstance(own, (Regions, Shard, set)) or is_stateful(own) or record_of_object(own) is not None


class PlainObject:
    """Any object with state_dict() and load_state_dict()."""

    strict = False

    def __init__(self, value: Any) -> None:
        self.object = value

    def template(self, saved: Saved) -> Any:
        """Its own state, as far as arrays in it can be filled; the rest is handed over as it was saved."""
        return handed_over(self.object.state_dict(), saved)

    def apply(self, state: Any) -> None:
        """Gives it the state."""
        self.object.load_state_dict(state)


def give(found: StateObject, value: Any, path: str) -> Any:
    """Gives an object what was loaded for it; returns the object. What its own method raises is told with its place."""
    try:
        found.apply(value)
    except Error:
        raise
    except Exception as error:
        kind = type(found.object).__name__
        raise error_of(Status.MISMATCH, f"'{path}': {kind}.load_state_dict() does not take what was saved: "
                       f"{type(error).__name__}: {error}", {"path": path}) from error
    return found.object


def changed_already(error: Error, paths: Iterable[str]) -> Error:
    """The error of a load that has changed these paths, and goes no further."""
    parts = dict.fromkeys(path.partition("/")[0] for path in paths if path)
    return error if not parts else error_of(error.status, f"{error.message}; by then the load had changed "
                                            f"{some(parts)}: load them again before they are used", error.details)


Found: TypeAlias = list[tuple[tuple[str, ...], Any]]
_Kind: TypeAlias = Literal["leaf", "mapping", "sequence", "dataclass", "object"]
_KINDS: dict[type, _Kind] = {}


def is_stateful(value: Any) -> bool:
    """Whether it gives and takes its state."""
    return _kind(value) == "object"


def _kind(value: Any) -> _Kind:
    return _KINDS.get(type(value)) or _KINDS.setdefault(type(value), _kind_of(type(value)))


def _kind_of(kind: type) -> _Kind:
    if issubclass(kind, (PerRank, type)):
        return "leaf"  # what is one rank's own is written by that rank alone, as any object; classes are no objects
    if all(callable(getattr(kind, name, None)) for name in ("state_dict", "load_state_dict")):
        return "object"
    if issubclass(kind, Mapping):
        return "mapping"
    if issubclass(kind, (list, tuple)):
        return "sequence"
    return "dataclass" if dataclasses.is_dataclass(kind) else "leaf"


def objects_in(state: Any) -> Found:
    """The objects with a state, and their paths; without those in a PerRank."""
    out: Found = []
    _collect(state, (), out, set())
    return out


MOST_LEVELS = 200  # of a tree: what lies deeper is refused where it is written


def _collect(value: Any, path: tuple[str, ...], out: Found, seen: set[int]) -> None:
    kind = _kind(value)
    if kind == "object":
        out.append((path, value))
    if kind in ("object", "leaf") or id(value) in seen or len(path) > MOST_LEVELS:
        return
    seen.add(id(value))
    pairs: Iterable[tuple[Any, Any]]
    if kind == "mapping":
        pairs = value.items()
    elif kind == "sequence":
        pairs = enumerate(value)
    else:
        pairs = [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    for key, child in pairs:
        if _KINDS.get(type(child)) != "leaf":
            _collect(child, (*path, str(key)), out, seen)


Parameter: TypeAlias = tuple[str, str]  # the path of its module, "model.0", and its name there
