"""A small training loop that saves in the background and resumes bit for bit where it was stopped.

    python trainer.py STORE STEPS

Run it with 30 steps, or with 10 and then with 30: the last line is the same. It may be killed at any time; the next run
resumes from the newest checkpoint.
"""

import sys
import zlib
from typing import Any

import ckpt
import numpy as np

SAVE_EVERY = 5


def begin() -> dict[str, Any]:
    """A small net, its Adam moments, and the random generator that makes the data."""
    rng = np.random.Generator(np.random.PCG64(7))
    model = {"w1": rng.normal(size=(16, 32)), "b1": np.zeros(32), "w2": rng.normal(size=(32, 1))}
    moments = {name: {"m": np.zeros_like(value), "v": np.zeros_like(value)} for name, value in model.items()}
    return {"model": model, "adam": moments, "step": 0, "rng": rng.bit_generator.state}


def gradients(model: dict[str, Any], x: Any, y: Any) -> tuple[float, dict[str, Any]]:
    hidden = np.tanh(x @ model["w1"] + model["b1"])
    error = hidden @ model["w2"] - y
    back = error @ model["w2"].T * (1 - hidden**2)
    grads = {"w1": x.T @ back, "b1": back.sum(axis=0), "w2": hidden.T @ error}
    return float(np.mean(error**2)), {name: grad / len(x) for name, grad in grads.items()}


def train_step(state: dict[str, Any], rng: np.random.Generator) -> float:
    x = rng.normal(size=(64, 16))
    loss, grads = gradients(state["model"], x, np.sin(x.sum(axis=1, keepdims=True)))
    state["step"] += 1
    for name, grad in grads.items():
        adam = state["adam"][name]
        adam["m"] += 0.1 * (grad - adam["m"])
        adam["v"] += 0.001 * (grad**2 - adam["v"])
        state["model"][name] -= 0.01 * adam["m"] / (np.sqrt(adam["v"]) + 1e-8)
    return loss


def main(path: str, steps: int) -> None:
    store = ckpt.Store(path)
    state = begin()
    try:
        state = ckpt.load(store, into=state)
        print(f"goes on from step {state['step']}")
    except ckpt.NotFoundError:
        print("starts")
    rng = np.random.Generator(np.random.PCG64())
    rng.bit_generator.state = state["rng"]
    loss = float("nan")
    with ckpt.Session(store) as session:  # its end waits for the last save
        while state["step"] < steps:
            loss = train_step(state, rng)
            if state["step"] % SAVE_EVERY == 0 or state["step"] == steps:
                state["rng"] = rng.bit_generator.state
                ckpt.save_async(session, state, step=state["step"], keep_last=2)  # a copy: the arrays may change
    weights = b"".join(value.tobytes() for value in state["model"].values())
    print(f"step {state['step']}, loss {loss:.6f}, weights {zlib.crc32(weights):08x}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
