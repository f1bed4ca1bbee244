"""The numbers of ckpt.h by name. A newer library may have more: such a number is kept and called UNKNOWN."""

from __future__ import annotations

import enum

from . import _core


class OpenEnum(enum.IntEnum):
    """An IntEnum that also keeps numbers without a name, as a newer library may return them."""

    @classmethod
    def _missing_(cls, value: object) -> OpenEnum | None:
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_ = cls._name_of(value)
        member._value_ = value
        return member

    @classmethod
    def _name_of(cls, value: int) -> str:
        return "UNKNOWN"

    def __reduce_ex__(self, protocol: object) -> tuple[type[OpenEnum], tuple[int]]:
        return self.__class__, (int(self),)


class Status(OpenEnum):
    """Why a call failed; ckpt.h says which call can fail how. Statuses come in groups of ten."""

    # @status

    @classmethod
    def _name_of(cls, value: int) -> str:
        return _core.status_name(value)  # a newer library may know it


class DType(OpenEnum):
    """What an element is: DLPack's type code * 256 + bits. str() gives the library's name: "bf16"."""

    # @dtype

    def __str__(self) -> str:
        return _core.dtype_name(self)

    @property
    def bits(self) -> int:
        """Bits of one element. Elements of fewer than 8 bits are packed, lowest bits first."""
        return _core.dtype_bits(self)

    @classmethod
    def find(cls, name: str) -> DType:
        """The dtype called `name` ("bf16"). Raises ValueError."""
        number = _core.dtype_find(name)
        if number < 0:
            raise ValueError(f"no dtype is called {name!r}")
        return cls(number)


NUMPY: dict[DType, str] = {
    # @numpy
}
TORCH: dict[DType, str] = {  # an older torch lacks some
    # @torch
}


class Device(OpenEnum):
    """Where memory is, as DLPack numbers it."""

    # @device


class CheckpointState(OpenEnum):
    """COMMITTED can be loaded. OPEN and ABORTED are attempts: not committed yet, and never to be. DAMAGED has a bad
    commit record. REVISION is of a format revision that this library lacks. UNREADABLE
    may be sound, but cannot be read by this user or machine now."""

    # @checkpoint


class CheckpointFlags(enum.IntFlag):
    """FOREIGN: copied here from another store. REBUILT: by force, from an attempt that had not committed. COPY: another
    directory holds the same save under its own name. Of a store with a mirror: MIRRORED: there too. MIRRORING: a copy
    there has begun. MIRROR_ONLY: only there; loads read it there. KEPT: of
    lists and Store.find: it stays until somebody says so (Store.keep)."""

    # @checkpoint_flags


class JobState(OpenEnum):
    """How far a job is; states only grow. DELIVERED: a save with wait=0, not on rank 0, wrote its part and knows no
    more."""

    # @job


class Scope(OpenEnum):
    """Whose bytes an object is: one for all ranks, each rank's own, or a state tree that ranks make together."""

    # @object


class FindingKind(OpenEnum):
    """What a finding of a report is about."""

    # @finding


class OptionKind(OpenEnum):
    """What value an option takes."""

    # @option


class Codec(OpenEnum):
    """How a segment is compressed."""

    # @codec


class Filter(OpenEnum):
    """What is done to bytes before they are compressed."""

    # @filter


class IoEngine(OpenEnum):
    """How files are read and written."""

    # @io


class NodeKind(OpenEnum):
    """What a node of a tree is."""

    # @node


class KeyKind(OpenEnum):
    """What key a node has."""

    # @key
