#!/usr/bin/env python3
"""A small Llama of transformers with random weights, trained by FSDP2 on two ranks over gloo, and what others made of
its checkpoint. For tools/demo-layouts; knows nothing of ckpt.

  layouts.py train FOLDER       three steps; FOLDER/dcp is what torch.distributed.checkpoint saved: model and optimizer,
                                FOLDER/config.json the model's configuration
  layouts.py logits DCP FOLDER  transformers loads FOLDER, torch's dcp.load loads DCP: their logits must be equal
  layouts.py state DCP OTHER    dcp.load gives the same tensors and values of both
  layouts.py weights DCP OTHER  OTHER is a DCP directory of the model alone
  layouts.py go-on DCP OTHER    two ranks resume either and train on: the losses must be equal
  layouts.py files A B…         torch.load finds the same in A and B; they may be packed, and Composer's tars
"""
import bz2
import gzip
import io
import lzma
import os
import sys
import tarfile
import tempfile
import warnings

import numpy
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import multiprocessing
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

warnings.filterwarnings("ignore")
logging.disable_progress_bar()
RANKS = 2
# Odd sizes, so that the ranks' shards are uneven.
CONFIG = LlamaConfig(vocab_size=1131, hidden_size=90, intermediate_size=251, num_hidden_layers=3, num_attention_heads=5,
                     num_key_value_heads=5, max_position_embeddings=64, tie_word_embeddings=False)


def tokens(step, rank=0):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randint(CONFIG.vocab_size, (3, 17), generator=generator)


# ---- the trainer ----
def sharded():
    torch.manual_seed(5)
    model = LlamaForCausalLM(CONFIG)
    mesh = init_device_mesh("cpu", (RANKS,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def steps(model, optimizer, numbers):
    losses = []
    for number in numbers:
        ids = tokens(number, dist.get_rank())
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def ranks(work, *args):
    """work(rank, *args) on each rank."""
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(one_rank, (os.path.join(folder, "meet"), work, *args), nprocs=RANKS)


def one_rank(rank, meet, work, *args):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=RANKS)
    work(rank, *args)
    dist.destroy_process_group()


def train_rank(rank, folder):
    model, optimizer = sharded()
    losses = steps(model, optimizer, range(3))
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments, "step": 3}, checkpoint_id=os.path.join(folder, "dcp"))
    if rank == 0:
        CONFIG.save_pretrained(folder)
        print(f"transformers' Llama, {sum(p.numel() for p in model.parameters())} parameters, "
              f"losses {' '.join(f'{loss:.4f}' for loss in losses)}")


def go_on_rank(rank, *paths):
    losses = []
    for path in paths:
        model, optimizer = sharded()
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments, "step": 0}
        dcp.load(state, checkpoint_id=path)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        losses.append(steps(model, optimizer, range(state["step"], state["step"] + 3)))
    assert losses[0] == losses[1], losses
    if rank == 0:
        print(f"both go on with the losses {' '.join(f'{loss:.4f}' for loss in losses[0])}")


# ---- what is compared ----
def whole(path):
    """What torch makes of a DCP directory."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "state.pt")
        dcp_to_torch_save(path, file)
        return torch.load(file, weights_only=False)


def emptied(value):
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    if isinstance(value, dict):
        return {key: emptied(entry) for key, entry in value.items()}
    return [emptied(entry) for entry in value] if isinstance(value, list) else None


def loaded(path, state):
    """`state` with what dcp.load finds for it."""
    state = emptied(state)
    dcp.load(state, checkpoint_id=path, no_dist=True)
    return state


def count_equal(a, b, at=""):
    """How many tensors; fails where something differs."""
    assert type(a) is type(b), (at, type(a), type(b))
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and torch.equal(a, b), at
        return 1
    if isinstance(a, numpy.ndarray):
        assert a.dtype == b.dtype and numpy.array_equal(a, b), at
        return 1
    if isinstance(a, dict):
        assert list(a) == list(b), (at, list(a), list(b))
        return sum(count_equal(a[key], b[key], f"{at}/{key}") for key in a)
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b), at
        return sum(count_equal(*pair, f"{at}/{i}") for i, pair in enumerate(zip(a, b)))
    assert a == b, (at, a, b)
    return 0


def opened(path):
    if ".tar" in path:
        with tarfile.open(path) as archive:
            return io.BytesIO(archive.extractfile("composer_states.pt").read())
    return {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}.get(os.path.splitext(path)[1], open)(path, "rb")


def files(*paths):
    for a, b in zip(paths[::2], paths[1::2]):
        with opened(a) as left, opened(b) as right:
            count = count_equal(*(torch.load(file, weights_only=False) for file in (left, right)))
        print(f"torch.load: {os.path.basename(b)}: {count} tensors and arrays equal, and all values")


def state(path, other):
    expected = whole(path)
    count_equal(expected, whole(other))
    print(f"dcp.load: {count_equal(expected, loaded(other, expected))} tensors equal, and all values")


def weights(path, other):
    expected = whole(path)["model"]
    print(f"dcp.load: {count_equal(expected, loaded(other, expected))} tensors equal")


def logits(path, folder):
    ours, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    theirs = LlamaForCausalLM(CONFIG)
    theirs.load_state_dict(whole(path)["model"])
    ids = tokens(99)
    with torch.no_grad():
        a, b = (model.eval()(input_ids=ids).logits for model in (theirs, ours))
    assert a.dtype == b.dtype and torch.equal(a, b), (a - b).abs().max()
    print(f"transformers' logits {list(a.shape)} are equal; the first is {a[0, 0, 0]:.6f}")


def main(command, *args):
    torch.set_num_threads(1)
    commands = {"train": lambda folder: ranks(train_rank, folder), "logits": logits, "state": state,
                "weights": weights, "files": files, "go-on": lambda *paths: ranks(go_on_rank, *paths)}
    commands[command](*args)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
