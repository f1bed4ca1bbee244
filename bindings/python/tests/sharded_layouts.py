"""One small model under each parallel layout of torch, and its whole state as torch itself gathers it. For processes of
test_torch_sharded.py: every function is called by all ranks of a process group."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Net(nn.Module):
    """Sizes that two, three and four ranks do not divide; `gain` has one element, so most shards of it are empty."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(5, 12), nn.LayerNorm(12), nn.Linear(12, 3)
        self.gain = nn.Parameter(torch.randn(1))
        self.again = nn.Linear(5, 12)
        self.register_buffer("seen", torch.zeros(2))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)

    def forward(self, x: Any) -> Any:
        self.seen += 1
        return self.down(self.norm(torch.relu(self.up(x))) + torch.tanh(self.again(x))) * self.gain


class Tied(Net):
    def __init__(self) -> None:
        super().__init__()
        self.again.weight = self.up.weight


@dataclass
class Trainer:
    model: Any
    optimizer: Any
    scheduler: Any

    def step(self, number: int) -> None:
        """The same batch on all ranks."""
        batch = torch.randn(4, 5, generator=torch.Generator().manual_seed(number))
        self.optimizer.zero_grad()
        self.model(batch).square().sum().backward()
        self.optimizer.step()
        self.scheduler.step()

    def evaluate(self) -> None:
        """Leaves gathered parameters behind under FSDP."""
        with torch.no_grad():
            self.model(torch.ones(4, 5))

    def state(self) -> dict[str, Any]:
        return {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler}


def _cpu_mesh(*shape: int) -> Any:
    return init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp")[:len(shape)])


def _fsdp1(**options: Any) -> Callable[[Any], Any]:
    def wrap(net: Any) -> Any:
        inner = FullyShardedDataParallel(net.norm, device_id=torch.device("cpu"), **options)
        net.norm = inner
        return FullyShardedDataParallel(net, device_id=torch.device("cpu"), **options)
    return wrap


def _fsdp2(net: Any, mesh: Any = None) -> Any:
    fully_shard(net.norm, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def _tp(net: Any, mesh: Any) -> Any:
    plan = {"up": ColwiseParallel(output_layouts=Replicate()), "down": RowwiseParallel(input_layouts=Replicate())}
    parallelize_module(net, mesh, plan)
    return net


def _hybrid(net: Any) -> Any:
    return _fsdp1(sharding_strategy=ShardingStrategy.HYBRID_SHARD, device_mesh=_cpu_mesh(2, 2))(net)


def _tp_fsdp(net: Any) -> Any:
    mesh = _cpu_mesh(2, 2)
    return _fsdp2(_tp(net, mesh["tp"]), mesh["dp"])


def _tp_ddp(net: Any) -> Any:
    """Each tensor parallel pair knows only itself; the other pair holds the same."""
    return _tp(net, _cpu_mesh(2, 2)["tp"])


LAYOUTS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "none": (1, lambda net: net),
    "ddp": (2, nn.parallel.DistributedDataParallel),
    "fsdp1": (3, _fsdp1()),
    "fsdp1_orig": (4, _fsdp1(use_orig_params=True)),
    "fsdp1_hybrid": (4, _hybrid),
    "fsdp1_no_shard": (2, _fsdp1(sharding_strategy=ShardingStrategy.NO_SHARD)),
    "fsdp2": (3, _fsdp2),
    "hsdp": (4, lambda net: _fsdp2(net, _cpu_mesh(2, 2))),
    "tp": (2, lambda net: _tp(net, _cpu_mesh(2))),
    "tp_fsdp": (4, _tp_fsdp),
    "tp_ddp": (4, _tp_ddp),
}


def trainer(layout: str, net: type[Net], seed: int, steps: int = 0) -> Trainer:
    torch.manual_seed(seed)
    model = LAYOUTS[layout][1](net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01 * (seed + 1))
    made = Trainer(model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5))
    for number in range(steps):
        made.step(number)
    return made


def gathered(made: Trainer) -> dict[str, Any]:
    """The whole state by names, as torch gathers it (FSDP1 and DTensor have different ways)."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    out = {f"model/{name}": value.clone() for name, value in get_model_state_dict(made.model, options=options).items()}
    for name, entry in _optimizer_state(made, options).items():
        out |= {f"optimizer/{name}/{key}": torch.as_tensor(value).clone() for key, value in entry.items()}
    out["lr"] = [group["lr"] for group in made.optimizer.param_groups]
    out["scheduler"] = made.scheduler.state_dict()
    return out if dist.get_rank() == 0 else {}


def _optimizer_state(made: Trainer, options: Any) -> dict[str, Any]:
    if getattr(made.model, "_use_orig_params", False) and dist.get_world_size() > 1:
        # On the CPU torch gathers all keys into one buffer and gives views of it. The ranks' pieces are in their order.
        names = {value: name.replace("_fsdp_wrapped_module.", "") for name, value in made.model.named_parameters()}
        said: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(said, {names[parameter]: entry for parameter, entry in made.optimizer.state.items()})
        shapes = {name: parameter.shape for name, parameter in Net().named_parameters()}
        return {name: {key: torch.cat([mine[name][key] for mine in said if name in mine]).view(shapes[name])
                       if value.dim() else value for key, value in entry.items()}
                for mine in said for name, entry in mine.items()}
    return get_optimizer_state_dict(made.model, made.optimizer, options=options).get("state", {})  # type: ignore


@contextlib.contextmanager
def process_group(rank: int, size: int, file: str) -> Iterator[None]:
    dist.init_process_group("gloo", rank=rank, world_size=size, init_method=f"file://{file}")
    try:
        yield
    finally:
        dist.destroy_process_group()
