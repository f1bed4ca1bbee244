"""ckpt.dcp: checkpoints of ckpt from torch.distributed.checkpoint, 2.4 or newer, whose planner says who saves what.

    dcp.save(state, storage_writer=ckpt.dcp.Writer("/data/run7", step=step))
    dcp.load(state, storage_reader=ckpt.dcp.Reader("/data/run7"))

What is saved is what ckpt.save makes of the same state: tensors, numbers and objects by their names, no pickle. ckpt
commits it, on all ranks or none, in write_data; what torch does after that changes nothing.
"""

from __future__ import annotations

import atexit
import copy
import dataclasses
import io
import itertools
import os
import re
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

import torch
from torch.distributed._tensor import DTensor  # where torch 2.4 has it, too
from torch.distributed.checkpoint.metadata import (BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex,
                                                   TensorProperties, TensorStorageMetadata)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, SavePlan, WriteItem, WriteItemType
from torch.distributed.checkpoint.staging import AsyncStager
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter
from torch.futures import Future

from .adapt import TRANSPARENT
from .arguments import checked
from .enums import TORCH, DType, NodeKind, Status
from .errors import NotFoundError, error_of, value_error
from .frameworks import torch_dtype
from .handles import Session, Store
from .loading import StateReader
from .ranks import own_rank
from .regions import PerRank, Regions, Replica, Shard, Whose
from .saved import children, tree_of
from .saving import label_of, save_planned, turn_of
from .sources import open_source, request_of, run
from .team import Team

__all__ = ["Writer", "Reader"]

T = TypeVar("T")
_DTYPES = {torch_dtype(torch, dtype) for dtype in TORCH if dtype != DType.F4_E2M1FN} - {None}
_FLOATS = {torch.float32, torch.bfloat16, torch.float16}  # which a load converts
_STEP = re.compile(r"(?:.*?(?:step|iter|checkpoint)[-_=]?)?([0-9]{1,18})", re.I)


def _done(value: Any = None) -> Any:
    future: Any = Future()
    future.set_result(value)
    return future


def _place(path: str, checkpoint_id: str | os.PathLike[str]) -> tuple[str, str | None]:
    """The store and the label that a checkpoint_id of torch means, beside the path of a Writer or Reader."""
    given = os.fsdecode(checkpoint_id).rstrip("/")
    folder, _, label = given.rpartition("/")
    return (path, None) if given == path.rstrip("/") else (folder or path, label)


# ---- who saves what ----


@dataclasses.dataclass
class _Seat:
    """What rank 0 tells a rank of one save. A planner that caches drops the plan in which it comes for an older one, so
    the thread that saves takes note of it as it arrives."""

    rank: int
    size: int
    session: str | None
    label: str
    step: int | None
    first: dict[str, bool] | None
    """What rank 0 has: by name, whether it is a value, and no tensor. None: what it had in the save before."""

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        _here.seat = self


_here = threading.local()  # .seat: of the save that this thread is in
_first: dict[str, dict[str, bool]] = {}  # what rank 0 has, by the key under which the planner caches its plans


class _Planned(Team):
    """Ranks that have agreed by their plans: each region and value has one owner. They tell each other nothing."""

    string: str | None = None

    def open(self, store: Any, options: Mapping[str, Any]) -> Session:
        return Session(Store(store, options), self.rank, self.size, self.string, options)

    def session_of(self, path: str, options: Mapping[str, Any], string: str | None) -> Session:
        """The session of these ranks in that store, which is kept; `string`: of rank 0's, on others."""
        turn = turn_of(path, self.rank, options)
        known = self._sessions.get(turn)
        if known is not None and string is not None and known[1].string != string:
            known[1].close()
        self.string = string
        return self.session(path, options, turn)

    def gather(self, value: T) -> list[T]:
        return [value]

    def replicas(self, whole: Mapping[str, str], regions: Mapping[str, object]) -> tuple[dict[str, Replica], set[str]]:
        return dict.fromkeys([*whole, *regions], (self.rank, 0, 1)), set()


_teams: dict[tuple[int, int], _Planned] = {}  # by rank and size
atexit.register(lambda: list(map(_Planned.close, _teams.values())))


def _known(first: dict[str, bool] | None, planner: Any) -> dict[str, bool]:
    """What rank 0 has; where its plan was not sent again, what it had when it was."""
    key = getattr(planner, "_cached_plans_key", type(planner).__name__)
    if first is not None and getattr(planner, "_enable_plan_caching", True):
        _first[key] = first
    if first is None and key not in _first:
        raise error_of(Status.INVALID, f"planner {key} has cached plans of another StorageWriter: give a planner of "
                       "another class, or one with enable_plan_caching=False", {"found": key})
    return _first[key] if first is None else first


