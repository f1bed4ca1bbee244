"""ckpt.lightning: PyTorch Lightning saves into and loads from stores of ckpt."""

from __future__ import annotations

import hashlib
import os
import subprocess
import warnings
from pathlib import Path
from typing import Any

import ckpt
import pytest
from conftest import forking

pytestmark = pytest.mark.torch


def modules(package: str = "lightning.pytorch") -> Any:
    """Lightning, which is not imported before a test needs it."""
    import importlib
    import logging
    warnings.simplefilter("ignore")
    logging.getLogger(package).setLevel(logging.ERROR)
    found = importlib.import_module(package)
    import ckpt.lightning
    return found


_made: dict[str, Any] = {}


def model(package: str = "lightning.pytorch", **hyper: Any) -> Any:
    """A small model; with a device mesh it is sharded."""
    import torch
    lightning = modules(package)

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self, width: int = 6, words: Any = None) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.more: dict[str, Any] = {}
            self.seen: Any = None

        def configure_model(self) -> None:
            if hasattr(self, "net"):
                return
            torch.manual_seed(3)
            width = self.hparams.width
            self.net = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Linear(width, 1))
            if self.device_mesh is not None:
                from torch.distributed.fsdp import fully_shard
                fully_shard(self.net, mesh=self.device_mesh["data_parallel"])

        def training_step(self, batch: Any, index: int) -> Any:
            loss = (self.net(batch[0]) - 1).square().mean()
            self.log("loss", loss, sync_dist=True)
            self.log("score", float((self.global_step * 7) % 10))
            return loss

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), 0.01)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]

        def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
            checkpoint.update(self.more)

        def on_train_start(self) -> None:
            self.seen = weights(self)

    return _made.setdefault(package, Model)(**hyper)


def weights(module: Any) -> Any:
    """Its weights, and what the optimizer knows, whole, on the ranks that ask together."""
    def whole(value: Any) -> str:
        value = value.full_tensor() if hasattr(value, "full_tensor") else value
        return hashlib.sha256(value.detach().numpy().tobytes()).hexdigest()

    optimizer = module.optimizers(use_pl_optimizer=False)
    states = [optimizer.state[one] for one in optimizer.param_groups[0]["params"] if one in optimizer.state]
    return ({name: whole(value) for name, value in module.state_dict().items()},
            [{key: whole(value) for key, value in state.items()} for state in states])


def trainer(folder: object, steps: int = 8, io: Any = None, strategy: Any = "auto", package: str = "lightning.pytorch",
            **words: Any) -> Any:
    import torch
    lightning = modules(package)
    keeper = lightning.callbacks.ModelCheckpoint(str(folder), **{"every_n_train_steps": 2, "save_top_k": -1,
                                                                 "save_last": "link", **words})
    plugins, ranks = [io or ckpt.lightning.CkptIO()], 1
    if torch.distributed.is_initialized():
        ranks = torch.distributed.get_world_size()
        plugins.append(environment(ranks, torch.distributed.get_rank()))
    return lightning.Trainer(max_steps=steps, accelerator="cpu", devices=ranks, strategy=strategy, plugins=plugins,
                             callbacks=[keeper], logger=False, enable_progress_bar=False, enable_model_summary=False,
                             default_root_dir=str(folder))


def environment(size: int, rank: int) -> Any:
    """The ranks that the fixture `ranks` has made."""
    from lightning.fabric.plugins.environments import LightningEnvironment

    class Here(LightningEnvironment):
        creates_processes_externally = property(lambda self: True)  # type: ignore[assignment]
        world_size, global_rank, local_rank = (lambda self: size), (lambda self: rank), (lambda self: rank)

    return Here()


class Batches:
    """A loader that goes on where it was."""

    def __init__(self) -> None:
        self.at = 0

    def __len__(self) -> int:
        return 16

    def __iter__(self) -> Any:
        import torch
        while self.at < 16:
            self.at += 1
            yield [torch.linspace(-1, 1, 8).reshape(2, 4) * self.at]
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


def fit(folder: object, *, path: str | None = None, module: Any = None, package: str = "lightning.pytorch",
        **words: Any) -> Any:
    made, module = trainer(folder, package=package, **words), module or model(package)
    made.fit(module, Batches(), ckpt_path=path)
    return made, module


# ---- many ranks ----


def strategy(name: str) -> Any:
    modules()
    from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
    import torch
    if name == "ddp":
        return DDPStrategy()
    if name == "one":
        return "auto"
    return ckpt.lightning.sharded(ModelParallelStrategy(data_parallel_size=torch.distributed.get_world_size(),
                                                        tensor_parallel_size=1))


def fit_by(name: str, folder: str, steps: int, path: str | None, width: int = 6, background: bool = False) -> Any:
    modules()
    _, module = fit(folder, steps=steps, strategy=strategy(name), path=path, module=model(width=width),
                    io=ckpt.lightning.CkptIO(background=background))
    return module.seen, weights(module)


def test_ddp_saves_on_rank_0_alone_and_any_number_of_ranks_goes_on(ranks: Any, tmp_path: Path) -> None:
    goes_on_elsewhere(ranks, tmp_path, "ddp")


