"""OLMo 0.6.0: each of its checkpointers saves a small OLMo on two ranks; FullCheckpointer restores what ckpt wrote."""
import os
import shutil
import sys

import said
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import FullyShardedDataParallel

SHARDED = ("TorchNewStyleSharded", "TorchLegacySharded", "LocalSharded", "OlmoCore")
TRAINER = {"epoch": 0, "global_step": 2, "checkpoints": []}


def settings(name):
    from olmo.config import ShardedCheckpointerType, TrainConfig
    config = TrainConfig(run_name="r", save_overwrite=True)
    kinds = {"TorchNewStyleSharded": "torch_new", "TorchLegacySharded": "torch_legacy", "LocalSharded": "local",
             "OlmoCore": "olmo_core"}
    if name in kinds:
        config.sharded_checkpointer = ShardedCheckpointerType(kinds[name])
    return config


def build():
    from olmo.config import ModelConfig
    from olmo.model import OLMo
    torch.manual_seed(1)
    return OLMo(ModelConfig(d_model=8, n_heads=2, n_layers=1, mlp_hidden_size=10, vocab_size=7, embedding_size=7,
                            max_sequence_length=8, init_device="cpu", rope=True, weight_tying=False))


def trained(model):
    names = [name.replace("_fsdp_wrapped_module.", "") for name, _ in model.named_parameters()]
    names = [name.removeprefix("module.") for name in names]
    optimizer = torch.optim.AdamW([{"params": list(model.parameters()), "param_names": names}], lr=0.01)
    for step in range(2):
        torch.manual_seed(10 * step + dist.get_rank())
        model(torch.randint(0, 7, (2, 5))).logits.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return names, optimizer


def checkpointer(name):
    import olmo.checkpoint
    return getattr(olmo.checkpoint, f"{name}Checkpointer")(settings(name))


def full(folder):
    model = torch.nn.parallel.DistributedDataParallel(build())
    _, optimizer = trained(model)
    checkpointer("Full").save_checkpoint(folder, model, optimizer, TRAINER)
    return {"model": model.module.state_dict(), "optim": optimizer.state_dict()}


def sharded(name, folder):
    model = build()
    wrap = {"use_orig_params": True, "device_id": torch.device("cpu")}
    model.transformer.blocks[0] = FullyShardedDataParallel(model.transformer.blocks[0], **wrap)
    model = FullyShardedDataParallel(model, **wrap)
    names, optimizer = trained(model)
    checkpointer(name).save_checkpoint(folder, model, optimizer, TRAINER)
    # FSDP's own full states die on CPUs (torch 2.2.2). What each rank has of each weight and state is a part of its
    # elements in a row: one after another they are all.
    shapes = {of: value.shape for of, value in build().state_dict().items()}
    mine = [{"weight": parameter.detach(), **optimizer.state_dict()["state"].get(i, {})}
            for i, parameter in enumerate(model.parameters())]
    ranks = [None, None]
    dist.all_gather_object(ranks, mine)

    def whole(i, slot):
        return torch.cat([of[i][slot].flatten() for of in ranks if slot in of[i]]).view(shapes[names[i]])
    slots = {i if name == "LocalSharded" else of: {slot: whole(i, slot) for slot in ("exp_avg", "exp_avg_sq")}
             for i, of in enumerate(names)}
    return {"model": {of: whole(i, "weight") for i, of in enumerate(names)}, "optim": {"state": slots}}


def work(rank, port, folder, name):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), LOCAL_RANK=str(rank),
                      WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", FS_LOCAL_RANK=str(rank))
    torch.cuda.synchronize = torch.cuda.memory_summary = lambda *_, **__: ""
    dist.init_process_group("gloo", rank=rank, world_size=2)
    state = full(folder) if name == "Full" else sharded(name, folder)
    if rank == 0:
        torch.save(state, f"{folder}.said.pt")
    dist.barrier()
    dist.destroy_process_group()


def write(work_folder):
    for number, name in enumerate(("Full", *SHARDED)):
        folder = os.path.join(work_folder, f"{name}-step2")
        shutil.rmtree(folder, ignore_errors=True)
        mp.spawn(work, (29750 + number, folder, name), nprocs=2)
        state = torch.load(f"{folder}.said.pt")
        if name == "Full":
            said.case(name, f"{name}-step2", {**state, "train": TRAINER}, exports={"again": {"format": "olmo"}})
        else:
            part = [f"/model/{key}" for key in state["model"]]
            part += [f"/optim/state/{key}/{slot}" for key, slots in state["optim"]["state"].items() for slot in slots]
            said.case(name, f"{name}-step2", state, part=part)
    from importlib.metadata import version
    said.write(work_folder, f"ai2-olmo {version('ai2-olmo')}, torch {torch.__version__}")


def restore(rank, port, work_folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK="0", LOCAL_RANK="0", WORLD_SIZE="1",
                      LOCAL_WORLD_SIZE="1", FS_LOCAL_RANK="0")
    dist.init_process_group("gloo", rank=0, world_size=1)
    found = []
    for name in ("Full-step2", "again"):
        model = torch.nn.parallel.DistributedDataParallel(build())
        _, optimizer = trained(model)
        trainer = checkpointer("Full").restore_checkpoint(os.path.join(work_folder, name), model, optimizer)
        found.append({"model": model.module.state_dict(), "optim": optimizer.state_dict(), "train": trainer})
    said.must_equal(*found, "FullCheckpointer")
    said.must_equal(torch.load(os.path.join(work_folder, "Full-step2.said.pt"))["model"], found[1]["model"], "model")
    dist.destroy_process_group()


def check(work_folder):
    mp.spawn(restore, (29760, work_folder), nprocs=1)


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](sys.argv[2])
