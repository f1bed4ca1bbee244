#!/usr/bin/env python3
"""Compares the outputs of runs of the trainer.

  runs.py same REFERENCE RESUMED             all losses of RESUMED equal REFERENCE's of the same steps to the bit
  runs.py close REFERENCE RESUMED TOLERANCE  they differ by at most TOLERANCE of their size
  runs.py state SAVER LOADER                 each rank of the run LOADER (output LOADER-0.txt, …) loaded the state that
                                             SAVER saved at that step, and its own generator where it was a rank then
"""
import glob
import re
import sys

REPORT = re.compile(r"rank (\d+) of (\d+): (saved|loaded) step (\d+), state (\w+), random (\w+)$", re.M)


def losses(path):
    with open(path) as file:
        rows = [line.split() for line in file]
    return {int(row[0]): float.fromhex(row[1]) for row in rows if len(row) == 3}


def common(reference, resumed):
    """(step, reference's loss, resumed run's loss) for all steps of `resumed`, which begins after step 1."""
    ours, theirs = losses(reference), losses(resumed)
    first, last = min(theirs, default=0), max(theirs, default=0)
    if first <= 1:
        sys.exit(f"{resumed}: begins with step {first}: it was not resumed")
    if sorted(theirs) != list(range(first, last + 1)) or last > max(ours):
        sys.exit(f"{resumed}: expected steps {first} to at most {max(ours)}, found {sorted(theirs)}")
    return [(step, ours[step], theirs[step]) for step in sorted(theirs)]


def same(reference, resumed):
    rows = common(reference, resumed)
    for step, ours, theirs in rows:
        if ours != theirs:
            sys.exit(f"step {step}: expected the loss {ours.hex()} ({ours:.6f}), found {theirs.hex()} ({theirs:.6f})")
    return f"{len(rows)} losses, of steps {rows[0][0]} to {rows[-1][0]}, equal the uninterrupted run's to the bit"


def close(reference, resumed, tolerance):
    rows = common(reference, resumed)
    worst, at = max((abs(theirs - ours) / abs(ours), step) for step, ours, theirs in rows)
    first = abs(rows[0][2] - rows[0][1]) / abs(rows[0][1])
    text = (f"{len(rows)} losses, of steps {rows[0][0]} to {rows[-1][0]}: the first differs from the uninterrupted "
            f"run's by {first:.1e} of its size, the worst (step {at}) by {worst:.1e}; allowed {float(tolerance):.0e}")
    if not worst <= float(tolerance):
        sys.exit(text)
    return text


def reports(run, what):
    """(rank, world, step, state, random) of all ranks of a run."""
    found = []
    for path in sorted(glob.glob(glob.escape(run) + "-[0-9]*.txt")):
        with open(path) as file:
            found += [(int(rank), int(world), int(step), state, random)
                      for rank, world, kind, step, state, random in REPORT.findall(file.read()) if kind == what]
    return found


def state(saver, loader):
    loaded = reports(loader, "loaded")
    saved = {(rank, step): (state, random) for rank, _, step, state, random in reports(saver, "saved")}
    if not loaded or len(loaded) != loaded[0][1]:
        sys.exit(f"{loader}: expected one load by each rank, found {loaded}")
    generators = 0
    for rank, _, step, state, random in loaded:
        expected = saved.get((0, step), ("nothing", ""))[0]
        if state != expected:
            sys.exit(f"rank {rank}, step {step}: expected the state {expected}, found {state}")
        if (rank, step) in saved:
            generators += 1
            if random != saved[rank, step][1]:
                sys.exit(f"rank {rank}, step {step}: expected the generator {saved[rank, step][1]}, found {random}")
    world = len({rank for rank, _ in saved})
    return (f"saved by {world}, loaded by {len(loaded)} at step {loaded[0][2]}: parameters, buffers, moments and "
            f"counters are bit-identical; random generators too on {generators} of {len(loaded)}")


def main():
    commands = {"same": same, "close": close, "state": state}
    if len(sys.argv) < 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    print("  ", commands[sys.argv[1]](*sys.argv[2:]))


if __name__ == "__main__":
    main()
