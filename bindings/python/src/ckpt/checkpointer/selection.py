"""Loads a checkpoint into a trainer's state: all of it, or what is chosen, under other names, past other shapes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from .. import _core
from ..adapt import PER_RANK, PerRank
from ..enums import Status
from ..errors import error_of
from ..frameworks import FrameworkName
from ..hints import near, some
from ..loading import _arrays_in, load
from ..opening import Checkpoint, LazyTensor, _LazyState
from ..trees import Record
from .states import is_module, is_stateful, put_back, values_of

Rename: TypeAlias = "Mapping[str, str] | Callable[[str], str] | None"


@dataclass
class Choice:
    """What of a checkpoint a restore wants."""

    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    rename: Rename = None
    strict: bool = True
    skip_shapes: bool = False
    convert: bool = False

    @property
    def everything(self) -> bool:
        """Whether all of the state is restored, as it was saved."""
        return self.strict and not (self.only or self.without or self.rename or self.skip_shapes)

    def wants(self, path: str) -> bool:
        """Whether a value of the state is wanted. A pattern names a value, or all below it."""
        def matches(patterns: tuple[str, ...]) -> bool:
            return any(fnmatchcase(path, one) or fnmatchcase(path, one + "/*") for one in patterns)
        return (not self.only or matches(self.only)) and not matches(self.without)

    def wants_below(self, path: str) -> bool:
        """Whether anything of a part of the state may be wanted."""
        if any(fnmatchcase(path, one) for one in self.without):
            return False
        return not self.only or self.wants(path) or any(fnmatchcase(path, one.split("/")[0]) for one in self.only)

    def name(self, path: str) -> str:
        """What the state calls what the checkpoint calls `path`."""
        if self.rename is None:
            return path
        if callable(self.rename):
            return self.rename(path)
        for old, new in self.rename.items():
            if path == old or (path.startswith(old) and path[len(old)] in "./"):
                return new + path[len(old):]
        return path


@dataclass
class Found:
    """What a restore left out: paths in the state, or in the checkpoint."""

    missing: list[str] = field(default_factory=list)  # wanted, and not in the checkpoint
    unexpected: list[str] = field(default_factory=list)  # of a module, and not in the state
    other_shape: list[str] = field(default_factory=list)  # with the shapes


def patterns(given: str | Iterable[str]) -> tuple[str, ...]:
    """only= or without= as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given)


def restore(reader: _core.Reader, state: Any, choice: Choice, rank: int,
            options: Mapping[str, Any]) -> tuple[Any, Found]:
    """Loads into `state`, and returns it, or a new state if it is None. `rank`: whose ckpt.PerRank values it takes."""
    saved = None if state is None else _lazily(reader, rank)
    if type(state) is not dict or not isinstance(saved, Mapping):
        if not choice.everything:
            raise ValueError("only=, without=, rename=, strict= and on_shape_mismatch= need a state that is a dict")
        return _whole(reader, state, choice, rank, options), Found()
    if choice.everything:
        return _parts(reader, state, saved, choice, rank, options), Found()
    chosen = _Chosen(state, saved, choice)
    chosen.check()
    chosen.load(reader, rank, options)
    return state, chosen.found


def _lazily(reader: _core.Reader, rank: int) -> Any:
    """What the checkpoint has, with a LazyTensor for each tensor."""
    with reader.tree(rank=rank) as tree:
        return _LazyState(tree, Checkpoint(reader, "numpy")).read()


def _whole(reader: _core.Reader, state: Any, choice: Choice, rank: int, options: Mapping[str, Any]) -> Any:
    into = None if state is None else values_of(state)
    loaded = load(reader, into=into, convert=choice.convert, rank=rank, options=options)
    return loaded if state is None else put_back(state, loaded)


def _parts(reader: _core.Reader, state: dict[Any, Any], saved: Mapping[Any, Any], choice: Choice, rank: int,
           options: Mapping[str, Any]) -> Any:
    """Loads the parts that the state has: all at once, or one by one if the checkpoint has more of them."""
    for key in state:
        if key not in saved:
            raise error_of(Status.NOT_FOUND, f"the checkpoint has no '{key}', which the state has; it has "
                           f"{some(map(str, saved))}{near(str(key), map(str, saved))}", {"path": str(key)})
    if len(saved) == len(state):
        return _whole(reader, state, choice, rank, options)
    values = values_of(state)
    framework = framework_of_state(values)
    loaded = {key: load(reader, at=(key,), into=value, framework=framework, convert=choice.convert, rank=rank,
                        options=options) for key, value in values.items()}
    return put_back(state, loaded)


def framework_of_state(values: Any) -> FrameworkName | None:
    """torch, if any array is torch's: an optimizer without state has none of its own."""
    from ..frameworks import framework_name_of
    names = {framework_name_of(array) for _, array in _arrays_in(values, "", set())}
    return "torch" if "torch" in names else None


