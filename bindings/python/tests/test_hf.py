"""ckpt.hf: transformers.Trainer saves into and goes on from a store of ckpt."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import ckpt
import pytest
from conftest import forking

pytestmark = pytest.mark.torch
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
DDP, FSDP2 = {}, {"fsdp": True, "fsdp_config": {"version": 2, "transformer_layer_cls_to_wrap": "GPT2Block"}}
OWN = ("store", "model_directory", "background", "checkpointer", "stop", "callbacks")


def tensors(module: Any) -> dict[str, Any]:
    """Whole ones, by their names."""
    found = {name: value.full_tensor() if hasattr(value, "full_tensor") else value
             for name, value in module.state_dict().items()}
    return {name: value.detach().clone() for name, value in found.items()}


def same(mine: dict[str, Any], other: dict[str, Any]) -> bool:
    import torch
    return mine.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in mine.items())


def trainer(out: object, seed: int = 1, more: Any = None, **words: Any) -> Any:
    """With a small GPT-2, which has dropout and tied weights. `stop`: the step at which it stops by itself; `seed`: of
    the weights that it begins with; `more`: methods."""
    import torch
    import transformers
    import ckpt.hf
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    own = {name: words.pop(name) for name in OWN if name in words}
    stop = own.pop("stop", None)

    class Stop(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            control.should_training_stop |= state.global_step == stop

    torch.manual_seed(seed)
    sizes = {"n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 32, "n_positions": 8}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    rows = [torch.randint(0, 32, (8,), generator=torch.Generator().manual_seed(number)) for number in range(48)]
    data = [{"input_ids": row, "labels": row} for row in rows]
    given = {"max_steps": 8, "save_steps": 2, "logging_steps": 1, "learning_rate": 1e-2, "use_cpu": True,
             "per_device_train_batch_size": 2, "report_to": [], "disable_tqdm": True, **words}
    made = type("Mine", (ckpt.hf.CheckpointMixin, transformers.Trainer), more or {})
    return made(model, transformers.TrainingArguments(str(out), **given), train_dataset=data, eval_dataset=data[:8],
                callbacks=[*own.pop("callbacks", []), Stop()], **own)


@contextlib.contextmanager
def ranks_of_accelerate() -> Any:
    """accelerate finds the process group that there is, and forgets it."""
    import torch.distributed as dist
    from accelerate.state import AcceleratorState, PartialState
    warnings.simplefilter("ignore")
    told = {"RANK": dist.get_rank(), "LOCAL_RANK": dist.get_rank(), "WORLD_SIZE": dist.get_world_size(),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500} if dist.is_initialized() else {}
    os.environ.update({name: str(value) for name, value in told.items()})
    try:
        yield
    finally:
        AcceleratorState._reset_state(True)
        PartialState._reset_state()
        for name in (*told, "ACCELERATE_USE_FSDP", "FSDP_VERSION"):
            os.environ.pop(name, None)


def run(out: str, resume: Any = None, **words: Any) -> Any:
    """Trains; returns the step, the whole weights, those of the optimizer, and what was logged."""
    with ranks_of_accelerate():
        made = trainer(out, **words)
        made.train(resume_from_checkpoint=resume)
        log = [entry.get("loss") for entry in made.state.log_history if "loss" in entry]
        return made.state.global_step, tensors(made.model), log, made.state.best_model_checkpoint


def labels(path: object) -> list[str]:
    return [one.label for one in ckpt.ls(path) if one.state == ckpt.CheckpointState.COMMITTED]


# ---- ranks ----


@pytest.mark.parametrize("size, how", [(1, DDP), (2, DDP), (2, FSDP2)], ids=["alone", "ddp", "fsdp2"])
def test_a_training_that_stopped_goes_on_bit_for_bit(ranks: Any, tmp_path: Path, size: int, how: Any) -> None:
    whole = ranks(size, call, run, str(tmp_path / "whole"), {**how})
    ranks(size, call, run, str(tmp_path / "s"), {**how, "stop": 5})
    assert labels(tmp_path / "s" / "ckpt") == ["checkpoint-2", "checkpoint-4"]
    back = ranks(size, call, run, str(tmp_path / "s"), {**how, "seed": 2, "resume": True})
    for (step, weights, losses, _), (wanted_step, wanted, wanted_losses, _) in zip(back, whole):
        assert (step, losses) == (wanted_step, wanted_losses) and len(losses) == 8
        assert same(weights, wanted)


def call(function: Any, path: str, words: dict[str, Any]) -> Any:
    return function(path, **words)
