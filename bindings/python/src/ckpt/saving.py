"""ckpt.save and ckpt.save_async: save a whole state. What a save does once it has begun: background.py."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import nullcontext, suppress
from typing import Any, TypeAlias

from ._core import Job, Memory, Save, find_aliases
from .adapt import TRANSPARENT, Leaf, memory, odd_dict, simplify, way_out
from .arguments import checked, path_of, step_of, text_of
from .background import Running, SaveHandle, Turn
from .enums import Status
from .errors import Error, error_of, type_error, value_error
from .frameworks import SAVED_AS, framework_name_of, is_key
from .handles import Session, Store
from .hints import local_path, shown
from .looks import TIMEOUT_MS, look
from .progress import Progress, follow
from .ranks import alone, team as team_of
from .regions import PER_RANK, PerRank, Regions, Replica, Shard
from .sharing import Alias, Span
from .stateful import is_stateful
from .states import states_of
from .tables import TABLE, Table, add_rows, frameworks_in
from .team import Team
from .trees import Record, TensorName, TreeWriter, place

Target: TypeAlias = str | os.PathLike[str] | Store | Session


class _StateWriter(TreeWriter):
    """Writes the tree of a state and collects the tensors in it."""

    _transparent = TRANSPARENT

    def __init__(self, rank: int, objects: Mapping[int, Any]) -> None:
        super().__init__()
        self._rank = rank
        self._objects = objects  # what stands for modules and the like, by their ids
        self._own = False  # inside a PerRank
        self.tensors: dict[str, Memory] = {}  # other() is not asked for plain arrays of numpy and torch
        self.owned: dict[str, Memory] = {}  # those of this rank alone
        self.shards: dict[str, tuple[Shard, ...]] = {}
        self.tables: dict[str, Table] = {}
        self.tied: dict[str, str] = {}  # names of regions that have another name, and that one
        self.held: dict[str, object] = {}  # the regions of each tensor that other ranks may hold, too
        self._first: dict[object, str] = {}  # names of regions, by their identity
        self._jax_names: list[str] = []

    def other(self, value: Any, path: tuple[str, ...]) -> None:
        if self._own and is_stateful(value):
            self.write(value.state_dict(), path)
            return
        if id(value) in self._objects:
            self.write(self._objects[id(value)], path)
            return
        if isinstance(value, PerRank):
            outside, self._own, self.tensors = (self._own, self.tensors), True, self.owned
            self.write(Record(PER_RANK, {f"rank{self._rank}": value.value}), path)
            self._own, self.tensors = outside
            return
        if isinstance(value, Table):
            self._table(value, path)
            return
        if is_stateful(value):  # inside of an object
            self.write(value.state_dict(), path)
            return
        if is_key(value):
            from .jaxes import check_alive
            check_alive(value, f"{place(path)}: ")
        simple = simplify(value, path)
        if simple is None:
            super().other(value, path)
        elif isinstance(simple, Leaf):
            self._leaf(simple.data, path)
        else:
            self.write(simple, path)

    def way_out(self, value: Any) -> str:
        return way_out(value)

    def odd_dict(self, value: dict[Any, Any], path: tuple[str, ...]) -> None:
        self.write(odd_dict(value, path), path)

    def _name(self, path: tuple[str, ...]) -> str:
        name = "/".join(path) or "state"
        if name in self.names:
            raise error_of(Status.INVALID, f"{place(path)}: two tensors would have this name", {"tensor": name})
        return name

    def _table(self, table: Table, path: tuple[str, ...]) -> None:
        name = self._name(path)
        if frameworks_in(table) == {"torch"}:
            self.of_torch = True
        else:
            self.others.append(name)
        self.tables[name] = table
        self.names.add(name)
        self.write(Record(TABLE, {"data": TensorName(name)}), path)

    def _leaf(self, data: Any, path: tuple[str, ...]) -> None:
        name, framework = self._name(path), framework_name_of(_array_of(data))
        try:
            if framework == "jax" and not isinstance(data, Shard):
                from .jaxes import saved_of
                data = saved_of(data, self._rank)
            if getattr(data, "is_meta", False):
                raise error_of(Status.UNSUPPORTED, "a tensor on device meta has no numbers: give it memory and values "
                               "(to_empty()), or leave it out", {"found": "meta"})
            if isinstance(data, Shard):
                memory(data.data)
                self.shards[name] = (data,)
            elif isinstance(data, Regions):
                self._regions(name, data)
            else:
                self.tensors[name] = memory(data)
        except Error as error:
            error._name_tensor(name)
            raise
        self.of_torch = self.of_torch or framework == "torch"
        if framework == "jax":
            self._jax_names.append(name)
        elif framework != "torch":
            self.others.append(name)
        self.names.add(name)
        self.tree.add_tensor(name)

    def _regions(self, name: str, regions: Regions) -> None:
        first = self._first.setdefault((self._own, regions.identity), name)
        if first != name:
            self.tied[name] = first
            return
        self.shards[name] = regions.shards
        if regions.elsewhere and regions.shards and not self._own:
            self.held[name] = [shard.where for shard in regions.shards]

    def frameworks(self, alone: bool) -> Iterator[tuple[str, str, str | None]]:
        """Attributes that say which tensors were torch's and jax's: key, value, and tensor or None. Those of the
        checkpoint are rank 0's, so only one that is `alone` can know that there are no others."""
        if not self.of_torch and not self._jax_names:
            return
        all_torch = alone and not self.others and not self._jax_names
        yield SAVED_AS, "jax" if not self.of_torch else "torch" if all_torch else "mixed", None
        for name in self.others:
            yield SAVED_AS, "numpy", name
        for name in self._jax_names if self.of_torch else ():
            yield SAVED_AS, "jax", name


