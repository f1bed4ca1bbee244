#!/usr/bin/env python3
"""What must hold on a network file system that two machines have mounted; world.sh starts it.

  claims.py NAME WORK BUILD sample|long [CLAIM]

WORK has the file `mounts` (lines "MOUNT NODE FOLDER") and the process id of each node. Mounts: A and B of two nodes; C
and D, where there are such, on which ranks do not see each other's locks; S, the folder of the server. Prints a line
"NAME/CLAIM ... ok" for each claim, or FAILED and what went wrong, and at the end "N passed, N failed".
"""
import contextlib
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
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


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
        try:
            status = self.end(seconds)
        except Failed as failed:
            return [str(failed)]
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
        self.clocks = {}  # how much later it is, by mount

    def start(self, name, mount, command):
        enter = ["nsenter", "-t", self.mounts[mount][0], "-m", "-u", "--"]
        if mount in self.clocks:
            # The times of files are the server's, and a clock that never goes back is nobody else's.
            enter += ["env", f"LD_PRELOAD={FAKETIME}", f"FAKETIME={self.clocks[mount]}", "NO_FAKE_STAT=1",
                      "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"]
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
        """All names below the store: as the server has them, or if that is not to be seen, as that node sees them."""
        mount = "S" if "S" in self.mounts else mount
        find = self.start("find", mount, ["find", self.path(mount, store), "-printf", "%P\\n"])
        find.end(60)
        return find.lines()

    def server(self, verb):
        with open(self.work / "server.txt", "a") as log:
            subprocess.run([os.environ["SYSTEM"], verb], check=True, timeout=120, stdin=subprocess.DEVNULL, stdout=log,
                           stderr=log)
        for mount in "AB" if verb == "start" else "":  # some clients ask for the server now and then only
            end = time.monotonic() + 60
            while self.start("stat", mount, ["stat", self.path(mount, "")]).end(60) and time.monotonic() < end:
                time.sleep(0.5)

    def clear(self):
        """The disks are small."""
        with contextlib.suppress(Failed):
            self.start("rm", "A", ["bash", "-c", f"rm -rf {self.path('A', '')}*"]).end(120)

    def end_all(self):
        for running in self.running:
            if running.process.poll() is None:
                running.kill()
        self.running, self.clocks = [], {}


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


def first_start(volume, times):
    """The nodes ask for the store before rank 0 makes it, as each first start of a training does."""
    for i in range(times):
        store, mounts = f"first.{i}", "BA" if i % 2 else "AB"
        for mount in "AB":  # ls of what is not there ends with 2
            yield from volume.tool(mount, "ls", volume.path(mount, store)).wrong(30, (2,))
        yield from all_wrong(volume.save(mounts, store, string=i % 4 < 2, count=2), 90)
        yield from all_wrong(volume.load(mounts[1], store, 2), 60)


def follower(volume, times):
    """Never a wrong byte, never a step back, and what was committed is seen within 5 s."""
    store = "follower"
    follows = volume.run("B", "follow", store, until=times)
    time.sleep(0.5)
    problems = all_wrong([volume.run("A", "save", store, count=times, keep_last=2, pace_ms=20)], 30 + times * 3)
    ended = time.monotonic()
    yield from problems
    if problems:
        return
    yield from follows.wrong(70)
    if time.monotonic() - ended > 5:
        yield f"B saw step {times} {time.monotonic() - ended:.1f} s after its save had returned"
    yield from (line for line in follows.lines() if line.startswith("ODD"))


def committed(volume, mount, store):
    return sorted(int(one["step"]) for one in volume.listed(mount, store) if one["state"] == "committed")


