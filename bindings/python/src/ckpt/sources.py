"""What states are loaded from: a checkpoint, or files of another program that are read as if they were one."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast, TypeAlias

from . import _core
from ._core import File, Load, Memory, Tree
from .enums import DType, Status
from .errors import Error, NotFoundError, error_of, value_error, warn_of
from .hints import bucket_of, local_path, shown
from .looks import look
from .frameworks import Framework, FrameworkName, framework_of, imported, is_whole, loaded
from .handles import Reader, Store
from .overlap import check_apart
from .progress import Progress, finish
from .records import AliasInfo, FileTensor, TableInfo, TensorInfo
from .tables import Rowset, Table

Source: TypeAlias = str | os.PathLike[str] | _core.Store | _core.Reader


# What beside the files of a format may be a trainer's state, and no card, tokenizer or configuration.
_MAY_BE_STATE = (".pt", ".pth", ".bin", ".pkl", ".ckpt", ".safetensors", ".npz", ".npy", ".distcp",
                 "trainer_state.json")


class FileReader:
    """A ckpt.File with those methods of a Reader that a load of a state needs."""

    def __init__(self, path: str, options: Mapping[str, int | str]) -> None:
        self.path = shown(path)
        self.file = File(path, options)
        if state := [name for name in self.file.left_out if name.endswith(_MAY_BE_STATE)]:
            warn_of(f"{self.path}: left out {', '.join(state)}, of which the format knows nothing")
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
        return TensorInfo(name=name, dtype=found.dtype, shape=found.shape, bytes=found.bytes, segment_count=1,
                          stored_bytes=0 if found.alias_of else found.bytes,
                          alias_of=found.alias_of if self._is_view(found) else None)

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

    def elements(self, name: str, region: Region) -> Elements:
        """Those of a region: where the file has them if they have an address there, else a copy."""
        numpy = imported("numpy")
        place, found = self._tensor(name)
        if found.data_bytes or 0 in found.shape:
            return Elements(region.of(numpy.asarray(self.file.data(place))), found.dtype)
        width = found.dtype.bits // 8
        made: Any = numpy.empty((*(region.shape or found.shape), width), "u1")
        if made.size:
            self.file.read(place, made, dtype=found.dtype, **region.words(found.shape, True))
        return Elements(made.view(f"V{width}")[..., 0], found.dtype)

    def read(self, name: str, region: Region, data: Any) -> None:
        """Copies elements into memory of the CPU and of their dtype, which is contiguous for a flat range."""
        place, found = self._tensor(name)
        self.file.read(place, data, **region.words(found.shape, False))

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


@dataclass(frozen=True, slots=True)
class Region:
    """A box of a tensor, a flat range of it, or with neither offset all of it. `shape`: of the elements; None: all."""

    shape: tuple[int, ...] | None = None
    offset: tuple[int, ...] | None = None
    flat_offset: int | None = None

    def fits(self, whole: tuple[int, ...]) -> bool:
        """Whether a tensor of that shape has it."""
        if self.shape is None:
            return True
        if self.flat_offset is not None:
            return 0 <= self.flat_offset <= math.prod(whole) - math.prod(self.shape)
        begin = self.offset or (0,) * len(whole)
        return len(self.shape) == len(whole) == len(begin) and all(
            at >= 0 and at + size <= extent for at, size, extent in zip(begin, self.shape, whole))

    def of(self, array: Any) -> Any:
        """Its elements of an array with all."""
        if self.flat_offset is not None and self.shape is not None:
            return array.reshape(-1)[self.flat_offset:self.flat_offset + math.prod(self.shape)].reshape(self.shape)
        if self.offset is None or self.shape is None:
            return array
        return array[tuple(slice(at, at + size) for at, size in zip(self.offset, self.shape))]

    def words(self, whole: tuple[int, ...], raw: bool) -> dict[str, Any]:
        """As File.read takes it. `raw`: with what memory without a shape needs."""
        size = () if self.shape is None else self.shape
        if self.flat_offset is not None:
            return {"shape": whole, "flat_offset": self.flat_offset, **({"flat_size": math.prod(size)} if raw else {})}
        if self.offset is not None:
            return {"shape": whole, "offset": self.offset, **({"extent": size} if raw else {})}
        return {"shape": whole} if raw else {}


class FileRequest:
    """Copies tensors of a file into arrays. It checks each when it is added, so that a request that does not fit
    changes nothing."""

    def __init__(self, reader: FileReader) -> None:
        self._reader = reader
        self._copies: list[Callable[[], None]] = []
        self._wanted: list[tuple[str, Memory]] = []

    def add_tensor(self, name: str, data: Any, *, shape: tuple[int, ...] | None = None,
                   offset: tuple[int, ...] | None = None, flat_offset: int | None = None,
                   convert: bool = False) -> None:
        """Adds a region of a tensor; as Load.add_tensor."""
        memory, info, reader = Memory.of(data, writable=True), self._reader.tensor(name), self._reader
        floats = {DType.F32, DType.BF16, DType.F16}
        if memory.dtype != info.dtype and not (convert and {memory.dtype, info.dtype} <= floats):
            raise _mismatch(name, "dtype", info.dtype, memory.dtype)
        if (shape or memory.shape) != info.shape and info.dtype.bits >= 8:
            raise _mismatch(name, "shape", info.shape, shape or memory.shape)
        region = Region(memory.shape if info.dtype.bits >= 8 else None, offset, flat_offset)
        if not region.fits(info.shape):
            raise _mismatch(name, "a region inside of", info.shape,
                            f"{memory.shape} at {flat_offset if offset is None else offset}")
        direct = (memory.dtype == info.dtype and memory.device == (1, 0) and info.dtype.bits >= 8
                  and (flat_offset is None or memory.contiguous))
        if 0 in memory.shape:
            return
        self._wanted.append((name, memory))
        if direct:
            self._copies.append(lambda: reader.read(name, region, data))
        else:
            self._copies.append(lambda: reader.elements(name, region).copy_into(data))

    def run(self) -> None:
        """Copies all, unless one would write over another."""
        check_apart(self._reader, self._wanted)
        for copy in self._copies:
            copy()


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


def what_is(path: str, options: Mapping[str, int | str]) -> tuple[str, str]:
    """What a path names, and the path without links: a "checkpoint" (its own directory, in a store or copied alone to
    another place, by any name), what is "foreign", or a "store"."""
    if local_path(path) != path:
        return "store", path
    return look(path, options, lambda: (_what_is(path), os.path.realpath(path)))


def _what_is(path: str) -> str:
    if os.path.isfile(os.path.join(path, "MANIFEST")):
        return "checkpoint"
    return "foreign" if _is_foreign(path) else "store"


def _is_foreign(path: str) -> bool:
    """Whether it is a file, or a directory that is no store, nor in one, and not empty."""
    if not os.path.isdir(path):
        return os.path.isfile(path)
    if any(os.path.lexists(os.path.join(path, name)) for name in (".ckpt", "MANIFEST")):
        return False
    names = os.listdir(path)
    return bool(names) and not any(os.path.isfile(os.path.join(path, name, "MANIFEST")) for name in names)


def _reader_of_id(folder: str, name: str, options: Mapping[str, int | str]) -> Reader | None:
    """The checkpoint of a store with that id, of any run; None where there is none."""
    store = Store(folder, options)
    runs = [info.run for info in store.list() if info.id == name]
    return Reader(store, name, {**options, "run": runs[0]}) if runs else None


def _reader_of_directory(path: str, options: Mapping[str, int | str]) -> Reader:
    folder, name = os.path.split(path)
    return _reader_of_id(folder, name, options) or Reader(Store(folder, options), name, options)


_FILE_ENDINGS = (".safetensors", ".safetensors.index.json", ".pt", ".pth", ".bin", ".ckpt")


def _open_address(url: str, selector: str, options: Mapping[str, int | str]) -> _core.Reader | FileReader:
    """A file on a web server, by its ending; or a checkpoint there, by its own address unless there is a selector."""
    address, mark, query = url.partition("?")
    if address.endswith(_FILE_ENDINGS):
        _check_latest(selector, address, "one file")
        return FileReader(url, options)
    if selector != "latest":
        return _reader_of(Store(url, options), selector, options)
    folder, _, name = address.rstrip("/").rpartition("/")
    return Reader(Store(folder + mark + query, options), name, options)


def best_or(store: _core.Store, selector: str, options: Mapping[str, int | str]) -> str:
    """The id of the checkpoint that "best" or "best:…" names by its metrics; any other selector as it is."""
    if selector != "best" and not selector.startswith("best:"):
        return selector
    with _core.Keeper(store, options=options) as keeper:
        try:
            return keeper.find(selector) or selector
        except Error as error:
            error._name_place(shown(cast("Store", store).uri))
            raise


def _reader_of(store: _core.Store, selector: str, options: Mapping[str, int | str]) -> Reader:
    return Reader(store, best_or(store, selector, options), options)


def open_source(source: Source, selector: str, options: Mapping[str, int | str],
                of_file: Mapping[str, str] = MappingProxyType({})) -> _core.Reader | FileReader:
    """What the source names; a Reader is given back as it is. `of_file`: more options, if it is a file."""
    found = _open_source(source, selector, {**options, **of_file})
    wrong = next((name for name in ("map", "only", "exclude") if options.get(name)), None)
    if isinstance(found, FileReader) or wrong is None:
        return found
    if found is not source:
        found.close()
    instead = "rename what was loaded" if wrong == "map" else (
        "choose by at=, only= or without=")
    raise value_error(f"{wrong}: {options[wrong]!r} is for files of another program, and this is a checkpoint of ckpt: "
                      f"leave it out, or {instead}")


def _open_source(source: Source, selector: str, options: Mapping[str, int | str]) -> _core.Reader | FileReader:
    if isinstance(source, _core.Reader):
        return source
    if isinstance(source, _core.Store):
        return _reader_of(source, selector, options)
    path = os.fsdecode(source)
    bucket = bucket_of(path)
    if path.startswith(("https://", "http://")) and not bucket:
        return _open_address(path, selector, options)
    what, real = what_is(path, options)
    if what == "checkpoint":
        _check_latest(selector, path, "one checkpoint")
        return _reader_of_directory(real, options)
    if what == "foreign" and (reader := _file_reader(path, selector, options)):
        return reader
    try:
        return _reader_of(Store(source, options), selector, options)
    except NotFoundError:
        # Of a bucket only its store can say whether it is one.
        if not bucket or selector != "latest" or Store(source, options).list():
            raise
        if reader := _file_reader(path, selector, options):
            return reader
        folder, _, name = path.rstrip("/").rpartition("/")
        if name.count(".") >= 2 and len(folder) >= len(bucket) and (own := _reader_of_id(folder, name, options)):
            return own
        raise


def _file_reader(path: str, selector: str, options: Mapping[str, int | str]) -> FileReader | None:
    """None: a directory without files of any known format."""
    try:
        reader = FileReader(path, options)
    except NotFoundError as error:
        if error.details.get("expected") != "a known format":  # such as a file of a set that is missing
            raise
        return None
    _check_latest(selector, path, "of another program")
    return reader


def _check_latest(selector: str, path: str, what: str) -> None:
    if selector != "latest":
        raise value_error(f"{shown(path)} is {what}, so there is nothing to select: found selector {selector!r}")


@contextmanager
def request_of(reader: _core.Reader | FileReader, options: Mapping[str, int | str]) -> Iterator[Load | FileRequest]:
    """What asks for tensors of it."""
    if isinstance(reader, FileReader):
        yield FileRequest(reader)
        return
    with Load(reader, options) as request:
        yield request


def run(request: Load | FileRequest, progress: Progress) -> None:
    """Reads what was asked for."""
    if isinstance(request, Load):
        finish(request.start(), "load", progress)
    else:
        request.run()
