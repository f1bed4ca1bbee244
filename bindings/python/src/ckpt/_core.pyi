"""The classes of the C API. Use them from ckpt, not from here."""

from collections.abc import Callable, Mapping, Sequence
import os
import types
from typing import Any

import ckpt.enums
import ckpt.frameworks
import ckpt.records
import ckpt.sharing
import ckpt.tables
import ckpt.trees


def version() -> str:
    """The version of the loaded library, "0.1.0"."""

def version_number() -> int:
    """The version as major * 1000000 + minor * 1000 + patch."""

HEADER_VERSION_NUMBER: int = 1000

FORMAT_REVISION: int = 1

TABLE_BUCKETS: int = 65536

def status_name(status: int) -> str:
    """
    "CORRUPT" for 30; "UNKNOWN" for a number that the library does not know.
    """

def dtype_name(dtype: int) -> str:
    """"bf16" for 0x410; "dtype" for an unknown one."""

def dtype_bits(dtype: int) -> int:
    """Bits of one element; 0 if the number cannot be a dtype."""

def dtype_find(name: str) -> int:
    """The number of a dtype by its name; -1 if unknown."""

def options() -> list[ckpt.records.OptionInfo]:
    """All options, with their bounds."""

class Memory:
    """
    The memory of an array: where it lies and what its elements are. It keeps the array's memory alive and in place.

    Save and Load make one for each array; make one yourself only to give the same array to several of them.
    """

    def __repr__(self) -> str: ...

    @staticmethod
    def of(array: object, writable: bool = False) -> Memory:
        """
        The memory of anything with DLPack or the buffer protocol, never a copy. Raises UnsupportedError if a copy would be needed, or if the array is read-only and `writable` is set; TypeError for other objects.
        """

    @property
    def address(self) -> int:
        """Address of the first element."""

    @property
    def nbytes(self) -> int:
        """
        Bytes from the first element to the end of the last, gaps between strides included.
        """

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
        """Whether the elements lie in row-major order without gaps."""

    @property
    def device(self) -> tuple[int, int]:
        """DLPack's numbers of the device: (1, 0) is the CPU."""

    @property
    def stream(self) -> int:
        """
        Of memory on a CUDA device: the stream behind whose work it is copied; 1 is the legacy default stream.
        """

    @property
    def readonly(self) -> bool:
        """Whether loads are refused."""

