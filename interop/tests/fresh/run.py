#!/usr/bin/env python3
"""Other people's programs write new checkpoints, ckpt reads them; ckpt writes, and they read.

    CKPT_LIBRARY=… run.py WORK PROGRAM=PYTHON…       e.g. composer=build/fresh/composer/bin/python3

A program has a script here, with_composer.py and so on, which PYTHON runs where the program is installed: with "write
WORK" it lets the program write files, and says in WORK/said.json what it knows of them itself (said.py); then ckpt
imports them, compares every tensor and value with that, and exports what is asked for; with "check WORK" the script
lets the program load these exports. This process has none of the programs, and theirs have no ckpt. The last line is "N
passed, N failed".
"""
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "tests", "torch"))
import capi  # noqa: E402
from canonical import TORCH_NAMES  # noqa: E402

LIMIT = 1800  # seconds for a program, which takes one minute on an idle machine
results = {True: 0, False: 0}


def claim(name, problem):
    results[not problem] += 1
    print(f"{name} ... {'FAILED' if problem else 'ok'}", *([f"   {problem}"] if problem else []), sep="\n", flush=True)


def flat(value, tensors, at="", into=None):
    """{path: leaf} as said.py has them."""
    into = {} if into is None else into
    if isinstance(value, capi.Record):
        name, fields = value
        plain = {"collections.OrderedDict": "items", "torch.nn.parameter.Parameter": "data", "torch.Tensor": "data",
                 "torch.Size": "items", "numpy.ndarray": "data"}.get(name)
        if plain:
            return flat(fields[plain], tensors, at, into)
        if name == "ckpt.PerRank":
            return flat(fields, tensors, at, into)
        if name.startswith("numpy.") and "value" in fields:
            return flat(fields["value"], tensors, at, into)
        into[at] = ["object", name]
    elif isinstance(value, capi.Leaf):
        tensor = tensors[value.name]
        into[at] = ["tensor", TORCH_NAMES[tensor.dtype], tensor.shape, tensor.digest]
    elif isinstance(value, dict):
        into[at] = ["dict", len(value)]
        for key, entry in value.items():
            flat(entry, tensors, f"{at}/{key}", into)
    elif isinstance(value, capi.Set):  # before tuples, since it is one
        into[at] = ["set", sorted(json.dumps(flat(entry, tensors), sort_keys=True) for entry in value.items)]
    elif isinstance(value, (list, tuple)):
        into[at] = [type(value).__name__, len(value)]
        for i, entry in enumerate(value):
            flat(entry, tensors, f"{at}/{i}", into)
    else:
        into[at] = ["value", value.hex() if isinstance(value, (float, bytes)) else value]
    return into


def difference(expected, found):
    """The first few lines of what differs; empty for nothing."""
    wrong = [f"{path}: expected {expected.get(path, 'nothing')}, found {found.get(path, 'nothing')}"
             for path in sorted({*expected, *found}) if expected.get(path) != found.get(path)]
    return "\n   ".join(wrong[:6]) + (f"\n   and {len(wrong) - 6} more" if len(wrong) > 6 else "")


def attempt(action):
    try:
        return action() or ""
    except (capi.CkptError, AssertionError, KeyError) as error:
        return f"{type(error).__name__} {error}"


def read_case(store, work, name, case):
    capi.import_file(store, os.path.join(work, case["path"]), name)
    tree, tensors = capi.read_checkpoint(store, f"label:{name}", run="import")
    found = flat(tree, tensors)
    expected = {case.get("at", "") + path: leaf for path, leaf in case["state"].items()}
    if case.get("part"):  # the program says nothing of the rest, nor of what these are in
        paths = tuple(case["part"])
        expected, found = [{path: leaf for path, leaf in state.items()
                            if path.startswith(paths) and leaf[0] not in ("dict", "list", "tuple")}
                           for state in (expected, found)]
        missing = [part for part in paths if not any(path.startswith(part) for path in expected)]
        assert not missing, f"nothing is said of {missing}"
    return difference(expected, found)


def export_case(store, work, name, case):
    for path, options in case.get("exports", {}).items():
        capi.export(store, f"label:{name}", os.path.join(work, path), **options)


def ask(program, python, what, work):
    """What a program prints, or why it ended."""
    script = os.path.join(HERE, f"with_{program}.py")
    settings = dict(os.environ, OMP_NUM_THREADS="1", LD_PRELOAD="", TOKENIZERS_PARALLELISM="false",
                    HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="", GLOO_SOCKET_IFNAME="lo", WANDB_MODE="disabled")
    try:
        done = subprocess.run([python, script, what, work], env=settings, cwd=work, stdout=subprocess.PIPE, check=False,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, errors="replace",
                              timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"it did not end within {LIMIT} s"
    return "" if done.returncode == 0 else f"exit status {done.returncode}: " + done.stdout[-3000:]


def try_program(program, python, work):
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    failed = ask(program, python, "write", work)
    if failed:
        claim(f"{program}: writes", failed)
        return
    with open(os.path.join(work, "said.json"), encoding="utf-8") as file:
        said = json.load(file)
    exported = 0
    with capi.store(f"mem:fresh-{program}") as store:
        for name, case in said["cases"].items():
            claim(f"{said['who']} writes {name}: ckpt reads each tensor and value",
                  attempt(lambda: read_case(store, work, name, case)))
            if case.get("exports"):
                exported += 1
                claim(f"{said['who']} wrote {name}: ckpt exports it as {', '.join(case['exports'])}",
                      attempt(lambda: export_case(store, work, name, case)))
    if exported:
        claim(f"{said['who']} loads what ckpt exported, with equal values", ask(program, python, "check", work))


def main(work, *programs):
    for pair in programs:
        program, _, python = pair.partition("=")
        try_program(program, os.path.abspath(python), os.path.join(os.path.abspath(work), program))
    print(f"{results[True]} passed, {results[False]} failed")
    return 1 if results[False] or not results[True] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
