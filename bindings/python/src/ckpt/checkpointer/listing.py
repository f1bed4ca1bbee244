"""What the store has of a Checkpointer's run. One rank asks, and tells the others."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ..enums import CheckpointFlags, CheckpointState
from ..errors import NotFoundError
from ..handles import Reader, Store
from ..sources import best_or

_NOT_OURS = CheckpointFlags.FOREIGN | CheckpointFlags.COPY
Options = Mapping[str, int | str]


def steps(store: Store, run: str) -> list[int]:
    """Of the committed checkpoints, oldest first; none if there is no store yet."""
    try:
        listed = store.list()
    except NotFoundError:
        return []
    return [info.step for info in listed if info.run == run and info.state == CheckpointState.COMMITTED
            and not info.flags & _NOT_OURS and info.step >= 0]


def selector_of(select: str | int) -> str:
    """A selector of the library."""
    return f"step:{select}" if isinstance(select, int) else select


def best_step(store: Store, options: Options) -> int | None:
    """The step of the best one; None if no checkpoint has the metric."""
    try:
        return store.find(best_or(store, "best", options), options).step
    except NotFoundError:
        return None


def metrics(store: Store, select: str | int, options: Options) -> dict[str, float]:
    """The metrics that were told with a checkpoint."""
    with Reader(store, best_or(store, selector_of(select), options), options) as reader:
        told = json.loads(reader.attr("trainer.metrics") or "{}")
    return {name: float(value) for name, value in told.items()}


def delete(store: Store, select: str | int, options: Options) -> str:
    """Removes one, and returns its id."""
    found = store.find(selector_of(select), options)
    store.remove(found.id)
    return found.id