def test_fsdp2_saves_its_shards_on_all_ranks_and_any_number_of_ranks_goes_on(ranks: Any, tmp_path: Path) -> None:
    goes_on_elsewhere(ranks, tmp_path, "fsdp2")
    (_, saved), _ = ranks(2, fit_by, "fsdp2", str(tmp_path / "later"), 4, None, 6, True)
    assert fit(tmp_path / "again", steps=5, path=str(tmp_path / "later/last.ckpt"))[1].seen == saved


def goes_on_elsewhere(ranks: Any, folder: Path, name: str) -> None:
    (_, saved), other = ranks(2, fit_by, name, str(folder / "s"), 4, None)
    assert other[1] == saved
    with ckpt.Store(folder / "s") as store:
        assert {part.world_size for part in store.list()} == {1 if name == "ddp" else 2}
    path = str(folder / "s/last.ckpt")
    for layout, size in (("fsdp2", 3), ("ddp", 2)):
        assert [found for found, _ in ranks(size, fit_by, layout, str(folder / f"{layout}"), 6, path)] == [saved] * size
    assert fit(folder / "one", steps=5, path=path)[1].seen == saved


# ---- killed ----


def die_in_a_save(number: int, size: int, file: str, folder: str) -> None:
    """The last rank dies as soon as its part of the third checkpoint is being written."""
    import signal

    import sharded_layouts
    import torch
    torch.set_num_threads(1)
    modules()
    begun: list[int] = []
    follow = ckpt.saving.follow

    def dying(*told: Any) -> None:
        begun.append(1)
        if len(begun) == 3 and number == size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        follow(*told)

    ckpt.saving.follow = dying
    words: dict[str, Any] = {"steps": 10, "module": model(width=1 << 18), "io": ckpt.lightning.CkptIO(timeout_ms=60000)}
    try:
        if size == 1:
            fit(folder, **words)
        with sharded_layouts.process_group(number, size, file):
            fit(folder, strategy=strategy("fsdp2"), **words)
    except BaseException:
        os._exit(7)


