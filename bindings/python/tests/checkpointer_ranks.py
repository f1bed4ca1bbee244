"""A trainer of several ranks over gloo, for test_checkpointer_ranks.py: RANK WORLD FILE STORE MODE."""

import os
import signal
import sys
import warnings
from typing import Any

import ckpt
import torch
import torch.distributed as dist


def main(rank: int, world: int, meet: str, path: str, mode: str) -> None:
    dist.init_process_group("gloo", f"file://{meet}", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    state = {"model": model, "optimizer": optimizer, "step": 0}
    every: list[Any] = [5, lambda moment: mode == "predicate" and rank == 1 and moment.step == 7]
    told: list[str] = []
    with ckpt.Checkpointer(path, every=every, keep_last=2, keep_best=("loss", "min", 1),
                           on_commit=lambda info: told.append(info.label)) as keeper:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            start = keeper.restore(state)
        passed = sum(issubclass(one.category, ckpt.PassedOverWarning) for one in caught)
        for n in range(start.step + 1 if start else 1, 21):
            x = torch.arange(4.0) + n
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
            state["step"] = n
            if mode == "signal" and n == 8 and rank == 1:
                os.kill(os.getpid(), signal.SIGTERM)
            keeper.step(n, state, metrics={"loss": abs(n - 10) + rank})
            if keeper.stopping:
                break
    numbers = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    print(start.step if start else None, n, keeper.stopping, passed, ",".join(told), numbers.numpy().tobytes().hex())
    dist.destroy_process_group()


main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
