"""Loads a checkpoint into a trainer's state: all of it, or what is chosen, under other names, past other shapes."""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from .. import _core
from .._core import Tree
from ..adapt import TRANSPARENT, is_filled_whole
from ..arguments import Names, Rename
from ..enums import Status
from ..errors import Error, error_of, type_error, value_error
from ..frameworks import FrameworkName, framework_name_of, framework_of, is_array, is_key
from ..hints import near, some
from ..loading import load_from
from ..missing import arrays_in, warn_missing
from ..objects import is_frozen, put_back, record_of_object
from ..opening import Checkpoint, LazyTensor, _LazyState
from ..regions import PER_RANK, PerRank, Whose
from ..progress import Progress
from ..saved import AnyReader, SavedNode, descend, tree_of
from ..stateful import (MOST_LEVELS, AsSaved, Made, OnlyThese, OtherShape, Parameter, PlainObject, StateObject,
                        changed_already, give, is_stateful)
from ..sources import FileReader
from ..states import templates_of
from ..tied import memory_key
from ..trees import Record, from_native, to_native
from .copies import Copies

_Place: TypeAlias = tuple[str, tuple[Any, ...], bool]  # path in the state, keys in the checkpoint, whether in a module


@dataclass
class Choice:
    """What of a checkpoint a restore wants."""

    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    rename: Rename = None
    strict: bool = True
    skip_shapes: bool = False
    convert: bool = False
    at: tuple[str | int, ...] = ()  # where in the checkpoint the state lies, from which paths begin
    otherwise: str = "strict=False"  # what a caller says who wants the rest

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
        """What the state calls what the checkpoint calls `path`; of several names the first."""
        return self.names(path)[0]

    def names(self, path: str) -> Sequence[str]:
        """All that the state calls it."""
        if self.rename is None:
            return (path,)
        if callable(self.rename):
            return _several(self.rename(path), path)
        for old, new in self.rename.items():
            if path == old or (path.startswith(old) and path[len(old)] in "./"):
                return [one + path[len(old):] for one in _several(new, old)]
        return (path,)

    def tree(self, reader: AnyReader, whose: Whose | None) -> Tree:
        """What the checkpoint has, with what has several names under all of them."""
        tree = tree_of(reader, whose)
        if self.rename is None or not (callable(self.rename) or any(not isinstance(new, str)
                                                                    for new in self.rename.values())):
            return tree
        with tree:
            return from_native(Copies(self._names_of_all).of(to_native(tree)))

    def _names_of_all(self, path: str) -> Sequence[str]:
        """The same of a path from the root."""
        prefix = "".join(f"{key}/" for key in self.at)
        return [prefix + name for name in self.names(path[len(prefix):])] if path.startswith(prefix) else (path,)


def check_matches(choice: Choice, saved: Iterable[tuple[str, str]], own: Iterable[str], unseen: Iterable[str]) -> None:
    """NOT_FOUND for a pattern that matches nothing, which a misspelt one does. `saved`: paths in the checkpoint, each
    also as the state calls it; `own`: paths in the state; `unseen`: what of the state was not looked into."""
    pairs, unseen = list(saved), [path + "/" for path in unseen]
    known = dict.fromkeys([*own, *(new for _, new in pairs)])
    for name, given in (("only", choice.only), ("without", choice.without)):
        for one in given:
            if not any(fnmatchcase(path, one) for path in known) and not any(map(one.startswith, unseen)):
                raise error_of(Status.NOT_FOUND, f"{name}: nothing in the state or the checkpoint has a path that "
                               f"{one!r} fits{_there(one, list(known))}", {"found": one})
    for old, new in choice.rename.items() if isinstance(choice.rename, Mapping) else ():
        names = (old, *_several(new, old))  # what a run saves after a restore has the new ones
        if not any(path == one or path.startswith((one + "/", one + ".")) for one in names for pair in pairs
                   for path in pair):
            raise error_of(Status.NOT_FOUND, f"rename: the checkpoint has nothing that is called {old!r}"
                           f"{_there(old, [path for path, _ in pairs])}", {"found": old})


def _there(name: str, paths: list[str]) -> str:
    top = [path for path in paths if "/" not in path]
    return f"; there are {some(top)}{near(name.rstrip('*').rstrip('/'), paths[:2000])}" if top else ""


def _several(names: Names, path: str) -> Sequence[str]:
    if not names:
        raise value_error(f"rename: {path!r} has no new name; without= leaves it out")
    return (names,) if isinstance(names, str) else names


