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
from ..enums import Status
from ..errors import DataError, NotFoundError, error_of, value_error
from ..handles import Store
from ..hints import shown, some
from ..opening import ls
from ..records import int_of_digits
from .policy import Moment

METRICS, COUNTERS, KEPT = "trainer.metrics", "trainer.counters", "trainer.kept"
BEST = "trainer.best"  # by which metric a checkpoint is the best: "min val_loss"

# Which way a metric is better, by a word in its name.
_WAYS = {**dict.fromkeys(("loss", "error", "err", "perplexity", "ppl", "nll", "mse", "mae", "rmse", "wer", "cer",
                          "fid"), "min"),
         **dict.fromkeys(("acc", "accuracy", "f1", "auc", "bleu", "rouge", "score", "reward", "recall", "precision",
                          "iou", "map", "ndcg"), "max")}


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
        raise value_error(f"keep_best: expected (metric, 'min' or 'max', how many), found {given!r}")
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


def attributes(now: Moment, kept: bool, best: Best | None) -> dict[str, str]:
    """The attributes of a checkpoint of this moment."""
    out = {BEST: "" if best is None else f"{best.mode} {best.metric}",
           METRICS: json.dumps(dict(now.metrics)) if now.metrics else "",
           COUNTERS: json.dumps(dict(now.counters)) if now.counters else "", KEPT: "1" if kept else ""}
    return {key: value for key, value in out.items() if value}


def moment_of(step: int, attrs: Mapping[str, str]) -> Moment:
    """The moment of a checkpoint with these attributes."""
    return Moment(step, json.loads(attrs.get(COUNTERS, "{}")), json.loads(attrs.get(METRICS, "{}")))


class History:
    """The committed checkpoints of a run, oldest first, as one listing showed them and as they were added since."""

    def __init__(self, store: Store, run: str) -> None:
        self.entries: list[Entry] = []
        self._told = ""  # by the newest, which are the best
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
            self._told = attrs.get(BEST, self._told)

    def add(self, new: Entry) -> None:
        """A checkpoint that is committed now, and has replaced one with its label."""
        self.entries = [*(entry for entry in self.entries if entry.label != new.label), new]

    def forget_after(self, step: int) -> None:
        """Those of later steps are no more of this training, which goes on from that step."""
        self.entries = [entry for entry in self.entries if entry.step <= step]

    def policy(self, selector: str) -> Best | None:
        """What "best", "best:METRIC" or "best:METRIC:min" means here; None if that is not told."""
        metric, mode = selector.partition(":")[2], None
        if metric.endswith((":min", ":max")):
            metric, _, mode = metric.rpartition(":")
        if not metric and self._told:
            mode, _, metric = self._told.partition(" ")
        names = {name for entry in self.entries for name in entry.metrics}
        if not metric and len(names) == 1:
            metric = names.pop()
        mode = mode or next((_WAYS[word] for word in re.split("[^a-z0-9]+", metric.lower()) if word in _WAYS), None)
        return None if not metric or mode is None else Best(metric, mode, 1)

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


def find_best(store: Store, run: str, selector: str, policy: Best | None = None) -> Entry:
    """The best checkpoint of a run; NOT_FOUND, with what is missing."""
    history = History(store, run)
    names = sorted({name for entry in history.entries for name in entry.metrics})
    policy = policy or history.policy(selector)
    if policy is None and names:
        raise error_of(Status.INVALID, f"{shown(store.uri)}: {selector!r} does not say by which metric, or which way; "
                       f"the checkpoints of run \"{run}\" have {some(names)}: \"best:{names[-1]}:min\" or "
                       f"\"best:{names[-1]}:max\" says so")
    found = [] if policy is None else history.best(policy, 1)
    if not found:
        what = "metrics" if policy is None else f"the metric '{policy.metric}'"
        raise error_of(Status.NOT_FOUND, f"{shown(store.uri)}: no checkpoint of run \"{run}\" has {what}, which "
                       f"{selector!r} needs{f'; they have {some(names)}' if names else ''}")
    return found[0]
