"""Objects with state_dict() in a state: what stands for them in a save, and how they take what was loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..adapt import PerRank


def is_stateful(value: Any) -> bool:
    """Whether it gives and takes its state, as modules, optimizers, schedulers and data loaders do."""
    return not isinstance(value, type) and callable(getattr(value, "state_dict", None)) and callable(
        getattr(value, "load_state_dict", None))


def is_module(value: Any) -> bool:
    """Whether its load_state_dict() knows `strict`, as torch's modules do."""
    return is_stateful(value) and any(base.__module__ == "torch.nn.modules.module" for base in type(value).__mro__)


def values_of(state: Any) -> Any:
    """The state with the state_dict() of each object in its place."""
    if is_stateful(state):
        return state.state_dict()
    if type(state) is dict:
        return {key: values_of(value) for key, value in state.items()}
    if type(state) in (list, tuple):
        return type(state)(values_of(value) for value in state)
    if type(state) is PerRank:
        return PerRank(values_of(state.value))
    return state


def put_back(state: Any, loaded: Any) -> Any:
    """Puts what was loaded into the caller's state, in place where that can be. Returns it."""
    if is_stateful(state):
        state.load_state_dict(loaded)
        return state
    if type(state) is PerRank:
        return PerRank(put_back(state.value, loaded.value if type(loaded) is PerRank else loaded))
    if type(state) is dict and isinstance(loaded, Mapping):
        for key, value in loaded.items():
            state[key] = put_back(state[key], value) if key in state else value
        return state
    if type(state) is list and isinstance(loaded, (list, tuple)):
        same = len(state) == len(loaded)
        state[:] = [put_back(old, new) for old, new in zip(state, loaded)] if same else loaded
        return state
    if type(state) is tuple and isinstance(loaded, tuple) and len(state) == len(loaded):
        return tuple(put_back(old, new) for old, new in zip(state, loaded))
    return loaded