@pytest.mark.parametrize("size", [1, 2])
def test_a_training_that_is_killed_in_a_save_goes_on_bit_for_bit(ranks: Any, tmp_path: Path, size: int) -> None:
    paths = str(tmp_path / "group"), str(tmp_path / "s")
    processes = [forking().Process(target=die_in_a_save, args=(number, size, *paths)) for number in range(size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        process.kill()
    assert [process.exitcode for process in processes] == [7, -9][-size:]
    with ckpt.Store(tmp_path / "s") as store:
        assert store.find().step == 4
    name = "fsdp2" if size == 2 else "one"
    whole = ranks(size, fit_by, name, str(tmp_path / "whole"), 10, None, 1 << 18)
    again = ranks(size, fit_by, name, str(tmp_path / "s"), 10, "last", 1 << 18)
    assert [found for _, found in again] == [found for _, found in whole]


# ---- one rank ----


def names(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.endswith(".ckpt") and name != ".ckpt")


def labels(folder: Path) -> list[str]:
    with ckpt.Store(folder) as store:
        return sorted(found.label for found in store.list())


def test_a_store_is_opened_by_ckpt_load_and_the_tool_and_holds_no_pickle(torch: Any, tmp_path: Path) -> None:
    _, module = fit(tmp_path / "s")
    state = ckpt.load(tmp_path / "s")
    assert state["global_step"] == 8 and state["hyper_parameters"]["width"] == 6
    assert all(torch.equal(value, state["state_dict"][name]) for name, value in module.state_dict().items())
    files = [path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file()]
    assert files and not any(b"PK\3\4" in data or b"ctorch" in data or b"\x80\2}" in data for data in files)
    tool = Path(os.environ.get("LD_LIBRARY_PATH", "").partition(":")[0]).parent / "bin/ckpt"
    if tool.exists():
        done = subprocess.run([tool, "verify", f"{tmp_path / 's'}@latest"], capture_output=True, text=True)
        assert done.returncode == 0, done


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_model_checkpoint_keeps_its_top_k_and_last(tmp_path: Path, package: str) -> None:
    made, _ = fit(tmp_path / "s", package=package, monitor="score", mode="max", save_top_k=2, save_last=True,
                  filename="{step}-of {score:.0f}")
    assert names(tmp_path / "s") == ["last.ckpt", "step=2-of score=7.ckpt", "step=8-of score=9.ckpt"]
    assert labels(tmp_path / "s") == ["last", "step=2-of+20score=7", "step=8-of+20score=9"]
    assert made.checkpoint_callback.best_model_path.endswith("step=8-of score=9.ckpt")
    again, module = fit(tmp_path / "s", package=package, path="last", steps=9)
    assert again.global_step == 9 and module.seen


def test_load_from_checkpoint_and_fit_read_paths_of_ckpt_and_of_lightning(torch: Any, tmp_path: Path) -> None:
    made, module = fit(tmp_path / "s")
    own = trainer(tmp_path / "own", io=modules().plugins.io.TorchCheckpointIO())
    own.fit(model(width=5), Batches())
    for path, width in ((made.checkpoint_callback.best_model_path, 6), (tmp_path / "s/last.ckpt", 6),
                        (tmp_path / "own/last.ckpt", 5)):
        back = type(module).load_from_checkpoint(path, map_location="cpu", weights_only=False)
        assert back.hparams.width == width
    assert torch.equal(type(module).load_from_checkpoint(tmp_path / "s/last.ckpt").net[0].weight, module.net[0].weight)
    again, _ = fit(tmp_path / "own", path=str(tmp_path / "own/last.ckpt"), module=model(width=5), steps=10)
    assert again.global_step == 10 and len(labels(tmp_path / "own")) == 1
    for name in names(tmp_path / "own"):
        again.strategy.remove_checkpoint(str(tmp_path / "own" / name))
    assert names(tmp_path / "own") == labels(tmp_path / "own") == []


def test_the_path_of_a_store_is_its_newest_sound_checkpoint(tmp_path: Path) -> None:
    modules()
    assert ckpt.lightning.newest(tmp_path / "s") is None
    made, _ = fit(tmp_path / "s", path=ckpt.lightning.newest(tmp_path / "s"), steps=4)
    os.unlink(tmp_path / "s/last.ckpt")
    made.save_checkpoint(tmp_path / "s/by hand/x", storage_options={"compression": "lz4"})
    again, module = fit(tmp_path / "s", path=ckpt.lightning.newest(tmp_path / "s"), steps=6)
    assert again.global_step == 6 and module.seen
    assert labels(tmp_path / "s/by hand") == ["x"] and ckpt.load(tmp_path / "s/by hand")["global_step"] == 4


def test_a_save_in_the_background_is_there_when_fit_returns(tmp_path: Path) -> None:
    modules()
    fit(tmp_path / "s", io=ckpt.lightning.CkptIO(background=True), save_last=True, save_top_k=1)
    assert labels(tmp_path / "s") == ["epoch=0-step=8", "last"]
    assert names(tmp_path / "s") == ["epoch=0-step=8.ckpt", "last.ckpt"]


def test_a_save_in_the_background_that_fails_is_raised(tmp_path: Path) -> None:
    modules()
    io = ckpt.lightning.CkptIO(background=True, on_existing="error")
    for _ in range(2):
        io.save_checkpoint({"global_step": 1}, tmp_path / "s/x.ckpt")
    with pytest.raises(ckpt.ExistsError):
        io.teardown()


def test_a_queue_that_would_remove_before_it_saves_is_refused(tmp_path: Path) -> None:
    io = modules().plugins.io.AsyncCheckpointIO(ckpt.lightning.CkptIO())
    with pytest.raises(TypeError, match=r"CkptIO\(background=True\)"):  # told by the save that is first or by the end
        io.save_checkpoint({"global_step": 1}, tmp_path / "s/x.ckpt")
        io.teardown()
    assert not (tmp_path / "s").exists()


def test_a_value_that_would_not_come_back_is_refused_by_its_path(torch: Any, tmp_path: Path) -> None:
    import argparse
    made, module = fit(tmp_path / "s", steps=2)
    for value, said in ((argparse.Namespace(net=torch.nn.ReLU()), r"ReLU .*state_dict\(\).*ignore=\['words'\]"),
                        (torch.nn.functional.relu, "its name"), (ckpt.Status.OK, ".value of an enum"),
                        ({ckpt.Status.OK: 1}, ".value of an enum"), (lambda: 0, "a lambda")):
        with pytest.raises(TypeError, match="state at 'hyper_parameters/words.*" + said):
            module.more = {"hyper_parameters": {"words": value}}
            made.save_checkpoint(tmp_path / "s/y.ckpt")
    for value in (argparse.Namespace(a=[1]), torch.float16, tmp_path, {1: (2,)}, {3}, dict, torch.Size([2])):
        module.more = {"hyper_parameters": {"words": value}}
        made.save_checkpoint(tmp_path / "s/y.ckpt")
        assert type(ckpt.load(tmp_path / "s", "y")["hyper_parameters"]["words"]) is type(value)


def test_what_would_decide_twice_is_refused() -> None:
    modules()
    with pytest.raises(ValueError, match="save_top_k"):
        ckpt.lightning.CkptIO(keep_last=3)
    with pytest.raises(TypeError, match="expected a ModelParallelStrategy"):
        ckpt.lightning.sharded(strategy("ddp"))


@pytest.mark.s3
def test_a_bucket_is_a_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import uuid
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", os.environ["CKPT_TEST_S3"])
    uri = f"s3://ckpt-test/{uuid.uuid4().hex}"
    made, module = fit(tmp_path / "s", steps=4)
    made.save_checkpoint(f"{uri}/a.ckpt")
    for path in (f"{uri}/a.ckpt", uri):
        assert fit(tmp_path / "t", path=path, steps=5)[1].seen == weights(module)
    assert type(module).load_from_checkpoint(f"{uri}/a.ckpt").hparams.width == 6
    made.strategy.remove_checkpoint(f"{uri}/a.ckpt")
    assert not ckpt.Store(uri).list() and ckpt.lightning.newest(uri) is None