def fences(volume, times):
    """A second session begins while the first saves. The first commits nothing more, and says why."""
    for i in range(times):
        store, mounts = f"fences.{i}", (("A", "B"), ("AB", "AB"), ("A", "B"), ("AB", "BA"))[i % 4]
        first = volume.save(mounts[0], store, name="first session's ", count=900)
        if not first[0].await_line("ACK", 40, 2):
            yield from all_wrong(first, 40)
            continue
        time.sleep(volume.random.uniform(0, 1))
        problems = all_wrong(volume.save(mounts[1], store, name="second session's ", first=1001, count=2), 60)
        problems += all_wrong(first, 40, (4,))
        problems += [f"{rank.name}: {rank.lines()[-1]}" for rank in first if "FENCED" not in rank.lines()[-1]]
        expected = sorted(first[0].steps("ACK")) + [1001, 1002]
        for mount in "AB":
            end = time.monotonic() + 5
            while (found := committed(volume, mount, store)) != expected and time.monotonic() < end:
                time.sleep(0.1)
            if found != expected:
                problems.append(f"{mount} lists {found}, and {expected} were committed")
        yield from (f"fence {i}: " + problem for problem in problems)


def leftovers(volume, mount, store):
    """What older sessions and removals may not leave: FORMAT has what may be there."""
    if not (found := left(volume.files(mount, store))):
        return []
    time.sleep(5)
    seen = volume.files(other(mount), store)
    return [f"{mount} has {name} left, {other(mount)} {'too' if name in seen else 'not'}" for name in found]


def left(names):
    tokens = [int(name.split("/")[2]) for name in names if name.startswith(".ckpt/owners/") and name[13:].isdigit()]
    newest = str(max(tokens, default=0))
    old = [name for name in names if "/" not in name and name.count(".") >= 2 and name.split(".")[-2] != newest]
    return [name for name in names if name.startswith((".ckpt/trash/", ".ckpt/attempts/")) or "/.nfs" in name
            or (name in old and f"{name}/MANIFEST" not in names)]


def kills(volume, times):
    """A rank dies while it saves. What was committed loads whole, and the next session goes on at once."""
    for i in range(times):
        store, first, mounts = f"kills.{i // 10}", 1 + 1000 * i, volume.random.choice(("AB", "BA", "ABB"))
        ranks = volume.save(mounts, store, first=first, count=900, keep_last=3)
        if not ranks[0].await_line("ACK", 40):
            yield from all_wrong(ranks, 40)
            continue
        time.sleep(volume.random.uniform(0, 1.5))
        victim = volume.random.randrange(len(ranks))
        ranks[victim].kill()
        done = max(ranks[0].steps("ACK"))
        problems = all_wrong(volume.load(other(mounts[victim]), store, done), 40)
        following = volume.save(mounts[1::-1], store, name="next session's ", first=first + 900, keep_last=3)
        problems += all_wrong(following, 26)
        problems += all_wrong([rank for rank in ranks if rank is not ranks[victim]], 40, (4,))
        if not problems:
            problems += leftovers(volume, mounts[1], store)
            problems += [line for line in following[0].lines() if problems and line.startswith("KEPT")]
        yield from (f"kill {i} of rank {victim} of {mounts}: " + problem for problem in problems)


def removal(volume, times):
    """What is removed is gone, with nothing left of it, whichever node had it open before."""
    for i in range(times):
        store, (mount, reader) = f"removal.{i}", "BA" if i % 2 else "AB"
        problems = all_wrong([volume.run(mount, "save", store, count=4)], 60)
        problems += all_wrong(volume.load(reader, store, 4), 40)
        for words in (["rm", volume.path(mount, store) + "@step:4"],
                      ["prune", volume.path(mount, store), "--keep-last", "1", "--write"]):
            problems += all_wrong([volume.tool(mount, *words)], 40)
            problems += [f"after ckpt {words[0]}: {left}" for left in leftovers(volume, mount, store)]
        found = committed(volume, mount, store)
        if found != [3]:
            problems.append(f"steps {found} are left, expected 3")
        yield from (f"removal {i}: " + problem for problem in problems)


