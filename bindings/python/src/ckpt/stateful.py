"""Objects with state_dict() and load_state_dict() as parts of a state: modules, optimizers, schedulers, samplers.

A save writes their states in their place. A load fills their own memory where it can, and gives the rest to
load_state_dict(). What torch's modules and optimizers need beyond that is in ckpt.torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias

from .frameworks import loaded
from .regions import PerRank


class OnlyThese(dict[Any, Any]):
    """As a template: keys of the checkpoint that it lacks are not read."""


class Saved(Protocol):
    """What a checkpoint has at the place of an object."""

    def child(self, *keys: str | int) -> Saved | None:
        """What it has at these keys; None if it has nothing there."""

    def keys(self) -> list[str | int]:
        """The keys of a dict."""

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


class PlainObject:
    """Any object with state_dict() and load_state_dict()."""

    strict = False

    def __init__(self, value: Any) -> None:
        self.object = value

    def template(self, saved: Saved) -> Any:
        """Its own state: arrays in it are filled."""
        return self.object.state_dict()

    def apply(self, state: Any) -> None:
        """Gives it the state."""
        self.object.load_state_dict(state)


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


def _collect(value: Any, path: tuple[str, ...], out: Found, seen: set[int]) -> None:
    kind = _kind(value)
    if kind == "object":
        out.append((path, value))
    if kind in ("object", "leaf") or id(value) in seen:
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


def states_of(state: Any, team: Any) -> dict[int, Any]:
    """What a save writes for each object in a state, by the object's id."""
    objects = objects_in(state)
    torch = loaded("torch")
    if torch is not None:
        from .torch import states_of as torch_states_of
        return torch_states_of(objects, team)
    return {id(value): value.state_dict() for _, value in objects}


Parameter: TypeAlias = tuple[str, str]  # the path of its module, "model.0", and its name there


def templates_of(into: Any, called: Mapping[Parameter, Parameter] = MappingProxyType({})) -> dict[int, StateObject]:
    """The objects in `into`, by their ids. `called`: what the checkpoint calls parameters that are called so here."""
    objects = objects_in(into)
    torch = loaded("torch")
    if torch is not None:
        from .torch import templates_of as torch_templates_of
        return torch_templates_of(objects, called)
    return {id(value): PlainObject(value) for _, value in objects}
