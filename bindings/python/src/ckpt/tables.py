"""Sparse tables: rows by 64-bit id, as leaves of a state, and shares of them. Nothing is imported before it is
needed."""

from __future__ import annotations

import importlib
import operator
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from . import _core, show
from ._core import TABLE_BUCKETS, Load
from .arguments import A_DICT, checked
from .enums import Status
from .errors import error_of, value_error
from .frameworks import SAVED_AS, FrameworkName, framework_name_of, framework_of, saved_framework

TABLE = "ckpt.Table"
"""The class of the record that a table is in a tree."""

Ids = Any  # an array of int64 or uint64, or integers


class Table:
    """Rows of a sparse table, as a leaf of a state: what this rank has of it, or what was loaded.

    `ids`: int64 or uint64, each once on all ranks together. `columns`: by name an array (numpy, torch) of shape
    (rows, ...), row i of which belongs to ids[i]. To save, a column may also be a list of such arrays, the blocks of a
    hash table: all of the same number of rows, except for the last of each column. With `positions`, row i is that one
    of the blocks taken together. Columns are contiguous memory of the CPU, or all of one CUDA device, and are not
    copied. Ids and positions are memory of the CPU: those of torch that are not are copied there.

    `changed`: the ids whose rows are new or other than when this session saved this table last, and `removed`: those
    that this rank had then and has no longer. With option `incremental` a save then writes these rows alone; all rows
    are given nevertheless, since it writes all where it must (the first save, one after a save that failed, and others:
    docs/tables.md). `changed="digests"`: the engine finds out itself. None: nobody knows what changed.

    All ranks have the same columns and the same `bucket_count`; a rank without rows may leave the table out. `missing`
    has the ids that a load was asked for and that the table lacks.
    """

    @checked(columns=A_DICT)
    def __init__(self, ids: Ids, columns: Mapping[str, Any], *, bucket_count: int = TABLE_BUCKETS,
                 positions: Any = None, missing: Sequence[int] = (), changed: Ids | str | None = None,
                 removed: Ids = ()) -> None:
        self.ids = _on_host(_as_integers(ids))
        self.columns: dict[str, Any] = dict(columns)
        self.bucket_count = bucket_count
        self.positions = None if positions is None else _on_host(_as_integers(positions))
        self.missing = tuple(missing)
        if isinstance(changed, str) and changed != "digests":
            raise error_of(Status.INVALID, f"changed={changed!r}: expected ids, 'digests' or None", {})
        self.changed = changed if changed is None or isinstance(changed, str) else _on_host(_as_integers(changed))
        self.removed = _on_host(_as_integers(removed))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} {_describe(column)}" for name, column in self.columns.items())
        missing = f", {len(self.missing)} ids missing" if self.missing else ""
        return f"<ckpt.Table: {len(self)} rows{missing}; {columns}>"

    # ---- rows by id; numpy finds them ----

    def __contains__(self, id: int) -> bool:
        return bool(self._places([id])[0] >= 0)

    def __getitem__(self, id: int) -> dict[str, Any]:
        """The row of an id, by column: views of the table's memory. KeyError if the table lacks the id."""
        place = int(self._places([id])[0])
        if place < 0:
            raise KeyError(f"id {id}")
        return {name: self._plain(name)[place] for name in self.columns}

    def take(self, ids: Ids) -> Table:
        """The rows of these ids, in this order, copied; `missing` of the result has those that are not there."""
        places = self._places(ids)
        wanted = _numpy(_as_integers(ids))
        there, kept = places >= 0, places[places >= 0]
        columns = {name: self._plain(name)[kept] for name in self.columns}
        return Table(self.ids[kept] if framework_name_of(self.ids) else _numpy(self.ids)[kept], columns,
                     bucket_count=self.bucket_count, missing=wanted[~there].tolist())

    def as_dict(self) -> dict[int, dict[str, Any]]:
        """All rows by their ids: views of the table's memory."""
        columns = {name: self._plain(name) for name in self.columns}
        return {id: {name: column[place] for name, column in columns.items()}
                for place, id in enumerate(_numpy(self.ids).tolist())}

    @cached_property
    def _order(self) -> tuple[Any, Any]:
        """The ids in ascending order as u64, and their places."""
        ids = _numpy(self.ids).view("u8")
        order = ids.argsort(kind="stable")
        return ids[order], order

    def _places(self, ids: Ids) -> Any:
        """Where the rows of these ids are; -1 of those that are not there."""
        import numpy
        wanted = _numpy(_as_integers(ids)).view("u8")
        known, order = self._order
        if len(known) == 0:
            return numpy.full(len(wanted), -1)
        at = numpy.minimum(numpy.searchsorted(known, wanted), len(known) - 1)
        return numpy.where(known[at] == wanted, order[at], -1)

    def _plain(self, name: str) -> Any:
        """The one array whose row i belongs to ids[i]."""
        column = self.columns[name]
        if self.positions is not None or isinstance(column, (list, tuple)):
            raise error_of(Status.UNSUPPORTED, f"column '{name}': a table in blocks or with positions can only be "
                           "saved; load it to look at its rows", {"tensor": name})
        return column

    # ---- as other packages have it ----

    def to_arrow(self) -> Any:
        """A pyarrow.Table: column "id", and the columns, a row of several elements as a list of fixed size. Without a
        copy, except for booleans, which Arrow packs. UnsupportedError for a dtype that Arrow lacks (bf16, complex)."""
        pyarrow = package("pyarrow", "Table.to_arrow")
        columns = {"id": _arrow(pyarrow, "id", self.ids)}
        for name in self.columns:
            columns[name] = _arrow(pyarrow, name, self._plain(name))
        return pyarrow.table(columns)

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with the ids as its index. Without a copy; a column whose rows have several elements is an
        array of Arrow's lists and needs pyarrow."""
        pandas = package("pandas", "Table.to_pandas")
        columns = {}
        for name in self.columns:
            values = _numpy(self._plain(name), name)
            if values.ndim > 1:
                pyarrow = package("pyarrow", "Table.to_pandas")
                values = pandas.arrays.ArrowExtensionArray(pyarrow.chunked_array([_arrow(pyarrow, name, values)]))
            columns[name] = values
        return pandas.DataFrame(columns, index=pandas.Index(_numpy(self.ids), name="id", copy=False), copy=False)


