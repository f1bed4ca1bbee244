"""Evaluates the samples of a run: medians, fractions of the limit, and whether each target of the project is met."""

import dataclasses
import statistics

MIB = 1 << 20
BUDGET = 256 * MIB  # staging_bytes, unless a contender sets it
CHUNK = MIB
PUTS, GETS = 8, 16  # requests of a job to a server that are under way at once
PER_REQUEST = 256 << 10
REQUESTS = ("get_count", "put_count", "list_count", "delete_count")


def median(values):
    return statistics.median(values)


def find_section(run, key):
    return next((section for section in run["sections"] if section["key"] == key), None)


def find_row(section, name):
    rows = section["rows"] if section else []
    return next((row for row in rows if row["name"] == name and row["samples"]), None)


def seconds(section, row, key=None):
    """Median seconds of a row; None if it has no samples."""
    samples = [sample[key or section["value"]] for sample in row["samples"]] if row else []
    return median(samples) if samples else None


def fraction(section, row, key=None):
    """The limit's time divided by the row's: 1 is as fast as the limit."""
    limit, mine = seconds(section, find_row(section, section["limit"]), key), seconds(section, row, key)
    return limit / mine if limit and mine else None


def best_peer(section, names=()):
    """(name, seconds) of the fastest peer, or of the fastest among `names`."""
    rows = [row for row in section["rows"] if row["kind"] == "peer" and row["samples"]]
    rows = [row for row in rows if not names or row["name"] in names]
    return min(((row["name"], seconds(section, row)) for row in rows), key=lambda pair: pair[1], default=None)


@dataclasses.dataclass
class Verdict:
    what: str
    ours: str
    against: str  # the value that `ours` is compared with
    figure: str
    target: str
    met: bool


def time_text(value):
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.0f} ms" if value >= 0.01 else f"{value * 1000:.2f} ms"


# ---- kinds of targets ----
def target(kind):
    """A kind of target for some row: what `kind(section, mine, what, …)` says of a run that has the row; else None."""

    def of_row(what, key, row, *values, **named):
        def judge(run):
            section = find_section(run, key)
            mine = find_row(section, row)
            return kind(section, mine, what, *values, **named) if mine else None

        judge.section, judge.row = key, row
        return judge

    return of_row


def peak_of(row):
    return max(sample["peak_above_base"] for sample in row["samples"])


@target
def of_limit(section, mine, what, least, value=None):
    """`value`: of the samples, if it is not the section's own."""
    ratio = None if value and value not in mine["samples"][0] else fraction(section, mine, value)
    if ratio is None:
        return None
    limit = f"{time_text(seconds(section, find_row(section, section['limit']), value))} {section['limit']}"
    ours = time_text(seconds(section, mine, value))
    return Verdict(what, ours, limit, f"{ratio:.2f}", f"≥ {least:.2f}", ratio >= least)


def of_cache(what, key):
    """To open the newest checkpoint takes three requests, two of them at once, which a directory has not."""
    row = "ckpt, from the cache"
    return of_limit(f"{what}, and opening", key, row, 0.95), of_limit(what, key, row, 0.95, value="opened_s")


@target
def of_peer(section, mine, what, factor, names=()):
    peer = best_peer(section, names)
    if not peer:
        return None
    took, best = seconds(section, mine), f"{time_text(peer[1])} {peer[0]}"
    ratio = peer[1] / took
    return Verdict(what, time_text(took), best, f"{ratio:.2f}", f"≥ {factor:.2f}", ratio >= factor)


@target
def within(section, mine, what, most, beyond=""):
    """At most `most` seconds, not counting the seconds of another row."""
    base = find_row(section, beyond) if beyond else None
    if beyond and not base:
        return None
    took, free = seconds(section, mine), seconds(section, base) if base else 0
    against = f"{time_text(free)} {beyond}" if beyond else ""
    figure, limit = time_text(max(0, took - free)), f"≤ {time_text(most)}"
    return Verdict(what, time_text(took), against, figure, limit, took - free <= most)


@target
def not_slower(section, mine, what, other, most):
    base = find_row(section, other)
    if not base:
        return None
    took, against = seconds(section, mine), seconds(section, base)
    ratio, beside = took / against, f"{time_text(against)} {other}"
    return Verdict(what, time_text(took), beside, f"{ratio:.2f}", f"≤ {most:.2f}", ratio <= most)


@target
def memory_within(section, mine, what, most):
    peak = peak_of(mine)
    return Verdict(what, f"{peak / MIB:.1f} MiB", "", "", f"≤ {most // MIB} MiB", peak <= most)


@target
def reads_within(section, mine, what):
    sample = mine["samples"][0]
    if "bytes_requested" not in sample:
        return None
    asked, read = sample["bytes_requested"], sample["job_bytes_read"]
    beside, limit = f"{asked / MIB:.2f} MiB asked", "≤ asked + 2 chunks"
    return Verdict(what, f"{read / MIB:.2f} MiB", beside, "", limit, read <= asked + 2 * CHUNK)


