"""ckpt.hf: transformers.Trainer saves into and goes on from a store of ckpt, atomically over ranks, without pickles.

    class MyTrainer(ckpt.hf.CheckpointMixin, Trainer): pass
    trainer = MyTrainer(model, args, train_dataset=data, store="s3://bucket/run7")
    trainer.train(resume_from_checkpoint=True)

Trainer decides when to save and what stays. A checkpoint has the parts model, optimizer, scheduler, scaler, random
(each rank's own) and trainer (Trainer's state and that of its callbacks).
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from accelerate.optimizer import AcceleratedOptimizer
from transformers import Trainer, TrainerState
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import get_last_checkpoint

from .background import log
from .checkpointer import Checkpointer
from .choosing import load
from .enums import CheckpointState, Status
from .errors import ConflictError, error_of, type_error, value_error
from .handles import Reader
from .hints import shown
from .process_random import random_states
from .records import CheckpointInfo
from .saved import children, tree_of

_LABEL = re.compile(r"checkpoint-([0-9]+)")
_STATE = "trainer_state.json"  # which Trainer reads
_KEEPS = ("keep_last", "keep_every", "keep_best")


class _Damaged(Exception):
    """The newest checkpoint is, which a restore found on all ranks; the id of the one that was restored instead."""

    def __init__(self, instead: str) -> None:
        super().__init__(instead)
        self.instead = instead


class CheckpointMixin(Trainer):  # type: ignore[misc]
    """Trainer with a store of ckpt in the place of directories with pickles. It stands before Trainer, or a class made
    of it (trl's SFTTrainer), among the bases of your class.

    `store`: a path or URI; by default the folder ckpt in args.output_dir. `model_directory`: beside it, each checkpoint
    gets a folder checkpoint-N there that from_pretrained opens; it goes when its checkpoint goes. `background`: saves
    copy the state and return; the next save, or the end, waits for the commit. `checkpointer`: more words of
    ckpt.Checkpointer, and options of store, session and save.

    train(resume_from_checkpoint=): True is the newest sound checkpoint of the store; a text is a label
    ("checkpoint-500"), "step:500", an id, "best", or a path that ends in one of these. The path of a directory that a
    plain Trainer saved is loaded by Trainer itself. Every rank calls train(); saves are collectives, as Trainer makes
    them.
    """

    def __init__(self, *args: Any, store: str | os.PathLike[str] | None = None,
                 model_directory: str | os.PathLike[str] | None = None, background: bool = False,
                 checkpointer: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._path = os.fsdecode(store) if store is not None else os.path.join(self.args.output_dir, "ckpt")
        self._models = None if model_directory is None else os.fsdecode(model_directory)
        self._background, self._words = background, dict(checkpointer or {})
        self._keeper: Checkpointer | None = None  # while it trains
        self._from: str | None = None  # the id of the checkpoint that it goes on from
        self._newest = False  # whether that is whichever is the newest sound one
        self._best: str | None = None  # the id of the best one then
        self._ids: dict[int, str] = {}  # of checkpoints, by their steps
        self._check_arguments()

    def checkpoint_parts(self) -> dict[str, Any]:
        """More parts of each checkpoint, for a subclass to say: objects with state_dict() and load_state_dict(), which
        a resume fills. What is each rank's own is a ckpt.PerRank."""
        return {}

    def _check_arguments(self) -> None:
        for word in {"every", "label"} & self._words.keys():
            raise value_error(f"checkpointer: Trainer's arguments say when to save, and labels are checkpoint-N; leave "
                              f"out {word!r}")
        keeps = [word for word in _KEEPS if self._words.get(word)]
        if keeps and self.args.save_total_limit:
            raise value_error(f"args.save_total_limit and checkpointer={{{keeps[0]!r}: …}} would both remove "
                              "checkpoints: give one of them")
        if keeps and self.args.load_best_model_at_end:
            mode = "max" if self.args.greater_is_better else "min"
            self._words.setdefault("keep_best", (_metric(self.args), mode, 1))
        if self.is_deepspeed_enabled or getattr(self, "is_fsdp_xla_enabled", False):
            what = "DeepSpeed, whose engine keeps the state" if self.is_deepspeed_enabled else "torch_xla"
            raise error_of(Status.UNSUPPORTED, f"ckpt.hf does not save with {what}; use FSDP2 (fsdp=True), or a plain "
                           "Trainer's checkpoints, which `ckpt import` reads", {})
        if self.args.enable_jit_checkpoint and self.args.world_size > 1:
            raise error_of(Status.UNSUPPORTED, "enable_jit_checkpoint saves on each rank at another step; leave it "
                           "out, and give checkpointer={'signals': ['SIGTERM']}", {})

    # ---- what is saved ----

    def _parts(self) -> dict[str, Any]:
        """The objects of a checkpoint, which a resume fills in place."""
        parts: dict[str, Any] = {"model": self.model_wrapped}
        if not self.args.save_only_model:
            optimizer = self.optimizer
            while isinstance(optimizer, AcceleratedOptimizer):
                optimizer = optimizer.optimizer
            scaler = getattr(self.accelerator, "scaler", None)
            parts |= {"optimizer": optimizer, "scheduler": self.lr_scheduler}
            parts |= {} if scaler is None else {"scaler": scaler}
        return {**parts, **self.checkpoint_parts()}

    def _state_now(self) -> dict[str, Any]:
        """All of a checkpoint. Trainer's own state is rank 0's: others log other times."""
        state = self._parts()
        if not self.args.save_only_model:
            state["random"] = random_states()
        if self.is_world_process_zero():
            exported = [one for one in [*self.callback_handler.callbacks, self.control]
                        if isinstance(one, ExportableState)]
            self.state.stateful_callbacks = TrainerState(stateful_callbacks=exported).stateful_callbacks
            best = self._best_step()
            state["trainer"] = {**vars(self.state),
                                "best_model_checkpoint": None if best is None else f"checkpoint-{best}"}
        return state

    def _best_step(self) -> int | None:
        """Of the best checkpoint, counting one of this step; None if there is none."""
        best = self.state.best_global_step
        if best and (best in self._ids or best == self.state.global_step):
            return int(best)
        return next((step for step, one in self._ids.items() if self._where(one) == self.state.best_model_checkpoint),
                    None)

    def _where(self, identifier: str) -> str:
        """Where a checkpoint is: what ckpt.load and the tool open."""
        return f"{self._path.rstrip('/')}/{identifier}"

    def _metrics(self) -> dict[str, float]:
        """What was evaluated at this step, for `ckpt ls` and "best"."""
        return {name: float(value) for entry in self.state.log_history if entry.get("step") == self.state.global_step
                for name, value in entry.items() if name.startswith("eval_") and isinstance(value, (int, float))
                and math.isfinite(value) and (name == _metric(self.args) or name.endswith("loss"))}

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """In the place of Trainer's own, at the same times: on all ranks."""
        if trial is not None:
            raise error_of(Status.UNSUPPORTED, "a hyperparameter search with ckpt.hf: search with a plain Trainer, "
                           "then train with what it found", {})
        self.store_flos()
        step = self.state.global_step
        self._note(step, self._keeper_now().save(step, self._state_now, metrics=self._metrics()))
        if not self._background:
            self._keeper_now().wait()

    def _note(self, step: int, identifier: str) -> None:
        """What follows from a save that all ranks have made."""
        best = self._best_step()
        self._ids[step] = identifier
        if best is not None:
            self.state.best_model_checkpoint = self._where(self._ids[best])
        if self._models is not None:
            self._write_model(os.path.join(self._models, f"checkpoint-{step}"))

    def _write_model(self, folder: str) -> None:
        """A directory that from_pretrained opens. It appears once it is whole."""
        partial = os.path.join(os.path.dirname(folder), f".{os.path.basename(folder)}-partial")
        weights = self.accelerator.get_state_dict(self.model) if self.is_fsdp_enabled else None  # by all ranks
        if self.args.should_save:
            shutil.rmtree(partial, ignore_errors=True)
        self._save(partial, weights)
        if self.args.should_save:
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(partial, folder)
        if self.args.push_to_hub:
            self._push_from_checkpoint(folder)

    def _maybe_log_save_evaluate(self, *args: Any, **kwargs: Any) -> None:
        super()._maybe_log_save_evaluate(*args, **kwargs)
        if self._keeper is not None:  # a signal, or the end of the job, if checkpointer= says so
            step, stopped = self.state.global_step, self._keeper.stopping
            identifier = self._keeper.step(step, self._state_now)
            if identifier is not None:
                self._note(step, identifier)
            if self._keeper.stopping and not stopped:
                log("warning", f"training stops at step {step}: {self._keeper.stopping}")
            self.control.should_training_stop |= self._keeper.stopping is not None

    # ---- what stays ----

    def _rotate(self, newest: CheckpointInfo | None) -> None:
        """Trainer's rule, on rank 0, once the newest is committed: at most save_total_limit, but the newest and the
        best stay. Without `newest`, at the end, one may stay: the best."""
        limit, best = self.args.save_total_limit, self.state.best_model_checkpoint
        if not limit or limit < 0:
            return
        there = self._there()
        kept = {one.id for one in there if self._where(one.id) == best} | ({newest.id} if newest else set())
        old = [one for one in there if one.id not in kept]
        for one in old[:max(len(there) - max(limit, len(kept)), 0)]:
            with suppress(ConflictError):  # somebody reads it: the next save removes it
                self._keeper_now()._store.remove(one.id)
                if self._models is not None:
                    shutil.rmtree(os.path.join(self._models, one.label), ignore_errors=True)

    def _there(self) -> list[CheckpointInfo]:
        """The checkpoints of this training in the store, oldest first."""
        run = str(self._words.get("run", "main"))
        return [one for one in self._keeper_now()._store.list() if one.run == run and _LABEL.fullmatch(one.label)
                and one.state == CheckpointState.COMMITTED]

    def _finalize_training(self, *args: Any, **kwargs: Any) -> Any:
        self._keeper_now().wait()  # while _rotate still knows the limit
        limit, self.args.save_total_limit = self.args.save_total_limit, None  # Trainer would look for directories
        try:
            out = super()._finalize_training(*args, **kwargs)
        finally:
            self.args.save_total_limit = limit
        if limit == 1 and self.state.best_model_checkpoint is not None and self.is_world_process_zero():
            self._rotate(None)
        return out

    # ---- going on ----

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As Trainer's. Goes on from a checkpoint of the store, the same one on all ranks."""
        words = {"overwrite": True, "signals": (), **self._words}
        told = words.pop("on_commit", ())
        try:
            with tempfile.TemporaryDirectory() as folder, Checkpointer(
                    self._path, every=None, label="checkpoint-{step}",
                    on_commit=[self._rotate, *([told] if callable(told) else told)], **words) as self._keeper:
                self._newest = resume_from_checkpoint is True
                while True:
                    if resume_from_checkpoint and not _is_trainers(resume_from_checkpoint):
                        resume_from_checkpoint = self._found(self._keeper, resume_from_checkpoint, folder)
                    try:
                        return super().train(resume_from_checkpoint, *args, **kwargs)
                    except _Damaged as damaged:  # Trainer begins again with the state of that one
                        resume_from_checkpoint = damaged.instead
        finally:
            self._keeper, self._from, self._ids = None, None, {}

    def _keeper_now(self) -> Checkpointer:
        if self._keeper is None:
            raise error_of(Status.INVALID, "ckpt.hf saves and loads in train() only; elsewhere call ckpt.save and "
                           "ckpt.load", {})
        return self._keeper

    def _found(self, keeper: Checkpointer, wanted: Any, folder: str) -> Any:
        """What Trainer is told to go on from: a directory that has its own state alone."""
        select = "latest" if wanted is True else os.fsdecode(wanted).rstrip("/").rpartition("/")[2]
        restored = keeper.restore({"trainer": None}, select)
        if restored is None:
            old = get_last_checkpoint(self.args.output_dir) if os.path.isdir(self.args.output_dir) else None
            if old is None:
                raise value_error(f"resume_from_checkpoint=True: there is no checkpoint yet in {shown(self._path)}, "
                                  f"nor in {self.args.output_dir}; without it the training begins")
            log("warning", f"{shown(self._path)} has no checkpoint yet: going on from Trainer's own, {old}")
            return old
        self._from = restored.info.id
        self._ids = {one.step: one.id for one in self._there() if one.step <= restored.step}
        state = dict(restored.state["trainer"])
        best = _LABEL.fullmatch(state["best_model_checkpoint"] or "")
        self._best = self._ids.get(int(best[1])) if best else None
        if best and self._best is None:
            log("warning", f"{best[0]}, the best so far, is no more in {shown(self._path)}")
        path = Path(folder, f"checkpoint-{restored.step}")
        path.mkdir()
        text = json.dumps({**state, "best_model_checkpoint": None}, default=_plain)
        (path / _STATE).write_text(text, encoding="utf-8")
        return str(path)

    def _init_training_state(self, *args: Any, **kwargs: Any) -> Any:
        out = super()._init_training_state(*args, **kwargs)
        if self._from is not None and self._best is not None:
            self.state.best_model_checkpoint = self._where(self._best)
        return out

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if self._from is None:
            super()._load_from_checkpoint(resume_from_checkpoint, model)
        # else with the optimizer, whose state goes by the names of the model's parameters

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if self._from is None:
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        saved = self._saved_parts()
        parts = {name: part for name, part in self._parts().items() if name in saved}
        restored = self._keeper_now().restore(parts, "latest" if self._newest else self._from)
        if restored is not None and restored.info.id != self._from:
            raise _Damaged(restored.info.id)

    def _saved_parts(self) -> set[str]:
        with Reader(self._keeper_now()._store, self._from or "latest", **self._run_option()) as reader, \
                tree_of(reader, None) as tree:
            return {str(tree.node(child).key) for child in children(tree, 0)}

    def _run_option(self) -> dict[str, Any]:
        return {"run": self._words["run"]} if "run" in self._words else {}

    def _load_scaler(self, checkpoint: str | None) -> None:
        if self._from is None:
            super()._load_scaler(checkpoint)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if self._from is None:
            super()._load_rng_state(checkpoint)
        elif "random" in self._saved_parts():
            load(self._keeper_now()._store, self._from, at=("random",), into=random_states(), **self._run_option())

    def _load_best_model(self) -> None:
        best = str(self.state.best_model_checkpoint)
        if os.path.isfile(os.path.join(best, _STATE)):
            super()._load_best_model()
            return
        self._keeper_now().wait()
        load(self._keeper_now()._store, best.rpartition("/")[2], at=("model",), into=self.model_wrapped,
             **self._run_option())


def _is_trainers(given: Any) -> bool:
    """Whether it is a directory of a plain Trainer."""
    return given is not True and os.path.isfile(os.path.join(given, _STATE))


def _metric(args: Any) -> str:
    name = args.metric_for_best_model or "loss"
    return str(name if name.startswith("eval_") else f"eval_{name}")


def _plain(value: Any) -> Any:
    """What JSON has for a value of Trainer's state, such as a number of numpy."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise type_error(f"Trainer's state: a value of type {type(value).__name__} has no text in JSON; give its numbers, "
                     "texts, lists and dicts")
