#!/usr/bin/env python3
"""Measures ckpt, plain programs and (with --peers-python) other checkpoint libraries, in turns, in one run.

Called by tools/bench, which builds ckpt_whole first. Each measurement is a fresh process. Every round of a section runs
all its contenders in a new random order: a slow minute hits all alike, and no contender always follows the same one.
Writes the samples as JSON; report.py makes tables from them. Cold reads need root. Fails if a program fails or loads
wrong bytes, never because it is slow; if a peer does not work, its row says so.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time

import host
import sections as plan
from contenders import MIB, Workload, way
from process import Failed, run, run_plain

HERE = os.path.dirname(os.path.abspath(__file__))
MEMORY_FOLDER = "/dev/shm"
PEERS = ["torch.save", "safetensors", "safetensors-numpy", "dcp", "dcp-2threads", "npz", "npy", "tensorizer"]
FEW_PEERS = ["torch.save", "safetensors", "dcp"]


def say(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    with_statistics = True  # the first of ckpt's saves is made once more, for the statistics of a job

    def __init__(self, arguments):
        self.a = arguments
        self.random = random.Random(arguments.seed)
        name = f"ckpt-bench.{os.getpid()}"
        self.disk = os.path.join(os.path.abspath(arguments.dir), name)
        self.memory = os.path.join(MEMORY_FOLDER if os.path.isdir(MEMORY_FOLDER) else arguments.dir, name + ".m")
        self.blob = self.workload = None
        self.kept = {}  # of this workload: (place, contender's name) -> "", or why the folder could not be made
        self.failures = []
        self.machine = host.describe(arguments.dir)
        self.cold, self.versions = False, {}
        self.started = time.monotonic()

    # ---- programs ----
    def commands(self, contender, folder, more=()):
        words = ["--blob", self.blob, "--path", folder, *more]
        if contender.kind in ("peer", "python"):
            return [[self.a.peers_python, os.path.join(HERE, "peers.py"), *contender.words, *words]]
        program = [self.a.program, *contender.words, *self.workload.words(), *words]
        return [[*program, "--rank", str(rank), "--world", str(contender.ranks)] for rank in range(contender.ranks)]

    def place(self, section):
        return self.memory if section.place == "memory" else self.disk

    def keep_folder(self, section, name):
        return os.path.join(self.place(section), "keep", name)

    def fresh(self, folder):
        return host.fresh(folder)

    def remove(self, folder):
        host.remove(folder)

    def warm(self, folder):
        host.warm(folder)

    # ---- preparing ----
    def use(self, workload):
        """Makes the workload's bytes; removes those of the last workload and its kept folders."""
        if workload == self.workload:
            return
        self.forget()
        self.workload = workload
        self.blob = os.path.join(self.memory, workload.name())
        os.makedirs(self.memory, exist_ok=True)
        run_plain([self.a.program, "blob", *workload.words(), "--blob", self.blob])
        with open(self.blob + ".json") as file:
            self.bytes = json.load(file)["tensor_bytes"]

    def forget(self):
        shutil.rmtree(self.memory, ignore_errors=True)
        host.remove(self.disk)
        self.kept, self.workload = {}, None

    def choose(self, section):
        """Leaves the contenders that --rows names, and what they need to be there."""
        words = self.a.rows.split(",")
        section.contenders = [c for c in section.contenders if any(word in c.name for word in words)]
        needed = {c.keep for c in section.contenders}
        section.prepare = [c for c in section.prepare if (c.keep or c.name) in needed]

    def prepare(self, section):
        for keeper in section.prepare:
            key = (section.place, keeper.name)
            if key in self.kept:
                continue
            folder = self.keep_folder(section, keeper.keep or keeper.name)
            if not keeper.keep:
                self.fresh(folder)
            self.kept[key] = ""
            try:
                run(self.commands(keeper, folder), 0, False)
            except Failed as error:
                self.kept[key] = f"could not save: {error}"
                self.note_failure(section, keeper, self.kept[key])

    # ---- measuring ----
    def measure(self, section, contender, first):
        """One measurement: {row: sample}."""
        if contender.keep:
            problem = self.kept.get((section.place, contender.keep), "")
            if problem:
                raise Failed(problem)
            folder = self.keep_folder(section, contender.keep)
        else:
            folder = self.fresh(os.path.join(self.place(section), "fresh"))
        more = ["--compare"] if first and contender.keep else []
        if first and self.with_statistics and contender.kind == "ckpt" and contender.words[0] == "save":
            more.append("--stats")
        try:
            if section.state in ("cold", "warm"):
                host.drop_caches()
            if section.state == "warm":
                self.warm(folder)
            return run(self.commands(contender, folder, more), self.need(contender), section.state == "cold")
        finally:
            if not contender.keep:
                self.remove(folder)

    def need(self, contender):
        """The free memory that it will touch: page cache or staging; a peer's load also allocates the tensors."""
        return self.bytes * (2 if contender.kind in ("peer", "python") and contender.keep else 1) + host.GIB // 4

    def round(self, section, number, rows):
        order = list(section.contenders)
        self.random.shuffle(order)
        for contender in order:
            if number >= contender.most or any(c is contender for c, _ in self.broken):
                continue
            kind = {"python": "ckpt"}.get(contender.kind, contender.kind)  # in tables and plots
            try:
                for name, sample in self.measure(section, contender, number == 0).items():
                    row = ", ".join(filter(None, (contender.name, name)))
                    rows.setdefault(row, {"name": row, "kind": kind, "samples": []})["samples"].append(sample)
                    say(f"   {section.key} {number + 1}: {row} {sample[section.value]:.4f} s")
            except Failed as error:
                self.broken.append((contender, str(error)))
                rows.setdefault(contender.name, {"name": contender.name, "kind": kind, "samples": []})
                rows[contender.name]["error"] = str(error)
                self.note_failure(section, contender, str(error))

    def note_failure(self, section, contender, what):
        say(f"   {section.key}: {contender.name}: FAILED: {what}")
        if contender.kind != "peer":
            self.failures.append(f"{section.key}: {contender.name}: {what}")

    def section(self, section, seconds):
        self.use(section.workload)
        begun = time.monotonic()
        if self.a.rows:
            self.choose(section)
        self.prepare(section)
        self.broken, rows, number = [], {}, 0
        while number < self.a.rounds and (
            number < min(self.a.least, section.least) or time.monotonic() - begun < seconds
        ):
            self.round(section, number, rows)
            number += 1
        say(f"== {section.title}: {number} rounds in {time.monotonic() - begun:.1f} s")
        return {
            "key": section.key,
            "title": section.title,
            "bytes": self.bytes,
            "limit": section.limit,
            "value": section.value,
            "rate": section.rate,
            "rounds": number,
            "rows": list(rows.values()),
        }

    # ---- all ----
    def plan(self, best):
        a, peers = self.a, bool(self.a.peers_python)
        full, few, names = (PEERS, FEW_PEERS, ["safetensors", "dcp", "torch.load-mmap"]) if peers else ([], [], [])
        write, read = (way(*best[key]) for key in ("limit-write", "limit-read"))
        llama, adam = Workload("llama", a.scale), Workload("adam", a.scale)
        half = Workload("llama", a.scale / 2)
        yield from plan.save_sections("llama", "Llama 1B, bf16", llama, write, full)
        yield plan.recycled_section(llama, write)
        yield plan.incremental_section(llama, self.size_of(llama) / MIB)
        yield plan.load_section("llama", "Llama 1B, bf16", llama, "cold", read, full)
        yield plan.load_section("llama", "Llama 1B, bf16", llama, "warm", read, full)
        yield plan.one_section(llama, full)
        yield plan.async_section(llama, self.size_of(llama), peers)
        if not a.quick:
            yield from plan.save_sections("adam", "Model and Adam moments, f32", adam, write, few)
            yield plan.load_section("adam", "Model and Adam moments, f32", adam, "cold", read, few)
        yield from plan.rank_sections(half, write, read)
        yield from plan.replica_sections(half, write)
        yield from plan.memory_sections(half)
        yield from plan.compression_sections(a.scale / 4, write)
        table = Workload("table", a.scale)
        yield from plan.table_sections(table, write, read, plan.TABLE_PEERS if peers else [])
        for count in (2000,) if a.quick else (20000, 100000):
            yield from plan.small_sections(count, [] if count > 20000 else few)
        for count in (1000, 10000) if a.quick else (1000, 10000, 100000, 1000000):
            yield plan.names_section(count, names if count <= 1000 else names[:2] if count <= 10000 else names[:1])

    def size_of(self, workload):
        self.use(workload)
        return self.bytes

    def wanted(self, section):
        return not self.a.only or any(section.key.startswith(word) for word in self.a.only.split(","))

    def best_ways(self, results):
        """The fastest way of each raw limit; (2 threads, 4 MiB) if none was measured."""
        best = {"limit-write": (2, 4), "limit-read": (2, 4)}
        for result in results:
            rows = [row for row in result["rows"] if row["samples"]]
            if rows:
                fastest = min(
                    rows, key=lambda row: sorted(s["t_total"] for s in row["samples"])[len(row["samples"]) // 2]
                )
                threads, _, mib, _ = fastest["name"].split()
                best[result["key"]] = (int(threads), int(mib))
        return best

    def run(self):
        self.cold, self.versions = host.drop_caches(), peer_versions(self.a.peers_python)
        limits = plan.limit_sections(self.a.scale / 2)
        results = [
            self.section(s, self.seconds_for(s, limits, 0.08))
            for s in limits
            if not self.a.only or "limit" in self.a.only
        ]
        best = self.best_ways(results)
        rest = [section for section in self.plan(best) if self.wanted(section)]
        if not results and not rest:
            keys = " ".join(section.key for section in [*limits, *self.plan(best)])
            raise SystemExit(f"--only {self.a.only}: no section begins so; there are: {keys}")
        for at, section in enumerate(rest):
            results.append(self.section(section, self.seconds_for(section, rest[at:], 1)))
            self.write(best, results)  # a run that is stopped keeps its results so far

    def write(self, best, results, **more):
        result = {
            **more,
            "machine": self.machine,
            "commit": self.a.commit,
            "scale": self.a.scale,
            "seed": self.a.seed,
            "seconds": round(time.monotonic() - self.started),
            "peers": self.versions,
            "raw_ways": {key: f"{t} threads x {b} MiB" for key, (t, b) in best.items()},
            "cold": self.cold,
            "sections": results,
            "failures": self.failures,
        }
        with open(self.a.json, "w") as file:
            json.dump(result, file, indent=1)

    def seconds_for(self, section, remaining, share):
        """This section's part of the time that is left."""
        left = self.a.minutes * 60 * share - (time.monotonic() - self.started)
        return max(0, left) * section.weight / sum(s.weight for s in remaining)


def peer_versions(python):
    if not python:
        return {}
    command = [python, os.path.join(HERE, "peers.py"), "versions"]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return json.loads(out.stdout) if out.returncode == 0 else {}


def arguments(description=__doc__, servers=False):
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if servers:
        p.add_argument("servers", nargs="+", help="programs for tests/s3/run.sh")
    p.add_argument("--program", required=True, help="ckpt_whole")
    p.add_argument("--json", required=True, help="file for the samples")
    p.add_argument("--peers-python", default="", help="a Python that has the peers; without it no peers run")
    p.add_argument("--dir", default="/tmp", help="a folder on the disk to measure")
    p.add_argument("--only", default="", help="run only sections whose keys begin so: llama-save,async,…")
    p.add_argument("--rows", default="", help="run only rows whose names have one of these words: raw,Python")
    p.add_argument("--scale", type=float, help="size of the large states; 1 is 2.3 GiB and 2.8 GiB")
    p.add_argument("--minutes", type=float, help="about how long; but each section gets at least --least rounds")
    p.add_argument("--rounds", type=int, help="rounds at most")
    p.add_argument("--least", type=int, help="rounds at least")
    p.add_argument("--quick", action="store_true", help="small states, few rounds")
    p.add_argument("--seed", type=int, default=1, help="seed of the random order")
    p.add_argument("--commit", default="unknown", help="the commit that is measured, for the report")
    a = p.parse_args()
    large = 0.5 if servers else 1  # servers keep every contender's state in memory
    defaults = (0.06, 0.5, 2, 1) if a.quick else (large, 19 if a.peers_python else 10, 7, 3)
    for key, value in zip(("scale", "minutes", "rounds", "least"), defaults):
        if getattr(a, key) is None:
            setattr(a, key, value)
    return a


def measure_all(bench):
    a = bench.a
    host.careful = not a.quick
    if host.meminfo("MemAvailable") < 12 * a.scale * host.GIB + host.RESERVE:
        sys.exit("bench: not enough free memory; choose a smaller --scale")
    if host.free_bytes(a.dir) < (40 if a.peers_python else 16) * a.scale * host.GIB:
        sys.exit(f"bench: not enough room in {a.dir}; choose another --dir or a smaller --scale")
    try:
        bench.run()
    finally:
        bench.forget()
    for failure in bench.failures:
        say(f"FAILED: {failure}")
    sys.exit(1 if bench.failures else 0)


if __name__ == "__main__":
    measure_all(Bench(arguments()))
