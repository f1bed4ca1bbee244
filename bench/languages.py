#!/usr/bin/env python3
"""What a binding costs over C: the same save by every conformance runner, in turns, in random order.

  bench/languages.py RUNNERS_JSON DIR [--rounds 9] [--bytes 2147483648] [--out FILE.md]

Three measures, from tests/conformance/scenarios/speed: a save of one tensor of --bytes (durable, into the files of a
checkpoint that was removed, as in a run); a save of a page into memory (what a save costs beside its bytes); adding
10,000 small tensors to a save (the cost of one call).
A ratio is the median over the rounds of that language's time over C's in the same round; beside it the 95 % interval of
that median (bootstrap over rounds), so that an interval with 0 in it says that nothing can be told apart. DIR should be
on the disk that is meant; a tmpfs (/dev/shm) leaves the disk's own unrest out.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import host  # noqa: E402

SPEED = Path(__file__).resolve().parents[1] / "tests" / "conformance" / "scenarios" / "speed"
TENSORS = 10000


def timed(runner, scenario, place, **variables):
    """Seconds of the timed commands of the scenario, by the command's first word: the median where it has several."""
    command, environment = (runner["command"], runner.get("env", {})) if isinstance(runner, dict) else (runner, {})
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        given = [f"{name}={value}" for name, value in variables.items()]
        done = subprocess.run([*command, str(SPEED / scenario), str(place), *given],
                              env={**os.environ, **environment}, text=True, capture_output=True, check=False)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if done.returncode:
        sys.exit(f"{command}: {done.stderr}")
    lines = [line.split() for line in done.stdout.splitlines()]
    timings = [(words[1], float(words[0])) for words in lines if len(words) > 1 and words[0] != "ok"]
    return {name: statistics.median(t for other, t in timings if other == name) for name, _ in timings}


def measure(runners, scenario, wanted, rounds, place, **variables):
    """language -> its seconds, one for each round; the languages of a round come in random order."""
    seconds = {language: [] for language in runners}
    for _ in range(rounds):
        for language in random.sample(sorted(runners), len(runners)):
            host.settle(variables.get("BYTES", 0))
            seconds[language].append(timed(runners[language], scenario, place, **variables)[wanted])
    return seconds


def over_c(values, base):
    """(median of the ratios of each round less one, its 95 % interval), in percent."""
    ratios = [100 * (mine / c - 1) for mine, c in zip(values, base)]
    drawn = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(2000))
    return statistics.median(ratios), drawn[50], drawn[-51]


def save_table(seconds, size):
    yield f"| language | save of {size / 2**20:.0f} MiB | over C | 95 % interval |"
    yield "|---|---|---|---|"
    for language, values in seconds.items():
        ratio, low, high = over_c(values, seconds["c"])
        yield f"| {language} | {statistics.median(values):.2f} s | {ratio:+.1f} % | {low:+.1f} … {high:+.1f} % |"


def small_table(seconds):
    base = statistics.median(seconds["c"])
    yield "| language | save of 4 KiB into memory | over C |"
    yield "|---|---|---|"
    for language, values in seconds.items():
        median = statistics.median(values)
        yield f"| {language} | {median * 1e6:.0f} µs | {(median - base) * 1e6:+.0f} µs |"


def call_table(seconds):
    base = statistics.median(seconds["c"])
    yield f"| language | adding one of {TENSORS:,} tensors | over C |"
    yield "|---|---|---|"
    for language, values in seconds.items():
        median = statistics.median(values)
        yield f"| {language} | {median / TENSORS * 1e6:.2f} µs | {(median - base) / TENSORS * 1e6:+.2f} µs |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runners")
    parser.add_argument("dir", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--bytes", type=int, default=2**31)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    runners = json.loads(Path(options.runners).read_text())
    place = options.dir / "ckpt-languages"
    saves = measure(runners, "save.txt", "save.run", options.rounds, place, BYTES=options.bytes)
    small = measure(runners, "small.txt", "save.run", options.rounds, place)
    calls = measure(runners, "tensors.txt", "save.tensors", options.rounds, place)
    machine = ", ".join(f"{key} {value}" for key, value in host.describe(str(options.dir)).items() if key != "date")
    lines = [f"{time.strftime('%F %H:%M')}, {options.rounds} rounds in random order; {machine}.", "",
             *save_table(saves, options.bytes), "", *small_table(small), "", *call_table(calls)]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
