"""ckpt.hf: transformers.Trainer saves into and goes on from a store of ckpt."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
import warnings
from pathlib import Path
from typing import Any

import ckpt
import pytest
from conftest import PRELOADED, forking

pytestmark = pytest.mark.torch
PRELOADED += ["ckpt.hf", "transformers.models.gpt2.modeling_gpt2"]  # which take long to import
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
    warnings.simplefilter("always", ckpt.PassedOverWarning)
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


def call(function: Any, path: str, words: dict[str, Any]) -> Any:
    return function(path, **words)


# ---- going on ----


@pytest.mark.parametrize("size, how", [(1, DDP), (2, DDP), (2, FSDP2)], ids=["alone", "ddp", "fsdp2"])
def test_a_training_that_stopped_goes_on_bit_for_bit(ranks: Any, tmp_path: Path, size: int, how: Any) -> None:
    whole = ranks(size, call, run, str(tmp_path / "whole"), {**how, "background": True})
    ranks(size, call, run, str(tmp_path / "s"), {**how, "stop": 5})
    assert labels(tmp_path / "s" / "ckpt") == ["checkpoint-2", "checkpoint-4"]
    back = ranks(size, call, run, str(tmp_path / "s"), {**how, "seed": 2, "resume": True})
    for (step, weights, losses, _), (wanted_step, wanted, wanted_losses, _) in zip(back, whole):
        assert (step, losses) == (wanted_step, wanted_losses) and len(losses) == 8
        assert same(weights, wanted)


def begin_again(out: str, resume: Any, **words: Any) -> Any:
    """What a training goes on with: the step, weights and moments of the first layer."""
    import transformers
    seen: list[Any] = []

    class Begin(transformers.TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            optimizer = others["optimizer"].optimizer
            found = {name: optimizer.state[value]["exp_avg"] for name, value in others["model"].named_parameters()}
            moments = {name: one.full_tensor() if hasattr(one, "full_tensor") else one.clone()
                       for name, one in found.items()}
            seen.append((state.global_step, tensors(others["model"]), moments))

    run(out, resume=resume, callbacks=[Begin()], stop=6, **words)
    return seen[0]


def test_a_training_goes_on_with_another_number_of_ranks_and_another_sharding(ranks: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    ranks(2, call, run, path, {**FSDP2, "stop": 5})
    saved = ckpt.load(path + "/ckpt", framework="torch")
    found = []
    for size, how in ((1, DDP), (2, DDP), (3, FSDP2)):
        words = {**how, "seed": 3, "resume": "checkpoint-4", "save_strategy": "no"}
        found += ranks(size, call, begin_again, path, words)
    for step, weights, moments in found:
        assert step == 4 and same(weights, {name: saved["model"][name] for name in weights})
        assert same(moments, {name: one["exp_avg"] for name, one in saved["optimizer"]["state"].items()})


def go_on_past_damage(out: str, **words: Any) -> Any:
    with pytest.warns(ckpt.PassedOverWarning, match="checkpoint-8"):
        return run(out, resume=True, seed=2, **words)


@pytest.mark.parametrize("how", [DDP, FSDP2], ids=["ddp", "fsdp2"])
def test_a_damaged_newest_checkpoint_is_passed_over_with_a_warning(ranks: Any, tmp_path: Path, how: Any) -> None:
    whole = ranks(2, call, run, str(tmp_path / "s"), how)
    (part, *_) = [path for path in tmp_path.rglob("PART_000") if "checkpoint-8" in str(path)]
    found = bytearray(part.read_bytes())
    found[len(found) // 2] ^= 1
    part.write_bytes(found)
    back = ranks(2, call, go_on_past_damage, str(tmp_path / "s"), how)
    assert all(same(mine[1], wanted[1]) and mine[0] == 8 for mine, wanted in zip(back, whole))


@pytest.mark.s3
def test_the_store_may_be_a_bucket(ranks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", os.environ["CKPT_TEST_S3"])
    words: dict[str, Any] = {**BEST, "store": f"s3://ckpt-test/{uuid.uuid4().hex}", "save_total_limit": 2,
                             "checkpointer": {"endpoint": os.environ["CKPT_TEST_S3"]}}
    whole = ranks(2, call, run, str(tmp_path / "whole"), {**BEST})
    ranks(2, call, run, str(tmp_path / "s"), {**words, "stop": 5})
    back = ranks(2, call, run, str(tmp_path / "other"), {**words, "seed": 2, "resume": True})
    assert all(same(mine[1], wanted[1]) for mine, wanted in zip(back, whole))
    assert len(labels(words["store"])) == 2 and back[0][3].startswith(words["store"] + "/checkpoint-")


def test_a_checkpoint_of_a_plain_trainer_is_gone_on_from(ranks: Any, tmp_path: Path) -> None:
    (whole,) = ranks(1, call, run, str(tmp_path / "whole"), {})
    (back,) = ranks(1, call, go_on_from_trainers, str(tmp_path / "s"), {})
    assert same(back[1], whole[1]) and labels(tmp_path / "s" / "ckpt") == ["checkpoint-6", "checkpoint-8"]


def go_on_from_trainers(out: str) -> Any:
    import transformers
    plain = {name: getattr(transformers.Trainer, name) for name in ("train", "_save_checkpoint", "_finalize_training",
                                                                    "_maybe_log_save_evaluate")}
    with ranks_of_accelerate():
        trainer(out, stop=5, more=plain).train()
    return run(out, resume=True, seed=2)


def stop_by_a_signal(out: str, **words: Any) -> Any:
    import torch.distributed as dist
    import transformers

    class Signal(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if state.global_step == 3 and dist.get_rank() == 1:
                signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        return run(out, callbacks=[Signal()], checkpointer={"signals": ["SIGTERM"]}, **words)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_on_one_rank_saves_that_step_on_all_and_ends_the_training(ranks: Any, tmp_path: Path) -> None:
    whole = ranks(2, call, run, str(tmp_path / "whole"), {})
    assert [step for step, *_ in ranks(2, call, stop_by_a_signal, str(tmp_path / "s"), {})] == [3, 3]
    assert labels(tmp_path / "s" / "ckpt") == ["checkpoint-2", "checkpoint-3"]
    back = ranks(2, call, run, str(tmp_path / "s"), {"resume": True, "seed": 2})
    assert all(same(mine[1], wanted[1]) for mine, wanted in zip(back, whole))


# ---- what stays ----

BEST = {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 2, "learning_rate": 0.1}


@pytest.mark.parametrize("limit, background, stay", [(None, False, 4), (2, True, 2), (1, False, 1)])
def test_save_total_limit_and_the_best_model_are_as_trainer_has_them(ranks: Any, tmp_path: Path, limit: Any,
                                                                     background: bool, stay: int) -> None:
    words = {**BEST, "save_total_limit": limit, "background": background, "store": str(tmp_path / "store"),
             "model_directory": str(tmp_path / "models")}
    ((_, weights, _, best),) = ranks(1, call, run, str(tmp_path / "out"), words)
    there = labels(tmp_path / "store")
    assert len(there) == stay and sorted(os.listdir(tmp_path / "models")) == there
    assert os.path.basename(best).split(".")[0] in there and (limit == 1 or "checkpoint-8" in there)
    assert same(weights, {name: value for name, value in ckpt.load(best)["model"].items() if name in weights})
    assert ckpt.load(tmp_path / "store", "best:eval_loss:min")["trainer"]["global_step"] == int(
        os.path.basename(best).split(".")[0].split("-")[1])
    assert not list((tmp_path / "out").glob("checkpoint-*"))


def test_the_best_model_is_loaded_sharded_and_from_pretrained_opens_the_directory_beside_it(ranks: Any,
                                                                                          tmp_path: Path) -> None:
    import transformers
    words = {**FSDP2, **BEST, "model_directory": str(tmp_path / "models"), "store": str(tmp_path / "store")}
    (_, weights, _, best), _ = ranks(2, call, run, str(tmp_path / "out"), words)
    folder = tmp_path / "models" / os.path.basename(best).split(".")[0]
    opened = transformers.GPT2LMHeadModel.from_pretrained(folder)
    assert same(tensors(opened), weights) and same(weights, {name: ckpt.load(best)["model"][name] for name in weights})
    assert sorted(os.listdir(tmp_path / "models")) == ["checkpoint-2", "checkpoint-4", "checkpoint-6", "checkpoint-8"]


def test_two_rules_of_what_stays_and_two_of_when_to_save_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="save_total_limit.*keep_last"):
        trainer(tmp_path, save_total_limit=2, checkpointer={"keep_last": 3})
    with pytest.raises(ValueError, match="Trainer's arguments say when to save.*'every'"):
        trainer(tmp_path, checkpointer={"every": 10})


# ---- what is saved ----


def test_no_pickle_is_in_the_store_and_the_tool_and_a_program_without_torch_open_it(ranks: Any, tmp_path: Path) -> None:
    ranks(2, call, run, str(tmp_path / "s"), {"stop": 2})
    store = tmp_path / "s" / "ckpt"
    pickles = (b"PK\x03\x04", b"\x80\x02", b"\x80\x04", b"\x80\x05")
    assert not [path for path in store.rglob("*") if path.is_file() and path.read_bytes().startswith(pickles)]
    code = ("import ckpt, sys; state = ckpt.load(sys.argv[1], framework='numpy', rank=1)\n"
            "assert 'torch' not in sys.modules; print(state['trainer']['global_step'], sorted(state))")
    said = subprocess.run([sys.executable, "-c", code, str(store)], capture_output=True, text=True, check=True).stdout
    assert said == "2 ['model', 'optimizer', 'random', 'scheduler', 'trainer']\n"
    prefix = subprocess.run(["pkg-config", "--variable=prefix", "ckpt"], capture_output=True, text=True,
                            check=True).stdout.strip()
    tool = subprocess.run([f"{prefix}/bin/ckpt", "verify", f"{store}@checkpoint-2"], capture_output=True, text=True)
    assert tool.returncode == 0, tool.stdout + tool.stderr


def test_a_value_that_cannot_be_saved_is_named_with_a_way_out(tmp_path: Path) -> None:
    import transformers
    from transformers.trainer_callback import ExportableState

    class Odd(transformers.TrainerCallback, ExportableState):  # type: ignore[misc]
        def state(self) -> Any:
            return {"args": {}, "attributes": {"file": sys.stdout}}

    with ranks_of_accelerate(), pytest.raises(TypeError, match=(
            r"state at 'trainer/stateful_callbacks/Odd/attributes/file': .*give its bytes")):
        trainer(tmp_path, callbacks=[Odd()]).train()


# ---- failures ----


def save_on_rank_0_alone(out: str, **words: Any) -> str:
    import torch.distributed as dist
    import transformers

    class Wrong(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            control.should_save |= state.is_world_process_zero

    try:
        run(out, callbacks=[Wrong()], save_strategy="no", stop=1, checkpointer={"timeout_ms": 2000}, **words)
    except ckpt.Error as error:
        return str(error)
    finally:
        dist.barrier()
    return ""


def test_a_save_that_rank_0_alone_begins_is_an_error_and_does_not_hang(ranks: Any, tmp_path: Path) -> None:
    said = ranks(2, call, save_on_rank_0_alone, str(tmp_path / "s"), {})
    assert "rank 1" in said[0] and not said[1] and not (tmp_path / "s" / "ckpt").exists()


def killed(number: int, folder: str) -> None:
    """Rank 1 dies while the ranks save step 4."""
    import torch
    from sharded_layouts import process_group

    class Last:
        def state_dict(self) -> Any:
            if self.made.state.global_step == 4 and number == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return {"is": 1}

        def load_state_dict(self, state: Any) -> None:
            raise AssertionError

        made: Any = None

    torch.set_num_threads(1)
    last = Last()
    with process_group(number, 2, f"{folder}/group"), ranks_of_accelerate():
        last.made = trainer(f"{folder}/s", more={"checkpoint_parts": lambda self: {"last": last}},
                            checkpointer={"timeout_ms": 60000})
        try:
            last.made.train()
        except BaseException:
            os._exit(7)
    os._exit(0)


def test_a_training_that_is_killed_in_a_save_goes_on_bit_for_bit_from_the_one_before(ranks: Any,
                                                                                   tmp_path: Path) -> None:
    processes = [forking().Process(target=killed, args=(number, str(tmp_path))) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [7, -signal.SIGKILL]
    assert labels(tmp_path / "s" / "ckpt") == ["checkpoint-2"]
    whole = ranks(2, call, run, str(tmp_path / "whole"), {})
    back = ranks(2, call, run, str(tmp_path / "s"), {"resume": True, "seed": 2})
    assert all(mine[0] == 8 and same(mine[1], wanted[1]) for mine, wanted in zip(back, whole))
