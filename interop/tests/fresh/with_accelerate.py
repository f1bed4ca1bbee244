"""accelerate: what save_state writes on two ranks, in one file, by FSDP2 as DCP, as a file of each rank, gathered."""
import os
import subprocess
import sys

import said
import torch

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures")


def write(work):
    subprocess.run([sys.executable, os.path.join(FIXTURES, "make_accelerate.py"), os.path.join(work, "made")],
                   check=True)
    for name in ("plain", "bin", "fsdp", "ranks", "full"):
        state = torch.load(os.path.join(work, "made", f"{name}.pt"))
        said.case(name, f"made/{name}", state, part=[f"/{key}/" for key in state])
    import accelerate
    said.write(work, f"accelerate {accelerate.__version__}")


if __name__ == "__main__":
    {"write": write}[sys.argv[1]](sys.argv[2])
