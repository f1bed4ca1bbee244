"""What states are loaded from: a checkpoint, or a file of PyTorch or safetensors that is read as if it were one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from . import _core
from ._core import File, Memory, Tree
from .enums import DType, Status
from .errors import error_of
from .frameworks import Framework, FrameworkName, framework_of, is_whole, loaded
from .handles import Reader, Store
from .records import AliasInfo, FileTensor, TableInfo, TensorInfo
from .tables import Rowset, Table

Source: TypeAlias = str | os.PathLike[str] | _core.Store | _core.Reader


class FileReader:
    """A ckpt.File with those methods of a Reader that a load of a state needs."""

    def __init__(self, path: str, options: Mapping[str, int | str]) -> None:
        self.path = path.partition("?")[0] if "://" in path else path  # a query may be a secret
        self.file = File(path, options)
        self._found = {tensor.name: (place, tensor) for place, tensor in enumerate(self.file.tensors())}
        self.tensor_count = len(self._found)

    def tree(self) -> Tree:
        """All that the file holds."""
        return self.file.tree()

    def tensors(self) -> list[TensorInfo]:
        """All tensors, by name."""
        return [self.tensor(name) for name in sorted(self._found)]

    def tensor(self, name: str) -> TensorInfo:
        """The tensor `name`; NotFoundError if there is none."""
        found = self._tensor(name)[1]
        return TensorInfo(name, found.dtype, found.shape, found.bytes, 0 if found.alias_of else found.bytes, 1,
                          found.alias_of if self._is_view(found) else None)

    def alias(self, name: str) -> AliasInfo:
        """Which view of its target alias `name` is."""
        found = self._tensor(name)[1]
        return AliasInfo(found.dtype, found.shape, found.strides, found.alias_offset)

    def tables(self) -> list[TableInfo]:
        """All sparse tables, by name."""
        return self.file.tables()

    def attrs(self) -> dict[str, str]:
        """A file has none."""
        return {}

    def attr(self, key: str, tensor: str | None = None) -> str | None:
        """A file has none."""
        return None

    def _tensor(self, name: str) -> tuple[int, FileTensor]:
        if name not in self._found:
            raise error_of(Status.NOT_FOUND, f"{self.path}: no tensor '{name}'", {"tensor": name, "path": self.path})
        return self._found[name]

    def _is_view(self, tensor: FileTensor) -> bool:
        """Whether it lies inside of its target, whose elements are in row-major order."""
        if tensor.alias_of is None:
            return False
        target = self._found[tensor.alias_of][1]
        last = tensor.alias_offset + sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.strides))
        return (0 not in tensor.shape and target.dtype == tensor.dtype and is_whole(target.shape, target.strides, 0)
                and last < target.bytes * 8 // target.dtype.bits)

    def array(self, name: str) -> Any:
        """The tensor where it lies in the file, as numpy sees it: without bf16 and float8, which are unsigned."""
        import numpy
        return numpy.asarray(self.file.data(self._tensor(name)[0]))

    def close(self) -> None:
        """Closes the file."""
        self.file.close()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self.file.closed

    def __repr__(self) -> str:
        return f"<{self.file.format} file {self.path!r}: {self.tensor_count} tensors>"


class FileShare(_core.FileShare):
    """Rows of a sparse table in a file, window by window, as a Share has them."""

    def __init__(self, reader: FileReader, table: TableInfo, rows: Rowset, window_rows: int) -> None:
        super().__init__(reader.file, table.name, rows.kind, rows.first, rows.second, rows.listed, window_rows)
        self._table = table

    def __enter__(self) -> FileShare:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def windows(self, columns: Sequence[str], *, framework: FrameworkName | None = None,
                options: Mapping[str, int | str] | None = None) -> Iterator[Table]:
        """Each is read when it is asked for. `framework`: by default torch, if the program uses it. A file has no
        options of a load."""
        make = framework_of(framework or ("torch" if loaded("torch") else "numpy"))
        known = {column.name: column for column in self._table.columns}
        for name in columns:
            if name not in known:
                raise error_of(Status.NOT_FOUND, f"table '{self._table.name}' has no column '{name}'; it has "
                               f"{', '.join(known) or 'none'}", {"tensor": self._table.name})
        for window in range(self.window_count):
            rows = self.rows_of(window)
            table = Table(make.empty("ids", self._table.id_dtype, (rows,)),
                          {name: make.empty(name, known[name].dtype, (rows, *known[name].shape)) for name in columns})
            self.read(window, table.ids, table.columns)
            yield table


class FileRequest:
    """Copies tensors of a file into arrays. It checks each when it is added, so that a request that does not fit
    changes nothing."""

    def __init__(self, reader: FileReader) -> None:
        self._reader = reader
        self._copies: list[tuple[Any, Any]] = []

    def add_tensor(self, name: str, data: Any, *, shape: tuple[int, ...] | None = None,
                   offset: tuple[int, ...] | None = None, flat_offset: int | None = None,
                   convert: bool = False) -> None:
        """Adds a region of a tensor; as Load.add_tensor."""
        memory, info = Memory.of(data, writable=True), self._reader.tensor(name)
        floats = {DType.F32, DType.BF16, DType.F16}
        if memory.dtype != info.dtype and not (convert and {memory.dtype, info.dtype} <= floats):
            raise _mismatch(name, "dtype", info.dtype, memory.dtype)
        if (shape or memory.shape) != info.shape and info.dtype.bits >= 8:
            raise _mismatch(name, "shape", info.shape, shape or memory.shape)
        array = self._reader.array(name)
        if offset is not None:
            if any(start < 0 or start + size > whole for start, size, whole in zip(offset, memory.shape, info.shape)):
                raise _mismatch(name, "a region inside of", info.shape, f"{memory.shape} at {offset}")
            array = array[tuple(slice(start, start + size) for start, size in zip(offset, memory.shape))]
        elif flat_offset is not None:
            count = 1
            for extent in memory.shape:
                count *= extent
            array = array.reshape(-1)[flat_offset:flat_offset + count]
            if array.size != count:
                raise _mismatch(name, "a range inside of", info.shape, f"{count} elements at {flat_offset}")
        self._copies.append((data, Elements(array, info.dtype)))

    def run(self) -> None:
        """Copies all."""
        for data, elements in self._copies:
            elements.copy_into(data)


def _mismatch(name: str, what: str, expected: object, found: object) -> Exception:
    return error_of(Status.MISMATCH, f"tensor '{name}': {what}: expected {expected}, found {found}",
                    {"tensor": name, "expected": str(expected), "found": str(found)})


class Elements:
    """Elements of a dtype, in an array of numpy that may not know it."""

    def __init__(self, array: Any, dtype: DType) -> None:
        self.array, self.dtype = array, dtype

    def new(self, framework: Framework) -> Any:
        """A new array of them."""
        made = framework.empty("", self.dtype, self.array.shape)
        self.copy_into(made)
        return made

    def copy_into(self, data: Any) -> None:
        """Copies them into an array of numpy or torch of the same shape, and converts them."""
        import numpy
        raw = numpy.ascontiguousarray(self.array).reshape(-1).view("u1")
        if raw.size == 0:
            return
        if isinstance(data, numpy.ndarray):
            from .frameworks import Numpy
            source = raw.view(Numpy().dtype("", self.dtype))
            data[...] = source.reshape(data.shape)
            return
        import torch
        from .frameworks import torch_dtype
        source = torch.from_numpy(raw.copy()).view(torch_dtype(torch, self.dtype))
        with torch.no_grad():
            data.copy_(source.reshape(data.shape))


def is_checkpoint_directory(path: str) -> bool:
    """Whether it is a checkpoint's own directory inside of a store."""
    folder, name = os.path.split(os.path.realpath(path))
    return name.count(".") >= 2 and os.path.isfile(os.path.join(path, "MANIFEST")) and os.path.isdir(
        os.path.join(folder, ".ckpt"))


