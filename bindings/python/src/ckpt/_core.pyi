"""The classes of the C API. Use them from ckpt, not from here."""

from collections.abc import Mapping, Sequence
import os
import types

import ckpt.enums
import ckpt.records


def version() -> str:
    """"0.1.0" of the library that is loaded."""

def version_number() -> int:
    """The same as major * 1000000 + minor * 1000 + patch."""

HEADER_VERSION_NUMBER: int = 1000

FORMAT_REVISION: int = 0

def status_name(status: int) -> str:
    """"CORRUPT" of 30; "UNKNOWN" of a number that the library does not know."""

def dtype_name(dtype: int) -> str:
    """"bf16" of 0x410; "dtype" of an unknown one."""

def dtype_bits(dtype: int) -> int:
    """Bits of one element; 0 of what cannot be a dtype."""

def dtype_find(name: str) -> int:
    """The inverse of dtype_name; -1 if unknown."""

def options() -> list[ckpt.records.OptionInfo]:
    """Every option there is, with its bounds."""

class Memory:
    """
    The memory of an array as ckpt sees it, held where it is while this object lives.

    Made from anything with DLPack or the buffer protocol, never by a copy. Save and Load make it by themselves; one that was made by hand may be given to several.
    """

    @staticmethod
    def of(array: object, writable: bool = False) -> Memory:
        """
        Raises UnsupportedError where the array cannot be taken as it lies there.
        """

    @property
    def address(self) -> int:
        """Of the first element."""

    @property
    def nbytes(self) -> int:
        """To the end of the last element, gaps of the strides included."""

    @property
    def dtype(self) -> ckpt.enums.DType:
        """Of the elements."""

    @property
    def shape(self) -> tuple[int, ...]:
        """In elements."""

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""

    @property
    def contiguous(self) -> bool:
        """Row-major, without gaps."""

    @property
    def readonly(self) -> bool:
        """No load may write to it."""

