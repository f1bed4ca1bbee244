"""The ranks of a training: how they agree, and how they form a session."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..errors import Error
from ..frameworks import loaded
from ..handles import Session, Store

T = TypeVar("T")


class Alone:
    """One rank; or one of several that cannot talk to each other, each of which decides alone."""

    def __init__(self, rank: int, size: int) -> None:
        if not 0 <= rank < size:
            raise ValueError(f"rank: expected 0 to {size - 1} for world_size {size}, found {rank}")
        self.rank, self.size = rank, size

    @property
    def agree(self) -> bool:
        """Whether what one rank decides is what all decide."""
        return self.size == 1

    def most(self, values: Sequence[int]) -> list[int]:
        """The largest of each value over all ranks."""
        return list(values)

    def gather(self, value: T) -> list[T]:
        """The values of all ranks that can be asked."""
        return [value]

    def first(self, make: Callable[[], T]) -> T:
        """What rank 0 makes, or raises, on all ranks."""
        return make()

    def session(self, store: Store, options: Mapping[str, Any]) -> Session:
        """A new session of all ranks."""
        if self.size == 1:
            return Session(store, options=options)
        return Session(store, self.rank, self.size, None, {**options, "rendezvous": 1})


class OfTorch(Alone):
    """The ranks of torch's default process group. They talk over gloo, not over the GPUs."""

    def __init__(self, dist: Any) -> None:
        super().__init__(dist.get_rank(), dist.get_world_size())
        self._dist = dist
        # A collective call: every rank makes its Checkpointer.
        self._group = None if "gloo" in dist.get_backend() else dist.new_group(backend="gloo")

    @property
    def agree(self) -> bool:
        return True

    def most(self, values: Sequence[int]) -> list[int]:
        import torch
        tensor = torch.tensor(list(values), dtype=torch.int64, device="cpu")
        self._dist.all_reduce(tensor, op=self._dist.ReduceOp.MAX, group=self._group)
        return [int(value) for value in tensor]

    def gather(self, value: T) -> list[T]:
        out: list[Any] = [None] * self.size
        self._dist.all_gather_object(out, value, group=self._group)
        return out

    def first(self, make: Callable[[], T]) -> T:
        told: list[Any] = [None, None]
        if self.rank == 0:
            try:
                told[0] = make()
            except (Error, ValueError, OSError) as error:
                told[1] = error
            except Exception as error:  # one that may not survive its way to the other ranks
                told[1] = RuntimeError(f"rank 0: {type(error).__name__}: {error}")
        self._dist.broadcast_object_list(told, src=0, group=self._group, device="cpu")
        if told[1] is not None:
            raise told[1]
        return told[0]  # type: ignore[no-any-return]

    def session(self, store: Store, options: Mapping[str, Any]) -> Session:
        made: list[Session] = []

        def open_first() -> str:
            made.append(Session(store, 0, self.size, None, options))
            return made[0].string

        text = self.first(open_first)
        return made[0] if made else Session(store, self.rank, self.size, text, options)


def ranks_of(rank: int | None, world_size: int | None) -> Alone:
    """The ranks as the caller numbers them, else those of torch's process group, else one."""
    if rank is not None or world_size is not None:
        if rank is None or world_size is None:
            raise ValueError("rank= and world_size= belong together")
        return Alone(rank, world_size)
    dist = loaded("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        return OfTorch(dist)
    return Alone(0, 1)


def template_variables(ranks: Alone) -> dict[str, object]:
    """What of the ranks a label may name."""
    return {"world_size": ranks.size, "local_world_size": int(os.environ.get("LOCAL_WORLD_SIZE", ranks.size))}
