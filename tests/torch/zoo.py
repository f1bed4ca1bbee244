"""Writes the zoo: one file for each object of zoo_*.py and each way that this torch has of saving it.

FOLDER/NAME.WAY.pt, and FOLDER/index.json: what torch.load gives of each (describe.py), and what torch itself would not
save. FOLDER/older.json is what this torch gives of files that another torch wrote.
"""
import functools
import json
import os
import pickle

from quick_torch import torch

import describe
import zoo_tensors
import zoo_training
import zoo_values

HELPERS = {"dtypes", "patterned", "of_dtype", "trained", "small", "optimizer"}


def catalogue():
    """name -> function that makes the object."""
    made = {}
    for module in (zoo_values, zoo_tensors, zoo_training):
        for name, value in vars(module).items():
            if callable(value) and getattr(value, "__module__", "") == module.__name__ and name not in HELPERS:
                made[name] = value
    for kind in zoo_training.OPTIMIZERS:
        made[f"optimizer_{kind}"] = functools.partial(zoo_training.optimizer, kind)
    for dtype in zoo_tensors.dtypes():
        made[f"dtype_{str(dtype)[6:]}"] = functools.partial(zoo_tensors.of_dtype, dtype)
    return made


def ways(name):
    """way -> function (object, path) that saves it. Plain values show the differences of protocols best."""
    legacy = functools.partial(torch.save, _use_new_zipfile_serialization=False)
    every = hasattr(zoo_values, name)
    made = {}
    for protocol in (2, 3, 4, 5) if every else (2, 4):
        made[f"zip{protocol}"] = functools.partial(torch.save, pickle_protocol=protocol)
    for protocol in (2, 3, 4, 5) if every else (2, 5):
        made[f"legacy{protocol}"] = functools.partial(legacy, pickle_protocol=protocol)
    if hasattr(torch.serialization, "set_crc32_options"):
        made["zip_without_crc"] = without_crc
    return made


def without_crc(thing, path):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(thing, path)
    finally:
        torch.serialization.set_crc32_options(True)


def reason(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]


def write(folder):
    os.makedirs(folder, exist_ok=True)
    files, refused = {}, {}
    for name, make in catalogue().items():
        torch.manual_seed(0)
        thing = make()
        for way, save in ways(name).items():
            path = os.path.join(folder, f"{name}.{way}.pt")
            try:
                save(thing, path)
            except (RuntimeError, TypeError, KeyError, pickle.PicklingError) as error:
                os.unlink(path)
                refused[f"{name}.{way}"] = reason(error)
                continue
            said = describe.describe(path)
            if said[0] == "failed":  # torch does not read what it wrote: then the object itself is what was saved
                said = ["unread", said[1], describe.Describer().value(thing)]
            files[f"{name}.{way}.pt"] = said
    keep(os.path.join(folder, "index.json"), {"torch": torch.__version__, "files": files, "refused_by_torch": refused})
    return len(files), refused


def keep(path, values):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(values, out)


def describe_older(folder, older):
    names = sorted(name for name in os.listdir(older) if name.endswith((".zip2.pt", ".legacy2.pt")))
    said = {name: describe.describe(os.path.join(older, name)) for name in names}
    keep(os.path.join(folder, "older.json"), {"torch": torch.__version__, "files": said})
    return len(names)
