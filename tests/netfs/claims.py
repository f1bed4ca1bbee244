#!/usr/bin/env python3
"""What must hold on a network file system that two machines have mounted; world.sh starts it.

  claims.py NAME WORK BUILD sample|long

WORK has the file `mounts` (lines "MOUNT NODE FOLDER") and the process id of each node. Prints a line
"NAME/CLAIM ... ok" for each claim, or FAILED and what went wrong, and at the end "N passed, N failed".
"""
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

SHOWN = 12  # problems of a claim


class Failed(Exception):
    pass


class Running:
    """A program on a mount. Its output goes to a file, so that it never waits for us."""
    def __init__(self, name, command, log):
        self.name, self.log = name, log
        with open(log, "w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def lines(self):
        return self.log.read_text(errors="replace").splitlines()

    def steps(self, word):
        return [int(line.split()[1]) for line in self.lines() if line.startswith(word + " ")]

    def await_line(self, word, seconds=30, count=1):
        """False once the program has ended without it."""
        end = time.monotonic() + seconds
        while sum(line.startswith(word) for line in self.lines()) < count:
            if self.process.poll() is not None:
                return sum(line.startswith(word) for line in self.lines()) >= count
            if time.monotonic() > end:
                raise Failed(f"{self.name} did not say {word} {count} times in {seconds} s: {self.lines()[-3:]}")
            time.sleep(0.01)
        return True

    def end(self, seconds):
        """Its exit status; a program that does not end in time is killed."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self.name} did not end in {seconds} s: {self.lines()[-3:]}") from None

    def kill(self):
        self.process.kill()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:  # in the kernel, at a server that does not answer
            pass

    def wrong(self, seconds, expected=(0,)):
        """What to say of it, if it ends in another way; empty otherwise."""
        status = self.end(seconds)
        return [] if status in expected else [f"{self.name}: exit status {status}: {self.lines()[-3:]}"]


class Volume:
    """The mounts of one file system."""
    def __init__(self, name, work, build):
        self.name, self.work, self.build = name, work, build
        self.mounts = {}
        for line in (work / "mounts").read_text().splitlines():
            mount, node, folder = line.split()
            self.mounts[mount] = ((work / f"node.{node}").read_text().strip(), folder)
        self.random = random.Random(name)
        self.numbers = itertools.count()
        self.running = []

    def start(self, name, mount, command):
        enter = ["nsenter", "-t", self.mounts[mount][0], "-m", "-u", "--"]
        running = Running(f"{name} on {mount}", enter + command, self.work / f"log.{next(self.numbers)}.txt")
        self.running.append(running)
        return running

    def path(self, mount, store):
        return f"{self.mounts[mount][1]}/{store}"

    def run(self, mount, verb, store, name=None, **settings):
        words = [f"{key}={value}" for key, value in settings.items()]
        program = str(self.build / "tests/programs/netfs_program")
        return self.start(name or verb, mount, [program, verb, self.path(mount, store), *words])

    def save(self, mounts, store, string=True, name="", **settings):
        """A program for each rank, rank 0 first."""
        file = {"string": self.work / f"string.{next(self.numbers)}"} if string and len(mounts) > 1 else {}
        return [self.run(mount, "save", store, f"{name}rank {rank} of {len(mounts)}", rank=rank, world=len(mounts),
                         **file, **settings) for rank, mount in enumerate(mounts)]

    def load(self, mounts, store, at_least, within_ms=5000):
        return [self.run(mount, "load", store, f"load {rank} of {len(mounts)}", rank=rank, world=len(mounts),
                         at_least=at_least, within_ms=within_ms) for rank, mount in enumerate(mounts)]

    def tool(self, mount, *words):
        return self.start("ckpt " + words[0], mount, [str(self.build / "ckpt"), *words])

    def listed(self, mount, store):
        ls = self.tool(mount, "ls", "--json", self.path(mount, store))
        problems = ls.wrong(60)
        if problems:
            raise Failed(problems[0])
        return json.loads(ls.log.read_text())["checkpoints"]

    def files(self, mount, store):
        """All names below the store, as that node sees them."""
        find = self.start("find", mount, ["find", self.path(mount, store), "-printf", "%P\\n"])
        find.end(60)
        return find.lines()

    def server(self, verb):
        subprocess.run([os.environ["SYSTEM"], verb], check=True, timeout=120, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL)

    def end_all(self):
        for running in self.running:
            if running.process.poll() is None:
                running.kill()
        self.running = []


def all_wrong(programs, seconds, expected=(0,)):
    end = time.monotonic() + seconds
    return [text for program in programs for text in program.wrong(max(1, end - time.monotonic()), expected)]


def other(mount):
    return {"A": "B", "B": "A", "C": "D", "D": "C"}[mount]


# ---- claims: each yields what went wrong ----
def worlds(volume, times):
    """Ranks on both mounts save; another number of ranks load it, rank 0 from the other mount."""
    for i in range(times):
        saved, loaded = volume.random.randint(2, 4), volume.random.randint(1, 4)
        mounts = [("AB" if i % 4 < 2 else "BA")[rank % 2] for rank in range(saved)]
        store, what = f"worlds.{i}", f"world {i} ({saved} ranks, {'rendezvous' if i % 2 else 'string'}): "
        problems = all_wrong(volume.save(mounts, store, string=i % 2 == 0, count=2), 90)
        if not problems:
            problems = all_wrong(volume.load([other(mounts[rank % 2]) for rank in range(loaded)], store, 2), 60)
        yield from (what + problem for problem in problems)


CLAIMS = (  # name, claim, how often in the short form and in the long one
    ("worlds", worlds, 4, 50),
)


def run(volume, name, claim, times):
    began, problems = time.monotonic(), []
    try:
        problems += claim(volume, times)
    except Failed as failed:
        problems.append(str(failed))
    finally:
        volume.end_all()
    print(f"   {name}: {times} times in {time.monotonic() - began:.0f} s")
    for problem in problems[:SHOWN]:
        print(f"      {problem}")
    if len(problems) > SHOWN:
        print(f"      and {len(problems) - SHOWN} more")
    print(f"{volume.name}/{name} ... {'FAILED' if problems else 'ok'}", flush=True)
    return not problems


def main(name, work, build, length):
    volume = Volume(name, Path(work), Path(build))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen = [(claim[0], claim[1], claim[2 if length == "sample" else 3]) for claim in CLAIMS]
    results = [run(volume, title, claim, times) for title, claim, times in chosen if times]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed", flush=True)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
