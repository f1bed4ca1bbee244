#!/usr/bin/env python3
"""Opens an exported .pt with Python's torch, without ckpt: the trainer's model, rewritten in Python, loads the weights
and must recognise exactly as many of the held-out digits as the trainer did.

  check_pt.py CHECKPOINT.pt DIGITS RIGHT
"""
import sys
from collections import OrderedDict

import torch
from torch import nn

HELD_OUT = 297


def make_model():
    return nn.Sequential(OrderedDict(
        conv1=nn.Conv2d(1, 16, 3, padding=1), norm1=nn.BatchNorm2d(16), relu1=nn.ReLU(),
        conv2=nn.Conv2d(16, 32, 3, stride=2, padding=1), norm2=nn.BatchNorm2d(32), relu2=nn.ReLU(),
        flatten=nn.Flatten(), dropout=nn.Dropout(0.25), head=nn.Linear(32 * 4 * 4, 10)))


def read_digits(path):
    with open(path, "rb") as file:
        table = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).reshape(-1, 65)
    return table[:, :64].float().div(16).reshape(-1, 1, 8, 8), table[:, 64].long()


def open_safely(path):
    """Runs no code from the file, if torch can: the safe unpickler of 1.13 does not know floats, so it refuses every
    optimizer's state, even its own."""
    safely = int(torch.__version__.split(".")[0]) >= 2
    return torch.load(path, weights_only=safely), "weights_only" if safely else "plain load"


def main():
    path, digits, expected = sys.argv[1:]
    checkpoint, way = open_safely(path)
    model = make_model()
    model.load_state_dict(checkpoint["model"])
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.load_state_dict(checkpoint["optimizer"])
    steps = {int(state["step"]) for state in optimizer.state.values()}
    if steps != {checkpoint["step"]} or len(optimizer.state) != len(list(model.parameters())):
        sys.exit(f"AdamW took {len(optimizer.state)} states of steps {steps}, expected step {checkpoint['step']}")
    images, labels = (part[-HELD_OUT:] for part in read_digits(digits))
    model.eval()
    with torch.no_grad():
        right = int(model(images).argmax(1).eq(labels).sum())
    print(f"   torch {torch.__version__}, {way}: {len(checkpoint['model'])} tensors of the model, moments of "
          f"{len(optimizer.state)} parameters after step {checkpoint['step']}; {right} of {HELD_OUT} digits right")
    if right != int(expected):
        sys.exit(f"expected {expected} right, as in the trainer")


if __name__ == "__main__":
    main()
