"""The sparse tables of a checkpoint, by FORMAT.md alone; part of the reference reader (reference_reader.py)."""
import hashlib
import re
import struct
from math import prod

from reference_grammar import UnsupportedError, require, show

ATTR = b"ckpt.table"


class Table:
    """Table `name`, of which every rule is checked."""

    def __init__(self, checkpoint, name, text):
        self.where, lines = f"table {show(name)}", text.split(b"\n")
        require(lines[0].startswith(b"mod "), f"{self.where}: buckets by {show(lines[0])}", UnsupportedError)
        require(re.fullmatch(rb"mod [1-9][0-9]{0,9}", lines[0]), f"{self.where}: {show(lines[0])}")
        self.buckets, self.columns = int(lines[0][4:]), lines[1:]
        require(self.buckets < 1 << 32, f"{self.where}: {self.buckets} buckets")
        names = [b"ids", b"buckets", *self.columns]
        require(all(self.columns) and len(set(names)) == len(names), f"{self.where}: columns {self.columns}")
        missing = [show(n) for n in names if name + b"/" + n not in checkpoint.tensors]
        alias = checkpoint.aliases.get(name)
        require(not missing, f"{self.where}: {missing} are not there")
        require(alias and not alias.view and alias.target == name + b"/ids", f"{self.where}: not an alias of its ids")
        self.tensors = {n: checkpoint.tensors[name + b"/" + n] for n in names}
        for column, tensor in self.tensors.items():
            legal = tensor.shape and prod(tensor.shape[1:]) and prod(tensor.shape[1:]) * (tensor.dtype % 256) % 8 == 0
            require(legal, f"{self.where}: {show(column)} of shape {tensor.shape}")
        ids, buckets = self.tensors[b"ids"], self.tensors[b"buckets"]
        legal = ids.dtype in (0x0040, 0x0140) and len(ids.shape) == len(buckets.shape) == 1 and buckets.dtype == 0x0140
        require(legal, f"{self.where}: ids or buckets of another kind")
        self.rows = {}  # by id: all columns' bytes
        for part in checkpoint.parts:
            self.add_part(part, name)
        require(all(self.tensors[n].shape[0] == len(self.rows) for n in names if n != b"buckets"),
                f"{self.where}: {len(self.rows)} rows in the parts")

    def add_part(self, part, name):
        data, counts = {}, {}
        for column, tensor in self.tensors.items():
            found = [own for own in part.index.tensors if own.name == name + b"/" + column]
            region = found[0].regions[0] if found and found[0].regions else None
            require(region is None or region.kind == 3, f"{self.where}: {part.where}: {show(column)} is not rows")
            counts[column] = found[0].shape[0] if region else 0
            data[column] = b"".join(part.decoded(s.chunks, s.codec, s.filter, s.width)
                                    for s in (region.segments if region else ()))
        entries, rows = counts.pop(b"buckets"), counts[b"ids"]
        require(set(counts.values()) == {rows}, f"{self.where}: {part.where}: {counts} rows")
        ids = struct.unpack(f"<{rows}Q", data.pop(b"ids"))
        keys = [(i % self.buckets, i) for i in ids]
        require(all(a < b for a, b in zip(keys, keys[1:])), f"{self.where}: {part.where}: rows are not sorted")
        self.check_buckets(part, keys, struct.unpack(f"<{entries}Q", data.pop(b"buckets")))
        widths = {column: len(data[column]) // max(rows, 1) for column in self.columns}
        for at, number in enumerate(ids):
            require(number not in self.rows, f"{self.where}: id {number} in two parts")
            self.rows[number] = b"".join(data[c][at * w:(at + 1) * w] for c, w in widths.items())

    def check_buckets(self, part, keys, starts):
        where = f"{self.where}: {part.where}: {len(starts)} entries"
        require(bool(starts) == bool(keys), f"{where} for {len(keys)} rows")
        if not starts:
            return
        width = -(-self.buckets // len(starts))
        require(-(-self.buckets // width) == len(starts), f"{where} for {self.buckets} buckets")
        expected = [sum(bucket < entry * width for bucket, _ in keys) for entry in range(len(starts))]
        require(list(starts) == expected, f"{where} that are not where the buckets begin")

    def dump(self):
        rows = b"".join(struct.pack("<Q", number) + row for number, row in sorted(self.rows.items()))
        return {"buckets": self.buckets, "columns": [column.decode() for column in self.columns],
                "rows": len(self.rows), "sha256": hashlib.sha256(rows).hexdigest()}


def tables_of(checkpoint):
    """What the tables hold, by name."""
    described = [attr for attr in checkpoint.index.attrs
                 if attr.key == ATTR and attr.value and attr.owner in checkpoint.aliases]
    return {attr.owner.decode(): Table(checkpoint, attr.owner, attr.value).dump() for attr in described}