def skips_shapes(on_shape_mismatch: str) -> bool:
    """What on_shape_mismatch= says."""
    if on_shape_mismatch not in ("error", "skip"):
        raise value_error(f"on_shape_mismatch: expected 'error' or 'skip', found {on_shape_mismatch!r}")
    return on_shape_mismatch == "skip"


@dataclass
class Found:
    """What a restore left out: paths in the state, or in the checkpoint."""

    missing: list[str] = field(default_factory=list)  # wanted, and not in the checkpoint
    unexpected: list[str] = field(default_factory=list)  # of a module, and not in the state
    other_shape: list[str] = field(default_factory=list)  # with the shapes


Common: TypeAlias = Callable[[list[str]], list[str]]  # of paths that a rank does not expect, those that none does


def restore(reader: _core.Reader, state: Any, choice: Choice, whose: Whose, options: Mapping[str, Any],
            common: Common) -> tuple[Any, Found]:
    """Loads into `state`, and returns it, or a new state if it is None. `whose`: which ckpt.PerRank values it takes."""
    saved = None if state is None else _lazily(reader, choice, whose)
    if type(state) is not dict or not isinstance(saved, Mapping):
        if not choice.everything:
            raise value_error("only=, without=, rename=, strict= and on_shape_mismatch= need a state that is a dict")
        return _everything(reader, state, state, choice, whose, options, common), Found()
    if choice.everything:
        _check_parts(state, saved)
        return _everything(reader, OnlyThese(state), state, choice, whose, options, common), Found()
    chosen = _Chosen(reader, state, saved, choice, whose)
    chosen.check(common)
    chosen.load(options)
    return state, chosen.found


def _lazily(reader: AnyReader, choice: Choice, whose: Whose | None) -> Any:
    """What the checkpoint has, with a LazyTensor for each tensor."""
    with choice.tree(reader, whose) as tree:
        return _LazyRecords(tree, Checkpoint(reader, "numpy")).read(descend(tree, choice.at, whose))


class _LazyRecords(_LazyState):
    """Keeps the record of an array whose elements no tensor has: the tensor in it has another shape."""

    def record(self, class_name: str, index: int, like: Any) -> Any:
        items = self.tree.node(index).child_count
        if class_name == "numpy.ndarray" and items > 1:
            return Record(class_name, self.entries(index, like))
        return super().record(class_name, index, like)


def _check_parts(state: dict[Any, Any], saved: Mapping[Any, Any]) -> None:
    for key in state:
        if key not in saved:
            raise error_of(Status.NOT_FOUND, f"the checkpoint has no '{key}', which the state has; it has "
                           f"{some(map(str, saved))}{near(str(key), map(str, saved))}", {"path": str(key)})


def _everything(reader: _core.Reader, into: Any, state: Any, choice: Choice, whose: Whose, options: Mapping[str, Any],
                common: Common) -> Any:
    """Loads the parts that the state has."""
    def before(unexpected: list[str]) -> None:
        if left := common(unexpected):
            raise _contradiction([], left)

    check_takes(state)
    loaded = load_from(reader, into, (), framework_of_state(state), choice.convert, whose, None, options, before=before)
    return loaded if state is None else put_back(state, loaded)


def check_takes(state: Any) -> None:
    """Raises TypeError for a state that would not take the new arrays of jax."""
    if (isinstance(state, tuple) or is_array(state) or is_key(state) or is_frozen(state)) and any(
            is_key(array) or framework_name_of(array) == "jax" for _, array in arrays_in(state, "", set())):
        raise type_error("state: jax arrays never change, so restore() puts new ones into what holds them, and a "
                         f"{type(state).__name__} takes none: give a dict that has it, {{\"state\": state}}")


def framework_of_state(values: Any) -> FrameworkName | None:
    """torch, if any array is torch's."""
    names = {framework_name_of(array) for _, array in arrays_in(values, "", set())}
    return "torch" if "torch" in names else None


def _contradiction(missing: list[str], unexpected: list[str], otherwise: str = "strict=False") -> Exception:
    return error_of(Status.MISMATCH, f"the checkpoint lacks {some(missing) or 'nothing'} of the state, and the state "
                    f"{some(unexpected) or 'nothing'} of the checkpoint; {otherwise} restores the rest")


