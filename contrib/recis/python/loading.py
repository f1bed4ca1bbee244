"""How what the sources of a model bank give gets into the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from ..adapt import regions_of
from ..checkpointer.selection import Choice, restore
from ..enums import Status
from ..errors import Error, MissingWarning, error_of, warn
from ..frameworks import framework_name_of, framework_of, is_array
from ..hints import some
from ..loading import load_from
from ..team import Alone
from ..regions import Whose
from ..sources import FileReader, request_of
from ..stateful import is_stateful
from ..tables import Rowset
from .bank import Entry, Source, plan
from .parts import MODEL, SPARSE_OPTIM, Parts, leaves_of, of_table, put_back, put_io_state, state_of, table_of

Given = dict[str, str]  # variables of the model, and their names in a source


class _Exactly(Choice):
    """Objects of the state by their names, and nothing else."""

    def __init__(self, names: Mapping[str, str], tensors: Mapping[str, str], strict: bool, convert: bool) -> None:
        renamed = {theirs: ours for ours, theirs in {**names, **tensors}.items() if ours != theirs}
        super().__init__(rename=(lambda path: renamed.get(path, path)) if renamed else None, strict=strict,
                         convert=convert)
        self._names = names

    @property
    def everything(self) -> bool:
        return False

    def wants(self, path: str) -> bool:
        return path in self._names or any(path.startswith(f"{name}/") for name in self._names)

    def wants_below(self, path: str) -> bool:
        return self.wants(path)


class Loading:
    """One load of a model from its sources."""

    def __init__(self, parts: Parts, ranks: Alone, options: Mapping[str, Any], convert: bool,
                 common: Callable[[list[str]], list[str]]) -> None:
        self._parts, self._ranks, self._options, self._convert, self._common = parts, ranks, options, convert, common
        self._before, self._replaced = set(parts.begun), set[str]()

    def run(self, sources: list[Source], claimed: Iterable[str] = (),
            only: Callable[[Source], bool] = lambda source: True) -> dict[str, str]:
        """Loads what is not `claimed`, of the sources that `only` names, and of the others what they give to the tables
        that those empty; returns which source gave what. Names, shapes and dtypes, and numbers of workers, are checked
        before anything changes."""
        parts, variables = self._parts, self._parts.variables()
        planned = list(zip(sources, plan(sources, variables, claimed, self._common)))
        emptied = {name for name in parts.tables for source, given in planned
                   if f"{name}@id" in given and source.entry.hashtable_clear and only(source)}
        work = [(source, left) for source, given in planned
                if (left := {name: theirs for name, theirs in given.items() if only(source)
                             or (of_table(name, variables[name]) and table_of(name)[0] in emptied)})]
        by_kind = [(source, {kind: {ours: theirs for ours, theirs in given.items() if variables[ours] == kind}
                             for kind in ("dense", "extra", "io_state")}) for source, given in work]
        for source, kinds in by_kind:
            self._check_workers(source, [name for kind in ("io_state", "extra") for name, theirs in kinds[kind].items()
                                         if name in parts.io_states or theirs in source.own])
        for source, given in work:
            with source.named():
                self._check_rows(source, given)
        state = state_of(parts.model)
        values: dict[str, Any] = {}
        with ExitStack() as opened:
            requests = []
            for source, kinds in by_kind:
                if kinds["dense"]:
                    request = opened.enter_context(request_of(source.reader, self._options))
                    requests.append((source, request))
                    with source.named():
                        values |= self._ask_dense(request, source, kinds["dense"], dict(leaves_of(state)))
                        parts.begun |= set(kinds["dense"])
            for source, request in requests:
                with source.named():
                    request.run()
            if requests:
                put_back(parts.model, state, values)
        for name in parts.tables:
            self._table(name, work)
        for source, given in work:
            parts.begun |= {name for name in given if not of_table(name, variables[name])}
            self._put_objects(source, given)
        self._replaced = {name for source, given in work for name in given
                          if not of_table(name, variables[name]) or source.entry.hashtable_clear}
        return {name: source.id for source, given in work for name in given}

    def settle(self) -> None:
        """All ranks have come to the end: what this load has changed is as it should be."""
        self._parts.begun = self._before - self._replaced

    def _put_objects(self, source: Source, given: Given) -> None:
        parts = self._parts
        with source.named():
            self._objects(source, {name: theirs for name, theirs in given.items()
                                   if name in parts.extra or name == SPARSE_OPTIM})
            for name in set(given) & set(parts.io_states):
                put_io_state(parts.io_states[name], self._value(source, *source.places[given[name]]))

    def _check_workers(self, source: Source, names: list[str]) -> None:
        saved, here = source.workers, self._ranks.size
        if names and saved is not None and saved != here and not source.entry.or_rank0:
            raise source.error(Status.MISMATCH, f"{some(names)} are those of {saved} workers, and this run has "
                               f"{here}; or_rank0 gives each worker its own or rank 0's, exclude (of io states "
                               "'io_state') none")

    def _check_rows(self, source: Source, given: Given) -> None:
        """MISMATCH for rows that a table which tells its columns cannot take."""
        for name, table in self._parts.tables.items():
            no_rows = getattr(table, "no_rows", None)
            for column, rows in no_rows().columns.items() if no_rows is not None else ():
                theirs, saved = table_of(given.get(f"{name}@{column}", ""))
                for info in source.tables[theirs].columns if theirs else ():
                    found = framework_of(framework_name_of(rows) or "numpy").dtype(saved, info.dtype)
                    if info.name == saved and (found, info.shape) != (rows.dtype, rows.shape[1:]):
                        raise error_of(Status.MISMATCH, f"table '{name}', column '{column}': expected rows of "
                                       f"{rows.dtype} {tuple(rows.shape[1:])}, found {found} {info.shape} "
                                       f"({theirs}@{saved})", {"tensor": f"{name}@{column}"})

    def _ask_dense(self, request: Any, source: Source, given: Given, leaves: Mapping[str, Any]) -> dict[str, Any]:
        """Asks for tensors, into their places; returns the values that are no tensors."""
        values = {}
        for name, theirs in given.items():
            leaf, tensor = leaves[name], source.dense[theirs]
            shards = regions_of(leaf)
            if shards is None and not is_array(leaf):
                values[name] = self._value(source, *tensor.split("/"))
            elif shards is None:
                request.add_tensor(tensor, leaf, convert=self._convert)
            for shard in shards or ():
                request.add_tensor(tensor, shard.data, shape=shard.shape, offset=shard.offset,
                                   flat_offset=shard.flat_offset, convert=self._convert)
        return values

    def _value(self, source: Source, *keys: str) -> Any:
        compared = source.workers is not None
        return load_from(source.reader, None, keys, None, False, self._whose(source, compared), None, self._options)

    def _whose(self, source: Source, compared: bool = False) -> Whose:
        """`compared`: the numbers of workers have been."""
        return Whose(self._ranks.rank, self._ranks.size, compared or source.entry.or_rank0)

    # ---- tables ----

    def _table(self, name: str, work: Sequence[tuple[Source, Given]]) -> None:
        """The rows of a table: first of those sources that give ids, in their order, then columns of other sources for
        the rows that are there."""
        table = self._parts.tables[name]
        columns = [(source, {column: given[f"{name}@{column}"] for column in ("id", *table.columns)
                             if f"{name}@{column}" in given}) for source, given in work]
        for source, given in columns:
            if "id" in given:
                share = self._parts.rowset(self._ranks.rank, self._ranks.size)
                self._rows(name, source, given, share, source.entry.hashtable_clear)
        for source, given in columns:
            if given and "id" not in given and len(ids := table.export_rows().ids):
                self._rows(name, source, given, Rowset.ids(ids))

    def _rows(self, name: str, source: Source, given: Given, rows: Rowset, clear: bool = False) -> None:
        """In windows of bounded size. The table is emptied once it is known that there are such rows."""
        table = self._parts.tables[name]
        theirs = {ours: table_of(one)[1] for ours, one in given.items() if ours != "id"}
        info = source.tables[table_of(next(iter(given.values())))[0]]
        row = 8 + sum(column.row_bytes for column in info.columns if column.name in theirs.values())
        framework = getattr(table, "framework", None)
        at_once = max(1, self._parts.window_bytes // row)
        with source.named(), source.share(info, rows, at_once) as share:
            if clear:
                self._parts.begun.add(f"{name}@id")
                table.clear()
            for window in share.windows(list(theirs.values()), framework=framework, options=self._options):
                if len(window):
                    self._parts.begun.add(f"{name}@id")
                    table.insert_rows(window.ids, {ours: window.columns[one] for ours, one in theirs.items()})

    # ---- objects ----

    def _objects(self, source: Source, names: Given) -> None:
        """What was registered for checkpointing, and the sparse optimizer."""
        parts = self._parts
        if not names:
            return
        state = {name: parts.sparse_optim if name == SPARSE_OPTIM else parts.extra[name] for name in names}
        if isinstance(source.reader, FileReader) or source.of_recis:
            for name, theirs in names.items():
                into = state[name] if is_stateful(state[name]) or is_array(state[name]) else None
                state[name] = load_from(source.reader, into, source.places[theirs], None, self._convert,
                                        self._whose(source), None, self._options)
        else:
            called = {ours: source.entry.name(ours) for ours, kind in parts.variables().items() if kind == "dense"}
            tensors = {f"{MODEL}/{ours}": source.dense[theirs] for ours, theirs in called.items()
                       if theirs in source.dense}
            choice = _Exactly(names, tensors, bool(source.entry.strict), self._convert)
            state |= {} if parts.model is None else {MODEL: parts.model}  # by which optimizers name parameters
            restore(source.reader, state, choice, self._whose(source), self._options, lambda unexpected: unexpected)
        parts.extra |= {name: state[name] for name in names if name != SPARSE_OPTIM}


def load_bank(parts: Parts, entries: Sequence[Entry], ranks: Alone, options: Mapping[str, Any],
              claimed: Iterable[str] = (), known: Sequence[str] | None = None,
              convert: bool = False) -> tuple[dict[str, str], list[str]]:
    """Loads a model bank, on all ranks or with an error on all. Returns which source gave what, and the ids of the
    checkpoints. `known`: those of the last time; then only dynamic entries that have a newer one are loaded,
    and what others give to a table that these empty."""
    ranks.meet("the load of a model bank", {"sources": len(entries)}, options.get("timeout_ms"))
    ranks.be_patient()
    located = [(place, entry.located()) for place, entry in enumerate(entries) if not entry.skip]
    ids = ranks.first(lambda: [_named(entry, place, entry.find, options) for place, entry in located])
    error: Exception | None = None
    taken: dict[str, str] = {}
    loading = Loading(parts, ranks, options, convert, lambda unexpected: unexpected)
    try:
        with ExitStack() as readers:
            sources = []
            for (place, entry), checkpoint in zip(located, ids):
                reader = _named(entry, place, entry.open, checkpoint, options)
                readers.callback(reader.close)
                sources.append(Source(entry, reader, place, Whose(ranks.rank, ranks.size)))
            newer = [source for source, old, new in zip(sources, known or ids, ids)
                     if known is None or (source.entry.is_dynamic and old != new)]
            taken = loading.run(sources, claimed, newer.__contains__)
    except Exception as caught:  # whatever it is, the other ranks must not wait for this one
        error = caught
    if ranks.most([error is not None])[0]:
        raise error or error_of(Status.ABORTED, "another rank could not load the model bank; see its error")
    loading.settle()
    return taken, ids


def _named(entry: Entry, place: int, call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Error as error:
        raise type(error)(error.status, f"model bank entry {place} ({entry.path}): {error.message}",
                          error.details) from None


def warn_of_missing(missing: Iterable[str]) -> None:
    """Of variables that no source has given."""
    if names := list(missing):
        warning = MissingWarning(f"the model bank has nothing for {len(names)} variables, which are unchanged: "
                                 f"{some(names)}")
        warning.missing = tuple(names)
        warn(warning)
