#!/usr/bin/env python3
"""make_by_hand.py DIRECTORY: makes the golden checkpoint DIRECTORY/by-hand and its .json, which FORMAT.md allows and the
library does not write: several segments of one region in one part, in turns with another part.

Run once; the result is committed.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from golden_test import IDENTITY, canonical  # noqa: E402  (found by the path above)
from reference_reader import read_checkpoint  # noqa: E402
from reference_writer import F6, U4, U8, PartWriter, base_summary, manifest_of, write_checkpoint  # noqa: E402

WORLD = 5
GRID = bytes(range(24))  # 4 rows of 6, in cells of 2 by 3
NIBBLES = bytes(17 * i % 256 for i in range(50)) + b"\x0b"  # 101 elements
SIXES = bytes(range(1, 7))  # 8 elements


def cell(row, column):
    return b"".join(GRID[6 * r + column:][:3] for r in (row, row + 1))


# For each tensor: dtype, shape, number of its layout, and (part, kind, numbers of the region, start, count, raw bytes).
TENSORS = {
    b"grid": (U8, (4, 6), 0, [
        (0, 1, (0, 0, 2, 3), 0, 2, cell(0, 0)[:2]), (3, 1, (0, 0, 2, 3), 2, 4, cell(0, 0)[2:]),
        (1, 1, (0, 3, 2, 3), 0, 6, cell(0, 3)),
        (2, 1, (2, 0, 2, 3), 0, 6, cell(2, 0)),
        (4, 1, (2, 3, 2, 3), 0, 1, cell(2, 3)[:1]), (0, 1, (2, 3, 2, 3), 1, 3, cell(2, 3)[1:4]),
        (4, 1, (2, 3, 2, 3), 4, 2, cell(2, 3)[4:])]),
    b"nibbles": (U4, (101,), 1, [
        (0, 0, (), 0, 40, NIBBLES[:20]), (2, 0, (), 40, 20, NIBBLES[20:30]), (0, 0, (), 60, 41, NIBBLES[30:])]),
    b"sixes": (F6, (8,), 2, [(1, 0, (), 0, 4, SIXES[:3]), (4, 0, (), 4, 4, SIXES[3:])]),
}
LAYOUTS = [[1, [2, 2], 2, [(0, 2, 3), (1, 2, 0), (2, 2, 0), (4, 2, -4)]], [0, [], 2, [(0, 2, 2)]],
           [0, [], 2, [(1, 2, 3)]]]


def compose():
    summary = dict(base_summary(), world_size=WORLD)
    parts = []
    for rank in range(WORLD):
        part, tensors = PartWriter(rank, summary), []
        for name, (dtype, shape, _, pieces) in TENSORS.items():
            regions = []
            for holder, kind, numbers, start, count, raw in pieces:
                if holder != rank:
                    continue
                region = part.region(kind, numbers, count, raw, start=start)
                if regions and regions[-1][:2] == region[:2]:
                    regions[-1][2] += region[2]
                else:
                    regions.append(region)
            if regions:
                tensors.append([name, (dtype, shape, regions)])
        parts.append(part.finish(dict(tensors=tensors, objects=[], aliases=[], attrs=[])))
    return parts


def merge(parts):
    at, records = 0, []
    for part in parts:
        records.append(part.record[:3] + [at] + part.record[4:])
        at += -(-len(part.index) // 64) * 64
    tensors = [[name, [dtype, shape, [], [sum(len(piece[5]) for piece in pieces), len(pieces), layout]]]
               for name, (dtype, shape, layout, pieces) in TENSORS.items()]
    return dict(tensors=tensors, aliases=[], objects=[], attrs=[], parts=records, layouts=LAYOUTS,
                copies=[part.index for part in parts])


def main(directory):
    parts = compose()
    folder = write_checkpoint(os.path.join(directory, "by-hand"), manifest_of(merge(parts)), parts)
    checkpoint = read_checkpoint(folder)
    for name, expected in ((b"grid", GRID), (b"nibbles", NIBBLES), (b"sixes", SIXES)):
        assert checkpoint.tensor(name.decode()) == expected, name
    found = checkpoint.dump()
    found["identity"] = {field: found["identity"][field] for field in IDENTITY}
    with open(folder + ".json", "w", encoding="utf-8") as out:
        out.write(canonical(found))


if __name__ == "__main__":
    main(sys.argv[1])
