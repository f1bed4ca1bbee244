"""Directories as hfai's dist_ckpt writes them: our own code after the behaviour of shared/seeds/hfai_dist_ckpt.txt.

Ranks are played one after another: what a rank saves is a function of (rank, number of ranks). What counts as a large
tensor is an argument, so that tests need no gigabytes.
"""
import os
import shutil

from quick_torch import torch
from torch import nn, optim

import describe
import zoo_classes as classes

VERSION = "2.0.0"
LARGE = 256 << 20


# ---- save ----

def by_turns(entries, rank, ranks):
    return {key: value for i, (key, value) in enumerate(entries.items()) if i % ranks == rank}


def in_runs(entries, rank, ranks):
    each = -(-len(entries) // ranks)
    return dict(list(entries.items())[rank * each:(rank + 1) * each])


def is_large(tensor, large):
    return tensor.numel() * tensor.element_size() > large and tensor.layout == torch.strided


def share_of(tensor, rank, ranks):
    """(shape, this rank's row of elements); the clone keeps the rest of the storage out of the file."""
    return tensor.shape, tensor.contiguous().view(-1).chunk(ranks)[rank].clone()


def model_part(model, rank, ranks, large, split):
    parameters = model.state_dict()
    buffers = {name: parameters.pop(name) for name, _ in model.named_buffers() if name in parameters}
    cut = {name: share_of(parameters.pop(name), rank, ranks)
                          for name in list(parameters) if is_large(parameters[name], large)}
    mine = split(parameters, rank, ranks)
    if rank == 0:
        mine.update(buffers)
    return mine, cut


def optimizer_part(optimizer, rank, ranks, large, split):
    said = optimizer.state_dict().copy()
    state, cut = said["state"].copy(), {}
    for outer in list(state):
        if not isinstance(state[outer], dict):
            continue
        for inner, value in list(state[outer].items()):
            if isinstance(value, torch.Tensor) and is_large(value, large):
                cut[(outer, inner)] = share_of(value, rank, ranks)
                state[outer] = state[outer].copy()
                del state[outer][inner]
    said["state"] = split(state, rank, ranks)
    return said, cut


def part(models, optimizers, others, rank, ranks, large=LARGE, split=by_turns):
    state = {"__nshards__": ranks, "__version__": VERSION,
             "model": [model_part(model, rank, ranks, large, split) for model in models],
             "optimizer": [optimizer_part(optimizer, rank, ranks, large, split) for optimizer in optimizers]}
    if rank == 0:
        state.update(others)
    return state


def save(folder, models, optimizers, others, ranks, **how):
    os.makedirs(folder)
    for rank in range(ranks):
        torch.save(part(models, optimizers, others, rank, ranks, **how), os.path.join(folder, f"PART_{rank:03d}.pt"))


# ---- load ----

def joined(pieces):
    """{key: tensor} of [{key: (shape, row)}] of all ranks."""
    shapes, rows = {}, {}
    for piece in pieces:
        for key, (shape, row) in piece.items():
            shapes[key] = shape
            rows.setdefault(key, []).append(row)
    return {key: torch.cat(rows[key], dim=0).view(*shapes[key]) for key in rows}


def load_model(shares):
    parameters = {}
    for mine, _ in shares:
        parameters.update(mine)
    large = joined([cut for _, cut in shares])
    assert not large.keys() & parameters.keys()
    return {**parameters, **large}


def load_optimizer(shares):
    whole = shares[0][0]
    for said, _ in shares[1:]:
        whole["state"].update(said["state"])
    for (outer, inner), tensor in joined([cut for _, cut in shares]).items():
        assert inner not in whole["state"][outer]
        whole["state"][outer][inner] = tensor
    return whole


def load(folder, **options):
    ranks = len([name for name in os.listdir(folder) if name.startswith("PART_")])
    states = [torch.load(os.path.join(folder, f"PART_{rank:03d}.pt"), **options) for rank in range(ranks)]
    first = states[0]
    assert first["__version__"] == VERSION and all(state["__nshards__"] == ranks for state in states)
    for kind, one in (("model", load_model), ("optimizer", load_optimizer)):
        made = [one([state[kind][i] for state in states]) for i in range(len(first[kind]))]
        if made:
            first[kind] = made[0] if len(made) == 1 else made
    return first


# ---- the cases ----

def trained(model, kind, **settings):
    made = getattr(optim, kind)(model.parameters(), **settings)
    for step in range(2):
        made.zero_grad()
        sum((parameter * (step + 1)).pow(2).sum() for parameter in model.parameters()).backward()
        made.step()
    return made


def odd():
    """Sizes that no number of ranks divides, a parameter of no elements, keys that look like numbers and paths."""
    model = nn.Module()
    model.register_parameter("0", nn.Parameter(torch.randn(7, 11)))
    model.register_parameter("empty", nn.Parameter(torch.randn(0, 3)))
    model.register_parameter("scalar", nn.Parameter(torch.randn(())))
    model.register_parameter("turned", nn.Parameter(torch.randn(5, 9).t()))
    model.register_buffer("bf16", torch.randn(40).bfloat16())
    model.register_buffer("mask", torch.arange(100) % 3 == 0)
    return model


def half():
    return nn.Sequential(nn.Linear(9, 10), nn.LayerNorm(10)).bfloat16()


def cases():
    """name -> (models, optimizers, others, how)."""
    torch.manual_seed(11)
    net, tied, odd_one, low = classes.Net(), classes.Tied(), odd(), half()
    others = {"epoch": 3, "step": 17, "losses": [1.0, 0.5], "rng": torch.get_rng_state(), "note": "ключ",
              "extra": {"ema": {"w": torch.ones(3), 0: (1, None)}}}
    made = {"nothing_cut": ([net], [trained(net, "Adam")], others, {}),
            "one_model": ([net], [trained(net, "Adam")], others, {"large": 64}),
            "in_runs": ([net], [trained(net, "AdamW")], {"epoch": 1}, {"large": 256, "split": in_runs}),
            "tied": ([tied], [trained(tied, "SGD", lr=0.1, momentum=0.9)], {}, {"large": 400}),
            "two_of_each": ([net, tied], [trained(net, "Adagrad"), trained(tied, "RMSprop")], others, {"large": 100}),
            "no_optimizer": ([odd_one], [], {"epoch": 0}, {"large": 30}),
            "no_state": ([odd_one], [optim.Adam(odd_one.parameters())], {}, {"large": 30}),
            "odd_sizes": ([odd_one], [trained(odd_one, "Adam")], others, {"large": 30}),
            "half": ([low], [trained(low, "Adam")], {}, {"large": 40}),
            "three_models": ([net, odd_one, low], [trained(net, "SGD", lr=0.1)], {"epoch": 2}, {"large": 1000})}
    return made


def unsharded(models, optimizers, others):
    """What load gives of it: state_dicts as plain dicts."""
    state = {"model": [dict(model.state_dict()) for model in models],
             "optimizer": [optimizer.state_dict() for optimizer in optimizers], **others}
    for kind in ("model", "optimizer"):
        if len(state[kind]) == 1:
            state[kind] = state[kind][0]
    return state


def bad(folder):
    """folder/NAME/PART_*.pt, each wrong in one way."""
    torch.manual_seed(12)
    net, other = classes.Net(), classes.Tied()
    adam = trained(net, "Adam")

    def parts(ranks=3, models=(net,), optimizers=(adam,), large=100):
        return [part(models, optimizers, {"epoch": 1}, rank, ranks, large=large) for rank in range(ranks)]

    def put(name, states, numbers=None):
        os.makedirs(os.path.join(folder, name))
        for number, state in zip(numbers or range(len(states)), states):
            torch.save(state, os.path.join(folder, name, f"PART_{number:03d}.pt"))

    def changed(name, change):
        states = parts()
        change(states)
        put(name, states)

    def row(state):
        return state["model"][0][1]

    put("missing_part", parts()[:1] + parts()[2:], (0, 2))
    put("missing_first", parts()[1:], (1, 2))
    put("missing_last", parts()[:2])
    put("more_parts", parts() + parts()[2:])
    put("nothing", [])
    put("other_content", [{"w": torch.ones(2)}, {"w": torch.ones(2)}])
    put("a_list", [[1, 2]])
    put("numbers_of_parts_differ", parts()[:2] + parts(4)[2:3])
    put("part_of_other_models", parts()[:2] + parts(models=(other,), optimizers=())[2:])
    put("part_of_two_models", parts()[:2] + parts(models=(net, net))[2:])
    put("same_part_twice", parts()[:2] + parts()[1:2])
    changed("old_version", lambda states: [state.update(__version__="1.0.0") for state in states])
    changed("no_version", lambda states: [state.pop("__version__") for state in states])
    changed("version_of_one_part", lambda states: states[1].update(__version__="1.0.0"))
    changed("no_number_of_parts", lambda states: [state.pop("__nshards__") for state in states])
    changed("number_is_text", lambda states: [state.update(__nshards__="3") for state in states])
    changed("row_too_short", lambda states: row(states[1]).update(
        {key: (shape, value[:-1]) for key, (shape, value) in row(states[1]).items()}))
    changed("row_of_another_dtype", lambda states: row(states[1]).update(
        {key: (shape, value.double()) for key, (shape, value) in row(states[1]).items()}))
    changed("row_of_another_shape", lambda states: row(states[1]).update(
        {key: (torch.Size([7]), value) for key, (shape, value) in row(states[1]).items()}))
    changed("row_missing", lambda states: row(states[1]).clear())
    changed("whole_and_cut", lambda states: states[0]["model"][0]
            [0].update({next(iter(row(states[0]))): torch.ones(1)}))
    changed("row_is_a_matrix", lambda states: row(states[1]).update(
        {key: (shape, value.view(1, -1)) for key, (shape, value) in row(states[1]).items()}))


def write(folder):
    """folder/CASE.RANKS/ and what torch says of it, in folder/index.json's form; the names of the cases."""
    said = {}
    for name, (models, optimizers, others, how) in cases().items():
        for ranks in (1, 2, 3, 8):
            place = os.path.join(folder, f"{name}.{ranks}")
            smallest = {8: 64}.get(ranks, 0)  # chunk() gives fewer than 8 rows of what has fewer than 57 elements or so
            save(place, models, optimizers, others, ranks, **dict(how,
                                                                  large=max(how.get("large", LARGE), 4 * smallest)))
            again = describe.Describer().value(load(place))
            whole = describe.Describer().value(unsharded(models, optimizers, others))
            said[f"{name}.{ranks}"] = {"loaded": again, "whole": whole}
    bad(os.path.join(folder, "bad"))
    return said


def clear(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