class Rowset:
    """Which rows of a sparse table to load, and which of its columns; by default all."""

    def __init__(self, kind: str, first: int = 0, second: int = 0, listed: Any = None,
                 columns: Sequence[str] | None = None) -> None:
        for number in (first, second):
            if not 0 <= operator.index(number) < 2**64:
                raise error_of(Status.INVALID, f"Rowset.{kind}: expected numbers from 0 on, found {number}", {})
        self.kind, self.first, self.second, self.listed = kind, first, second, listed
        self.columns = columns

    @staticmethod
    @checked()
    def all(columns: Sequence[str] | None = None) -> Rowset:
        """All rows."""
        return Rowset("all", columns=columns)

    @staticmethod
    @checked()
    def buckets(first: int, end: int, columns: Sequence[str] | None = None) -> Rowset:
        """Those of the buckets from `first` up to, not including, `end`; the bucket of a row is its id, as an unsigned
        number, modulo bucket_count."""
        return Rowset("buckets", first, end, columns=columns)

    @staticmethod
    @checked()
    def slice(index: int, count: int, columns: Sequence[str] | None = None) -> Rowset:
        """Slice `index` of `count` of the buckets, which is what a rank reads that needs a share of any kind: no chunk
        of other buckets is read."""
        return Rowset("slice", index, count, columns=columns)

    @staticmethod
    @checked()
    def mod(index: int, count: int, columns: Sequence[str] | None = None) -> Rowset:
        """Those whose id, as an unsigned number, modulo `count` is `index`. Reads all ids, and most chunks."""
        return Rowset("mod", index, count, columns=columns)

    @staticmethod
    @checked()
    def ids(ids: Ids, columns: Sequence[str] | None = None) -> Rowset:
        """Those of these ids (int64 or uint64, or integers), in this order, without those that the table lacks."""
        return Rowset("ids", listed=_on_host(_as_integers(ids)), columns=columns)

    def __repr__(self) -> str:
        what = f"{len(self.listed)} ids" if self.kind == "ids" else f"{self.kind} {self.first}, {self.second}"
        return f"<ckpt.Rowset: {'all' if self.kind == 'all' else what}>"


