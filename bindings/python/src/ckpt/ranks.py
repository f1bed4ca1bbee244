"""The ranks of a training: who they are."""

from __future__ import annotations

from typing import Any

from .errors import RanksWarning, value_error, warn
from .frameworks import loaded
from .hints import lookalike
from .team import Alone, Team

_MOST_BYTES = 1 << 20  # of one value; gRPC takes 4 MiB


class _OfJax:
    """The key-value store of jax.distributed."""

    def __init__(self, client: Any, prefix: str) -> None:
        self._client, self._prefix = client, prefix

    def put(self, key: str, value: bytes) -> None:
        pieces = [value[at:at + _MOST_BYTES] for at in range(_MOST_BYTES, len(value), _MOST_BYTES)]
        for number, piece in enumerate(pieces):
            self._set(f"{key}+{number}", piece)
        self._set(key, b"%8d" % len(pieces) + value[:_MOST_BYTES])

    def _set(self, key: str, value: bytes) -> None:
        self._client.key_value_set_bytes(self._prefix + key, value, allow_overwrite=True)

    def get(self, key: str) -> bytes | None:
        try:
            value = self._client.key_value_try_get_bytes(self._prefix + key)
        except Exception as error:  # a class of XLA's
            if "NOT_FOUND" in str(error):
                return None
            raise
        return bytes(value[8:]) + b"".join(self._client.key_value_try_get_bytes(f"{self._prefix}{key}+{number}")
                                    for number in range(int(value[:8])))

    def drop(self, key: str) -> None:
        self._client.key_value_delete(self._prefix + key)


# ---- which ranks there are ----

_team: Team | None = None
_of: object = None  # the process group or client of jax whose ranks they are


def team(wanted: tuple[int, int] | None = None) -> Team | None:
    """The ranks of torch's default process group, else of jax.distributed; None without one, if this process is alone
    in it, or if it has another rank or number of ranks than `wanted`. Asks no other rank."""
    global _team, _of
    dist, jax = loaded("torch.distributed"), loaded("jax._src.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        found, rank, size = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    elif jax is not None and getattr(jax.global_state, "client", None) is not None and (
            jax.global_state.num_processes or 1) > 1:
        found, rank, size, dist = (jax.global_state.client, jax.global_state.process_id,
                                   jax.global_state.num_processes, None)
    else:
        return None
    if wanted is not None and wanted != (rank, size):
        return None
    if _team is None or _of is not found:
        close()
        if dist is None:
            _team = Team(rank, size, _OfJax(found, "ckpt/"))
        else:
            from .torch.group import OfTorch
            _team = OfTorch()
        _of = found
    return _team


def own_rank() -> tuple[int, int]:
    """Which rank this process is, and of how many."""
    ranks = team()
    return (0, 1) if ranks is None else (ranks.rank, ranks.size)


def ranks_of(rank: int | None, world_size: int | None) -> Alone:
    """The ranks as the caller numbers them, else those of a process group, else one."""
    if rank is not None or world_size is not None:
        if rank is None or world_size is None:
            raise value_error("rank= and world_size= belong together")
        return Alone(rank, world_size)
    return team() or alone()


def alone() -> Alone:
    """The only rank, since nobody was asked; warns if it looks as if there were others."""
    if looks := lookalike():
        warn(RanksWarning(f"this process saves as the only rank, but {looks}: if they save to one path, each fences "
                          "the others. Initialise torch.distributed or jax.distributed first, or give rank= and "
                          "world_size=; world_size=1 with rank=0 says that it is alone"))
    return Alone(0, 1)


def close() -> None:
    """Closes the sessions that were formed over a process group. The end of the interpreter does, too."""
    global _team, _of
    if _team is not None:
        _team.close()
        _team = _of = None
