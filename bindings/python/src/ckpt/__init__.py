"""ckpt: training checkpoints, saved by many ranks and loaded on any number.

    ckpt.save("/data/run7", {"model": model.state_dict(), "epoch": 3}, step=100)
    state = ckpt.load("/data/run7", into={"model": model.state_dict()})

save, save_async and load take whole states; ls, open and stats show what a store and a checkpoint hold. Beneath them
are the objects of the C API: Store, Session, Save, Reader, Load, Job, Tree and File. All are context managers; using
one after it is closed raises InvalidError. Every failure is an Error with status, message and details. Importing ckpt
imports neither numpy nor torch.
"""

from . import _clash, _end, errors
from ._core import (FORMAT_REVISION, HEADER_VERSION, File, Job, Load, Memory, Save, Tree, View, dtype_bits,
                    dtype_find, dtype_name, options, status_name, version, version_number)
from .enums import (CheckpointFlags, CheckpointState, Codec, Device, DType, Filter, FindingKind, IoEngine, JobState,
                    KeyKind, NodeKind, OptionKind, Scope, Status)
from .errors import *

TYPE_CHECKING = False  # that of typing, which takes long to import
if TYPE_CHECKING:
    from .background import SaveHandle
    from .checkpointer import Check, Checkpointer, Event, Moment, Restored
    from .choosing import load
    from .figures import stats
    from .fsspecs import fsspec_store
    from .handles import Reader, Session, Store
    from .opening import Checkpoint, LazyTensor, Listing, ls
    from .opening import open as open  # not in __all__, for it would hide Python's own
    from .process_random import random_states
    from .records import (AliasInfo, CheckpointInfo, ColumnInfo, FileTensor, Finding, JobStats, Node, ObjectInfo,
                          OptionInfo, PartInfo, Report, RunInfo, SegmentInfo, TableInfo, TensorInfo)
    from .regions import PerRank, Shard
    from .saving import save, save_async
    from .tables import Rowset, Share, Table
    from .trees import Record, TensorName, TreeSet, from_native, to_native

__version__ = HEADER_VERSION

__all__ = [
    "save", "save_async", "load", "ls", "stats", "fsspec_store", "SaveHandle", "Shard", "PerRank", "random_states",
    "Table", "Rowset", "Share",
    "Checkpoint", "LazyTensor", "Listing", "Checkpointer", "Restored", "Moment", "Check", "Event",
    "Store", "Session", "Save", "Reader", "Load", "Job", "Tree", "File", "Memory", "View",
    "from_native", "to_native", "Record", "TensorName", "TreeSet",
    "AliasInfo", "CheckpointInfo", "ColumnInfo", "FileTensor", "Finding", "JobStats", "Node", "ObjectInfo",
    "OptionInfo", "PartInfo", "Report", "RunInfo", "SegmentInfo", "TableInfo", "TensorInfo",
    "CheckpointFlags", "CheckpointState", "Codec", "Device", "DType", "Filter", "FindingKind", "IoEngine", "JobState",
    "KeyKind", "NodeKind", "OptionKind", "Scope", "Status",
    "options", "version", "version_number", "status_name", "dtype_name", "dtype_bits", "dtype_find",
    "FORMAT_REVISION", "__version__",
]
__all__ += errors.__all__

_LATER = {  # modules that are imported once they are needed, with what the package has of each
    "background": "SaveHandle", "checkpointer": "Check Checkpointer Event Moment Restored", "figures": "stats",
    "fsspecs": "fsspec_store",
    "handles": "Reader Session Store", "choosing": "load", "opening": "Checkpoint LazyTensor Listing ls open",
    "process_random": "random_states",
    "records": "AliasInfo CheckpointInfo ColumnInfo FileTensor Finding JobStats Node ObjectInfo OptionInfo PartInfo "
               "Report RunInfo SegmentInfo TableInfo TensorInfo",
    "regions": "PerRank Shard", "saving": "save save_async", "tables": "Rowset Share Table",
    "trees": "Record TensorName TreeSet from_native to_native",
    **dict.fromkeys(("adapt", "arguments", "board", "frameworks", "generators", "hints", "keys", "kinds", "loading",
                     "looks", "missing", "objects", "overlap", "progress", "ranks", "saved", "sharing", "show",
                     "sources", "stateful", "states", "team", "tied"), ""),
}
_MODULE_OF = {name: module for module, names in _LATER.items() for name in names.split()}

if not TYPE_CHECKING:  # mypy would take it for a promise that every name is there

    def __getattr__(name: str) -> object:
        module = _MODULE_OF.get(name, name)
        if module not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module
        found = import_module(f"{__name__}.{module}")
        if name != module:
            found = globals()[name] = getattr(found, name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_MODULE_OF} - {"TYPE_CHECKING"})
