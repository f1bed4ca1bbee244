"""Two hash tables that follow ckpt.recis.HashTable: the worked examples of managers.md. A trainer's own has the same
four members, whatever it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ckpt
import numpy as np


class NumpyTable:
    """A dict from ids to places in an array of numpy for each column, which grow."""

    framework = "numpy"

    def __init__(self, **columns: int) -> None:
        self.columns = tuple(columns)
        self.places: dict[int, int] = {}
        self.arrays: dict[str, Any] = {name: np.zeros((4, width), np.float32) for name, width in columns.items()}

    def rows(self, ids: Any) -> Any:
        """The places of these ids; new ones get a row of zeros."""
        places = np.array([self.places.setdefault(int(id), len(self.places)) for id in ids], int)
        for name, array in self.arrays.items():
            if len(self.places) > len(array):
                more = max(len(array), len(self.places) - len(array))
                self.arrays[name] = np.concatenate([array, np.zeros((more, array.shape[1]), array.dtype)])
        return places

    def export_rows(self) -> ckpt.Table:
        return ckpt.Table(np.fromiter(self.places, np.int64, len(self.places)),
                          {name: array[:len(self.places)] for name, array in self.arrays.items()})

    def no_rows(self) -> ckpt.Table:
        return ckpt.Table(np.empty(0, np.int64), {name: array[:0] for name, array in self.arrays.items()})

    def insert_rows(self, ids: Any, columns: Mapping[str, Any]) -> None:
        places = self.rows(ids)
        for name, rows in columns.items():
            self.arrays[name][places] = rows

    def clear(self) -> None:
        self.places.clear()
        for array in self.arrays.values():
            array[:] = 0


def torch_table(torch: Any, width: int) -> Any:
    """A table of torch: sorted ids, and rows in the same order."""

    class TorchTable:
        framework = "torch"
        columns = ("embedding", "exp_avg")

        def __init__(self) -> None:
            self.clear()

        def clear(self) -> None:
            self.ids = torch.empty(0, dtype=torch.int64)
            self.values = {name: torch.empty(0, width) for name in self.columns}

        def export_rows(self) -> ckpt.Table:
            return ckpt.Table(self.ids, dict(self.values))

        def no_rows(self) -> ckpt.Table:
            return ckpt.Table(torch.empty(0, dtype=torch.int64), {name: torch.empty(0, width) for name in self.columns})

        def insert_rows(self, ids: Any, columns: Mapping[str, Any]) -> None:
            known, old = torch.unique(torch.cat([self.ids, ids])), self.ids
            for name in self.columns:
                values = torch.zeros(len(known), width)
                values[torch.searchsorted(known, old)] = self.values[name]
                if name in columns:
                    values[torch.searchsorted(known, ids)] = columns[name]
                self.values[name] = values
            self.ids = known

    return TorchTable()
