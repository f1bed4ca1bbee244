"""What the ranks of a training tell each other, and how they form a session."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from ._core import options as all_options
from .background import Turn
from .board import TELL_AFTER, Board, KeyValues
from .enums import Status
from .errors import AbortedError, Error, error_of, value_error
from .handles import Session, Store
from .regions import Replica, replica_of

T = TypeVar("T")
_PATIENCE = 1800.0  # seconds: how long ranks wait for one that still computes or reads


class Alone:
    """One rank; or one of several that cannot talk to each other, each of which decides alone."""

    def __init__(self, rank: int, size: int) -> None:
        if not 0 <= rank < size:
            raise value_error(f"rank: expected 0 to {size - 1} for world_size {size}, found {rank}")
        self.rank, self.size = rank, size

    @property
    def agree(self) -> bool:
        """Whether what one rank decides is what all decide."""
        return self.size == 1

    def meet(self, call: str, same: Mapping[str, object], timeout_ms: Any = None) -> None:
        """All ranks are in this call, with the same values of `same`, or there is an error on all that come."""

    @property
    def ready(self) -> bool:
        """Whether it can talk to the others, or must meet them first."""
        return True

    def enter(self, call: str, timeout_ms: Any = None, **facts: object) -> None:
        """What follows is of this call, with these `facts`, in which ranks wait for each other for so long."""

    def be_patient(self) -> None:
        """Until they meet again ranks wait for each other for half an hour at least: one may still read."""

    def most(self, values: Sequence[int]) -> list[int]:
        """The largest of each value over all ranks."""
        return list(values)

    def gather(self, value: T) -> list[T]:
        """The values of all ranks that can be asked."""
        return [value]

    def first(self, make: Callable[[], T]) -> T:
        """What rank 0 makes, or raises, on all ranks."""
        return make()

    def open(self, store: Any, options: Mapping[str, Any]) -> Session:
        """A new session of all ranks."""
        if self.size == 1:
            return Session(store, options=options)
        return Session(store, self.rank, self.size, None, {**options, "rendezvous": 1})


class Team(Alone):
    """All ranks of a job, which can talk to each other. Every rank calls the same methods in the same order, after
    they have met in the call of ckpt that needs it."""

    def __init__(self, rank: int, size: int, store: KeyValues | None) -> None:
        super().__init__(rank, size)
        self.board = None if store is None else Board(store, rank, size)
        self._limit, self._tell_after, self._call = _PATIENCE, TELL_AFTER, ""
        self._about: tuple[str, Mapping[str, object]] = "", {}  # how others are told of an exchange
        self._told: dict[str, tuple[list[bytes], list[Any]]] = {}
        self._sessions: dict[Turn, tuple[object, Session]] = {}
        self._nobody_waits = True  # for this rank, in an exchange

    @property
    def agree(self) -> bool:
        return True

    def enter(self, call: str, timeout_ms: Any = None, **facts: object) -> None:
        self._call, self._about, self._tell_after = call, (call, facts), TELL_AFTER
        self._limit = _PATIENCE if timeout_ms is None else int(timeout_ms) / 1000

    def meet(self, call: str, same: Mapping[str, object], timeout_ms: Any = None) -> None:
        self.enter(call, timeout_ms)
        self._about = f"an exchange of {call}", same
        if self.board is None:
            return self._have_met([self.ready])
        self._have_met(self.board.round(call, same, self.ready, _DEFAULT if timeout_ms is None else self._limit))

    def be_patient(self) -> None:
        self._limit, self._tell_after = max(self._limit, _PATIENCE), _PATIENCE / 6

    def _have_met(self, ready: list[bool]) -> None:
        """All ranks are here; which of them can talk."""

    def gather(self, value: T) -> list[T]:
        assert self.board is not None
        return self.board.round(self._call, {}, value, self._limit)

    def most(self, values: Sequence[int]) -> list[int]:
        return [max(column) for column in zip(*self.gather(list(values)))]

    def first(self, make: Callable[[], T]) -> T:
        told: tuple[Any, Exception | None] = None, None
        if self.rank == 0:
            try:
                told = make(), None
            except (Error, ValueError, OSError) as error:
                told = None, error
            except Exception as error:  # one that may not survive its way to the other ranks
                told = None, RuntimeError(f"rank 0: {type(error).__name__}: {error}")
        value, failed = self.gather(told)[0]
        if failed is not None:
            raise failed
        return value  # type: ignore[no-any-return]

    # ---- sessions ----

    def session(self, target: str | os.PathLike[str] | Store, options: Mapping[str, int | str], turn: Turn) -> Session:
        """The session of these ranks in that store, opened at the first call and kept until the process ends. `turn`:
        of that store."""
        used = {option.key for option in all_options() if "session" in option.used_by.split()}
        chosen = tuple(sorted((name, value) for name, value in options.items() if name in used))
        known = self._sessions.get(turn)
        if known is not None and known[0] == chosen and not known[1].closed:
            return known[1]
        if known is not None:
            known[1].close()
        made = self.open(target, options)
        made._turn = turn
        self._sessions[turn] = chosen, made
        return made

    def open(self, store: Any, options: Mapping[str, Any]) -> Session:
        made: Session | None = None
        error: Exception | None = None
        string: str | None = None
        for turn in ("first", "others"):
            if (self.rank == 0) == (turn == "first") and error is None:
                try:
                    opened = store if isinstance(store, Store) else Store(store, options)
                    made = Session(opened, self.rank, self.size, string, options)
                except Exception as caught:
                    error = caught
            said = self.gather((made.string if made and self.rank == 0 else None, error and str(error)))
            failed = {rank: words for rank, (_, words) in enumerate(said) if words}
            if failed:
                if made is not None:
                    made.close()
                raise error or _aborted(failed, "could not open the session")
            string = string or said[0][0]
        assert made is not None
        return made

    def close(self) -> None:
        """Closes the sessions. A save in flight ends first; the log has its failure."""
        for _, session in self._sessions.values():
            with suppress(Error):
                session.close()
        self._sessions.clear()

    # ---- what ranks tell each other of a state ----

    @contextmanager
    def together(self) -> Iterator[None]:
        """A rank whose block raises an error says so in the exchange that the others are waiting in. The last exchange
        of a block is that of replicas()."""
        self._nobody_waits = False
        try:
            yield
        except BaseException as error:
            if not self._nobody_waits:
                with suppress(AbortedError):  # another has failed, too, or is gone
                    self._digests(b"", f"{type(error).__name__}: {error}")
            raise

    def exchange(self, about: str, mine: Any) -> list[Any]:
        """What each rank gives here, in order of rank: text and numbers, nested in lists and tuples. Ranks compare
        digests; only if one has changed do they send more, and of equal ones only the first."""
        import hashlib  # not before it is needed
        digests = self._digests(hashlib.blake2b(repr((about, mine)).encode(), digest_size=16).digest())
        known = self._told.get(about)
        if known is not None and known[0] == digests:
            return known[1]
        first = [digests.index(digest) for digest in digests]
        said: list[Any] = [mine]
        if len(set(first)) > 1:
            self._nobody_waits = True
            said = self.gather(mine if first[self.rank] == self.rank else None)
            self._nobody_waits = False
        told = [said[rank] for rank in first]
        self._told[about] = digests, told
        return told

    def _digests(self, digest: bytes, why: str = "") -> list[bytes]:
        """The digests of all ranks; an error if a rank has none, since it failed, and says why."""
        self._nobody_waits = True  # an error from here on is one that the others learn of as well
        said = self.gather((digest, why))
        failed = {rank: words for rank, (found, words) in enumerate(said) if not found}
        if failed and digest:
            raise _aborted(failed, "gave up")
        self._nobody_waits = False
        return [found for found, _ in said]

    def replicas(self, whole: Mapping[str, str], regions: Mapping[str, object]) -> tuple[dict[str, Replica], set[str]]:
        """By name, this rank's place among the ranks that hold the same region of that tensor; a whole tensor that all
        ranks hold needs none. And the names that ranks describe differently: all must save these as whole tensors.

        `whole`: this rank's whole tensors, "", and which views of them others are. `regions`: those of other tensors of
        which it is not known who else holds them."""
        mine = {**whole, **{name: f"{_AT}{region!r}" for name, region in regions.items()}}
        said = self.exchange("tensors", sorted(mine.items()))
        self._nobody_waits = True
        if all(pairs is said[0] for pairs in said) and not regions:
            return {}, set()
        texts: dict[str, set[str]] = {}
        for name, text in (pair for pairs in said for pair in pairs):
            texts.setdefault(name, set()).add(text)
        apart = {name for name, several in texts.items() if len(several) > 1 and not any(map(_is_region, several))}
        holders: dict[tuple[str, str], list[int]] = {}
        for rank, pairs in enumerate(said):
            for name, text in pairs:
                holders.setdefault((name, "" if name in apart else text), []).append(rank)
        out = {}
        for name, text in mine.items():
            ranks = holders[name, "" if name in apart else text]
            if _is_region(text) or len(ranks) < self.size:
                # Alone must be said: a whole tensor is otherwise taken for one that all ranks hold.
                out[name] = replica_of(self.rank, ranks) or (self.rank, 0, 1)
        return out, apart


_AT = "at "


def _is_region(text: str) -> bool:
    return text.startswith(_AT)


def _aborted(failed: Mapping[int, str], what: str) -> Error:
    words = "; ".join(f"rank {rank} {what}: {why}" for rank, why in failed.items())
    return error_of(Status.ABORTED, words, {"ranks": ",".join(map(str, failed))})


_DEFAULT = 600.0  # seconds; what option timeout_ms has
