#!/usr/bin/env python3
"""trainer.cpp's digits in Python: torch's DDP, FSDP2 or HSDP over gloo, and one ckpt.Checkpointer for all of them.

  trainer.py --data DIGITS --store STORE --losses FILE [--parallel ddp|fsdp|hsdp]
             [--rank R --world W --rendezvous FILE]   ranks of a run; FILE is new for each run
             [--steps N] [--save-every N] [--norm batch|group] [--seed N]
             [--die-at-step N]                        kills itself with SIGKILL there, during that step's save

After SIGTERM on any rank all ranks save the same step, and end. With --norm group and no dropout any number of ranks
computes the same, except for the order of floating-point additions; see trainer.cpp.
"""
import argparse
import hashlib
import os
import signal
import sys
from datetime import timedelta

import ckpt
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

HELD_OUT = 297  # the last images, by writers that are not in the training data
BATCH = 60


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in ("data", "store", "losses", "rendezvous"):
        parser.add_argument("--" + name, required=name != "rendezvous")
    for name, default in dict(rank=0, world=1, steps=150, save_every=10, seed=1, die_at_step=0).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    parser.add_argument("--norm", choices=["batch", "group"], default="batch")
    parser.add_argument("--parallel", choices=["ddp", "fsdp", "hsdp"], default="ddp")
    return parser.parse_args()


def read_digits(path):
    """Images [count, 1, 8, 8] from 0 to 1, labels [count]; see digits.py."""
    table = torch.frombuffer(bytearray(open(path, "rb").read()), dtype=torch.uint8).reshape(-1, 65)
    return table[:, :64].reshape(-1, 1, 8, 8) / 16, table[:, 64].long()


def make_model(norm):
    batch = norm == "batch"
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16) if batch else nn.GroupNorm(4, 16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32) if batch else nn.GroupNorm(4, 32), nn.ReLU(),
        nn.Flatten(), nn.Dropout(0.25 if batch else 0.0), nn.Linear(32 * 4 * 4, 10))


def shard(model, parallel, world):
    """HSDP: two replicas, each sharded over half of the ranks."""
    if world == 1:
        return model
    if parallel == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    replicas = 2 if parallel == "hsdp" else 1
    mesh = init_device_mesh("cpu", (replicas, world // replicas), mesh_dim_names=("replicate", "shard"))
    mesh = mesh if parallel == "hsdp" else mesh["shard"]
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def fingerprint(model, optimizer):
    """Of all bits of parameters, buffers, moments, counters and learning rates. A trainer needs no such thing."""
    digest = hashlib.blake2b(digest_size=16)
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.removeprefix("module.").encode() + whole(value).numpy().tobytes())
    for parameter in model.parameters():
        for key, value in sorted(optimizer.state[parameter].items()):
            digest.update(key.encode() + whole(value).numpy().tobytes())
    digest.update(repr([group["lr"] for group in optimizer.param_groups]).encode())
    return digest.hexdigest()


class Trainer:
    def __init__(self, args):
        self.args = args
        images, labels = read_digits(args.data)
        self.training = images[:-HELD_OUT], labels[:-HELD_OUT]
        self.held_out = images[-HELD_OUT:], labels[-HELD_OUT:]
        torch.manual_seed(args.seed)
        self.model = shard(make_model(args.norm), args.parallel, args.world)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 50, 0.5)
        count = len(self.training[0])
        self.data = {"position": count, "order": torch.arange(count)}  # the next step begins an epoch
        torch.manual_seed(args.seed + 1000 * args.rank)  # each rank's own dropout

    def state(self):
        return {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler, "data": self.data,
                "random": ckpt.random_states()}

    def train_step(self):
        count = len(self.training[0])
        if self.data["position"] + BATCH > count:
            order = torch.randperm(count)
            if self.args.world > 1:
                dist.broadcast(order, 0)
            self.data = {"position": 0, "order": order}
        share = BATCH // self.args.world
        begin = self.data["position"] + self.args.rank * share
        mine = self.data["order"][begin:begin + share]
        self.data["position"] += BATCH
        loss = nn.functional.cross_entropy(self.model(self.training[0][mine]), self.training[1][mine])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        mean = loss.detach()
        if self.args.world > 1:
            dist.all_reduce(mean)
        return mean.item() / self.args.world

    def accuracy(self):
        self.model.eval()
        with torch.no_grad():
            right = (self.model(self.held_out[0]).argmax(1) == self.held_out[1]).sum().item()
        return f"accuracy: {right} of {HELD_OUT} held-out digits"

    def report(self, what, step):
        random = hashlib.blake2b(torch.get_rng_state().numpy().tobytes(), digest_size=8).hexdigest()
        print(f"rank {self.args.rank} of {self.args.world}: {what} step {step}, state "
              f"{fingerprint(self.model, self.optimizer)}, random {random}", flush=True)

    def resume(self, keeper):
        """The step that the run goes on from."""
        state = self.state()
        restored = keeper.restore(state)
        if restored is None:
            return 0
        self.data = state["data"]
        self.report("loaded", restored.step)
        return restored.step

    def run(self):
        args = self.args
        with open(args.losses, "w") as losses, ckpt.Checkpointer(
                args.store, every=args.save_every, keep_last=4, timeout_ms=30000) as keeper:
            for step in range(self.resume(keeper) + 1, args.steps + 1):
                loss = self.train_step()
                print(step, loss.hex(), f"{loss:.6f}", file=losses, flush=True)
                if keeper.step(step, self.state()):
                    self.report("saved", step)
                if step == args.die_at_step:
                    os.kill(os.getpid(), signal.SIGKILL)
                if keeper.stopping:
                    print(f"stopped after step {step}: {keeper.stopping}", flush=True)
                    return
        accuracy = self.accuracy()
        if args.rank == 0:
            print(f"{accuracy}, after step {args.steps}")


def main():
    args = arguments()
    if BATCH % args.world or (args.parallel == "hsdp" and args.world % 2):
        sys.exit(f"--world {args.world}: expected a divisor of {BATCH}, and of two replicas for hsdp")
    torch.set_num_threads(1)  # ranks share the machine; also keeps the order of additions
    if args.world > 1:
        dist.init_process_group("gloo", init_method="file://" + args.rendezvous, rank=args.rank,
                                world_size=args.world, timeout=timedelta(seconds=60))
    Trainer(args).run()
    if args.world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
