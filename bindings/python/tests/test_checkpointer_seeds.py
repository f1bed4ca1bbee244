"""docs/trainers.md (and hugging-face.md): each row of its tables names a test: one of those here, or one of the files
beside this."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest
from conftest import in_threads
from test_checkpointer import at, labels, restore

DOCUMENTS = [Path(__file__).parents[3] / "docs" / name for name in ("trainers.md", "hugging-face.md")]
needs_torch = pytest.mark.torch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


def saved(path: Path, state: Any, n: int = 1, **options: Any) -> None:
    with ckpt.Checkpointer(path, **options) as keeper:
        keeper.save(n, state)


def test_every_row_names_a_test_and_every_test_here_has_a_row() -> None:
    def tests_in(path: Path) -> set[str]:
        return set(re.findall(r"^def test_(\w+)", path.read_text(), re.M))

    named = set(re.findall(r"`(\w+)` \|$", "".join(page.read_text() for page in DOCUMENTS), re.M))
    assert named <= set().union(*map(tests_in, Path(__file__).parent.glob("test_*.py")))
    assert tests_in(Path(__file__)) - named == {"every_row_names_a_test_and_every_test_here_has_a_row"}


# ---- Composer ----


def test_composer_keep(path: Path) -> None:
    with ckpt.Checkpointer(path, every=1, keep_last=2) as keeper:
        for n in range(1, 6):
            keeper.step(n, at(n))
    assert labels(path) == ["step-4", "step-5"]


def test_composer_filename(path: Path) -> None:
    with ckpt.Checkpointer(path, every=21, keep_last=1, label="ep{epoch}-ba{batch}-rank{rank}") as keeper:
        for n in range(1, 43):
            keeper.step(n, at(n), epoch=n // 40)
    assert labels(path) == ["ep1-ba42-rank0"]


def pair_of(torch: Any, seed: int) -> tuple[Any, Any]:
    """A model and an optimizer that has a state."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4)).sum().backward()
    optimizer.step()
    return model, optimizer


def same(torch: Any, a: Any, b: Any) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values()))


@needs_torch
def test_composer_save_weights_only(path: Path, torch: Any) -> None:
    model, _ = pair_of(torch, 1)
    saved(path, {"model": model})
    with ckpt.open(path) as found:
        assert sorted(found) == ["model/0.bias", "model/0.weight", "model/1.bias", "model/1.weight"]


@needs_torch
def test_composer_load_weights_only(path: Path, torch: Any) -> None:
    model, optimizer = pair_of(torch, 1)
    saved(path, {"model": model, "optimizer": optimizer, "epoch": 3})
    keeper = ckpt.Checkpointer(path, signals=())
    for choice in ({}, {"only": "model"}):
        other, fresh = pair_of(torch, 2)[0], torch.optim.Adam(model.parameters())
        state = {"model": other, "optimizer": fresh, "epoch": 0} if choice else {"model": other}
        restore(keeper, state, **choice)
        assert same(torch, other, model) and not fresh.state and state.get("epoch", 0) == 0


@needs_torch
def test_composer_strict_model_weights(path: Path, torch: Any) -> None:
    model = pair_of(torch, 1)[0]
    saved(path, {"model": model})
    keeper = ckpt.Checkpointer(path, signals=())
    longer = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2), torch.nn.Linear(2, 2))
    shorter = torch.nn.Sequential(torch.nn.Linear(4, 3))
    with pytest.raises(ckpt.NotFoundError, match="2"):
        keeper.restore({"model": longer})
    before = shorter[0].bias.clone()
    with pytest.raises(ckpt.MismatchError, match="model/1.weight"):
        keeper.restore({"model": shorter})
    assert torch.equal(shorter[0].bias, before)
    assert restore(keeper, {"model": longer}, strict=False).missing == ("model/2.weight", "model/2.bias")
    assert torch.equal(longer[1].weight, model[1].weight)
    found = restore(keeper, {"model": shorter}, strict=False)
    assert found.unexpected == ("model/1.weight", "model/1.bias") and torch.equal(shorter[0].bias, model[0].bias)


def test_composer_rng_by_rank(path: Path) -> None:
    def work(rank: int) -> bool:
        rng = np.random.default_rng(rank)
        with ckpt.Checkpointer(path, rank=rank, world_size=3) as keeper:
            keeper.save(1, {"rng": ckpt.PerRank(rng), "w": np.ones(3)})
            keeper.wait()
            expected = rng.random()
            state: dict[str, Any] = {"rng": ckpt.PerRank(None), "w": np.zeros(3)}
            keeper.restore(state)
        return bool(state["rng"].value.random() == expected)

    assert in_threads(3, work) == [True] * 3


def test_composer_compression(path: Path) -> None:
    saved(path, {"w": np.zeros(1_000_000)}, compression="lz4")
    assert ckpt.ls(path)[0].bytes < 1_000_000


def test_composer_paths(path: Path) -> None:
    with ckpt.Checkpointer(path) as keeper:
        ids = [keeper.save(n, at(n)) for n in (1, 2)]
    assert [info.id for info in ckpt.ls(path)] == ids


# ---- OLMo ----


def test_olmo_save_overwrite(path: Path) -> None:
    saved(path, at(1), 5)
    with pytest.raises(ckpt.ExistsError):
        saved(path, at(2), 5)
    saved(path, at(3), 5, overwrite=True)
    assert labels(path) == ["step-5"] and ckpt.load(path)["step"] == 3