class Share(_core.Share):
    """The rows of a sparse table that a rank loads, counted before memory is made for them, and cut into windows of
    whole buckets, so that a table larger than memory can be passed through. Opening it reads what tells where buckets
    begin; of Rowset.mod all ids, of Rowset.ids those near to what is looked for. With `since`, a reader of an earlier
    checkpoint, it has only the rows that are new or other than there, found by comparing, and `missing` has the ids
    that are gone. Several threads may use it at once."""

    @checked()
    def __init__(self, reader: _core.Reader, table: str, rows: Rowset | None = None, *, window_rows: int = 0,
                 since: _core.Reader | None = None, options: Mapping[str, int | str] | None = None,
                 job: _core.Job | None = None, **keywords: int | str) -> None:
        super().__init__(reader, table, rows, window_rows=window_rows, since=since, options=options, job=job,
                         **keywords)
        self._reader = reader
        self._wanted = None if rows is None else rows.columns

    @checked()
    def read(self, columns: Sequence[str] | None = None, *, framework: FrameworkName | None = None,
             options: Mapping[str, int | str] | None = None, **keywords: int | str) -> Table:
        """All rows of the share, of these columns (by default those of the Rowset, else all), in new arrays.
        `framework`: "numpy" or "torch"; by default as they were saved."""
        with Load(self._reader, {**(options or {}), **keywords}) as load:
            table = self.ask(load, columns, framework)
            load.run()
        return table

    @checked()
    def windows(self, columns: Sequence[str] | None = None, *, framework: FrameworkName | None = None,
                options: Mapping[str, int | str] | None = None, **keywords: int | str) -> Iterator[Table]:
        """The rows window by window, each of at most `window_rows`, in new arrays. Each window is read when it is asked
        for."""
        for window in range(self.window_count):
            with Load(self._reader, {**(options or {}), **keywords}) as load:
                table = self._table(self.rows_of(window), columns, framework)
                load.add_table(self, table.ids, table.columns, window)
                load.run()
            yield table

    def ask(self, load: Load, columns: Sequence[str] | None = None, framework: FrameworkName | None = None) -> Table:
        """The table that `load` fills when it runs."""
        table = self._table(self.row_count, columns, framework)
        table.missing = tuple(self.missing)
        first = 0
        for window in range(self.window_count):
            end = first + self.rows_of(window)
            load.add_table(self, table.ids[first:end],
                           {name: column[first:end] for name, column in table.columns.items()}, window)
            first = end
        return table

    def _table(self, rows: int, columns: Sequence[str] | None, framework: FrameworkName | None) -> Table:
        """Without values."""
        table = self.table
        make = framework_of(framework or _saved_framework(self._reader, table.name))
        if make.name == "jax":
            raise value_error("framework: expected 'numpy' or 'torch' for a table, found 'jax'")
        known = {column.name: column for column in table.columns}
        wanted = columns if columns is not None else self._wanted if self._wanted is not None else list(known)
        made = {}
        for name in wanted:
            if name not in known:
                raise error_of(Status.NOT_FOUND, f"table '{table.name}' has no column '{name}'; it has "
                               f"{', '.join(known) or 'none'}", {"tensor": table.name})
            made[name] = make.empty(f"{table.name}/{name}", known[name].dtype, (rows, *known[name].shape))
        return Table(make.empty(f"{table.name}/ids", table.id_dtype, (rows,)), made, bucket_count=table.bucket_count)

    def __enter__(self) -> Share:
        return self


def add_rows(save: _core.Save, name: str, table: Table) -> None:
    """Adds the rows of a table to a save."""
    columns = {column: [_detached(block) for block in value] if isinstance(value, (list, tuple)) else _detached(value)
               for column, value in table.columns.items()}
    save.add_table(name, _detached(table.ids), columns, bucket_count=table.bucket_count, positions=table.positions,
                   changed=_changed_rows(name, table), removed=table.removed)


def _changed_rows(name: str, table: Table) -> Any:
    """The numbers of the rows that changed; None if nobody knows."""
    if table.changed is None or isinstance(table.changed, str):
        return table.changed
    places = table._places(table.changed)
    if len(places) and places.min() < 0:
        id = _numpy(table.changed)[places.argmin()]
        raise error_of(Status.INVALID, f"table '{name}': id {id} changed, and is not among its ids", {"tensor": name})
    return places


