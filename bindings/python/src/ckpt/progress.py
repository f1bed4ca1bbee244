"""Waits for a job with a progress bar; whatever ends the wait early also cancels the job."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from ._core import Job
from .enums import JobState
from .errors import TimeoutError

Progress: TypeAlias = bool | Callable[[int, int], object] | None
_LOOK_MS = 100


def finish(job: Job, what: str, progress: Progress) -> None:
    """Waits for the end of the job and closes it; an exception, such as Ctrl-C, cancels it first."""
    with job:
        follow(job, what, progress)


def follow(job: Job, what: str, progress: Progress) -> None:
    """Waits for the end of the job, and tells how far it is."""
    with _reporter(what, progress) as report:
        if report is None:
            job.wait()
            return
        while not ended(job):
            stats = job.stats
            report(stats.bytes_done, stats.bytes_total)
        stats = job.stats
        report(stats.bytes_total, stats.bytes_total)


def ended(job: Job) -> bool:
    """Waits a little, and says whether the job has ended. Raises its error."""
    try:
        job.wait(timeout_ms=_LOOK_MS)
    except TimeoutError:
        if job.state >= JobState.FAILED:  # at its own deadline, or just now
            job.wait()
        return False
    return True


@contextmanager
def _reporter(what: str, progress: Progress) -> Iterator[Callable[[int, int], object] | None]:
    if callable(progress):
        yield progress
    elif not progress:
        yield None
    else:
        try:
            from tqdm import tqdm
        except ImportError:
            yield from _plain(what)
            return
        with tqdm(desc=what, unit="B", unit_scale=True) as bar:

            def show(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            yield show


def _plain(what: str) -> Iterator[Callable[[int, int], object]]:
    def show(done: int, total: int) -> None:
        print(f"\r{what}: {done / 1e6:.0f} of {total / 1e6:.0f} MB", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        print(file=sys.stderr)