def _array_of(data: Any) -> Any:
    """The array of a leaf, which says whose it is."""
    return data.data if isinstance(data, Shard) else data.tensor if isinstance(data, Regions) else data


class _Arrays:
    """Whole arrays of a state, those that share memory once."""

    def __init__(self, arrays: dict[str, Memory]) -> None:
        self._arrays = arrays
        aliases: list[Alias]
        self._spans: list[Span]
        aliases, self._spans = find_aliases(arrays)
        self._aliases = {alias.name: alias for alias in aliases}

    def described(self) -> dict[str, str]:
        """All that is saved, by name: "" for a tensor, or which view it is."""
        views = {name: f"{alias.target} {alias.shape} {alias.strides} {alias.offset}"
                 for name, alias in self._aliases.items()}
        return {**dict.fromkeys(self._arrays, ""), **dict.fromkeys((span.name for span in self._spans), ""), **views}

    def add_to(self, save: Save, replicas: Mapping[str, Replica], apart: Set[str] = frozenset()) -> None:
        """Adds them. `replicas`: who holds the same, by name; others are held by all ranks. `apart`: what is saved as a
        tensor, though it shares memory."""
        groups: dict[Replica | None, dict[str, Memory]] = {}
        for name, memory in self._arrays.items():
            if name not in self._aliases or name in apart:
                groups.setdefault(replicas.get(name), {})[name] = memory
        for replica, arrays in groups.items():
            save.add_tensors(arrays, replica=replica)
        for span in self._spans:
            save.add_tensor(span.name, span.data(), dtype=span.dtype, shape=(span.count,), device=span.device,
                            replica=replicas.get(span.name))
        _add_aliases(save, [alias for name, alias in self._aliases.items() if name not in apart])


def _add_aliases(save: Save, aliases: list[Alias]) -> None:
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


def _fill(save: Save, team: Any, state: Any, attrs: Mapping[str, str], session: Session) -> None:
    writer = _StateWriter(session.rank, states_of(state, team))
    writer.write(state)
    # An alias that all ranks have cannot be of what is each rank's own.
    whole, own = _Arrays(writer.tensors), _Arrays(writer.owned)
    replicas, apart = ({}, set()) if team is None else team.replicas(whole.described(), writer.held)
    whole.add_to(save, replicas, apart)
    own.add_to(save, dict.fromkeys(own.described(), (0, 0, 1)))
    for name, shards in writer.shards.items():
        for shard in shards:
            save.add_tensor(name, shard.data, shape=shard.shape, offset=shard.offset, flat_offset=shard.flat_offset,
                            replica=replicas.get(name, shard.replica))
    for name, table in writer.tables.items():
        add_rows(save, name, table)
    _add_aliases(save, [Alias(name, target) for name, target in writer.tied.items()])
    save.add_tree(writer.tree)
    for key, value, tensor in writer.frameworks(session.world_size == 1):
        save.set_attr(key, value, tensor)
    for key, value in attrs.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise type_error(f"attrs: expected texts by text, found {value!r} at {key!r}; give str() of it")
        save.set_attr(key, value)


