"""What _core.find_aliases finds: tensors that share memory. core/sharing.h says how these are saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._core import Memory
from .enums import DType


@dataclass(frozen=True)
class Alias:
    """`name` is a view of `target`, in elements; shape None: the whole target."""

    name: str
    target: str
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    offset: int = 0


@dataclass
class Span:
    """The memory of tensors that overlap, from the first to the end of the last."""

    start: int
    end: int
    name: str
    members: list[Memory]

    def data(self) -> Any:
        """Its bytes, as an object with the buffer protocol that keeps the tensors alive."""
        import ctypes  # not before it is needed
        made = (ctypes.c_char * (self.end - self.start)).from_address(self.start)
        made.keeps = self.members  # type: ignore[attr-defined]
        return made

    @property
    def device(self) -> tuple[int, int] | None:
        """Where it is, if not in memory of the CPU."""
        return None if self.members[0].device == (1, 0) else self.members[0].device

    @property
    def dtype(self) -> DType:
        """Of its elements."""
        return self.members[0].dtype

    @property
    def count(self) -> int:
        """How many elements it has."""
        return (self.end - self.start) * 8 // self.dtype.bits
