"""The ranks of torch's default process group as the ranks of a session, and what they tell each other before a save."""

from __future__ import annotations

import atexit
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import torch
import torch.distributed as dist

from .._core import options as all_options
from ..background import Turn
from ..enums import Status
from ..errors import AbortedError, Error, error_of
from ..handles import Session, Store
from ..regions import Replica, replica_of


class Team:
    """All ranks of the default process group. Every rank calls the same methods in the same order."""

    def __init__(self) -> None:
        self.world = dist.group.WORLD
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._group = _cpu_group()
        self._told: dict[str, tuple[torch.Tensor, list[Any]]] = {}
        self._sessions: dict[Turn, tuple[object, Session]] = {}
        self._nobody_waits = True  # for this rank, in an exchange

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

    def open(self, target: Any, options: Mapping[str, int | str]) -> Session:
        """A new session of these ranks."""
        made: Session | None = None
        error: Exception | None = None
        string: str | None = None
        for turn in ("first", "others"):
            if (self.rank == 0) == (turn == "first") and error is None:
                try:
                    store = target if isinstance(target, Store) else Store(target, options)
                    made = Session(store, self.rank, self.size, string, options)
                except Exception as caught:
                    error = caught
            said: list[Any] = [None] * self.size
            mine = made.string if made and self.rank == 0 else None, error and str(error)
            with _talking():
                dist.all_gather_object(said, mine, group=self._group)
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

    # ---- what ranks tell each other ----

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
                    self._table(None, f"{type(error).__name__}: {error}")
            raise

    def exchange(self, about: str, mine: Any) -> list[Any]:
        """What each rank gives here, in order of rank: text and numbers, nested in lists and tuples. Ranks compare
        digests; only if one has changed do they send more, and of equal ones only the first."""
        table = self._table(hashlib.blake2b(repr((about, mine)).encode(), digest_size=16).digest())
        known = self._told.get(about)
        if known is not None and torch.equal(known[0], table):
            return known[1]
        digests = [tuple(row) for row in table.tolist()]
        first = [digests.index(digest) for digest in digests]
        said: list[Any] = [None] * self.size
        if len(set(first)) == 1:
            said[0] = mine
        else:
            self._nobody_waits = True
            with _talking():
                dist.all_gather_object(said, mine if first[self.rank] == self.rank else None, group=self._group)
            self._nobody_waits = False
        told = [said[rank] for rank in first]
        self._told[about] = table, told
        return told

    def _table(self, digest: bytes | None, why: str | None = None) -> torch.Tensor:
        """The digests of all ranks; an error if a rank has none, since it failed, and says why."""
        self._nobody_waits = True  # an error from here on is one that the others learn of as well
        mine = torch.zeros(3, dtype=torch.int64, device="cpu")  # where gloo is, whatever torch's default device
        if digest is not None:
            numbers = (int.from_bytes(digest[i:i + 8], "little", signed=True) for i in (0, 8))
            mine = torch.tensor([1, *numbers], device="cpu")
        rows = [torch.empty_like(mine) for _ in range(self.size)]
        with _talking():
            dist.all_gather(rows, mine, group=self._group)
        table = torch.stack(rows)
        if not table[:, 0].all():
            said: list[Any] = [None] * self.size
            with _talking():
                dist.all_gather_object(said, why, group=self._group)
            if digest is not None:
                raise _aborted({rank: words for rank, words in enumerate(said) if words}, "gave up")
        self._nobody_waits = False
        return table

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


@contextmanager
def _talking() -> Iterator[None]:
    """The process group knows an address of a rank that is gone, at best, and not which rank it is."""
    try:
        yield
    except RuntimeError as error:
        raise error_of(Status.ABORTED, "a rank of the process group is gone or cannot be reached, so nothing is saved: "
                       f"{str(error).splitlines()[0]}") from error


def _aborted(failed: Mapping[int, str], what: str) -> Error:
    words = "; ".join(f"rank {rank} {what}: {why}" for rank, why in failed.items())
    return error_of(Status.ABORTED, words, {"ranks": ",".join(map(str, failed))})


def _cpu_group() -> Any:
    """A group that can send the CPU's memory: the default one, or one made for that."""
    try:
        dist.group.WORLD._get_backend(torch.device("cpu"))
    except RuntimeError:
        return dist.new_group(backend="gloo")
    return dist.group.WORLD


_team: Team | None = None


def team(wanted: tuple[int, int] | None = None) -> Team | None:
    """The ranks of the default process group; None without one, if this process is alone in it, or if it has another
    rank or number of ranks than `wanted`. The first call is a collective."""
    global _team
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return None
    if wanted is not None and wanted != (dist.get_rank(), dist.get_world_size()):
        return None
    if _team is None or _team.world is not dist.group.WORLD:
        close()
        _team = Team()
    return _team


def close() -> None:
    """Closes the sessions that were formed over a process group."""
    global _team
    if _team is not None:
        _team.close()
        _team = None


atexit.register(close)
