#!/usr/bin/env python3
"""What only torch can do for dcp_test.py: loads WORK/CASE.out1 and .out3, which ckpt exported, in torch's two ways, and
compares them with WORK/CASE.pt, which torch made of its own checkpoint.

    dcp_side.py WORK CASE…
"""
import os
import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

warnings.filterwarnings("ignore")


def must_equal(a, b, at=""):
    assert type(a) is type(b), (at, a, b)
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b), (at, a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b), (at, list(a), list(b))
        for key in a:
            must_equal(a[key], b[key], f"{at}/{key}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), (at, a, b)
        for i, pair in enumerate(zip(a, b)):
            must_equal(*pair, f"{at}/{i}")
    else:
        assert a == b, (at, a, b)


def emptied(value):
    """The same state without its values, for load to fill."""
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    if isinstance(value, dict):
        return {key: emptied(entry) for key, entry in value.items()}
    return [emptied(entry) for entry in value] if isinstance(value, list) else None


def main(work, *cases):
    for case in cases:
        expected = torch.load(os.path.join(work, f"{case}.pt"), weights_only=False)
        for shards in (1, 3):
            path = os.path.join(work, f"{case}.out{shards}")
            dcp_to_torch_save(path, f"{path}.pt")
            must_equal(expected, torch.load(f"{path}.pt", weights_only=False))
            state = emptied(expected)
            dcp.load(state, checkpoint_id=path, no_dist=True)
            must_equal(expected, state)
    print(f"torch {torch.__version__}: {len(cases)} cases")


if __name__ == "__main__":
    main(*sys.argv[1:])
