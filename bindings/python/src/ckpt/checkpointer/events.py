"""What a Checkpointer tells of its work: a record that fits a log, TensorBoard and wandb."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .. import show
from ..background import SaveHandle
from ..errors import Error


@dataclass(frozen=True)
class Event:
    """A save that was committed or has failed, or a restore."""

    what: str  # "committed", "failed", "restored"
    step: int
    id: str
    numbers: Mapping[str, float] = field(default_factory=dict)  # seconds and bytes, by name
    error: Error | None = None

    def __str__(self) -> str:
        told = [f"{name} {show.size(int(value)) if name.startswith('bytes') else format(value, '.3f')}"
                for name, value in self.numbers.items()]
        return ", ".join([f"{self.what} {self.id}", *told, *([str(self.error)] if self.error else [])])


def saved(handle: SaveHandle, step: int, blocked: float, error: Error | None = None) -> Event:
    """Of a save that has ended. `blocked`: how long the trainer stood still for it."""
    stats = handle.stats
    return Event("failed" if error else "committed", step, handle.id, {
        "seconds_blocked": blocked, "seconds_staging": stats.stage_us / 1e6, "seconds": stats.total_us / 1e6,
        "bytes": stats.bytes_total, "bytes_written": stats.bytes_written, "bytes_reused": stats.bytes_reused}, error)
