"""The sparse tables of a checkpoint, by FORMAT.md and TABLE_RUNS.md alone; part of reference_reader.py."""
import hashlib
import re
import struct
from math import prod

from reference_grammar import UnsupportedError, require, show
from reference_index import RUNS
from reference_tree import MismatchError

ATTR = b"ckpt.table"
U64 = 0x0140


def column_of(part, name, where):
    """How many rows a part has of a tensor, and their bytes."""
    found = [own for own in part.index.tensors if own.name == name]
    region = found[0].regions[0] if found and found[0].regions else None
    require(region is None or region.kind == 3, f"{where}: {part.where}: {show(name)} is not rows")
    segments = region.segments if region else ()
    return (found[0].shape[0] if region else 0,
            b"".join(part.decoded(s.chunks, s.codec, s.filter, s.width) for s in segments))


class Layer:
    """Rows by id under `name`: those of a run of a table, or the ids that a run removes, without columns."""

    def __init__(self, checkpoint, table, name, columns):
        self.table, self.where, self.columns = table, f"{table.where}: {show(name)}", columns
        names = [b"ids", b"buckets", *columns]
        missing = [show(n) for n in names if name + b"/" + n not in checkpoint.tensors]
        require(not missing, f"{self.where}: {missing} are not there")
        self.tensors = {n: checkpoint.tensors[name + b"/" + n] for n in names}
        for column, tensor in self.tensors.items():
            legal = tensor.shape and prod(tensor.shape[1:]) and prod(tensor.shape[1:]) * (tensor.dtype % 256) % 8 == 0
            require(legal, f"{self.where}: {show(column)} of shape {tensor.shape}")
        ids, buckets = self.tensors[b"ids"], self.tensors[b"buckets"]
        legal = ids.dtype in (0x0040, U64) and len(ids.shape) == len(buckets.shape) == 1 and buckets.dtype == U64
        require(legal, f"{self.where}: ids or buckets of another kind")
        self.rows = {part.rank: self.rows_of(part, name) for part in checkpoint.parts}  # of each part, by id
        total = sum(map(len, self.rows.values()))
        require(all(self.tensors[n].shape[0] == total for n in names if n != b"buckets"),
                f"{self.where}: {total} rows in the parts")

    def like(self, column):
        tensor = self.tensors[column]
        return tensor.dtype, tensor.shape[1:]

    def rows_of(self, part, name):
        data, counts = {}, {}
        for column in self.tensors:
            counts[column], data[column] = column_of(part, name + b"/" + column, self.where)
        entries, rows = counts.pop(b"buckets"), counts[b"ids"]
        require(set(counts.values()) == {rows}, f"{self.where}: {part.where}: {counts} rows")
        ids = struct.unpack(f"<{rows}Q", data.pop(b"ids"))
        keys = [(i % self.table.buckets, i) for i in ids]
        require(all(a < b for a, b in zip(keys, keys[1:])), f"{self.where}: {part.where}: rows are not sorted")
        self.check_buckets(part, keys, struct.unpack(f"<{entries}Q", data.pop(b"buckets")))
        widths = {column: len(data[column]) // max(rows, 1) for column in self.columns}
        return {number: b"".join(data[c][at * w:(at + 1) * w] for c, w in widths.items())
                for at, number in enumerate(ids)}

    def check_buckets(self, part, keys, starts):
        where = f"{self.where}: {part.where}: {len(starts)} entries"
        require(bool(starts) == bool(keys), f"{where} for {len(keys)} rows")
        if not starts:
            return
        width = -(-self.table.buckets // len(starts))
        require(-(-self.table.buckets // width) == len(starts), f"{where} for {self.table.buckets} buckets")
        expected = [sum(bucket < entry * width for bucket, _ in keys) for entry in range(len(starts))]
        require(list(starts) == expected, f"{where} that are not where the buckets begin")


class Table:
    """Table `name`, of which every rule is checked."""

    def __init__(self, checkpoint, name, text, runs):
        self.where, lines = f"table {show(name)}", text.split(b"\n")
        require(lines[0].startswith(b"mod "), f"{self.where}: buckets by {show(lines[0])}", UnsupportedError)
        require(re.fullmatch(rb"mod [1-9][0-9]{0,9}", lines[0]), f"{self.where}: {show(lines[0])}")
        self.buckets, self.columns = int(lines[0][4:]), lines[1:]
        require(self.buckets < 1 << 32, f"{self.where}: {self.buckets} buckets")
        names = {b"ids", b"buckets", *self.columns}
        legal = all(c and not c.startswith(b"run-") for c in self.columns) and len(names) == len(self.columns) + 2
        require(legal, f"{self.where}: columns {self.columns}")
        alias = checkpoint.aliases.get(name)
        require(alias and not alias.view and alias.target == name + b"/ids", f"{self.where}: not an alias of its ids")
        first = Layer(checkpoint, self, name, self.columns)
        newest = {rank: dict(rows) for rank, rows in first.rows.items()}  # of each part
        if runs is not None:
            self.add_runs(checkpoint, name, runs, first, newest)
        self.rows = {}  # by id: all columns' bytes
        for rank, rows in newest.items():
            twice = self.rows.keys() & rows.keys()
            require(not twice, f"{self.where}: part {rank} has ids {sorted(twice)[:5]} of parts before", MismatchError)
            self.rows.update(rows)

    def add_runs(self, checkpoint, name, rule, first, newest):
        require(rule == b"newest", f"{self.where}: runs by {show(rule)}", UnsupportedError)
        with_runs, last = set(), max((run for run in range(1, 65) for kind in (b"", b"-removed")
                                      if name + b"/run-%d%s/ids" % (run, kind) in checkpoint.tensors), default=0)
        require(1 <= last < 64, f"{self.where}: the last run is {last}")
        for run in range(1, last + 1):
            rows = Layer(checkpoint, self, name + b"/run-%d" % run, self.columns)
            removed = Layer(checkpoint, self, name + b"/run-%d-removed" % run, [])
            require(all(rows.like(c) == first.like(c) for c in [b"ids", *self.columns]) and
                    removed.like(b"ids") == first.like(b"ids"), f"{rows.where}: of another kind than run 0")
            for rank in newest:
                both = rows.rows[rank].keys() & removed.rows[rank].keys()
                require(not both, f"{rows.where}: part {rank} has and removes {sorted(both)[:5]}")
                for number in removed.rows[rank]:
                    newest[rank].pop(number, None)
                newest[rank].update(rows.rows[rank])
                if rows.rows[rank] or removed.rows[rank]:
                    with_runs.add(rank)
        self.check_live(checkpoint, name + b"/run-live", newest, with_runs)

    def check_live(self, checkpoint, name, newest, with_runs):
        tensor = checkpoint.tensors.get(name)
        require(tensor and (tensor.dtype, len(tensor.shape)) == (U64, 1), f"{self.where}: no {show(name)}")
        for part in checkpoint.parts:
            _, data = column_of(part, name, self.where)
            live = struct.unpack(f"<{len(data) // 8}Q", data)
            legal = len(live) == 1 or not live and part.rank not in with_runs
            require(legal, f"{self.where}: {part.where}: counts {live}")
            require(not live or live[0] == len(newest[part.rank]),
                    f"{self.where}: {part.where}: {len(newest[part.rank])} rows, {live} counted", MismatchError)

    def dump(self):
        rows = b"".join(struct.pack("<Q", number) + row for number, row in sorted(self.rows.items()))
        return {"buckets": self.buckets, "columns": [column.decode() for column in self.columns],
                "rows": len(self.rows), "sha256": hashlib.sha256(rows).hexdigest()}


def tables_of(checkpoint):
    """What the tables hold, by name."""
    values = {(attr.owner, attr.key): attr.value for attr in checkpoint.index.attrs}
    return {owner.decode(): Table(checkpoint, owner, text, values.get((owner, RUNS))).dump()
            for (owner, key), text in values.items() if key == ATTR and text and owner in checkpoint.aliases}