TABLE_MEMORY, PER_ROW = 32 * MIB, 8


@target
def table_memory_within(section, mine, what):
    """Beyond the budget 32 MiB, and 8 bytes for each row of the rank."""
    peak, most = peak_of(mine), BUDGET + TABLE_MEMORY + PER_ROW * mine["samples"][0]["table_rows"]
    return Verdict(what, f"{peak / MIB:.1f} MiB", "", "", f"≤ {most / MIB:.0f} MiB", peak <= most)


@target
def requests_within(section, mine, what, most):
    if "get_count" not in mine["samples"][0]:
        return None
    asked = sum(mine["samples"][0][name] for name in REQUESTS)
    return Verdict(what, str(asked), "", "", f"≤ {most}", asked <= most)


def server_targets(key, title):
    """Of stores on an S3 server."""
    save, load = f"{key}-save", f"{key}-load"
    return [
        of_limit(f"{title}: save", save, "ckpt", 0.9),
        of_peer(f"{title}: save, against the best peer", save, "ckpt", 1),
        of_limit(f"{title}: load, verified", load, "ckpt, verified", 0.9),
        of_peer(f"{title}: load, against the best peer", load, "ckpt, verified", 1),
        requests_within(f"{title}: one tensor, requests", f"{key}-one", "ckpt, verified", 3),
        *of_cache(f"{title}: filled cache, page cache dropped", f"{key}-cache-cold"),
        *of_cache(f"{title}: filled cache, from the page cache", f"{key}-cache-warm"),
        memory_within(f"{title}: memory beyond the data, save", save, "ckpt", BUDGET + PUTS * PER_REQUEST),
        memory_within(f"{title}: memory beyond the data, load", load, "ckpt, verified", BUDGET + GETS * PER_REQUEST),
    ]


DEFAULTS = ("dcp", "torch.load", "safetensors")  # called as most programs do, into the model's own memory
TARGETS = [
    of_limit("durable save into new files", "llama-save", "ckpt", 0.95),
    of_limit("durable save into recycled files", "recycled", "ckpt, third save", 0.95),
    of_peer("durable save, against the best peer", "llama-save", "ckpt", 1),
    of_limit("durable save of bf16 weights by bit planes", "llama-save", "ckpt, bitplane-lz4", 1),
    of_limit("cold load, verified", "llama-cold", "ckpt, verified", 0.95),
    of_peer("cold load, against the best peer", "llama-cold", "ckpt, verified", 0.95),
    of_peer("cold load, against torch, safetensors and DCP", "llama-cold", "ckpt, verified", 2, DEFAULTS),
    of_limit("warm load, verified", "llama-warm", "ckpt, verified", 0.9),
    not_slower(
        "warm load from Python into new memory",
        "llama-warm",
        "ckpt from Python, into new memory",
        "raw pread, 2 threads, into new memory",
        1.15,
    ),
    of_limit(
        "stall of the first background save, arena made before",
        "async",
        "ckpt, arena of the session, first save",
        1 / 1.1,
    ),
    of_limit("stall of a later background save", "async", "ckpt, later save", 1 / 1.1),
    of_limit("stall of a later background save from Python", "async", "ckpt from Python, later save", 1 / 1.5),
    within("20,000 tensors of 1 KiB, beyond one fsync", "small-20000-save", "ckpt", 0.05, "one fsync"),
    within("open and list 10,000 names", "names-10000", "ckpt, open + list", 0.001),
    within("open and list 1,000,000 names", "names-1000000", "ckpt, open + list", 0.05),
    reads_within("one tensor: bytes read", "one", "ckpt, verified"),
    of_limit("sparse table: durable save", "table-save", "ckpt", 0.8),
    of_limit("sparse table: 3 ranks' save, a half of it loaded", "table-load", "ckpt, verified", 0.8),
    within("sparse table: 1,000 ids looked up, warm", "table-lookup", "ckpt, verified", 0.05),
    table_memory_within("sparse table: memory beyond the data, save", "table-save", "ckpt"),
    table_memory_within("sparse table: memory beyond the data, load", "table-load", "ckpt, verified"),
    not_slower("compression=auto on random bits", "compress-random", "ckpt, auto", "ckpt, none", 1.03),
    memory_within("memory beyond the data, save", "llama-save", "ckpt", BUDGET),
    memory_within("memory beyond the data, load", "llama-cold", "ckpt, verified", BUDGET),
    *server_targets("s3proxy", "S3Proxy"),
    *server_targets("versitygw", "versitygw"),
]


def verdicts(run):
    return [verdict for verdict in (judge(run) for judge in TARGETS) if verdict]
