"""Which checkpoint a trainer starts from: the same on all ranks, and past damaged ones aloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

from .._core import Keeper
from ..enums import Status
from ..errors import DataError, GoneError, LaterStepsWarning, NotFoundError, error_of, warn, warn_passed_over
from ..handles import Reader, Store
from ..hints import not_found
from ..team import Alone
from ..records import CheckpointInfo
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


def restore(keeper: Keeper, store: Store, ranks: Alone, load_into: LoadInto, select: str | int,
            options: Mapping[str, Any]) -> Restored | None:
    """Restores what is selected."""
    selector = f"step:{select}" if isinstance(select, int) else select
    wanted = ranks.first(lambda: _find(keeper, store, selector, options))
    passed: list[str] = []
    while wanted is not None:
        error: Exception | None = None
        common = _Common(ranks)
        with ExitStack() as opened:
            try:
                reader = opened.enter_context(Reader(store, wanted, options))
                out, found = load_into(reader, common.of)
            except Exception as caught:  # whatever it is, the other ranks must not wait for this one
                error = caught
                common.give_up()
            worst = ranks.most([_FINE if error is None else _DAMAGED if isinstance(error, (DataError, GoneError))
                                else _FAILED])[0]
            if worst == _FINE:
                if passed:
                    warn_passed_over(wanted, passed)
                _go_on_from(keeper, ranks, reader)
                counters = {name: int(value) if value.is_integer() else value
                            for name, value in keeper.counters.items()}
                return Restored(reader.info.step, reader.info, out, keeper.metrics, counters, tuple(found.missing),
                                tuple(found.unexpected), tuple(found.other_shape))
        error = error or error_of(Status.ABORTED, f"another rank could not restore {wanted}; see its error",
                                  {"path": wanted})
        passed.append(f"{wanted}: {error}")
        wanted = ranks.first(lambda: _before(keeper, selector, passed[-1])) if worst == _DAMAGED else None
        if wanted is None:
            raise error
    return None


def _find(keeper: Keeper, store: Store, selector: str, options: Mapping[str, Any]) -> str | None:
    """The id of the checkpoint to try; None if there is none for "latest"."""
    try:
        found = keeper.find(selector)
    except NotFoundError as error:
        raise not_found(error, store, selector, options) from None
    if found is not None and keeper.warning is not None:
        warn_passed_over(found, [keeper.warning.removeprefix("passed over ")])
    return found


def _before(keeper: Keeper, selector: str, problem: str) -> str | None:
    """The id of the one to try after a damaged one; None if there is none, or the caller wants just that one."""
    try:
        keeper.pass_over(Status.CORRUPT, problem)
        return keeper.find(selector)
    except DataError:
        return None


def _go_on_from(keeper: Keeper, ranks: Alone, reader: Reader) -> None:
    """What the run has of later steps is no more of this training: its saves replace that."""
    ranks.first(lambda: keeper.restored(reader))  # it lists the store, which may fail
    if ranks.rank != 0 and ranks.agree:
        keeper.restored(reader)
    if keeper.warning is not None:
        warn(LaterStepsWarning(keeper.warning))
