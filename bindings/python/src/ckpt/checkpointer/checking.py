"""What a save of a state would do, before the first step: its names and sizes, what is refused, and whether it fits."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from .. import show
from .._core import Memory
from ..errors import Error
from ..handles import Store
from ..saving import _StateWriter
from .ranks import Alone
from .states import values_of


class _Surveyor(_StateWriter):
    """Goes on where a save would be refused."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self.refused: list[str] = []
        self._told: Exception | None = None

    def write(self, value: Any, path: tuple[str, ...] = ()) -> None:
        try:
            super().write(value, path)
        except (TypeError, Error) as error:
            if error is not self._told:
                self.refused.append(error.message if isinstance(error, Error) else str(error))
            self._told = error
            if type(value) in (dict, list, tuple):  # begun and not ended: the tree cannot go on
                raise
            self.tree.add_null()


@dataclass(frozen=True)
class Check:
    """What a save of a state would do; nothing was written."""

    names: dict[str, int]  # tensors of this rank, and their bytes
    bytes_by_rank: tuple[int, ...]  # memory that each rank holds; of ranks that could be asked
    bytes: int  # what a checkpoint takes at most: tensors that all ranks hold are written once
    free: int | None  # bytes that are free where the store is; None if that is not known
    refused: tuple[str, ...] = field(default=())  # what would be an error, on any rank

    @property
    def ok(self) -> bool:
        """Whether nothing is refused, and one checkpoint fits."""
        return not self.refused and (self.free is None or self.bytes <= self.free)

    def __repr__(self) -> str:
        rows = [[name, show.size(count)] for name, count in self.names.items()]
        free = "unknown" if self.free is None else show.size(self.free)
        title = (f"<ckpt.Check: {'ok' if self.ok else 'REFUSED'}, {len(self.names)} tensors, {show.size(self.bytes)} "
                 f"a checkpoint, free: {free}>")
        return "\n".join([show.text_table(title, ["tensor", "size"], rows),
                          *(f"  refused: {text}" for text in self.refused)])


def free_bytes(store: Store) -> int | None:
    """What is free in the file system of the store; None for one in memory or in a bucket."""
    path = store.uri.removeprefix("file://")
    if path.startswith(("mem:", "s3://")):
        return None
    path = os.path.abspath(path)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def check(store: Store, state: Any, ranks: Alone) -> Check:
    """Surveys the state of every rank."""
    writer = _Surveyor(ranks.rank)
    try:
        writer.write(values_of(state))
    except (TypeError, Error):
        pass  # it is in the list
    shards = {name: Memory.of(shard.data).nbytes for name, shard in writer.shards.items()}
    names = {**{name: memory.nbytes for name, memory in writer.tensors.items()}, **shards}
    told = ranks.gather((sum(names.values()), sum(shards.values()), tuple(writer.refused)))
    whole = max(total - sharded for total, sharded, _ in told)
    refused = [text if len(told) == 1 else f"rank {rank}: {text}"
               for rank, (_, _, texts) in enumerate(told) for text in texts]
    return Check(names, tuple(total for total, _, _ in told), whole + sum(sharded for _, sharded, _ in told),
                 free_bytes(store), tuple(refused))
