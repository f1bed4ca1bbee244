#!/usr/bin/env python3
"""Google's own client reads what ckpt put into a bucket, and ckpt reads what it put. Under tests/gcs/run.sh:

  peers.py CKPT     the tool; needs google-cloud-storage, safetensors, numpy, xxhash

The client compares each body with the CRC-32C that the server keeps of it.
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from google.cloud import storage
from safetensors.numpy import load_file, save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from reference_reader import read_checkpoint  # noqa: E402

CKPT = sys.argv[1]
os.environ["STORAGE_EMULATOR_HOST"] = os.environ["CKPT_TEST_GCS"]
PREFIX = f"peers-{os.getpid()}"
STORE = f"gs://ckpt-test/{PREFIX}/store"
STATE = {
    "w": np.arange(3_000_000, dtype=np.float32).reshape(1500, 2000),  # 12 MB: an upload of several pieces
    "b": np.array([1.5, -2.25], dtype=np.float64),
}


def ckpt(*arguments):
    done = subprocess.run([CKPT, *arguments], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"ckpt {arguments} ended with {done.returncode}: {done.stdout} {done.stderr}")
    return done.stdout


def same(found, where):
    assert found.keys() == STATE.keys(), (where, found.keys())
    for name, array in STATE.items():
        assert np.array_equal(found[name].reshape(array.shape), array), (where, name)
    print("   " + where)


def main():
    # With this variable the client would go to the server without a token.
    endpoint = os.environ.pop("STORAGE_EMULATOR_HOST")
    bucket = storage.Client(project="p", client_options={"api_endpoint": endpoint}).bucket("ckpt-test")
    os.environ["STORAGE_EMULATOR_HOST"] = endpoint
    with tempfile.TemporaryDirectory() as scratch:
        save_file(STATE, f"{scratch}/a.safetensors")
        ckpt("import", f"{scratch}/a.safetensors", STORE, "--label", "one")
        (checkpoint,) = json.loads(ckpt("ls", STORE, "--json"))["checkpoints"]
        folder = f"{scratch}/{checkpoint['id']}"
        os.mkdir(folder)
        for blob in bucket.list_blobs(prefix=f"{PREFIX}/store/{checkpoint['id']}/"):
            blob.download_to_filename(f"{folder}/{os.path.basename(blob.name)}", checksum="crc32c")
        read = read_checkpoint(folder)
        found = {name: np.frombuffer(read.tensor(name), array.dtype) for name, array in STATE.items()}
        same(found, "Google's client reads ckpt's files")
        assert not list(bucket.list_blobs(prefix=f"{PREFIX}/store/.ckpt/pieces")), "pieces are left"

        blob = bucket.blob(f"{PREFIX}/theirs/a.safetensors", chunk_size=1 << 20)  # a resumable upload
        blob.upload_from_filename(f"{scratch}/a.safetensors", checksum="crc32c")
        theirs = f"gs://ckpt-test/{PREFIX}/theirs/a.safetensors"
        ckpt("import", theirs, f"{scratch}/local", "--label", "theirs")
        ckpt("export", f"{scratch}/local@latest", f"{scratch}/out.safetensors")
        same(load_file(f"{scratch}/out.safetensors"), "ckpt reads what Google's client put")


main()
