#!/usr/bin/env python3
"""A run whose trainers are in two languages: LibTorch's Checkpointer goes on with what Python's saved, and back.

    goes_on.py PROGRAM WORK           PROGRAM: goes_on of goes_on.cpp, with the LibTorch of the torch that is imported

The same training as goes_on.cpp. Each trains three steps of nine, in turns; parameters must be those of a run by one
language (but for the last bits: the two Adams round differently; a step without its moments is off by 0.01), and what
is kept (the last two, and the best) the same. The last line is "N passed, N failed".
"""
import os
import subprocess
import sys

import ckpt
import torch


def train(store, steps):
    """What goes_on.cpp prints."""
    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    state = {"model": model, "optimizer": optimizer, "samples": 0}
    x = torch.arange(20).reshape(5, 4) / 20.0
    with ckpt.Checkpointer(store, every=1, keep_last=2, keep_best=("loss", "max", 1)) as keeper:
        start = keeper.restore(state)
        for n in range(start.step + 1 if start else 1, steps + 1):
            optimizer.zero_grad()
            loss = (model(x) - 1).pow(2).sum()
            loss.backward()
            optimizer.step()
            state["samples"] += 5
            keeper.step(n, state, metrics={"loss": loss.item()}, epoch=n // 2)
    values = "".join(f"{value:.9g} " for parameter in model.parameters() for value in parameter.detach().flatten())
    known = (f"samples {state['samples']}, went on from {start.step if start else 0} "
             f"with epoch {start.counters['epoch'] if start else -1:.0f}")
    return "\n".join([values, known, *(info.label for info in ckpt.Store(store).list())])


def run(program, store, steps):
    return subprocess.run([program, store, str(steps)], check=True, capture_output=True, text=True).stdout.strip()


def is_same(expected, found):
    (values, *rest), (others, *more) = expected.split("\n"), found.split("\n")
    pairs = zip(values.split(), others.split(), strict=True)
    return rest == more and all(abs(float(a) - float(b)) < 1e-6 for a, b in pairs)


def main():
    program, work = sys.argv[1:]
    python, libtorch = train, lambda store, steps: run(program, store, steps)
    wanted = [train(os.path.join(work, "alone"), steps) for steps in (3, 6, 9)]
    passed = 0
    for name, turns in (("Python, LibTorch, Python", (python, libtorch, python)),
                        ("LibTorch, Python, LibTorch", (libtorch, python, libtorch))):
        found = [turn(os.path.join(work, name.replace(", ", "-")), steps) for turn, steps in zip(turns, (3, 6, 9))]
        same = [is_same(expected, got) for expected, got in zip(wanted, found)]
        passed += all(same)
        for right, expected, got in zip(same, wanted, found):
            if not right:
                print(f"{name}: expected\n{expected}\nfound\n{got}")
        print(f"   {name}: {'ok' if all(same) else 'FAILED'}")
    print(f"{passed} passed, {2 - passed} failed")
    sys.exit(passed != 2)


if __name__ == "__main__":
    main()