def test_olmo_rank_0_where_the_world_changed(path: Path) -> None:
    assert in_threads(2, lambda rank: saved(path, {"train": ckpt.PerRank({"seen": rank + 10}), "w": np.ones(3)},
                                            rank=rank, world_size=2)) == [None, None]

    def work(rank: int) -> int:
        state: dict[str, Any] = {"train": ckpt.PerRank({}), "w": np.zeros(3)}
        with ckpt.Checkpointer(path, rank=rank, world_size=4) as keeper:
            with pytest.raises(ckpt.MismatchError, match=f"of 2 ranks, each its own, and this is rank {rank} of 4"):
                keeper.restore(state)
            keeper.restore(state, without=["w"] if rank == 1 else [], or_rank0=True)
        return int(state["train"].value["seen"])

    assert in_threads(4, work) == [10, 11, 10, 10]


def test_olmo_unshard(path: Path, tmp_path: Path) -> None:
    assert in_threads(2, lambda rank: saved(path, {"w": ckpt.Shard(np.full(3, rank), (6,), (3 * rank,))}, rank=rank,
                                            world_size=2)) == [None, None]
    assert ckpt.load(path)["w"].tolist() == [0, 0, 0, 1, 1, 1]
    with ckpt.Store(path) as store, ckpt.Reader(store) as reader:
        reader.export(tmp_path / "x.pt")
    assert ckpt.load(tmp_path / "x.pt")["w"].tolist() == [0, 0, 0, 1, 1, 1]


def test_olmo_rename_of_one_that_became_several(path: Path) -> None:
    moments = {7: {"m": np.full(2, 5.0)}, 9: {"m": np.ones(2)}}
    group = {"params": [7, 9], "param_names": ["0.norm.weight", "0.out"]}
    saved(path, {"model": {"0.norm.weight": np.full(2, 3.0), "0.out": np.ones(2)},
                 "optim": {"state": moments, "param_groups": [group]}})
    state: dict[str, Any] = {"model": {name: np.zeros(2) for name in ("0.attn.weight", "0.ff.weight", "0.out")},
                             "optim": None}
    rename = {"model/0.norm": ["model/0.attn", "model/0.ff"]}
    restore(ckpt.Checkpointer(path, signals=()), state, rename=rename)
    assert [array[0] for array in state["model"].values()] == [3, 3, 1]
    assert state["model"]["0.attn.weight"] is not state["model"]["0.ff.weight"]
    group = state["optim"]["param_groups"][0]
    assert group["param_names"] == ["0.norm.weight", "0.ff.weight", "0.out"] and group["params"] == [7, 10, 9]
    assert [state["optim"]["state"][number]["m"][0] for number in (7, 10, 9)] == [5, 5, 1]
    keeper = ckpt.Checkpointer(path, signals=())
    with pytest.raises(ValueError, match="which the checkpoint has, too"):
        restore(keeper, state, rename={"model/0.norm.weight": ["model/0.attn.weight", "model/0.out"]})
    with pytest.raises(ValueError, match="only the last name may change"):
        restore(keeper, state, rename={"model/0.norm.weight": ["model/0.attn.weight", "other/0.ff.weight"]})
    with pytest.raises(ValueError, match="has no new name"):
        restore(keeper, state, rename={"model/0.norm.weight": []})


# ---- torchtune ----


def test_torchtune_recipe_state(path: Path) -> None:
    state: dict[str, Any] = {"model": {"w": np.zeros(3)}, "optimizer": {"m": np.zeros(3)}, "epoch": 0}
    with ckpt.Checkpointer(path, every=1, keep_last=1) as keeper:
        for epoch in range(1, 4):
            state["model"]["w"][:] = state["epoch"] = epoch
            keeper.step(epoch, state)
            keeper.save(epoch, {"model": state["model"]}, label=f"epoch-{epoch}")
    assert sorted(labels(path)) == ["epoch-1", "epoch-2", "epoch-3", "step-3"]
    fresh: dict[str, Any] = {"model": {"w": np.zeros(3)}, "optimizer": {"m": np.ones(3)}, "epoch": 0}
    assert restore(ckpt.Checkpointer(path, signals=()), fresh, "step-3").step == 3
    assert fresh["epoch"] == 3 and fresh["model"]["w"][0] == 3 and fresh["optimizer"]["m"][0] == 0


def test_torchtune_export(path: Path, tmp_path: Path) -> None:
    saved(path, {"model": {"w": np.ones(3, "f4")}})
    with ckpt.Store(path) as store, ckpt.Reader(store) as reader:
        reader.export(tmp_path / "model.safetensors")
    with ckpt.open(tmp_path / "model.safetensors") as found:
        assert list(found) == ["model/w"]


# ---- hfai ----


@needs_torch
def test_hfai_lists(path: Path, torch: Any) -> None:
    models = [pair_of(torch, seed)[0] for seed in (1, 2)]
    saved(path, {"model": models})
    others = [pair_of(torch, seed)[0] for seed in (3, 4)]
    kept = list(others)
    restore(ckpt.Checkpointer(path, signals=()), {"model": others})
    assert all(same(torch, other, model) for other, model in zip(kept, models))


def test_hfai_buffers(path: Path) -> None:
    assert in_threads(2, lambda rank: saved(path, {"mean": np.full(2_000_000, rank)}, rank=rank, world_size=2,
                                            replicas="rank0", large_tensor_bytes=4096)) == [None, None]
    assert (ckpt.load(path)["mean"] == 0).all()


@needs_torch
def test_hfai_load(tmp_path: Path, torch: Any) -> None:
    with ckpt.Store(tmp_path / "s") as store:
        saved(tmp_path / "s", {"model": {"w": torch.arange(4.0)}})
        with ckpt.Reader(store) as reader:
            reader.export(tmp_path / "latest.pt", format="hfai", shards=2)
    assert ckpt.load(tmp_path / "latest.pt", threads=8, framework="torch")["model"]["w"].tolist() == [0, 1, 2, 3]
