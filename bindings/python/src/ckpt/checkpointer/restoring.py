"""Which checkpoint a trainer starts from: the same on all ranks, and past damaged ones aloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..enums import Status
from ..errors import DataError, GoneError, NotFoundError, error_of, warn_passed_over
from ..handles import Reader, Store
from ..hints import what_lies_at
from ..opening import ls
from ..ranks import Alone
from ..records import CheckpointInfo
from ..sources import best_or
from .history import Best, find_best, moment_of
from .policy import Moment
from .selection import Found


@dataclass(frozen=True)
class Restored:
    """What a trainer starts from."""

    step: int
    info: CheckpointInfo
    state: Any  # the caller's, or a new one
    metrics: Mapping[str, float]  # that step() was told
    counters: Mapping[str, float]
    missing: tuple[str, ...] = ()  # paths of the state that the checkpoint lacks
    unexpected: tuple[str, ...] = ()  # paths of the checkpoint that a module of the state has no place for
    other_shape: tuple[str, ...] = ()  # paths and shapes that differ

    def __repr__(self) -> str:
        kinds = {"missing": self.missing, "unexpected": self.unexpected, "of another shape": self.other_shape}
        left = "".join(f", {len(paths)} {what}" for what, paths in kinds.items() if paths)
        return f"<ckpt.Restored {self.info.id}: step {self.step}{left}>"


class _Common:
    """What is unexpected on all ranks: a module of one pipeline stage has no place for what others have."""

    def __init__(self, ranks: Alone) -> None:
        self._ranks, self._asked = ranks, False

    def of(self, unexpected: list[str]) -> list[str]:
        """Those of this rank that all ranks have. Every rank asks once for each checkpoint."""
        self._asked = True
        if not self._ranks.agree:
            return []  # nobody can be asked
        told = [set(paths) for paths in self._ranks.gather(unexpected) if paths is not None]
        return [path for path in unexpected if all(path in paths for paths in told)]

    def give_up(self) -> None:
        """This rank has failed."""
        if not self._asked and self._ranks.agree:
            self._ranks.gather(None)


_FINE, _DAMAGED, _FAILED = 0, 1, 2

LoadInto: TypeAlias = Callable[[Reader, Callable[[list[str]], list[str]]], tuple[Any, Found]]
"""Loads a checkpoint into the caller's state. It asks the second, once, which unexpected paths no rank expects."""


def restore(store: Store, run: str, ranks: Alone, load_into: LoadInto, select: str | int, best: Best | None,
            options: Mapping[str, Any]) -> tuple[Restored, Moment, set[str]] | None:
    """Restores what is selected. Returns the labels of damaged checkpoints that it passed over, too."""
    wanted = ranks.first(lambda: _candidate(store, run, select, best, options, ()))
    passed: list[tuple[str, str]] = []  # ids and texts
    labels: set[str] = set()
    while wanted is not None:
        error: Exception | None = None
        common = _Common(ranks)
        try:
            with Reader(store, wanted, {**options, "run": run}) as reader:
                moment = moment_of(reader.info.step, reader.attrs())
                out, found = load_into(reader, common.of)
                info = reader.info
        except Exception as caught:  # whatever it is, the other ranks must not wait for this one
            error = caught
            common.give_up()
        worst = ranks.most([_FINE if error is None else _DAMAGED if isinstance(error, (DataError, GoneError))
                            else _FAILED])[0]
        if worst == _FINE:
            if passed:
                warn_passed_over(info.id, [text for _, text in passed])
            return Restored(info.step, info, out, moment.metrics, moment.counters, tuple(found.missing),
                            tuple(found.unexpected), tuple(found.other_shape)), moment, labels
        error = error or error_of(Status.ABORTED, f"another rank could not restore {wanted}; see its error",
                                  {"path": wanted})
        if worst == _FAILED or select != "latest" or options.get("on_damaged") == "error":
            raise error
        passed.append((wanted, f"{wanted}: {error}"))
        labels.add(wanted.rsplit(".", 2)[0])
        ids = tuple(identifier for identifier, _ in passed)
        wanted = ranks.first(lambda: _candidate(store, run, select, best, options, ids))
        if wanted is None:
            raise error
    return None


def _candidate(store: Store, run: str, select: str | int, best: Best | None, options: Mapping[str, Any],
               without: tuple[str, ...]) -> str | None:
    """The id of the checkpoint to try; None if there is none for "latest"."""
    if select == "best" and best is not None:
        return find_best(store, run, select, best).id
    if select != "latest":
        selector = f"step:{select}" if isinstance(select, int) else best_or(store, select, options)
        return store.find(selector, options).id
    if not without:
        return _newest(store, run, options)
    infos = list(ls(store, run))
    last = next(place for place, info in enumerate(infos) if info.id == without[-1])
    return infos[last - 1].id if last else None


def _newest(store: Store, run: str, options: Mapping[str, Any]) -> str | None:
    """The newest whose manifest and parts are there; the engine warns of those that it passes over."""
    try:
        with Reader(store, "latest", options) as reader:
            return reader.info.id
    except NotFoundError:
        if any(info.run == run for info in _all(store)):
            raise  # there are some, and none can be loaded
        return None


def _all(store: Store) -> list[CheckpointInfo]:
    try:
        return [] if what_lies_at(store) else list(ls(store))
    except NotFoundError:
        return []
