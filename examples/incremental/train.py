#!/usr/bin/env python3
"""A fine-tuning by adapters (as LoRA): a large base model that is frozen, small adapters that are trained.

  train.py run STORE --end STEP [--whole] [--die-at STEP]   saves each step; --whole without incremental saves
  train.py compare STORE OTHER                              the newest checkpoints, bit for bit
  train.py rows STORE                                       five saves of a table of embeddings, by rows that changed
  train.py serve STORE NEWS                                 step 1 and NEWS, an export of changes, give the newest one

It goes on from the newest checkpoint of STORE. With --die-at the process kills itself in the middle of that save.
"""
import argparse
import csv
import os
import signal
import threading
import time

import ckpt
import numpy as np

LAYERS, WIDTH, RANK, RATE = 12, 1024, 4, 1e-3


def initial_state():
    random = np.random.default_rng(7)

    def matrix(*shape):
        return random.standard_normal(shape, dtype="f4")
    return {"base": {str(n): matrix(WIDTH, WIDTH) for n in range(LAYERS)},
            "adapters": {str(n): {"down": matrix(RANK, WIDTH), "up": np.zeros((WIDTH, RANK), "f4")}
                         for n in range(LAYERS)},
            "random": random, "step": 0}


def train_step(state):
    """Learns to answer with its input."""
    inputs = state["random"].standard_normal((8, WIDTH), dtype="f4")
    hidden = inputs
    for layer, adapter in zip(state["base"].values(), state["adapters"].values()):
        low = hidden @ adapter["down"].T
        out = hidden @ layer / 32 + low @ adapter["up"].T
        adapter["up"] -= RATE / 8 * ((out - inputs).T @ low)
        hidden = np.tanh(out)
    state["step"] += 1


def die_in_save(store, step):
    """Kills this process once the directory of that step's save is there."""
    def watch():
        while True:
            if any(name.startswith(f"step-{step}.") for name in os.listdir(store)):
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.0002)
    threading.Thread(target=watch, daemon=True).start()


def run(options):
    state = initial_state()
    incremental = "off" if options.whole else "on"
    with ckpt.Checkpointer(options.store, every="1 step", incremental=incremental) as checkpointer:
        restored = checkpointer.restore(state)
        if restored is not None:
            print(f"goes on from step {state['step']}")
        while state["step"] < options.end:
            train_step(state)
            if state["step"] == options.die_at:
                die_in_save(options.store, options.die_at)
            checkpointer.step(state["step"], state)
    print(f"trained to step {state['step']}")


def arrays_of(state, path=""):
    for name, value in state.items():
        if isinstance(value, dict):
            yield from arrays_of(value, f"{path}{name}/")
        elif isinstance(value, np.ndarray):
            yield path + name, value


def compare(options):
    left, right = (ckpt.load(store) for store in (options.store, options.other))
    assert left["step"] == right["step"], (left["step"], right["step"])
    left, right = dict(arrays_of(left)), dict(arrays_of(right))
    assert left.keys() == right.keys()
    for name, values in left.items():
        assert values.tobytes() == right[name].tobytes(), f"{name} differs"
    print(f"{len(left)} arrays: every value is equal")


def rows(options):
    """Each step trains some rows, meets new ids and forgets old ones."""
    random = np.random.default_rng(7)
    table = {id: random.standard_normal(16, dtype="f4") for id in range(50_000)}
    with ckpt.Session(ckpt.Store(options.store), incremental="on") as session:
        for step in range(1, 6):
            removed = range(step * 100, step * 100 + 50) if step > 1 else ()
            trained = random.choice(np.arange(1000, 50_000), 200, replace=False).tolist()
            changed = [*trained, *range(step * 10**6, step * 10**6 + 50)]
            for id in removed:
                del table[id]
            for id in changed:
                table[id] = random.standard_normal(16, dtype="f4")
            leaf = ckpt.Table(list(table), {"embedding": np.stack(list(table.values()))}, changed=changed,
                              removed=list(removed))
            ckpt.save(session, {"items": leaf}, step=step)


def serve(options):
    """What a server does that has the rows of step 1."""
    served = {id: row["embedding"].copy() for id, row in ckpt.load(options.store, "step:1")["items"].as_dict().items()}
    with open(f"{options.news}/items.csv", newline="") as file:
        news = list(csv.reader(file))[1:]
    with open(f"{options.news}/removed/items.csv", newline="") as file:
        gone = [int(id) for id, in list(csv.reader(file))[1:]]
    for id in gone:
        del served[id]
    for id, *values in news:
        served[int(id)] = np.array(values, "f4")
    newest = ckpt.load(options.store)["items"].as_dict()
    assert served.keys() == newest.keys()
    assert all(served[id].tobytes() == row["embedding"].tobytes() for id, row in newest.items())
    print(f"{len(news)} rows changed, {len(gone)} ids are gone: all {len(served)} rows that are served are right")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("run")
    command.add_argument("store")
    command.add_argument("--end", type=int, required=True)
    command.add_argument("--die-at", type=int)
    command.add_argument("--whole", action="store_true")
    command.set_defaults(does=run)
    command = commands.add_parser("compare")
    command.add_argument("store")
    command.add_argument("other")
    command.set_defaults(does=compare)
    command = commands.add_parser("rows")
    command.add_argument("store")
    command.set_defaults(does=rows)
    command = commands.add_parser("serve")
    command.add_argument("store")
    command.add_argument("news")
    command.set_defaults(does=serve)
    options = parser.parse_args()
    options.does(options)


if __name__ == "__main__":
    main()
