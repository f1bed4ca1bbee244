#!/usr/bin/env python3
"""A run whose trainers are in two languages: LibTorch's Checkpointer and RecIS manager go on with what Python's saved,
and back.

    goes_on.py PROGRAM WORK [DEVICE]  PROGRAM: goes_on of goes_on.cpp, with the LibTorch of the torch that is imported
                                      DEVICE: "cuda", where the models and their states are then (default: "cpu")

The same training as goes_on.cpp. Each trains three steps of nine, in turns; parameters must be those of a run by one
language (but for the last bits: the two Adams round differently; a step without its moments is off by 0.01), and the
rows of sparse tables, what else was saved, and what is kept, the same. What LibTorch restores by itself is there to the
bit. The last line is "N passed, N failed".
"""
import os
import subprocess
import sys

import ckpt
import ckpt.recis
import numpy as np
import torch


class Rows:
    """A hash table: by id an embedding of two numbers, and a slot of an optimizer."""

    columns = ("embedding", "exp_avg")

    def __init__(self):
        self.rows = {}

    def export_rows(self):
        values = np.array(list(self.rows.values()), np.float32).reshape(-1, 3)
        return ckpt.Table(np.fromiter(self.rows, np.int64), {"embedding": values[:, :2].copy(),
                                                             "exp_avg": values[:, 2].copy()})

    def insert_rows(self, ids, columns):
        for id, (first, second), slot in zip(ids.tolist(), columns["embedding"].tolist(), columns["exp_avg"].tolist()):
            self.rows[id] = [first, second, slot]

    def clear(self):
        self.rows.clear()

    def learn(self, id):
        """What a step does: the rows change, and one is new."""
        self.rows = {known: [number + 0.25 for number in row] for known, row in self.rows.items()}
        self.rows[id] = [float(id), float(-id), 0.5]

    def __str__(self):
        return " ".join("{} ({:g} {:g} {:g})".format(id, *row) for id, row in sorted(self.rows.items()))


class Training:
    def __init__(self):
        torch.set_num_threads(1)
        self.model = torch.nn.Linear(4, 3)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.fill_(0.5)
        self.optimizer = torch.optim.Adam(self.model.parameters(), 0.1)
        self.x = torch.arange(20).reshape(5, 4) / 20.0
        self.samples, self.items, self.users = 0, Rows(), Rows()

    def step(self, n):
        self.optimizer.zero_grad()
        loss = (self.model(self.x) - 1).pow(2).sum()
        loss.backward()
        self.optimizer.step()
        self.samples += 5
        self.items.learn(n)
        self.users.learn(-n)
        return loss.item()

    def dump_io_state(self):
        return {"samples": self.samples}

    def load_io_state(self, state):
        self.samples = state["samples"]

    def told(self, store, went_on):
        """What goes_on.cpp prints."""
        values = "".join(f"{value:.9g} " for one in self.model.parameters() for value in one.detach().flatten())
        return "\n".join([values, f"samples {self.samples}", f"items: {self.items}", f"users: {self.users}", went_on,
                          *(info.label for info in ckpt.Store(store).list())])


def train(store, steps):
    training = Training()
    state = {"model": training.model, "optimizer": training.optimizer, "samples": 0,
             "emb": {"items": ckpt.Rowset.all(), "users": ckpt.Rowset.all()}}
    with ckpt.Checkpointer(store, every=1, keep_last=2, keep_best=("loss", "max", 1)) as keeper:
        start = keeper.restore(state)
        training.samples = state["samples"]
        for name, table in state["emb"].items() if start else ():
            getattr(training, name).insert_rows(table.ids, table.columns)
        for n in range(start.step + 1 if start else 1, steps + 1):
            loss = training.step(n)
            state["samples"] = training.samples
            state["emb"] = {"items": training.items.export_rows(), "users": training.users.export_rows()}
            keeper.step(n, state, metrics={"loss": loss}, epoch=n // 2)
    return training.told(store, f"went on from {start.step if start else 0} "
                                f"with epoch {start.counters['epoch'] if start else -1:.0f}")


def train_modules(store, steps):
    """An optimizer of two modules, whose parameters are in another order than in goes_on.cpp."""
    first, second = (torch.nn.Linear(4, 4, bias=False) for _ in range(2))
    with torch.no_grad():
        first.weight.fill_(0.5)
        second.weight.fill_(-0.25)
    optimizer = torch.optim.Adam([second.weight, first.weight], 0.1)
    state = {"model": [first, second], "optimizer": optimizer}
    with ckpt.Checkpointer(store, every=1) as keeper:
        start = keeper.restore(state)
        for n in range(start.step + 1 if start else 1, steps + 1):
            optimizer.zero_grad()
            (second(first(torch.arange(20).reshape(5, 4) / 20.0)) - 1).pow(2).sum().backward()
            optimizer.step()
            keeper.step(n, state)
    values = "".join(f"{one.weight[0][0].item():.9g} " for one in (first, second))
    return "\n".join([values, f"went on from {start.step if start else 0}",
                      *(info.label for info in ckpt.Store(store).list())])


def train_recis(store, steps):
    training = Training()
    with ckpt.recis.CheckpointManager(store, training.model, save_interval=1, max_keep=2,
                                      tables={"items": training.items, "users": training.users}) as manager:
        manager.register_for_checkpointing("optimizer", training.optimizer)
        manager.register_for_checkpointing("note", "none")
        manager.register_io_state("train_io", training)
        start = manager.restore()
        found = manager.get_extra_data("note")
        while manager.global_step < steps:
            training.step(manager.global_step + 1)
            manager.set_extra_data("note", f"step {manager.global_step + 1}")
            manager.step()
    return training.told(store, f"went on from {start} with note {found}")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def is_same(expected, found):
    (values, *rest), (others, *more) = expected.split("\n"), found.split("\n")
    pairs = zip(values.split(), others.split(), strict=True)
    return rest == more and all(abs(float(a) - float(b)) < 1e-5 for a, b in pairs)


def main():
    program, work, device = (*sys.argv[1:], "cpu")[:3]
    torch.set_default_device(device)
    passed = failed = 0
    for mode, python in (("checkpointer", train), ("modules", train_modules), ("recis", train_recis)):
        def libtorch(store, steps):
            return run(program, mode, store, str(steps), device)

        wanted = [python(os.path.join(work, mode, "alone"), steps) for steps in (3, 6, 9)]
        for name, turns in (("Python, LibTorch, Python", (python, libtorch, python)),
                            ("LibTorch, Python, LibTorch", (libtorch, python, libtorch))):
            store = os.path.join(work, mode, name.replace(", ", "-"))
            found = [turn(store, steps) for turn, steps in zip(turns, (3, 6, 9))]
            same = [is_same(expected, got) for expected, got in zip(wanted, found)]
            passed += all(same)
            failed += not all(same)
            for right, expected, got in zip(same, wanted, found):
                if not right:
                    print(f"{mode}, {name}: expected\n{expected}\nfound\n{got}")
            print(f"   {mode}: {name}: {'ok' if all(same) else 'FAILED'}")
    told = run(program, "exact", os.path.join(work, "exact"), "3", device).split("\n")
    exact = told == ["6 tensors are there to the bit", "rows are there to the bit", "step-1", "step-2", "step-3"]
    passed += exact
    failed += not exact
    print(f"   LibTorch by itself: {'ok' if exact else told}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
