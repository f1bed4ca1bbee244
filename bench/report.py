#!/usr/bin/env python3
"""Makes tables and a plot from a run that run.py wrote.

report.py RUN.json                        prints all tables
report.py RUN.json --into RESULTS.md      replaces what is between the markers of that file by targets and medians
          --plot RUN.svg
"""

import argparse
import json
import os

import figures
import plot
from figures import MIB

MARKERS = "<!-- measured: begin -->", "<!-- measured: end -->"
S3_MARKERS = "<!-- measured on S3 servers: begin -->", "<!-- measured on S3 servers: end -->"
ENGINES = {0: "blocking", 1: "threads", 2: "io_uring"}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def markers(run):
    return S3_MARKERS if "servers" in run else MARKERS


# ---- the conditions ----
def ways_text(run):
    ways = run["raw_ways"]
    if "servers" not in run:
        return (
            "Raw O_DIRECT is the best of 1, 2 and 4 threads with requests of 4 and 8 MiB: "
            f"{ways['limit-write']} to write, {ways['limit-read']} to read."
        )
    found = "; ".join(f"{key} {way}" for key, way in ways.items() if key.rpartition("-")[2] in ("put", "get"))
    return f"Servers: {', '.join(run['servers'])}. The best ways of libcurl: {found}."


def heading(run):
    m, peers = run["machine"], run.get("peers", {})
    others = "; " + ", ".join(f"{name} {version}" for name, version in sorted(peers.items())) if peers else ""
    cold = "" if run.get("cold", True) else " drop_caches was refused: **cold rows are not cold**."
    return (
        f"{m['date']}, commit {run['commit']}: {m['cpu']}, {m['cores']} cores, {m['memory_gib']} GiB, "
        f"kernel {m['kernel']}, {m['filesystem']}, load average before {m['load_average']}{others}. "
        f"{run['seconds'] / 60:.0f} minutes, scale {run['scale']:g}. {ways_text(run)}{cold}\n"
    )


# ---- targets ----
def target_table(run):
    rows = [
        [v.what, v.ours, v.against, v.figure, v.target, "met" if v.met else "**missed**"] for v in figures.verdicts(run)
    ]
    return table(["target", "ckpt", "the same run", "figure", "asked", ""], rows)


# ---- sections ----
def exact(seconds):
    return f"{seconds:.4f}" if seconds >= 0.01 else f"{seconds:.6f}"


def section_row(section, row):
    name = row["name"] if row["kind"] != "ckpt" else f"**{row['name']}**"
    if not row["samples"]:
        return [name, f"did not work: {row.get('error', '')}"[:160].replace("|", "/"), "", "", "", "", "", "", ""]
    took = [sample[section["value"]] for sample in row["samples"]]
    middle, ratio = figures.median(took), figures.fraction(section, row)
    rate = f"{section['bytes'] / middle / 1e9:.2f}" if section["rate"] else ""
    whole = figures.seconds(section, row, "t_total")
    cpu = figures.median([sample["cpu_s"] for sample in row["samples"]])
    peak = max(sample["peak_above_base"] for sample in row["samples"])
    read = figures.median([sample["read_bytes"] for sample in row["samples"]])
    return [
        name,
        exact(middle),
        f"{exact(min(took))}-{exact(max(took))}",
        rate,
        f"{ratio:.2f}" if ratio else "",
        f"{whole:.3f}" if section["value"] != "t_total" else "",
        f"{cpu:.2f}",
        f"{peak / MIB:.1f}",
        f"{read / MIB:.1f}" if read else "",
    ]


def engine_note(section):
    """How ckpt moved the bytes, if a job's statistics say so."""
    for row in sorted(section["rows"], key=lambda row: len(row["name"])):
        sample = row["samples"][0] if row["samples"] else {}
        if row["kind"] == "ckpt" and "io_engine" in sample:
            direct = "O_DIRECT" if sample["direct_io"] else "page cache"
            recycled = ", into recycled files" if sample["recycled"] else ""
            arena = max((s.get("arena_us", 0) for r in section["rows"] for s in r["samples"]), default=0)
            arenas = f"; staging memory made in up to {arena / 1000:.0f} ms" if arena >= 1000 else ""
            return f"{row['name']}: {ENGINES.get(sample['io_engine'], '?')}, {direct}{recycled}{arenas}.\n\n"
    return ""


# ---- requests ----
BILLED = ("put_count", "list_count", "get_count", "delete_count", "retry_count")
KINDS = ("PUT, POST", "LIST", "GET, HEAD", "DELETE", "of them again")


def request_table(run):
    """Of the sections that count requests; "" if there are none."""
    rows = []
    for section in run["sections"]:
        for row in section["rows"]:
            if "-requests-" not in section["key"] or not row["samples"] or "," in row["name"]:
                continue
            sample = row["samples"][0]
            counts = [str(sample[key]) for key in BILLED]
            sizes = [f"{sample[key] / MIB:.1f}" for key in ("bytes_sent", "bytes_received")]
            size = f"{section['bytes'] / MIB:.0f}"
            rows.append([section["title"].partition(" of ")[2], row["name"], size, *counts, *sizes])
    head = ["state", "", "MiB", *KINDS, "MiB sent", "MiB received"]
    return f"### Requests\n\n{REQUESTS}\n\n{table(head, rows)}" if rows else ""


