"""One name of a checkpoint for several of a state: the tree that is read has the entry under all of them. Optimizers
know parameters by their names, so the state of one is copied with it, as OLMo does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, TypeAlias

from ..adapt import TRANSPARENT
from ..errors import value_error
from ..regions import PER_RANK
from ..trees import Record

Names: TypeAlias = Callable[[str], Sequence[str]]  # of the state, for a path in the checkpoint


class Copies:
    """Makes the copies under all but the first of the new names, which is a renaming."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._parameters: dict[str, list[str]] = {}  # further names, by how an optimizer may call what was copied

    def of(self, value: Any) -> Any:
        """A state with its copies."""
        copied = self._copied(value, "")
        return self._optimizers(copied) if self._parameters else copied

    def _copied(self, value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return dict(self._entries(value, path))
        if isinstance(value, Record):
            inner = list(value.items) if value.class_name == PER_RANK else [TRANSPARENT.get(value.class_name)]
            return Record(value.class_name, {key: self._copied(child, path) if key in inner else child
                                             for key, child in value.items.items()})
        if type(value) in (list, tuple):
            return type(value)(self._copied(child, _below(path, place)) for place, child in enumerate(value))
        return value

    def _entries(self, value: dict[Any, Any], path: str) -> Iterator[tuple[Any, Any]]:
        for key, child in value.items():
            here = _below(path, key)
            made = self._copied(child, here)
            yield key, made
            for new in self._names(here)[1:]:
                parent, _, name = new.rpartition("/")
                if name == str(key) and len(self._names(path)) > 1:
                    continue  # what holds it was copied
                if parent not in (path, *self._names(path)):
                    raise value_error(f"rename: {here!r} becomes {new!r}: only the last name may change")
                if name in value:
                    raise value_error(f"rename: {here!r} becomes {new!r}, which the checkpoint has, too")
                yield name, made
                for place in ("", path.replace("/", ".") + "."):  # of one module, and of several
                    self._parameters.setdefault(f"{place}{key}", []).append(f"{place}{name}")

    def _optimizers(self, value: Any) -> Any:
        if isinstance(value, dict):
            if isinstance(value.get("state"), dict) and isinstance(value.get("param_groups"), list):
                return self._optimizer(value)
            return {key: self._optimizers(child) for key, child in value.items()}
        if type(value) in (list, tuple):
            return type(value)(map(self._optimizers, value))
        return value

    def _optimizer(self, value: dict[Any, Any]) -> dict[Any, Any]:
        state, groups = dict(value["state"]), []
        numbers = count(1 + max((number for group in value["param_groups"] for number in group["params"]
                                 if isinstance(number, int)), default=-1))
        for group in value["param_groups"]:
            pairs: list[tuple[Any, Any]] = []
            for name, parameter in zip(group.get("param_names", group["params"]), group["params"]):
                pairs.append((name, parameter))
                for new in self._parameters.get(name, ()):
                    pairs.append((new, new if name == parameter else next(numbers)))
                    if parameter in state:
                        state[pairs[-1][1]] = state[parameter]
            named = {"param_names": [name for name, _ in pairs]} if "param_names" in group else {}
            groups.append({**group, **named, "params": [parameter for _, parameter in pairs]})
        return {**value, "state": state, "param_groups": groups}


def _below(path: str, key: Any) -> str:
    return f"{path}/{key}" if path else str(key)
