"""The sources of a model bank: what each is asked for, what it has, and which of them gives which variable."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from ..checkpointer.selection import _contradiction
from ..enums import Status
from ..errors import Error, MissingWarning, error_of, value_error, warn
from ..frameworks import framework_of
from ..handles import Reader
from ..hints import local_path, near
from ..looks import look
from ..records import TableInfo
from ..regions import Whose
from ..saved import AnyReader, SavedNode
from ..sources import FileReader, FileShare, open_source, what_is
from ..tables import Rowset, Share
from .parts import CLASSES, EXTRA, GLOBAL_STEP, IO_STATE, MODEL, SPARSE_OPTIM, TABLES, class_of_column, table_of

# What a load config may name although the model has no such thing.
_MAY_LACK = (GLOBAL_STEP, "recis.dense.optim", "train_io", "eval_io", "train_window_io", "eval_window_io",
             "train_epoch")
_TABLES = ("sparse", "sparse_opt")


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile("(.*)".join(map(re.escape, text.split("*"))), re.DOTALL)


@dataclass(frozen=True)
class Entry:
    """One source of a model bank."""

    path: str
    load: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    oname: tuple[tuple[str, str], ...] = ()  # names in the model and in the source, with stars
    hashtable_clear: bool = True  # empty a table before its rows come; otherwise these join, or replace, what it has
    strict: bool | None = None  # True: the source has all that is asked for, and nothing else of these classes
    ignore_error: bool = False  # warn of names that are not there
    skip: bool = False
    is_dynamic: bool = False  # reload_model_bank() loads it again when there is a newer checkpoint
    or_rank0: bool = False  # io states of another number of workers: its own, or rank 0's
    select: str = "latest"  # which checkpoint of a store: a label, "step:N", an id
    run: str = "main"
    at: str | None = None  # where the source has the model's tensors: "model", "" (at its root)

    @staticmethod
    def of(given: Mapping[str, Any]) -> Entry:
        """An entry as RecIS' configurations have it. ValueError for what it cannot be."""
        known = [field.name for field in fields(Entry)]
        for key in given:
            if key not in known:
                there = near(key, known) or f"; there are {', '.join(known)}"
                raise value_error(f"model bank: unknown key {key!r}{there}")
        if not isinstance(path := given.get("path"), (str, os.PathLike)) or not os.fspath(path):
            raise value_error(f"model bank: path must be given, found {path!r}")
        values = dict(given, path=os.fsdecode(path))
        for key in ("load", "exclude"):
            if key in values:
                if isinstance(values[key], str):
                    raise value_error(f"model bank, {key}: expected a list of names, found {values[key]!r}")
                values[key] = tuple(name for name in values[key] if name)
        if "oname" in values:
            values["oname"] = _pairs(values["oname"])
        return Entry(**values)

    def wants(self, variable: str, kind: str) -> bool:
        """Whether `load` and `exclude` let it through."""
        def any_of(names: Iterable[str]) -> bool:
            return any(_names(name, variable, kind) for name in names)
        return any_of(self.load) and not any_of(self.exclude)

    def name(self, variable: str) -> str:
        """What the source calls a variable of the model."""
        for ours, theirs in self.oname:
            if found := _pattern(ours).fullmatch(variable):
                pieces = theirs.split("*")
                return pieces[0] + "".join(a + b for a, b in zip(found.groups(), pieces[1:]))
        return variable

    def located(self) -> Entry:
        """With a path such as STORE/ckpt_100 taken apart."""
        path = local_path(self.path)
        folder, label = os.path.split((path or "").rstrip("/"))
        if path is None or self.select != "latest" or not look(
                path, {}, lambda: not os.path.exists(path) and os.path.isdir(os.path.join(folder, ".ckpt"))):
            return self
        return Entry(**{**vars(self), "path": folder, "select": f"label:{label}"})

    def open(self, checkpoint: str, options: Mapping[str, Any]) -> AnyReader:
        """What it names. `checkpoint`: the id that rank 0 has found; "" if there is nothing to select."""
        if checkpoint and checkpoint == _newest_in(self.path, options):
            return open_source(os.path.join(self.path, checkpoint), "latest", {**options, "run": self.run})
        return open_source(self.path, checkpoint or "latest", {**options, "run": self.run})

    def find(self, options: Mapping[str, Any]) -> str:
        """Rank 0's part: the id of the checkpoint that it selects."""
        what = what_is(self.path, options)[0]
        if what == "foreign" and self.select == "latest":
            return _newest_in(self.path, options)
        with_options = {**options, "run": self.run}
        reader = open_source(self.path, self.select, with_options)
        try:
            return reader.info.id if isinstance(reader, Reader) and what == "store" else ""
        finally:
            reader.close()


