"""What is measured: every section of a run."""

from contenders import (
    BUFFERED,
    CKPT_SAVERS,
    MIB,
    PEER_LOADERS,
    PEER_ONES,
    WAYS,
    Section,
    Workload,
    ckpt,
    loaders,
    loading,
    peer,
    python,
    raw,
    savers,
    way,
)


# ---- raw limits: which way of direct I/O is the best here ----
def limit_sections(scale):
    workload = Workload("llama", scale)
    name = "{} threads, {} MiB".format
    return [
        Section(
            "limit-write",
            "Raw O_DIRECT write: which way is the limit",
            workload,
            [raw(name(*w), "raw-write", *way(*w)) for w in WAYS],
            weight=0.5,
        ),
        Section(
            "limit-read",
            "Raw O_DIRECT read: which way is the limit",
            workload,
            [raw(name(*w), "raw-read", *way(*w), keep="raw") for w in WAYS],
            state="cold",
            weight=0.5,
            prepare=[raw("raw", "raw-write", *way(2, 4))],
        ),
    ]


# ---- whole states ----
def save_sections(key, title, workload, write, peers):
    contenders = [
        ckpt("ckpt", "save"),
        ckpt("ckpt, bitplane-lz4", "save", compression="bitplane-lz4"),
        ckpt("ckpt, memory aligned to 64 bytes only", "save", "--shift", "64"),
        raw("raw O_DIRECT", "raw-write", *write),
        raw("raw buffered + fsync", "raw-write", "--buffered", *way(1, 8)),
    ]
    if peers:
        contenders.append(python("ckpt from Python", "save"))
    return [
        Section(
            f"{key}-save", f"{title}: durable save", workload, contenders + savers(peers), "raw O_DIRECT", weight=1.5
        )
    ]


def recycled_section(workload, write):
    return Section(
        "recycled",
        "Durable save into recycled files (keep_last=1)",
        workload,
        [
            ckpt("ckpt, third save", "save", "--before", "2", keep_last=1),
            ckpt("ckpt, third save, bitplane-lz4", "save", "--before", "2", keep_last=1, compression="bitplane-lz4"),
            raw("raw O_DIRECT into an existing file", "raw-write", "--existing", *write),
        ],
        "raw O_DIRECT into an existing file",
        weight=1.2,
    )


def incremental_section(workload, megabytes):
    """The second save of a state of which the last `changed` MiB have changed."""

    def second(name, changed, **values):
        return ckpt(name, "save", "--before", "1", "--changed", str(changed), **values)

    return Section(
        "incremental",
        "Durable save of a state that was saved before",
        workload,
        [
            second("ckpt, 32 MiB changed", 32, incremental="on"),
            second("ckpt, nothing changed", 0, incremental="on"),
            second("ckpt, all changed", 1 << 20, incremental="on"),
            second("ckpt, all changed, incremental=off", 1 << 20),
            raw("memcpy + XXH3, 2 threads", "raw-copy-hash", *way(2, 8)),
            raw("XXH3, 2 threads", "raw-hash", *way(2, 8)),
            raw("raw O_DIRECT of 32 MiB", "raw-write", "--of", str(max(1, round(megabytes / 32))), *way(2, 4)),
        ],
        "memcpy + XXH3, 2 threads",
        weight=1.5,
        rate=False,
    )


def load_section(key, title, workload, state, read, peers):
    limit = "raw O_DIRECT read" if state == "cold" else "raw pread, 2 threads"
    contenders = [
        ckpt("ckpt, verified", "load", keep="ckpt"),
        ckpt("ckpt, verify=0", "load", keep="ckpt", verify=0),
        ckpt("ckpt, bitplane-lz4, verified", "load", keep="ckpt-bits"),
        raw("raw pread, 2 threads", "raw-read", *BUFFERED, keep="raw"),
    ]
    if peers:
        contenders.append(python("ckpt from Python", "load", keep="ckpt"))
        contenders.append(python("ckpt from Python, into new memory", "new", keep="ckpt"))
    if state == "cold":
        contenders.append(raw("raw O_DIRECT read", "raw-read", *read, keep="raw"))
    else:
        contenders += [
            ckpt("ckpt, mapped, verified, every page touched", "map", keep="ckpt"),
            raw("raw mmap + memcpy, 2 threads", "raw-map", *BUFFERED, keep="raw"),
            raw("raw pread, 2 threads, into new memory", "raw-read", "--fresh", *BUFFERED, keep="raw"),
            raw("raw pread + XXH3, 2 threads, into new memory", "raw-read", "--fresh", "--hash", *BUFFERED, keep="raw"),
        ]
    keepers = [*CKPT_SAVERS, raw("raw", "raw-write", *way(2, 4)), *savers(peers)]
    return Section(
        f"{key}-{state}",
        f"{title}: load, {state}",
        workload,
        contenders + loaders(loading(peers), "load"),
        limit,
        state=state,
        prepare=keepers,
        weight=1.2,
    )


