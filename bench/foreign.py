#!/usr/bin/env python3
"""foreign.py CKPT [--dir DIR] [--gib N] [--rounds N]: imports and exports of other people's sets against plain copies.

A Hugging Face set of N GiB in two files, and the same as a DCP directory. Each round does all in a new random order,
each in a fresh process, with a cold page cache; all are durable. A plain copy is `cp`, or `dd` past the page cache,
then a sync of each file and of the folder; what counts is the faster one. Needs root, which drops the page cache.
Prints a table; a figure is a ratio of medians.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import host

MIB = 1 << 20
TENSOR = 24 * MIB  # of f32, as [1024, 6144]


def make_hugging_face(folder, size):
    """Two safetensors files of random bytes, and their index."""
    os.makedirs(folder)
    per_file = max(size // TENSOR // 2, 1)
    places = {}
    for number in range(2):
        name = f"model-0000{number + 1}-of-00002.safetensors"
        header = {}
        for i in range(per_file):
            tensor = f"model.layers.{number * per_file + i}.weight"
            header[tensor] = {"dtype": "F32", "shape": [1024, 6144], "data_offsets": [i * TENSOR, (i + 1) * TENSOR]}
            places[tensor] = name
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for _ in range(per_file):
                file.write(os.urandom(TENSOR))
    index = {"metadata": {"total_size": 2 * per_file * TENSOR}, "weight_map": places}
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump(index, file)


def sync_below(folder):
    for path in [*host.files_below(folder), *(where for where, _, _ in os.walk(folder)), os.path.dirname(folder)]:
        number = os.open(path, os.O_RDONLY)
        os.fsync(number)
        os.close(number)


def plain_copy(way, source, target):
    if way == "cp":
        subprocess.run(["cp", "-r", source, target], check=True)
    else:
        os.mkdir(target)
        for name in os.listdir(source):
            ends = [f"if={os.path.join(source, name)}", f"of={os.path.join(target, name)}"]
            subprocess.run(["dd", *ends, "bs=8M", "iflag=direct", "oflag=direct", "status=none"], check=True)
    sync_below(target)


def watched(argv):
    """Runs a command; (seconds, CPU seconds, peak of anonymous memory, peak of all)."""
    started, process, anonymous, most = time.perf_counter(), subprocess.Popen(argv, stdout=subprocess.DEVNULL), 0, 0
    while True:
        try:
            with open(f"/proc/{process.pid}/status") as file:
                fields = dict(line.split(":", 1) for line in file)
            anonymous = max(anonymous, int(fields.get("RssAnon", "0 kB").split()[0]) << 10)
            most = max(most, int(fields.get("VmHWM", "0 kB").split()[0]) << 10)
        except OSError:
            pass
        done, status, usage = os.wait4(process.pid, os.WNOHANG)
        if done:
            break
        time.sleep(0.002)
    seconds = time.perf_counter() - started
    if status:
        sys.exit(f"{' '.join(argv)}: status {status}")
    process.returncode = 0
    return seconds, usage.ru_utime + usage.ru_stime, anonymous, most


class Foreign:
    def __init__(self, ckpt, folder):
        self.ckpt, self.folder = ckpt, folder
        self.sets = {"hf": os.path.join(folder, "hf"), "dcp": os.path.join(folder, "dcp")}
        self.store, self.out = os.path.join(folder, "store"), os.path.join(folder, "out")

    def prepare(self, size):
        make_hugging_face(self.sets["hf"], size)
        subprocess.run([self.ckpt, "import", self.sets["hf"], self.store, "--label", "a"], check=True,
                       stdout=subprocess.DEVNULL)
        self.run_export("dcp", self.sets["dcp"])
        os.sync()

    def export_words(self, kind, out):
        return [self.ckpt, "export", self.store, out, "--format", {"hf": "safetensors", "dcp": "dcp"}[kind]]

    def run_export(self, kind, out):
        subprocess.run(self.export_words(kind, out), check=True, stdout=subprocess.DEVNULL)

    def measure(self, what, kind):
        shutil.rmtree(self.out, ignore_errors=True)
        os.sync()
        if not host.drop_caches():
            sys.exit("the page cache is dropped by root only")
        if what in ("cp", "dd"):
            return watched([sys.executable, __file__, "--copy", what, self.sets[kind], self.out])
        if what == "import":
            return watched([self.ckpt, "import", self.sets[kind], self.out, "--label", "a"])
        return watched(self.export_words(kind, self.out))


def main():
    if sys.argv[1:2] == ["--copy"]:
        return plain_copy(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ckpt")
    parser.add_argument("--dir", default=".")
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=a.dir, prefix="ckpt-foreign.") as folder:
        foreign = Foreign(os.path.abspath(a.ckpt), folder)
        foreign.prepare(int(a.gib * host.GIB))
        kinds = [(what, kind) for kind in foreign.sets for what in ("cp", "dd", "import", "export")]
        samples = {key: [] for key in kinds}
        for _ in range(a.rounds):
            for key in random.sample(kinds, len(kinds)):
                samples[key].append(foreign.measure(*key))
    print("|  | median s | min-max | of the faster copy | CPU s | peak anonymous MiB | peak with mappings MiB |")
    print("|---|---|---|---|---|---|---|")
    for (what, kind), rows in samples.items():
        seconds, cpu, anonymous, most = zip(*rows)
        copy = min(statistics.median(row[0] for row in samples[way, kind]) for way in ("cp", "dd"))
        middle = statistics.median(seconds)
        print(f"| {what}, {kind} | {middle:.2f} | {min(seconds):.2f}-{max(seconds):.2f} | {copy / middle:.2f} | "
              f"{statistics.median(cpu):.2f} | {max(anonymous) / MIB:.0f} | {max(most) / MIB:.0f} |")
    print(json.dumps(host.describe(a.dir)))


if __name__ == "__main__":
    main()
