#!/usr/bin/env python3
"""hfai_seeds.py CORPUS: makes seeds for the hfai fuzzer from directories written by hfai's algorithm; needs torch.

A seed is the length of the first pickle (16 bits), then the pickles of PART_000 and PART_001.
"""
import os
import struct
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "torch"))
import hfai_generator as hfai  # noqa: E402
from quick_torch import torch  # noqa: E402
from torch import nn, optim  # noqa: E402


def trained(kind, **settings):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1, bias=False))
    optimizer = kind(model.parameters(), **settings)
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def cases():
    model, adam = trained(optim.Adam, lr=0.1)
    yield "adam", [model], [adam], {"epoch": 3, "ema": {"w": torch.ones(2)}}
    model, sgd = trained(optim.SGD, lr=0.1, momentum=0.9)
    yield "sgd", [model], [sgd], {}
    other, adagrad = trained(optim.Adagrad)
    yield "two", [model, other], [sgd, adagrad], {"names": ("a", "b")}


def pickle_of(path):
    with zipfile.ZipFile(path) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith("/data.pkl")))


def main(corpus):
    os.makedirs(corpus, exist_ok=True)
    for name, models, optimizers, others in cases():
        with tempfile.TemporaryDirectory() as folder:
            hfai.save(os.path.join(folder, "d"), models, optimizers, others, 2, large=16)
            first, second = (pickle_of(os.path.join(folder, "d", f"PART_00{i}.pt")) for i in range(2))
        with open(os.path.join(corpus, f"{name}.seed"), "wb") as file:
            file.write(struct.pack("<H", len(first)) + first + second)


if __name__ == "__main__":
    main(*sys.argv[1:])
