#!/usr/bin/env python3
"""Makes the DCP fixtures: each a directory that torch's own writer wrote on two ranks, and what torch makes of it.

    torchrun --nproc-per-node 2 dcp_fixtures.py OUT CASE…     OUT/CASE is the checkpoint; OUT/CASE.pt what torch's
                                                              dcp_to_torch_save gives of it, where it can

CPU and gloo. Cases: see CASES. zstd needs the package zstandard, hf needs safetensors. Sizes are odd, so that shards
are uneven. interop/tests/fixtures/made-with.txt tells the versions that made the committed ones.
"""
import os
import shutil
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn

warnings.filterwarnings("ignore")
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def trained():
    """Model and AdamW under FSDP2 after two steps, as a trainer's state_dict."""
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3, bias=False))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.25)
    for _ in range(2):
        model(torch.ones(4, 5)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state}


def cut_in_two(whole, dim):
    """As a ShardedTensor, which torch 2.0's FSDP saved."""
    from torch.distributed._shard.sharded_tensor import Shard, init_from_local_shards
    rank, half = dist.get_rank(), (whole.shape[dim] + 1) // 2
    mine = whole.tensor_split([half], dim)[rank].contiguous()
    return init_from_local_shards([Shard.from_tensor_and_offsets(mine, [rank * half * (d == dim) for d in range(2)],
                                                                 rank)], *whole.shape)


def sharded():
    """The same without FSDP2, which torch 2.4 has for GPUs only: tensors in uneven rows, and columns."""
    if VERSION < (2, 2):
        rows = torch.arange(35, dtype=torch.float32).reshape(7, 5)
        return {"model": {"0.weight": cut_in_two(rows, 0), "1.weight": cut_in_two(-rows, 1)},
                "optimizer": {"state": {"0.weight": {"exp_avg": cut_in_two(rows / 3, 0),
                                                     "step": torch.tensor(2.0)}}}}
    if VERSION >= (2, 5):
        from torch.distributed.tensor import Shard, distribute_tensor
    else:
        from torch.distributed._tensor import Shard, distribute_tensor
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    rows = torch.arange(35, dtype=torch.float32).reshape(7, 5)
    return {"model": {"0.weight": distribute_tensor(rows, mesh, [Shard(0)]),
                      "1.weight": distribute_tensor(-rows, mesh, [Shard(1)])},
            "optimizer": {"state": {"0.weight": {"exp_avg": distribute_tensor(rows / 3, mesh, [Shard(0)]),
                                                 "step": torch.tensor(2.0)}}}}


def odd():
    """What is not a shard: strides, no dimension, no element, other dtypes, values, lists, each rank's own."""
    grid = torch.arange(12, dtype=torch.int16).reshape(3, 4)
    return {"odd": {"transposed": grid.t(), "channels": torch.arange(24.).reshape(1, 2, 3, 4).to(
                        memory_format=torch.channels_last),
                    "part": torch.arange(10.)[3:6], "number": torch.tensor(-3.5, dtype=torch.float64),
                    "none": torch.empty(0, 3), "half": torch.arange(3).to(torch.bfloat16),
                    "flags": torch.tensor([True, False, True]),
                    "wide": torch.tensor([2**40, -1])},
            "values": {"epoch": 3, "name": "a/b \u00e9", "nothing": None, "pair": (1, 2.5), "list": [1, "x", [True]],
                       "mixed": [{"lr": 0.5}, torch.ones(2), [torch.zeros(1), 7]], "empty": {}, 5: "five",
                       "tuple": (torch.full((2,), 4.0), "in a tuple"), "big": 2**70, "dotted.key": {"a": 1}},
            "rng": {f"rank{dist.get_rank()}": torch.full((3,), dist.get_rank(), dtype=torch.uint8)}}


def writer(path, **settings):
    return dcp.FileSystemWriter(path, **settings)


def save(state, path, **settings):
    save_all = dcp.save if VERSION >= (2, 2) else dcp.save_state_dict
    save_all(state, storage_writer=writer(path, **settings))


def save_without_collectives(state, path):
    # Each rank has a value of its own under one key.
    state["values"]["seed"] = 100 + dist.get_rank()
    dcp.save(state, storage_writer=writer(path), use_collectives=False)


def save_zstd(state, path):
    from torch.distributed.checkpoint._extension import ZStandard
    dcp.save(state, storage_writer=writer(path, _extensions=[ZStandard()]))


def save_hf(state, path):
    from torch.distributed.checkpoint import HuggingFaceStorageWriter
    tensors = dict(state["model"])
    names = {name: 1 + i % 2 for i, name in enumerate(tensors)}
    dcp.save(tensors, storage_writer=HuggingFaceStorageWriter(path, fqn_to_index_mapping=names, save_distributed=True))


def save_safetensors(state, path):
    from torch.distributed.checkpoint.filesystem import SerializationFormat
    for name in ("transposed", "channels"):  # it takes none with strides
        state["odd"][name] = state["odd"][name].contiguous()
    dcp.save(state, storage_writer=writer(path, serialization_format=SerializationFormat.SAFETENSORS))


def save_async(state, path):
    dcp.async_save(state, storage_writer=writer(path)).result()


def save_alone(state, path):
    """One process without a group: rank 0 alone, tensors whole."""
    whole = {"model": {"w": torch.arange(35.).reshape(7, 5)}, **odd()}
    if dist.get_rank() == 0:
        dcp.save(whole, storage_writer=writer(path), no_dist=True)


def all_of():
    return {**(trained() if VERSION >= (2, 6) else sharded()), **odd()}


def grid():
    """Four ranks as 2 x 2: rows of rows, and rows of columns."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (2, 2))
    rows = torch.arange(35, dtype=torch.float32).reshape(7, 5)
    return {"both": distribute_tensor(rows, mesh, [Shard(0), Shard(1)]),
            "twice": distribute_tensor(rows, mesh, [Shard(0), Shard(0)])}


CASES = {
    "fsdp2": (all_of, save),
    "threads": (all_of, lambda state, path: save(state, path, thread_count=2)),
    "per_item": (sharded, lambda state, path: save(state, path, single_file_per_rank=False)),
    "no_collectives": (lambda: {**sharded(), **odd()}, save_without_collectives),
    "zstd": (lambda: {**sharded(), **odd()}, save_zstd),
    "hf": (trained, save_hf),
    "safetensors": (lambda: {**sharded(), **odd()}, save_safetensors),
    "async": (lambda: {**sharded(), "values": odd()["values"]}, save_async),
    "alone": (dict, save_alone),
    "grid": (grid, save),  # of four ranks
}


def make_one(case, path):
    if dist.get_rank() == 0:
        shutil.rmtree(path, ignore_errors=True)
    dist.barrier()
    make, write = CASES[case]
    write(make(), path)
    dist.barrier()
    if dist.get_rank() == 0 and VERSION >= (2, 3) and case not in ("hf", "safetensors", "no_collectives"):
        from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
        dcp_to_torch_save(path, f"{path}.pt")
    dist.barrier()


def main(out, *cases):
    dist.init_process_group("gloo")
    for case in cases:
        make_one(case, os.path.join(out, case))
        print(f"rank {dist.get_rank()}: {case} by torch {torch.__version__}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
