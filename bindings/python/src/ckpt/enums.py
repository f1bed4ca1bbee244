"""The numbers of ckpt.h by name. A newer library may have more: such a number is kept and called UNKNOWN."""

from __future__ import annotations

import enum
from typing import Any

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

    def __reduce_ex__(self, protocol: Any) -> tuple[type[OpenEnum], tuple[int]]:
        return self.__class__, (int(self),)


class Status(OpenEnum):
    """Why a call failed; ckpt.h says which call can fail how. Statuses come in groups of ten."""

    OK = 0
    INVALID = 10
    UNSUPPORTED = 11
    FORKED = 12
    CANCELLED = 13
    NOT_FOUND = 20
    EXISTS = 21
    GONE = 22
    CORRUPT = 30
    FORMAT = 31
    REVISION = 32
    INCOMPLETE = 33
    MISMATCH = 40
    CONFLICT = 41
    FENCED = 42
    ABORTED = 43
    TIMEOUT = 44
    COMMIT_UNKNOWN = 45
    IO = 50
    NO_SPACE = 51
    NOMEM = 52
    INTERNAL = 60

    @classmethod
    def _name_of(cls, value: int) -> str:
        return _core.status_name(value)  # a newer library may know it


class DType(OpenEnum):
    """What an element is: DLPack's type code * 256 + bits. str() gives the library's name: "bf16"."""

    I4 = 0x0004
    I8 = 0x0008
    I16 = 0x0010
    I32 = 0x0020
    I64 = 0x0040
    U4 = 0x0104
    U8 = 0x0108
    U16 = 0x0110
    U32 = 0x0120
    U64 = 0x0140
    F16 = 0x0210
    F32 = 0x0220
    F64 = 0x0240
    BF16 = 0x0410
    C32 = 0x0520
    C64 = 0x0540
    C128 = 0x0580
    BOOL = 0x0608
    F8_E3M4 = 0x0708
    F8_E4M3 = 0x0808
    F8_E4M3B11FNUZ = 0x0908
    F8_E4M3FN = 0x0A08
    F8_E4M3FNUZ = 0x0B08
    F8_E5M2 = 0x0C08
    F8_E5M2FNUZ = 0x0D08
    F8_E8M0FNU = 0x0E08
    F6_E2M3FN = 0x0F06
    F6_E3M2FN = 0x1006
    F4_E2M1FN = 0x1104

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


class Device(OpenEnum):
    """Where memory is, as DLPack numbers it."""

    CPU = 1
    CUDA = 2
    CUDA_HOST = 3
    CUDA_MANAGED = 13


class CheckpointState(OpenEnum):
    """COMMITTED can be loaded. OPEN and ABORTED are attempts: not committed yet, and never to be. DAMAGED has a bad
    commit record. REVISION is of a format revision that this library lacks. UNREADABLE
    may be sound, but cannot be read by this user or machine now."""

    COMMITTED = 1
    OPEN = 2
    ABORTED = 3
    DAMAGED = 4
    REVISION = 5
    UNREADABLE = 6


class CheckpointFlags(enum.IntFlag):
    """FOREIGN: copied here from another store. REBUILT: by force, from an attempt that had not committed. COPY: another
    directory holds the same save under its own name. Of a store with a mirror: MIRRORED: there too. MIRRORING: a copy
    there has begun. MIRROR_ONLY: only there; loads read it there."""

    FOREIGN = 1
    REBUILT = 2
    COPY = 4
    MIRRORED = 8
    MIRRORING = 16
    MIRROR_ONLY = 32


class JobState(OpenEnum):
    """How far a job is; states only grow. DELIVERED: a save with wait=0, not on rank 0, wrote its part and knows no
    more."""

    NEW = 0
    RUNNING = 1
    STAGED = 2
    WRITTEN = 3
    COMMITTED = 4
    DONE = 5
    FAILED = 6
    CANCELLED = 7
    DELIVERED = 8


class Scope(OpenEnum):
    """Whose bytes an object is: one for all ranks, each rank's own, or a state tree that ranks make together."""

    SHARED = 0
    PER_RANK = 1
    TREE = 2


class FindingKind(OpenEnum):
    """What a finding of a report is about."""

    DAMAGED = 1
    MISSING = 2
    EXTRA = 3
    DIFFERENT = 4
    REMOVED = 5
    KEPT = 6
    REPAIRED = 7
    PASSED_OVER = 8
    ANEW = 9
    NO_CACHE = 10


class OptionKind(OpenEnum):
    """What value an option takes."""

    INT = 1
    STR = 2


class Codec(OpenEnum):
    """How a segment is compressed."""

    RAW = 0
    LZ4 = 1


class Filter(OpenEnum):
    """What is done to bytes before they are compressed."""

    NONE = 0
    SHUFFLE = 1
    BIT_PLANES = 2


class IoEngine(OpenEnum):
    """How files are read and written."""

    BLOCKING = 0
    THREADS = 1
    URING = 2


class NodeKind(OpenEnum):
    """What a node of a tree is."""

    NULL = 0
    BOOL = 1
    INT = 2
    BIGINT = 3
    FLOAT = 4
    TEXT = 5
    BYTES = 6
    TENSOR = 7
    LIST = 16
    TUPLE = 17
    SET = 18
    DICT = 19
    RECORD = 20


class KeyKind(OpenEnum):
    """What key a node has."""

    NONE = 0
    TEXT = 1
    INT = 2
