"""What callers give a Checkpointer as values, as the texts that the keeper's options have."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from ..arguments import number
from ..errors import InvalidError, type_error, value_error


@dataclass(frozen=True)
class Moment:
    """Where a training is: what step() was told."""

    step: int
    counters: Mapping[str, float] = field(default_factory=dict)  # epoch, batch, sample, token, …
    metrics: Mapping[str, float] = field(default_factory=dict)

    def count(self, name: str) -> float | None:
        """A counter; None if step() was not told it."""
        return self.step if name == "step" else self.counters.get(name, self.step if name == "batch" else None)


Predicate: TypeAlias = Callable[[Moment], bool]
Every: TypeAlias = "int | str | datetime.timedelta | Predicate"
Score: TypeAlias = Callable[[Moment], "float | None"]
Best: TypeAlias = "str | tuple[str | Score, str] | tuple[str | Score, str, int]"


def schedule_of(every: Every | Iterable[Every] | None) -> tuple[str, list[Predicate]]:
    """Option `every`, and the functions that are asked beside it."""
    texts: list[str] = []
    predicates: list[Predicate] = []
    several = isinstance(every, Iterable) and not isinstance(every, str) and not callable(every)
    one: Any
    for one in [] if every is None else every if several else [every]:  # type: ignore[union-attr]
        if isinstance(one, int) and not isinstance(one, bool):
            texts.append(f"{one} steps")
        elif isinstance(one, datetime.timedelta):
            texts.append(f"{one.total_seconds():f} s")
        elif isinstance(one, str):
            texts.append(one.strip() or '""')  # the option itself takes "" for never
        elif callable(one):
            predicates.append(one)
        else:
            raise type_error(f"every: expected a number of steps, a timedelta, a text such as '1 epoch' or '10 min', "
                             f"or a function of a Moment; found {one!r}")
    return ", ".join(texts), predicates


def kept_every(every: int | str | datetime.timedelta | Iterable[int | str | datetime.timedelta] | None) -> (
        tuple[int, str]):
    """Options keep_every and keep_interval."""
    steps, interval = 0, ""
    one: Any
    for one in [] if every is None else list(every) if isinstance(every, (list, tuple)) else [every]:
        if isinstance(one, datetime.timedelta):
            interval = f"{one.total_seconds():f} s"
        elif isinstance(one, str):
            interval = one
        else:
            steps = int(one)
    return steps, interval


class Bests:
    """Option `keep_best`, and the functions in it: what such a one makes of a Moment is a metric of its name."""

    def __init__(self, given: Best | Iterable[Best] | None) -> None:
        several = isinstance(given, (list, tuple)) and all(
            isinstance(one, (list, tuple)) or isinstance(one, str) and ":" in one for one in given)
        self._scores: dict[str, Score] = {}
        bests: list[Any] = [] if not given else list(cast("Iterable[Best]", given)) if several else [given]
        self.texts = [one if isinstance(one, str) else ":".join(map(self._text, one)) for one in bests]

    def _text(self, part: str | int | Score) -> str:
        if not callable(part):
            return str(part)
        name = getattr(part, "__name__", "score")
        name = name if name.isidentifier() else "score"  # of a lambda
        if self._scores.setdefault(name, part) is not part:
            raise value_error(f"keep_best: two functions are called {name!r}, which is the name of their metric")
        return name

    def of(self, moment: Moment) -> dict[str, float]:
        """The metrics that the functions make; none of a step without metrics."""
        made = {name: score(moment) for name, score in self._scores.items()} if moment.metrics else {}
        return {name: number(f"keep_best: {name}()", value) for name, value in made.items() if value is not None}


def time_limit_of(limit: float | datetime.timedelta | datetime.datetime | str | None) -> str:
    """Option `time_limit`. One that is over is over at once."""
    if limit is None or isinstance(limit, str):
        return limit or ""
    if isinstance(limit, datetime.datetime):
        limit = limit.timestamp() - time.time()
    return f"{min(max(seconds_of(limit), 0.001), 1e9):.3f}"


def seconds_of(span: float | datetime.timedelta) -> float:
    """Seconds."""
    return span.total_seconds() if isinstance(span, datetime.timedelta) else float(span)


@contextmanager
def wrong_values() -> Iterator[None]:
    """What the keeper refuses of the caller's values is Python's own error for them."""
    try:
        yield
    except InvalidError as error:
        raise value_error(error.message) from None
