"""ckpt.dcp: checkpoints of ckpt from torch.distributed.checkpoint, 2.4 or newer, whose planner says who saves what.

    dcp.save(state, storage_writer=ckpt.dcp.Writer("/data/run7", step=step))
    dcp.load(state, storage_reader=ckpt.dcp.Reader("/data/run7"))

What is saved is what ckpt.save makes of the same state: tensors, numbers and objects by their names, no pickle. A save
is committed by ckpt, on all ranks or none, in write_data; what torch does after that changes nothing.
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
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.checkpoint import staging
from torch.distributed.checkpoint.metadata import (BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex,
                                                   TensorProperties, TensorStorageMetadata)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, SavePlan, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter
from torch.distributed._tensor import DTensor
from torch.futures import Future

from .adapt import TRANSPARENT
from .enums import TORCH, DType, NodeKind, Status
from .errors import NotFoundError, error_of, value_error
from .frameworks import torch_dtype
from .handles import Reader as CkptReader
from .handles import Session, Store
from .loading import StateReader
from .ranks import own_rank
from .regions import PerRank, Regions, Replica, Shard, Whose
from .saved import children, tree_of
from .saving import label_of, save_planned, turn_of
from .sources import Source, open_source, request_of, run
from .team import Team

__all__ = ["Writer", "Reader"]

_DTYPES = {found for dtype in TORCH if dtype != DType.F4_E2M1FN and (found := torch_dtype(torch, dtype)) is not None}
_FLOATS = {torch.float32, torch.bfloat16, torch.float16}
_STEP = re.compile(r"(?:.*?(?:step|iter|checkpoint)[-_=]?)?([0-9]{1,18})", re.I)


def _done(value: Any = None) -> Any:
    future: Any = Future()
    future.set_result(value)
    return future


def _place(path: str, checkpoint_id: str | os.PathLike[str]) -> tuple[str, str | None]:
    """The store and the label that a checkpoint_id of torch means, beside the path of a Writer or Reader."""
    given, path = os.fsdecode(checkpoint_id).rstrip("/"), path.rstrip("/")
    if given == path:
        return path, None
    folder, _, label = given.rpartition("/")
    return folder or path, label


# ---- saving ----


@dataclasses.dataclass
class _Seat:
    """What rank 0 tells a rank of one save. A planner that caches drops the plan in which it comes for an older one, so
    it is taken note of as it arrives: by the thread that saves."""

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

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size, None)
        self.string: str | None = None

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

    @contextmanager
    def together(self) -> Iterator[None]:
        yield

    def exchange(self, about: str, mine: Any) -> list[Any]:
        return [mine]

    def replicas(self, whole: Mapping[str, str], regions: Mapping[str, object]) -> tuple[dict[str, Replica], set[str]]:
        return dict.fromkeys([*whole, *regions], (self.rank, 0, 1)), set()


_teams: dict[tuple[int, int], _Planned] = {}


@atexit.register
def _close() -> None:
    for team in _teams.values():
        team.close()


def _known(first: dict[str, bool] | None, planner: Any) -> dict[str, bool]:
    """What rank 0 has; where its plan was not sent again, as when it was."""
    key = getattr(planner, "_cached_plans_key", type(planner).__name__)
    if first is not None and getattr(planner, "_enable_plan_caching", True):
        _first[key] = first
    if first is None and key not in _first:
        raise error_of(Status.INVALID, f"planner {key} has cached its plans of another StorageWriter: give a planner of "
                       "another class, or one with enable_plan_caching=False", {"found": key})
    return _first[key] if first is None else first


def _is_value(item: WriteItem) -> bool:
    """Whether it is saved as a value of the tree: objects, and whole tensors that are more than their numbers."""
    if item.tensor_data is None or item.type == WriteItemType.SHARD:
        return item.tensor_data is None
    properties = item.tensor_data.properties
    return properties.layout != torch.strided or properties.dtype not in _DTYPES


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


class Writer(StorageWriter, staging.AsyncStager):
    """Saves into a store of ckpt, for dcp.save and dcp.async_save (with threads and with a process).

    `path`: the store, a path or URI. The label is `label`, or "step-N" of `step`, or the time. A checkpoint_id that is
    given to torch means a label in this store ("step-100"), or in another ("/data/run7/step-100"); of "step-100",
    "global_step100", "iter_100", "checkpoint-100" and "100" the number is the step. `options`: those of the store, the
    session and the save, as ckpt.save takes them. A checkpoint with that label is replaced once the new one is durable,
    as torch has it; on_existing="error" refuses instead.

    With a process group the ranks of the save form a session, which is kept until the process ends: it owns its run, so
    one process or thread of each rank saves in it. no_dist=True is one rank that saves alone. use_collectives=False is
    an UnsupportedError.

    async_save() copies the tensors to the CPU before it returns. A Writer keeps the memory of the copy for its next
    save. The errors are those of ckpt.save; torch raises them in a CheckpointException, on all ranks.
    """

    _synchronize_after_execute = False

    def __init__(self, path: str | os.PathLike[str], *, step: int | None = None, label: str | None = None,
                 **options: int | str) -> None:
        self.path, self.step, self.label = os.fsdecode(path), step, label
        self.options: dict[str, int | str] = {"on_existing": "replace", **options}
        self.id: str | None = None
        """The id of the checkpoint that this process has saved last with this Writer."""
        self._forget()

    def _forget(self) -> None:
        self._names: dict[str, bool] | None = None  # in this rank's plan
        self._memory: torch.Tensor | None = None  # of copies
        self._copies = 0  # that are still to be saved

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    # ---- what torch calls, in this order ----

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
        team = _teams.setdefault((0, size), _Planned(0, size))
        string = team.session_of(self.path, self.options, None).string if size > 1 else None
        label = label_of(self.step, self.label, 1)
        seats = [_Seat(rank, size, string, label, self.step, self._names) for rank in range(size)]
        _here.seat = seats[0]  # torch pickles none without a process group
        return [dataclasses.replace(plan, storage_data=seat) for plan, seat in zip(plans, seats)]

    def write_data(self, plan: SavePlan, planner: Any) -> Any:
        seat: _Seat = _here.seat
        try:
            first = _known(seat.first, planner)
            team = _teams.setdefault((seat.rank, seat.size), _Planned(seat.rank, seat.size))
            session = team.session_of(self.path, self.options, seat.session) if seat.size > 1 else None
            self.id = save_planned(session or self.path, lambda: _state(plan, planner, seat.rank, first), team,
                                   seat.step, seat.label, self.options)
        finally:
            self._copies -= 1
        return _done([])  # nobody needs what each rank has written

    def finish(self, metadata: Metadata, results: Any) -> None:
        """Does nothing: it is committed."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return True

    # ---- the copy that async_save makes ----

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """A copy of the state on the CPU. Its memory is used again once nothing is to be saved from it."""
        self._copies = max(self._copies, 0) + 1
        copies = _Copies(None if self._copies > 1 else self._memory)
        state: dict[str, Any] = copies.of(state_dict)
        self._memory = copies.make()
        return state

    def synchronize_staging(self) -> None:
        """Does nothing: stage() has copied all."""

    def close(self) -> None:
        """Gives up the memory of the copies."""
        self._memory = None


