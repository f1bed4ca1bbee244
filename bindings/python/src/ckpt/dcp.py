"""ckpt.dcp: checkpoints of ckpt from torch.distributed.checkpoint, 2.4 or newer, whose planner says who saves what.

    dcp.save(state, storage_writer=ckpt.dcp.Writer("/data/run7", step=step))
    dcp.load(state, storage_reader=ckpt.dcp.Reader("/data/run7"))

What is saved is what ckpt.save makes of the same state. ckpt commits it, on all ranks or none, in write_data.
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
from typing import Any

import torch
from torch.distributed._tensor import DTensor  # where torch 2.4 has it, too
from torch.distributed.checkpoint._traverse import set_element
from torch.distributed.checkpoint.metadata import (BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex,
                                                   TensorProperties, TensorStorageMetadata)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, SavePlan, WriteItem, WriteItemType
from torch.distributed.checkpoint.staging import AsyncStager
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter
from torch.futures import Future

from ._core import Save, escape
from .adapt import TRANSPARENT
from .arguments import checked
from .enums import TORCH, DType, NodeKind, Status
from .errors import error_of, value_error
from .frameworks import torch_dtype
from .handles import Session, Store
from .loading import StateReader
from .ranks import own_rank
from .regions import PerRank, Regions, Replica, Shard, Whose
from .saved import children, tree_of
from .saving import label_of, save_planned, turn_of
from .sources import open_source, request_of, run
from .team import Team

_DTYPES = {torch_dtype(torch, dtype) for dtype in TORCH if dtype != DType.F4_E2M1FN} - {None}
_FLOATS = {torch.float32, torch.bfloat16, torch.float16}  # which a load converts
_STEP = re.compile(r"(?:.*?(?:step|iter|checkpoint)[-_=]?)?([0-9]{1,18})", re.I)


def _place(path: str, checkpoint_id: str | os.PathLike[str]) -> tuple[str, str | None]:
    """The store and the label that a checkpoint_id of torch means, beside the path of a Writer or Reader."""
    given = os.fsdecode(checkpoint_id).rstrip("/")
    folder, _, label = given.rpartition("/")
    return (path, None) if given == path.rstrip("/") else (folder or path, label)


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

    def target(self, path: str, options: Mapping[str, Any], string: str | None) -> str | Session:
        """The session of these ranks in that store, which is kept; of one rank the path. `string`: of rank 0's."""
        if self.size == 1:
            return path
        turn = turn_of(path, self.rank, options)
        known = self._sessions.get(turn)
        if known is not None and string is not None and known[1].string != string:
            known[1].close()
        self.string = string
        return self.session(path, options, turn)

    def gather(self, value: Any) -> list[Any]:
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
    data = item.tensor_data
    if data is None or item.type == WriteItemType.SHARD:
        return data is None
    return data.properties.layout != torch.strided or data.properties.dtype not in _DTYPES


def _state(save: Save, plan: SavePlan, planner: Any, rank: int, first: Mapping[str, bool]) -> dict[str, Any]:
    """This rank's part of the state: rank 0 says where all is that it has, others what it has not. What they hold of
    the tensors of rank 0 is added to the save."""
    told, shards = dict(first) if rank == 0 else {}, dict[str, list[Shard]]()
    paths = getattr(planner, "mappings", {})
    for item in plan.items:
        name, data = item.index.fqn, item.tensor_data
        if name not in first:
            told[name] = _is_value(item)
        if data is None or first.get(name, _is_value(item)):
            continue
        plain = planner.resolve_data(item).detach().resolve_conj().resolve_neg()
        plain = plain if plain.device.type in ("cpu", "cuda") else plain.cpu()
        if name in told:
            shards.setdefault(name, []).append(Shard(plain, tuple(data.size), tuple(data.chunk.offsets)))
        else:
            path = (str(key) if isinstance(key, int) else escape(key) for key in paths.get(name, (name,)))
            save.add_tensor("/".join(path), plain, shape=data.size, offset=data.chunk.offsets)
    own = (name for name, value in getattr(planner, "state_dict", {}).items() if isinstance(value, PerRank))
    state: dict[str, Any] = {}
    for name, value in {**told, **dict.fromkeys(own, True)}.items():
        found = tuple(shards.get(name, ()))
        leaf = planner.lookup_object(MetadataIndex(name)) if value else Regions(
            found, found[0].data if found else torch.empty(0), object(), False)
        set_element(state, paths.get(name, (name,)), leaf)
    return state


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
        self.id: str | None = None  # of the checkpoint that this process has saved last with it
        self._names: dict[str, bool] | None = None  # in this rank's plan
        self._memory: torch.Tensor | None = None  # of copies
        self._copies = 0  # that are still to be saved

    def __reduce__(self) -> Any:
        return partial(type(self), **dict[str, Any](self.options, step=self.step, label=self.label)), (self.path,)

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
        target = _teams.setdefault((0, size), _Planned(0, size, None)).target(self.path, self.options, None)
        told = getattr(target, "string", None), label_of(self.step, self.label, 1), self.step, self._names
        seats = [_Seat(rank, size, *told) for rank in range(size)]
        _here.seat = seats[0]  # torch pickles none without a process group
        return [dataclasses.replace(plan, storage_data=seat) for plan, seat in zip(plans, seats)]

    def write_data(self, plan: SavePlan, planner: Any) -> Any:
        seat: _Seat = _here.seat
        try:
            first = _known(seat.first, planner)
            team = _teams.setdefault((seat.rank, seat.size), _Planned(seat.rank, seat.size, None))
            self.id = save_planned(team.target(self.path, self.options, seat.session),
                                   lambda save: _state(save, plan, planner, seat.rank, first), team, seat.step,
                                   seat.label, self.options)
        finally:
            self._copies -= 1
        future: Any = Future()
        future.set_result([])  # nobody needs what each rank has written
        return future

    def finish(self, metadata: Metadata, results: Any) -> None:
        pass  # it is committed

    validate_checkpoint_id = classmethod(lambda cls, checkpoint_id: True)

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """A copy of the state on the CPU. Its memory is used again once nothing is to be saved from it."""
        self._copies = max(self._copies, 0) + 1
        pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
        state: dict[str, Any] = _copied(state_dict, pairs)
        self._memory = _copy(pairs, None if self._copies > 1 else self._memory)
        return state


