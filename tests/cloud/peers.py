"""A service's own client reads what ckpt put into a bucket, and ckpt reads what it put: the same for each service."""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from reference_reader import read_checkpoint  # noqa: E402

STATE = {
    "w": np.arange(3_000_000, dtype=np.float32).reshape(1500, 2000),  # 12 MB: an upload of several pieces
    "b": np.array([1.5, -2.25], dtype=np.float64),
}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{command} ended with {done.returncode}: {done.stdout} {done.stderr}")
    return done.stdout


def same(found, where):
    assert found.keys() == STATE.keys(), (where, found.keys())
    for name, array in STATE.items():
        assert np.array_equal(found[name].reshape(array.shape), array), (where, name)
    print("   " + where)


def exchange(ckpt, bucket, client, names, fetch, put):
    """`ckpt`: the tool; `bucket`: its address; `client`: whose it is. names(PREFIX) lists, fetch(NAME, PATH) and
    put(PATH, NAME) move one file, by that client."""
    prefix = f"peers-{os.getpid()}"
    store = f"{bucket}/{prefix}/store"
    with tempfile.TemporaryDirectory() as scratch:
        save_file(STATE, f"{scratch}/a.safetensors")
        run(ckpt, "import", f"{scratch}/a.safetensors", store, "--label", "one")
        (checkpoint,) = json.loads(run(ckpt, "ls", store, "--json"))["checkpoints"]
        folder = f"{scratch}/{checkpoint['id']}"
        os.mkdir(folder)
        for name in names(f"{prefix}/store/{checkpoint['id']}/"):
            fetch(name, f"{folder}/{os.path.basename(name)}")
        read = read_checkpoint(folder)
        found = {name: np.frombuffer(read.tensor(name), array.dtype) for name, array in STATE.items()}
        same(found, f"{client}'s client reads ckpt's files")
        assert not names(f"{prefix}/store/.ckpt/pieces"), "pieces are left"

        put(f"{scratch}/a.safetensors", f"{prefix}/theirs/a.safetensors")
        run(ckpt, "import", f"{bucket}/{prefix}/theirs/a.safetensors", f"{scratch}/local", "--label", "theirs")
        run(ckpt, "export", f"{scratch}/local@latest", f"{scratch}/out.safetensors")
        same(load_file(f"{scratch}/out.safetensors"), f"ckpt reads what {client}'s client put")