def _is_value(item: WriteItem) -> bool:
    """Whether it is saved as a value of the tree: objects, and whole tensors that are more than their numbers."""
    if item.tensor_data is None or item.type == WriteItemType.SHARD:
        return item.tensor_data is None
    properties = item.tensor_data.properties
    return properties.layout != torch.strided or properties.dtype not in _DTYPES


def _state(plan: SavePlan, planner: Any, rank: int, first: Mapping[str, bool]) -> dict[str, Any]:
    """This rank's part of the state. Rank 0 says where all is that it has, others what it has not."""
    shards: dict[str, list[Shard]] = {}
    names = dict(first) if rank == 0 else {}
    for item in plan.items:
        name, data = item.index.fqn, item.tensor_data
        value = first.get(name, _is_value(item))
        if name not in first:
            names[name] = value
        if not value and data is not None:
            plain = planner.resolve_data(item).detach().resolve_conj().resolve_neg()
            plain = plain if plain.device.type in ("cpu", "cuda") else plain.cpu()
            shards.setdefault(name, []).append(Shard(plain, tuple(data.size), tuple(data.chunk.offsets)))
    own = (name for name, value in getattr(planner, "state_dict", {}).items() if isinstance(value, PerRank))
    state: dict[str, Any] = {}
    for name in dict.fromkeys([*names, *shards, *own]):
        if names.get(name, name not in shards):
            leaf = planner.lookup_object(MetadataIndex(name))
        else:
            found = tuple(shards.get(name, ()))
            leaf = Regions(found, found[0].data if found else torch.empty(0), object(), False)
        _put(state, getattr(planner, "mappings", {}).get(name, (name,)), leaf)
    return state


def _put(root: dict[str, Any], path: tuple[str | int, ...], value: Any) -> None:
    """Puts a value into nested dicts and lists, which are made."""
    here: Any = root
    for key, below in zip(path, (*path[1:], None)):
        if isinstance(key, int):
            here += [None] * (key + 1 - len(here))
        if below is None:
            here[key] = value
        elif (here[key] if isinstance(key, int) else here.get(key)) is None:
            here[key] = [] if isinstance(below, int) else {}
        here = here[key]


class Writer(StorageWriter, AsyncStager):  # type: ignore[misc]
    """Saves into a store of ckpt, for dcp.save and dcp.async_save, by a thread or a process.

    `path`: of the store, or its URI. The label is `label`, or "step-N" of `step`, or the time. A checkpoint_id given to
    torch is a label in this store ("step-100") or in another ("/data/run7/step-100"); the number after step, iter or
    checkpoint, or all of it, is the step. `options`: of store, session and save, as ckpt.save takes them; by default a
    checkpoint with that label is replaced (on_existing).

    The ranks of a save form a session, kept until the process ends: it owns its run, so a rank saves in it from one
    process. no_dist=True: one rank saves alone. use_collectives=False is an UnsupportedError. async_save() copies the
    tensors to the CPU before it returns; a Writer keeps the memory of the copy for its next save. Errors are those of
    ckpt.save; torch raises them in a CheckpointException, on all ranks.
    """

    _synchronize_after_execute = False  # stage() has copied all

    @checked()
    def __init__(self, path: str | os.PathLike[str], *, step: int | None = None, label: str | None = None,
                 **options: int | str) -> None:
        self.path, self.step, self.label = os.fsdecode(path), step, label
        self.options: dict[str, int | str] = {"on_existing": "replace", **options}
        self.id: str | None = None
        """The id of the checkpoint that this process has saved last with this Writer."""
        self._names: dict[str, bool] | None = None  # in this rank's plan
        self._memory: torch.Tensor | None = None  # of copies
        self._copies = 0  # that are still to be saved

    def __reduce__(self) -> Any:
        return partial(type(self), **{"step": self.step, "label": self.label, **self.options}), (self.path,)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id is not None:
            self.path, self.label = _place(self.path, checkpoint_id)
            found = _STEP.fullmatch(self.label or "")
            self.step = int(found[1]) if found else None

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if not kwargs.get("use_collectives", True):
            raise error_of(Status.UNSUPPORTED, "dcp.save with use_collectives=False: no rank plans for all, so nobody "
                           "says who saves what several ranks hold; leave it out, or call ckpt.save", {})

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        usable = getattr(plan, "usable", True)
        self._names = {item.index.fqn: _is_value(item) for item in plan.items} if usable else None
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        size = len(plans)
        team = _teams.setdefault((0, size), _Planned(0, size, None))
        string = team.session_of(self.path, self.options, None).string if size > 1 else None
        label = label_of(self.step, self.label, 1)
        seats = [_Seat(rank, size, string, label, self.step, self._names) for rank in range(size)]
        _here.seat = seats[0]  # torch pickles none without a process group
        return [dataclasses.replace(plan, storage_data=seat) for plan, seat in zip(plans, seats)]

    def write_data(self, plan: SavePlan, planner: Any) -> Any:
        seat: _Seat = _here.seat
        try:
            first = _known(seat.first, planner)
            team = _teams.setdefault((seat.rank, seat.size), _Planned(seat.rank, seat.size, None))
            session = team.session_of(self.path, self.options, seat.session) if seat.size > 1 else None
            self.id = save_planned(session or self.path, lambda: _state(plan, planner, seat.rank, first), team,
                                   seat.step, seat.label, self.options)
        finally:
            self._copies -= 1
        return _done([])  # nobody needs what each rank has written

    def finish(self, metadata: Metadata, results: Any) -> None:
        pass  # it is committed

    validate_checkpoint_id = classmethod(lambda cls, checkpoint_id: True)
    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """A copy of the state on the CPU. Its memory is used again once nothing is to be saved from it."""
        self._copies = max(self._copies, 0) + 1
        copies = _Copies()
        state: dict[str, Any] = copies.of(state_dict)
        self._memory = copies.make(None if self._copies > 1 else self._memory)
        return state


