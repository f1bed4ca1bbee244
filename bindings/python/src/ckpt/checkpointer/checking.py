"""What a save of a state would do, before the first step: its names and sizes, what is refused, and whether it fits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from .. import show
from .._core import Memory
from ..errors import Error
from ..handles import Store
from ..hints import local_path
from ..looks import look
from ..team import Alone
from ..saving import _StateWriter
from ..states import states_of
from ..tables import memory_of


class _Surveyor(_StateWriter):
    """Goes on where a save would be refused."""

    def __init__(self, rank: int, objects: Mapping[int, Any]) -> None:
        super().__init__(rank, objects)
        self.refused: list[str] = []
        self._told: Exception | None = None

    def other(self, value: Any, path: tuple[str, ...]) -> None:
        try:
            super().other(value, path)
        except (TypeError, Error) as error:
            self.refuse(error)
            with suppress(Error):  # in the middle of a record; the tree is not used
                self.tree.add_null()

    def refuse(self, error: TypeError | Error) -> None:
        """Notes an error, once."""
        if error is not self._told:
            self.refused.append(error.message if isinstance(error, Error) else str(error))
        self._told = error


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
    path = local_path(store.uri)
    if path is None:
        return None
    return look(path, store.limit, lambda: _free_bytes(os.path.abspath(path)))


def _free_bytes(path: str) -> int:
    while not os.path.exists(path):
        path = os.path.dirname(path)
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def _survey(state: Any, rank: int) -> _Surveyor:
    try:
        objects = states_of(state, None)
    except Exception as error:  # of an object, whatever it is: the other ranks must not wait for this one
        writer = _Surveyor(rank, {})
        writer.refused.append(str(error))
        return writer
    writer = _Surveyor(rank, objects)
    try:
        writer.write(state)
    except (TypeError, Error) as error:
        writer.refuse(error)
    return writer


def check(store: Store, state: Any, ranks: Alone) -> Check:
    """Surveys the state of every rank."""
    writer = _survey(state, ranks.rank)
    shards = {name: sum(Memory.of(shard.data).nbytes for shard in shards) for name, shards in writer.shards.items()}
    arrays = {**writer.tensors, **writer.owned}
    own = {**shards, **{name: memory_of(table) for name, table in writer.tables.items()}}
    names = {**{name: memory.nbytes for name, memory in arrays.items()}, **own}
    told = ranks.gather((sum(names.values()), sum(own.values()), tuple(writer.refused)))
    whole = max(total - sharded for total, sharded, _ in told)
    refused = [text if len(told) == 1 else f"rank {rank}: {text}"
               for rank, (_, _, texts) in enumerate(told) for text in texts]
    return Check(names, tuple(total for total, _, _ in told), whole + sum(sharded for _, sharded, _ in told),
                 free_bytes(store), tuple(refused))
