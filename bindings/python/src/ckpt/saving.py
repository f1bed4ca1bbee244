"""ckpt.save and ckpt.save_async: save a whole state."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from types import TracebackType
from typing import Any, TypeAlias

from ._core import Job, Memory, Save, Session, Store
from .adapt import TRANSPARENT, Leaf, odd_dict, simplify
from .enums import JobState, Status
from .errors import Error, error_of
from .progress import Progress, finish
from .frameworks import SAVED_AS, loaded
from .records import JobStats
from .regions import Regions, Replica, Shard
from .sharing import Alias, find_aliases
from .stateful import states_of
from .trees import TreeWriter, place

Target: TypeAlias = str | os.PathLike[str] | Store | Session


class _StateWriter(TreeWriter):
    """Writes the tree of a state and collects the tensors in it."""

    _transparent = TRANSPARENT

    def __init__(self, objects: Mapping[int, Any]) -> None:
        super().__init__()
        self._objects = objects  # what stands for modules and the like, by their ids
        self.tensors: dict[str, Memory] = {}
        self.shards: dict[str, tuple[Shard, ...]] = {}
        self.aliases: list[Alias] = []
        self.held: dict[str, object] = {}  # the region of each tensor that other ranks may hold, too
        self._first: dict[object, str] = {}  # names of regions, by their identity
        self._tied: set[str] = set()  # names of regions that have another name
        self._kinds: dict[type, list[str]] = {}  # names by the class of what was saved

    def other(self, value: Any, path: tuple[str, ...]) -> None:
        if id(value) in self._objects:
            self.write(self._objects[id(value)], path)
            return
        simple = simplify(value, path)
        if simple is None:
            super().other(value, path)
        elif isinstance(simple, Leaf):
            self._leaf(simple.data, path)
        else:
            self.write(simple, path)

    def odd_dict(self, value: dict[Any, Any], path: tuple[str, ...]) -> None:
        self.write(odd_dict(value), path)

    def _leaf(self, data: Any, path: tuple[str, ...]) -> None:
        name = "/".join(path) or "state"
        if name in self.tensors or name in self.shards or name in self._tied:
            raise error_of(Status.INVALID, f"{place(path)}: two tensors would have this name", {"tensor": name})
        try:
            if isinstance(data, Shard):
                self.shards[name] = (data,)
            elif isinstance(data, Regions):
                self._regions(name, data)
            else:
                self.tensors[name] = Memory.of(data)
        except Error as error:
            error._name_tensor(name)
            raise
        self._kinds.setdefault(type(data.data if isinstance(data, Shard) else data), []).append(name)
        self.tree.add_tensor(name)

    def frameworks(self) -> Iterator[tuple[str, str, str | None]]:
        """Attributes that say which tensors were torch's: key, value, and tensor or None."""
        torch = loaded("torch")
        names = {} if torch is None else {kind: names for kind, names in self._kinds.items()
                                          if kind is Regions or issubclass(kind, torch.Tensor)}
        if names:
            mixed = len(names) < len(self._kinds)
            yield SAVED_AS, "mixed" if mixed else "torch", None
            for name in (name for kind in names.values() for name in kind) if mixed else ():
                yield SAVED_AS, "torch", name

    def _regions(self, name: str, regions: Regions) -> None:
        first = self._first.setdefault(regions.identity, name)
        if first != name:
            self.aliases.append(Alias(name, first))
            self._tied.add(name)
            return
        self.shards[name] = regions.shards
        if regions.elsewhere and regions.shards:
            self.held[name] = [shard.where for shard in regions.shards]

    def find_aliases(self) -> None:
        found = find_aliases(list(self.tensors.items()))
        for alias in found:
            del self.tensors[alias.name]
        self.aliases += found


def _team() -> Any:
    """The ranks of torch's default process group; None without one."""
    if loaded("torch.distributed") is None:
        return None
    from .torch.group import team
    return team()


def _fill(save: Save, team: Any, state: Any, attrs: Mapping[str, str]) -> None:
    writer = _StateWriter(states_of(state, team))
    writer.write(state)
    writer.find_aliases()
    replicas: Mapping[str, Replica] = {}
    if team is not None:
        replicas = team.replicas({**dict.fromkeys(writer.tensors, "whole"), **writer.held})
    for name, memory in writer.tensors.items():
        save.add_tensor(name, memory, replica=replicas.get(name))
    for name, shards in writer.shards.items():
        for shard in shards:
            save.add_tensor(name, shard.data, shape=shard.shape, offset=shard.offset, flat_offset=shard.flat_offset,
                            replica=replicas.get(name, shard.replica))
    for alias in writer.aliases:
        if alias.shape is None:
            save.add_alias(alias.name, alias.target)
        else:
            save.add_alias(alias.name, alias.target, shape=alias.shape, strides=alias.strides, offset=alias.offset)
    save.add_tree(writer.tree)
    for key, value, tensor in writer.frameworks():
        save.set_attr(key, value, tensor)
    for key, value in attrs.items():
        save.set_attr(key, value)


def _open(target: Target, rank: int, world_size: int, session_string: str | None,
          options: Mapping[str, int | str]) -> tuple[Session, Session | None]:
    """The session to save with; again, if it was made for this one save, else None."""
    if not isinstance(target, Session):
        alone = (rank, world_size, session_string) == (0, 1, None) and "rendezvous" not in options
        team = _team() if alone else None
        if team is not None:
            return team.session(target, options), None
        store = target if isinstance(target, Store) else Store(target, options)
        made = Session(store, rank, world_size, session_string, options)
        return made, made
    for key, given in (("rank", rank != 0), ("world_size", world_size != 1),
                       ("session_string", session_string is not None)):
        if given:
            raise ValueError(f"{key}= is for a path or Store; a Session has its own")
    return target, None


