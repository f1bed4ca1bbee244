#!/usr/bin/env python3
"""A fine-tuning by adapters (as LoRA): a large base model that is frozen, small adapters that are trained.

  train.py run STORE --end STEP [--whole] [--die-at STEP]   saves each step; --whole without incremental saves
  train.py compare STORE OTHER                              the newest checkpoints, bit for bit

It goes on from the newest checkpoint of STORE. With --die-at the process kills itself in the middle of that save.
"""
import argparse
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
    options = parser.parse_args()
    options.does(options)


if __name__ == "__main__":
    main()
