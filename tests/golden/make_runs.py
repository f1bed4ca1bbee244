#!/usr/bin/env python3
"""make_runs.py DIRECTORY: makes the golden checkpoint DIRECTORY/r1/runs-by-hand and its .json, a table in runs with what
TABLE_RUNS.md allows and the library does not write; and hostile ones DIRECTORY/bad/STATUS-runs-what, of which all digests
are right.

Run once; the results are committed.
"""
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from golden_test import IDENTITY, canonical  # noqa: E402  (found by the path above)
from reference_reader import read_checkpoint, runs_of  # noqa: E402
from reference_writer import U8, PartWriter, base_summary, manifest_of, write_checkpoint  # noqa: E402

U64 = 0x140
FORMS = {U8: "B", 0x008: "b", U64: "Q"}


WORLD = 3


class Drawn:
    """Table t in 4 buckets, of one column. In the end part 0 has ids 4, 5 and 8, part 1 has 1 and 2, and part 2 has 3."""

    def __init__(self):
        self.attrs = {b"ckpt.table": b"mod 4\nc", b"ckpt.table.runs": b"newest"}
        self.features = 2
        self.dtypes = {}  # by tensor, where it is another one
        self.live = {0: [3], 1: [2], 2: [1]}
        self.buckets = {}  # by tensor, where they are others
        # By run: what each part has, and what it removes.
        self.runs = {0: ({0: [4, 8, 1], 1: [2, 6], 2: [3]}, None),
                     1: ({0: [8, 5]}, {0: [1, 3], 1: [4, 6]}),
                     2: ({1: [1]}, {})}

    def tensors(self):
        """By name, the numbers of each part."""
        found = {} if self.live is None else {"t/run-live": self.live}
        for run, (rows, removed) in self.runs.items():
            name = f"t/run-{run}" if run else "t"
            if rows is not None:
                found[name + "/c"] = {part: [(id + 7 * run) % 128 for id in ids] for part, ids in rows.items()}
            for layer, held in ((name, rows), (name + "-removed", removed)):
                if held is not None:
                    found.update({layer + "/ids": held, layer + "/buckets": {part: [0] for part in held}})
        return dict(sorted((found | self.buckets).items()))

    def write(self, folder):
        identity = dict(base_summary(), world_size=WORLD, required_features=self.features)
        attrs = [[b"t", key, value] for key, value in self.attrs.items()]
        aliases = [[b"t", b"t/ids", None]]
        parts, tensors, layouts, at, records = [], [], [], 0, []
        for rank in range(WORLD):
            part, own = PartWriter(rank, identity), []
            for name, held in self.tensors().items():
                numbers, dtype = held.get(rank, []), self.dtype_of(name)
                raw = struct.pack(f"<{len(numbers)}{FORMS[dtype]}", *numbers)
                regions = [part.region(3, (), len(numbers), raw)] if numbers else []
                own.append([name.encode(), (dtype, (len(numbers),), regions)])
            parts.append(part.finish(dict(tensors=own, objects=[], aliases=aliases, attrs=attrs)))
        for name, held in self.tensors().items():
            dtype, holders = self.dtype_of(name), sorted(held)
            layout = [2 if holders else 0, [], len(holders), list(runs_of(holders))]
            layouts += [layout] * (layout not in layouts)
            count = sum(map(len, held.values()))
            holding = [count * struct.calcsize("<" + FORMS[dtype]), len(holders), layouts.index(layout)]
            tensors.append([name.encode(), [dtype, (count,), [], holding]])
        for part in parts:
            records.append(part.record[:3] + [at] + part.record[4:])
            at += -(-len(part.index) // 64) * 64
        content = dict(tensors=tensors, objects=[], aliases=aliases, attrs=attrs, parts=records, layouts=layouts,
                       copies=[part.index for part in parts])
        write_checkpoint(folder, manifest_of(content, required_features=self.features), parts)

    def dtype_of(self, name):
        return self.dtypes.get(name, U8 if name.endswith("/c") else U64)


def no_runs(table):
    del table.attrs[b"ckpt.table.runs"]
    table.runs, table.live = {0: table.runs[0]}, None


def wrong_buckets(table):
    """No runs. In part 0 buckets 2 and 3 begin after ids 4, 8 and 1."""
    no_runs(table)
    table.features, table.buckets = 0, {"t/buckets": {0: [0, 2], 1: [0], 2: [0]}}


BAD = {
    "FORMAT-buckets-before-their-place": wrong_buckets,
    "FORMAT-runs-buckets-after-their-place": lambda table: table.buckets.update({"t/run-2/buckets": {1: [0, 1, 1, 1]}}),
    "FORMAT-runs-feature-alone": no_runs,
    "FORMAT-runs-no-feature": lambda table: setattr(table, "features", 0),
    "FORMAT-runs-none": lambda table: setattr(table, "runs", {0: table.runs[0]}),
    "FORMAT-runs-not-live": lambda table: table.live.pop(0),
    "FORMAT-runs-of-another-dtype": lambda table: table.dtypes.update({"t/run-1/c": 0x008}),
    "FORMAT-runs-that-remove-what-they-have": lambda table: table.runs[1][1].update({0: [8, 1]}),
    "FORMAT-runs-that-only-remove": lambda table: table.runs.update({2: (None, {1: [3]})}) or table.live.update({1: [1]}),
    "FORMAT-runs-with-a-hole": lambda table: table.runs.update({3: table.runs.pop(2)}) or table.live.update({1: [1]}),
    "FORMAT-runs-without-removed": lambda table: table.runs.update({2: ({1: [1]}, None)}),
    "MISMATCH-runs-live": lambda table: table.live.update({0: [4]}),
    "MISMATCH-runs-live-of-each-part": lambda table: table.live.update({0: [4], 2: [0]}),
    "MISMATCH-runs-with-an-id-in-two-parts": lambda table: table.runs.update({2: ({1: [5]}, {})}),
    "UNSUPPORTED-runs-by-nothing": lambda table: table.attrs.update({b"ckpt.table.runs": b""}),
}


def main(directory):
    folder = os.path.join(directory, "r1", "runs-by-hand")
    Drawn().write(folder)
    found = read_checkpoint(folder).dump()
    assert found["tables"]["t"]["rows"] == 6
    found["identity"] = {field: found["identity"][field] for field in IDENTITY}
    with open(folder + ".json", "w", encoding="utf-8") as out:
        out.write(canonical(found))
    for name, change in BAD.items():
        table = Drawn()
        change(table)
        table.write(os.path.join(directory, "bad", name))


if __name__ == "__main__":
    main(sys.argv[1])
