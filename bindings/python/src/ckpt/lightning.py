"""ckpt.lightning: PyTorch Lightning's checkpoints in stores of ckpt, by either name of its package.

    from ckpt.lightning import CkptIO
    trainer = Trainer(plugins=[CkptIO()])

What Lightning calls /data/run7/epoch=1-step=80.ckpt is the checkpoint with label epoch=1-step=80 in store /data/run7;
on a file system a link of that name leads to it. Lightning says what is saved and removed, and when.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from types import FrameType
from typing import Any, TypeVar

import torch
from torch.utils._pytree import tree_map_only

from .adapt import Leaf, restore, simplify
from .arguments import checked
from .background import SaveHandle
from .choosing import load
from .enums import Status
from .errors import NotFoundError, error_of, type_error, value_error
from .handles import Session, Store
from .hints import local_path
from .kinds import KINDS
from .ranks import own_rank
from .saving import save, save_async
from .sources import open_source
from .stateful import is_stateful
from .trees import Record, place, to_native

T = TypeVar("T")
_PACKAGES = ("lightning.pytorch", "pytorch_lightning")
_SUFFIX = ".ckpt"
_BUCKETS = re.compile(r"(s3|gs|az|mem):")
_THEIRS = ("keep_last", "keep_every", "keep_best", "mirror_keep_last")  # what Lightning decides
_SHARDED = ("state_dict", "optimizer_states")  # of which each rank has a part
_OURS = re.compile(r"[^/]+\.[0-9a-f]+\.[0-9a-f]+/MANIFEST")  # where a link of ours leads
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9._=-]")


def _split(path: str) -> tuple[str, str]:
    """The store and the label of one of Lightning's paths."""
    folder, _, name = path.rpartition("/")
    name = name.removesuffix(_SUFFIX).replace("hpc_ckpt_", "hpc-ckpt-")  # for which Lightning looks at all names
    label = _NOT_IN_LABELS.sub(lambda found: "".join(f"+{byte:02X}" for byte in os.fsencode(found[0])), name)
    return folder or ("/" if path.startswith("/") else "."), label


def _followed(path: str) -> str:
    """Where the links of Lightning (save_last="link") end: at our own link, or at what is no link."""
    for _ in range(40):
        if not os.path.islink(path) or _OURS.fullmatch(target := os.readlink(path)):
            break
        path = os.path.join(os.path.dirname(path), target)
    return path


def _find(path: Any) -> tuple[str, str] | None:
    """The store and the selector of the checkpoint at a path, or of the newest of a store; None if it is not ckpt's."""
    given = os.fsdecode(path).rstrip("/")
    local = local_path(given)
    if local is not None:
        given = _followed(local)
        if os.path.islink(given) and os.path.exists(given):
            return os.path.dirname(os.path.realpath(given)), "latest"
        if os.path.isdir(given):
            there = any(os.path.exists(os.path.join(given, name)) for name in ("MANIFEST", ".ckpt"))
            return (os.path.realpath(given), "latest") if there else None
        if os.path.exists(given):
            return None
    elif not _BUCKETS.match(given):
        return None
    elif not given.endswith(_SUFFIX):
        return given, "latest"
    folder, label = _split(given)
    if local is None:
        with Store(folder) as store:
            try:
                store.find(f"label:{label}")
            except NotFoundError:
                return None
    return folder, f"label:{label}"


def _link(path: str, identifier: str | None) -> None:
    """Makes our link, or takes it away. It leads to a file, since a directory would count as one more checkpoint."""
    local = local_path(path)
    if local is None:
        return
    made = local if identifier is None else f"{local}.{os.getpid()}~"
    with suppress(FileNotFoundError):
        os.unlink(made)
    if identifier is not None:
        os.symlink(f"{identifier}/MANIFEST", made)
        os.replace(made, local)


# ---- what Lightning hands over ----