def _copied(value: Any, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
    """The same value with copies of tensors; those in `pairs` have no memory yet."""
    if isinstance(value, Mapping):
        return {key: _copied(below, pairs) for key, below in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_copied(below, pairs) for below in value)
    if isinstance(value, DTensor):
        return DTensor(_copied(value.detach().to_local(), pairs), value._spec, requires_grad=False)
    if not isinstance(value, torch.Tensor):
        return value if isinstance(value, (int, float, str, bytes, type(None))) else copy.deepcopy(value)
    plain = type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided
    if not plain or value.is_quantized or value.numel() == 0:
        return value.detach().clone().cpu()
    pairs.append((torch.empty(0, dtype=value.dtype, device="cpu"), value.detach()))
    return pairs[-1][0]


def _copy(pairs: list[tuple[torch.Tensor, torch.Tensor]], memory: torch.Tensor | None) -> torch.Tensor:
    """Copies tensors into one memory of the CPU: this one, if it is large enough. Returns it."""
    ends = list(itertools.accumulate((-(-value.nbytes // 64) * 64 for _, value in pairs), initial=0))
    cuda = any(value.is_cuda for _, value in pairs)
    if memory is None or memory.numel() < ends[-1] or cuda and not memory.is_pinned():
        memory = torch.empty(ends[-1], dtype=torch.uint8, device="cpu", pin_memory=cuda)
    for begin, (made, value) in zip(ends, pairs):
        made.set_(memory.untyped_storage(), begin // value.itemsize, value.shape).copy_(value, non_blocking=cuda)
    if cuda:
        torch.cuda.synchronize()
    return memory


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
        self._whose = Whose(*own_rank())
        self._reader = open_source(self.path, selector, self.options)
        self._tree = tree_of(self._reader, self._whose)
        self._found: dict[str, tuple[tuple[str | int, ...], int, Any]] = {}  # path, node and tensor, if it is one
        for path, node in _leaves(self._tree, 0, ()):
            found = self._tree.node(node)
            info = self._reader.tensor(found.value) if found.kind == NodeKind.TENSOR else None
            known = info is not None and torch_dtype(torch, info.dtype) in _DTYPES
            self._found[".".join(map(str, path))] = path, node, info if known else None

    def read_metadata(self, *args: Any, **more: Any) -> Metadata:
        """What there is. Each tensor is one chunk, however it was sharded: ckpt reads any box of it."""
        self._open(self.selector)
        state: dict[str, Any] = dict.fromkeys(self._found, BytesStorageMetadata())
        for name, (_, _, info) in self._found.items():
            if info is not None:
                size = torch.Size(info.shape)
                whole = ChunkStorageMetadata(torch.Size([0] * len(size)), size)
                state[name] = TensorStorageMetadata(TensorProperties(torch_dtype(torch, info.dtype)), size, [whole])
        return Metadata(state, planner_data={name: path for name, (path, _, _) in self._found.items()})

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **more: Any) -> None:
        pass

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        info = getattr(self._reader, "info", None)  # a file of another program has none
        return dataclasses.replace(plan, storage_data=info and info.id)

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return [dataclasses.replace(plan, storage_data=plans[0].storage_data) for plan in plans]

    def read_data(self, plan: LoadPlan, planner: Any) -> Any:
        if plan.storage_data is not None and plan.storage_data != self._reader.info.id:
            self._reader.close()
            self._open(plan.storage_data)
        tensors, values, taken = [], [], set[object]()
        with request_of(self._reader, self.options) as request:
            state = StateReader(self._reader, self._tree, 0, request, "torch", False, self._whose, {})
            for item in plan.items:
                _, node, info = self._found[item.storage_index.fqn]
                if item.type == LoadItemType.TENSOR:
                    tensor = planner.resolve_tensor(item)
                    tensors.append((item, tensor, _ask(request, info, item, tensor.detach(), taken)))
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
        future: Any = Future()
        future.set_result(None)
        return future

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


# The tree as torch looks at states: into dicts, and into lists that hold tensors or dicts.
_INSIDE = ("collections.OrderedDict", "collections.defaultdict", "torch.nn.parameter.Parameter", "torch.Tensor")


def _inside(tree: Any, node: int) -> int:
    """The node of a record that torch would look at, if it adds nothing but an order or requires_grad."""
    found = tree.node(node)
    if found.kind != NodeKind.RECORD or found.value not in _INSIDE:
        return node
    items = {tree.node(child).key: child for child in children(tree, node)}
    inside = None if items.keys() & {"conj", "neg", "dtype"} else items.get(TRANSPARENT[str(found.value)])
    return node if inside is None else _inside(tree, inside)


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
