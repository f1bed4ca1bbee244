#!/usr/bin/env python3
"""Measures what a binding costs over C: every conformance runner makes the same save, in turns, in random order.

  bench/languages.py RUNNERS_JSON DIR [--rounds 9] [--launches 4] [--turns 20] [--bytes 2147483648] [--out FILE.md]

Three measures. From tests/conformance/scenarios/speed, in --rounds: a save of one page into memory (the cost of a save
without its bytes), and adding 10,000 small tensors to a save (the cost of one call). Then a durable save of one tensor
of --bytes into the files of a removed checkpoint, as in a run: the programs of all languages are alive together and
save in --turns (bench/turns.py); all of this is launched --launches times. DIR should be on the disk to measure.

"Over C" is the median of the ratios to C's time in the same turn, with its 95 % interval: if that contains 0, there is
no measurable difference. A binding can add time only before and after it calls the library; bench/inside.c measures
that exactly. The row "c again" is C's program a second time: its difference from C shows how large the noise is.
"""
import argparse
import os
import random
import shutil
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import host  # noqa: E402
import turns  # noqa: E402
from runner import Runner, load_runners  # noqa: E402

SPEED = Path(__file__).resolve().parents[1] / "tests" / "conformance" / "scenarios" / "speed"
TENSORS = 10000


def timed(runner, scenario, place):
    """Seconds of the scenario's timed commands, by the command's first word; of several, the median."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        problem, timings = runner.carry_out((SPEED / scenario).read_text(), scenario, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if problem:
        sys.exit(problem)
    return {name: statistics.median(t for other, t in timings if other == name) for name, _ in timings}


def measure(runners, scenario, wanted, rounds, place):
    """language -> its seconds, one for each round; the languages of a round come in random order."""
    seconds = {language: [] for language in runners}
    for _ in range(rounds):
        for language in random.sample(sorted(runners), len(runners)):
            seconds[language].append(timed(runners[language], scenario, place)[wanted])
    return seconds


def measure_saves(runners, options, place):
    """For each launch: language -> (seconds, seconds inside the library) of each turn."""
    launches = []
    for _ in range(options.launches):
        host.touch_memory(options.bytes * (len(runners) + 1))
        shutil.rmtree(place, ignore_errors=True)
        try:
            launches.append(turns.saves(runners, options.turns, place, options.bytes))
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return launches


def over_c(launches, language):
    """(median of ratio - 1 over all turns, its 95 % interval), in percent.

    The interval is a bootstrap over launches and over the turns of each. Turns of one launch are alike: each program
    keeps its memory.
    """
    ratios = [[100 * (mine / c - 1) for (mine, _), (c, _) in zip(launch[language], launch["c"])] for launch in launches]
    drawn = sorted(statistics.median([ratio for some in random.choices(ratios, k=len(ratios))
                                      for ratio in random.choices(some, k=len(some))]) for _ in range(2000))
    return statistics.median(sum(ratios, [])), drawn[50], drawn[-51]


def save_table(launches, size):
    yield f"| language | save of {size / 2**20:.0f} MiB | over C | 95 % interval | time outside the library |"
    yield "|---|---|---|---|---|"
    for language in launches[0]:
        both = [pair for launch in launches for pair in launch[language]]
        median, outside = statistics.median(t for t, _ in both), statistics.median(t - inside for t, inside in both)
        ratio, low, high = over_c(launches, language)
        yield (f"| {language} | {median:.2f} s | {ratio:+.1f} % | {low:+.1f} … {high:+.1f} % | "
               f"{outside * 1e6:.0f} µs, {100 * outside / median:.4f} % |")


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
    parser.add_argument("--launches", type=int, default=4)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--bytes", type=int, default=2**31)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    runners = {runner.name: runner for runner in load_runners(options.runners)}
    runners["c again"] = Runner("c again", runners["c"].command)  # shows the noise
    place = options.dir / "ckpt-languages"
    machine = ", ".join(f"{key} {value}" for key, value in host.describe(str(options.dir)).items() if key != "date")
    with open(options.out or os.devnull, "w", encoding="utf-8") as out:

        def tell(*lines):  # flushed, so that a run that is stopped has printed what it measured
            for file in (sys.stdout, out):
                print(*lines, "", sep="\n", file=file, flush=True)

        tell(f"{time.strftime('%F %H:%M')}, {options.rounds} rounds, {options.launches} launches of {options.turns} "
             f"turns; {machine}.")
        tell(*small_table(measure(runners, "small.txt", "save.run", options.rounds, place)))
        tell(*call_table(measure(runners, "tensors.txt", "save.tensors", options.rounds, place)))
        tell(*save_table(measure_saves(runners, options, place), options.bytes))


if __name__ == "__main__":
    main()