def _check(value: Any, path: tuple[str, ...] = ()) -> None:
    """An error for what would not be again what it was, since a load calls no class: Lightning gives no objects to be
    filled. What cannot be saved at all is left to the save."""
    kind = type(value)
    if kind in (bool, int, float, str, bytes, type(None)) or isinstance(value, torch.Tensor) or len(path) > 200:
        return
    if isinstance(value, Mapping) and kind.__module__ in ("builtins", "collections"):
        for key, below in value.items():
            _check(key, (*path, str(key)))
            _check(below, (*path, str(key)))
    elif kind in (list, tuple, set, frozenset):
        for number, below in enumerate(value):
            _check(below, (*path, str(number)))
    elif is_stateful(value):
        raise _refusal(value, path, "give its state_dict()")
    elif isinstance(simple := simplify(value, path), Record):
        known = simple.class_name in KINDS or simple.class_name.startswith("torch.")
        if not known or (simple.class_name == "builtins.type" and restore(simple, "torch") is simple):
            raise _refusal(value, path, "give its numbers and text (dict(), dataclasses.asdict(), .value of an enum, "
                                        "OmegaConf.to_container()), or its name")
        for key, below in simple.items.items():
            _check(None if isinstance(below, Leaf) else below, path)


def _refusal(value: Any, path: tuple[str, ...], way_out: str) -> TypeError:
    kind = type(value)
    if len(path) > 1 and path[0].endswith("hyper_parameters"):
        way_out += f", or leave it out: save_hyperparameters(ignore=[{path[1]!r}])"
    return type_error(f"{place(path)}: a value of type {kind.__module__}.{kind.__qualname__} would not be loaded as "
                      f"one, since a load calls no class: {way_out}")


