"""ckpt.ls and ckpt.open: what a store and a checkpoint hold, without reading more than is asked for."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, overload

from . import _core, show
from ._core import Load, Tree
from .arguments import checked
from .enums import CheckpointState, DType, Status
from .errors import error_of, type_error, value_error
from .frameworks import FrameworkName, framework_of
from .handles import Store
from .hints import near, shown, what_lies_at
from .records import CheckpointInfo, TensorInfo
from .sources import FileReader, Region, Source, open_source
from .trees import Record, TreeReader


class Listing(Sequence[CheckpointInfo]):
    """Checkpoints of a store, oldest first; as text and in notebooks a table."""

    def __init__(self, where: str, infos: Sequence[CheckpointInfo]) -> None:
        self._where, self._infos = where, tuple(infos)

    def __len__(self) -> int:
        return len(self._infos)

    @overload
    def __getitem__(self, index: int) -> CheckpointInfo: ...
    @overload
    def __getitem__(self, index: slice) -> Listing: ...
    def __getitem__(self, index: int | slice) -> CheckpointInfo | Listing:
        return Listing(self._where, self._infos[index]) if isinstance(index, slice) else self._infos[index]

    def _table(self) -> tuple[str, list[str], list[list[str]]]:
        header = ["label", "step", "run", "state", "size", "tensors", "ranks", "created"]
        rows = [[info.label, "" if info.step < 0 else str(info.step), info.run, info.state.name.lower(),
                 show.size(info.bytes), str(info.tensor_count), str(info.world_size), show.time(info.created_unix_ms)]
                for info in self._infos]
        return f"{self._where}: {len(rows)} checkpoint{'s' * (len(rows) != 1)}", header, rows

    def __repr__(self) -> str:
        return show.text_table(*self._table())

    def _repr_html_(self) -> str:
        return show.html_table(*self._table())


@checked()
def ls(store: str | os.PathLike[str] | Store, run: str | None = None) -> Listing:
    """The committed checkpoints of a store, of all runs or of one, oldest first. NotFoundError if there is no store.
    Store.list() also has attempts that were not committed."""
    opened = store if isinstance(store, Store) else Store(store)
    if why := what_lies_at(opened):
        raise error_of(Status.NOT_FOUND, f"{shown(opened.uri)}: {why}", {"path": shown(opened.uri)})
    infos = [info for info in opened.list() if info.state == CheckpointState.COMMITTED and run in (None, info.run)]
    return Listing(shown(opened.uri), infos)


class LazyTensor:
    """A tensor of an open checkpoint. t[10:20, :, 3] reads only these elements, numpy.asarray(t) and t.torch() all."""

    def __init__(self, source: _core.Reader | FileReader, info: TensorInfo, framework: FrameworkName) -> None:
        self._source, self._framework = source, framework
        self.name: str = info.name
        self.shape: tuple[int, ...] = info.shape
        self.dtype: DType = info.dtype
        self.nbytes: int = info.bytes

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise type_error("a tensor without dimensions has no len()")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def numpy(self) -> Any:
        """All of it as an array of numpy."""
        return self._read((0,) * self.ndim, self.shape, "numpy")

    def torch(self) -> Any:
        """All of it as a tensor of torch."""
        return self._read((0,) * self.ndim, self.shape, "torch")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise value_error("reading a tensor of a checkpoint makes a new array")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __getitem__(self, index: Any) -> Any:
        offset, extent, rest = _box(index, self.shape)
        read = self._read(offset, extent, self._framework)
        if self._framework == "torch":  # which has no negative steps
            backwards = [axis for axis, part in enumerate(rest) if isinstance(part, slice) and (part.step or 1) < 0]
            read = read.flip(backwards) if backwards else read
            rest = tuple(slice(None, None, abs(part.step or 1)) if isinstance(part, slice) else part for part in rest)
        return framework_of(self._framework).finished(read[rest])

    def _read(self, offset: tuple[int, ...], extent: tuple[int, ...], framework: FrameworkName) -> Any:
        whole, module = extent == self.shape, framework_of(framework)
        if self.dtype.bits < 8 and not whole:
            raise error_of(Status.UNSUPPORTED, f"tensor '{self.name}': packed elements ({self.dtype}) are read as a "
                           "whole", {"tensor": self.name})
        if isinstance(self._source, FileReader) and self.dtype.bits >= 8:
            return self._source.elements(self.name, Region(extent, None if whole else offset)).new(module)
        if isinstance(self._source, FileReader):
            raise error_of(Status.UNSUPPORTED, f"tensor '{self.name}': packed elements ({self.dtype}) of a file are "
                           "read by ckpt.File.data", {"tensor": self.name})
        made = module.empty(self.name, self.dtype, extent)
        if 0 not in extent:
            with Load(self._source) as load:
                if whole:
                    load.add_tensor(self.name, made)
                else:
                    load.add_tensor(self.name, made, shape=self.shape, offset=offset)
                load.run()
        return made

    def __repr__(self) -> str:
        return f"<ckpt.LazyTensor {self.name!r}: {self.dtype}, {show.shape(self.shape)}, {show.size(self.nbytes)}>"


def _box(index: Any, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[Any, ...]]:
    """The box that holds what the index names: its offset, its extent, and the index of these elements in it."""
    given = list(index) if isinstance(index, tuple) else [index]
    dots = [place for place, part in enumerate(given) if part is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can have only one ellipsis ('...')")
    if len(given) - len(dots) > len(shape):
        raise IndexError(f"too many indices: the tensor has {len(shape)} dimensions, found {len(given) - len(dots)}")
    fill = [slice(None)] * (len(shape) - len(given) + len(dots))
    place = dots[0] if dots else len(given)
    parts = [*given[:place], *fill, *given[place + 1:]]
    ranges = [_range(part, extent, axis) for axis, (part, extent) in enumerate(zip(parts, shape))]
    return (tuple(first for first, _, _ in ranges), tuple(count for _, count, _ in ranges),
            tuple(rest for _, _, rest in ranges))


def _range(part: Any, extent: int, axis: int) -> tuple[int, int, int | slice]:
    """In one dimension: the first element, how many there are up to the last, and the index in these."""
    if isinstance(part, slice):
        found = range(*part.indices(extent))
        if not found:
            return 0, 0, slice(None)
        low, high = min(found[0], found[-1]), max(found[0], found[-1])
        return low, high - low + 1, slice(None, None, found.step if len(found) > 1 else 1)
    try:
        place = operator.index(part)
    except TypeError:
        raise type_error(f"a tensor of a checkpoint is indexed by integers, slices and '...', found {part!r}") from None
    if not -extent <= place < extent:
        raise IndexError(f"index {place} is out of range for dimension {axis}, which has {extent} elements")
    return place % extent, 1, 0


class _LazyState(TreeReader):
    """Reads a tree with lazy tensors as leaves."""

    def __init__(self, tree: Tree, tensors: Mapping[str, LazyTensor]) -> None:
        super().__init__(tree)
        self._tensors = tensors

    def tensor(self, name: str, like: Any) -> Any:
        return self._tensors[name]

    def record(self, class_name: str, index: int, like: Any) -> Any:
        from .adapt import TRANSPARENT, restore  # not before it is needed
        items = self.entries(index, like)
        if TRANSPARENT.get(class_name) == "data":
            return items["data"]
        return restore(Record(class_name, items), "numpy")


class Checkpoint(Mapping[str, LazyTensor]):
    """An open checkpoint, or files of another program: its tensors by name, of which nothing is read until it
    is asked for. A context manager."""

    def __init__(self, source: _core.Reader | FileReader, framework: FrameworkName) -> None:
        self._source, self._framework = source, framework
        self._infos = {info.name: info for info in source.tensors()}

    def __getitem__(self, name: str) -> LazyTensor:
        if name not in self._infos:
            raise KeyError(f"{name!r}: the checkpoint has no such tensor{near(str(name), self._infos)}")
        return LazyTensor(self._source, self._infos[name], self._framework)

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    @property
    def info(self) -> CheckpointInfo | None:
        """About the checkpoint; None for a file."""
        return self._source.info if isinstance(self._source, _core.Reader) else None

    @property
    def attrs(self) -> dict[str, str]:
        """The attributes that were given to the save."""
        return self._source.attrs()

    @property
    def tree(self) -> Tree:
        """The state tree."""
        return self._source.tree()

    @property
    def state(self) -> Any:
        """The whole state, with a LazyTensor wherever it has a tensor."""
        with self.tree as tree:
            return _LazyState(tree, self).read()

    def close(self) -> None:
        """Closes it. Its tensors cannot be read any more."""
        self._source.close()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._source.closed

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _table(self) -> tuple[str, list[str], list[list[str]]]:
        rows = [[info.name, str(info.dtype), show.shape(info.shape), show.size(info.bytes),
                 f"view of {info.alias_of}" if info.alias_of else ""] for info in self._infos.values()]
        total = show.size(sum(info.bytes for info in self._infos.values() if not info.alias_of))
        if self.closed:
            name = "closed"
        else:
            name = self.info.id if self.info is not None else repr(self._source)
        return f"{name}: {len(rows)} tensors, {total}", ["tensor", "dtype", "shape", "size", ""], rows

    def __repr__(self) -> str:
        return show.text_table(*self._table())

    def _repr_html_(self) -> str:
        return show.html_table(*self._table())


@checked()
def open(source: Source, selector: str = "latest", *, framework: FrameworkName = "numpy",
         options: Mapping[str, int | str] | None = None, **keywords: int | str) -> Checkpoint:
    """Opens a checkpoint as a mapping of names to lazy tensors, and reads none of them.

    `source` and `selector` are those of ckpt.load. `framework`: what a slice of a tensor is, "numpy", "torch" or "jax".
    """
    return Checkpoint(open_source(source, selector, {**(options or {}), **keywords}), framework)
