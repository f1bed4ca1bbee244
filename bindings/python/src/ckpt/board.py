"""What the ranks of a job tell each other through the key-value store that their framework has, before a call in which
all must take part: who is missing, and whether they mean the same.

They meet in rounds. In each, every rank posts what it calls, and with what; rank 0 reads all posts and answers. A rank
that gives up waiting says so in its place, so that whoever comes later learns it at once, and nobody takes one call for
another.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from .enums import Status
from .errors import Error, error_of, line

TELL_AFTER = 10.0  # seconds

_CAME = "came"

Facts = dict[str, object]


class KeyValues(Protocol):
    """The store of a job."""

    def put(self, key: str, value: bytes) -> None:
        """Sets a key, also one that is there."""

    def get(self, key: str) -> bytes | None:
        """What is there now; None: nothing."""

    def drop(self, key: str) -> None:
        """Removes a key."""


def dumps(value: Any) -> bytes:
    """What one rank tells another, as torch's all_gather_object() does."""
    import pickle  # not before it is needed
    return pickle.dumps(value)


def loads(value: bytes) -> Any:
    """The same again."""
    import pickle
    return pickle.loads(value)


def tell(text: str) -> None:
    """Says on stderr why this process stands still."""
    with suppress(Exception):
        print(f"ckpt: {line(text)}", file=sys.stderr, flush=True)


def ranks_text(ranks: list[int]) -> str:
    """Ranks by number, for a message."""
    shown = ", ".join(map(str, ranks[:8]))
    return f"rank{'s' * (len(ranks) > 1)} {shown}{f' and {len(ranks) - 8} more' if len(ranks) > 8 else ''}"