def _refuse_queue() -> None:
    """An error if Lightning's AsyncCheckpointIO calls. ModelCheckpoint removes through it at once what a save in its
    queue shall replace, so a crash could leave nothing; and what waits there itself is not found, and stays for ever
    (github.com/Lightning-AI/pytorch-lightning/issues/14035)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if any(kind.__name__ == "AsyncCheckpointIO" for kind in type(frame.f_locals.get("self")).__mro__):
            raise type_error("AsyncCheckpointIO around a CkptIO would remove the earlier checkpoint before the next is "
                             "saved: give CkptIO(background=True) itself to the Trainer")
        frame = frame.f_back


# ---- the plug-in ----


class CkptIO:
    """A CheckpointIO that saves into stores of ckpt: Trainer(plugins=[CkptIO()]).

    `background`: the trainer goes on once the state is copied; the next save or removal waits for this one, and raises
    its error. Lightning's AsyncCheckpointIO around a CkptIO is a TypeError: it removes while its saves wait in a queue.
    `options`: of store, session and save, as ckpt.save takes them; a checkpoint with the same label is replaced
    (on_existing). Retention is Lightning's: save_top_k. trainer.save_checkpoint(storage_options={…}) adds to them.

    It is called by rank 0 alone, which saves alone; with sharded() by all. A value that would not come back as what it
    was is a TypeError that names its path. A path that Lightning itself has saved is loaded by Lightning; that of a
    whole store (/data/run7) means its newest sound checkpoint.
    """

    @checked()
    def __init__(self, *, background: bool = False, **options: int | str) -> None:
        for key in _THEIRS:
            if key in options:
                raise value_error(f"{key}: Lightning says which checkpoints stay; give save_top_k= to ModelCheckpoint")
        self.background, self.options = background, {"on_existing": "replace", **options}
        self.id: str | None = None  # of the checkpoint that this process has saved last
        self._sessions: dict[str, Session] = {}  # of this rank alone, by store
        self._running: threading.Thread | None = None
        self._failed: BaseException | None = None
        _teach()

    def __reduce__(self) -> Any:
        return partial(type(self), background=self.background, **dict[str, Any](self.options)), ()

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | os.PathLike[str],
                        storage_options: Any = None) -> None:
        """Saves what Lightning hands over, as one rank. Returns once it is durable, or copied."""
        self._save(checkpoint, path, storage_options, True, checkpoint.get("global_step"))

    def save_sharded(self, checkpoint: dict[str, Any], path: str | os.PathLike[str],
                     storage_options: Any = None) -> None:
        """Saves as all ranks, each of which calls this: its shards of weights and optimizer states, and what rank 0 has
        beside."""
        rank, size = own_rank()
        state = {key: value for key, value in checkpoint.items() if rank == 0 or key in _SHARDED}
        self._save(state, path, storage_options, size == 1, checkpoint.get("global_step"), rank == 0)

    def _save(self, state: dict[str, Any], path: str | os.PathLike[str], more: Any, alone: bool, step: int | None,
              first: bool = True) -> None:
        if threading.current_thread() is not threading.main_thread():
            _refuse_queue()
        given, options = os.fsdecode(path), {**self.options, **(more or {})}
        folder, label = _split(given)
        if local_path(given) is None and not given.endswith(_SUFFIX):
            raise value_error(f"{given}: expected a path that ends with {_SUFFIX}")
        self._end()
        _check(state)
        target = self._session(folder) if alone else folder
        if self.background:
            handle = save_async(target, state, step=step, label=label, options=options)
            self._running = threading.Thread(target=self._wait, args=(handle, given, first), daemon=True)
            self._running.start()
        else:
            self._done(given, save(target, state, step=step, label=label, options=options), first)

    def _session(self, folder: str) -> Session:
        known = self._sessions.get(folder)
        if known is None or known.closed:
            known = self._sessions[folder] = Session(Store(folder, self.options), options=self.options)
        return known

    def _wait(self, handle: SaveHandle, path: str, first: bool) -> None:
        try:
            self._done(path, handle.result(), first)
        except BaseException as error:
            self._failed = error

    def _done(self, path: str, identifier: str, first: bool) -> None:
        self.id = identifier
        if first:
            _link(path, identifier)

    def _end(self) -> None:
        """Waits for the save in flight, and raises its error."""
        if self._running is not None:
            self._running.join()
        failed, self._running, self._failed = self._failed, None, None
        if failed is not None:
            raise failed

    def load_checkpoint(self, path: str | os.PathLike[str], map_location: Any = None,
                        weights_only: bool | None = None) -> dict[str, Any]:
        """The checkpoint at a path, on the CPU unless `map_location` says a device. No code is run, whatever
        `weights_only` is, unless the file is one of Lightning's own."""
        self._end()
        found: Any = _find(path)
        return _loaded(found, map_location) if found else _theirs().load_checkpoint(path, map_location, weights_only)

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Removes a checkpoint and its link, or a link of Lightning."""
        self._end()
        given, local = os.fsdecode(path), local_path(os.fsdecode(path))
        if local is not None and os.path.exists(local) and not os.path.islink(local):
            _theirs().remove_checkpoint(path)
            return
        folder, label = _split(given)
        _link(given, None)
        with Store(folder, self.options) as store, suppress(NotFoundError):
            store.remove(store.find(f"label:{label}").id)

    def teardown(self) -> None:
        """Waits for the save in flight, and closes the sessions."""
        try:
            self._end()
        finally:
            for session in self._sessions.values():
                session.close()
            self._sessions.clear()


def newest(path: str | os.PathLike[str]) -> str | None:
    """For trainer.fit(ckpt_path=newest("/data/run7")): the store, or None if it has no checkpoint yet."""
    with Store(path) as store, suppress(NotFoundError):
        store.find()
        return os.fsdecode(path)
    return None


def _loaded(found: tuple[str, str], map_location: Any) -> dict[str, Any]:
    """As torch.load would: a function of `map_location` is for storages, which these are not."""
    state: dict[str, Any] = load(*found)
    device = map_location.get("cpu") if isinstance(map_location, Mapping) else map_location
    if device is None or callable(device):
        return state
    moved: dict[str, Any] = tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), state)
    return moved


# ---- what Lightning must know ----


def _packages() -> list[str]:
    """The names by which the program uses Lightning; all that are installed, if it has imported none yet."""
    used = [name for name in _PACKAGES if name in sys.modules]
    return used or [name for name in _PACKAGES if find_spec(name.partition(".")[0]) is not None]


def _theirs() -> Any:
    """What loads and removes the files of Lightning itself."""
    return import_module(f"{_packages()[0]}.plugins.io").TorchCheckpointIO()


def _teach() -> None:
    """Tells Lightning that a CkptIO is a CheckpointIO, and load_from_checkpoint where paths of ckpt are read."""
    for package in _packages():
        import_module(f"{package}.plugins.io").CheckpointIO.register(CkptIO)
        saving: Any = import_module(f"{package}.core.saving")
        if not isinstance(saving.pl_load, _Loading):
            saving.pl_load = _Loading(saving.pl_load)


class _Loading:
    """Lightning's own function for load_from_checkpoint, but for paths of ckpt."""

    def __init__(self, theirs: Any) -> None:
        self.theirs = theirs

    def __call__(self, path_or_url: Any, map_location: Any = None, weights_only: bool | None = None) -> Any:
        found = _find(path_or_url) if isinstance(path_or_url, (str, os.PathLike)) else None
        if found is None:
            return self.theirs(path_or_url, map_location=map_location, weights_only=weights_only)
        return _loaded(found, map_location)


