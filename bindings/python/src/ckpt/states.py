"""Objects with a state in what is saved or loaded: torch has its own way for some of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .frameworks import loaded
from .stateful import Parameter, PlainObject, StateObject, objects_in


def states_of(state: Any, team: Any) -> dict[int, Any]:
    """What a save writes for each object in a state, by the object's id."""
    objects = objects_in(state)
    torch = loaded("torch")
    if torch is not None:
        from .torch import states_of as torch_states_of
        return torch_states_of(objects, team)
    return {id(value): value.state_dict() for _, value in objects}


def templates_of(into: Any, called: Mapping[Parameter, Parameter] = MappingProxyType({})) -> dict[int, StateObject]:
    """The objects in `into`, by their ids. `called`: what the checkpoint calls parameters that are called so here."""
    objects = objects_in(into)
    torch = loaded("torch")
    if torch is not None:
        from .torch import templates_of as torch_templates_of
        return torch_templates_of(objects, called)
    return {id(value): PlainObject(value) for _, value in objects}
