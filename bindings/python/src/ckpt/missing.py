"""What a load is to fill, and what of it the checkpoint lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .adapt import is_value
from .enums import NodeKind, Status
from .errors import Error, MissingWarning, error_of, warn
from .frameworks import FrameworkName, framework_name_of, is_array, is_key
from .generators import is_generator
from .hints import near, some
from .objects import record_of_object, template_of
from .regions import PerRank, Regions, Shard
from .saved import AnyReader
from .sources import FileReader
from .stateful import MOST_LEVELS, StateObject, is_stateful
from .tables import Rowset, Table
from .trees import Record


def arrays_in(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """All arrays, Shards, Tables and objects with a state in it, each with its path, for an error."""
    if isinstance(value, (Shard, Regions, Table, Rowset)) or is_array(value) or is_key(value) or is_stateful(value):
        yield path, value
    elif isinstance(value, PerRank):
        yield from arrays_in(value.value, path, seen)
    elif holds_others(value) and id(value) not in seen and path.count("/") < MOST_LEVELS:
        seen.add(id(value))
        pairs = enumerate(value) if isinstance(value, (list, tuple)) else items_of(value).items()
        for key, child in pairs:
            yield from arrays_in(child, f"{path}/{key}" if path else str(key), seen)


def framework_in(into: Any, objects: Mapping[int, StateObject]) -> FrameworkName | None:
    """The framework of the first array in it, or of its objects. None for jax: many a state has arrays of numpy beside,
    of dtypes that jax lacks."""
    if any(base.__module__.startswith("torch.") for found in objects.values() for base in type(found.object).__mro__):
        return "torch"
    for _, value in arrays_in(into, "", set()):
        if isinstance(value, (Table, Rowset)):
            continue
        array = value.data if isinstance(value, Shard) else value.tensor if isinstance(value, Regions) else value
        if not is_stateful(array):
            found = framework_name_of(array)
            return None if found == "jax" else found
    return None


def may_hold(like: Any, kind: NodeKind) -> bool:
    """Whether `like` may stand in `into` where the checkpoint has a node of this kind."""
    if isinstance(like, (Mapping, list, tuple, Record, Shard, Regions)) or is_array(like):
        return True
    if kind == NodeKind.SET:
        return isinstance(like, (set, frozenset))
    if kind == NodeKind.RECORD:
        return is_key(like) or is_value(like) or isinstance(like, (Table, Rowset))
    return kind not in (NodeKind.TENSOR, NodeKind.DICT, NodeKind.LIST, NodeKind.TUPLE) and not is_generator(like)


def missing_error(missing: list[tuple[str, Any]], known: Sequence[str], there: bool, of_file: bool) -> Error:
    """The error for arrays and objects that the checkpoint lacks. `known`: the paths that it has; `there`: it has
    something else at the first; `of_file`: it is a file of another program."""
    path, found = missing[0]
    kind = f"{type(found).__module__}.{type(found).__qualname__}"
    what = f"a {kind} where the checkpoint has nothing" if is_stateful(found) else (
        "a sparse table where the checkpoint has none" if isinstance(found, (Table, Rowset)) else
        f"an array of shape {_shape_of(found)} where the checkpoint has no tensor")
    if there and is_stateful(found):
        what = f"a {kind} where the checkpoint has another value"
    elif is_stateful(found):
        what += f" (it has {some(dict.fromkeys(key for key in known if '/' not in key))})"
    more = f", and {len(missing) - 1} more such arrays" if len(missing) > 1 else ""
    way = _wrapped(path, known) if of_file else ""
    return error_of(Status.NOT_FOUND, f"into has {what}: {path}{more}"
                    f"{way or near(path, known)}; strict=\"none\" leaves such arrays unchanged",
                    {"path": path})


def _wrapped(path: str, known: Sequence[str]) -> str:
    """The way out where only what wrappers of modules add keeps a name from fitting, as option prefixes says."""
    folder = f"{path}/"
    for name in known:
        parent, _, last = name.rpartition("/")
        bare = re.sub(r"(?<![^.])(_orig_mod|_checkpoint_wrapped_module|_fsdp_wrapped_module)\.", "", last)
        bare = re.sub(r"^(module\.)+", "", bare)
        full = f"{parent}/{bare}" if parent else bare
        if bare != last and (full == path or full.startswith(folder)):
            return f"; the checkpoint has it as '{name}': prefixes=\"auto\" takes names without what wrappers add"
    return ""


def _shape_of(array: Any) -> tuple[int, ...]:
    return tuple(array.data.shape if isinstance(array, Shard) else array.shape)


def warn_missing(reader: AnyReader, paths: list[str]) -> None:
    checkpoint = reader.path if isinstance(reader, FileReader) else reader.info.id
    warning = MissingWarning(f"{checkpoint} has no tensors for {len(paths)} arrays of into, which are unchanged: "
                             f"{some(paths)}")
    warning.missing = tuple(paths)
    warn(warning)


def holds_others(value: Any) -> bool:
    """Whether arrays may lie in it."""
    return isinstance(value, (Mapping, list, tuple, Record)) or (
        not is_generator(value) and record_of_object(value) is not None)


def items_of(value: Any) -> Mapping[Any, Any]:
    """By their keys, what lies in it."""
    if isinstance(value, Record):
        return value.items
    return value if isinstance(value, Mapping) else template_of(value)