class View:
    """
    A tensor in a mapped file, read-only, through the buffer protocol: numpy.asarray(view). dtypes that the protocol does not know (bf16, float8) are unsigned integers of the same width there, packed ones (4 and 6 bits) are bytes. The mapping lives as long as the view.
    """

    @property
    def dtype(self) -> ckpt.enums.DType:
        """Of the tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor."""

    @property
    def nbytes(self) -> int:
        """Of its elements."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class Job:
    """
    Work in the background, from Save.start, Load.start or Reader.verify. All methods may be called from several threads at once.

    As a context manager it waits for the end of the work; an exception in the block cancels it instead.
    """

    @property
    def state(self) -> ckpt.enums.JobState:
        """How far it is; states only grow."""

    def wait(self, state: int | None = None, timeout_ms: int = -1) -> None:
        """
        Waits until `state` (None: the end) is reached; negative timeout: as long as it takes.

        Raises TimeoutError where the time is over (the job goes on), or the error of the job where it failed. Ctrl-C ends the waiting, not the job; close() or the end of a with block cancels it.
        """

    def cancel(self) -> None:
        """
        Asks the job to stop; returns at once. A save that is not yet committed will not be.
        """

    @property
    def stats(self) -> ckpt.records.JobStats:
        """Counters of the work, at this moment."""

    def report(self) -> ckpt.records.Report:
        """
        What a verify job that has ended found; UnsupportedError for other jobs.
        """

    def close(self) -> None:
        """
        Cancels what still runs and waits until the engine no longer uses the memory.
        """

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> Job: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

class Tree:
    """
    Nested state with tensors as leaves, as schemas/STATE_TREE.md has it: built in document order, or read by the numbers of its nodes (the root is 0). ckpt.to_native and ckpt.from_native turn whole trees into Python values and back. Built by one thread.
    """

    def __init__(self) -> None: ...

    @staticmethod
    def parse(json: str | bytes) -> Tree:
        """
        From JSON of the convention, as text or as the UTF-8 bytes of an object.
        """

    def json(self) -> str:
        """The finished tree as JSON; the same text for the same tree."""

    def key(self, key: str | int) -> None:
        """
        The key of the value that comes next, inside a dict or record. 0 and "0" are two keys.
        """

    def add_null(self) -> None:
        """None."""

    def add_bool(self, value: bool) -> None:
        """A bool."""

    def add_int(self, value: int) -> None:
        """Of any size."""

    def add_bigint(self, digits: str) -> None:
        """An integer as decimal digits with an optional '-'."""

    def add_float(self, value: float) -> None:
        """
        A float; NaN and infinities are values like others, the bits of a NaN are not kept.
        """

    def add_text(self, value: str) -> None:
        """Text, which may hold NULs."""

    def add_bytes(self, value: bytes) -> None:
        """Bytes, which are copied."""

    def add_tensor(self, name: str | None = None) -> str:
        """
        A tensor as a leaf. Returns the name it is to be saved under: `name`, or its path in the tree.
        """

    def begin(self, kind: int, class_name: str | None = None) -> None:
        """
        `kind`: ckpt.NodeKind.LIST, TUPLE, SET, DICT, or RECORD with its class.
        """

    def end(self) -> None:
        """Ends what the last begin() began."""

    def __len__(self) -> int:
        """Nodes."""

    def node(self, index: int) -> ckpt.records.Node:
        """By its number, in document order."""

    def find(self, parent: int, key: str | int) -> int:
        """
        The child of a dict or record by its key, of a list, tuple or set by its place. NotFoundError.
        """

    def close(self) -> None:
        """Ends it now; any later use is InvalidError. May be called again."""

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> Tree: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

class Store:
    """
    A directory that holds checkpoints ("/data/run7", any os.PathLike, "file:///data/run7") or a store in this process's memory ("mem:NAME"). Opening creates nothing. Its methods may be called from several threads.
    """

    def __init__(self, uri: str | os.PathLike[str], options: Mapping[str, int | str] | None = None, **keywords: int | str) -> None: ...

    def list(self) -> list[ckpt.records.CheckpointInfo]:
        """
        All checkpoints and attempts at this moment, oldest first: by run, then token, sequence.
        """

    def find(self, selector: str = 'latest', options: Mapping[str, int | str] | None = None, **keywords: int | str) -> ckpt.records.CheckpointInfo:
        """
        The committed checkpoint that `selector` names: "latest", a label, "label:L", "step:N" or an id. With several ranks resolve on one and give the id to the others. NotFoundError where there is none.
        """

    def remove(self, id: str) -> None:
        """Removes one checkpoint. ConflictError while a reader holds it."""

    def prune(self, options: Mapping[str, int | str] | None = None, **keywords: int | str) -> ckpt.records.Report:
        """
        Applies a retention policy (keep_last, keep_every, protect, dry_run) to one run.
        """

    def repair(self, id: str, options: Mapping[str, int | str] | None = None, **keywords: int | str) -> ckpt.records.Report:
        """
        Rebuilds a lost or damaged manifest from the parts; only reports unless dry_run=0.
        """

    def import_file(self, path: str | os.PathLike[str], label: str, step: int = -1, options: Mapping[str, int | str] | None = None, **keywords: int | str) -> ckpt.records.CheckpointInfo:
        """
        Saves a .pt, an hfai directory, a safetensors file or a Hugging Face set as a checkpoint of its own run. No code of the file is run.
        """

    def close(self) -> None:
        """Ends it now; any later use is InvalidError. May be called again."""

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> Store: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

class Session:
    """
    One start of all ranks of a run; it owns the run until a newer one is opened. One rank: Session(store). Several: rank 0 opens it without session_string and sends .string to the others, who pass it; or all pass rendezvous=1. Opening may block for option timeout_ms while ranks are missing; Ctrl-C is heard after it.
    """

    def __init__(self, store: Store, rank: int = 0, world_size: int = 1, session_string: str | None = None, options: Mapping[str, int | str] | None = None, **keywords: int | str) -> None: ...

    @property
    def string(self) -> str:
        """What rank 0 sends to the other ranks."""

    @property
    def world_size(self) -> int:
        """How many ranks it is of."""

    def close(self) -> None:
        """Ends it now; any later use is InvalidError. May be called again."""

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> Session: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

class Save:
    """
    One rank's share of one checkpoint: make it, add, then run or start it once. Every rank of the session does the same for the same label. One thread at a time.
    """

    def __init__(self, session: Session, label: str, step: int = -1, options: Mapping[str, int | str] | None = None, **keywords: int | str) -> None: ...

    def add_tensor(self, name: str, data: object, *, dtype: int | str | None = None, shape: Sequence[int] | None = None, offset: Sequence[int] | None = None, extent: Sequence[int] | None = None, flat_offset: int | None = None, flat_size: int | None = None, strides: Sequence[int] | None = None, replica: tuple[int, int, int] | None = None, device: tuple[int, int] | None = None) -> None:
        """
        Adds this rank's region of tensor `name`. `data` is an array (DLPack or the buffer protocol) and is not copied: it is referred to until the save has run or its job is seen STAGED, and must not change before.

        Whole: nothing else. A box: `shape` of the whole tensor and `offset`, in elements; its extent is the array's shape. A flat range: `shape` and `flat_offset`. `replica` = (group, index, count): who else holds the same region; without it every rank of the world for a whole tensor, this rank alone else.

        With `dtype` the data is raw bytes (None for no memory) and shape, extent, flat_size and strides (in elements) say what they are; `device` = (DLPack's type, id).
        """

    def add_object(self, name: str, data: object, media_type: str = 'application/octet-stream', scope: int = 0) -> None:
        """
        Adds named bytes, which are copied at once. `scope`: ckpt.Scope.SHARED (rank 0's) or PER_RANK.
        """

    def add_alias(self, name: str, target: str, *, shape: Sequence[int] | None = None, strides: Sequence[int] | None = None, offset: int = 0) -> None:
        """
        Adds a second name for tensor `target`, or for a view of it in elements of the flattened target.
        """

    def add_tree(self, tree: Tree, name: str | None = None) -> None:
        """
        Adds a finished tree as shared object `name` (None: the checkpoint's main tree).
        """

    def set_attr(self, key: str, value: str, tensor: str | None = None) -> None:
        """
        Sets an attribute of the checkpoint, or of a tensor that this rank adds.
        """

    @property
    def id(self) -> str:
        """The id that the checkpoint will have once committed."""

    def run(self, *, interruptible: bool = True) -> None:
        """
        Saves; returns once the checkpoint is durable, complete and committed (rank 0; other ranks: committed).

        It runs as a job that is waited for, so that Ctrl-C cancels it: KeyboardInterrupt comes once the engine is quiet. A save that was being committed just then may be there. interruptible=False saves from this thread; Ctrl-C is heard when it is over.
        """

    def start(self, *, in_place: bool = False) -> Job:
        """
        The same in the background. The memory may change again once the job is STAGED. in_place=True makes no copy first: STAGED comes when all was written out.
        """

    def close(self) -> None:
        """Ends it now; any later use is InvalidError. May be called again."""

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> Save: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

class Reader:
    """
    An immutable view of one committed checkpoint; while it is open, pruning passes it over. Opening checks the manifest and reads no tensor data. Its methods may be called from several threads.
    """

    def __init__(self, store: Store, selector: str = 'latest', options: Mapping[str, int | str] | None = None, **keywords: int | str) -> None: ...

    @property
    def info(self) -> ckpt.records.CheckpointInfo:
        """Of the checkpoint that is open."""

    @property
    def tensor_count(self) -> int:
        """Of tensors and aliases."""

    def tensors(self) -> list[ckpt.records.TensorInfo]:
        """All tensors and aliases in the order of their names' bytes."""

    def tensor_at(self, index: int) -> ckpt.records.TensorInfo:
        """The same, one by one."""

    def tensor(self, name: str) -> ckpt.records.TensorInfo:
        """NotFoundError where there is none of that name."""

    def alias(self, name: str) -> ckpt.records.AliasInfo:
        """
        The view that alias `name` is of its target; NotFoundError of what is no alias.
        """

    def segment(self, tensor: str, index: int) -> ckpt.records.SegmentInfo:
        """Where a piece of a tensor lies, for tools."""

    @property
    def object_count(self) -> int:
        """Of shared objects and of each rank's own."""

    def objects(self) -> list[ckpt.records.ObjectInfo]:
        """All objects in the order of name, then rank."""

    def object_at(self, index: int) -> ckpt.records.ObjectInfo:
        """The same, one by one."""

    def object(self, name: str, rank: int = 0) -> ckpt.records.ObjectInfo:
        """The shared object `name`, or `rank`'s own."""

    def part(self, index: int) -> ckpt.records.PartInfo:
        """A part file, by its number."""

    def attrs(self, tensor: str | None = None) -> dict[str, str]:
        """
        Attributes of the checkpoint, or of a tensor, in the order of their keys.
        """

    def attr(self, key: str, tensor: str | None = None) -> str | None:
        """One of them; None for none."""

    def map(self, name: str, options: Mapping[str, int | str] | None = None, **keywords: int | str) -> View:
        """
        A view of a whole tensor without a copy, checked first (verify=0: not). UnsupportedError where its bytes are not stored raw and in one piece. A failing disk can end the process by SIGBUS; loads cannot.
        """

    def tree(self, name: str | None = None) -> Tree:
        """
        The tree of object `name`; None: the main one, or a dict of all tensors where there is none.
        """

    def verify(self, options: Mapping[str, int | str] | None = None, **keywords: int | str) -> Job:
        """
        Checks the checkpoint in the background; Job.report() lists every damage, none for a sound one.
        """

    def diff(self, other: Reader, options: Mapping[str, int | str] | None = None, **keywords: int | str) -> ckpt.records.Report:
        """
        Compares two checkpoints; an empty report means equal content. values=0: the structure only.
        """

    def export(self, path: str | os.PathLike[str], options: Mapping[str, int | str] | None = None, **keywords: int | str) -> None:
        """
        Writes it as safetensors, a .pt or an hfai directory (option format) to `path`, which must not exist.
        """

    def close(self) -> None:
        """Ends it now; any later use is InvalidError. May be called again."""

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> Reader: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

class Load:
    """
    Many requests that are planned and read together: make it, add, then run or start it once. One thread at a time.
    """

    def __init__(self, reader: Reader, options: Mapping[str, int | str] | None = None, **keywords: int | str) -> None: ...

    def add_tensor(self, name: str, data: object, *, dtype: int | str | None = None, shape: Sequence[int] | None = None, offset: Sequence[int] | None = None, extent: Sequence[int] | None = None, flat_offset: int | None = None, flat_size: int | None = None, strides: Sequence[int] | None = None, device: tuple[int, int] | None = None, convert: bool = False) -> None:
        """
        Asks for a region of a tensor or alias in `data`, a writable array that is referred to until the load has ended. Regions and raw memory as in Save.add_tensor; any box will do, whatever boxes were saved. MismatchError where shape or dtype are not the tensor's; `convert` lets f32, bf16 and f16 be converted.
        """

    def add_object(self, name: str, data: object, rank: int = 0) -> None:
        """
        Asks for the shared object `name`, or `rank`'s own, in writable memory of Reader.object(name, rank).size bytes.
        """

    def run(self, *, interruptible: bool = True) -> None:
        """
        Reads; when it returns, every requested byte was written and (verify=1) checked. Structural errors come before the first byte changes; after CorruptError, IoError, GoneError or KeyboardInterrupt the memory is undefined. interruptible=False runs on this thread; Ctrl-C is heard when it is over.
        """

    def start(self) -> Job:
        """The same in the background."""

    def report(self) -> ckpt.records.Report:
        """
        Names that were asked for and are missing, and names that were not asked for.
        """

    def close(self) -> None:
        """Ends it now; any later use is InvalidError. May be called again."""

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> Load: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

class File:
    """
    A PyTorch .pt or a safetensors file, mapped and opened in place: no code is run, nothing is copied. A file that somebody truncates meanwhile can end the process by SIGBUS.
    """

    def __init__(self, path: str | os.PathLike[str], options: Mapping[str, int | str] | None = None, **keywords: int | str) -> None: ...

    @property
    def format(self) -> str:
        """"pt" (zip), "pt-legacy" or "safetensors"."""

    @property
    def tensor_count(self) -> int:
        """Those that share memory too."""

    def tensors(self) -> list[ckpt.records.FileTensor]:
        """
        In the order of the tree; one that shares memory comes after the one it shares it with.
        """

    def tensor(self, index: int) -> ckpt.records.FileTensor:
        """The same, one by one."""

    def data(self, index: int) -> View:
        """The elements of one tensor, where they lie in the file."""

    def tree(self) -> Tree:
        """All that the file holds, tensors by their names."""

    def close(self) -> None:
        """Ends it now; any later use is InvalidError. May be called again."""

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> File: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...