def _saved_places(node: Any, there: str, here: str, name_of: Callable[[str, Any], Any]) -> Iterator[tuple[str, str]]:
    """The paths in the checkpoint, and how the state calls them."""
    if isinstance(node, Record):
        inner = next(iter(node.items), None) if node.class_name == PER_RANK else TRANSPARENT.get(node.class_name)
        if inner in node.items:
            yield from _saved_places(node.items[inner], there, here, name_of)
            return
    if there:
        yield there, here
    for key, child in (node.items() if isinstance(node, Mapping) else
                       enumerate(node) if isinstance(node, (list, tuple)) else ()):
        name = name_of(there, key) if isinstance(node, Mapping) else key
        yield from _saved_places(child, f"{there}/{key}" if there else str(key),
                                 f"{here}/{name}" if here else str(name), name_of)


def load_chosen(reader: AnyReader, into: Any, choice: Choice, framework: FrameworkName | None, whose: Whose | None,
                progress: Progress, options: Mapping[str, int | str]) -> Any:
    """ckpt.load with only=, without=, rename= or on_shape_mismatch=."""
    if isinstance(reader, FileReader):
        raise value_error("rename= and on_shape_mismatch= are for checkpoints; option map renames what a file has")
    exact, saved = options.get("strict") == "exact", _lazily(reader, choice, whose)
    options = {**options, "strict": "missing"}
    if into is None and (choice.only or choice.without) and not choice.rename:
        check_matches(choice, _saved_places(saved, "", "", lambda there, key: key), (), ())
        wanted = _wanted(saved, choice, "")
        return load_from(reader, wanted, choice.at, framework, choice.convert, whose, progress, options)
    if type(into) is not dict or not isinstance(saved, Mapping):
        raise value_error("only=, without=, rename= and on_shape_mismatch= need an into= that is a dict")
    chosen = _Chosen(reader, into, saved, choice, whose)
    chosen.check(lambda unexpected: unexpected if exact else [])
    if chosen.found.missing:
        warn_missing(reader, chosen.found.missing)
    chosen.load(options, framework, progress)
    return into


def _wanted(saved: Any, choice: Choice, path: str) -> Any:
    """What to load of what a checkpoint has, where there is no state: None for all of it, or _SKIP."""
    if not isinstance(saved, (Mapping, list, tuple)) or not saved:
        return None if choice.wants(path) else _SKIP
    pairs = saved.items() if isinstance(saved, Mapping) else enumerate(saved)
    parts = {key: _wanted(child, choice, f"{path}/{key}" if path else str(key)) for key, child in pairs}
    if all(part is _SKIP for part in parts.values()):
        return _SKIP
    if all(part is None for part in parts.values()) or not all(type(key) in (str, int) for key in parts):
        return None  # one with keys of other kinds is one value
    if isinstance(saved, Mapping):
        return OnlyThese({key: part for key, part in parts.items() if part is not _SKIP})
    return [Made(None) if part is _SKIP else part for part in parts.values()]


_SKIP = object()  # what a load leaves out


