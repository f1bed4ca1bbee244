"""What fragments_test.py puts before and after each fragment of a page: what the page takes for granted, and a look at
what came out. page#number: (before, after)"""

WHOLE = {"README.md#1", "bindings/python/README.md#1", "bindings/python/docs/jax.md#1"}

COMMON = '''
import sys, warnings
import ckpt, numpy, torch
warnings.simplefilter("ignore")
store, step, array = ckpt.Store(work / "store"), 3, numpy.arange(8.0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
state = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "step": step}
loss, initial_state = 0.5, dict
ids, rows, moments = numpy.arange(8), numpy.ones((8, 4), "f4"), numpy.zeros((8, 4), "f4")
def mine(**more): return {"emb": ckpt.Table(numpy.arange(8), {"embedding": rows}), **more}
'''
_FULL_SAVE = '''
import threading
session, string = ckpt.Session(store, 0, 2), None
mine, raw_bytes, rng_bytes = numpy.ones((4, 4), "f4"), bytes(32), b"x"
def other():
    with ckpt.Save(ckpt.Session(store, 1, 2, session.string), "step-100", 100) as save:
        save.add_tensor("w", array)
        save.add_tensor("rows", mine, shape=(8, 4), offset=(0, 0))
        save.add_tensor("packed", raw_bytes, dtype="f4_e2m1fn", shape=(64,))
        save.add_object("rng", rng_bytes, scope=ckpt.Scope.PER_RANK)
        save.run()
thread = threading.Thread(target=other)
thread.start()
'''
_GPT = '''
import transformers, ckpt.hf
transformers.logging.set_verbosity_error()
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=32,
                                                              n_positions=8))
data = [{"input_ids": torch.arange(8), "labels": torch.arange(8)}] * 16
Trainer = transformers.Trainer
args = transformers.TrainingArguments(str(work / "out"), max_steps=2, save_steps=1, use_cpu=True, report_to=[],
                                      disable_tqdm=True)
class First(ckpt.hf.CheckpointMixin, Trainer): pass
first = First(model, args, train_dataset=data, store=str(work / "s3-bucket-run7"))
first.train()
args.max_steps = 4
'''
_BORING = '''
import functools
import lightning
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.strategies import ModelParallelStrategy
Trainer = functools.partial(lightning.Trainer, max_steps=3, accelerator="cpu", logger=False, enable_progress_bar=False,
                            enable_model_summary=False)
model = BoringModel()
'''
_GROUP = '''
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
'''
_BOARDS = '''
import logging
class Board:
    seen = []
    def add_scalar(self, *what): self.seen.append(what)
    log = add_scalar
writer = run = Board()
path = work / "managed"
'''
PYTHON = {
    "docs/managers.md#1": (_BOARDS, "keeper.save(3, state); keeper.wait(); assert len(Board.seen) > 2"),
    "bindings/python/README.md#2": ("", "assert state['step'] == 100 and (state['w'] == array).all()"),
    "bindings/python/README.md#3": ("", "assert step == 3"),
    "bindings/python/README.md#4": (
        "ckpt.save(str(work / 'data-run7'), {'model': {'w': numpy.arange(160.0).reshape(20, 2, 4)}}, step=1)",
        "assert rows.shape == (10, 2) and rows[0, 0] == 83"),
    "bindings/python/docs/calls.md#1": ("session = ckpt.Session(store)",
                                        "session.close(); assert len(ckpt.ls(store)) == 1"),
    "bindings/python/docs/calls.md#2": (_FULL_SAVE, "thread.join(); assert (numpy.asarray(view) == array).all()"),
    "bindings/python/docs/calls.md#3": ("", "assert state == {}"),
    "bindings/python/docs/checkpointer.md#2": (
        "n, validate, keeper = 500, lambda model: {'val_loss': 1.0}, ckpt.Checkpointer(work / 'due', every=500)",
        "keeper.wait(); assert keeper.latest_step() == 500"),
    "bindings/python/docs/checkpointer.md#1": ("", "assert ckpt.ls(work / 'data-run7')[-1].step == 10000"),
    "bindings/python/docs/jax.md#2": (
        "import jax; params = {'w': jax.numpy.ones(4)}; sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])",
        "assert params['w'].sum() == 4"),
    "bindings/python/docs/ranks.md#1": (
        "ranks, seed, position = 4, 1, 7; my_rows = numpy.ones((1024, 1024), 'f4'); other_rows = my_rows[:512] * 0",
        "assert position == 7 and other_rows.all()"),
    "bindings/python/docs/ranks.md#2": (
        _GROUP + "from torch.distributed.fsdp import fully_shard\nckpt.save(store, {**state, 'step': None}, step=1)",
        "ckpt.ranks.close(); dist.destroy_process_group()"),
    "bindings/python/docs/tables.md#1": (
        "session, world = ckpt.Session(store), 1",
        "assert (table.ids == ids).all() and list(some.ids) == [5, 7]"),
    "bindings/python/docs/tables.md#2": ("ckpt.save(store, mine(), step=1)", "assert pyarrow.parquet"),
    "bindings/python/docs/tables.md#3": (
        "import pyarrow.parquet\nckpt.save(store, mine(), step=100); rows[3] = 5; ckpt.save(store, mine(), step=200)",
        "assert not len(gone)"),
    "docs/copies.md#1": ("", "assert ckpt.ls(str(work / 's3-backup-run7'))[-1].step == 1"),
    "docs/hugging-face.md#1": (_GPT, "assert len(ckpt.ls(str(work / 's3-bucket-run7'))) == 4"),
    "docs/lightning.md#1": (_BORING, "assert trainer.global_step == 3"),
    "docs/lightning.md#2": (_BORING, "assert trainer"),
    "docs/trainers.md#1": ("path = store",
                           "keeper.step(500, state); keeper.close(); assert ckpt.ls(store)[0].step == 500"),
    "docs/trainers.md#2": ("import torch.distributed.checkpoint as dcp; state = {'w': torch.ones(4)}",
                           "assert ckpt.load(str(work / 'data-run7'))['w'].sum() == 4"),
    "docs/write-a-store.md#1": ("", "assert ckpt.load(store)['step'] == 3"),
}

