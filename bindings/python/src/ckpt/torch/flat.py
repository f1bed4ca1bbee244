"""FSDP1: where the parameters of a FlatParameter lie in this rank's shard of it. No all-gather."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.distributed as dist

from ..enums import Status
from ..errors import error_of
from ..frameworks import loaded
from ..regions import Regions, Replica, Shard, replica_of
from .dtensor import memory_of


@dataclass(frozen=True, eq=False)
class FlatSlice:
    """One original parameter in a flat one: its elements from `start` on are `first` to `first + size` of the shard."""

    flat: Any
    index: int
    shape: tuple[int, ...]
    start: int
    first: int
    size: int
    replica: Replica | None
    elsewhere: bool

    def fits(self, tensor: Any, parameter: Any) -> bool:
        """Whether it is state of the form that the parameter has on this rank: of the shard, or of this slice."""
        size = local_shard(parameter).numel() if is_flat(parameter) else self.size
        return isinstance(tensor, torch.Tensor) and tensor.dim() > 0 and tensor.numel() == size

    def regions(self, base: torch.Tensor, parameter: Any) -> Regions:
        """This parameter's elements in `base`, which fits."""
        first = self.first if is_flat(parameter) else 0
        data = base.detach().view(-1)[first:first + self.size]
        shard = Shard(data, self.shape, flat_offset=self.start, replica=self.replica)
        identity = (*memory_of(base), self.index)
        return Regions((shard,), base, identity, self.elsewhere)


def local_shard(flat: Any) -> torch.Tensor:
    """The memory that the optimizer updates; `flat.data` may be the gathered parameter meanwhile."""
    shard = getattr(flat, "_local_shard", None)
    return flat.data if shard is None else shard


def is_flat(parameter: Any) -> bool:
    """Whether it is a FlatParameter, which holds several parameters."""
    return hasattr(parameter, "_shard_param_infos")


def handles_in(module: torch.nn.Module) -> Iterator[tuple[Any, Any]]:
    """The FSDP modules in a module, with the handles of their flat parameters."""
    found = loaded("torch.distributed.fsdp")
    for child in module.modules() if found is not None else ():
        if isinstance(child, found.FullyShardedDataParallel) and child._handle is not None:
            yield child, child._handle


Slices: TypeAlias = dict[int, dict[str, tuple[Any, FlatSlice]]]


def slices_in(module: torch.nn.Module) -> Slices:
    """By id of the module that had the parameter before FSDP took it, and its name there: the object that an optimizer
    knows it by (the flat parameter, or with use_orig_params a view of it), and its slice."""
    out: Slices = {}
    for owner, handle in handles_in(module):
        flat = handle.flat_param
        replica, elsewhere = _who_else(owner, handle)
        for index, info in enumerate(flat._param_infos):
            if any(extension is not None for extension in flat._param_extensions[index:index + 1]):
                raise error_of(Status.UNSUPPORTED, f"FSDP1 over tensor parallel, parameter '{flat._fqns[index]}': give "
                               "FSDP2 (fully_shard) or the sharded state_dict() instead", {"tensor": flat._fqns[index]})
            part = flat._shard_param_infos[index]
            start, first, size = (part.intra_param_start_idx, part.offset_in_shard, part.numel_in_shard
                                  ) if part.in_shard else (0, 0, 0)
            made = FlatSlice(flat, index, tuple(flat._shapes[index]), start, first, size, replica, elsewhere)
            parameter = flat if flat._params is None else flat._params[index]
            out.setdefault(id(info.module), {})[info.param_name] = parameter, made
        for info in flat._shared_param_infos:
            first = out[id(info.prim_module)][info.prim_param_name]
            out.setdefault(id(info.module), {})[info.param_name] = first
    return out


def reshard(module: torch.nn.Module) -> None:
    """Gives up gathered parameters, which would hide what a load writes into the shards. After a forward in evaluation
    FSDP keeps those of the root, though it uses the shards again."""
    for _, handle in handles_in(module):
        if handle.uses_sharded_strategy and hasattr(handle.flat_param, "_full_param_padded"):
            handle.reshard(True)


def _who_else(owner: Any, handle: Any) -> tuple[Replica | None, bool]:
    """The replica group of this rank's shard, and whether ranks outside of FSDP's groups may hold it too."""
    ranks, size = [dist.get_rank()], handle.process_group.size()
    if not handle.uses_sharded_strategy:
        ranks = dist.get_process_group_ranks(handle.process_group)
    elif getattr(owner, "_inter_node_pg", None) is not None:
        ranks = dist.get_process_group_ranks(owner._inter_node_pg)
        size *= len(ranks)
    return replica_of(dist.get_rank(), ranks), size != dist.get_world_size()