class _Copies:
    """Copies of tensors, one after the other in one memory of the CPU."""

    def __init__(self) -> None:
        self._pairs: list[tuple[torch.Tensor, torch.Tensor]] = []

    def of(self, value: Any) -> Any:
        """The same value with copies, which have no numbers yet."""
        if isinstance(value, Mapping):
            return {key: self.of(below) for key, below in value.items()}
        if type(value) in (list, tuple):
            return type(value)(map(self.of, value))
        if isinstance(value, DTensor):
            return DTensor(self.of(value.detach().to_local()), value._spec, requires_grad=False)
        if isinstance(value, torch.Tensor):
            if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided or (
                    value.is_quantized or value.numel() == 0):
                return value.detach().clone().cpu()
            made = torch.empty(0, dtype=value.dtype, device="cpu")
            self._pairs.append((made, value.detach()))
            return made
        return value if isinstance(value, (int, float, str, bytes, type(None))) else copy.deepcopy(value)

    def make(self, memory: torch.Tensor | None) -> torch.Tensor:
        """Copies all into that memory, if it is large enough. Returns the memory."""
        ends = list(itertools.accumulate((-(-value.nbytes // 64) * 64 for _, value in self._pairs), initial=0))
        cuda = any(value.is_cuda for _, value in self._pairs)
        if memory is None or memory.numel() < ends[-1] or cuda and not memory.is_pinned():
            memory = torch.empty(ends[-1], dtype=torch.uint8, device="cpu", pin_memory=cuda)
        storage = memory.untyped_storage()
        for begin, (made, value) in zip(ends, self._pairs):
            made.set_(storage, begin // value.itemsize, value.shape)
            made.copy_(value, non_blocking=cuda)
        if cuda:
            torch.cuda.synchronize()
        return memory


# ---- loading ----


class Reader(StorageReader):  # type: ignore[misc]
    """Loads from a store of ckpt, for dcp.load: on any number of ranks, into any sharding, in any dtype.

    `path`, `selector`, `options`: what to load, as ckpt.load takes them: by default the newest checkpoint of a store;
    also a file of another program. A checkpoint_id given to torch is understood as by Writer. All ranks load the same
    checkpoint: rank 0's, if a save has committed meanwhile. The names are torch's: the keys that lead to a value,
    joined by dots. Every byte that is read is checked. Of a ckpt.PerRank each rank gets its own value.
    """

    @checked()
    def __init__(self, path: str | os.PathLike[str], selector: str = "latest", **options: int | str) -> None:
        self.path, self.selector, self.options = os.fsdecode(path), selector, options
        self._reader: Any = None

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id is not None:
            self.path, label = _place(self.path, checkpoint_id)
            self.selector = label or "latest"

    def _open(self, selector: str) -> None:
        """Opens it, and looks where everything is."""
        if self._reader is not None:
            self._reader.close()
        self._whose = Whose(*own_rank())
        self._reader = open_source(self.path, selector, self.options)
        self._tree = tree_of(self._reader, self._whose)
        self._found = {".".join(map(str, path)): (path, node) for path, node in _leaves(self._tree, 0, ())}

    def _tensor(self, node: int) -> Any:
        """The tensor at a node of the tree; None for a value."""
        found = self._tree.node(node)
        info = self._reader.tensor(found.value) if found.kind == NodeKind.TENSOR else None
        return info if info is not None and torch_dtype(torch, info.dtype) in _DTYPES else None

    def read_metadata(self, *args: Any, **more: Any) -> Metadata:
        """What there is. Each tensor is one chunk, however it was sharded: ckpt reads any box of it."""
        self._open(self.selector)
        state: dict[str, Any] = {}
        for name, (_, node) in self._found.items():
            info = self._tensor(node)
            if info is None:
                state[name] = BytesStorageMetadata()
            else:
                size = torch.Size(info.shape)
                whole = ChunkStorageMetadata(torch.Size([0] * len(size)), size)
                state[name] = TensorStorageMetadata(TensorProperties(torch_dtype(torch, info.dtype)), size, [whole])
        return Metadata(state, planner_data={name: path for name, (path, _) in self._found.items()})

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **more: Any) -> None:
        pass

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        info = getattr(self._reader, "info", None)  # a file of another program has none
        return dataclasses.replace(plan, storage_data=info and info.id)

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return [dataclasses.replace(plan, storage_data=plans[0].storage_data) for plan in plans]

    def read_data(self, plan: LoadPlan, planner: Any) -> Any:
        if plan.storage_data is not None and plan.storage_data != self._reader.info.id:
            self._open(plan.storage_data)
        tensors, values, taken = [], [], set[object]()
        with request_of(self._reader, self.options) as request:
            state = StateReader(self._reader, self._tree, 0, request, "torch", False, self._whose, {})
            for item in plan.items:
                node = self._found[item.storage_index.fqn][1]
                if item.type == LoadItemType.TENSOR:
                    tensor = planner.resolve_tensor(item)
                    tensors.append((item, tensor, _ask(request, self._tensor(node), item, tensor.detach(), taken)))
                else:
                    own = getattr(planner, "state_dict", {}).get(item.dest_index.fqn)
                    own = own if isinstance(own, PerRank) else None
                    values.append((item, own, state.read(node, own)))
            state.add_arrays()
            run(request, None)
        for item, tensor, into in tensors:
            if into.data_ptr() != tensor.data_ptr():
                tensor.detach().copy_(into)
            planner.commit_tensor(item, tensor)
        for item, own, value in values:
            made = state.finish(value)
            if own is None or made is not own.value:  # else it is filled
                torch.save(made, pickled := io.BytesIO())  # which a planner takes, and nobody stores
                pickled.seek(0)
                planner.load_bytes(item, pickled)
        self._reader.close()
        return _done()

    validate_checkpoint_id = classmethod(lambda cls, checkpoint_id: True)

def _ask(request: Any, info: Any, item: Any, tensor: torch.Tensor, taken: set[object]) -> torch.Tensor:
    """Asks for a box of a tensor. Returns the memory that it will be in: the tensor's, if it can be."""
    saved, place = torch_dtype(torch, info.dtype), (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride())
    into, convert = tensor, tensor.dtype != saved
    if tensor.device.type not in ("cpu", "cuda") or tensor.is_conj() or tensor.is_neg() or (
            convert and not {tensor.dtype, saved} <= _FLOATS) or (place in taken and tensor.numel()):
        into, convert = torch.empty(tensor.shape, dtype=saved, device="cpu"), False  # two names may have one tensor
    taken.add(place)
    request.add_tensor(info.name, into, shape=info.shape, offset=tuple(item.storage_offsets), convert=convert)
    return into


# ---- the tree as torch looks at states: into dicts, and into lists that hold tensors or dicts ----

_INSIDE = ("collections.OrderedDict", "collections.defaultdict", "torch.nn.parameter.Parameter", "torch.Tensor")


def _inside(tree: Any, node: int) -> int:
    """The node of a record that torch would look at, if it adds nothing but an order or requires_grad."""
    found = tree.node(node)
    if found.kind != NodeKind.RECORD or found.value not in _INSIDE or (
            found.value == "torch.Tensor" and {tree.node(child).key for child in children(tree, node)} & {
                "conj", "neg", "dtype"}):
        return node
    try:
        return _inside(tree, tree.find(node, TRANSPARENT[str(found.value)]))
    except NotFoundError:  # an empty defaultdict
        return node


def _opens(tree: Any, node: int) -> bool:
    """Whether torch looks into it."""
    kind = tree.node(node).kind
    return kind == NodeKind.DICT or (kind == NodeKind.LIST and any(
        tree.node(child).kind == NodeKind.TENSOR or _opens(tree, child)
        for child in (_inside(tree, child) for child in children(tree, node))))


def _leaves(tree: Any, node: int, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], int]]:
    node = _inside(tree, node)
    if not _opens(tree, node):
        if not path:
            raise value_error(f"dcp.load: expected a checkpoint of a dict, found a {tree.node(node).kind.name}")
        yield path, node
        return
    for place, child in enumerate(children(tree, node)):
        key = tree.node(child).key
        yield from _leaves(tree, child, (*path, place if key is None else str(key)))
