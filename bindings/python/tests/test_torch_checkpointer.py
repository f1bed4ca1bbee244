"""ckpt.Checkpointer over models that torch spreads over ranks: the layouts of sharded_layouts.py, gloo on the CPU."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import ckpt
import pytest
from test_checkpointer import labels
from test_torch_sharded import SIZES, described, differences, stages

pytestmark = pytest.mark.torch


def train(layout: str, path: str, seed: int, steps: int, choice: dict[str, Any], signal_at: int = 0) -> Any:
    """Where it started and why it stopped, and the gathered state then and at the end."""
    import sharded_layouts as layouts
    import torch.distributed as dist
    made = layouts.trainer(layout, layouts.Net, seed)
    state = {**made.state(), "rng": ckpt.PerRank([dist.get_rank()]), "step": 0}
    with ckpt.Checkpointer(path, every=3, keep_last=2) as keeper:
        start = keeper.restore(state, or_rank0=True, **choice)
        restored, own = layouts.gathered(made), state["rng"].value
        for n in range(start.step + 1 if start else 1, steps + 1):
            made.step(n)
            state["step"] = n
            if n == signal_at and dist.get_rank() == dist.get_world_size() - 1:
                os.kill(os.getpid(), signal.SIGTERM)
            keeper.step(n, state)
            if keeper.stopping:
                break
        stopped = keeper.stopping
    return start and start.step, stopped, restored, layouts.gathered(made), own


@pytest.mark.parametrize("layout", ["fsdp2", "hsdp", "tp_fsdp", "fsdp1_orig"])
def test_a_signal_stops_a_sharded_training_that_goes_on_bit_for_bit(ranks: Any, tmp_path: Path, layout: str) -> None:
    size = SIZES[layout]
    whole = ranks(size, train, layout, str(tmp_path / "whole"), 0, 8, {})
    stopped = ranks(size, train, layout, str(tmp_path / "s"), 0, 8, {}, 5)
    assert [said[:2] for said in stopped] == [(None, "SIGTERM")] * size
    assert labels(tmp_path / "s") == ["step-3", "step-5"]
    on = ranks(size, train, layout, str(tmp_path / "s"), 1, 8, {})
    assert [said[:2] for said in on] == [(5, None)] * size
    assert not differences(on[0][2], stopped[0][3]) and not differences(on[0][3], whole[0][3])
    assert [said[4] for said in on] == [[rank] for rank in range(size)]


@pytest.mark.parametrize("layout,other", [("fsdp2", "hsdp"), ("hsdp", "none"), ("none", "tp_fsdp"), ("fsdp1", "fsdp2")])
def test_a_training_goes_on_under_another_layout(ranks: Any, tmp_path: Path, layout: str, other: str) -> None:
    saved = ranks(SIZES[layout], train, layout, str(tmp_path / "s"), 0, 6, {})
    on = ranks(SIZES[other], train, other, str(tmp_path / "s"), 1, 6, {})
    assert on[0][0] == 6 and not differences(on[0][2], saved[0][3])


@pytest.mark.parametrize("layout", ["fsdp1", "fsdp2", "tp_fsdp"])
def test_parts_of_a_sharded_state_are_chosen(ranks: Any, tmp_path: Path, layout: str) -> None:
    saved = ranks(SIZES[layout], train, layout, str(tmp_path / "s"), 0, 3, {})[0][3]
    fresh = ranks(SIZES[layout], train, layout, str(tmp_path / "no"), 1, 0, {})[0][2]
    for choice, wanted in (({"without": "model/up.*"}, lambda name: not name.startswith("model/up.")),
                           ({"only": "model"}, lambda name: name.startswith("model/")),
                           ({"only": ["optimizer", "model/norm.*"]},
                            lambda name: name.startswith(("optimizer/", "model/norm.")) or name == "lr")):
        found = ranks(SIZES[layout], train, layout, str(tmp_path / "s"), 1, 3, choice)[0][2]
        chosen = {name: value for name, value in saved.items() if wanted(name)}
        rest = {name: value for name, value in fresh.items() if not wanted(name) and name in found}
        assert not differences({name: found[name] for name in chosen}, chosen), choice
        assert not differences({name: found[name] for name in rest}, rest), choice


def train_stages(path: str, seed: int) -> dict[str, Any]:
    import torch.distributed as dist
    model, optimizer = stages(dist.get_rank(), dist.get_world_size(), seed)
    with ckpt.Checkpointer(path, every=1) as keeper:
        if keeper.restore({"model": model, "optimizer": optimizer}) is None:
            keeper.step(1, {"model": model, "optimizer": optimizer})
    return described(model, optimizer)


def test_what_another_stage_has_is_not_unexpected(ranks: Any, tmp_path: Path) -> None:
    saved = {name: value for said in ranks(4, train_stages, str(tmp_path / "s"), 0) for name, value in said.items()}
    for size in (4, 2):
        back = {name: value for said in ranks(size, train_stages, str(tmp_path / "s"), 1)
                for name, value in said.items()}
        assert not differences(back, saved)


def restore_without_the_first_stage(path: str) -> str:
    import torch.distributed as dist
    model, _ = stages(dist.get_rank(), dist.get_world_size(), 0)
    if dist.get_rank() == 0:
        del model["stage0"]
    try:
        ckpt.Checkpointer(path, signals=()).restore({"model": model})
    except ckpt.MismatchError as error:
        return error.message
    return ""


def test_what_no_stage_has_is_unexpected(ranks: Any, tmp_path: Path) -> None:
    ranks(4, train_stages, str(tmp_path / "s"), 0)
    said = ranks(4, restore_without_the_first_stage, str(tmp_path / "s"))
    assert all("'model/stage0.weight', 'model/stage0.bias' of the checkpoint" in text for text in said)
    assert not any("stage1" in text for text in said)


def test_parameters_that_are_renamed_keep_their_optimizer_state(torch: Any, tmp_path: Path) -> None:
    def made(name: str, rate: float) -> tuple[Any, Any]:
        model = torch.nn.ModuleDict({name: torch.nn.Linear(2, 2), "head": torch.nn.Linear(2, 2)})
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        model["head"](model[name](torch.full((2,), rate))).sum().backward()
        optimizer.step()
        return model, optimizer

    model, optimizer = made("encoder", 1.0)
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        keeper.save(1, {"optimizer": optimizer, "net": model})
    other, tuner = made("backbone", 2.0)
    ckpt.Checkpointer(tmp_path / "s", signals=()).restore(
        {"optimizer": tuner, "model": other}, rename={"net/encoder": "net/backbone", "net": "model"})
    mine, saved = other["backbone"].weight, model["encoder"].weight
    assert torch.equal(mine, saved) and tuner.param_groups[0]["lr"] == 1
    assert torch.equal(tuner.state[mine]["exp_avg"], optimizer.state[saved]["exp_avg"])


def test_a_parameter_that_became_several_gives_each_its_optimizer_state(torch: Any, tmp_path: Path) -> None:
    def made(*names: str) -> tuple[Any, Any]:
        model = torch.nn.ModuleDict({name: torch.nn.Linear(2, 2) for name in names})
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * len(names))
        sum(module(torch.ones(2)).sum() for module in model.values()).backward()
        optimizer.step()
        return model, optimizer

    model, optimizer = made("norm", "out")
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        keeper.save(1, {"optimizer": optimizer, "net": model})
    other, tuner = made("attn", "ff", "out")
    ckpt.Checkpointer(tmp_path / "s", signals=()).restore(
        {"optimizer": tuner, "net": other}, rename={"net/norm": ["net/attn", "net/ff"]})
    saved = model["norm"].weight
    for name in ("attn", "ff"):
        mine = other[name].weight
        assert torch.equal(mine, saved)
        assert torch.equal(tuner.state[mine]["exp_avg"], optimizer.state[saved]["exp_avg"])
    assert tuner.state[other["attn"].weight]["exp_avg"] is not tuner.state[other["ff"].weight]["exp_avg"]
    assert tuner.param_groups[0]["lr"] == 0.2 and len(tuner.param_groups[0]["params"]) == 6


def weights(torch: Any, *names: str) -> Any:
    return torch.nn.ParameterDict({name: torch.ones(2, 2) for name in names})


def moments(optimizer: Any) -> list[float]:
    """Of each parameter; 0: it has none."""
    return [float(optimizer.state[parameter]["exp_avg"][0, 0]) if parameter in optimizer.state else 0.0
            for group in optimizer.param_groups for parameter in group["params"]]


@pytest.mark.parametrize("place", ["list", "parts", "nested"])
def test_renamed_parameters_of_one_of_several_modules_keep_their_optimizer_state(torch: Any, tmp_path: Path,
                                                                                 place: str) -> None:
    def made(first: Any, second: Any) -> Any:
        return {"list": {"model": [first, second]}, "parts": {"a": first, "b": second},
                "nested": {"net": {"a": first, "b": second}}}[place]

    first, second = weights(torch, "x", "y"), weights(torch, "x")
    optimizer = torch.optim.Adam([second["x"], first["y"], first["x"]])
    for parameter, value in zip(optimizer.param_groups[0]["params"], (30, 20, 10)):
        parameter.grad = torch.full((2, 2), float(value))
    optimizer.step()
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        keeper.save(1, {**made(first, second), "optimizer": optimizer})
    first, second = weights(torch, "y", "x"), weights(torch, "z")
    tuner = torch.optim.Adam([first["y"], first["x"], second["z"]])
    a, b = {"list": ("model/0", "model/1"), "parts": ("a", "b"), "nested": ("net/a", "net/b")}[place]
    rename = {f"{a}/x": f"{a}/y", f"{a}/y": f"{a}/x", f"{b}/x": f"{b}/z"}
    ckpt.Checkpointer(tmp_path / "s", signals=()).restore({**made(first, second), "optimizer": tuner}, rename=rename)
    assert moments(tuner) == pytest.approx([1, 2, 3])


def test_state_of_all_parameters_together_is_not_loaded_in_another_order(torch: Any, tmp_path: Path) -> None:
    def made(*order: str) -> tuple[Any, Any]:
        model = weights(torch, "a", "b", "c")
        return model, torch.optim.LBFGS([model[name] for name in order], max_iter=3)

    model, optimizer = made("a", "b", "c")
    optimizer.step(lambda: sum(((model[name] - n) ** 4).sum() for n, name in enumerate("abc")).backward() or 1.0)
    ckpt.save(tmp_path / "s", {"model": model, "optimizer": optimizer})
    other, fits = made("a", "b", "c")
    ckpt.load(tmp_path / "s", into={"model": other, "optimizer": fits})
    assert torch.equal(fits.state[other["a"]]["d"], optimizer.state[model["a"]]["d"])
    for order in ("acb", "bac"):
        other, wrong = made(*order)
        with pytest.raises(ckpt.MismatchError, match="in this order"):
            ckpt.load(tmp_path / "s", into={"model": other, "optimizer": wrong})
        assert not wrong.state


def test_state_that_does_not_fit_its_parameter_is_refused_or_left_out(torch: Any, tmp_path: Path) -> None:
    def made(*shapes: tuple[int, int]) -> tuple[Any, Any]:
        model = torch.nn.ParameterList([torch.ones(shape) for shape in shapes])
        return model, torch.optim.Adam(model)

    model, optimizer = made((2, 3), (3, 2))
    for tensor in model:
        tensor.grad = torch.full_like(tensor, 10)
    optimizer.step()
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        keeper.save(1, {"model": model, "optimizer": optimizer})
    ckpt.save(tmp_path / "numbers", {"optimizer": optimizer})
    _, wrong = made((3, 2), (2, 3))
    with pytest.raises(ckpt.MismatchError, match="optimizer/state/0/exp_avg.*2, 3"):
        ckpt.load(tmp_path / "numbers", into={"optimizer": wrong})
    assert not wrong.state
    other, tuner = made((2, 3), (4, 2))
    restored = ckpt.Checkpointer(tmp_path / "s", signals=()).restore({"model": other, "optimizer": tuner},
                                                                     on_shape_mismatch="skip")
    assert moments(tuner) == [1, 0] and restored is not None and len(restored.other_shape) == 3
    tuner.step()


@pytest.mark.parametrize("order", ["ab", "ba", "ac"])
def test_state_by_number_beside_names_is_found_by_these(torch: Any, tmp_path: Path, order: str) -> None:
    """As LibTorch saves it, and torch an optimizer that was given names."""
    model = weights(torch, "a", "b")
    optimizer = torch.optim.Adam([{"params": [("b", model["b"])], "lr": 0.5}, {"params": [("a", model["a"])]}])
    for parameter, value in ((model["a"], 10), (model["b"], 20)):
        parameter.grad = torch.full((2, 2), float(value))
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "x.pt")
    other = weights(torch, "a", "b", "c")
    tuner = torch.optim.Adam([{"params": [other[name]]} for name in order])
    into = {"model": other, "optimizer": tuner}
    if order == "ac":
        with pytest.raises(ckpt.MismatchError, match="its parameters are 'a', 'c', and the checkpoint has 'b', 'a'"):
            ckpt.load(tmp_path / "x.pt", into=into, strict="none")
        ckpt.load(tmp_path / "x.pt", into={"optimizer": tuner})  # by their places
    else:
        with pytest.warns(ckpt.MissingWarning):
            ckpt.load(tmp_path / "x.pt", into=into, strict="none")
    wanted = {"ab": [1, 2], "ba": [2, 1], "ac": [2, 1]}[order]
    assert moments(tuner) == pytest.approx(wanted)
    assert [group["lr"] for group in tuner.param_groups] == ([1e-3, 0.5] if order == "ab" else [0.5, 1e-3])


def test_a_sparse_adam_of_an_embedding_goes_on(torch: Any, tmp_path: Path) -> None:
    rows, other = (torch.nn.Embedding(8, 4, sparse=True) for _ in range(2))
    optimizer, again = (torch.optim.SparseAdam(one.parameters()) for one in (rows, other))
    rows(torch.tensor([1, 5])).sum().backward()
    optimizer.step()
    with ckpt.Checkpointer(tmp_path / "s", signals=()) as keeper:
        keeper.save(1, {"table": rows, "sparse_optim": optimizer})
        keeper.wait()
        keeper.restore({"table": other, "sparse_optim": again})
    assert torch.equal(other.weight, rows.weight)
    assert torch.equal(again.state[other.weight]["exp_avg"], optimizer.state[rows.weight]["exp_avg"])
