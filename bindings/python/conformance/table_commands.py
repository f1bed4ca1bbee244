"""table.*, share.*: sparse tables; what a save and a load say of them."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import ckpt

from runner import Commands, Failure, Runner, numbers_in, record


@dataclass
class Rows:
    """What Save.add_table takes."""

    ids: "memoryview[int]"
    rows_per_block: int
    more: dict[str, Any]  # keyword arguments
    columns: dict[str, Any] = field(default_factory=dict)
    raw: dict[str, tuple[int | str, tuple[int, ...]]] = field(default_factory=dict)


def words_in(memory: bytearray, code: Literal["q", "Q"]) -> "memoryview[int]":
    """The memory as 64-bit integers."""
    return memoryview(memory).cast("B").cast(code)


def table_new(r: Runner) -> None:
    more: dict[str, Any] = {}
    if (buckets := r.key("buckets")) is not None:
        more["bucket_count"] = int(buckets)
    if (positions := r.key("positions")) is not None:
        more["positions"] = words_in(r.named(positions, bytearray), "Q")
    if r.words[1] not in ("i64", "u64"):
        raise Failure(f"expected i64 or u64, found {r.words[1]}")
    ids = words_in(r.data(2) or bytearray(), "q" if r.words[1] == "i64" else "Q")
    r.put(0, Rows(ids, int(r.key("rows_per_block") or "0"), more))


def table_column(r: Runner) -> None:
    rows, name, dtype, shape = r.get(0, Rows), r.words[1], r.words[2], numbers_in(r.words[3])
    given = int(dtype) if dtype.isdigit() else dtype
    memory = memoryview(r.data(4) or bytearray())
    bits = ckpt.dtype_bits(ckpt.dtype_find(given) if isinstance(given, str) else given)
    step = rows.rows_per_block * bits * math.prod(shape) // 8
    rows.raw[name] = given, shape
    rows.columns[name] = [memory[at:at + step] for at in range(0, len(memory), step)] if step else memory


def save_table(r: Runner) -> None:
    rows = r.get(2, Rows)
    r.get(0, ckpt.Save).add_table(r.words[1], rows.ids, rows.columns, raw=rows.raw, **rows.more)


def rows_of(r: Runner) -> ckpt.Rowset:
    kinds = {"buckets": ckpt.Rowset.buckets, "slice": ckpt.Rowset.slice, "mod": ckpt.Rowset.mod}
    for key, make in kinds.items():
        if (given := r.numbers(key)) is not None:
            return make(given[0], given[1])
    ids = r.key("ids")
    return ckpt.Rowset.all() if ids is None else ckpt.Rowset.ids(words_in(r.named(ids, bytearray), "Q"))


def share_open(r: Runner) -> None:
    window = int(r.key("window") or "0")
    r.put(0, r.get(1, ckpt.Reader).share(r.words[2], rows_of(r), window_rows=window, options=r.options,
                                             job=r.call_job()))


def table_of(r: Runner) -> ckpt.TableInfo:
    return r.get(0, ckpt.Reader).table(r.words[1])


def share_of(r: Runner) -> ckpt.Share:
    return r.get(0, ckpt.Share)


def load_table(r: Runner) -> None:
    pairs = [word.rpartition(":") for word in r.words[4:]]
    columns = {name: r.named(memory, bytearray) for name, _, memory in pairs}
    ids = words_in(r.get(3, bytearray), "Q") if r.words[3] else None
    r.get(0, ckpt.Load).add_table(r.get(1, ckpt.Share), ids, columns, r.number(2))


COMMANDS: Commands = {
    "table.new": table_new,
    "table.column": table_column,
    "save.table": save_table,
    "reader.tables": lambda r: [info.name for info in r.get(0, ckpt.Reader).tables()],
    "reader.table": lambda r: record(table_of(r), column_count=table_of(r).column_count),
    "reader.column": lambda r: record(table_of(r).columns[r.number(2)]),
    "share.open": share_open,
    "share.info": lambda r: {"row_count": str(share_of(r).row_count), "window_count": str(share_of(r).window_count),
                             "most_rows": str(share_of(r).most_rows), "missing_count": str(len(share_of(r).missing))},
    "share.rows": lambda r: [str(share_of(r).rows_of(r.number(1)))],
    "share.missing": lambda r: [str(id % 2**64) for id in share_of(r).missing],
    "load.table": load_table,
}
