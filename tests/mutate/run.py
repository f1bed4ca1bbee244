#!/usr/bin/env python3
"""Is each step of the engine needed? Makes small mistakes in it, one at a time, and looks for a test that notices.

    tests/mutate/run.py build [ROOM…]    one build with all mutants of these rooms (sites.py); what does not compile is
                                         left out
    tests/mutate/run.py trace            which test reaches which place
    tests/mutate/run.py try [ROOM…]      each mutant against the tests that reach it, quickest first, until one fails;
                                         goes on where it stopped; with a greater --most it tries again what nobody
                                         noticed
    tests/mutate/run.py table            noticed and not, by room; which nobody noticed: build/mutants/unnoticed.txt
    tests/mutate/run.py show NUMBER…     the place of a mutant

All is under build/mutants. A test that crashes or hangs has noticed. `try --share 20` tries every 20th.
"""
from __future__ import annotations

import argparse
import filecmp
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import sites

REPO = Path(__file__).resolve().parents[2]
WORK = REPO / "build/mutants"
TREE, BUILD, LIST, REACHED, RESULTS = (WORK / name for name in ("tree", "build", "list.json", "reached.jsonl",
                                                               "results.jsonl"))
# Tests of a room first. What api tests only with processes that are killed comes last: it is slow.
PROGRAMS = ("base", "plan", "codec", "format", "tree", "device", "checkpoint", "save", "keeper", "commit", "store",
            "api")
SETTINGS = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Mutants", "-DCKPT_BUILD_TESTS=ON", "-DCKPT_INTEROP=ON",
            f"-DCMAKE_CXX_FLAGS=-O1 -w -fmax-errors=0 -include {REPO}/tests/mutate/mutant.h",
            "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache", "-DCMAKE_C_COMPILER_LAUNCHER=ccache"]
JOBS = os.cpu_count() or 1


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, record: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


# ---- build ----


def find(rooms: list[str]) -> list[dict[str, Any]]:
    """All mutants of these rooms, numbered from 1. Their lines are those of the source."""
    made: list[dict[str, Any]] = []
    for room in rooms:
        for path in sorted((REPO / "src" / room).rglob("*")):
            if path.suffix in (".cpp", ".h"):
                text = path.read_text()
                for one in sites.Finder(text).all():
                    lines = [text.count("\n", 0, at) + 1 for at in (one.start, one.end)]
                    made.append({"number": len(made) + 1, "room": room, "file": str(path.relative_to(REPO)),
                                 "lines": lines, "dropped": False, **vars(one),
                                 "code": " ".join(text[one.start:one.end].split())})
    return made


def write(mutants: list[dict[str, Any]]) -> None:
    for name in {one["file"] for one in mutants}:
        chosen = [(one["number"], sites.Mutant(one["kind"], one["start"], one["end"], one["before"], one["after"]))
                  for one in mutants if one["file"] == name and not one["dropped"]]
        made = sites.rewrite((REPO / name).read_text(), chosen)
        if not (TREE / name).exists() or (TREE / name).read_text() != made:
            (TREE / name).write_text(made)


def copy(changed: set[str]) -> None:
    """What git knows, but what will be changed; a file that is there already keeps its time."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, check=True, capture_output=True, text=True).stdout
    for name in files.rstrip("\0").split("\0"):
        there = TREE / name
        if name not in changed and not (there.exists() and filecmp.cmp(REPO / name, there, shallow=False)):
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPO / name, there, follow_symlinks=False)


def drop(mutants: list[dict[str, Any]], said: str) -> int:
    """Leaves out those at the lines of the compiler's errors; how many."""
    at = {(str(Path(file).resolve().relative_to(TREE)), int(line)) for file, line in
          re.findall(r"^(\S+?):(\d+):\d+: (?:fatal )?error", said, re.M) if Path(file).resolve().is_relative_to(TREE)}
    count = 0
    for one in mutants:
        if not one["dropped"] and any(one["file"] == file and one["lines"][0] <= line <= one["lines"][1]
                                      for file, line in at):
            one["dropped"] = True
            count += 1
    return count


def build(rooms: list[str]) -> None:
    mutants = find(rooms)
    copy({one["file"] for one in mutants})
    subprocess.run(["cmake", "-S", TREE, "-B", BUILD, *SETTINGS], check=True, stdout=subprocess.DEVNULL)
    targets = [f"{program}_tests" for program in PROGRAMS]
    while True:
        write(mutants)
        made = subprocess.run(["ninja", "-C", BUILD, "-k", "0", *targets], text=True, capture_output=True)
        if made.returncode == 0:
            break
        count = drop(mutants, made.stdout)
        print(f"{count} do not compile", flush=True)
        if not count:
            sys.exit(f"it does not compile, for another reason:\n{made.stdout[-4000:]}")
    LIST.write_text(json.dumps(mutants))
    for old in (REACHED, RESULTS):
        old.unlink(missing_ok=True)
    print(f"{sum(not one['dropped'] for one in mutants)} mutants, {sum(one['dropped'] for one in mutants)} left out")


# ---- run ----


def limits() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 30, 4 << 30))
    resource.setrlimit(resource.RLIMIT_AS, (24 << 30, 24 << 30))


