"""What calls return: frozen records. Sizes are in bytes; offsets, extents and strides in elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import overload

from .enums import (CheckpointFlags, CheckpointState, Codec, DType, Filter, FindingKind, IoEngine, JobState, KeyKind,
                    NodeKind, OptionKind, Scope, Status)
from .show import shape, size


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """One checkpoint, or an attempt at one."""

    # @ckpt_checkpoint_info

    def __repr__(self) -> str:
        step = "" if self.step < 0 else f" step {self.step},"
        return (f"<ckpt.CheckpointInfo {self.id}:{step} run {self.run!r}, {self.state.name.lower()}, "
                f"{self.tensor_count} tensors, {size(self.bytes)}>")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run of a store."""

    # @ckpt_run_info


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor or alias of a checkpoint."""

    # @ckpt_tensor_info

    def __repr__(self) -> str:
        view = f", view of {self.alias_of!r}" if self.alias_of else ""
        return f"<ckpt.TensorInfo {self.name!r}: {self.dtype}, {shape(self.shape)}, {size(self.bytes)}{view}>"


@dataclass(frozen=True, slots=True)
class AliasInfo:
    """Which view of its flattened target an alias is."""

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """Where bytes of a tensor lie: a flat range of it (offset and extent are None), or of a box in its own order."""

    part: int
    offset: tuple[int, ...] | None
    extent: tuple[int, ...] | None
    flat_offset: int
    flat_size: int
    codec: Codec
    filter: Filter
    chunk_count: int
    part_offset: int  # of the first chunk
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """Named bytes of a checkpoint."""

    # @ckpt_object_info


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """A column of a sparse table."""

    # @ckpt_column_info


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A sparse table of a checkpoint."""

    # @ckpt_table_info without column_count
    columns: tuple[ColumnInfo, ...]  # in the order in which they were saved

    @property
    def column_count(self) -> int:
        """How many columns it has."""
        return len(self.columns)

    def __repr__(self) -> str:
        columns = ", ".join(f"{column.name} {column.dtype} {shape(column.shape)}" for column in self.columns)
        return f"<ckpt.TableInfo {self.name!r}: {self.row_count} rows, {size(self.bytes)}; {columns}>"


@dataclass(frozen=True, slots=True)
class PartInfo:
    """A part file."""

    # @ckpt_part_info


@dataclass(frozen=True, slots=True)
class JobStats:
    """Counters of a job at one moment; times in microseconds. ckpt.h explains each."""

    # @ckpt_job_stats


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a tree. `value` is the Python value of a leaf, the name of a tensor or the class of a record, and None
    for other containers."""

    kind: NodeKind
    key_kind: KeyKind
    key: str | int | None
    value: None | bool | int | float | str | bytes
    child_count: int
    first_child: int | None
    next_sibling: int | None
    parent: int | None


@dataclass(frozen=True, slots=True)
class FileTensor:
    """A tensor in a ckpt.File."""

    # @ckpt_file_tensor


@dataclass(frozen=True, slots=True)
class OptionInfo:
    """An option, as `ckpt help options` prints it."""

    # @ckpt_option_info


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a report."""

    # @ckpt_finding


@dataclass(frozen=True, slots=True)
class Report(Sequence[Finding]):
    """What a verify, diff, prune, repair or load found, as a sequence; empty if it found nothing."""

    findings: tuple[Finding, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.findings)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, index: int | slice) -> Finding | tuple[Finding, ...]:
        return self.findings[index]

    def __str__(self) -> str:
        return "\n".join(finding.text for finding in self.findings)

    def __repr__(self) -> str:
        return f"<ckpt.Report: {len(self)} findings{''.join(f'{chr(10)}  {f.text}' for f in self.findings)}>"


_DIGITS = 640  # never too many: Python allows no lower limit (sys.int_info.str_digits_check_threshold)


def int_of_digits(digits: str) -> int:
    """int(digits) without Python's limit on the number of digits."""
    sign, rest = (-1, digits[1:]) if digits.startswith("-") else (1, digits)
    value = 0
    for start in range(0, len(rest), _DIGITS):
        piece = rest[start:start + _DIGITS]
        value = value * 10 ** len(piece) + int(piece)
    return sign * value


def digits_of_int(value: int) -> str:
    """str(value) without Python's limit on the number of digits."""
    sign, value, base = "-" if value < 0 else "", abs(value), 10**_DIGITS
    pieces = []
    while value >= base:
        value, low = divmod(value, base)
        pieces.append(f"{low:0{_DIGITS}d}")
    return sign + str(value) + "".join(reversed(pieces))
