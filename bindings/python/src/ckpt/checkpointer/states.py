"""How what was loaded gets into the caller's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..regions import PerRank


def put_back(state: Any, loaded: Any) -> Any:
    """Puts what was loaded into the caller's state, in place where that can be. Returns it. Objects with a state have
    taken theirs already."""
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
