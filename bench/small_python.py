#!/usr/bin/env python3
"""Many small tensors, saved and loaded from Python: ckpt against safetensors, with numpy and torch, and against C.

  bench/small_python.py DIR [--count 100000] [--elements 16] [--rounds 5] [--program build/release/bench/ckpt_whole]
                        [--old SITE]

Run it with a Python that has ckpt, numpy, and where they are wanted torch and safetensors; without them there are no
rows of these. Each measurement is a fresh process that does the work once before (imports, page faults); the contenders
of a round come in random order. ckpt's state is nested as a module's state dict, safetensors' flat, as it must be. A
save of ckpt is durable, that of safetensors is followed by an fsync. --old: a folder with another build of the package
ckpt, for "before and after". Prints a table; CPU seconds are those of all threads of the process.
"""
import argparse
import importlib.util
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import process

LIBRARIES = {"ckpt": "ckpt", "safetensors": "safetensors", "ckpt before": "ckpt"}


# ---- in the measured process ----
def state_of(framework, count, elements):
    """A state dict: ten tensors in each module, a hundred modules in each list."""
    import numpy
    out = {}
    for module in range(count // 10):
        place = out.setdefault(f"layers.{module // 100}", {}).setdefault(str(module % 100), {})
        for number in range(10):
            array = numpy.full(elements, module + number, "f4")
            if framework == "torch":
                import torch
                array = torch.from_numpy(array).clone()
            place[f"p{number}"] = array
    return {"model": out, "step": 3}


def flat(state):
    return {f"{layer}.{module}.{name}": tensor for layer, modules in state["model"].items()
            for module, tensors in modules.items() for name, tensor in tensors.items()}


def work_of(library, framework, path, state):
    """(save, load); each save has a new name."""
    if library == "safetensors":
        codec = importlib.import_module(f"safetensors.{framework}")
        tensors, file = flat(state), f"{path}.safetensors"

        def save():
            codec.save_file(tensors, file)
            with open(file, "rb") as written:
                os.fsync(written.fileno())
        return save, lambda: codec.load_file(file)
    import ckpt
    numbers = iter(range(1000))
    return lambda: ckpt.save(path, state, step=next(numbers)), lambda: ckpt.load(path, framework=framework)


def measured(library, framework, what, path, count, elements):
    save, load = work_of(library, framework, path, state_of(framework, count, elements))
    save()
    work = save if what == "save" else load
    work()
    print("READY", flush=True)
    sys.stdin.readline()
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    found = {"t_total": wall, "t_return": wall, "cpu_s": cpu}
    print("RESULT", json.dumps(found), flush=True)


# ---- the benchmark ----
def installed(module):
    return importlib.util.find_spec(module) is not None


def contenders(options):
    """(name, what) -> command."""
    size = ["--count", str(options.count), "--elements", str(options.elements)]
    out = {}
    for what in ("save", "load"):
        for library, module in LIBRARIES.items():
            for framework in ("numpy", "torch"):
                if installed(module) and installed(framework) and (library != "ckpt before" or options.old):
                    name = f"{library}, {framework}"
                    out[name, what] = [sys.executable, __file__, "work", library, framework, what, *size]
        if options.program:
            words = ["--workload", "small", *size, "--blob", str(Path(options.dir) / "small-python.blob")]
            out["ckpt, C", what] = [options.program, what, *words, *(["--before", "1"] if what == "save" else [])]
    return out


def one(name, what, command, options):
    place = Path(options.dir) / "small-python"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        if name == "ckpt, C" and what == "load":
            process.run([[*command[:1], "save", *command[2:], "--path", str(place / "s")]], 0, False)
        if name.startswith("ckpt before"):
            command = ["env", f"PYTHONPATH={options.old}", *command]
        found = process.run([[*command, "--path", str(place / "s")]], 0, False)[""]
        return found["t_total"], found["cpu_s"]
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("dir")
    arguments.add_argument("--count", type=int, default=100000)
    arguments.add_argument("--elements", type=int, default=16)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--program")
    arguments.add_argument("--old")
    options = arguments.parse_args()
    commands = contenders(options)
    samples = {key: [] for key in commands}
    if options.program:
        subprocess.run([commands["ckpt, C", "load"][0], "blob", *commands["ckpt, C", "load"][2:]], check=True)
    for _ in range(options.rounds):
        for key in random.sample(list(commands), len(commands)):
            samples[key].append(one(*key, commands[key], options))
    print(f"{options.count} tensors of {options.elements} f32, {options.rounds} rounds.\n")
    print("|  | save: median s | min-max | CPU s | load: median s | min-max | CPU s |\n|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(name for name, _ in commands):
        cells = []
        for what in ("save", "load"):
            walls, cpus = zip(*samples[name, what])
            cells += [f"{statistics.median(walls):.3f}", f"{min(walls):.3f}-{max(walls):.3f}",
                      f"{statistics.median(cpus):.2f}"]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        inner = argparse.ArgumentParser()
        for word in ("library", "framework", "what"):
            inner.add_argument(word)
        inner.add_argument("--count", type=int)
        inner.add_argument("--elements", type=int)
        inner.add_argument("--path")
        given = inner.parse_args(sys.argv[2:])
        measured(given.library, given.framework, given.what, given.path, given.count, given.elements)
    else:
        main()