# The turns of paths and Stores, in which each save has a session of its own: by URI, run and rank. A new session fences
# the one before, so these saves follow one another, too.
_turns: dict[tuple[str, str, int], Turn] = {}


def _place_of(target: str | os.PathLike[str] | Store, options: Mapping[str, int | str]) -> str:
    """The path or URI, as text."""
    uri = target.uri if isinstance(target, Store) else os.fsdecode(path_of(target, 'target'))
    path, limit = local_path(uri), target.limit if isinstance(target, Store) else {}
    return uri if path is None else look(path, {**limit, **options}, lambda: os.path.realpath(path))


def turn_of(target: Target, rank: int | None, options: Mapping[str, int | str]) -> Turn:
    """Of the saves by this rank into a store or by a session: one at a time."""
    if isinstance(target, Session):
        return target._turn
    place = _place_of(target, options)
    return _turns.setdefault((place, str(options.get("run", "main")), rank or 0), Turn(place))


def _team_of(target: Target, who: tuple[int | None, int | None, str | None],
             options: Mapping[str, int | str]) -> Team | None:
    """The ranks that save together and can talk; None if the caller says which rank this is, or if there are none."""
    if isinstance(target, Session):
        for key, given in zip(("rank", "world_size", "session_string"), who):
            if given is not None:
                raise value_error(f"{key}= is for a path or Store; a Session has its own")
        return team_of((target.rank, target.world_size))
    return team_of() if who == (None, None, None) and "rendezvous" not in options else None


def _open(target: Target, who: tuple[int | None, int | None, str | None], team: Team | None,
          options: Mapping[str, int | str], turn: Turn) -> tuple[Session, Session | None]:
    """The session to save with; again, if it was made for this one save, else None."""
    if isinstance(target, Session):
        return target, None
    if team is not None:
        return team.session(target, options, turn), None
    if who == (None, None, None):
        alone()
    store = target if isinstance(target, Store) else Store(target, options)
    made = Session(store, who[0] or 0, 1 if who[1] is None else who[1], who[2], options)
    return made, made


def label_of(step: int | None, label: str | None, world_size: int) -> str:
    """The given one, or that of the step; without either, of one rank, the time."""
    if label is not None:
        return label
    if step is not None:
        return f"step-{step}"
    if world_size > 1:
        raise value_error("several ranks must give the same label= or step=")
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")


def _start(target: Target, state: Any, step: int | None, label: str | None,
           who: tuple[int | None, int | None, str | None], attrs: Mapping[str, str] | None, in_place: bool,
           options: Mapping[str, int | str], turn: Turn) -> tuple[Job, Running]:
    """A save that has begun. `who`: rank, world_size and session_string as the caller gave them."""
    step, label = step_of(step), text_of("label", label)
    team = _team_of(target, who, options)
    if team is not None:
        limit = int(options.get("timeout_ms", target.timeout_ms if isinstance(target, Session) else TIMEOUT_MS))
        team.meet("ckpt.save", {"path": shown(turn.place), "run": options.get("run", "main"), "step": step,
                                "label": label}, limit)
    session, owned = _open(target, who, team, options, turn)
    return _begin(
        lambda: Save(session, label_of(step, label, session.world_size), -1 if step is None else step, options),
        session, team, lambda: state, attrs or {}, in_place, owned)


def _begin(make: Callable[[], Save], session: Session, team: Team | None, state: Callable[[], Any],
           attrs: Mapping[str, str], in_place: bool, owned: Session | None) -> tuple[Job, Running]:
    """Begins the save that `make` makes. What fails is told to the other ranks."""
    save: Save | None = None
    try:
        with nullcontext() if team is None else team.together():
            save = make()
            try:
                _fill(save, team, state(), attrs, session)
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


def _in_background(turn: Turn, in_place: bool, begin: Callable[[], tuple[Job, Running]]) -> SaveHandle:
    with turn.lock:
        turn.wait()
        _, running = begin()
        turn.running = running
        if not in_place:
            try:
                running.stage()
            except Error:
                pass  # of the save itself: told as if it had come later, so that all ranks learn it in the same call
            except BaseException:
                running.cancel()
                running.finish()
                turn.running = None
                raise
        running.watch(turn)
    return SaveHandle(running, in_place)


def save_by(make: Callable[[], Save], session: Session, state: Callable[[], Any], in_place: bool) -> SaveHandle:
    """What save_async() does, with the save that `make` makes. Ranks that can talk have met."""
    def begin() -> tuple[Job, Running]:
        job, running = _begin(make, session, team_of((session.rank, session.world_size)), state, {}, in_place, None)
        running.of_keeper = True
        return job, running

    return _in_background(session._turn, in_place, begin)


