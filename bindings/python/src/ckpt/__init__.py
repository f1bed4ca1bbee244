"""ckpt: training checkpoints, saved by many ranks and loaded on any number.

    ckpt.save("/data/run7", {"model": model.state_dict(), "epoch": 3}, step=100)
    state = ckpt.load("/data/run7", into={"model": model.state_dict()})

save, save_async and load take whole states; ls and open show what a store and a checkpoint hold. Beneath them are the
objects of the C API: Store, Session, Save, Reader, Load, Job, Tree and File. All are context managers; using one after
it is closed raises InvalidError. Every failure is an Error with status, message and details. Importing ckpt imports
neither numpy nor torch.
"""

from . import _clash, errors
from ._core import (FORMAT_REVISION, HEADER_VERSION, File, Job, Load, Memory, Save, Tree, View, dtype_bits,
                    dtype_find, dtype_name, options, status_name, version, version_number)
from .background import SaveHandle
from .checkpointer import Check, Checkpointer, Moment, Restored
from .enums import (CheckpointFlags, CheckpointState, Codec, Device, DType, Filter, FindingKind, IoEngine, JobState,
                    KeyKind, NodeKind, OptionKind, Scope, Status)
from .errors import *
from .fsspecs import fsspec_store
from .handles import Reader, Session, Store
from .loading import load
from .opening import Checkpoint, LazyTensor, Listing, ls
from .opening import open as open  # not in __all__, for it would hide Python's own
from .records import (AliasInfo, CheckpointInfo, ColumnInfo, FileTensor, Finding, JobStats, Node, ObjectInfo,
                      OptionInfo, PartInfo, Report, RunInfo, SegmentInfo, TableInfo, TensorInfo)
from .random_states import random_states
from .regions import PerRank, Shard
from .saving import save, save_async
from .tables import Rowset, Share, Table
from .trees import Record, TensorName, TreeSet, from_native, to_native

__version__ = HEADER_VERSION

__all__ = [
    "save", "save_async", "load", "ls", "fsspec_store", "SaveHandle", "Shard", "PerRank", "random_states", "Table",
    "Rowset", "Share",
    "Checkpoint", "LazyTensor", "Listing", "Checkpointer", "Restored", "Moment", "Check",
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