def _label(step: int | None, label: str | None, world_size: int) -> str:
    if label is not None:
        return label
    if step is not None:
        return f"step-{step}"
    if world_size > 1:
        raise ValueError("several ranks must give the same label= or step=")
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")


def _give_up(save: Save, session: Session) -> None:
    """Ends a save that could not be filled, and tells the other ranks, so that they do not wait for this one."""
    if session.world_size > 1:
        try:
            job = save.start(in_place=True)
        except Error:
            pass  # already started, or cannot be started: the engine has told them
        else:
            job.cancel()
            job.close()
    save.close()


class SaveHandle:
    """A save in the background, from ckpt.save_async.

    The arrays must not change until staged() returns. The end of a `with` block waits for the commit; an exception in
    the block cancels the save instead. Several threads may use it at once.
    """

    def __init__(self, save: Save, job: Job, owned: Session | None) -> None:
        self.id: str = save.id
        """The id that the checkpoint will have once committed."""
        self._job, self._owned = job, owned
        save.close()

    def staged(self, timeout_ms: int = -1) -> None:
        """Waits until the arrays may change again. Raises like result()."""
        self._job.wait(JobState.STAGED, timeout_ms)

    def result(self, timeout_ms: int = -1) -> str:
        """Waits for the commit and returns the checkpoint's id. Raises the error of a save that failed, or TimeoutError
        when the time is up (the save goes on); a negative timeout waits without limit."""
        self._job.wait(timeout_ms=timeout_ms)
        return self.id

    def done(self) -> bool:
        """Whether it has ended: committed, failed or cancelled."""
        return self._job.state >= JobState.COMMITTED

    def cancel(self) -> None:
        """Asks it to stop and returns at once. A save that is not yet committed will not be."""
        self._job.cancel()

    @property
    def stats(self) -> JobStats:
        """Counters of the work so far."""
        return self._job.stats

    def close(self) -> None:
        """Cancels the save if it still runs, and waits until the arrays are no longer used."""
        self._job.close()
        if self._owned is not None:
            self._owned.close()

    def __enter__(self) -> SaveHandle:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            if kind is None and not self._job.closed:
                self._job.wait()
        finally:
            self.close()


def save_async(
    target: Target,
    state: Any,
    *,
    step: int | None = None,
    label: str | None = None,
    rank: int = 0,
    world_size: int = 1,
    session_string: str | None = None,
    attrs: Mapping[str, str] | None = None,
    in_place: bool = False,
    options: Mapping[str, int | str] | None = None,
    **keywords: int | str,
) -> SaveHandle:
    """Does what ckpt.save does, in the background; SaveHandle says when the state may change again. With in_place no
    copy is made, and the state must not change until all of it is written."""
    chosen = {**(options or {}), **keywords}
    session, owned = _open(target, rank, world_size, session_string, chosen)
    team = _team()
    if team is not None and team.size != session.world_size:
        team = None
    save: Save | None = None
    try:
        with team.together() if team is not None else nullcontext():
            save = Save(session, _label(step, label, session.world_size), -1 if step is None else step, chosen)
            _fill(save, team, state, attrs or {})
        return SaveHandle(save, save.start(in_place=in_place), owned)
    except BaseException:
        if save is not None:
            _give_up(save, session)
        if owned is not None:
            owned.close()
        raise


def save(
    target: Target,
    state: Any,
    *,
    step: int | None = None,
    label: str | None = None,
    rank: int = 0,
    world_size: int = 1,
    session_string: str | None = None,
    attrs: Mapping[str, str] | None = None,
    progress: Progress = None,
    options: Mapping[str, int | str] | None = None,
    **keywords: int | str,
) -> str:
    """Saves `state` as one checkpoint. Returns its id once it is durable, complete and committed.

    `state`: dicts, lists, tuples, sets, numbers, text, bytes, None, arrays (numpy, torch, jax), dataclasses, and
    objects with state_dict() (modules, optimizers, schedulers), nested in any way. Tensors that torch spreads over
    ranks are saved as they are. Arrays are neither copied nor pickled; those that share memory are saved once. A value
    of another type is a TypeError that names its path.

    `target`: a Session; or a path or Store, in which this call opens a session of its own with rank, world_size and
    session_string. Where torch's default process group is there, a path or Store means a session of all its ranks,
    which is kept; every rank calls this. Otherwise a loop opens one Session and passes that. With several ranks every
    rank calls this with the same label or step: plain arrays are the same on all ranks, a ckpt.Shard is this rank's
    region of a tensor.

    `label` is "step-N" by default, or the time if there is no step. `progress`: True for a bar, or a function of (bytes
    done, bytes in total). Options of the store, session and save are keywords or a dict. Ctrl-C cancels the save;
    KeyboardInterrupt comes once the arrays are no longer used.
    """
    handle = save_async(target, state, step=step, label=label, rank=rank, world_size=world_size,
                        session_string=session_string, attrs=attrs, in_place=True, options=options, **keywords)
    try:
        finish(handle._job, "save", progress)
    finally:
        handle.close()
    return handle.id