def removal_while_read(volume, times):
    """What the other node reads is kept, or read on: no wrong byte, no SIGBUS."""
    for i in range(times):
        store, (mount, reader) = f"read.{i}", "BA" if i % 2 else "AB"
        go = volume.work / f"go.{i}"
        problems = all_wrong([volume.run(mount, "save", store, count=2)], 60)
        holder = volume.run(reader, "hold", store, go=go)
        if not holder.await_line("HELD"):
            yield from holder.wrong(10)
            continue
        removing = volume.tool(mount, "rm", volume.path(mount, store) + "@step:2")
        removed = removing.end(40) == 0
        if not removed and "read" not in " ".join(removing.lines()):
            problems.append(f"ckpt rm: {removing.lines()}")
        if removed == (2 in committed(volume, mount, store)):
            problems.append(f"removed: {removed}, but ls says else; ckpt rm: {removing.lines()}")
        problems += all_wrong([volume.run(mount, "save", store, first=3, count=2, keep_last=1)], 60)
        go.touch()
        status = holder.end(60)
        if status and not (removed and holder.lines()[-1].startswith("FAILED GONE")):
            problems.append(f"{holder.name}, {'removed' if removed else 'kept'}: {status}: {holder.lines()[-2:]}")
        problems += all_wrong([volume.run(mount, "save", store, first=5, keep_last=1)], 60)
        problems += leftovers(volume, mount, store)
        yield from (f"removal {i} while {reader} reads: " + problem for problem in problems)


def late_ranks(volume, times, mounts="CD"):
    """Rank 1 comes 5 s late to each save, while no rank can see another's lock. It is not gone."""
    if mounts[0] not in volume.mounts:
        mounts = "AB"
    string = volume.work / f"string.late.{mounts}.{next(volume.numbers)}"
    ranks = [volume.run(mount, "save", f"late.{mounts}", f"rank {rank}", rank=rank, world=2, string=string, count=times,
                        late_ms=5000 * rank, on=1) for rank, mount in enumerate(mounts)]
    yield from all_wrong(ranks, 60 + times * 30)
    yield from (line for line in ranks[0].lines() if line.startswith("FAILED"))


# ---- the long form only ----
def late_after_restart(volume, times):
    """The same after a restart of the server, which may have forgotten the locks."""
    string = volume.work / "string.restarted"
    ranks = [volume.run(mount, "save", "restarted", f"rank {rank}", rank=rank, world=2, string=string, count=times,
                        late_ms=5000 * rank, on=1) for rank, mount in enumerate("AB")]
    ranks[0].await_line("ACK", 60, 2)
    volume.server("stop")
    time.sleep(2)
    volume.server("start")
    for rank in ranks:  # a save in the outage may fail
        rank.end(60 + times * 30)
    yield from (line for line in ranks[0].lines() if " gone" in line)
    if not {times - 1, times} <= set(ranks[0].steps("ACK")):
        yield f"the last saves failed: {ranks[0].lines()}"


def sound(volume, store, at_least, first):
    """The store has what was committed, whole, and goes on."""
    problems = all_wrong(volume.load("BA", store, at_least, 30_000), 90)
    problems += all_wrong([volume.tool("A", "verify", volume.path("A", store) + "@latest")], 60)
    return problems + all_wrong(volume.save("BA", store, name="next session's ", first=first, count=2), 90)