@checked()
def save_async(
    target: Target,
    state: Any,
    *,
    step: int | None = None,
    label: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
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
    and so do session.wait(), session.close(), the end of `with session` and the end of the interpreter. If it fails
    (a label that is taken, too), the logger "ckpt" says so at once, and the next call on the session (save, save_async,
    wait, close) raises the error, once; handle.result() raises it, too, and then the session does not.

    A process that dies does not wait: an exception that leaves `with session`, or that ends the program, cancels the
    save, so that other ranks learn it at once. sys.exit() ends a program cleanly, whatever its code.
    """
    chosen = {**(options or {}), **keywords}
    turn = turn_of(target, rank, chosen)
    return _in_background(turn, in_place, lambda: _start(
        target, state, step, label, (rank, world_size, session_string), attrs, in_place, chosen, turn))


@checked()
def save(
    target: Target,
    state: Any,
    *,
    step: int | None = None,
    label: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    session_string: str | None = None,
    attrs: Mapping[str, str] | None = None,
    progress: Progress = None,
    options: Mapping[str, int | str] | None = None,
    **keywords: int | str,
) -> str:
    """Saves `state` as one checkpoint. Returns its id once it is durable, complete and committed.

    `state`: dicts, lists, tuples, sets, numbers, text, bytes, None, arrays (numpy, torch, jax, cupy), dataclasses, and
    objects with state_dict() (modules, optimizers, schedulers), nested in any way. Tensors that torch spreads over
    ranks are saved as they are. Arrays are neither copied nor pickled; those that share memory are saved once. A value
    of another type is a TypeError that names its path.

    `target`: a Session; or a path or Store, in which this call opens a session of its own with rank, world_size and
    session_string. Where torch's default process group or jax.distributed is there, a path or Store means a session of
    all its ranks, which is kept, and the call is a COLLECTIVE: every rank makes it, or those that do hear after ten
    seconds on stderr who is missing, and fail after `timeout_ms`. One rank that saves by itself gives rank=0 and
    world_size=1. Otherwise a loop opens one Session and passes that. With several ranks every rank calls this with the
    same path, label and step, or it is a MismatchError on all; their states are merged. A ckpt.Shard is this rank's
    region of a tensor, a ckpt.PerRank what is its own; what several ranks have at one place must be equal (options
    `replicas`, `held_by`).

    `label` is "step-N" by default, or the time if there is no step. `attrs`: short texts by key, which `ckpt info`
    shows. Option `on_existing` says what becomes of a checkpoint with the same label: "error", "replace" or "keep".
    A save that does not go on from what the run has gives a LaterStepsWarning, and retention leaves all of that; option
    continue_from="none" says that it is meant.

    `progress`: True for a bar, or a function of (bytes done, bytes in total). Options of the store, session and save
    are keywords or a dict. A save of ckpt.save_async that is still in flight ends first. Ctrl-C cancels the save;
    KeyboardInterrupt comes once the arrays are no longer used.
    """
    chosen = {**(options or {}), **keywords}
    turn = turn_of(target, rank, chosen)
    return _to_its_end(turn, lambda: _start(target, state, step, label, (rank, world_size, session_string), attrs, True,
                                            chosen, turn), progress)


def _to_its_end(turn: Turn, begin: Callable[[], tuple[Job, Running]], progress: Progress) -> str:
    with turn.lock:
        turn.wait()
        job, running = begin()
        turn.running = running
        try:
            with job:
                follow(job, "save", progress)
                running.look_at_report()
        finally:
            turn.forget(running)
            running.release()
    running.tell_anew()
    return running.id


def save_planned(target: Target, state: Callable[[Save], Any], team: Team, step: int | None, label: str,
                 options: Mapping[str, int | str]) -> str:
    """What save() does, of ranks that have agreed already who saves what. `target`: their session, or of one rank a
    path. `state` may add to the save what other ranks have in their states."""
    turn = turn_of(target, team.rank, options)

    def begin() -> tuple[Job, Running]:
        session, owned = _open(target, (team.rank, team.size, None), None, options, turn)
        made: list[Save] = []

        def make() -> Save:
            made.append(Save(session, label, -1 if step is None else step, options))
            return made[0]

        return _begin(make, session, team, lambda: state(made[0]), {}, True, owned)

    return _to_its_end(turn, begin, None)