def _newest_in(path: str, options: Mapping[str, Any]) -> str:
    """The directory of the newest checkpoint in that of a RecIS run; "" if it is none."""
    def newest() -> str:
        with open(os.path.join(path, "checkpoint"), encoding="utf-8") as file:
            lines = file.read().split()
        return lines[-1] if lines and os.path.isdir(os.path.join(path, lines[-1])) else ""

    try:
        return look(path, options, newest)
    except TimeoutError:
        raise
    except (OSError, UnicodeDecodeError):
        return ""


def _names(name: str, variable: str, kind: str) -> bool:
    """Whether a word of a load config means a variable: a class, a table with all it has, a name with stars."""
    if name in ("*", *CLASSES):
        return name in ("*", kind)
    return bool(_pattern(name).fullmatch(variable)) or (kind in _TABLES and table_of(variable)[0] == name)


def _pairs(given: Any) -> tuple[tuple[str, str], ...]:
    pairs = [pair for one in ([given] if isinstance(given, Mapping) else given) for pair in one.items()]
    for ours, theirs in pairs:
        if ours.count("*") != theirs.count("*"):
            raise value_error(f"model bank, oname: {ours!r} and {theirs!r} must have the same number of stars")
    return tuple(pairs)


class Source:
    """What an opened source has, by the names that load configs use."""

    def __init__(self, entry: Entry, reader: AnyReader, place: int, whose: Whose) -> None:
        self.entry, self.reader = entry, reader
        self.told = f"model bank entry {place}" if entry.path else "the checkpoint"
        self.of_recis = False  # whether its parts are those of RecIS' own checkpoints, imported or in place
        self.workers: int | None = None  # whose io states it has; None: not told
        self.places: dict[str, tuple[str, ...]] = {}  # where it has what is neither the model's nor a table
        tables = {table.name: table for table in reader.tables()}
        with reader.tree() if isinstance(reader, FileReader) else reader.tree(rank=whose.rank) as tree:
            root = SavedNode(reader, tree, framework_of("numpy"), 0, whose)
            keys = [str(key) for key in root.keys()]
            self.own = {key for key in keys if root.is_own(key)}  # what is each worker's, but for random states
            self._look_at_parts(root, set(keys), reader)
            known = {MODEL, GLOBAL_STEP} & set(keys) or self.of_recis
            at = entry.at if entry.at is not None else MODEL if known else ""
            model = root.child(*at.split("/")) if at else None
            values = [] if model is None else [str(key) for key in model.keys()]
        self.prefix = f"{at}/" if at else ""
        inside = tuple(f"{table}/" for table in tables)
        self.dense = {tensor.name.removeprefix(self.prefix): tensor.name for tensor in reader.tensors()
                      if tensor.name.startswith(self.prefix) and not tensor.name.startswith(inside)}
        folders = {name.partition("/")[0] for name in self.dense}
        self.dense |= {key: self.prefix + key for key in values if key not in folders}  # what is no tensor
        self.tables = {name.removeprefix(f"{TABLES}/") if self.of_recis else name: table
                       for name, table in tables.items()}
        if not self.of_recis:
            self.places = {key: (key,) for key in keys if key != at and key not in tables}
        self.columns = {f"{name}@{column}": class_of_column(column) for name, table in self.tables.items()
                        for column in ("id", *(one.name for one in table.columns))}

    def _look_at_parts(self, root: SavedNode, keys: set[str], reader: AnyReader) -> None:
        parts = {TABLES, EXTRA, IO_STATE}
        self.of_recis = bool(parts & keys) and keys <= parts | {MODEL, SPARSE_OPTIM}
        if not self.of_recis:
            self.workers = None if isinstance(reader, FileReader) else reader.info.world_size
            return
        for part in (EXTRA, IO_STATE):
            node = root.child(part)
            self.places |= {} if node is None else {str(key): (part, str(key)) for key in node.keys()}
        self.places |= {SPARSE_OPTIM: (SPARSE_OPTIM,)} if SPARSE_OPTIM in keys else {}
        with reader.tree() as whole:  # of all workers
            self.workers = SavedNode(reader, whole, framework_of("numpy"), 0, None).rank_count(IO_STATE)

    def share(self, table: TableInfo, rows: Rowset, window_rows: int) -> Share | FileShare:
        """Rows of one of its tables."""
        if isinstance(self.reader, FileReader):
            return FileShare(self.reader, table, rows, window_rows)
        return Share(self.reader, table.name, rows, window_rows=window_rows)

    @property
    def id(self) -> str:
        """What it is found by: STORE/ID, or a file."""
        if isinstance(self.reader, FileReader):
            return self.reader.path
        path, own = self.entry.path.rstrip("/"), self.reader.info.id
        return f"{path}/{own}" if path and os.path.basename(path) != own else path or own

    def has(self, name: str, kind: str) -> bool:
        """Whether it has what it calls `name`."""
        return name in self.dense if kind == "dense" else name in self.columns or name in self.places

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors inside of it name the source."""
        try:
            yield
        except Error as error:
            if not self.entry.path:
                raise
            raise type(error)(error.status, f"{self.told} ({self.id}): {error.message}", error.details) from error

    def error(self, status: int, what: str) -> Error:
        """An error that names it."""
        return error_of(status, f"{self.told} ({self.id}): {what}", {"path": self.entry.path})


def plan(sources: list[Source], variables: Mapping[str, str], claimed: Iterable[str],
         common: Callable[[list[str]], list[str]]) -> list[dict[str, str]]:
    """For each source what it gives: variables of the model, and their names in the source. The last source that has a
    variable gives it; only rows that join others (hashtable_clear false) leave room for earlier sources."""
    taken, out = set(claimed), []
    for source in reversed(sources):
        entry, chosen = source.entry, {}
        wanted = {name: kind for name, kind in variables.items() if entry.wants(name, kind)}
        _check_names(source, variables, wanted)
        for name, kind in wanted.items():
            if name not in taken and source.has(entry.name(name), kind):
                chosen[name] = entry.name(name)
        _check_strict(source, variables, wanted, common)
        _check_tables(source, chosen, variables)
        taken |= {name for name in chosen if entry.hashtable_clear or variables[name] not in _TABLES}
        out.append(chosen)
    return out[::-1]


def _check_names(source: Source, variables: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """NOT_FOUND, or a warning, for a name that finds nothing in the model or in the source."""
    entry = source.entry
    for name in (*entry.load, *entry.exclude):
        meant = [one for one, kind in variables.items() if _names(name, one, kind)]
        if name in ("*", *CLASSES, *_MAY_LACK):
            continue
        if not meant:
            _complain(source, f"the model has nothing that is called '{name}'{near(name, variables)}")
        elif name in entry.load and any(one in wanted for one in meant) and not any(
                source.has(entry.name(one), variables[one]) for one in meant):
            _complain(source, f"it lacks '{name}'")
    for ours, theirs in entry.oname:
        meant = [one for one in variables if _pattern(ours).fullmatch(one)]
        if not meant:
            _complain(source, f"oname: the model has nothing that is called '{ours}'{near(ours, variables)}")
        elif not any(source.has(entry.name(one), variables[one]) for one in meant):
            _complain(source, f"oname: it has nothing that is called '{theirs}'")


def _complain(source: Source, what: str) -> None:
    error = source.error(Status.NOT_FOUND, what)
    if not source.entry.ignore_error and source.entry.strict is not False:
        raise error
    warn(MissingWarning(error.message))


def _check_strict(source: Source, variables: Mapping[str, str], wanted: Mapping[str, str],
                  common: Callable[[list[str]], list[str]]) -> None:
    entry = source.entry
    missing = [name for name, kind in wanted.items() if not source.has(entry.name(name), kind)]
    known = {entry.name(name) for name in variables}
    unexpected = [name for name, kind in {**dict.fromkeys(source.dense, "dense"), **source.columns}.items()
                  if name not in known and entry.wants(name, kind)]
    unexpected = common(unexpected)  # asked once by every rank, whatever it finds
    if entry.strict and (missing or unexpected):
        raise source.error(Status.MISMATCH, _contradiction(missing, unexpected).message)  # type: ignore[attr-defined]


def _check_tables(source: Source, chosen: Mapping[str, str], variables: Mapping[str, str]) -> None:
    """ValueError if a table would come out of two."""
    found: dict[str, str] = {}
    for name, theirs in chosen.items():
        if "@" in name and variables[name] in _TABLES:
            table, other = table_of(name)[0], table_of(theirs)[0]
            if (one := found.setdefault(table, other)) != other:
                raise value_error(f"{source.told}, oname: table '{table}' cannot come out of two, '{one}' and "
                                  f"'{other}'")