def fill_rows(load: Load, reader: _core.Reader, name: str, table: Table) -> None:
    """Asks for the rows of the table's ids, into its own columns."""
    with Share(reader, name, Rowset.ids(table.ids)) as share:
        if share.missing:
            raise error_of(Status.NOT_FOUND, f"table '{name}' lacks {len(share.missing)} of the {len(table)} ids that "
                           f"into has, {share.missing[0]} the first", {"tensor": name, "found": str(share.missing[0])})
        columns = {column: _detached(table._plain(column)) for column in table.columns}
        for column, values in columns.items():
            if len(values) != len(table):
                raise error_of(Status.INVALID, f"into has {len(values)} rows of column '{column}' for {len(table)} ids",
                               {"tensor": f"{name}/{column}"})
        load.add_table(share, None, columns)


def frameworks_in(table: Table) -> set[FrameworkName]:
    """Whose arrays its columns are; "numpy" too for those of other packages."""
    blocks = [block for value in table.columns.values()
              for block in (value if isinstance(value, (list, tuple)) else [value])]
    return {framework_name_of(block) or "numpy" for block in blocks or [table.ids]}


def memory_of(table: Table) -> int:
    """Bytes of its rows, as they are saved."""
    blocks = [value[0] if isinstance(value, (list, tuple)) else value for value in table.columns.values() if len(value)]
    found = [_core.Memory.of(_detached(block)) for block in blocks]
    return sum(len(table) * (memory.nbytes // memory.shape[0]) for memory in found if memory.shape[0]) + 8 * len(table)


def _saved_framework(reader: _core.Reader, table: str) -> FrameworkName:
    saved_as = reader.attr(SAVED_AS)
    return saved_framework((reader.attr(SAVED_AS, table) or "torch") if saved_as == "mixed" else
                           None if saved_as == "jax" else saved_as)


def _as_integers(ids: Ids) -> Any:
    """An array of them, as it is or of Python's integers."""
    if hasattr(ids, "__dlpack__") or isinstance(ids, (array, memoryview)):
        return ids
    listed = [operator.index(id) for id in ids]
    if listed and (min(listed) < (-2**63 if max(listed) < 2**63 else 0) or max(listed) >= 2**64):
        raise OverflowError(f"ids: expected int64 or uint64, found {min(listed)} to {max(listed)}")
    return array("q" if all(id < 2**63 for id in listed) else "Q", listed)


def _on_host(ids: Ids) -> Any:
    """The ids themselves, or those of a tensor on another device as a copy."""
    return ids.cpu() if framework_name_of(ids) == "torch" and _is_elsewhere(ids) else ids


def _is_elsewhere(values: Any) -> bool:
    """Whether the array is in memory that is not the host's."""
    if framework_name_of(values) == "torch":
        return bool(values.device.type != "cpu")
    cpu, pinned = 1, 3
    return hasattr(values, "__dlpack_device__") and values.__dlpack_device__()[0] not in (cpu, pinned)


def _detached(value: Any) -> Any:
    return value.detach() if framework_name_of(value) == "torch" else value


def _describe(column: Any) -> str:
    if isinstance(column, (list, tuple)):
        return f"{len(column)} blocks"
    return f"{column.dtype} {show.shape(tuple(column.shape)[1:])}"


def package(name: str, of: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{of} needs the package {name}: pip install {name}", name=name) from error


def _numpy(values: Any, name: str = "id") -> Any:
    """The same memory as an array of numpy."""
    import numpy
    try:
        return values.detach().numpy() if framework_name_of(values) == "torch" else numpy.asarray(values)
    except TypeError as error:  # torch has dtypes that numpy lacks, and a device's memory is not the host's
        why = f"it is on device {values.device}, copy it to the CPU" if _is_elsewhere(values) else (
            f"numpy has no {values.dtype}")
        raise error_of(Status.UNSUPPORTED, f"column '{name}': {why}",
                       {"tensor": name, "found": str(values.dtype)}) from error


def _arrow(pyarrow: Any, name: str, values: Any) -> Any:
    """The same memory as an array of Arrow."""
    array = _numpy(values, name)
    try:
        made = pyarrow.array(array.reshape(-1))
    except (pyarrow.ArrowException, NotImplementedError) as error:
        raise error_of(Status.UNSUPPORTED, f"column '{name}': Arrow has no {array.dtype}",
                       {"tensor": name, "found": str(array.dtype)}) from error
    for extent in reversed(array.shape[1:]):
        made = pyarrow.FixedSizeListArray.from_arrays(made, extent)
    return made
