"""What a program knows of its own checkpoint, as JSON that run.py compares with what ckpt reads: {path: leaf}. For the
scripts with_*.py, which run where the program is.
"""
import collections
import ctypes
import hashlib
import json
import os

import numpy
import torch

CASES = {}


def bytes_of(tensor):
    tensor = tensor.detach().cpu().contiguous()
    size = tensor.numel() * tensor.element_size()
    return ctypes.string_at(tensor.data_ptr(), size) if size else b""


def flat(value, at="", into=None):
    into = {} if into is None else into
    if isinstance(value, numpy.ndarray) and value.dtype != object:
        value = torch.from_numpy(numpy.ascontiguousarray(value).reshape(value.shape))
    if isinstance(value, numpy.generic):
        value = value.item()
    if isinstance(value, torch.Tensor):
        data = hashlib.sha256(bytes_of(value)).hexdigest()
        into[at] = ["tensor", str(value.dtype).split(".")[1], list(value.shape), data]
    elif isinstance(value, dict) and type(value) in (dict, collections.OrderedDict):
        into[at] = ["dict", len(value)]
        for key, entry in value.items():
            flat(entry, f"{at}/{key}", into)
    elif type(value) in (list, tuple, torch.Size):
        into[at] = ["list" if type(value) is list else "tuple", len(value)]
        for i, entry in enumerate(value):
            flat(entry, f"{at}/{i}", into)
    elif isinstance(value, set):
        into[at] = ["set", sorted(json.dumps(flat(entry), sort_keys=True) for entry in value)]
    elif value is None or type(value) in (bool, int, float, str, bytes):
        into[at] = ["value", value.hex() if isinstance(value, (float, bytes)) else value]
    else:
        into[at] = ["object", f"{type(value).__module__}.{type(value).__qualname__}"]
    return into


def case(name, path, state, **more):
    """`exports`: {path: options of ckpt's export}. `at`: where the state stands in what is imported; `part`: beginnings
    of the paths that are compared."""
    CASES[name] = {"path": path, "state": flat(state), **more}


def write(work, who):
    with open(os.path.join(work, "said.json"), "w", encoding="utf-8") as file:
        json.dump({"who": who, "cases": CASES}, file)


def must_equal(expected, found, what):
    expected, found = flat(expected), flat(found)
    wrong = {path for path in {*expected, *found} if expected.get(path) != found.get(path)}
    assert not wrong, f"{what}: {[(path, expected.get(path), found.get(path)) for path in sorted(wrong)[:5]]}"
    assert len(expected) > 1, f"{what}: nothing was compared"