def one_section(workload, peers):
    ones = [name for name in PEER_ONES if dict(PEER_LOADERS)[name] in peers]
    keepers = [*CKPT_SAVERS, raw("raw", "raw-write", *way(2, 4)), *savers(peers)]
    return Section(
        "one",
        "One tensor out of the checkpoint, cold",
        workload,
        [
            ckpt("ckpt, verified", "load", "--one", keep="ckpt"),
            raw("raw O_DIRECT read", "raw-read", "--one", *way(2, 4), keep="raw"),
            *loaders(ones, "one"),
        ],
        "raw O_DIRECT read",
        state="cold",
        prepare=keepers,
        weight=0.4,
        rate=False,
    )


def async_section(workload, size, peers):
    room = size + 256 * MIB
    full = {"staging_bytes": room}
    contenders = [
        ckpt("ckpt, arena of the session", "async", arena_bytes=room, **full),
        ckpt("ckpt", "async", **full),
        ckpt("ckpt, budget 256 MiB", "async"),
        raw("memcpy, 2 threads", "raw-copy", *way(2, 8)),
        raw("memcpy + XXH3, 2 threads", "raw-copy-hash", *way(2, 8)),
    ]
    if peers:
        contenders.append(python("ckpt from Python", "async"))
        contenders.append(peer("dcp.async_save", "async", adapter="dcp-async"))
    return Section(
        "async",
        "Background save: the stall",
        workload,
        contenders,
        "memcpy + XXH3, 2 threads",
        value="t_return",
        weight=2,
    )


def replica_sections(workload, write):
    """Two processes that hold the same state, as under DDP: what it costs to prove that it is the same."""

    def contenders(measure):
        def both(name, **values):
            return ckpt(name, measure, "--replicated", ranks=2, **values)

        return [
            ckpt("ckpt, 1 process", measure),
            both("ckpt, 2 processes, replicas=check"),
            both("ckpt, 2 processes, replicas=trust", replicas="trust"),
            both("ckpt, 2 processes, replicas=rank0", replicas="rank0"),
            both("ckpt, 2 processes, held_by=some", held_by="some"),
        ]

    return [
        Section(
            "replicas-save",
            "Durable save of a state that 2 processes hold",
            workload,
            [*contenders("save"), raw("raw O_DIRECT", "raw-write", *write)],
            "raw O_DIRECT",
            weight=1,
        ),
        Section(
            "replicas-async",
            "Background save of a state that 2 processes hold: the stall",
            workload,
            [*contenders("async"), raw("memcpy + XXH3, 2 threads", "raw-copy-hash", *way(2, 8))],
            "memcpy + XXH3, 2 threads",
            value="t_return",
            weight=1,
        ),
    ]


def rank_sections(workload, write, read):
    saves = [ckpt(f"ckpt, {n} processes", "save", ranks=n) for n in (1, 2, 4)]
    raws = [
        raw("raw O_DIRECT", "raw-write", *write),
        *(raw(f"raw O_DIRECT, {n} processes", "raw-write", *way(1, 4), ranks=n) for n in (2, 4)),
    ]
    loads = [
        ckpt(f"ckpt, {n} to {m} processes", "load", ranks=m, keep=f"ckpt-{n}")
        for n, m in ((1, 1), (4, 1), (4, 2), (2, 4), (4, 4))
    ]
    keepers = [*(ckpt(f"ckpt-{n}", "save", ranks=n) for n in (1, 2, 4)), raw("raw", "raw-write", *way(2, 4))]
    return [
        Section("ranks-save", "Durable save by several processes", workload, saves + raws, "raw O_DIRECT", weight=1.2),
        Section(
            "ranks-load",
            "Cold load, saved by N and loaded by M processes",
            workload,
            loads + [raw("raw O_DIRECT read", "raw-read", *read, keep="raw")],
            "raw O_DIRECT read",
            state="cold",
            prepare=keepers,
            weight=1,
        ),
    ]


def memory_sections(workload):
    write = [raw(f"raw pwrite, {n} threads", "raw-write", "--buffered", *way(n, 8)) for n in (1, 2)]
    return [
        Section(
            "memory-save",
            "tmpfs: save",
            workload,
            [ckpt("ckpt", "save"), *write],
            "raw pwrite, 2 threads",
            place="memory",
            weight=0.4,
            least=2,
        ),
        Section(
            "memory-load",
            "tmpfs: load",
            workload,
            [
                ckpt("ckpt, verified", "load", keep="ckpt"),
                raw("raw pread, 2 threads", "raw-read", *BUFFERED, keep="raw"),
            ],
            "raw pread, 2 threads",
            place="memory",
            state="memory",
            weight=0.4,
            least=2,
            prepare=[ckpt("ckpt", "save"), raw("raw", "raw-write", *BUFFERED)],
        ),
    ]