def run(program: str, tests: list[str], seconds: float, **environment: str) -> bool:
    """Whether all of them pass in time. Nothing of theirs is left."""
    with tempfile.TemporaryDirectory(prefix="mutant", ignore_cleanup_errors=True) as folder:
        # A list that is too long for a command line is in the environment.
        given = {**os.environ, "TMPDIR": folder, "GTEST_FILTER": ":".join(tests), "GTEST_FAIL_FAST": "1", **environment}
        process = subprocess.Popen([BUILD / "tests" / f"{program}_tests"], env=given, cwd=folder, preexec_fn=limits,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            return process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def listed(program: str) -> list[str]:
    said = subprocess.run([BUILD / "tests" / f"{program}_tests", "--gtest_list_tests"], text=True, check=True,
                          capture_output=True).stdout
    made, suite = [], ""
    for line in said.splitlines():
        if line.startswith("  "):
            made.append(suite + line.split("#")[0].strip())
        elif not line.startswith("Running"):
            suite = line.split("#")[0].strip()
    return [name for name in made if "DISABLED_" not in name]


def traced(program: str, test: str, count: int) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile() as seen:
        seen.truncate(count + 1)
        start = time.monotonic()
        passes = run(program, [test], 300, CKPT_MUTANT_SEEN=seen.name)
        reached = [number for number, byte in enumerate(Path(seen.name).read_bytes()) if byte]
    return {"program": program, "test": test, "passes": passes, "seconds": time.monotonic() - start, "reached": reached}


def trace() -> None:
    count = len(json.loads(LIST.read_text()))
    done = {(one["program"], one["test"]) for one in read(REACHED)}
    tests = [(program, test) for program in PROGRAMS for test in listed(program) if (program, test) not in done]

    def one_of(test: tuple[str, str]) -> None:
        made = traced(*test, count)
        append(REACHED, made)
        if not made["passes"]:
            print("fails without a mutant:", *test, flush=True)
    with ThreadPoolExecutor(2 * JOBS) as pool:  # many of them wait
        list(pool.map(one_of, tests))


def attempt(one: dict[str, Any], tests: list[dict[str, Any]], most: float) -> str | None:
    """The first batch of tests that notices a mutant, for `most` seconds: first those that are called like its file,
    then those of its room, then the quickest."""
    word = Path(one["file"]).stem.split("_")[-1].removesuffix("s")
    left = sorted(tests, key=lambda test: (word not in test["test"].lower(), test["program"] != one["room"],
                                           test["seconds"]))
    size = 12
    while left and most > 0:
        batch, left = left[:size], left[size:]
        size *= 3
        most -= sum(test["seconds"] for test in batch)
        for program in PROGRAMS:
            names = [test for test in batch if test["program"] == program]
            seconds = 20 + 10 * sum(test["seconds"] for test in names)
            if names and not run(program, [test["test"] for test in names], seconds, CKPT_MUTANT=str(one["number"])):
                return f"{program} {names[0]['test']}" + (f" or {len(names) - 1} others" if names[1:] else "")
    return None


def results() -> dict[int, dict[str, Any]]:
    return {one["number"]: one for one in read(RESULTS)}


def try_all(rooms: list[str], share: int, seconds: float, most: float) -> None:
    done, end = results(), time.monotonic() + seconds
    chosen = [one for one in json.loads(LIST.read_text()) if not one["dropped"] and one["number"] % share == 0
              and (not rooms or one["room"] in rooms)
              and (one["number"] not in done
                   or not done[one["number"]]["noticed"] and done[one["number"]]["most"] < most)]
    random.Random(1).shuffle(chosen)  # so that a part of them says what all would
    by_number: dict[int, list[dict[str, Any]]] = {}
    for test in read(REACHED):
        for number in test["reached"] if test["passes"] else ():
            by_number.setdefault(number, []).append(test)

    def one_of(one: dict[str, Any]) -> None:
        if time.monotonic() < end:
            tests = by_number.get(one["number"], [])
            append(RESULTS, {"number": one["number"], "noticed": attempt(one, tests, most), "tests": len(tests),
                             "most": most})
    with ThreadPoolExecutor(2 * JOBS) as pool:
        list(pool.map(one_of, chosen))


# ---- what came out ----


def place(one: dict[str, Any]) -> str:
    return f"{one['number']} {one['file']}:{one['lines'][0]} {one['kind']}: {one['code']}"


def table() -> None:
    mutants, done = {one["number"]: one for one in json.loads(LIST.read_text())}, results()
    print(f"{'room':12} {'mutants':>8} {'tried':>8} {'noticed':>8} {'not':>6} {'unreached':>10} {'share':>7}")
    for room in dict.fromkeys(one["room"] for one in mutants.values()):
        tried = [done[number] for number, one in mutants.items() if one["room"] == room and number in done]
        missed = [one for one in tried if not one["noticed"]]
        all_of = sum(one["room"] == room and not one["dropped"] for one in mutants.values())
        print(f"{room:12} {all_of:8} {len(tried):8} {len(tried) - len(missed):8} {len(missed):6} "
              f"{sum(not one['tests'] for one in missed):10} {len(missed) / max(1, len(tried)):7.1%}")
    lines = [place(mutants[number]) + ("" if one["tests"] else " (unreached)") for number, one in sorted(done.items())
             if not one["noticed"]]
    (WORK / "unnoticed.txt").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "trace", "try", "table", "show"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no mutant after so long")
    parser.add_argument("--most", type=float, default=1e9, help="seconds of tests for a mutant")
    given = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    if given.what == "build":
        build(given.names or ["plan", "format", "commit"])
    elif given.what == "trace":
        trace()
    elif given.what == "try":
        try_all(given.names, given.share, given.seconds, given.most)
    elif given.what == "table":
        table()
    else:
        for one in json.loads(LIST.read_text()):
            if str(one["number"]) in given.names:
                print(place(one))


if __name__ == "__main__":
    main()
