"""States of torch that are spread over ranks: saved under one layout, loaded under another, on other numbers of ranks,
bit for bit what torch itself gathers. Four processes serve all tests; gloo on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ckpt
import pytest

pytestmark = pytest.mark.torch
SIZES = {"none": 1, "ddp": 2, "fsdp1": 3, "fsdp1_orig": 4, "fsdp1_hybrid": 4, "fsdp1_no_shard": 2, "fsdp2": 3,
         "hsdp": 4, "tp": 2, "tp_fsdp": 4, "tp_ddp": 4}
TIED = ["none", "ddp", "fsdp1", "fsdp1_orig", "fsdp2", "hsdp"]  # tensor parallel unties


def differences(found: Any, wanted: Any) -> dict[str, Any]:
    """The values that are not equal bit for bit, by name."""
    import torch

    def same(a: Any, b: Any) -> bool:
        return torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b

    return {name: (found.get(name), wanted.get(name)) for name in {**wanted, **found}
            if not same(found.get(name), wanted.get(name))}


# ---- what the ranks do ----


def save_and_go_on(layout: str, net: str, path: str) -> tuple[Any, Any]:
    """The gathered state at the save, and one step later."""
    import sharded_layouts as layouts
    made = layouts.trainer(layout, getattr(layouts, net), 0, steps=2)
    made.evaluate()
    ckpt.save(path, made.state(), step=2)
    saved = layouts.gathered(made)
    made.step(2)
    return saved, layouts.gathered(made)


def load_and_go_on(layout: str, net: str, path: str, steps: int) -> tuple[Any, Any]:
    """The same after a load into a trainer that began otherwise, and has made this number of steps."""
    import sharded_layouts as layouts
    made = layouts.trainer(layout, getattr(layouts, net), 1, steps)
    made.evaluate()
    back = ckpt.load(path, into=made.state())
    assert all(back[key] is value for key, value in made.state().items())
    loaded = layouts.gathered(made)
    made.step(2)
    return loaded, layouts.gathered(made)


def cases(layouts: list[str], net: str) -> list[Any]:
    """Each layout, with itself and the three after it."""
    return [pytest.param(layout, net, [layouts[(place + more) % len(layouts)] for more in range(4)],
                         id=f"{layout}-{net}") for place, layout in enumerate(layouts)]


@pytest.mark.parametrize("layout,net,others", cases(list(SIZES), "Net") + cases(TIED, "Tied"))
def test_a_state_comes_back_under_every_layout_as_torch_gathers_it(ranks: Any, tmp_path: Path, layout: str, net: str,
                                                                   others: list[str]) -> None:
    path, wrong = str(tmp_path / "s"), {}
    saved, later = ranks(SIZES[layout], save_and_go_on, layout, net, path)[0]
    for steps, other in enumerate(others):
        loaded, after = ranks(SIZES[other], load_and_go_on, other, net, path, steps % 2)[0]
        wrong[other] = differences(loaded, saved) or (differences(after, later) if other == layout else {})
    assert not any(wrong.values()), wrong


# ---- what the matrix does not have ----


def save_averages(path: str) -> Any:
    import torch
    from torch import nn
    net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    net(torch.randn(4, 2, generator=torch.Generator().manual_seed(torch.distributed.get_rank())))
    ckpt.save(path, {"model": net}, step=1)
    return net.module[1].running_mean


def test_of_ddp_the_first_ranks_buffers_are_saved(ranks: Any, tmp_path: Path) -> None:
    first, second = ranks(2, save_averages, str(tmp_path / "s"))
    assert first.tolist() != second.tolist()
    assert ckpt.load(tmp_path / "s", framework="torch")["model"]["1.running_mean"].tolist() == first.tolist()


def save_under_another_default_device(path: str) -> Any:
    import torch
    averages = torch.ones(4)
    with torch.device("meta"):  # stands for "cuda", which training scripts set for the whole process
        ckpt.save(path, {"averages": averages}, step=1)
    return averages


def test_the_default_device_of_new_tensors_is_not_that_of_what_ranks_exchange(ranks: Any, tmp_path: Path) -> None:
    (wanted, _) = ranks(2, save_under_another_default_device, str(tmp_path / "s"))
    assert not differences(ckpt.load(tmp_path / "s", framework="torch"), {"averages": wanted})


def stages(rank: int, size: int, seed: int) -> tuple[Any, Any]:
    """A stage for each rank, with an expert of its own, and an embedding that the first and last rank both have."""
    import torch
    torch.manual_seed(seed)
    model = torch.nn.ModuleDict({f"stage{number}": torch.nn.Linear(3, 3 + number) for number in range(4)
                                 if number * size // 4 == rank})
    torch.manual_seed(seed)
    if rank in (0, size - 1):
        model["embedding"] = torch.nn.Embedding(5, 2)
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.5},
              {"params": [p for p in model.parameters() if p.dim() == 1], "lr": 0.1 + seed}]
    optimizer = torch.optim.AdamW(groups, lr=0.01)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    optimizer.step()
    return model, optimizer


def save_stages(path: str) -> dict[str, Any]:
    import torch.distributed as dist
    model, optimizer = stages(dist.get_rank(), dist.get_world_size(), 0)
    ckpt.save(path, {"model": model, "optimizer": optimizer}, step=1)
    ckpt.save(path, {"model": model, "optimizer": optimizer}, step=2)
    return described(model, optimizer)


def load_stages(path: str) -> dict[str, Any]:
    import torch.distributed as dist
    model, optimizer = stages(dist.get_rank(), dist.get_world_size(), 1)
    ckpt.load(path, into={"model": model, "optimizer": optimizer})
    return described(model, optimizer)


def described(model: Any, optimizer: Any) -> dict[str, Any]:
    out = {name: value.clone() for name, value in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        out |= {f"{name}/{key}": value.clone() for key, value in optimizer.state[parameter].items()}
    return {**out, "lr": [group["lr"] for group in optimizer.param_groups]}


def test_pipeline_stages_move_to_another_number_of_ranks(ranks: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    saved = {name: value for said in ranks(4, save_stages, path) for name, value in said.items()}
    assert len(saved) == (4 * 2 + 1) * 4 + 1
    for size in (2, 1):
        loaded = {name: value for said in ranks(size, load_stages, path) for name, value in said.items()}
        assert not differences(loaded, saved)
    whole = ckpt.load(tmp_path / "s", framework="torch")
    assert sorted(whole["optimizer"]["param_groups"][1]["params"]) == [f"stage{number}.bias" for number in range(4)]


def save_tied_on_one(path: str) -> dict[str, Any]:
    import torch
    import torch.distributed as dist
    rank, w = dist.get_rank(), torch.arange(12.0).reshape(4, 3)
    state = {f"{rank}.{number}": torch.full((2,), rank + number) for number in range(2)}
    state |= {"tied": w, "head": w, "tail": w[2:]} if rank == 0 else {"tail": w[2:]}
    state |= {} if rank == 0 else {f"{rank}.low": w[:3], f"{rank}.high": w[1:]}
    ckpt.save(path, state, step=1)
    return state


def test_memory_that_one_rank_shares_is_whole_on_another(ranks: Any, tmp_path: Path) -> None:
    said = ranks(3, save_tied_on_one, str(tmp_path / "s"))
    back = ckpt.load(tmp_path / "s", framework="torch")
    assert not differences(back, {name: value for state in said for name, value in state.items()})
    assert back["tied"].data_ptr() == back["head"].data_ptr()


def save_own_objects(path: str) -> list[bool]:
    import torch
    import torch.distributed as dist
    rank = dist.get_rank()
    model = torch.nn.Linear(2, 2)
    torch.nn.init.constant_(model.weight, rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=rank + 1.0, momentum=0.5)
    model(torch.full((2,), rank + 1.0)).sum().backward()
    optimizer.step()
    momentum = optimizer.state[model.weight]["momentum_buffer"].clone()
    state = {"own": ckpt.PerRank({"model": model, "optimizer": optimizer}), "step": 1}
    ckpt.save(path, state, step=1)
    weight = model.weight.detach().clone()
    torch.nn.init.zeros_(model.weight)
    optimizer.state.clear()
    optimizer.param_groups[0]["lr"] = 0.0
    ckpt.load(path, into=state, rank=rank)
    return [torch.equal(model.weight, weight), optimizer.param_groups[0]["lr"] == rank + 1,
            torch.equal(optimizer.state[model.weight]["momentum_buffer"], momentum)]


def test_objects_may_be_each_ranks_own(ranks: Any, tmp_path: Path) -> None:
    assert ranks(3, save_own_objects, str(tmp_path / "s")) == [[True] * 3] * 3


def save_on_one_rank(path: str) -> None:
    import torch
    import torch.distributed as dist
    if dist.get_rank() == 1:
        with ckpt.Session(ckpt.Store(path)) as session:
            ckpt.save(session, {"w": torch.ones(2)}, step=1)
    dist.barrier()


def test_one_rank_saves_alone_with_a_session_of_its_own(ranks: Any, tmp_path: Path) -> None:
    ranks(2, save_on_one_rank, str(tmp_path / "s"))
    assert ckpt.ls(tmp_path / "s")[0].world_size == 1


def save_three_in_the_background(path: str) -> None:
    import torch
    w = torch.zeros(100_000)
    for number in range(1, 4):
        w.fill_(number)
        ckpt.save_async(path, {"w": w}, step=number)
    w.fill_(0)
    ckpt.save(path, {"w": w}, step=4)


def test_saves_in_the_background_follow_one_another_in_the_session_of_a_path(ranks: Any, tmp_path: Path) -> None:
    ranks(3, save_three_in_the_background, str(tmp_path / "s"))
    infos = ckpt.ls(tmp_path / "s")
    assert [info.step for info in infos] == [1, 2, 3, 4] and len({info.token for info in infos}) == 1
    assert all((ckpt.load(tmp_path / "s", f"step-{n}")["w"] == n % 4).all() for n in range(1, 5))


def save_drifted(layout: str, path: str) -> str:
    import sharded_layouts as layouts
    import torch
    import torch.distributed as dist
    made = layouts.trainer(layout, layouts.Net, 0)
    with torch.no_grad():
        if dist.get_rank() == dist.get_world_size() - 1:
            found = made.model.module.up.bias if layout == "ddp" else made.model.up.bias.to_local()
            found += 1
    try:
        ckpt.save(path, made.state(), step=1)
    except ckpt.Error as error:
        return f"{type(error).__name__} {error.details.get('tensor')} {error.details.get('ranks')}"
    return "saved"


@pytest.mark.parametrize("layout,apart", [("ddp", "0, 1"), ("hsdp", "1, 3")])
def test_replicas_that_drifted_apart_are_named(ranks: Any, tmp_path: Path, layout: str, apart: str) -> None:
    said = ranks(SIZES[layout], save_drifted, layout, str(tmp_path / "s"))
    assert said[0] == f"MismatchError model/up.bias {apart}" and "saved" not in said


def save_strided(path: str) -> Any:
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.distributed.tensor.placement_types import _StridedShard
    whole = torch.arange(13 * 6.0).reshape(13, 6)
    mesh = init_device_mesh("cpu", (2, 2))
    state = {str(number): distribute_tensor(whole, mesh, placements, src_data_rank=None)
             for number, placements in enumerate((
                 [Shard(0), _StridedShard(0, split_factor=2)], [_StridedShard(0, split_factor=2), Shard(0)],
                 [Shard(1), Shard(0)], [_StridedShard(1, split_factor=3), Shard(0)]))}
    ckpt.save(path, state, step=1)
    saved = [value.to_local().clone() for value in state.values()]
    for value in state.values():
        value.to_local().zero_()
    ckpt.load(path, into=state)
    return [torch.equal(value.to_local(), local) for value, local in zip(state.values(), saved)]


def test_a_shard_in_several_places_is_several_boxes(ranks: Any, tmp_path: Path) -> None:
    import torch
    answers = ranks(4, save_strided, str(tmp_path / "s"))
    back = ckpt.load(tmp_path / "s", framework="torch")
    assert all(torch.equal(value, torch.arange(13 * 6.0).reshape(13, 6)) for value in back.values()) and len(back) == 4
    assert answers == [[True] * 4] * 4


def save_sharded_dicts(path: str) -> Any:
    import sharded_layouts as layouts
    from torch.distributed.fsdp import FullyShardedDataParallel, StateDictType
    made = layouts.trainer("fsdp1", layouts.Net, 0, steps=1)
    with FullyShardedDataParallel.state_dict_type(made.model, StateDictType.SHARDED_STATE_DICT):
        state = {"model": made.model.state_dict()}
    ckpt.save(path, state, step=1)
    wanted = layouts.gathered(made)
    for value in state["model"].values():
        for shard in value.local_shards() if hasattr(value, "local_shards") else ():
            shard.tensor.zero_()
    ckpt.load(path, into=state)
    return wanted, layouts.gathered(made)


def test_sharded_state_dicts_of_fsdp1_are_taken_as_values(ranks: Any, tmp_path: Path) -> None:
    import torch
    wanted, filled = ranks(3, save_sharded_dicts, str(tmp_path / "s"))[0]
    back = ckpt.load(tmp_path / "s", framework="torch")["model"]
    assert {f"model/{name}" for name in back} == {name for name in wanted if name.startswith("model/")}
    assert all(torch.equal(value, wanted[f"model/{name}"]) for name, value in back.items())
    assert not differences(filled, wanted)


def load_meta(path: str) -> Any:
    import sharded_layouts as layouts
    import torch
    from torch.distributed.fsdp import fully_shard
    with torch.device("meta"):
        model = layouts.Tied()
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    before = [id(parameter) for parameter in model.parameters()]
    made = layouts.Trainer(model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5))
    ckpt.load(path, into=made.state())
    assert before == [id(parameter) for parameter in model.parameters()]
    assert model.again.weight is model.up.weight and not model.up.weight.is_meta
    model.scratch = torch.zeros(2)
    loaded = layouts.gathered(made)
    made.step(2)
    return loaded, layouts.gathered(made)


def test_a_model_on_the_meta_device_is_given_its_shards(ranks: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    saved, later = ranks(3, save_and_go_on, "fsdp2", "Tied", path)[0]
    loaded, after = ranks(3, load_meta, path)[0]
    assert not differences(loaded, saved)
    assert {name: value for name, value in differences(after, later).items() if name.startswith("model/")} == {}


def save_what_one_rank_cannot(path: str) -> str:
    import torch
    import torch.distributed as dist
    try:
        ckpt.save(path, {"w": torch.ones(2), "odd": object() if dist.get_rank() == 1 else 1}, step=1)
    except (ckpt.Error, TypeError) as error:
        ckpt.save(path, {"w": torch.ones(2)}, step=2)
        return f"{type(error).__name__}: {error}"
    return ""


def test_a_rank_that_cannot_save_its_state_tells_the_others(ranks: Any, tmp_path: Path) -> None:
    said = ranks(3, save_what_one_rank_cannot, str(tmp_path / "s"))
    assert said[1].startswith("TypeError: state at 'odd': a value of type builtins.object cannot be saved: give its ")
    assert said[0] == said[2] and said[0].startswith("AbortedError") and "rank 1" in said[0]
    with ckpt.Store(tmp_path / "s") as store:
        assert [info.step for info in store.list() if info.state == ckpt.CheckpointState.COMMITTED] == [2]
        assert len({info.token for info in store.list()}) == 1  # one session


def test_groups_of_an_optimizer_are_found_by_the_names_of_their_parameters(torch: Any, tmp_path: Path) -> None:
    def made(order: list[str]) -> tuple[Any, Any]:
        model = torch.nn.Linear(2, 3)
        return model, torch.optim.SGD([{"params": [getattr(model, name)], "lr": len(name)} for name in order],
                                      momentum=0.5)

    model, optimizer = made(["weight", "bias"])
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    ckpt.save(tmp_path / "s", {"model": model, "optimizer": optimizer})
    other, tuner = made(["bias", "weight"])
    for group in tuner.param_groups:
        group["lr"] = 0.0
    ckpt.load(tmp_path / "s", into={"model": other, "optimizer": tuner})
    assert [group["lr"] for group in tuner.param_groups] == [4, 6]
    assert torch.equal(tuner.state[other.weight]["momentum_buffer"], optimizer.state[model.weight]["momentum_buffer"])
    with pytest.raises(ckpt.InvalidError, match="model"):
        ckpt.load(tmp_path / "s", into={"optimizer": tuner})
    ckpt.save(tmp_path / "n", {"optimizer": optimizer.state_dict()})  # by number, as torch has it
    fresh = torch.optim.SGD([{"params": [model.weight], "lr": 1}, {"params": [model.bias], "lr": 1}], momentum=0.5)
    ckpt.load(tmp_path / "n", into={"optimizer": fresh})
    assert torch.equal(fresh.state[model.bias]["momentum_buffer"], optimizer.state[model.bias]["momentum_buffer"])
    assert fresh.param_groups[0]["lr"] == 6


@pytest.mark.parametrize("steps", [0, 1])
def test_learning_rates_and_counters_change_in_place(torch: Any, tmp_path: Path, steps: int) -> None:
    def made(lr: float, steps: int) -> tuple[Any, Any]:
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(lr), foreach=False)
        for _ in range(steps):
            model(torch.ones(2)).sum().backward()
            optimizer.step()
        return model, optimizer

    for label in ("by name", "by number"):
        model, optimizer = made(0.5, 3)
        both = {"model": model, "optimizer": optimizer}
        ckpt.save(tmp_path / label, both if label == "by name" else {"optimizer": optimizer})
        other, tuner = made(0.25, steps)
        group, counter = tuner.param_groups[0], tuner.state[other.weight].get("step")
        rate = group["lr"]
        into = {"model": other, "optimizer": tuner} if label == "by name" else {"optimizer": tuner}
        ckpt.load(tmp_path / label, into=into)
        assert tuner.param_groups[0] is group and group["lr"] is rate and rate == 0.5
        assert tuner.state[other.weight]["step"] == 3 and counter in (None, 3)


def test_an_optimizer_with_other_groups_is_refused_where_parameters_have_numbers_only(torch: Any,
                                                                                      tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"optimizer": torch.optim.SGD(torch.nn.Linear(2, 2).parameters())})
    fewer = torch.optim.SGD(torch.nn.Linear(2, 2, bias=False).parameters())
    with pytest.raises(ckpt.MismatchError, match=r"groups of \[1\] parameters, saved by number in groups of \[2\]"):
        ckpt.load(tmp_path / "s", into={"optimizer": fewer})


def test_an_optimizer_without_state_takes_all_of_it_under_strict_exact(torch: Any, tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    ckpt.save(tmp_path / "s", {"model": model, "optimizer": optimizer})
    fresh = torch.optim.AdamW(model.parameters())
    ckpt.load(tmp_path / "s", into={"model": model, "optimizer": fresh}, strict="exact")
    assert fresh.state[model.weight]["step"] == 1


def test_state_that_wraps_tensors_is_filled_or_made_again(torch: Any, tmp_path: Path) -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    def made(value: float | None) -> tuple[Any, Any]:
        model = torch.nn.Linear(2, 2, bias=False)
        optimizer = torch.optim.SGD(model.parameters(), momentum=0.5)
        if value is not None:
            optimizer.state[model.weight]["momentum_buffer"] = TwoTensor(*[torch.full((2, 2), value)] * 2)
        return model, optimizer

    model, optimizer = made(3.0)
    ckpt.save(tmp_path / "s", {"model": model, "optimizer": optimizer})
    other, tuner = made(0.0)
    ckpt.load(tmp_path / "s", into={"model": other, "optimizer": tuner})
    assert tuner.state[other.weight]["momentum_buffer"].a.tolist() == [[3, 3]] * 2
    other, tuner = made(None)
    ckpt.load(tmp_path / "s", into={"model": other, "optimizer": tuner})
    buffer = tuner.state[other.weight]["momentum_buffer"]
    assert type(buffer) is TwoTensor and buffer.b.tolist() == [[3, 3]] * 2


def test_a_model_stays_on_the_meta_device_where_there_is_no_checkpoint(torch: Any, tmp_path: Path) -> None:
    with torch.device("meta"):
        model = torch.nn.Linear(2, 2)
    with pytest.raises(ckpt.NotFoundError):
        ckpt.load(tmp_path / "s", into={"model": model})
    assert model.weight.is_meta


def test_strict_exact_refuses_what_a_module_lacks_and_missing_names_are_told(torch: Any, tmp_path: Path) -> None:
    small, large = torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2)
    ckpt.save(tmp_path / "s", {"model": large})
    ckpt.load(tmp_path / "s", into={"model": small})
    assert torch.equal(small.weight, large.weight)
    with pytest.raises(ckpt.MismatchError, match="'model/bias'"):
        ckpt.load(tmp_path / "s", into={"model": small}, strict="exact")
    ckpt.save(tmp_path / "t", {"model": small})
    with pytest.raises(ckpt.NotFoundError, match="bias"):
        ckpt.load(tmp_path / "t", into={"model": large})
    ckpt.load(tmp_path / "t", into={"model": large}, strict="none")