class _Chosen:
    """A restore of some of a state. The state and the checkpoint are walked together, by the checkpoint's structure."""

    def __init__(self, reader: AnyReader, state: dict[Any, Any], saved: Mapping[Any, Any], choice: Choice,
                 whose: Whose | None) -> None:
        self._reader, self._state, self._saved, self._choice, self._whose = reader, state, saved, choice, whose
        self.found = Found()
        self._used: set[str] = set()
        self._done: list[str] = []  # parts of the state that were loaded
        self._memory: set[object] = {None}  # of what is read
        self._objects = templates_of(state, dict(self._renamed_parameters(state, saved) if choice.rename else ()))
        self._given: dict[int, tuple[StateObject, Any]] = {}  # objects of the state and their templates, by their ids
        torch = any(found.strict for found in self._objects.values())
        self._framework = "torch" if torch else framework_of_state(state)
        self._into = OnlyThese()  # by the checkpoint's keys
        with choice.tree(reader, whose) as tree:
            top = descend(tree, choice.at, whose)
            self._root = SavedNode(reader, tree, framework_of(self._framework or "numpy"), top, whose, top)
            for key, node in saved.items():
                name = self._key("", key)
                if name in state and choice.wants_below(str(name)):
                    into = self._walk(state[name], node, (str(name), (key,), False))
                    self._into[key] = None if into is _SKIP else into
        here = {self._key("", key) for key in saved}
        self.found.missing += [str(key) for key in state if key not in here and choice.wants(str(key))]
        for path, array in self._paths({key: value for key, value in state.items() if key in here}, ""):
            tied = (known := memory_key(array)) is not None and known in self._memory
            if path not in self._used and choice.wants(path) and not tied and not self._is_other_shape(path):
                self.found.missing.append(path)
        if choice.only or choice.without or isinstance(choice.rename, Mapping):
            own = dict(self._places(state, ""))
            check_matches(choice, _saved_places(saved, "", "", self._key), own, (path for path, seen in own.items()
                                                                                 if not seen))

    def _places(self, values: Any, path: str) -> Iterator[tuple[str, bool]]:
        """The paths in the state, and whether all that lies below was looked at."""
        if isinstance(values, PerRank):
            yield from self._places(values.value, path)
            return
        values = self._given[id(values)][1] if id(values) in self._given else values
        if path:
            yield path, not is_stateful(values)
        if isinstance(values, (Mapping, list, tuple)) and path.count("/") < MOST_LEVELS:
            for key, child in values.items() if isinstance(values, Mapping) else enumerate(values):
                yield from self._places(child, f"{path}/{key}" if path else str(key))

    def _renamed_parameters(self, state: Any, node: Any, here: tuple[str, ...] = (), there: tuple[str, ...] = ()) -> (
            Iterator[tuple[Parameter, Parameter]]):
        """What the checkpoint calls the parameters of modules of the state, where `rename` says so: optimizers name
        them, too."""
        if isinstance(node, Mapping):
            for old in node:
                name = self._key("/".join(there), old)
                if is_stateful(state):
                    yield (".".join(here), str(name)), (".".join(there), str(old))
                elif isinstance(state, Mapping) and name in state:
                    yield from self._renamed_parameters(state[name], node[old], (*here, str(name)), (*there, str(old)))
        elif isinstance(node, (list, tuple)) and isinstance(state, (list, tuple)):
            for place, (one, child) in enumerate(zip(state, node)):
                yield from self._renamed_parameters(one, child, (*here, str(place)), (*there, str(place)))

    def _paths(self, values: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        """All arrays of the state, those in objects too, by their paths."""
        for path, found in arrays_in(values, prefix, set()):
            if id(found) in self._given:
                yield from self._paths(self._given[id(found)][1], path)
            else:
                yield path, found

    def _is_other_shape(self, path: str) -> bool:
        return any(text.startswith((path + ": ", path + "/")) for text in self.found.other_shape)

    def _key(self, saved_path: str, key: Any) -> Any:
        """The state's name of an entry: a new name stays in the same dict."""
        path = f"{saved_path}/{key}" if saved_path else str(key)
        new = self._choice.name(path)
        if new == path:
            return key
        if new.rpartition("/")[0] != self._choice.name(saved_path) and new.rpartition("/")[0] != saved_path:
            raise value_error(f"rename: {path!r} becomes {new!r}, which is in another dict; only the last name changes")
        return new.rpartition("/")[2]

    def _walk(self, own: Any, node: Any, at: _Place) -> Any:
        """What to load into, with the checkpoint's structure."""
        path, keys, strict = at
        if isinstance(own, OtherShape):
            self._drop(own, node, path)
            return _SKIP
        if isinstance(own, AsSaved):
            return own if self._choice.wants(path) else _SKIP
        if isinstance(node, Record) and node.class_name == PER_RANK:
            node, own = next(iter(node.items.values())), own.value if isinstance(own, PerRank) else own
        if isinstance(node, Record) and (is_filled_whole(own) or (
                node.class_name == "builtins.dict" and isinstance(own, Mapping))):
            return self._whole(own, path)
        packed = isinstance(node, Record) and node.class_name == "numpy.ndarray" and "dtype" in node.items
        number = isinstance(node, (bool, int, float)) and framework_name_of(own) == "jax"
        if packed or number or is_key(own):
            return self._whole(own, path)
        if isinstance(node, Record) and (inner := TRANSPARENT.get(node.class_name)) in node.items:
            return self._walk(own, node.items[inner], at)
        if isinstance(node, LazyTensor):
            return self._tensor(own, node, path, strict)
        plain = type(node) in (dict, OrderedDict, defaultdict)
        if plain and is_stateful(own):
            found, saved = self._objects.get(id(own)) or PlainObject(own), self._root.child(*keys)
            assert saved is not None
            own, strict = self._given.setdefault(id(own), (found, found.template(saved)))[1], found.strict
        if plain:
            saved_path, out = "/".join(map(str, keys)), OnlyThese()
            for key, child in node.items():
                name = self._key(saved_path, key)
                mine = own.get(name) if isinstance(own, Mapping) else None
                out[key] = self._walk(mine, child, (f"{path}/{name}", (*keys, key), strict))
            return OnlyThese({key: into for key, into in out.items() if into is not _SKIP})
        if type(node) in (list, tuple):
            mine = own if isinstance(own, (list, tuple)) and len(own) == len(node) else [None] * len(node)
            walked = [self._walk(one, child, (f"{path}/{place}", (*keys, place), strict))
                      for place, (one, child) in enumerate(zip(mine, node))]
            return type(node)(None if into is _SKIP else into for into in walked)
        whole = own is not None and (isinstance(own, set) or record_of_object(own) is not None)
        return self._whole(own, path) if whole else None

    def _whole(self, own: Any, path: str) -> Any:
        """What is filled, or made anew of its class, as a whole."""
        if not self._choice.wants(path):
            return None
        self._used |= {below for below, _ in arrays_in(own, path, set())}
        return own

    def _drop(self, own: OtherShape, node: Any, path: str) -> None:
        """The saved state of a parameter of another shape."""
        if isinstance(node, LazyTensor) and node.shape:
            self.found.other_shape.append(f"{path}: {node.shape} in the checkpoint, of a parameter of shape "
                                          f"{own.found}; {own.expected} in the state")
        elif isinstance(node, (Mapping, Record)):
            for key, child in (node.items if isinstance(node, Record) else node).items():
                self._drop(own, child, f"{path}/{key}")

    def _tensor(self, own: Any, node: LazyTensor, path: str, strict: bool) -> Any:
        shape = getattr(own, "shape", None)
        if not self._choice.wants(path):
            return _SKIP
        if shape is None:
            if strict:
                self.found.unexpected.append(path)
            return _SKIP if strict else None
        if tuple(shape) != node.shape:
            self.found.other_shape.append(f"{path}: {tuple(shape)} in the state, {node.shape} in the checkpoint")
            return _SKIP
        self._used.add(path)
        self._memory.add(memory_key(own))
        return own

    def check(self, common: Common) -> None:
        """Raises what the policies do not allow, before anything is loaded."""
        self.found.unexpected = common(self.found.unexpected)
        if self.found.other_shape and not self._choice.skip_shapes:
            raise error_of(Status.MISMATCH, f"{len(self.found.other_shape)} tensors have another shape: "
                           f"{some(self.found.other_shape)}; on_shape_mismatch=\"skip\" leaves them as they are")
        if self._choice.strict and (self.found.missing or self.found.unexpected):
            raise _contradiction(self.found.missing, self.found.unexpected, self._choice.otherwise)

    def load(self, options: Mapping[str, Any], framework: FrameworkName | None = None,
             progress: Progress = None) -> None:
        """Loads the parts that are wanted, and puts them into the state."""
        got = load_from(self._reader, self._into, self._choice.at, framework or self._framework, self._choice.convert,
                        self._whose, progress, options, trees=self._choice.tree)
        for key in self._into:
            name = self._key("", key)
            try:
                new = self._merged(self._state[name], got[key], str(name), str(key), False)
            except Error as error:
                raise changed_already(error, [*sorted(self._used), *self._done]) from error.__cause__
            self._state[name] = put_back(self._state[name], new)
            self._done.append(str(name))

    def _merged(self, own: Any, got: Any, path: str, saved_path: str, strict: bool) -> Any:
        """The state's own value with what was loaded in its place."""
        if got is own:
            return own
        if id(own) in self._given:
            found, template = self._given[id(own)]
            return give(found, self._merged(template, got, path, saved_path, found.strict), path)
        if isinstance(own, PerRank):
            return PerRank(self._merged(own.value, got, path, saved_path, strict))
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
                    out[name] = self._merged(own[name], value, below, f"{saved_path}/{key}", strict)
                elif not strict and self._choice.wants(below):
                    out[name] = value
            return out
        if type(own) in (list, tuple) and type(got) is type(own) and len(own) == len(got):
            return type(own)(self._merged(mine, value, f"{path}/{place}", f"{saved_path}/{place}", strict)
                             for place, (mine, value) in enumerate(zip(own, got)))
        return got if self._choice.wants(path) else own
