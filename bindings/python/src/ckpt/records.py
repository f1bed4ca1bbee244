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

    id: str  # the name of its directory; unique in the store
    label: str
    run: str
    state: CheckpointState
    flags: CheckpointFlags
    step: int  # as the trainer gave it; -1 for none
    world_size: int  # ranks that wrote it
    part_count: int
    tensor_count: int
    object_count: int
    bytes: int  # all parts and the manifest
    token: int  # of the session that wrote it; later sessions of a run have higher ones
    attempt: int  # which try of that session at this label, from 1
    sequence: int  # orders the commits of one session
    created_unix_ms: int  # the writer's clock; for people
    revision: int
    save_id: str
    store_id: str
    session_id: str
    writer: str  # "ckpt 0.1.0"
    passed_over: int  # found or opened by a selector: newer checkpoints of the run that cannot be loaded

    def __repr__(self) -> str:
        step = "" if self.step < 0 else f" step {self.step},"
        return (f"<ckpt.CheckpointInfo {self.id}:{step} run {self.run!r}, {self.state.name.lower()}, "
                f"{self.tensor_count} tensors, {size(self.bytes)}>")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run of a store."""

    name: str
    token: int  # of the session that owns it; 0 if there is no record of one
    checkpoint_count: int  # committed ones; foreign ones and copies do not count
    newest_id: str  # of these; "" for none. Whether it can be loaded, Store.find tells
    newest_label: str
    newest_step: int  # -1 for none


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor or alias of a checkpoint."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    bytes: int  # of the elements
    stored_bytes: int  # in the parts; 0 for an alias
    segment_count: int
    alias_of: str | None

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

    name: str
    media_type: str
    scope: Scope
    rank: int  # of a PER_RANK object, else 0
    size: int


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """A column of a sparse table."""

    name: str
    dtype: DType
    shape: tuple[int, ...]  # of one row
    row_bytes: int
    stored_bytes: int  # in the parts


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A sparse table of a checkpoint."""

    name: str
    id_dtype: DType  # I64 or U64
    row_count: int  # of all ranks
    bucket_count: int
    bytes: int  # of ids and columns
    stored_bytes: int  # in the parts
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

    name: str
    rank: int
    bytes: int
    save_id: str


@dataclass(frozen=True, slots=True)
class JobStats:
    """Counters of a job at one moment; times in microseconds. ckpt.h explains each."""

    state: JobState
    bytes_total: int
    bytes_done: int
    bytes_read: int
    bytes_written: int
    bytes_requested: int
    chunk_count: int
    run_count: int
    io_count: int
    staging_peak_bytes: int
    stage_us: int
    write_us: int
    commit_us: int
    total_us: int
    direct_io: bool
    threads: int
    arena_us: int
    io_engine: IoEngine
    recycled: bool
    get_count: int
    put_count: int
    list_count: int
    delete_count: int
    retry_count: int
    bytes_sent: int
    bytes_received: int


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

    name: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    bytes: int  # of the elements
    data_bytes: int  # to the end of the last element, gaps of the strides included
    alias_of: str | None
    alias_offset: int  # its first element in the flattened target


@dataclass(frozen=True, slots=True)
class OptionInfo:
    """An option, as `ckpt help options` prints it."""

    key: str
    kind: OptionKind
    min: int
    max: int
    fallback: str  # the default value
    choices: str  # "a|b|c"; "" if any text will do
    used_by: str
    help: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a report."""

    kind: FindingKind
    status: Status
    text: str  # one line for people
    name: str | None  # tensor, object or checkpoint id
    part: str | None
    offset: int  # in the part
    size: int
    first_element: int  # in the flattened tensor, inclusive like last_element; -1 if none
    last_element: int
    max_abs: float  # diff of values; NaN if none
    max_rel: float
    count: int  # diff of values: elements that differ


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
