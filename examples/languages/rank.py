"""One rank of a save by ranks in four languages: this one in Python. What is saved: README.md.

    CKPT_SESSION=... rank.py STORE RANK WORLD
"""
import os
import sys

import ckpt
import numpy as np

ROWS, COLUMNS = 96, 32
TABLE_ROWS, TABLE_COLUMNS = 7, 12


def share(count, rank, world):
    """This rank's range [first, end) of `count` items."""
    return count * rank // world, count * (rank + 1) // world


def add_tensors(save, rank, world):
    embedding = np.arange(65536 * 64, dtype=np.float32) / 2 - 7
    save.add_tensor("embedding.weight", embedding.reshape(65536, 64))
    save.add_tensor("head.bias", np.arange(10) * 0.1)

    layer = np.arange(ROWS * COLUMNS, dtype=np.float32)
    first, end = share(ROWS, rank, world)
    weight = layer.reshape(ROWS, COLUMNS)[first:end] / 4
    save.add_tensor("layer.weight", weight, shape=(ROWS, COLUMNS), offset=(first, 0))
    first, end = share(ROWS * COLUMNS, rank, world)
    save.add_tensor("layer.weight.momentum", 1 - layer[first:end] / 8, shape=(ROWS, COLUMNS), flat_offset=first)

    # A view of columns: its memory has gaps; the save takes it as it is.
    table = np.arange(TABLE_ROWS * TABLE_COLUMNS, dtype=np.uint8).reshape(TABLE_ROWS, TABLE_COLUMNS)
    left, right = share(TABLE_COLUMNS, rank, world)
    save.add_tensor("table", table[:, left:right], shape=table.shape, offset=(0, left))


def main():
    place, rank, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with (ckpt.Store(place) as store,
          ckpt.Session(store, rank, world, os.environ.get("CKPT_SESSION"), timeout_ms=60000) as session,
          ckpt.Save(session, "step-3", 3, timeout_ms=60000) as save):
        add_tensors(save, rank, world)
        save.add_object("rng", b"Python", "text/plain", ckpt.Scope.PER_RANK)
        save.run()
        print(f"rank {rank} (Python): saved {save.id}")


if __name__ == "__main__":
    main()
