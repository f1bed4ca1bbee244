"""Megatron-Core: dist_checkpointing.save of tensor-parallel layers and Adam's state, on two ranks."""
import os
import sys

import said
import torch

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures")


def write(work):
    sys.path.insert(0, FIXTURES)
    sys.argv = ["make_megatron.py", work]
    import make_megatron
    from megatron.core import __version__
    make_megatron.main()
    state = torch.load(os.path.join(work, f"{__version__}.pt"))
    said.case(__version__, __version__, state, part=[f"/{name}" for name in state])
    said.write(work, f"megatron-core {__version__}")


if __name__ == "__main__":
    {"write": write}[sys.argv[1]](sys.argv[2])
