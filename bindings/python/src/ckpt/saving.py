"""ckpt.save and ckpt.save_async: save a whole state. What a save does once it has begun: background.py."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from ._core import Job, Memory, Save
from .adapt import PER_RANK, TRANSPARENT, Leaf, PerRank, Shard, odd_dict, simplify
from .background import Running, SaveHandle, Turn
from .enums import Status
from .errors import Error, error_of
from .handles import Session, Store
from .progress import Progress, finish
from .sharing import find_aliases
from .trees import Record, TreeWriter, place

Target: TypeAlias = str | os.PathLike[str] | Store | Session


class _StateWriter(TreeWriter):
    """Writes the tree of a state and collects the tensors in it."""

    _transparent = TRANSPARENT

    def __init__(self, rank: int) -> None:
        super().__init__()
        self._rank = rank
        self._own = False  # inside a PerRank
        self.owned: dict[str, None] = {}  # tensors of this rank alone, in order
        self.tensors: dict[str, Memory] = {}
        self.shards: dict[str, Shard] = {}

    def other(self, value: Any, path: tuple[str, ...]) -> None:
        if isinstance(value, PerRank):
            outside, self._own = self._own, True
            self.write(Record(PER_RANK, {f"rank{self._rank}": value.value}), path)
            self._own = outside
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
        if name in self.tensors or name in self.shards:
            raise error_of(Status.INVALID, f"{place(path)}: two tensors would have this name", {"tensor": name})
        if self._own:
            self.owned[name] = None
        try:
            if isinstance(data, Shard):
                self.shards[name] = data
            else:
                self.tensors[name] = Memory.of(data)
        except Error as error:
            error._name_tensor(name)
            raise
        self.tree.add_tensor(name)


def _add_arrays(save: Save, arrays: Mapping[str, Memory], replica: tuple[int, int, int] | None) -> None:
    """Adds them, those that share memory once."""
    aliases, spans = find_aliases(list(arrays.items()))
    shared = {alias.name for alias in aliases}
    for name, memory in arrays.items():
        if name not in shared:
            save.add_tensor(name, memory, replica=replica)
    for span in spans:
        save.add_tensor(span.name, span.data(), dtype=span.dtype, shape=(span.count,), replica=replica)
    for alias in aliases:
        if alias.shape is None:
            save.add_alias(alias.name, alias.target)
        else:
            save.add_alias(alias.name, alias.target, shape=alias.shape, strides=alias.strides, offset=alias.offset)


def _tell_why(save: Save, error: BaseException) -> None:
    """Ends the save on all ranks, with the error's text. Whatever that text is, the error itself is what is raised."""
    text = f"{type(error).__name__}: {error}".replace("\0", " ")
    with suppress(Error):
        save.give_up(text.encode("utf-8", "backslashreplace").decode())


def _fill(save: Save, state: Any, attrs: Mapping[str, str], rank: int) -> None:
    writer = _StateWriter(rank)
    writer.write(state)
    # An alias that all ranks have cannot be of what is each rank's own.
    own = {name: writer.tensors.pop(name) for name in writer.owned if name in writer.tensors}
    _add_arrays(save, writer.tensors, None)
    _add_arrays(save, own, (0, 0, 1))
    for name, shard in writer.shards.items():
        save.add_tensor(name, shard.data, shape=shard.shape, offset=shard.offset, flat_offset=shard.flat_offset,
                        replica=shard.replica)
    save.add_tree(writer.tree)
    for key, value in attrs.items():
        save.set_attr(key, value)


# The turns of paths and Stores, in which each save has a session of its own: by URI, run and rank. A new session fences
# the one before, so these saves follow one another, too.
_turns: dict[tuple[str, str, int], Turn] = {}


def _turn_of(target: Target, rank: int, options: Mapping[str, int | str]) -> Turn:
    if isinstance(target, Session):
        return target._turn
    uri = target.uri if isinstance(target, Store) else os.fsdecode(target)
    path = uri.removeprefix("file://")
    place = path if path.startswith(("mem:", "s3://")) else os.path.realpath(path)
    return _turns.setdefault((place, str(options.get("run", "main")), rank), Turn())


