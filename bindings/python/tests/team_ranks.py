"""Ranks that disagree, are missing or were not told of each other, for test_team.py: RANK WORLD FILE STORE MODE. Each
prints what its calls returned or raised, a line each."""

import sys
import time
from collections.abc import Callable
from typing import Any

import ckpt


def told(call: Callable[[], Any]) -> None:
    begun = time.monotonic()
    try:
        text = repr(call())
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    print(f"{text} [{'at once' if time.monotonic() - begun < 8 else 'late'}]", flush=True)


def torch_ranks(rank: int, world: int, meet: str, path: str, mode: str) -> None:
    import torch.distributed as dist
    dist.init_process_group("gloo", f"file://{meet}", rank=rank, world_size=world)
    if mode == "disagree":
        told(lambda: ckpt.save(path, {"x": 1}, step=5 + rank))
        told(lambda: ckpt.save(path, {"x": 1}, step=5, label=f"mine-{rank}"))
        told(lambda: ckpt.save(f"{path}/{rank}", {"x": 1}, step=5))
        told(lambda: ckpt.save(path, {"x": 1}, step=5) if rank else ckpt.Checkpointer(path).restore())
        told(lambda: ckpt.save_async(path, {"x": 1}, step=5 + rank).result())
        with ckpt.Checkpointer(path, every=2) as keeper:
            told(lambda: keeper.step(1 + rank, {"x": 1}))
    if mode == "pairs":  # after they have met once, a step is an exchange of votes, and no other call is one
        calls: list[Callable[[ckpt.Checkpointer], Any]] = [
            lambda keeper: keeper.step(3, {"x": 1}), lambda keeper: keeper.save(2, {"x": 1}),
            lambda keeper: keeper.restore({"x": 0}), lambda keeper: keeper.check({"x": 1}),
            lambda keeper: ckpt.save(path, {"x": 1}, step=2)]
        for mine in range(1, len(calls)):
            with ckpt.Checkpointer(path, every=99) as keeper:
                keeper.step(1, {"x": 1})
                told(lambda: calls[mine if rank == 0 else 0](keeper))
                told(lambda: calls[mine if rank == 1 else 0](keeper))
        with ckpt.Checkpointer(path, every=2 + rank) as keeper:
            told(lambda: [keeper.step(n, {"x": 1}) for n in range(1, 4)])
    if mode == "alone":
        ckpt.board.TELL_AFTER = 0.2
        if rank == 0:
            told(lambda: ckpt.save(path, {"x": 1}, step=1, timeout_ms=1000))
        dist.barrier()  # the call of one rank took no part in it
        if rank == 1:
            told(lambda: ckpt.save(path, {"x": 1}, step=2, timeout_ms=1000))
            told(lambda: ckpt.save(path + "-own", {"x": 1}, step=2, rank=0, world_size=1))
        dist.barrier()
        with ckpt.Checkpointer(path, every=1, timeout_ms=2000) as keeper:
            told(lambda: keeper.step(3, {"x": 3}) if rank == 0 else None)
        dist.barrier()
    told(lambda: ckpt.save(path, {"x": 7}, step=7))
    if mode == "own":
        ckpt.save(path, {"mine": ckpt.PerRank(rank)}, step=8)
        told(lambda: ckpt.load(path)["mine"])
        told(lambda: ckpt.load(path, into={"mine": ckpt.PerRank(-1)})["mine"])
    dist.barrier()
    dist.destroy_process_group()


def jax_ranks(rank: int, world: int, address: str, path: str) -> None:
    import jax
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, world, rank)
    value = jax.numpy.full(2, 4.0)
    told(lambda: ckpt.save(path, {"all": value, "mine": ckpt.PerRank(jax.numpy.full(2, float(rank)))}, step=1))
    told(lambda: ckpt.load(path)["mine"][0].item())
    told(lambda: ckpt.save(path, {"all": jax.numpy.full(2, float(rank))}, step=2))
    with ckpt.Checkpointer(path, every=1) as keeper:
        told(lambda: keeper.restore({"all": None}).step)
        told(lambda: keeper.step(3, {f"only {rank}": value}))
        told(lambda: keeper.step(4 + rank, {"all": value}))
    jax.distributed.shutdown()


rank, world = int(sys.argv[1]), int(sys.argv[2])
if sys.argv[5] == "jax":
    jax_ranks(rank, world, *sys.argv[3:5])
else:
    torch_ranks(rank, world, *sys.argv[3:])