class _Copies:
    """Copies of tensors, one after the other in one memory of the CPU."""

    def __init__(self, memory: torch.Tensor | None) -> None:
        self._memory = memory
        self._pairs: list[tuple[torch.Tensor, torch.Tensor]] = []

    def of(self, value: Any) -> Any:
        """The same value with copies, which have no numbers yet."""
        if isinstance(value, Mapping):
            return {key: self.of(below) for key, below in value.items()}
        if type(value) in (list, tuple):
            return type(value)(map(self.of, value))
        if isinstance(value, DTensor):
            return DTensor(self.of(value.detach().to_local()), value._spec, requires_grad=False)
        if type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided and value.numel() and (
                not value.is_quantized):
            made = torch.empty(0, dtype=value.dtype)
            self._pairs.append((made, value.detach()))
            return made
        if isinstance(value, torch.Tensor):
            return value.detach().clone().cpu()
        return value if isinstance(value, (int, float, str, bytes, type(None))) else copy.deepcopy(value)

    def make(self) -> torch.Tensor:
        """Copies all, and returns the memory."""
        ends = list(itertools.accumulate(-(-value.nbytes // 64) * 64 for _, value in self._pairs))
        size, cuda = ends[-1] if ends else 0, any(value.is_cuda for _, value in self._pairs)
        if self._memory is None or self._memory.numel() < size or cuda and not self._memory.is_pinned():
            self._memory = torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=cuda)
        storage = self._memory.untyped_storage()
        for end, (made, value) in zip([0, *ends], self._pairs):
            made.set_(storage, end // value.itemsize, value.shape)
            made.copy_(value, non_blocking=True)
        if cuda:
            torch.cuda.synchronize()
        return self._memory


def _state(plan: SavePlan, planner: Any, rank: int, first: Mapping[str, bool]) -> dict[str, Any]:
    """This rank's part of the state. Rank 0 says where all is that it has, others what it has not."""
    regions: dict[str, list[tuple[WriteItem, torch.Tensor]]] = {}
    names = dict(first) if rank == 0 else {}
    for item in plan.items:
        name = item.index.fqn
        if name not in first:
            names[name] = _is_value(item)
        if not first.get(name, _is_value(item)):
            regions.setdefault(name, []).append((item, _numbers(planner.resolve_data(item))))
    for name, value in getattr(planner, "state_dict", {}).items():
        if isinstance(value, PerRank):
            names[name] = True
    state: dict[str, Any] = {}
    mappings = getattr(planner, "mappings", {})
    for name in [*names, *(name for name in regions if name not in names)]:
        leaf = planner.lookup_object(MetadataIndex(name)) if names.get(name) else _leaf(regions.get(name, []))
        _put(state, mappings.get(name, (name,)), leaf)
    return state


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers without marks, where ckpt can read them."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    return plain if plain.device.type in ("cpu", "cuda") else plain.cpu()


_ELSEWHERE = torch.empty(0)


def _leaf(found: list[tuple[WriteItem, torch.Tensor]]) -> Regions:
    shards = []
    for item, tensor in found:
        assert item.tensor_data is not None
        shards.append(Shard(tensor, tuple(item.tensor_data.size), tuple(item.tensor_data.chunk.offsets)))
    return Regions(tuple(shards), shards[0].data if shards else _ELSEWHERE, object(), False)


# ---- loading ----


class Reader(StorageReader):
    """Loads from a store of ckpt, for dcp.load: on any number of ranks, into any sharding.

    `path`, `selector` and `options`: what to load, as ckpt.load takes them: the newest checkpoint of a store, by
    default, or one by its label; also a file or directory of another program. A checkpoint_id that is given to torch is
    understood as by Writer. All ranks load the same one: that of rank 0, if a save has committed meanwhile.

    The names are torch's: the keys that lead to a value, joined by dots. Every byte that is read is checked. A tensor
    is converted to the dtype of the one that it is loaded into, as torch has it. Values are given to the planner as
    torch.load would; of a ckpt.PerRank, those of this rank.
    """

    def __init__(self, path: Source, selector: str = "latest", **options: int | str) -> None:
        self.path, self.selector, self.options = path, selector, options
        self._reader: Any = None

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id is not None:
            path, label = _place(os.fsdecode(self.path) if isinstance(self.path, (str, os.PathLike)) else "",
                                 checkpoint_id)
            self.path, self.selector = path or self.path, label or "latest"

    def _open(self, selector: str) -> None:
        """Opens it, unless it is open, and looks where everything is."""
        if self._reader is not None and self._reader is not self.path:
            self._reader.close()
        self._reader = open_source(self.path, selector, self.options)
        rank, size = own_rank()
        self._whose = Whose(rank, size)
        self._tree = tree_of(self._reader, self._whose)
        self._found = {".".join(map(str, path)): (path, node) for path, node in _leaves(self._tree, 0, ())}

    def read_metadata(self, *args: Any, **more: Any) -> Metadata:
        self._open(self.selector)
        state: dict[str, Any] = {}
        for name, (_, node) in self._found.items():
            info = self._tensor(node)
            state[name] = BytesStorageMetadata()
            if info is not None:
                size = torch.Size(info.shape)
                whole = ChunkStorageMetadata(torch.Size([0] * len(size)), size)
                properties = TensorProperties(torch_dtype(torch, info.dtype))
                state[name] = TensorStorageMetadata(properties, size, [whole])
        return Metadata(state, planner_data={name: path for name, (path, _) in self._found.items()})

    def _tensor(self, node: int) -> Any:
        """The tensor at a node of the tree; None for a value."""
        found = self._tree.node(node)
        if found.kind != NodeKind.TENSOR:
            return None
        info = self._reader.tensor(found.value)
        return info if torch_dtype(torch, info.dtype) in _DTYPES else None

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **more: Any) -> None:
        """Nothing is needed."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        identifier = self._reader.info.id if isinstance(self._reader, CkptReader) else None
        return dataclasses.replace(plan, storage_data=identifier)

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return [dataclasses.replace(plan, storage_data=plans[0].storage_data) for plan in plans]

    def read_data(self, plan: LoadPlan, planner: Any) -> Any:
        if plan.storage_data is not None and plan.storage_data != self._reader.info.id:
            self._open(plan.storage_data)
        with request_of(self._reader, self.options) as request:
            tensors, values = _Tensors(request), []
            state = StateReader(self._reader, self._tree, 0, request, "torch", False, self._whose, {})
            for item in plan.items:
                path, node = self._found[item.storage_index.fqn]
                if item.type == LoadItemType.TENSOR:
                    tensors.add(self._tensor(node), item, planner.resolve_tensor(item))
                else:
                    like = getattr(planner, "state_dict", {}).get(item.dest_index.fqn)
                    like = like if isinstance(like, PerRank) else None
                    values.append((item, like, state.read(node, like)))
            state.add_arrays()
            run(request, None)
        tensors.commit(planner)
        for item, like, value in values:
            made = state.finish(value)
            if like is None or made is not like.value:  # else it is filled
                planner.load_bytes(item, _saved(made))
        if self._reader is not self.path:
            self._reader.close()
        return _done()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return True


def _saved(value: Any) -> io.BytesIO:
    """What a planner takes: a pickle, in memory only."""
    out = io.BytesIO()
    torch.save(value, out)
    out.seek(0)
    return out


class _Tensors:
    """The tensors of a load, with where they are read to."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self._all: list[tuple[Any, torch.Tensor, torch.Tensor]] = []  # with the memory that is read into
        self._taken: set[tuple[object, ...]] = set()

    def add(self, info: Any, item: Any, tensor: torch.Tensor) -> None:
        plain, saved = tensor.detach(), torch_dtype(torch, info.dtype)
        convert = plain.dtype != saved
        into = plain
        if plain.device.type not in ("cpu", "cuda") or plain.is_conj() or plain.is_neg() or (
                convert and not {plain.dtype, saved} <= _FLOATS) or not self._is_free(plain):
            into, convert = torch.empty(plain.shape, dtype=saved), False
        self._request.add_tensor(info.name, into, shape=info.shape, offset=tuple(item.storage_offsets), convert=convert)
        self._all.append((item, tensor, into))

    def _is_free(self, tensor: torch.Tensor) -> bool:
        """Whether nothing is read into that memory yet; two names may have one tensor."""
        place = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride())
        free = tensor.numel() == 0 or place not in self._taken
        self._taken.add(place)
        return free

    def commit(self, planner: Any) -> None:
        for item, tensor, into in self._all:
            if into.data_ptr() != tensor.data_ptr():
                with torch.no_grad():
                    tensor.copy_(into)
            planner.commit_tensor(item, tensor)


# ---- the tree as torch looks at states: dicts are gone into, and lists in which are tensors or dicts ----

_INSIDE = ("collections.OrderedDict", "collections.defaultdict", "torch.nn.parameter.Parameter", "torch.Tensor")


def _inside(tree: Any, node: int) -> int:
    """The node of a record that torch would look at, if it adds nothing but order or requires_grad."""
    found = tree.node(node)
    if found.kind != NodeKind.RECORD or found.value not in _INSIDE:
        return node
    keys = {tree.node(child).key for child in children(tree, node)}
    if found.value == "torch.Tensor" and keys & {"conj", "neg", "dtype"}:
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
    if path and not _opens(tree, node):
        yield path, node
        return
    if tree.node(node).kind not in (NodeKind.DICT, NodeKind.LIST):
        raise value_error(f"dcp.load: expected a checkpoint of a dict, found one of a {tree.node(node).kind.name}")
    for place, child in enumerate(children(tree, node)):
        key = tree.node(child).key
        yield from _leaves(tree, child, (*path, place if key is None else str(key)))
