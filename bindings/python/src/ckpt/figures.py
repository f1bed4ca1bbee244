"""ckpt.stats: figures of the values of a checkpoint's tensors, or of how far two checkpoints are apart. They are those
of `ckpt report` (src/cli/report_values.cpp): of all elements as doubles, a complex number as two."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from . import _core
from ._core import Load, dtype_find
from .arguments import checked
from .enums import DType
from .frameworks import Numpy, imported
from .opening import Checkpoint
from .records import TensorInfo
from .sources import FileReader, Region, Source, open_source
from .tables import package

_BATCH_BYTES, _BATCH_PIECES = 64 << 20, 4096  # of one load
_RUN = 1 << 18  # elements that are looked at together: their doubles fit the processor's cache

Opened = _core.Reader | FileReader


class _Piece(NamedTuple):
    """A flat range of the tensor that each checkpoint has."""

    infos: tuple[TensorInfo, ...]
    first: int
    elements: int
    batch: int


def _numbers(raw: Any, dtype: DType) -> Any:
    """The numbers that some bytes are, as doubles."""
    import numpy
    code, bits = int(dtype) >> 8, dtype.bits
    if bits < 8:
        patterns = numpy.packbits(numpy.unpackbits(raw, bitorder="little")[:raw.size * 8 // bits * bits]
                                  .reshape(-1, bits), axis=1, bitorder="little").reshape(-1)
        if code <= 1:
            return patterns - numpy.float64(1 << bits) * (patterns >> (bits - 1)) * (code == 0)
        return patterns.view(getattr(imported("ml_dtypes"), str(dtype).replace("f", "float", 1))).astype("f8")
    component = DType(2 << 8 | bits // 2) if code == 5 else dtype
    wide = code <= 1 and bits == 64  # doubles do not tell all of these apart
    return raw.view(Numpy().dtype("", component)).astype("g" if wide else "f8")


def _readable(reader: Opened, info: TensorInfo) -> bool:
    """Whether its elements are numbers that can be read by themselves."""
    return dtype_find(str(info.dtype)) == info.dtype and (info.dtype.bits >= 8 or not isinstance(reader, FileReader))


class _Values:
    """Of one tensor."""

    def __init__(self) -> None:
        self.count = self.zeros = self.nans = self.infinities = 0
        self.least, self.most, self.total, self.squares = math.inf, -math.inf, 0.0, 0.0

    def add(self, values: Any) -> None:
        """Counts more of its elements."""
        import numpy
        known = numpy.isfinite(values)
        finite = values if known.all() else values[known]
        nans = int(numpy.isnan(values).sum())
        self.count += values.size
        self.nans += nans
        self.infinities += values.size - finite.size - nans
        if finite.size:
            self.zeros += finite.size - int(numpy.count_nonzero(finite))
            self.least, self.most = min(self.least, float(finite.min())), max(self.most, float(finite.max()))
            self.total += float(finite.sum())
            self.squares += float(finite @ finite)

    def row(self) -> dict[str, Any]:
        """Its figures; None where it has no finite element."""
        finite = self.count - self.nans - self.infinities
        return {**({"min": self.least, "max": self.most, "mean": self.total / finite, "norm": math.sqrt(self.squares)}
                   if finite else {}),
                "zeros": self.zeros, "nans": self.nans, "infinities": self.infinities} if self.count else {}


class _Change:
    """Of a tensor that both have."""

    def __init__(self) -> None:
        self.differ = self.odd = 0
        self.squares = self.before = self.after = self.product = self.most = 0.0

    def add(self, a: Any, b: Any) -> None:
        """Compares more of their elements."""
        import numpy
        unlike = (a != b) & ~(numpy.isnan(a) & numpy.isnan(b))
        finite = numpy.isfinite(a) & numpy.isfinite(b)
        self.differ += int(unlike.sum())
        self.odd += int((unlike & ~finite).sum())
        a, b = a[finite], b[finite]
        change = b - a
        self.most = max(self.most, float(abs(change).max(initial=0)))
        self.squares += float(change @ change)
        self.before += float(a @ a)
        self.after += float(b @ b)
        self.product += float(a @ b)

    def row(self) -> dict[str, Any]:
        """Its figures."""
        norm, before, after = math.sqrt(self.squares), math.sqrt(self.before), math.sqrt(self.after)
        share, sides = norm / max(before, after) if norm else 0.0, before * after
        return {"differ": self.differ, "odd": self.odd, "norm": norm, "norm_a": before, "norm_b": after,
                "change": share, "cosine": max(-1.0, min(1.0, self.product / sides)) if sides else None,
                "largest": self.most}


def _pieces(tensors: Sequence[tuple[TensorInfo, ...]]) -> Iterator[_Piece]:
    """All elements of the tensors, numbered so that those of a batch fit into memory."""
    batch = size = pieces = 0
    for infos in tensors:
        elements, bits = math.prod(infos[0].shape), max(info.dtype.bits for info in infos)
        most = _BATCH_BYTES * 8 // bits // 8 * 8  # so that packed elements begin at a byte
        for first in range(0, elements, most):
            count = min(most, elements - first)
            size, pieces = size + count * bits // 8, pieces + 1
            if size > _BATCH_BYTES or pieces > _BATCH_PIECES:
                batch, size, pieces = batch + 1, count * bits // 8, 1
            yield _Piece(infos, first, count, batch)


def _read(reader: Opened, pieces: Sequence[_Piece], side: int, options: Mapping[str, int | str]) -> list[Any]:
    """The bytes of some pieces."""
    import numpy
    if isinstance(reader, FileReader):
        regions = [(one.infos[side].name, Region((one.elements,), flat_offset=one.first)) for one in pieces]
        return [numpy.ascontiguousarray(reader.elements(*one).array).reshape(-1).view("u1") for one in regions]
    raw: list[Any] = [numpy.empty((one.elements * one.infos[side].dtype.bits + 7) // 8, "u1") for one in pieces]
    with Load(reader, options) as load:
        for one, memory in zip(pieces, raw):
            info = one.infos[side]
            load.add_tensor(info.name, memory, dtype=info.dtype, shape=info.shape, flat_offset=one.first,
                            flat_size=one.elements)
        load.run()
    return raw


def _visit(readers: Sequence[Opened], tensors: Sequence[tuple[TensorInfo, ...]], options: Mapping[str, int | str],
           add: Callable[..., None]) -> None:
    """Gives add() the name of each tensor and some of its numbers in each checkpoint, a run at a time."""
    import numpy
    for _, group in groupby(_pieces(tensors), lambda one: one.batch):
        pieces = list(group)
        raws = [_read(reader, pieces, side, options) for side, reader in enumerate(readers)]
        for place, piece in enumerate(pieces):
            for first in range(0, piece.elements, _RUN):
                last = min(first + _RUN, piece.elements)
                with numpy.errstate(all="ignore"):
                    add(piece.infos[0].name, *(
                        _numbers(raws[side][place][first * bits // 8:(last * bits + 7) // 8], info.dtype)
                        [:(last - first) * (1 + (int(info.dtype) >> 8 == 5))]
                        for side, info in enumerate(piece.infos) for bits in [info.dtype.bits]))


def _described(info: TensorInfo) -> dict[str, Any]:
    return {"name": info.name, "dtype": str(info.dtype), "shape": list(info.shape), "bytes": info.bytes}


def _of_one(reader: Opened, options: Mapping[str, int | str]) -> list[dict[str, Any]]:
    infos = reader.tensors()
    found = {info.name: _Values() for info in infos}
    _visit([reader], [(info,) for info in infos if info.alias_of is None and _readable(reader, info)], options,
           lambda name, values: found[name].add(values))
    return [{**_described(info), "stored_bytes": info.stored_bytes, "alias_of": info.alias_of,
             **found[info.name].row()} for info in infos]


def _why_not(readers: Sequence[Opened], a: TensorInfo | None, b: TensorInfo | None) -> str | None:
    """Why there are no figures of a tensor; None if there are."""
    if a is None or b is None:
        return "only in the first" if b is None else "only in the second"
    if a.shape != b.shape or (int(a.dtype) >> 8 == 5) != (int(b.dtype) >> 8 == 5):
        return f"{a.dtype} {list(a.shape)} against {b.dtype} {list(b.shape)}"
    if a.alias_of or b.alias_of:
        return f"alias of {b.alias_of or a.alias_of}"
    return None if _readable(readers[0], a) and _readable(readers[1], b) else "no numbers that ckpt can read"


def _of_two(readers: Sequence[Opened], options: Mapping[str, int | str]) -> list[dict[str, Any]]:
    first, second = ({info.name: info for info in reader.tensors()} for reader in readers)
    notes = {name: _why_not(readers, first.get(name), second.get(name)) for name in first | second}
    found = {name: _Change() for name, note in notes.items() if note is None}
    _visit(readers, [(first[name], second[name]) for name in found], options,
           lambda name, a, b: found[name].add(a, b))
    rows = [{**_described(second.get(name) or first[name]), **(found[name].row() if name in found else {}),
             "note": note} for name, note in notes.items()]
    return sorted(rows, key=lambda row: (not row.get("odd"), -row.get("change", -1.0)))


_TYPES = {"name": "string", "dtype": "string", "bytes": "uint64", "stored_bytes": "uint64", "alias_of": "string",
          "note": "string", **dict.fromkeys(("zeros", "nans", "infinities", "differ", "odd"), "uint64")}
_ONE = ("name", "dtype", "shape", "bytes", "stored_bytes", "alias_of", "min", "max", "mean", "norm", "zeros", "nans",
        "infinities")
_TWO = ("name", "dtype", "shape", "bytes", "differ", "odd", "norm", "norm_a", "norm_b", "change", "cosine", "largest",
        "note")


@checked()
def stats(checkpoint: Source | Checkpoint, other: Source | Checkpoint | None = None, *,
          options: Mapping[str, int | str] | None = None, **keywords: int | str) -> Any:
    """A pyarrow.Table of the tensors with the figures that `ckpt report` shows; .to_pandas() for pandas. Reads every
    element, in bounded memory. A path means its latest checkpoint; ckpt.open(path, selector) gives others.

    Of one checkpoint: min, max, mean and norm of the finite elements, and how many are zero, NaN and infinite; null for
    aliases, and where there is none. Of two: `norm` of their difference, `norm_a` and `norm_b` of each, `change` (norm
    by the larger of these), `cosine`, the `largest` difference, how many elements `differ`, and how many of these are
    `odd`: NaN or infinite in one of the two. The worst is the first; `note` says why there are no figures."""
    pyarrow = package("pyarrow", "ckpt.stats")
    imported("numpy")
    settings = {**(options or {}), **keywords}
    given = [checkpoint] if other is None else [checkpoint, other]
    readers = [one._source if isinstance(one, Checkpoint) else open_source(one, "latest", settings) for one in given]
    try:
        rows = _of_one(readers[0], settings) if other is None else _of_two(readers, settings)
    finally:
        for one, reader in zip(given, readers):
            if reader is not one and not isinstance(one, Checkpoint):
                reader.close()
    kinds = {"shape": pyarrow.list_(pyarrow.int64())}
    return pyarrow.table({name: pyarrow.array([_figure(row.get(name)) for row in rows], kinds.get(name) or
                                              getattr(pyarrow, _TYPES.get(name, "float64"))())
                          for name in (_ONE if other is None else _TWO)})


def _figure(value: Any) -> Any:
    """A sum that is no finite double is no figure."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