def restarts(volume, times):
    """The server stops in mid-save for 3 s, or for longer than the saves may take: none ends later than timeout_ms
    (20 s) and ten seconds, but for two of slow machines."""
    for i in range(times):
        store, outage = f"restarts.{i}", 35 if i % 2 else 3
        ranks = volume.save("AB", store, count=900, on=1)
        if not ranks[0].await_line("ACK", 40, 2):
            yield from all_wrong(ranks, 40)
            continue
        time.sleep(volume.random.uniform(0, 1))
        volume.server("stop")
        time.sleep(outage)
        volume.server("start")
        acked = len(ranks[0].steps("ACK"))
        problems = []
        try:
            ranks[0].await_line("ACK", 90, acked + 3)  # it goes on, or it has ended by an error of ckpt
        except Failed as failed:
            problems.append(str(failed))
        for line in (line for rank in ranks for line in rank.lines() if line.startswith("FAILED")):
            if " after " in line and float(line.split(" after ")[1].split()[0]) > 32:
                problems.append(f"it ended too late: {line}")
        for rank in ranks:
            rank.kill()
        problems += sound(volume, store, max(ranks[0].steps("ACK")), 2001)
        yield from (f"outage {i} of {outage} s: " + problem for problem in problems)


def full_disk(volume, times):
    """A save that finds no space ends with NO_SPACE on one rank and a reason on all; then the store goes on."""
    for i in range(times):
        store, go = f"full.{i}", volume.work / f"go.full.{i}"
        ranks = volume.save("AB", store, count=2, go=go)
        if not all([rank.await_line("ACK") for rank in ranks]):
            yield from all_wrong(ranks, 40)
            continue
        # What is left is less than one save needs.
        fill = volume.start("fill", "A", ["dd", "if=/dev/zero", "of=" + volume.path("A", "fill"), "bs=512k"])
        fill.end(300)
        if "No space left" not in " ".join(fill.lines()) and "quota" not in " ".join(fill.lines()):
            raise Failed(f"the disk could not be filled: {fill.lines()}")
        go.touch()
        problems = all_wrong(ranks, 60, (4,))
        said = [rank.lines()[-1] for rank in ranks]
        # Where three bricks are not equally full, GlusterFS says that it is not connected.
        if not any("NO_SPACE" in line or (volume.name == "gluster" and " IO " in line) for line in said):
            problems.append(f"nobody said NO_SPACE: {said}")
        volume.start("rm", "A", ["rm", volume.path("A", "fill")]).end(60)
        time.sleep(5)  # some servers count what was removed a moment later
        yield from (f"full disk {i}: " + problem for problem in problems + sound(volume, store, 1, 11))


def clocks(volume, times):
    """The clock of one node is minutes off. Saves, fences, presence, retention and `ckpt check` do not mind."""
    for skew in ("+420", "-420"):
        volume.clocks = dict.fromkeys("BD", skew)
        now = volume.start("date", "B", ["date", "+%s"])
        now.end(10)
        if abs(int(now.lines()[0]) - time.time() - int(skew)) > 30:
            raise Failed(f"its clock is not {skew} s off: {now.lines()}")
        checks = [volume.tool(mount, "check", volume.path(mount, ""), "--peers", "2", "--json") for mount in "AB"]
        problems = all_wrong(checks, 120)
        for check in checks if not problems else []:
            text = check.log.read_text()
            worst = [views["worst_ms"] for key, views in json.loads(text)["peers"].items() if "_by_" in key] \
                if text.startswith("{") else []
            problems += [f"ckpt check: names seen after {ms} ms" for ms in worst if ms > 60_000]
        for claim, often in (worlds, times), (follower, 20), (fences, times), (kills, times), (late_ranks, 2):
            problems += [f"{claim.__name__}: {problem}" for problem in claim(volume, often)]
        yield from (f"B's clock {skew} s off: {problem}" for problem in problems)
        volume.end_all()
        volume.clear()


