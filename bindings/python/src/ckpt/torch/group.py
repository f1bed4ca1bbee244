"""The ranks of torch's default process group. They meet through its key-value store, and talk over a group of gloo's of
their own: so they never take part in what others do in the default group."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ..board import Board, dumps, loads, ranks_text, tell, whats_next
from ..enums import Status
from ..errors import error_of
from ..team import Team

T = TypeVar("T")


class _Store:
    """The key-value store of the default process group. Nothing blocks in it, as others use it, too."""

    def __init__(self, store: Any) -> None:
        # A later process group in the same store finds the keys of this one; its ranks count alike.
        number = store.add(f"ckpt/teams/{dist.get_rank()}", 1)
        self._store = dist.PrefixStore(f"ckpt/{number}/", store)

    def put(self, key: str, value: bytes) -> None:
        self._store.set(key, value)

    def get(self, key: str) -> bytes | None:
        return self._store.get(key) if self._store.check([key]) else None

    def drop(self, key: str) -> None:
        self._store.delete_key(key)


class OfTorch(Team):
    """All ranks of the default process group."""

    def __init__(self) -> None:
        store = dist.distributed_c10d._get_default_store()  # None with MPI, where processes need none
        super().__init__(dist.get_rank(), dist.get_world_size(), store and _Store(store))
        self._group: Any = None
        self._groups = self._works = 0  # how many there were; of these the exchanges in the last that have ended

    @property
    def ready(self) -> bool:
        return self._group is not None

    def _have_met(self, ready: list[bool]) -> None:
        if not all(ready):
            # Collective, so it comes after the meeting: one rank alone would wait in it, and count its groups wrongly.
            self._group = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=self._limit + 10))
            self._groups += 1
            self._count(0)

    def _count(self, works: int) -> None:
        self._works = works
        if self.board is not None:
            self.board.exchanges = self._groups, works

    def _join(self, board: Board) -> None:
        """Others meet while this rank waits in an exchange, so it meets them there: a MismatchError on all, unless they
        begin the same call anew, with a new group."""
        self._group = None
        self._have_met(board.round(*self._about, self.ready, self._limit))

    def meet(self, call: str, same: Mapping[str, object], timeout_ms: Any = None) -> None:
        try:
            super().meet(call, same, timeout_ms)
        except BaseException:
            self._group = None  # others may have theirs no more
            raise

    def most(self, values: Sequence[int]) -> list[int]:
        options = dist.distributed_c10d.AllreduceOptions()
        options.reduceOp, options.timeout = dist.ReduceOp.MAX, datetime.timedelta(seconds=self._limit + 10)
        tensor = torch.tensor(list(values), dtype=torch.int64, device="cpu")  # where gloo is, whatever the default is
        self._finish(lambda: self._group.allreduce([tensor], options))
        return [int(value) for value in tensor]

    def gather(self, value: T) -> list[T]:
        mine = dumps(value)
        sizes = [int(size) for size in self._all(torch.tensor([len(mine)], device="cpu"))]
        padded = torch.zeros(max(sizes), dtype=torch.uint8, device="cpu")
        padded[:len(mine)] = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
        return [loads(bytes(row[:size].numpy())) for row, size in zip(self._all(padded), sizes)]

    def _all(self, mine: torch.Tensor) -> list[torch.Tensor]:
        options = dist.distributed_c10d.AllgatherOptions()
        options.timeout = datetime.timedelta(seconds=self._limit + 10)
        rows = [torch.empty_like(mine) for _ in range(self.size)]
        self._finish(lambda: self._group.allgather([rows], [mine], options))
        return rows

    def _finish(self, start: Any) -> None:
        """Ends a work of the group within the time of this call, and tells who is missing where it takes long."""
        begun, told = time.monotonic(), False
        try:
            work = start()
            while True:
                try:
                    self._ended(work)
                    return self._count(self._works + 1)
                except TimeoutError:
                    if self.board is not None and self.board.others_came():
                        self._join(self.board)
                        work = start()
                    waited = time.monotonic() - begun
                if waited >= self._limit or (waited >= self._tell_after and not told):
                    told = True
                    text, ranks = self._missing(waited)
                    if waited >= self._limit:
                        raise error_of(Status.TIMEOUT, text, {"ranks": ", ".join(map(str, ranks))})
                    tell(text)
        except BaseException:
            self._group = None  # where others may wait for this rank; all make a new one when they meet again
            raise

    def _ended(self, work: Any) -> None:
        """Waits for a second, so that Ctrl-C has its turn."""
        try:
            work.wait(datetime.timedelta(seconds=1))
        except RuntimeError as error:
            if not work.is_completed():
                raise TimeoutError from None
            raise error_of(Status.ABORTED, "a rank of the process group is gone or cannot be reached, so nothing is "
                           f"saved: {str(error).splitlines()[0]}") from error

    def _missing(self, waited: float) -> tuple[str, list[int]]:
        """Those that do not say within a second that they wait as well."""
        ranks: list[int] = []
        if isinstance(self.board, Board):
            name = f"{self._groups}.{self._works}"
            self.board.note(name)
            time.sleep(1)
            ranks = self.board.without_note(name)
        who = ranks_text(ranks) if ranks else "others"
        return f"{self._call} has waited {waited:.0f} s on rank {self.rank} for {who}{whats_next(self._call)}", ranks
