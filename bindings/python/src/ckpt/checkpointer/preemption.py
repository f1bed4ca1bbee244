"""Signals that ask a trainer to stop. The handlers are Python's, since the keeper's would not call those of Python."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from ..errors import value_error


def default_signals() -> tuple[str, ...]:
    """SIGTERM and SIGINT; in a job of SLURM SIGUSR1 too, which `sbatch --signal=USR1@120` sends before the end."""
    return ("SIGTERM", "SIGINT", "SIGUSR1") if "SLURM_JOB_ID" in os.environ else ("SIGTERM", "SIGINT")


class Signals:
    """Tells `stop` of signals, and passes them on to the handlers that were there before.

    Python's own handler of SIGINT, which raises KeyboardInterrupt, gets the second one only.
    """

    def __init__(self, names: Sequence[str], stop: Callable[[int], None]) -> None:
        self._stop, self._received = stop, 0
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
        before, second = self._before.get(number), self._received == number
        self._received = number
        self._stop(number)
        if callable(before) and (second or before is not signal.default_int_handler):
            before(number, frame)

    def close(self) -> None:
        """Gives the signals back to their handlers. Those that somebody else has taken since stay there."""
        for number, before in self._before.items():
            if signal.getsignal(number) == self._note:
                signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before = {}
