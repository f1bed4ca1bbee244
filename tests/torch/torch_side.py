#!/usr/bin/env python3
"""What only torch can do, run by run.py under each torch.

    torch_side.py write WORK                      fills WORK/zoo and WORK/hfai, and says what torch.load gives of them
                                                  and of WORK/chgnet
    torch_side.py check WORK EXPORTS [OLDER]      says in WORK/check.json what torch.load gives of what
                                                  exports.py made, and in WORK/zoo/older.json what torch.load gives of
                                                  OLDER/zoo, another torch's
"""
import json
import os
import sys

from quick_torch import torch

import describe
import hfai_generator
import zoo


def write(work):
    count, refused = zoo.write(os.path.join(work, "zoo"))
    said = hfai_generator.write(os.path.join(work, "hfai"))
    zoo.keep(os.path.join(work, "hfai", "index.json"), said)
    chgnet = os.path.join(work, "chgnet")
    files = sorted(name for name in os.listdir(chgnet) if name.endswith(".tar"))
    zoo.keep(
    os.path.join(
        chgnet, "index.json"), {
            name: describe.describe(
                os.path.join(
                    chgnet, name)) for name in files})
    print(f"torch {torch.__version__}: {count} files, {len(refused)} not saved, {len(said)} hfai directories")


def check(work, exports, *older):
    """What torch.load gives of each export, and whether weights_only takes it and the file that it began as."""
    with open(os.path.join(exports, "index.json"), encoding="utf-8") as file:
        made = json.load(file)
    said = {}
    for name, export in made.items():
        path = os.path.join(exports, name)
        if export["outcome"] != "OK":
            continue
        if os.path.isdir(path):
            said[name] = {"found": hfai_content(path)}
            continue
        found = describe.describe(path, weights_only=True)
        opened, origin = found[0] != "failed", describe.describe(export["origin"], weights_only=True)[0] != "failed"
        if not opened and torch.__version__.startswith(
            "1."):  # its weights_only knows neither floats nor bytes nor sets
            found = describe.describe(path)
        said[name] = {"found": found, "opened": opened, "origin": origin}
    zoo.keep(os.path.join(work, "check.json"), said)
    count = sum(zoo.describe_older(os.path.join(work, "zoo"), os.path.join(one, "zoo")) for one in older)
    print(f"torch {torch.__version__}: {len(said)} exports, {count} files of another torch")


def hfai_content(path):
    """By torch.load's own default: weights_only since torch 2.6, and all before."""
    try:
        return describe.Describer().value(hfai_generator.load(path))
    except Exception as error:
        return ["failed", f"{type(error).__name__}: {error}"[:500]]


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](*sys.argv[2:])