class _Chosen:
    """A restore of some of a state. The state and the checkpoint are walked together, by the checkpoint's structure."""

    def __init__(self, state: dict[Any, Any], saved: Mapping[Any, Any], choice: Choice) -> None:
        self._state, self._choice = state, choice
        self.found = Found()
        self._values = values_of(state)
        self._framework = framework_of_state(self._values)
        self._used: set[str] = set()
        self._into: dict[Any, Any] = {}  # by the checkpoint's keys
        self._saved = saved
        for key, node in saved.items():
            name = self._key("", key)
            if name in state and choice.wants_below(str(name)):
                self._into[key] = self._walk(self._values[name], node, str(name), str(key), is_module(state[name]))
        here = {self._key("", key) for key in saved}
        self.found.missing += [str(key) for key in state if key not in here and choice.wants(str(key))]
        for path, _ in _arrays_in({key: value for key, value in self._values.items() if key in here}, "", set()):
            if path not in self._used and choice.wants(path) and not self._is_other_shape(path):
                self.found.missing.append(path)

    def _is_other_shape(self, path: str) -> bool:
        return any(text.startswith(path + ": ") for text in self.found.other_shape)

    def _key(self, saved_path: str, key: Any) -> Any:
        """The state's name of an entry: a new name stays in the same dict."""
        path = f"{saved_path}/{key}" if saved_path else str(key)
        new = self._choice.name(path)
        if new == path:
            return key
        if new.rpartition("/")[0] != self._choice.name(saved_path) and new.rpartition("/")[0] != saved_path:
            raise ValueError(f"rename: {path!r} becomes {new!r}, which is in another dict; only the last name changes")
        return new.rpartition("/")[2]

    def _walk(self, own: Any, node: Any, path: str, saved_path: str, module: bool) -> Any:
        """What to load into, with the checkpoint's structure."""
        if isinstance(node, Record) and node.class_name == PER_RANK:
            node, own = next(iter(node.items.values())), own.value if isinstance(own, PerRank) else own
        if isinstance(node, LazyTensor):
            return self._tensor(own, node, path, module)
        if isinstance(node, Mapping):
            out = {}
            for key, child in node.items():
                name = self._key(saved_path, key)
                mine = own.get(name) if isinstance(own, Mapping) else None
                out[key] = self._walk(mine, child, f"{path}/{name}", f"{saved_path}/{key}", module)
            return out
        if isinstance(node, (list, tuple)):
            mine = own if isinstance(own, (list, tuple)) and len(own) == len(node) else [None] * len(node)
            return type(node)(self._walk(one, child, f"{path}/{place}", f"{saved_path}/{place}", module)
                              for place, (one, child) in enumerate(zip(mine, node))) if type(node) in (
                                  list, tuple) else None
        return None

    def _tensor(self, own: Any, node: LazyTensor, path: str, module: bool) -> Any:
        shape = getattr(own, "shape", None)
        if not self._choice.wants(path):
            return None
        if shape is None:
            if module:
                self.found.unexpected.append(path)
            return None
        if tuple(shape) != node.shape:
            self.found.other_shape.append(f"{path}: {tuple(shape)} in the state, {node.shape} in the checkpoint")
            return None
        self._used.add(path)
        return own

    def check(self) -> None:
        """Raises what the policies do not allow, before anything is loaded."""
        if self.found.other_shape and not self._choice.skip_shapes:
            raise error_of(Status.MISMATCH, f"{len(self.found.other_shape)} tensors have another shape: "
                           f"{some(self.found.other_shape)}; on_shape_mismatch=\"skip\" leaves them as they are")
        if self._choice.strict and (self.found.missing or self.found.unexpected):
            raise error_of(Status.MISMATCH, f"the checkpoint lacks {some(self.found.missing) or 'nothing'} of the "
                           f"state, and the state {some(self.found.unexpected) or 'nothing'} of the checkpoint; "
                           "strict=False restores the rest")

    def load(self, reader: _core.Reader, rank: int, options: Mapping[str, Any]) -> None:
        """Loads the parts that are wanted, and puts them into the state."""
        for key, into in self._into.items():
            name = self._key("", key)
            got = load(reader, at=(key,), into=into, framework=self._framework, convert=self._choice.convert,
                       rank=rank, options=options)
            own = self._state[name]
            new = self._merged(self._values[name], got, str(name), str(key), is_module(own))
            self._state[name] = put_back(own, new) if is_stateful(own) else _keep_identity(own, new)

    def _merged(self, own: Any, got: Any, path: str, saved_path: str, module: bool) -> Any:
        """The state's own value with what was loaded in its place."""
        if isinstance(own, PerRank):
            return PerRank(self._merged(own.value, got, path, saved_path, module))
        if path in self._used:
            return got
        if getattr(own, "shape", None) is not None:
            return own  # missing, not wanted, or of another shape
        if isinstance(own, Mapping) and isinstance(got, Mapping):
            out: Any = copy.copy(own)
            for key, value in got.items():
                name = self._key(saved_path, key)
                below = f"{path}/{name}"
                if name in own:
                    out[name] = self._merged(own[name], value, below, f"{saved_path}/{key}", module)
                elif not module and self._choice.wants(below):
                    out[name] = value
            return out
        if type(own) in (list, tuple) and type(got) is type(own) and len(own) == len(got):
            return type(own)(self._merged(mine, value, f"{path}/{place}", f"{saved_path}/{place}", module)
                             for place, (mine, value) in enumerate(zip(own, got)))
        return got if self._choice.wants(path) else own


def _keep_identity(own: Any, new: Any) -> Any:
    """The caller's dict or list with the new contents."""
    if type(own) is dict:
        for key, value in new.items():
            own[key] = put_back(own[key], value) if is_stateful(own.get(key)) else value
        return own
    if type(own) is list:
        own[:] = new
        return own
    return new
