"""ckpt.Checkpointer."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FunctionType, MethodType, TracebackType
from typing import Any, TypeVar, cast

from .._core import Keeper, Save
from ..arguments import Rename, checked, number, patterns, step_of
from ..background import SaveHandle, log
from ..enums import Status
from ..errors import Error, LaterStepsWarning, error_of, type_error, value_error, warn
from ..handles import Session, Store
from ..hints import shown
from ..ranks import ranks_of
from ..records import CheckpointInfo
from ..regions import Whose
from ..saving import save, save_by
from . import events, listing, preemption, restoring
from .checking import Check, check
from .events import Event
from .policy import (Best, Bests, Every, Moment, Predicate, kept_every, schedule_of, seconds_of, time_limit_of,
                     wrong_values)
from .restoring import Restored
from .selection import Choice, restore as load_into, skips_shapes

__all__ = ["Checkpointer", "Restored"]


T = TypeVar("T")
_PATIENCE_MS = 30000  # of a rank that has failed, for the others, of which perhaps none has


def _label_of(identifier: str) -> str:
    return identifier.rsplit(".", 2)[0]


class Checkpointer:
    """Saves a training as it goes on, keeps what the policy says, and restores the newest checkpoint that is sound.

        with ckpt.Checkpointer(path, every=500, keep_last=3, keep_best=("val_loss", "min", 2)) as keeper:
            start = keeper.restore(state)
            for n in range(start.step + 1 if start else 1, steps + 1):
                ...
                keeper.step(n, state, metrics={"val_loss": loss})
                if keeper.stopping:
                    break

    `every`: steps (500), a timedelta, a text ("1 epoch", "10 min", "1000000 tokens"; "idle": whenever no save runs, or
    "idle 30 s"), a function of a ckpt.Moment, or a list of these; None: only save() saves. `keep_last`, `keep_every` (a
    number of steps, a timedelta, or both), `keep_best=(metric, "min" or "max", how many)` or a list of these, where a
    function of a ckpt.Moment may stand for the metric: what stays; without keep_last all does. `keep`: a function of a
    ckpt.Moment; what it is true for stays for ever. What a training that did not restore() finds of later steps stays,
    too, with a LaterStepsWarning; `fresh` says that it begins anew on purpose, and that its saves replace what is there
    under their own labels. `label`: the template of labels, with the variables of Composer and {metrics.NAME:.3f}; what
    save(label=) names stays for ever. `overwrite`: whether a checkpoint with the same label is replaced, or an
    ExistsError.

    `signals`: those that make step() save and set `stopping` (SIGTERM and SIGINT, in SLURM also SIGUSR1; the second
    SIGINT interrupts as usual). `time_limit`: when the job ends (seconds or a timedelta from now, a datetime, or
    "slurm"); step() does the same `time_margin` before it. `on_commit`: functions that are called with the
    CheckpointInfo of what was committed, on rank 0 (on_commit_ranks="all": on all), by the next call of this object.
    An exception of theirs is logged, and does not end the training. `on_event`: functions that are called in the same
    way, with a ckpt.Event of what was committed, has failed, or was restored, and how long it took.
    `in_place`: saves make no copy, and arrays may change in updating() only. What step() and save() take as a state may
    be a function that makes it, which is called only if the save is made.
    `save_on_exception`: if an exception leaves the `with` block, what step() was given last is saved as it is then. It
    may be in the middle of a step, so it goes into a run of its own, RUN.exception, and "latest" is what it was.
    `read_only`: step(), save() and delete() are an InvalidError, before anything is touched.

    The ranks are those of torch's default process group, or of jax.distributed, if one is initialised. All methods
    but wait(), updating() and close() are COLLECTIVES: every rank calls the same, with the same step. Who
    waits for ten seconds says on stderr for whom, and ends by `timeout_ms` (without it, in step() after half an hour).
    What one rank decides (its clock, a signal) all do in the same step, which costs one all_reduce of five numbers in
    each step, over a group of gloo's that ckpt makes. Other ranks give rank= and world_size=, meet through the
    store and cannot agree, so `every` must be steps or the like, and signals and time_limit are refused. Other options
    of store, session, save and load are keywords or a dict.
    """

    @checked()
    def __init__(
        self,
        path: Any,
        *,
        every: Every | Iterable[Every] | None = None,
        keep_last: int | None = None,
        keep_every: int | str | datetime.timedelta | Iterable[int | str | datetime.timedelta] | None = None,
        keep_best: Best | Iterable[Best] | None = None,
        keep: Predicate | None = None,
        label: str = "step-{step}",
        overwrite: bool = False,
        signals: Sequence[str] | None = None,
        time_limit: float | datetime.timedelta | datetime.datetime | str | None = None,
        time_margin: float | datetime.timedelta = 120,
        on_commit: Callable[[CheckpointInfo], object] | Sequence[Callable[[CheckpointInfo], object]] = (),
        on_commit_ranks: str = "first",
        on_event: Callable[[Event], object] | Sequence[Callable[[Event], object]] = (),
        in_place: bool = False,
        fresh: bool = False,
        save_on_exception: bool = False,
        read_only: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        options: Mapping[str, int | str] | None = None,
        **keywords: int | str,
    ) -> None:
        self._options: dict[str, int | str] = {**({"continue_from": "none"} if fresh else {}), **(options or {}),
                                               **keywords, **({"on_existing": "replace"} if overwrite else {})}
        self._run = str(self._options.get("run", "main"))
        schedule, self._predicates = schedule_of(every)
        self._keep_last, self._keep = keep_last, keep
        self._keep_every, interval = kept_every(keep_every)
        self._bests = Bests(keep_best)
        self._in_place, self._read_only = in_place, read_only
        self._on_commit = [on_commit] if callable(on_commit) else list(on_commit)
        self._on_event = [on_event] if callable(on_event) else list(on_event)
        if on_commit_ranks not in ("first", "all"):
            raise value_error(f"on_commit_ranks: expected 'first' or 'all', found {on_commit_ranks!r}")
        self._on_commit_all = on_commit_ranks == "all"
        self._ranks = ranks_of(rank, world_size)
        if keep_last is not None and keep_last < 1:
            raise value_error(f"keep_last: expected 1 or more, found {keep_last}")
        if signals is None:
            signals = preemption.default_signals() if self._ranks.agree and not read_only else ()
        if not self._ranks.agree and (signals or self._predicates or save_on_exception):
            raise value_error("ranks that cannot agree (rank= and world_size= without torch.distributed) cannot save "
                              "on a signal, a predicate or an exception: each would save another step")
        self._store = path if isinstance(path, Store) else Store(path, self._options)
        policy: dict[str, int | str] = {
            "every": schedule, "keep_last": keep_last or 0, "keep_every": self._keep_every, "keep_interval": interval,
            "keep_best": ",".join(self._bests.texts), "label": label, "read_only": int(read_only),
            "ranks_agree": int(self._ranks.agree), "time_limit": time_limit_of(time_limit),
            "time_margin_ms": round(1000 * seconds_of(time_margin))}
        with wrong_values():
            self._keeper = Keeper(self._store, self._ranks.rank, self._ranks.size, {**self._options, **policy})
        self._session: Session | None = None
        self._flight: SaveHandle | None = None
        self._flight_step, self._blocked = -1, 0.0  # its step, and for how many seconds the trainer stood still
        self._at = -1  # the step that was told last
        self._now = Moment(-1)  # the same
        self._due: bool | None = None  # what should_save() has said of it
        self._save_on_exception = save_on_exception
        self._last: Any = None  # the state that was given last, for that
        self._closed = False
        self.stopping: str | None = None
        """Why the training should stop, once that was decided and the checkpoint is committed: a signal, or
        "time limit"."""
        self._signals = preemption.Signals(signals, self._keeper.stop)

    # ---- saving ----

    @checked()
    def step(self, n: int, state: Any, *, metrics: Mapping[str, Any] | None = None, **counters: float) -> str | None:
        """Says that step `n` is done. Saves `state` if that is due, in the background; returns the id then, else None.

        After a signal, or at the time limit, it saves and returns once the checkpoint is committed, and `stopping` is
        set. `metrics` are kept with the checkpoint. `counters`: epoch= (epochs that are done), batch=, sample=, token=
        and so on, for `every` and for labels."""
        if self._save_on_exception:
            self._last = state
        due, self._due = (self._due if self._at == n else None), None
        if due is False:
            return None
        self._moment(n, metrics, counters, due is not None)
        if due is None:
            due = self._decide()
        if self.stopping is None and self._keeper.stopping is not None:
            return self._save_for_the_last_time(self._at, state, self._keeper.stopping)
        return self._save(self._at, state, None) if due else None

    @checked()
    def should_save(self, n: int, *, metrics: Mapping[str, Any] | None = None, **counters: float) -> bool:
        """Whether step(n) will save: for what is worth doing only then, such as a validation, whose metrics step() is
        given. step(n) does what this has said. Counters that `every` needs are told here."""
        if self._at != n or self._due is None:
            self._moment(n, metrics, counters)
            self._due = self._decide() or (self.stopping is None and self._keeper.stopping is not None)
        return self._due

    @checked()
    def save(self, n: int, state: Any, *, label: str | None = None, metrics: Mapping[str, Any] | None = None,
             **counters: float) -> str:
        """Saves `state` now, in the background, and returns the id; wait() waits for the commit. A checkpoint with a
        `label` of its own stays for ever. A step that was just saved is not saved again. After a signal, or at the time
        limit, it returns once the checkpoint is committed, and `stopping` is set."""
        self._moment(n, metrics, counters)
        self._due = None
        self._keeper.at_step(self._at)
        if self._save_on_exception:
            self._last = state
        identifier = self._save(self._at, state, label)
        if self.stopping is None and self._keeper.stopping is not None:
            self._settle(wait=True)
            self.stopping = self._keeper.stopping
        return identifier

    def _moment(self, n: int, metrics: Mapping[str, Any] | None, counters: Mapping[str, float],
                more: bool = False) -> None:
        """Where the training is. `more`: should_save() was told some of that."""
        self._check_writes(f"step {n}")
        step = step_of(n)
        if step is None:
            raise error_of(Status.INVALID, "a Checkpointer counts steps: expected a number from 0 on, found None")
        told = {name: number(f"metrics: {name}", value) for name, value in (metrics or {}).items()}
        moment = Moment(step, {**(self._now.counters if more else {}), **counters},
                        {**(self._now.metrics if more else {}), **told})
        moment = Moment(step, moment.counters, {**moment.metrics, **self._bests.of(moment)})
        with wrong_values():
            for name, value in moment.counters.items():
                self._keeper.tell_counter(name, number(name, value))
            for name, value in moment.metrics.items():
                self._keeper.tell_metric(name, value)
        self._now, self._at = moment, moment.step

    def _check_open(self) -> None:
        if self._closed:
            raise error_of(Status.INVALID, "the Checkpointer is closed; make a new one")

    def _check_writes(self, what: str) -> None:
        self._check_open()
        if self._read_only:
            raise error_of(Status.INVALID, f"the Checkpointer is read-only (read_only=True): {what} is neither saved "
                           "nor removed, and nothing was touched")

    def _decide(self) -> bool:
        """Whether a save is due; the same on all ranks."""
        moment = self._now
        self._settle(wait=False)
        asked = any([ask(moment) for ask in self._predicates])
        with wrong_values():
            votes = self._keeper.step(moment.step, asked)
        self._warn()
        some_ask = self._predicates or self._signals.caught or self._keeper.needs_votes
        return self._keeper.decide(self._vote(moment.step, votes) if some_ask else None) != 0

    def _warn(self) -> None:
        if self._keeper.warning is not None:
            warn(LaterStepsWarning(self._keeper.warning))

    def _meet(self, call: str, **same: object) -> None:
        self._ranks.meet(f"Checkpointer.{call}", self._facts(**same), self._options.get("timeout_ms"))

    def _facts(self, **same: object) -> dict[str, object]:
        """What is the same on all ranks."""
        return {"path": shown(self._store.uri), "run": self._run, **same}

    def _vote(self, step: int, votes: list[int]) -> list[int]:
        """What any rank asks for, in the step that all are in."""
        self._ranks.enter("Checkpointer.step", self._options.get("timeout_ms"), **self._facts(step=step))
        if not self._ranks.ready:
            self._meet("step", step=step)
        votes = self._ranks.most(votes)
        if votes[2] != -votes[3]:
            steps = self._ranks.gather(step)
            other = next(rank for rank, one in enumerate(steps) if one != steps[0])
            raise error_of(Status.MISMATCH, f"Checkpointer.step: rank 0 is at step {steps[0]}, rank {other} at step "
                           f"{steps[other]}", {"ranks": f"0, {other}", "expected": str(steps[0]),
                                               "found": str(steps[other])})
        return votes

    def _save_for_the_last_time(self, step: int, state: Any, why: str) -> str:
        with suppress(Error):  # of the save before, which the log has; this one matters now
            self._settle(wait=True)
        identifier = self._save(step, state, None)
        self._settle(wait=True)
        self.stopping = why
        return identifier

    def _save(self, step: int, state: Any, label: str | None) -> str:
        begun = time.monotonic()
        self._settle(wait=True)
        self._meet("save", step=step, label=label)
        plan = self._ranks.first(lambda: self._plan(label))
        session = self._session = self._session or self._ranks.open(self._store, self._options)
        if saved := json.loads(plan).get("saved"):
            Save.by_plan(self._keeper, session, plan, self._options)  # none; the keeper learns whether this is the end
            return str(saved)
        self._flight = save_by(lambda: cast("Save", Save.by_plan(self._keeper, session, plan, self._options)), session,
                               state if isinstance(state, (FunctionType, MethodType)) else lambda: state,
                               self._in_place)
        self._flight_step, self._blocked = step, time.monotonic() - begun
        return self._flight.id

    def _plan(self, label: str | None) -> str:
        """Rank 0's part."""
        if label is not None:
            plan = self._keeper.plan(label)
        else:
            with wrong_values():
                plan = self._keeper.plan()
        self._warn()
        if label is None and self._keep is not None and self._keep(self._now):
            plan = self._keeper.plan(json.loads(plan)["label"])  # as if the caller had named it, so that it stays
        return plan

    # ---- the save in flight ----

    def _settle(self, wait: bool) -> None:
        """Notes that the save in flight has been committed, once it is; with `wait` waits for that, and raises its
        failure. Without, a failure is left for the next save, which all ranks make in the same step."""
        handle = self._flight
        if handle is None or not (wait or handle.done()):
            return
        try:
            handle.result()
        except Error as error:
            if wait:
                self._flight = None
                self._tell_event(lambda: events.saved(handle, self._flight_step, self._blocked, error))
                raise
            return
        self._flight = None
        self._tell(self._on_commit, "on_commit", lambda: self._store.find(handle.id, run=self._run))
        self._tell_event(lambda: events.saved(handle, self._flight_step, self._blocked))

    def _tell_event(self, event: Callable[[], Event]) -> None:
        self._tell(self._on_event, "on_event", event)

    def _tell(self, calls: Sequence[Callable[[Any], object]], name: str, what: Callable[[], object]) -> None:
        """Calls functions of the caller's. If one raises, that is logged and the training goes on: the other ranks,
        which do not know of the exception, would wait for this one."""
        for call in calls if self._on_commit_all or self._ranks.rank == 0 else ():
            try:
                call(what())
            except Exception:
                log("error", f"a function of {name} failed; the training goes on", exc_info=True)

    def wait(self) -> None:
        """Waits until the save in flight is committed, and raises its failure."""
        self._settle(wait=True)

    @contextmanager
    def updating(self) -> Iterator[None]:
        """For what changes the arrays: `with keeper.updating(): optimizer.step()`. With in_place=True it waits until
        the save in flight has written them; otherwise they were copied, and nothing waits."""
        if self._in_place and self._flight is not None:
            with suppress(Error):  # the next save raises it
                self._flight.staged()
        yield

    # ---- restoring ----

    @checked()
    def restore(
        self,
        state: Any = None,
        select: str | int = "latest",
        *,
        only: str | Iterable[str] = (),
        without: str | Iterable[str] = (),
        rename: Rename = None,
        strict: bool = True,
        on_shape_mismatch: str = "error",
        convert: bool = False,
        or_rank0: bool = False,
    ) -> Restored | None:
        """Restores a checkpoint into `state`, in place, the same one on all ranks; None if there is none yet.

        `select`: "latest", a step, "best" (by keep_best, or as the checkpoints' metrics tell; "best:val_loss:min" says
        it), a label or an id. "latest" is the newest that is sound: it passes over damaged ones with PassedOverWarning,
        also where only the load finds the damage, and their steps can be saved again. Any other that does not exist is
        a NotFoundError. A LaterStepsWarning names what the run has of later steps than the one restored, which saves of
        these steps replace.

        Only the parts (keys) that `state` has are read. `only`, `without`: patterns of paths in the state, such as
        "model" or "model/*.bias". `rename`: names in the checkpoint and in the state ({"model/encoder":
        "model/backbone"}, several for one that became several: {"model/norm": ["model/norm_1", "model/norm_2"]}), or a
        function. `strict`: as torch's, the same names in checkpoint and modules, and no part
        of the state missing; False restores what there is. `on_shape_mismatch`: "skip" leaves such tensors as they
        are. What was left out is in the result. `convert`: between f32, bf16 and f16. Without `state` the whole state
        is in the result. ckpt.PerRank values of another number of ranks are a MismatchError, unless `or_rank0` gives
        each rank its own or rank 0's."""
        if isinstance(state, (FunctionType, MethodType)):
            raise type_error("state: expected what restore() fills in place, such as a dict, found a function, which "
                             "only step(), save() and check() call: give what it returns")
        choice = Choice(patterns(only), patterns(without), rename, strict, skips_shapes(on_shape_mismatch), convert)
        return self._restore_with(lambda reader, common: load_into(
            reader, state, choice, Whose(self._ranks.rank, self._ranks.size, or_rank0), self._options, common), select)

    def _restore_with(self, load_into: restoring.LoadInto, select: str | int) -> Restored | None:
        self._check_open()
        self._settle(wait=True)
        self._meet("restore", select=select)
        self._ranks.be_patient()
        begun, self._due = time.monotonic(), None
        restored = restoring.restore(self._keeper, self._store, self._ranks, load_into, select, self._own_run())
        if restored is not None:
            self._at, took = restored.step, time.monotonic() - begun
            self._tell_event(lambda: Event("restored", restored.step, restored.info.id, {
                "seconds": took, "bytes": restored.info.bytes}))
        return restored

    def check(self, state: Any) -> Check:
        """What saving `state` would do: names, bytes, free space, and what would be refused. Writes nothing."""
        self._meet("check")
        return check(self._store, state() if isinstance(state, (FunctionType, MethodType)) else state, self._ranks)

    # ---- what there is ----

    def all_steps(self) -> list[int]:
        """The steps of the run's committed checkpoints, oldest first. A save in flight is not among them."""
        return self._of_store("all_steps", lambda: listing.steps(self._store, self._run))

    def latest_step(self) -> int | None:
        """The last of them; None if there is none."""
        return next(reversed(self.all_steps()), None)

    def best_step(self) -> int | None:
        """The step of "best" (see restore); None if no checkpoint has the metric."""
        best = {**self._options, "run": self._run, "keep_best": ",".join(self._bests.texts)}
        return self._of_store("best_step", lambda: listing.best_step(self._store, best))

    @checked()
    def metrics(self, select: str | int) -> dict[str, float]:
        """What was told as metrics with the checkpoint of that step (or label, or id)."""
        return self._of_store("metrics", lambda: listing.metrics(self._store, select, self._own_run()), select=select)

    @checked()
    def delete(self, select: str | int) -> str:
        """Removes the checkpoint of that step (the newest, if there are several), label or id; returns its id. One that
        `ckpt keep` keeps, or that somebody reads, is a ConflictError."""
        self._check_writes(f"checkpoint {select}")
        if not self._ranks.agree:
            raise error_of(Status.INVALID, "delete: ranks that cannot agree would all remove it; one of them calls "
                           "ckpt.Store.remove(id)")
        return self._of_store("delete", lambda: listing.delete(self._store, select, self._own_run()), select=select)

    def _own_run(self) -> dict[str, int | str]:
        return {**self._options, "run": self._run}

    def _of_store(self, call: str, ask: Callable[[], T], **same: object) -> T:
        """What rank 0 finds, or does, on all ranks. Ranks that cannot agree look each for itself."""
        self._check_open()
        self._meet(call, **same)
        return self._ranks.first(ask)

    # ---- the end ----

    def close(self) -> None:
        """Waits for the save in flight, raises its failure, and gives the signals back."""
        if self._closed:
            return
        self._closed = True
        self._signals.close()
        try:
            self._settle(wait=True)
        finally:
            if self._session is not None:
                self._session.close()

    def _save_what_is_left(self, error: Exception) -> None:
        """Of a training that ends by an exception: what it had then, as another run."""
        run = f"{self._run}.exception"
        try:
            with suppress(Error):  # an earlier state, which the log tells of
                self._settle(wait=True)
            state = self._last() if isinstance(self._last, (FunctionType, MethodType)) else self._last
            rank, size = (0, 1) if self._ranks.size == 1 else (None, None)
            patience = min(_PATIENCE_MS, int(self._options.get("timeout_ms", _PATIENCE_MS)))
            found = save(self._store, state, step=self._at, rank=rank, world_size=size, attrs={
                "trainer.exception": f"{error!r}"[:1000]}, options={
                    **self._options, "timeout_ms": patience, "run": run, "on_existing": "replace",
                    "continue_from": "none"})
        except Exception:
            log("error", f"what the training had when it failed could not be saved into run {run}", exc_info=True)
        else:
            log("warning", f"what the training had when it failed, after step {self._at}, is {found} of run {run}")

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if isinstance(value, Exception) and self._last is not None:
            self._save_what_is_left(value)
        if kind is not None and self._session is not None and not (
                isinstance(value, SystemExit) and value.code in (None, 0)):
            self._closed, self._flight = True, None
            self._signals.close()
            self._session.__exit__(kind, value, trace)  # cancels the save in flight, so that other ranks need not wait
            return
        self.close()

    def __repr__(self) -> str:
        keeps = [f"last {self._keep_last}"] if self._keep_last else ["all"]
        keeps += [f"every {self._keep_every}"] if self._keep_every else []
        keeps += [f"best by {best}" for best in self._bests.texts]
        at = "" if self._at < 0 else f", at step {self._at}"
        flight = "" if self._flight is None else f", saving {_label_of(self._flight.id)}"
        saved = self._keeper.saved
        newest = "" if saved is None else f", newest {_label_of(saved)}"
        end = ", closed" if self._closed else f", stopping ({self.stopping})" if self.stopping else ""
        return (f"<ckpt.Checkpointer {shown(self._store.uri)!r}, run {self._run!r}: rank {self._ranks.rank} of "
                f"{self._ranks.size}, keeps {', '.join(keeps)}{at}{newest}{flight}{end}>")