class View:
    """
    A tensor in a mapped file, read-only. numpy.asarray(view) reads it through the buffer protocol, which lacks some dtypes: bf16 and float8 appear there as unsigned integers of the same width, packed ones (4 and 6 bits) as bytes. The file stays mapped while the view lives.
    """

    def __repr__(self) -> str: ...

    @property
    def dtype(self) -> ckpt.enums.DType:
        """The tensor's dtype."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor's elements."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class Job:
    """
    Work in the background, from Save.start, Load.start or Reader.verify. Several threads may use it at once.

    Job() is for one call that blocks: given to Session(), Store.prune, repair or import_file, Reader.diff, copy or export as job=, it lets another thread watch and cancel that call.

    The end of a `with` block waits for the end of the work; an exception in the block cancels the work instead.
    """

    def __init__(self) -> None: ...

    def __repr__(self) -> str: ...

    @property
    def state(self) -> ckpt.enums.JobState:
        """How far the job is; its number only grows."""

    def wait(self, state: int | None = None, timeout_ms: int = -1) -> None:
        """
        Waits until the job reaches `state` (None: its end). A negative timeout waits without limit.

        Raises TimeoutError when the time is up (the job goes on), or the error of a job that failed. Ctrl-C ends the wait, not the job; close(), or the `with` block that the KeyboardInterrupt leaves, cancels it.
        """

    def cancel(self) -> None:
        """
        Asks the job to stop and returns at once. A save that is not yet committed will not be.
        """

    @property
    def stats(self) -> ckpt.records.JobStats:
        """Counters of the work so far."""

    def report(self) -> ckpt.records.Report:
        """
        What a verify job found, once it has ended; UnsupportedError for other jobs.
        """

    def close(self) -> None:
        """
        Cancels the job if it still runs, and waits until the engine no longer uses the memory.
        """

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> Job: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

def find_aliases(tensors: dict[str, Memory]) -> tuple[list[ckpt.sharing.Alias], list[ckpt.sharing.Span]]:
    """
    The tensors that are saved as aliases of others, and what is saved in addition for them.
    """

class Tree:
    """
    Nested state with tensors as leaves (schemas/STATE_TREE.md): built in document order, or read by node number (the root is 0). ckpt.to_native and ckpt.from_native turn whole trees into Python values and back. One thread at a time while it is built.
    """

    def __init__(self) -> None: ...

    @staticmethod
    def parse(json: str | bytes) -> Tree:
        """A tree from JSON in that convention, as text or as UTF-8 bytes."""

    def json(self) -> str:
        """The finished tree as JSON; equal trees give equal text."""

    def key(self, key: str | int) -> None:
        """
        Sets the key of the next value in a dict or record. 0 and "0" are two keys.
        """

    def add_null(self) -> None:
        """Adds None."""

    def add_bool(self, value: bool) -> None:
        """Adds a bool."""

    def add_int(self, value: int) -> None:
        """Adds an integer of any size."""

    def add_bigint(self, digits: str) -> None:
        """Adds an integer of decimal digits with an optional '-'."""

    def add_float(self, value: float) -> None:
        """Adds a float. NaN and infinities are kept, the bits of a NaN are not."""

    def add_text(self, value: str) -> None:
        """Adds text, which may hold NULs."""

    def add_bytes(self, value: bytes) -> None:
        """Adds bytes, which are copied."""

    def add_tensor(self, name: str | None = None) -> str:
        """
        Adds a tensor as a leaf. Returns the name to save it under: `name`, or its path in the tree.
        """

    def begin(self, kind: int, class_name: str | None = None) -> None:
        """
        Opens a container. `kind`: ckpt.NodeKind.LIST, TUPLE, SET, DICT, or RECORD with class_name.
        """

    def end(self) -> None:
        """Closes the innermost open container."""

    def __len__(self) -> int:
        """How many nodes there are."""

    def node(self, index: int) -> ckpt.records.Node:
        """Node number `index`, in document order."""

    def find(self, parent: int, key: str | int) -> int:
        """
        The number of a child: of a dict or record by its key, of a list, tuple or set by its position. NotFoundError if there is none.
        """

    def close(self) -> None:
        """
        Closes it now; any later use raises InvalidError. Calling it again does nothing.
        """

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> Tree: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

    def __repr__(self) -> str: ...

def write_value(writer: ckpt.trees.TreeWriter, value: object, path: tuple[str, ...]) -> None:
    """What ckpt.trees.TreeWriter.write does."""

def escape(key: str) -> str:
    """A text key as a segment of a path: schemas/STATE_TREE.md section 4."""

def read_value(reader: ckpt.trees.TreeReader, index: int, like: object) -> Any:
    """What ckpt.trees.TreeReader.read does."""

def read_entries(reader: ckpt.trees.TreeReader, index: int, like: object) -> dict[Any, Any]:
    """What ckpt.trees.TreeReader.entries does."""

def tensor_names(tree: Tree, index: int = 0) -> set[str]:
    """The names of all tensors in a tree, or below one of its nodes."""

def unused(value: object, path: str, used: set[int]) -> list[tuple[str, Any]]:
    """
    What lies in dicts, lists and tuples, nested in any way, and has none of these ids, with the paths.
    """

def replaced(value: object, types: tuple[type, ...], function: Callable[[Any], object]) -> Any:
    """
    A copy of dicts, lists and tuples, nested in any way, in which function(value) replaces the values of these types.
    """

class Store:
    """
    A directory that holds checkpoints ("/data/run7", any os.PathLike, "file:///data/run7"), a prefix in a bucket of an object store ("s3://bucket/run7"), a directory of a web server ("https://host/run7": to be read, and checkpoints are opened by their ids), or a store in this process's memory ("mem:NAME"). Opening it creates nothing. Several threads may use it at once.
    """

    def __init__(self, uri: str | os.PathLike[str], options: Mapping[str, int | str] | None = None, **keywords: int | str) -> None: ...

    def list(self) -> list[ckpt.records.CheckpointInfo]:
        """
        All checkpoints and attempts at this moment, oldest first: by run, then token, then sequence.
        """

    def runs(self) -> Sequence[ckpt.records.RunInfo]:
        """
        All runs, by name: those that a session has opened and those that have checkpoints.
        """

    def find(self, selector: str = 'latest', options: Mapping[str, int | str] | None = None, **keywords: int | str) -> ckpt.records.CheckpointInfo:
        """
        The committed checkpoint that `selector` names: "latest", a label, "label:L", "step:N" or an id. NotFoundError if there is none. With several ranks call it on one and send the id to the others.
        """

    def remove(self, id: str) -> None:
        """Removes one checkpoint. ConflictError while a reader has it open."""

    def prune(self, options: Mapping[str, int | str] | None = None, *, job: Job | None = None, **keywords: int | str) -> ckpt.records.Report:
        """
        Applies a retention policy (options keep_last, keep_every, protect, dry_run) to the numbered checkpoints of one run, whose label has their step in it (step-100); others (best) stay.
        """

    def repair(self, id: str, options: Mapping[str, int | str] | None = None, *, job: Job | None = None, **keywords: int | str) -> ckpt.records.Report:
        """
        Rebuilds a lost or damaged manifest from the parts. Only says what it would do, unless dry_run=0.
        """

    def import_file(self, path: str | os.PathLike[str], label: str, step: int = -1, options: Mapping[str, int | str] | None = None, *, job: Job | None = None, **keywords: int | str) -> ckpt.records.CheckpointInfo:
        """
        Saves a .pt, a DCP or hfai directory, a safetensors file or a Hugging Face set as a checkpoint, by default in run "main", or in run "import" if a trainer has used "main" since the last import. Runs no code of the file.
        """

    def close(self) -> None:
        """
        Closes it now; any later use raises InvalidError. Calling it again does nothing.
        """

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> Store: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

    def __repr__(self) -> str: ...

class Session:
    """
    One start of all ranks of a run; it owns the run until a newer session is opened. One rank: Session(store). Several: rank 0 opens it without session_string and sends .string to the others, who pass it; or all pass rendezvous=1. Opening waits up to option timeout_ms for missing ranks; Ctrl-C takes effect after that, job.cancel() from another thread at once.
    """

    def __init__(self, store: Store, rank: int = 0, world_size: int = 1, session_string: str | None = None, options: Mapping[str, int | str] | None = None, *, job: Job | None = None, **keywords: int | str) -> None: ...

    @property
    def string(self) -> str:
        """The session string, which rank 0 sends to the other ranks."""

    def mirror(self) -> Job:
        """
        On rank 0 of a store with option mirror: a job that is DONE once the mirror has all that was committed before this call. It fails with the first failure from now on, while copying goes on, unless that was FENCED; its report names what will not be copied. Closing the job ends the waiting, not the copying; close() of the session waits for what is still to be copied.
        """

    @property
    def world_size(self) -> int:
        """How many ranks the session has."""

    def close(self) -> None:
        """
        Closes it now; any later use raises InvalidError. Calling it again does nothing.
        """

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> Session: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

    def __repr__(self) -> str: ...

class Save:
    """
    One rank's share of a checkpoint: add tensors and objects, then call run() or start() once. Every rank of the session does the same for the same label. One thread at a time.
    """

    def __init__(self, session: Session, label: str, step: int = -1, options: Mapping[str, int | str] | None = None, **keywords: int | str) -> None: ...

    def add_tensor(self, name: str, data: object, *, dtype: int | str | None = None, shape: Sequence[int] | None = None, offset: Sequence[int] | None = None, extent: Sequence[int] | None = None, flat_offset: int | None = None, flat_size: int | None = None, strides: Sequence[int] | None = None, replica: tuple[int, int, int] | None = None, device: tuple[int, int] | None = None, first_replica: bool = False) -> None:
        """
        Adds this rank's region of tensor `name`. `data` is an array (DLPack or the buffer protocol). It is not copied: the save keeps it, and it must not change, until the save has run or its job is STAGED.

        A whole tensor needs nothing else. A box: `shape` of the whole tensor and `offset`, in elements; its extent is the array's shape. A flat range: `shape` and `flat_offset`. `replica` = (group, index, count) says who else holds the same region; by default all ranks hold a whole tensor, and this rank alone any other region. Their values must be equal; with `first_replica` those of the first of them count.

        With `dtype` the data is raw bytes (None if the region is empty), and shape, extent, flat_size and strides (in elements) describe them; `device` = (DLPack's type, id).
        """

    def add_tensors(self, tensors: dict[str, Any], *, replica: tuple[int, int, int] | None = None) -> None:
        """
        Adds whole tensors by their names, as add_tensor() does, but quickly. Stops at the first that fails: those before it were added.
        """

    def add_object(self, name: str, data: object, media_type: str = 'application/octet-stream', scope: int = 0) -> None:
        """
        Adds named bytes, which are copied at once. `scope`: ckpt.Scope.SHARED (rank 0's, for all) or PER_RANK.
        """

    def add_alias(self, name: str, target: str, *, shape: Sequence[int] | None = None, strides: Sequence[int] | None = None, offset: int = 0) -> None:
        """
        Adds a second name for tensor `target`, or for a view of it: shape, strides and offset in elements of the flattened target.
        """

    def add_tree(self, tree: Tree, name: str | None = None) -> None:
        """
        Adds this rank's finished tree as `name` (None: the checkpoint's main tree). The trees of all ranks are merged.
        """

    def give_up(self, reason: str) -> None:
        """
        Instead of run() or start(), where this rank cannot save: the other ranks end at once and learn why.
        """

    def add_table(self, name: str, ids: object, columns: dict[str, Any], *, bucket_count: int = 65536, positions: object = None, raw: Mapping[str, tuple[int | str, Sequence[int]]] | None = None) -> None:
        """
        Adds this rank's rows of sparse table `name`; a rank without any may leave it out. `ids`: i64 or u64, each once. `columns`: by name an array whose first dimension is rows, row i of which belongs to id i; or a list of such arrays, the blocks of a hash table, which have the same number of rows, except for the last. With `positions` (as many as ids) row i is that one of the blocks taken together. The arrays must be contiguous, ids and positions in memory of the CPU, columns in that of the CPU or of one CUDA device; they are not copied, and kept as by add_tensor(). `raw`: by name (dtype, shape of a row), for columns whose memory is raw bytes. Columns and bucket_count are those of all ranks.
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
        Saves. Returns once the checkpoint is durable, complete and committed (on ranks > 0: committed).

        Ctrl-C cancels the save, which runs as a job for that: KeyboardInterrupt comes once the engine no longer uses the memory; a save that was just being committed may still exist. interruptible=False saves on this thread, where Ctrl-C waits for the end of the save.
        """

    def report(self) -> ckpt.records.Report:
        """
        Once the save has ended, on rank 0: what retention removed, and what it could not remove and why. Empty on other ranks.
        """

    def start(self, *, in_place: bool = False) -> Job:
        """
        Does what run() does, in the background. The memory may change again once the job is STAGED. in_place=True makes no copy: the job is STAGED once everything is written.
        """

    def close(self) -> None:
        """
        Closes it now; any later use raises InvalidError. Calling it again does nothing.
        """

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> Save: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

    def __repr__(self) -> str: ...

class Reader:
    """
    One committed checkpoint, read-only; pruning keeps it while the reader is open. Opening checks the manifest and reads no tensor data. It warns (PassedOverWarning) if newer checkpoints cannot be loaded; on_damaged="error" raises instead. Several threads may use it at once.
    """

    def __init__(self, store: Store, selector: str = 'latest', options: Mapping[str, int | str] | None = None, **keywords: int | str) -> None: ...

    @property
    def info(self) -> ckpt.records.CheckpointInfo:
        """About the checkpoint."""

    def report(self) -> ckpt.records.Report:
        """
        The newer checkpoints of the run that cannot be loaded and were passed over, newest first. Empty for a checkpoint that was named by its id.
        """

    @property
    def tensor_count(self) -> int:
        """How many tensors and aliases there are."""

    def tensors(self) -> list[ckpt.records.TensorInfo]:
        """All tensors and aliases, in the order of their names' bytes."""

    def tensor_at(self, index: int) -> ckpt.records.TensorInfo:
        """Number `index` of tensors()."""

    def tensor(self, name: str) -> ckpt.records.TensorInfo:
        """The tensor or alias `name`; NotFoundError if there is none."""

    def alias(self, name: str) -> ckpt.records.AliasInfo:
        """
        Which view of its target alias `name` is; NotFoundError if `name` is no alias.
        """

    def segment(self, tensor: str, index: int) -> ckpt.records.SegmentInfo:
        """Where segment `index` of a tensor is stored; for tools."""

    @property
    def object_count(self) -> int:
        """How many objects there are, counting each rank's own."""

    def objects(self) -> list[ckpt.records.ObjectInfo]:
        """All objects, in the order of name, then rank."""

    def object_at(self, index: int) -> ckpt.records.ObjectInfo:
        """Number `index` of objects()."""

    def object(self, name: str, rank: int = 0) -> ckpt.records.ObjectInfo:
        """
        The shared object `name`, or the one of `rank`; NotFoundError if there is none.
        """

    def part(self, index: int) -> ckpt.records.PartInfo:
        """Part file number `index`."""

    def attrs(self, tensor: str | None = None) -> dict[str, str]:
        """
        Attributes of the checkpoint, or of a tensor, in the order of their keys.
        """

    def attr(self, key: str, tensor: str | None = None) -> str | None:
        """One attribute; None if it is not set."""

    def tree(self, name: str | None = None, *, rank: int | None = None) -> Tree:
        """
        The tree in object `name`. None: the main tree, or a dict of all tensors if there is none. `rank`: of what is each rank's own, only what that rank saved, or rank 0 if there were fewer ranks.
        """

    def tables(self) -> list[ckpt.records.TableInfo]:
        """
        All sparse tables, in the order of their names' bytes. Their ids and columns are tensors, too.
        """

    def table(self, name: str) -> ckpt.records.TableInfo:
        """The sparse table `name`; NotFoundError if there is none."""

    def map(self, name: str, options: Mapping[str, int | str] | None = None, **keywords: int | str) -> View:
        """
        A view of a whole tensor without a copy, checked first unless verify=0. UnsupportedError if its bytes are not stored raw and in one piece. A failing disk can end the process by SIGBUS; a load raises IoError instead.
        """

    def verify(self, options: Mapping[str, int | str] | None = None, **keywords: int | str) -> Job:
        """
        Checks the checkpoint in the background. Job.report() then lists all damage; it is empty if there is none.
        """

    def diff(self, other: Reader, options: Mapping[str, int | str] | None = None, *, job: Job | None = None, **keywords: int | str) -> ckpt.records.Report:
        """
        Compares two checkpoints; the report is empty if their content is equal. values=0 compares the structure only.
        """

    def copy(self, to: Store, options: Mapping[str, int | str] | None = None, *, job: Job | None = None, **keywords: int | str) -> ckpt.records.Report:
        """
        Makes the same checkpoint in another store, byte for byte, and checks every byte on its way. An unfinished copy is no checkpoint; the next call goes on with it. The report says what was there already, and whether the copy is foreign in that store. ExistsError if another checkpoint has its name there.
        """

    def export(self, path: str | os.PathLike[str], options: Mapping[str, int | str] | None = None, *, job: Job | None = None, **keywords: int | str) -> None:
        """
        Writes the checkpoint as safetensors, a .pt, a DCP or an hfai directory (option format) to `path`, which must not exist.
        """

    def close(self) -> None:
        """
        Closes it now; any later use raises InvalidError. Calling it again does nothing.
        """

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> Reader: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

    def __repr__(self) -> str: ...

class Share:
    """
    The rows of a sparse table that a rank loads, counted before memory is made for them, and cut into windows. Several threads may use it at once.
    """

    def __init__(self, reader: Reader, table: str, rows: ckpt.tables.Rowset | None = None, *, window_rows: int = 0, options: Mapping[str, int | str] | None = None, job: Job | None = None, **keywords: int | str) -> None:
        """
        `rows`: which ones; None: all. `window_rows`: the most rows of a window; 0: one window for all. It reads what tells where buckets begin; of Rowset.mod all ids, of Rowset.ids those near to what is looked for.
        """

    @property
    def table(self) -> ckpt.records.TableInfo:
        """The table."""

    @property
    def row_count(self) -> int:
        """Rows of all windows."""

    @property
    def window_count(self) -> int:
        """At least 1."""

    @property
    def most_rows(self) -> int:
        """Of the largest window."""

    def rows_of(self, window: int) -> int:
        """How many rows a window has."""

    @property
    def missing(self) -> list[int]:
        """The ids that were asked for and that the table lacks, in that order."""

    def close(self) -> None:
        """
        Closes it now; any later use raises InvalidError. Calling it again does nothing.
        """

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> Share: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

    def __repr__(self) -> str: ...

class Load:
    """
    A load of tensors and objects, planned and read together: add them, then call run() or start() once. One thread at a time.
    """

    def __init__(self, reader: Reader, options: Mapping[str, int | str] | None = None, **keywords: int | str) -> None: ...

    def add_tensor(self, name: str, data: object, *, dtype: int | str | None = None, shape: Sequence[int] | None = None, offset: Sequence[int] | None = None, extent: Sequence[int] | None = None, flat_offset: int | None = None, flat_size: int | None = None, strides: Sequence[int] | None = None, device: tuple[int, int] | None = None, convert: bool = False) -> None:
        """
        Reads a region of a tensor or alias into `data`, a writable array, which the load keeps until it has ended. Regions and raw memory are given as in Save.add_tensor; any box will do, whatever boxes were saved. MismatchError if shape or dtype are not the tensor's; `convert` allows conversion between f32, bf16 and f16.
        """

    def add_table(self, share: Share, ids: object, columns: dict[str, Any], window: int = 0) -> None:
        """
        Reads the rows of a window of a share of the same reader: their ids into `ids` (None for a share of Rowset.ids, if they are not wanted), and of each column the rows into an array of its dtype and shape, or into raw bytes (u8); all are contiguous memory for Share.rows_of(window) rows or more, which the load keeps until it has ended: the ids' of the CPU, the columns' of the CPU or of one CUDA device. Each row is at the same place in all of them.
        """

    def add_object(self, name: str, data: object, rank: int = 0) -> None:
        """
        Reads the shared object `name`, or the one of `rank`, into writable memory of Reader.object(name, rank).size bytes.
        """

    def run(self, *, interruptible: bool = True) -> None:
        """
        Loads all that was added. When it returns, every byte was read and, unless verify=0, checked. Structural errors come before the first byte changes; after CorruptError, IoError, GoneError or KeyboardInterrupt the contents of the memory are undefined. interruptible=False loads on this thread, where Ctrl-C waits for the end of the load.
        """

    def start(self) -> Job:
        """Does what run() does, in the background."""

    def report(self) -> ckpt.records.Report:
        """
        Names that were asked for and are missing, and names of the checkpoint that were not asked for.
        """

    def close(self) -> None:
        """
        Closes it now; any later use raises InvalidError. Calling it again does nothing.
        """

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> Load: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

    def __repr__(self) -> str: ...

class Buffer:
    """Memory of arrays that a load made."""

    @property
    def nbytes(self) -> int:
        """Its size."""

class NewArrays:
    """Makes arrays, and asks a load to fill them."""

    def __init__(self, load: Load, reader: Reader, framework: ckpt.frameworks.Framework, made: dict[str, Any], mixed: bool) -> None: ...

    def add(self) -> None:
        """Adds what was made to the load."""

class OwnArrays:
    """Asks a load to fill the caller's arrays."""

    def __init__(self, load: Load, convert: bool, filled: dict[Any, Any], used: set[int], names: set[str]) -> None: ...

    def add(self) -> None:
        """Adds what was asked for to the load."""

class File:
    """
    A file or directory of PyTorch, safetensors or another program (README.md lists them), mapped and read in place: no code is run, nothing is copied. If somebody truncates the file meanwhile, SIGBUS can end the process. Of an address ("https://host/model.pt", "s3://bucket/run/checkpoint-500") the bytes of all tensors are fetched, unless tensor_data=0: then none are.
    """

    def __init__(self, path: str | os.PathLike[str], options: Mapping[str, int | str] | None = None, **keywords: int | str) -> None: ...

    @property
    def format(self) -> str:
        """
        "pt" (zip), "pt-legacy", "safetensors", "dcp", "deepspeed" and so on: ckpt_file.h lists them.
        """

    @property
    def left_out(self) -> list[str]:
        """
        What is in the directory and was not read: "meta.pt", or "runs/" of a directory.
        """

    @property
    def tensor_count(self) -> int:
        """How many tensors there are, those that share memory included."""

    def tensors(self) -> list[ckpt.records.FileTensor]:
        """
        All tensors in the order of the tree; one that shares another's memory comes after it.
        """

    def tensor(self, index: int) -> ckpt.records.FileTensor:
        """Number `index` of tensors()."""

    def data(self, index: int) -> View:
        """
        The elements of tensor `index`, where they lie in the file. ValueError: they have no address, since they lie in several pieces or since the file was opened with tensor_data=0; read() reads them.
        """

    def read(self, index: int, data: object, *, dtype: int | str | None = None, shape: Sequence[int] | None = None, offset: Sequence[int] | None = None, extent: Sequence[int] | None = None, flat_offset: int | None = None, flat_size: int | None = None, strides: Sequence[int] | None = None) -> None:
        """
        Copies a region of tensor `index` into `data`, a writable array of the CPU, also of a tensor that has no data(). Regions and raw memory are given as in Save.add_tensor. MismatchError: shape or dtype are not the tensor's. One thread at a time.
        """

    def tables(self) -> list[ckpt.records.TableInfo]:
        """
        Sparse tables (RecIS'), in the order of their names' bytes. Their ids and columns are tensors, too; how many buckets there are is not told, 0.
        """

    def tree(self) -> Tree:
        """All that the file holds; its tensors appear as their names."""

    def close(self) -> None:
        """
        Closes it now; any later use raises InvalidError. Calling it again does nothing.
        """

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    def __enter__(self) -> File: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

    def __repr__(self) -> str: ...

class FileShare:
    """
    Some rows of a sparse table in a file (RecIS'), cut into windows. Opening it reads all ids of the table; MismatchError: an id is there twice. One thread at a time may use the shares of a file.
    """

    def __init__(self, file: File, table: str, kind: str, first: int, second: int, listed: object, window_rows: int) -> None:
        """
        Of a Rowset its four; window_rows: the most rows of a window, 0 for one window.
        """

    @property
    def window_count(self) -> int:
        """At least 1."""

    def rows_of(self, window: int) -> int:
        """How many rows a window has."""

    def read(self, window: int, ids: object, columns: dict[str, Any]) -> None:
        """
        Copies the rows of a window into arrays, of ids and of columns by their names.
        """