class Board:
    """The rounds of one job, as one of its ranks sees them."""

    def __init__(self, store: KeyValues, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size
        self._pause = 0.1 + size / 4000  # seconds at most between two looks
        self._round = 0
        self._oldest = 0  # whose posts are still there
        self.exchanges = 0, 0  # that this rank has ended elsewhere: in which group, and how many

    def round(self, call: str, same: Mapping[str, object], mine: Any, timeout: float) -> list[Any]:
        """What each rank gives as `mine`, once all have made this call with the same values of `same`. MISMATCH on all
        if they differ, ABORTED if a rank has given the call up, TIMEOUT, on all that come, if one does not come."""
        about: tuple[str, Facts] = call, {key: repr(value) for key, value in same.items()}
        until = time.monotonic() + timeout
        while True:
            self._put(_CAME, self.exchanges)
            lead = self._lead if self._rank == 0 else self._follow
            try:
                kind, *told = lead(about, mine, until, timeout)
            finally:
                self._round += 1
            if kind == "ok":
                self._clean()
                return told[0]  # type: ignore[no-any-return]
            if kind == "bad":
                if self._rank == 0:  # its process holds the store, and may end now: the others read the answer first
                    time.sleep(3 * self._pause)
                raise error_of(*told)

    # ---- one round ----

    def _lead(self, about: tuple[str, Facts], mine: Any, until: float, timeout: float) -> tuple[Any, ...]:
        posts = [mine]
        answer: tuple[Any, ...] = ("gave up", Status.ABORTED, f"{about[0]}: rank 0 was interrupted", {}, about)
        try:
            self._put(0, (about, mine, None))
            for rank in range(1, self._size):
                theirs, value, gave_up = self._wait_for(str(rank), about, until, timeout)
                answer = self._compared(about, rank, theirs, gave_up)
                if answer[0] != "ok":
                    return answer  # at once, whoever is still to come
                posts.append(value)
            answer = "ok", posts
        except Error as error:
            answer = "gave up", error.status, error.message, error.details, about
            raise
        finally:
            with suppress(Error):
                self._put("all", answer)
        return answer

    def _compared(self, mine: tuple[str, Facts], rank: int, theirs: tuple[str, Facts], gave_up: str | None) -> (
            tuple[Any, ...]):
        """The answer to a post: "again" after one of a call that is over for all."""
        if gave_up is not None:
            return ("again",) if theirs != mine else (
                "bad", Status.ABORTED, f"{mine[0]}: rank {rank} gave up before this rank came: {gave_up}",
                {"rank": str(rank)})
        if theirs == mine:
            return ("ok",)
        if theirs[0] != mine[0]:
            what, here, there = "", _called(*mine), _called(*theirs)
        else:
            key = next(key for key in mine[1] if mine[1][key] != theirs[1].get(key))
            what, here, there = f"{mine[0]}: {key}: ", str(mine[1][key]), str(theirs[1].get(key))
        return ("bad", Status.MISMATCH, f"{what}rank 0 has {here}, rank {rank} has {there}; all ranks of a job make "
                "the same calls, with the same", {"rank": str(rank), "ranks": f"0, {rank}",
                                                              "expected": str(here), "found": str(there)})

    def _follow(self, about: tuple[str, Facts], mine: Any, until: float, timeout: float) -> tuple[Any, ...]:
        why = "it was interrupted"
        answer = None
        try:
            self._put(self._rank, (about, mine, None))
            # Rank 0 names who is missing, so it gives up first.
            answer = self._wait_for("all", about, until + 2, timeout)
        except Error as error:
            why = error.message
            raise
        finally:
            if answer is None:
                with suppress(Error):
                    self._put(self._rank, (about, None, why))
        if answer[0] == "gave up":
            # Another call, perhaps hours ago; of this one the others learn why.
            return ("again",) if answer[4] != about else ("bad", *answer[1:4])
        return tuple(answer[:4])

    def _wait_for(self, name: str, about: tuple[str, Facts], until: float, timeout: float) -> Any:
        begun, pause, told = time.monotonic(), 0.0005, False
        while (raw := self._get(name)) is None:
            now = time.monotonic()
            if now >= until:
                text = self._missing(f"{about[0]} has waited {timeout:g} s")
                raise error_of(Status.TIMEOUT, text + whats_next(about[0]),
                               {"ranks": ", ".join(map(str, self._absent()))})
            if not told and now >= begun + TELL_AFTER:
                told = True
                if name != "all" or self._get("0") is None:  # else rank 0 tells
                    tell(self._missing(f"{about[0]} has waited {TELL_AFTER:g} s") + whats_next(about[0]))
            time.sleep(min(pause, until - now, self._pause))
            pause *= 2
        return loads(raw)

    def _absent(self) -> list[int]:
        return [rank for rank in range(self._size) if rank != self._rank and self._get(str(rank)) is None]

    def _missing(self, what: str) -> str:
        return f"{what} on rank {self._rank} for {ranks_text(self._absent()) or 'rank 0'}"

    # ---- the store ----

    def _put(self, name: object, value: Any) -> None:
        self._asked(lambda: self._store.put(f"{self._round}/{name}", dumps(value)))

    def _get(self, name: str) -> bytes | None:
        found: bytes | None = self._asked(lambda: self._store.get(f"{self._round}/{name}"))
        return found

    def _clean(self) -> None:
        """All have come to the round before this one, so nobody reads of those before it any more."""
        own = ("0", "all", _CAME) if self._rank == 0 else (str(self._rank),)
        for number in range(self._oldest, self._round - 1):
            for name in own:
                self._asked(lambda: self._store.drop(f"{number}/{name}"))
        self._oldest = max(self._oldest, self._round - 1)

    def others_came(self) -> bool:
        """Whether a rank has come to the next round that takes no part in the exchange in which this one waits: it has
        not ended it, and whoever takes part in one ends it first."""
        raw = self._get(_CAME)
        return raw is not None and loads(raw) <= self.exchanges

    def note(self, name: str) -> None:
        """Puts a mark that others can see."""
        self._asked(lambda: self._store.put(f"note/{name}/{self._rank}", b"1"))

    def without_note(self, name: str) -> list[int]:
        """The other ranks that have not put it."""
        return [rank for rank in range(self._size) if rank != self._rank
                and self._asked(lambda: self._store.get(f"note/{name}/{rank}")) is None]

    def _asked(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:  # whatever the framework raises
            raise error_of(Status.ABORTED, "the key-value store of the job's ranks cannot be reached: "
                           f"{str(error).splitlines()[0] if str(error) else type(error).__name__}") from error


def _called(call: str, same: Facts) -> str:
    """A call, for a message; with its step, if it has one."""
    return f"{call} at step {same['step']}" if same.get("step", "None") != "None" else call


def whats_next(call: str) -> str:
    """What to do about a rank that is missing."""
    return (f"; every rank of the job calls {call} (one that saves by itself says so: rank=0, world_size=1)")
