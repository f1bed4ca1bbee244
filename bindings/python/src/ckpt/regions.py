"""What belongs to one rank: regions of a tensor that is spread over ranks, and PerRank values. Knows no framework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .arguments import check

Replica: TypeAlias = tuple[int, int, int]  # group, this rank's place in it, how many ranks it has


@dataclass(frozen=True)
class Shard:
    """This rank's region of a tensor, as a leaf of the state: a box at `offset` whose extent is the shape of `data`, or
    a flat range that starts at element `flat_offset` of the tensor flattened in row-major order.

    `shape` is the whole tensor's. `replica` = (group, index, count) if other ranks hold the same region: a number that
    names the replica group, this rank's place in it, and how many ranks it has.
    """

    data: Any
    shape: tuple[int, ...]
    offset: tuple[int, ...] | None = None
    flat_offset: int | None = None
    replica: Replica | None = None

    def __post_init__(self) -> None:
        check(vars(self))

    @property
    def where(self) -> tuple[object, ...]:
        """Which region it is; equal on ranks that hold the same one."""
        return self.shape, tuple(self.data.shape), self.offset, self.flat_offset


@dataclass(frozen=True, eq=False)
class Regions:
    """All regions of one tensor that this rank holds: several, one or none."""

    shards: tuple[Shard, ...]
    tensor: Any
    """The object whose memory they are: a DTensor, a ShardedTensor, a flat parameter or its optimizer state."""
    identity: object
    """Equal for two names of the same regions of the same memory (tied weights), also where these are empty."""
    elsewhere: bool
    """Whether ranks that `tensor` knows nothing of may hold the same regions, as in tensor parallel under DDP."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole tensor."""
        return self.shards[0].shape if self.shards else tuple(self.tensor.shape)


PER_RANK = "ckpt.PerRank"


@dataclass(frozen=True)
class PerRank:
    """What is this rank's own, as a leaf of the state: a random state, the position of a data loader.

    All else that several ranks have at one place must be equal. A load gives each rank the value that it saved itself.
    On another number of ranks than saved it, that is a MismatchError, unless the load says or_rank0=True: then each
    rank has its own value, or rank 0's. Only ckpt.random_states() fit any number.
    """

    value: Any


@dataclass(frozen=True)
class Whose:
    """Whose PerRank values a load takes. `size`: how many ranks load; None: the caller does not say."""

    rank: int
    size: int | None = None
    or_rank0: bool = False

    def differs(self, saved: int) -> bool:
        """Whether another number of ranks saved, as far as is known, or this rank did not."""
        return self.rank >= saved if self.size is None else self.size != saved


def replica_of(rank: int, ranks: Sequence[int]) -> Replica | None:
    """This rank's place among the ranks that hold the same; all of them name their group alike."""
    if len(ranks) < 2:
        return None
    import hashlib  # not before it is needed
    members = sorted(ranks)
    digest = hashlib.blake2b(",".join(map(str, members)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little"), members.index(rank), len(members)