REQUESTS = (
    "The requests of a save's and a load's job, as `ckpt_job_stats` reports them; providers bill PUT, POST "
    "and LIST as one class, GET and HEAD as another. Opening a checkpoint by `latest` comes before it: a listing, and "
    "GETs of the store's id and of the end of MANIFEST; by its id two."
)


def section_text(section):
    order = sorted(section["rows"], key=lambda row: figures.seconds(section, row) or 1e9)
    head = [
        "",
        "median s",
        "min-max",
        "GB/s",
        "of the limit",
        "until durable s",
        "CPU s",
        "memory MiB",
        "disk read MiB",
    ]
    keep = [i for i in range(len(head)) if i != 5 or section["value"] != "t_total"]
    rows = [[cells[i] for i in keep] for cells in (section_row(section, row) for row in order)]
    size = f"{section['bytes'] / (1 << 30):.2f} GiB, " if section["rate"] else ""
    limit = f"; the limit is {section['limit']}" if section["limit"] else ""
    return (
        f"### {section['title']}\n\n{size}{section['rounds']} rounds{limit}. {engine_note(section)}".rstrip()
        + "\n\n"
        + table([head[i] for i in keep], rows)
    )


def beginning(run):
    """What both reports begin with: conditions, targets, what memory means."""
    loads = S3_LOADS if "servers" in run else LOADS
    memory = f"Memory is the peak of resident memory beyond the caller's data. {loads}\n"
    return [heading(run), target_table(run), memory]


def full_report(run):
    """Everything, for whoever looks at one run."""
    texts = [section_text(section) for section in run["sections"] if "-requests-" not in section["key"]]
    return "\n".join([*beginning(run), *filter(None, [request_table(run)]), *texts])


# ---- what a document keeps ----
PEERS_SHOWN = 3  # the fastest


def short_row(section):
    """A section as one row: each median and, in brackets, its part of the limit."""
    rows = sorted((row for row in section["rows"] if row["samples"]), key=lambda row: figures.seconds(section, row))
    peers = [row for row in rows if row["kind"] == "peer"][PEERS_SHOWN:]
    texts = []
    for row in (row for row in rows if row not in peers):
        ratio = figures.fraction(section, row)
        part = f" ({ratio:.2f})" if ratio and row["name"] != section["limit"] else ""
        texts.append(f"{row['name']} {figures.time_text(figures.seconds(section, row))}{part}")
    texts += [f"{row['name']} did not work" for row in section["rows"] if not row["samples"]]
    size = f", {section['bytes'] / (1 << 30):.2f} GiB" if section["rate"] else ""
    return [section["title"] + size, "; ".join(texts)]


def short_report(run):
    """For RESULTS.md. Sections without a limit only look for the best way, which the heading names."""
    rows = [short_row(s) for s in run["sections"] if s["limit"] and "-requests-" not in s["key"]]
    note = "Medians; in brackets the part of the limit, 1.00 is as fast. Only the three fastest peers are shown."
    requests = [request_table(run)] if request_table(run) else []
    return "\n".join([*beginning(run), *requests, f"{note}\n", table(["what", "medians"], rows)])


LOADS = (
    "A peer's load ends with a copy into the model's own, touched memory, where ckpt's load ends too; \"own memory\" "
    "leaves that copy out. Every save ends with all files and folders fsynced."
)
S3_LOADS = (
    "A peer's load ends as ckpt's: in the model's own, touched memory; \"own memory\" leaves the copy out. boto3 and "
    "s5cmd copy files: what they put is a file in memory (/dev/shm) before, and what they get becomes one, so their "
    "saves have no tensors to write, and their memory and that of s5cmd's process is not in the column."
)


def between_markers(text, content, marks=MARKERS):
    """`text` with `content` between the markers."""
    begin, end = map(text.find, marks)
    if begin < 0 or end < begin:
        raise SystemExit(f"no markers {' … '.join(marks)}")
    return text[: begin + len(marks[0])] + "\n" + content.strip() + "\n" + text[end:]


def replace_in(path, content, marks):
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(between_markers(text, content, marks))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("run")
    p.add_argument("--into")
    p.add_argument("--plot")
    a = p.parse_args()
    with open(a.run) as file:
        run = json.load(file)
    picture = ""
    if a.plot:
        with open(a.plot, "w") as file:
            file.write(plot.draw(run))
    if a.plot and a.into:
        picture = f"\n![fractions of the limit]({os.path.relpath(a.plot, os.path.dirname(os.path.abspath(a.into)))})\n"
    if a.into:
        replace_in(a.into, short_report(run) + picture, markers(run))
    if not a.into:
        print(full_report(run))


if __name__ == "__main__":
    main()
