"""Why a trainer must stop soon: a signal came, or the time of its job is nearly over."""

from __future__ import annotations

import datetime
import os
import signal
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any

from ..errors import value_error


def default_signals() -> tuple[str, ...]:
    """SIGTERM and SIGINT; in a job of SLURM SIGUSR1 too, which `sbatch --signal=USR1@120` sends before the end."""
    return ("SIGTERM", "SIGINT", "SIGUSR1") if "SLURM_JOB_ID" in os.environ else ("SIGTERM", "SIGINT")


class Signals:
    """Notes signals, and passes them on to the handlers that were there before.

    Python's own handler of SIGINT, which raises KeyboardInterrupt, gets the second one only.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.received: str | None = None
        self._before: dict[int, Any] = {}
        self.caught = bool(names)
        if names and threading.current_thread() is not threading.main_thread():
            raise value_error("signals are caught in the main thread only: make the Checkpointer there, or give "
                              "signals=()")
        for name in names:
            number = getattr(signal, name, None)
            if not isinstance(number, signal.Signals):
                raise value_error(f"signals: expected names such as 'SIGTERM', found {name!r}")
            self._before[number] = signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        before, second = self._before.get(number), self.received == signal.Signals(number).name
        self.received = signal.Signals(number).name
        if callable(before) and (second or before is not signal.default_int_handler):
            before(number, frame)

    def close(self) -> None:
        """Gives the signals back to their handlers. Those that somebody else has taken since stay there."""
        for number, before in self._before.items():
            if signal.getsignal(number) == self._note:
                signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before = {}


class Deadline:
    """When the job ends: after so many seconds or a timedelta from now, at a datetime, or when SLURM says ("slurm")."""

    def __init__(self, limit: float | datetime.timedelta | datetime.datetime | str | None,
                 margin: float | datetime.timedelta) -> None:
        before = margin.total_seconds() if isinstance(margin, datetime.timedelta) else float(margin)
        self._end = None if limit is None else time.monotonic() + self._seconds(limit) - before

    @staticmethod
    def _seconds(limit: float | datetime.timedelta | datetime.datetime | str) -> float:
        if isinstance(limit, datetime.timedelta):
            return limit.total_seconds()
        if isinstance(limit, datetime.datetime):
            return limit.timestamp() - time.time()
        if limit == "slurm":
            if "SLURM_JOB_END_TIME" not in os.environ:
                raise value_error("time_limit='slurm': SLURM_JOB_END_TIME is not set; give seconds or a timedelta")
            return float(os.environ["SLURM_JOB_END_TIME"]) - time.time()
        if isinstance(limit, str):
            raise value_error(f"time_limit: expected seconds, a timedelta, a datetime or 'slurm', found {limit!r}")
        return float(limit)

    def __bool__(self) -> bool:
        return self._end is not None

    def reached(self) -> bool:
        """Whether it is time to save for the last time."""
        return self._end is not None and time.monotonic() >= self._end