C_COMMON = '''
#include <ckpt.h>
#include <ckpt_keeper.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static ckpt_error *err;
static ckpt_status must(ckpt_status status, const char *call) {
  if (status == CKPT_OK) return status;
  fprintf(stderr, "(%s): %s\\n", call, ckpt_error_message(err));
  exit(1);
}
'''
C_MADE = '''
  static float w[1024][64];
  ckpt_store *store; ckpt_session *session; ckpt_save *save; ckpt_reader *reader; ckpt_job *job; ckpt_keeper *keeper;
  ckpt_options *options, *policy;
  uint32_t rank = 1, world_size = 2, n = 65536, first = 0, count = 65536;
  if (ckpt_options_new(&options, &err) || ckpt_options_new(&policy, &err)) return 1;
  if (ckpt_store_open(&store, "mem:fragment", NULL, &err)) return 1;
'''
_SAVE = '''
  ckpt_tensor_desc desc = {.struct_size = sizeof desc, .dtype = CKPT_DTYPE_F32, .ndim = 2, .shape = {1024, 64}};
  if (ckpt_session_open(&session, store, 0, 1, NULL, NULL, &err)) return 1;
  if (ckpt_save_new(&save, session, "step-1", 1, NULL, &err)) return 1;
  if (ckpt_save_add_tensor(save, "w", &desc, w, sizeof w, CKPT_DEVICE_CPU, 0, &err)) return 1;
'''
NO_GPU = """
  ckpt_tensor_desc desc = {.struct_size = sizeof desc}; void *stream = NULL, *w_on_gpu = NULL; uint64_t bytes = 0;
"""
C = {
    "docs/guide.md#1": ("", "if (!string) return 1;"),
    "docs/guide.md#2": (_SAVE, '''
  if (ckpt_save_add_tensor(save, "flat", &flat, w, sizeof w, CKPT_DEVICE_CPU, 0, &err)) return 1;
  if (ckpt_save_add_tensor(save, "rows", &rows, w, 256 * 64 * 4, CKPT_DEVICE_CPU, 0, &err)) return 1;'''),
    "docs/guide.md#3": ("", "if (status != CKPT_NOT_FOUND) return 1;"),
    "docs/guide.md#4": (_SAVE, 'if (ckpt_reader_open(&reader, store, "step:1", NULL, &err)) return 1;'),
    "docs/guide.md#5": (NO_GPU, ""),  # compiled only: no machine of CI has a GPU; tests/cuda runs these calls
    "docs/incremental.md#1": ("", ""),
    "docs/keeper.md#1": ("rank = 0, world_size = 1;", ""),
}
