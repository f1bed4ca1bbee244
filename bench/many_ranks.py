#!/usr/bin/env python3
"""Seconds that many real processes take to meet, save and be loaded, through one directory.

  bench/many_ranks.py BUILD [RANKS ...]      default: 64 256 1024

BUILD has been built with tests: the ranks are its crash_program, each with a few small tensors and one object, so that
what is timed is the protocol and not the disk. Prints a row for each number of ranks, as SCALE.md has them.
"""
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TIMEOUT = " timeout_ms=600000"


class Ranks:
    """So many processes, which get a command at the same time."""

    def __init__(self, program: Path, store: str, count: int) -> None:
        self.programs = [subprocess.Popen([program, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                         for _ in range(count)]
        self.answers()

    def answers(self) -> None:
        for program in self.programs:
            line = program.stdout.readline()
            if not line.startswith("OK\t"):
                sys.exit(f"many_ranks: {line!r}")

    def seconds(self, command) -> float:
        """From the first process that gets its command to the last one that is done."""
        begin = time.monotonic()
        for rank, program in enumerate(self.programs):
            program.stdin.write(command(rank) + "\n")
            program.stdin.flush()
        self.answers()
        return time.monotonic() - begin

    def end(self) -> None:
        for program in self.programs:
            program.stdin.close()
        for program in self.programs:
            program.wait()


def measure(program: Path, count: int) -> str:
    with tempfile.TemporaryDirectory() as store:
        ranks = Ranks(program, store, count)
        opened = ranks.seconds(lambda rank: f"open {rank} {count} - rendezvous=1{TIMEOUT}")
        saves = sorted(ranks.seconds(lambda rank, step=step: f"save s{step} {step}{TIMEOUT}") for step in range(5))
        ranks.end()
        readers = Ranks(program, store, 3)
        opening = readers.seconds(lambda rank: "hold latest")
        loading = readers.seconds(lambda rank: "check")
        readers.end()
    return f"| {count:,} | {opened:.2f} | {saves[2]:.2f} | {opening:.3f} | {loading:.2f} |"


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = Path(sys.argv[1]) / "tests/programs/crash_program"
    print("| ranks | meet, s | save, s (median of 5) | 3 open, s | 3 load and verify all, s |\n|---|---|---|---|---|")
    for count in [int(word) for word in sys.argv[2:]] or [64, 256, 1024]:
        print(measure(program, count), flush=True)


main()