def _open(target: Target, rank: int, world_size: int, session_string: str | None,
          options: Mapping[str, int | str]) -> tuple[Session, Session | None]:
    """The session to save with; again, if it was made for this one save, else None."""
    if not isinstance(target, Session):
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


def _start(target: Target, state: Any, step: int | None, label: str | None, rank: int, world_size: int,
           session_string: str | None, attrs: Mapping[str, str] | None, in_place: bool,
           options: Mapping[str, int | str]) -> tuple[Job, Running]:
    """A save that has begun."""
    called = _label(step, label, target.world_size if isinstance(target, Session) else world_size)
    session, owned = _open(target, rank, world_size, session_string, options)
    save: Save | None = None
    try:
        save = Save(session, called, -1 if step is None else step, options)
        try:
            _fill(save, state, attrs or {}, session.rank)
        except BaseException as error:
            _tell_why(save, error)
            raise
        identifier, job = save.id, save.start(in_place=in_place)
        save.close()
        return job, Running(job, identifier, owned)
    except BaseException:
        if save is not None:
            save.close()  # tells the other ranks, so that they do not wait for this one
        if owned is not None:
            owned.close()
        raise


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
    """Saves in the background. The state may change once this returns; with in_place=True not until handle.staged().

    Takes what ckpt.save takes, and returns once the state is copied (Ctrl-C meanwhile cancels the save). With in_place
    no copy is made and it returns at once: keep the handle then, and call its staged() before any array changes.
    Dropping that handle waits until the arrays may change.

    The handle need not be kept. A session (or a path) has one save in flight: the next save in it waits for this one,
    and so do session.wait(), session.close(), the end of `with session` and the end of the interpreter. If it fails,
    the logger "ckpt" says so at once, and the next call on the session (save, save_async, wait, close) raises the
    error, once; handle.result() raises it, too, and then the session does not.

    A process that dies does not wait: an exception that leaves `with session`, or that ends the program, cancels the
    save, so that other ranks learn it at once. sys.exit() ends a program cleanly, whatever its code.
    """
    chosen = {**(options or {}), **keywords}
    turn = _turn_of(target, rank, chosen)
    with turn.lock:
        turn.wait()
        _, running = _start(target, state, step, label, rank, world_size, session_string, attrs, in_place, chosen)
        turn.running = running
        if not in_place:
            try:
                running.stage()
            except BaseException:
                running.cancel()
                running.finish()
                turn.running = None
                raise
        running.watch(turn)
    return SaveHandle(running, in_place)


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

    `state`: dicts, lists, tuples, sets, numbers, text, bytes, None and arrays (numpy, torch, jax), nested in any way.
    Arrays are neither copied nor pickled; those that share memory are saved once. A value of another type is a
    TypeError that names its path.

    `target`: a Session; or a path or Store, in which this call opens a session of its own with rank, world_size and
    session_string. A loop opens one Session and passes that. With several ranks every rank calls this with the same
    label or step: their states are merged. A ckpt.Shard is this rank's region of a tensor, a ckpt.PerRank what is its
    own; what several ranks have at one place must be equal (options `replicas`, `held_by`).

    `label` is "step-N" by default, or the time if there is no step. `attrs`: short texts by key, which `ckpt info`
    shows. Option `on_existing` says what becomes of a checkpoint with the same label: "error", "replace" or "keep".
    `progress`: True for a bar, or a function of (bytes done, bytes in total). Options of the store, session and save
    are keywords or a dict. A save of ckpt.save_async that is still in flight ends first. Ctrl-C cancels the save;
    KeyboardInterrupt comes once the arrays are no longer used.
    """
    chosen = {**(options or {}), **keywords}
    turn = _turn_of(target, rank, chosen)
    with turn.lock:
        turn.wait()
        job, running = _start(target, state, step, label, rank, world_size, session_string, attrs, True, chosen)
        turn.running = running
        try:
            finish(job, "save", progress)
        finally:
            turn.forget(running)
            running.release()
    return running.id
