"""What is known of the checkpoints of a run beside their contents: metrics, counters, and which are kept for ever.

It lies in attributes of the checkpoints, so that a trainer that starts again knows it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from .. import _core
from ..errors import DataError, NotFoundError
from ..handles import Store
from ..opening import ls
from ..records import int_of_digits
from .policy import Moment

METRICS, COUNTERS, KEPT = "trainer.metrics", "trainer.counters", "trainer.kept"


@dataclass(frozen=True)
class Best:
    """Which checkpoints are the best: `count` of those with the smallest ("min") or largest ("max") metric."""

    metric: str
    mode: str
    count: int

    def order(self, metrics: Mapping[str, float]) -> float | None:
        """A number that is smaller for a better checkpoint; None if it has no such metric."""
        value = metrics.get(self.metric, math.nan)
        return None if math.isnan(value) else value if self.mode == "min" else -value


def best_of(given: tuple[str, str, int] | tuple[str, str] | None) -> Best | None:
    """Checks what the caller gave as keep_best."""
    if given is None:
        return None
    found = Best(*given) if len(given) == 3 else Best(*given, 1)
    if found.mode not in ("min", "max") or found.count < 1 or not isinstance(found.metric, str):
        raise ValueError(f"keep_best: expected (metric, 'min' or 'max', how many), found {given!r}")
    return found


@dataclass(frozen=True)
class Entry:
    """A committed checkpoint."""

    id: str
    label: str
    step: int
    metrics: Mapping[str, float]
    kept: bool

    @property
    def numbered(self) -> bool:
        """Whether retention counts it: its label tells its step."""
        return self.step in [int_of_digits(digits) for digits in re.findall(r"\d+", self.label)]


def attributes(now: Moment, kept: bool) -> dict[str, str]:
    """The attributes of a checkpoint of this moment."""
    out = {METRICS: json.dumps(dict(now.metrics)) if now.metrics else "",
           COUNTERS: json.dumps(dict(now.counters)) if now.counters else "", KEPT: "1" if kept else ""}
    return {key: value for key, value in out.items() if value}


def moment_of(step: int, attrs: Mapping[str, str]) -> Moment:
    """The moment of a checkpoint with these attributes."""
    return Moment(step, json.loads(attrs.get(COUNTERS, "{}")), json.loads(attrs.get(METRICS, "{}")))


class History:
    """The committed checkpoints of a run, oldest first, as one listing showed them and as they were added since."""

    def __init__(self, store: Store, run: str) -> None:
        self.entries: list[Entry] = []
        try:
            infos = ls(store, run)
        except NotFoundError:
            return  # the first save makes the store
        for info in infos:
            try:
                with _core.Reader(store, info.id, {"run": run}) as reader:
                    attrs = reader.attrs()
            except (DataError, NotFoundError):
                continue  # damaged or just removed: neither the best, nor protected
            self.entries.append(Entry(info.id, info.label, info.step, moment_of(info.step, attrs).metrics,
                                      KEPT in attrs))

    def best(self, policy: Best, count: int, more: tuple[Entry, ...] = ()) -> list[Entry]:
        """The best of them, best first; of equal ones the newest."""
        ranked = [(order, entry) for entry in reversed([*self.entries, *more])
                  if (order := policy.order(entry.metrics)) is not None]
        return [entry for _, entry in sorted(ranked, key=lambda pair: pair[0])[:count]]

    def keep_last(self, count: int, new: Entry) -> int:
        """How many of the newest retention must keep, so that `count` of them have no label of their own."""
        found = own = 0
        for entry in reversed([*self.entries, new]):
            if entry.numbered and own < count:
                found += 1
                own += not entry.kept
        return max(found, count)

    def protected(self, policy: Best | None, new: Entry) -> str:
        """The labels that retention must leave, as option `protect` has them."""
        labels = [entry.label for entry in [*self.entries, new] if entry.kept]
        if policy is not None:
            labels += [entry.label for entry in self.best(policy, policy.count, (new,))]
        return ",".join(dict.fromkeys(labels))
