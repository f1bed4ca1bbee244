"""What a manager saves and loads, and what its variables are called and which class of a load config they are of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import type_error, value_error
from ..frameworks import loaded
from ..regions import PerRank
from ..stateful import is_stateful
from ..tables import Rowset, Table

CLASSES = ("sparse", "dense", "extra", "sparse_opt", "io_state")
MODEL, SPARSE_OPTIM, GLOBAL_STEP = "model", "sparse_optim", "global_step"
TABLES, EXTRA, IO_STATE = "tables", "extra", "io_state"  # beside the first two in what RecIS itself has saved
_OF_IO = "train_epoch"  # registered for checkpointing, and where a data loader is


class HashTable(Protocol):
    """A trainer's table of rows by 64-bit id. The manager saves the rows that a rank has, whatever these are, and gives
    a rank its share of the buckets when it loads. If it has an attribute `framework`, "numpy" or "torch", that is what
    it is given; otherwise it is what was saved. If it has a method no_rows(), which returns a Table of its columns
    without rows, rows of another dtype or shape are refused before anything changes."""

    @property
    def columns(self) -> Sequence[str]:
        """Names of what belongs to an id. Of a load config "embedding" is `sparse`, as the ids are; all others, which
        are an optimizer's slots, are `sparse_opt`."""

    def export_rows(self) -> Table:
        """All rows of this rank, with all columns. The arrays are read before step() or save() returns."""

    def insert_rows(self, ids: Any, columns: Mapping[str, Any]) -> None:
        """Adds these rows, or puts them over those of the same ids. Of a column that is not given a new row has what
        the table gives any new row, and a row that was there keeps its values. Raises if a row has another shape."""

    def clear(self) -> None:
        """Removes all rows."""


@dataclass
class Parts:
    """Everything that a manager looks after."""

    model: Any
    tables: Mapping[str, HashTable]
    sparse_optim: Any
    rowset: Callable[..., Rowset]
    window_bytes: int
    extra: dict[str, Any] = field(default_factory=lambda: {GLOBAL_STEP: 0})
    io_states: dict[str, Any] = field(default_factory=dict)
    # Variables, of a table its ids, that loads have begun to change and not come to the end with on all ranks, nor
    # replaced later.
    begun: set[str] = field(default_factory=set)

    def check_name(self, name: str) -> None:
        """ValueError for a name that is taken: all parts lie side by side in a checkpoint."""
        taken = {"a table": self.tables, "registered for checkpointing": self.extra,
                 "registered as an io state": self.io_states, "the manager's own": (MODEL, SPARSE_OPTIM)}
        for what, names in taken.items():
            if name in names:
                raise value_error(f"the name {name!r} is taken: it is {what}")

    def empty(self, names: Sequence[str]) -> None:
        """Empties those of these tables that a load has begun to change."""
        for name in names:
            if f"{name}@id" in self.begun:
                self.tables[name].clear()
                self.begun.discard(f"{name}@id")

    def state(self) -> dict[str, Any]:
        """What a save writes."""
        return {**({} if self.model is None else {MODEL: self.model}),
                **({} if self.sparse_optim is None else {SPARSE_OPTIM: self.sparse_optim}),
                **{name: table.export_rows() for name, table in self.tables.items()},
                **self.extra,
                **{name: PerRank(_dump(value)) for name, value in self.io_states.items()}}

    def variables(self) -> dict[str, str]:
        """The names that load configs and model banks choose by, and the class of each."""
        out = {name: "dense" for name, _ in leaves_of(state_of(self.model))}
        for name, table in self.tables.items():
            out[f"{name}@id"] = "sparse"
            out |= {f"{name}@{column}": class_of_column(column) for column in table.columns}
        out |= {name: "io_state" if name == _OF_IO else "extra" for name in self.extra}
        out |= dict.fromkeys(self.io_states, "io_state")
        return out if self.sparse_optim is None else {**out, SPARSE_OPTIM: "sparse_opt"}


def class_of_column(column: str) -> str:
    """Of which class of a load config a column is."""
    return "sparse" if column in ("id", "embedding") else "sparse_opt"


def of_table(variable: str, kind: str) -> bool:
    """Whether a variable of this class is a table's: "items@embedding"."""
    return kind in ("sparse", "sparse_opt") and "@" in variable


def table_of(variable: str) -> tuple[str, str]:
    """The table and the column of a variable such as "items@embedding"."""
    table, _, column = variable.rpartition("@")
    return table, column


def state_of(model: Any) -> Any:
    """The state of a model: a dict of arrays is its own."""
    return {} if model is None else model.state_dict() if is_stateful(model) else model


def leaves_of(state: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The tensors of a model's state by name, and what other values it has."""
    for key, child in state.items():
        below = f"{path}/{key}" if path else str(key)
        if isinstance(child, Mapping):
            yield from leaves_of(child, below)
        else:
            yield below, child


def put_back(model: Any, state: Any, values: Mapping[str, Any]) -> None:
    """Gives a model its state, of which the arrays are filled, with `values` by their names in it."""
    _replace(state, values, "")
    torch = loaded("torch")
    filled = torch is not None and isinstance(model, torch.nn.Module)  # its state is its own memory
    if is_stateful(model) and (values or not filled):
        model.load_state_dict(state)


def _replace(state: Any, values: Mapping[str, Any], path: str) -> None:
    for key, child in list(state.items()):
        below = f"{path}/{key}" if path else str(key)
        if below in values:
            state[key] = values[below]
        elif isinstance(child, Mapping):
            _replace(child, values, below)


def _dump(value: Any) -> Any:
    return value.dump_io_state() if hasattr(value, "dump_io_state") else value.state_dict()


def check_io_state(name: str, value: Any) -> None:
    """TypeError if it does not give and take a state."""
    if not is_stateful(value) and not all(callable(getattr(value, call, None))
                                          for call in ("dump_io_state", "load_io_state")):
        raise type_error(f"io state {name!r}: expected an object with dump_io_state() and load_io_state(), or "
                         f"state_dict() and load_state_dict(), found {type(value).__name__}")


def put_io_state(value: Any, state: Any) -> None:
    """Gives an io state what was loaded."""
    if hasattr(value, "load_io_state"):
        value.load_io_state(state)
    else:
        value.load_state_dict(state)
