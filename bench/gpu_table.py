#!/usr/bin/env python3
"""The table of what a GPU was measured to do, of the lines of bench/gpu.cpp.

    gpu_table.py FIGURES OUT [LABEL=TEXT…]    FIGURES: lines of JSON; LABEL=TEXT: where and how it was measured

Figures of the fake device make a table that says so, and never one in bench/.
"""

import json
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent
HEAD = ("state", "goal", "seconds", "against", "seconds", "ratio", "met")
# What is measured, against what, and how many times as long it may take.
GOALS = (
    ("stall", "stall_s", "plain copy to pinned memory", lambda got: got["d2h_s"], 1.1),
    ("durable", "durable_s", "the same from host memory", lambda got: got["host_durable_s"], 1.05),
    ("load", "load_s", "the slower of a load to the host and a plain copy to the device",
     lambda got: max(got["host_load_s"], got["h2d_s"]), 1 / 0.9),
)


def rows(got):
    for name, key, other, against, most in GOALS:
        taken, limit = got[key], against(got)
        yield (f"{got['mib'] / 1024:g} GiB", f"{name}: at most {most:.2f} x", f"{taken:.3f}", other, f"{limit:.3f}",
               f"{taken / limit:.2f}", "met" if taken <= most * limit else "**not met**")


def line(cells):
    return "| " + " | ".join(cells) + " |"


def table(figures, labels):
    if not figures:
        raise ValueError("nothing was measured")
    wrong = [got["mib"] for got in figures if not got["exact"]]
    if wrong:
        raise ValueError(f"states of {wrong} MiB did not come back as they were")
    fake = any(got["fake"] for got in figures)
    text = ["# A dry run on the fake device: these figures mean nothing" if fake else "# Device memory, measured", ""]
    text += [f"* {label}: {words}" for label, words in labels]
    runs = ", ".join(f"of {got['runs']} runs for {got['mib'] / 1024:g} GiB" for got in figures)
    text += ["", f"Seconds are medians: {runs}. Every state came back to the bit.", "", line(HEAD),
             "|" + "---|" * len(HEAD)]
    text += [line(row) for got in figures for row in rows(got)]
    text += ["", "Memory of the host beyond the state: "
             + ", ".join(f"{got['peak_host_mib']} MiB for {got['mib'] / 1024:g} GiB" for got in figures)
             + " (the saves' staging memory has the size of the state and 64 MiB).", "",
             "Digests are made on the host: no kernel was written that could be measured against it."]
    return "\n".join(text) + "\n"


def write(figures, out, labels):
    if any(got["fake"] for got in figures) and BENCH in Path(out).resolve().parents:
        raise ValueError(f"figures of the fake device do not go to {out}")
    Path(out).write_text(table(figures, labels))


if __name__ == "__main__":
    try:
        write([json.loads(one) for one in Path(sys.argv[1]).read_text().splitlines()], sys.argv[2],
              [given.split("=", 1) for given in sys.argv[3:]])
    except ValueError as error:
        sys.exit(f"gpu_table.py: {error}")