_OF_RECIS = ("checkpoint", "io_state_count", "tensorkey.json")


def newest_of_recis(path: str) -> str:
    """The directory of the newest checkpoint in that of a RecIS run; "" if it is none."""
    try:
        with open(os.path.join(path, "checkpoint"), encoding="utf-8") as file:
            lines = file.read().split()
    except (OSError, UnicodeDecodeError):
        return ""
    return lines[-1] if lines and os.path.isdir(os.path.join(path, lines[-1])) else ""


def _is_foreign(path: str) -> bool:
    """Whether it is a file, or a directory of files, of other programs."""
    if os.path.isfile(path):
        return True
    if not os.path.isdir(path) or os.path.isdir(os.path.join(path, ".ckpt")):
        return False
    return any(name.endswith(".safetensors") or (name.startswith("PART_") and name.endswith(".pt"))
               or name in _OF_RECIS for name in os.listdir(path))


def _reader_of_directory(path: str, options: Mapping[str, int | str]) -> Reader:
    folder, name = os.path.split(os.path.realpath(path))
    store = Store(folder, options)
    runs = [info.run for info in store.list() if info.id == name]
    return Reader(store, name, {**options, "run": runs[0]} if runs else options)


_FILE_ENDINGS = (".safetensors", ".safetensors.index.json", ".pt", ".pth", ".bin", ".ckpt")


def _open_address(url: str, selector: str, options: Mapping[str, int | str]) -> _core.Reader | FileReader:
    """A file on a web server, by its ending; or a checkpoint there, by its own address unless there is a selector."""
    address, mark, query = url.partition("?")
    if address.endswith(_FILE_ENDINGS):
        if selector != "latest":
            raise ValueError(f"{address} is one file, so there is nothing to select: found selector {selector!r}")
        return FileReader(url, options)
    if selector != "latest":
        return Reader(Store(url, options), selector, options)
    folder, _, name = address.rstrip("/").rpartition("/")
    return Reader(Store(folder + mark + query, options), name, options)


def open_source(source: Source, selector: str, options: Mapping[str, int | str]) -> _core.Reader | FileReader:
    """What the source names; a Reader is given back as it is."""
    if isinstance(source, _core.Reader):
        return source
    if isinstance(source, _core.Store):
        return Reader(source, selector, options)
    path = os.fsdecode(source)
    if path.startswith(("https://", "http://")):
        return _open_address(path, selector, options)
    foreign, directory = _is_foreign(path), is_checkpoint_directory(path)
    if (foreign or directory) and selector != "latest":
        what = "one file" if foreign else "one checkpoint"
        raise ValueError(f"{path} is {what}, so there is nothing to select: found selector {selector!r}")
    if foreign:
        return FileReader(path, options)
    return _reader_of_directory(path, options) if directory else Reader(Store(source, options), selector, options)
