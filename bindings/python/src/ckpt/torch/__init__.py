"""What ckpt.save and ckpt.load do with objects of torch. Imported only where a program has imported torch."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from ..stateful import Found, Parameter, PlainObject, StateObject
from .modules import ModuleObject, saved_state_of
from .optimizers import Naming, OptimizerObject, names_in_groups, optimizer_state


def _naming(objects: Found, called: Mapping[Parameter, Parameter] = MappingProxyType({})) -> Naming:
    """What optimizers ask for; it takes some microseconds for each parameter."""
    return Naming(objects if any(isinstance(value, torch.optim.Optimizer) for _, value in objects) else (), called)


def states_of(objects: Found, team: Any) -> dict[int, Any]:
    """What a save writes for each object, by its id. All ranks of the team call this together."""
    naming = _naming(objects)
    groups = names_in_groups(objects, naming, team)
    out: dict[int, Any] = {}
    for path, value in objects:
        if isinstance(value, torch.nn.Module):
            out[id(value)] = saved_state_of(value)
        elif isinstance(value, torch.optim.Optimizer):
            out[id(value)] = optimizer_state(value, naming, groups.get(path))
        else:
            out[id(value)] = value.state_dict()
    return out


def templates_of(objects: Found, called: Mapping[Parameter, Parameter]) -> dict[int, StateObject]:
    """The objects into which a load goes, by their ids. `called`: what the checkpoint calls parameters that are called
    so here. Modules come first: those on the meta device get their memory, which makes the shards that optimizers refer
    to."""
    out: dict[int, StateObject] = {id(value): ModuleObject(value) for _, value in objects
                                   if isinstance(value, torch.nn.Module)}
    naming = _naming(objects, called)
    for _, value in objects:
        if isinstance(value, torch.optim.Optimizer):
            out[id(value)] = OptimizerObject(value, naming)
        elif id(value) not in out:
            out[id(value)] = PlainObject(value)
    return out