# ---- no claim: `--only=speed` prints how fast saves and loads are beside dd ----
def speed(volume, _):
    """In each round all write and then read on the other node, in another order. The best counts."""
    # User-mode Linux has little memory.
    mib = 256 if volume.name.startswith("nfs") else int(os.environ.get("CKPT_NETFS_MIB", 1024))
    best = {}
    for _ in range(3):
        ways = [*CKPT, *DD]
        volume.random.shuffle(ways)
        for way in ways:
            for what, mount in ("save", "A"), ("load", "B"):
                took = seconds(volume, way, what, mount, mib)
                best[what, way] = min(took, best.get((what, way), took))
        volume.clear()
    for what in ("save", "load"):
        rates = {way: mib / best[what, way] for way in [*CKPT, *DD]}
        limit = max(DD, key=rates.get)
        print(f"   {what} of {mib} MiB: {rates['ckpt'] / rates[limit]:.2f} of dd ({limit}); MiB/s: "
              + ", ".join(f"{way} {rate:.0f}" for way, rate in rates.items()))
    yield from ()


CKPT = ("ckpt", "ckpt io_engine=threads", "ckpt direct_io=off")
DD = {"buffered": 1, "buffered twice": 2, "direct": 1, "direct twice": 2}  # how many at once


def seconds(volume, way, what, mount, mib):
    if way in CKPT:
        options = dict(word.split("=") for word in way.split()[1:])
        one = volume.run(mount, "speed", f"speed.{CKPT.index(way)}", what=what, mib=mib, **options)
    else:
        file, blocks = volume.path(mount, way.replace(" ", ".")) + ".$i", mib // 4 // DD[way]
        words = f"if=/dev/zero of={file} count={blocks} conv=fsync" if what == "save" else f"if={file} of=/dev/null"
        flag = (" oflag=direct" if what == "save" else " iflag=direct") if "direct" in way else ""
        loop = f"for ((i = 0; i < {DD[way]}; i++)); do dd bs=4M {words}{flag} & done; wait"
        one = volume.start("dd", mount, ["bash", "-c", f"TIMEFORMAT='TOOK %R'; time ({loop})"])
    problems = one.wrong(300)
    if problems:
        raise Failed(problems[0])
    return next(float(line.split()[1]) for line in one.lines() if line.startswith("TOOK"))


CLAIMS = (  # name, claim, how often in the short form and in the long one
    ("worlds", worlds, 4, 50),
    ("first start", first_start, 2, 10),
    ("follower", follower, 20, 200),
    ("fences", fences, 2, 20),
    ("kills", kills, 4, 50),
    ("removal", removal, 2, 6),
    ("removal while it is read", removal_while_read, 1, 6),
    ("late ranks", late_ranks, 2, 4),
    ("late ranks after a restart", late_after_restart, 0, 6),
    ("restarts", restarts, 0, 6),
    ("full disk", full_disk, 0, 3),
    ("clocks", clocks, 0, 4),
    ("speed", speed, 0, 0),
)


NO_FULL_DISK = {"cephfs": "where its clients wait", "moosefs": "where its clients wait",
                "juicefs": "since its limit is a soft one"}


def run(volume, name, claim, times):
    began, problems = time.monotonic(), []
    try:
        problems += claim(volume, times)
    except Failed as failed:
        problems.append(str(failed))
    finally:
        volume.end_all()
        volume.clear()
    print(f"   {name}: {times} times in {time.monotonic() - began:.0f} s")
    for problem in problems[:SHOWN]:
        print(f"      {problem}")
    if len(problems) > SHOWN:
        print(f"      and {len(problems) - SHOWN} more")
    print(f"{volume.name}/{name} ... {'FAILED' if problems else 'ok'}", flush=True)
    return not problems


def main(name, work, build, length, only=None):
    volume = Volume(name, Path(work), Path(build))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen = [(claim[0], claim[1], claim[2 if length == "sample" else 3]) for claim in CLAIMS]
    if only:
        chosen = [claim for claim in chosen if claim[0] == only]
    if name in NO_FULL_DISK:
        chosen = [claim for claim in chosen if claim[1] is not full_disk]
        print(f"   NOT TESTED: a full disk, {NO_FULL_DISK[name]}")
    results = [run(volume, title, claim, times) for title, claim, times in chosen if times or only]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed", flush=True)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
