"""When a trainer saves, and what it calls the checkpoint."""

from __future__ import annotations

import datetime
import re
import string
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..errors import type_error, value_error


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

_COUNTERS = {"step": "step", "batch": "batch", "batche": "batch", "ba": "batch", "epoch": "epoch", "ep": "epoch",
             "sample": "sample", "sp": "sample", "token": "token", "tok": "token"}
_SECONDS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}


def _positive(number: float, given: object) -> float:
    if number <= 0:
        raise value_error(f"every: expected more than 0, found {given!r}")
    return number


class Schedule:
    """Says when a save is due: every so many steps, epochs, … or seconds, or when a predicate says so."""

    def __init__(self, every: Every | Iterable[Every] | None) -> None:
        self._counted: list[tuple[str, float]] = []
        self._seconds: list[float] = []
        self._predicates: list[Predicate] = []
        several = isinstance(every, Iterable) and not isinstance(every, str) and not callable(every)
        for one in [] if every is None else every if several else [every]:  # type: ignore[union-attr]
            self._add(one)

    def _add(self, one: Any) -> None:
        if isinstance(one, int) and not isinstance(one, bool):
            self._counted.append(("step", _positive(one, one)))
        elif isinstance(one, datetime.timedelta):
            self._seconds.append(_positive(one.total_seconds(), one))
        elif isinstance(one, str):
            self._add_text(one)
        elif callable(one):
            self._predicates.append(one)
        else:
            raise type_error(f"every: expected a number of steps, a timedelta, a text such as '1 epoch' or '10 min', "
                             f"or a function of a Moment; found {one!r}")

    def _add_text(self, text: str) -> None:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", text)
        unit = "" if found is None else found[2]
        unit = unit if unit in _SECONDS else unit.removesuffix("s")
        if found is None or (unit not in _SECONDS and unit not in _COUNTERS):
            raise value_error(f"every: expected a number and a unit (steps, epochs, batches, samples, tokens, s, min, "
                              f"h, days), found {text!r}")
        number = _positive(float(found[1]), text)
        if unit in _SECONDS:
            self._seconds.append(number * _SECONDS[unit])
        else:
            self._counted.append((_COUNTERS[unit], number))

    @property
    def needs_agreement(self) -> bool:
        """Whether ranks could differ: by their clocks, or by a predicate."""
        return bool(self._seconds or self._predicates)

    def counted(self, now: Moment, last: Moment | None) -> bool:
        """Whether a save is due by the counters, which are the same on all ranks. `last`: the moment before."""
        due = False
        for name, number in self._counted:
            count = now.count(name)
            if count is None:
                raise value_error(f"every {number:g} {name}s: step() was not told {name}=")
            before = last.count(name) if last is not None else None
            if before is None:
                before = now.step - 1 if name == "step" else 0
            due = due or count // number > before // number
        return due

    def timed(self, now: Moment, seconds: float) -> bool:
        """Whether a save is due by the clock or a predicate. `seconds`: since the save before."""
        return any([seconds >= limit for limit in self._seconds] + [ask(now) for ask in self._predicates])


_OF_RANK_0 = {"rank": 0, "local_rank": 0, "node_rank": 0}  # a checkpoint is one for all ranks
_NEEDS_COUNTER = ("epoch", "batch_in_epoch", "sample", "sample_in_epoch", "token", "token_in_epoch", "total_wct",
                  "epoch_wct", "batch_wct")


class LabelTemplate:
    """Names checkpoints: "ep{epoch}-ba{batch}"."""

    def __init__(self, template: str, fixed: Mapping[str, object]) -> None:
        self.text, self._fixed = template, {**_OF_RANK_0, **fixed}
        self.fields = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
        for name in self.fields:
            if name not in self._fixed and name not in ("step", "batch", *_NEEDS_COUNTER):
                known = ", ".join([*self._fixed, "step", "batch", *_NEEDS_COUNTER])
                raise value_error(f"label: no variable is called {{{name}}}; there are {known}")

    @property
    def numbered(self) -> bool:
        """Whether each step has a label of its own."""
        return "step" in self.fields or "batch" in self.fields

    def label(self, now: Moment) -> str:
        """The label of a checkpoint of this moment."""
        values: dict[str, object] = dict(self._fixed)
        for name in self.fields:
            if name not in values:
                count = now.count(name)
                if count is None:
                    raise value_error(f"label {self.text!r}: step() was not told {name}=")
                values[name] = int(count) if float(count).is_integer() else count
        return self.text.format(**values)