# ---- many small tensors, many names ----
def small_sections(count, peers):
    workload = Workload("small", count=count)
    title = f"{count} tensors of 1 KiB"
    keepers = [ckpt("ckpt", "save"), raw("raw", "raw-write", *way(2, 4)), *savers(peers)]
    return [
        Section(
            f"small-{count}-save",
            f"{title}: save",
            workload,
            [
                ckpt("ckpt", "save"),
                raw("raw O_DIRECT blob", "raw-write", *way(2, 4)),
                raw("one fsync", "raw-commit"),
                *savers(peers),
            ],
            "raw O_DIRECT blob",
            weight=0.5,
        ),
        Section(
            f"small-{count}-warm",
            f"{title}: load, warm",
            workload,
            [
                ckpt("ckpt", "load", keep="ckpt"),
                raw("raw pread blob", "raw-read", *BUFFERED, keep="raw"),
                *loaders(loading(peers), "load"),
            ],
            "raw pread blob",
            state="warm",
            prepare=keepers,
            weight=0.5,
        ),
    ]


def names_section(count, peers):
    workload = Workload("small", count=count, elements=1)
    return Section(
        f"names-{count}",
        f"{count} names: open and list, warm",
        workload,
        [
            ckpt("ckpt", "names", keep="ckpt"),
            raw("raw pread of MANIFEST", "raw-manifest", "--buffered", *way(1, 8), keep="ckpt"),
            *loaders(peers, "list"),
        ],
        "raw pread of MANIFEST",
        state="warm",
        rate=False,
        weight=0.3,
        prepare=[ckpt("ckpt", "save"), *savers([dict(PEER_LOADERS)[name] for name in peers])],
    )


# ---- sparse tables ----
HUNDREDTH = ("--every", "100")
TABLE_PEERS = ["torch.save", "safetensors-shards", "parquet"]


def table_sections(workload, write, read, peers):
    keepers = [
        ckpt("ckpt-table-3", "table-save", ranks=3),
        raw("raw-half", "raw-write", "--of", "2", *way(2, 4)),
        *savers(peers),
    ]
    return [
        Section(
            "table-save",
            "Sparse table, 16 f32 and Adam's moments for each id: durable save",
            workload,
            [ckpt("ckpt", "table-save"), raw("raw O_DIRECT", "raw-write", *write), *savers(peers)],
            "raw O_DIRECT",
        ),
        Section(
            "table-load",
            "Sparse table, saved by 3 ranks: the half that one of 2 ranks loads, cold",
            workload,
            [
                ckpt("ckpt, verified", "table-load", "--of", "2", keep="ckpt-table-3"),
                raw("raw O_DIRECT read of half", "raw-read", "--of", "2", *read, keep="raw-half"),
                *(peer(name, "half", keep=name) for name in peers),
            ],
            "raw O_DIRECT read of half",
            state="cold",
            prepare=keepers,
            rate=False,
        ),
        Section(
            "table-runs",
            "Sparse table that was saved before: durable save when 1 % of the rows changed",
            workload,
            [
                ckpt("ckpt, all rows", "table-save", "--before", "1"),
                ckpt("ckpt, rows of a list", "table-save", "--before", "1", *HUNDREDTH, incremental="on"),
                ckpt("ckpt, rows by digests", "table-save", "--before", "1", *HUNDREDTH, "--digests", incremental="on"),
            ],
            "ckpt, all rows",
            rate=False,
        ),
        Section(
            "table-load-runs",
            "Sparse table, all of it, cold",
            workload,
            [
                ckpt("ckpt, 1 run", "table-load", "--of", "1", keep="ckpt-table-1"),
                ckpt("ckpt, 8 runs", "table-load", "--of", "1", keep="ckpt-table-8"),
            ],
            "ckpt, 1 run",
            state="cold",
            prepare=[
                ckpt("ckpt-table-1", "table-save"),
                ckpt("ckpt-table-8", "table-save", "--before", "7", *HUNDREDTH, incremental="on"),
            ],
            rate=False,
        ),
        Section(
            "table-lookup",
            "Sparse table: 1,000 ids and their embeddings, warm",
            workload,
            [
                ckpt("ckpt, verified", "table-lookup", keep="ckpt-table-3"),
                *(peer(name, "lookup", keep=name) for name in peers),
            ],
            state="warm",
            prepare=keepers,
            weight=0.4,
            rate=False,
        ),
    ]


# ---- compression ----
def compression_sections(scale, write):
    result = []
    for content, title in (
        ("gauss", "bf16 weights"),
        ("random", "random bits"),
        ("zeros", "zeros"),
        ("upcast", "f32 masters that came from bf16"),
    ):
        workload = Workload("llama", scale / 2 if content == "upcast" else scale, content=content)
        ways = [ckpt(f"ckpt, {name}", "save", compression=name) for name in ("none", "bitplane-lz4", "auto")]
        result.append(
            Section(
                f"compress-{content}",
                f"Compression of {title}: durable save",
                workload,
                [*ways, raw("raw O_DIRECT", "raw-write", *write)],
                "raw O_DIRECT",
                weight=0.4,
                least=2,
            )
        )
    return result