# ---- sharded ----


def sharded(strategy: T) -> T:
    """The strategy, a ModelParallelStrategy, whose ranks save their shards together, by the CkptIO among the plugins,
    and load them on any number of ranks:

        Trainer(strategy=sharded(ModelParallelStrategy()), plugins=[CkptIO()])

    It also goes on from what another strategy has saved, and others from what it saves.
    """
    kind: Any = type(strategy)
    if not hasattr(strategy, "_save_distributed_checkpoint"):
        raise type_error(f"sharded: expected a ModelParallelStrategy, found a {kind.__module__}.{kind.__qualname__}; "
                         "others call CkptIO on rank 0, with the whole state")
    vars(strategy)["_save_distributed_checkpoint"] = True
    made = _Sharded(strategy)
    vars(strategy).update(save_checkpoint=made.save_checkpoint, load_checkpoint=made.load_checkpoint)
    return strategy


class _Sharded:
    """How all ranks of a strategy save and load together."""

    def __init__(self, strategy: Any) -> None:
        self.strategy, self.theirs = strategy, strategy.load_checkpoint

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None) -> None:
        io = self.strategy.checkpoint_io
        if not isinstance(io, CkptIO):
            raise type_error(f"sharded: expected a CkptIO among the plugins, found a {type(io).__qualname__}; for "
                             "saves in the background give CkptIO(background=True)")
        io.save_sharded(checkpoint, self.strategy.broadcast(filepath), storage_options)

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> dict[str, Any]:
        from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict,
                                                             get_optimizer_state_dict, set_model_state_dict,
                                                             set_optimizer_state_dict)
        path = self.strategy.broadcast(checkpoint_path)
        found = self.strategy.broadcast(_chosen(path))  # rank 0's; if there is none, all ranks say so
        if found is None:
            theirs: dict[str, Any] = self.theirs(path, weights_only=weights_only)
            return theirs
        own: Any = self.strategy.lightning_module
        module, optimizers = self.strategy.model, self.strategy.optimizers
        reader: Any = open_source(found[0], found[1], {})
        with reader:
            saved, mine = to_native(reader.tree()), list[Any]()
            into: dict[str, Any] = {"state_dict": get_model_state_dict(module)}
            if own.trainer.state.fn == "fit" and "optimizer_states" in saved:
                mine = [get_optimizer_state_dict(module, optimizer) for optimizer in optimizers]
                into["optimizer_states"] = [_renamed(one, _names(one), _names(there), there["state"]) for one, there in
                                            zip(mine, saved["optimizer_states"], strict=True)]
            strict = "missing" if own.strict_loading else "none"
            state: dict[str, Any] = {key: load(reader, at=(key,), into=into.get(key), strict=strict) for key in saved
                                     if key != "optimizer_states" or mine}
        set_model_state_dict(module, state["state_dict"], options=StateDictOptions(strict=own.strict_loading))
        for optimizer, one, there in zip(optimizers, mine, state.get("optimizer_states", ())):
            set_optimizer_state_dict(module, optimizer, _renamed(there, _names(there), _names(one), one["state"]))
        return state


def _chosen(path: Any) -> tuple[str, str] | None:
    """What _find finds, by its id."""
    if (found := _find(path)) is None:
        return None
    reader: Any = open_source(found[0], found[1], {})
    identifier = reader.info.id
    reader.close()
    return found if os.path.basename(found[0]) == identifier else (found[0], identifier)


def _names(state: Any) -> list[Any]:
    """Of the parameters of an optimizer, in its order."""
    return [name for group in state["param_groups"] for name in group["params"]]


def _renamed(state: Any, names: list[Any], others: list[Any], wanted: Any) -> dict[str, Any]:
    """An optimizer's state with other names of its parameters: those that have a state in `wanted`."""
    if len(names) != len(others):
        raise error_of(Status.MISMATCH, f"the optimizer has {len(names)} parameters, the saved one {len(others)}", {})
    other = dict(zip(names, others))
    groups = [{**group, "params": [other[name] for name in group["params"]]} for group in state["param_groups"]]
    return {"state": {other[name]: one for name, one in state["state"].items() if other[name] in wanted},
            "param_groups": groups}


_teach()
