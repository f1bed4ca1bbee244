#!/usr/bin/env python3
"""Measures stores on S3 servers: ckpt, plain requests by libcurl and (with --peers-python) other clients, in turns.

  s3.py SERVER… --program P --json FILE    SERVER: a program that tests/s3/run.sh starts

Called by tools/bench --s3. As run.py, but the servers keep their buckets in memory, on the same processors: what is
compared is what each client costs, beside a server that costs the same. Fails if a program fails or loads wrong bytes;
if a peer does not work, its row says so.
"""

import json
import os
import subprocess
import sys

import host
from contenders import MIB, Section, Workload, ckpt, peer, raw, way
from run import HERE, MEMORY_FOLDER, Bench, arguments, measure_all, peer_versions

STARTER = os.path.join(HERE, "..", "tests", "s3", "run.sh")
TELL = "import json, os, sys; print(json.dumps(dict(os.environ)), flush=True); sys.stdin.read()"
BUCKET = "s3://ckpt-test"
TITLES = {"s3proxy": "S3Proxy", "versitygw": "versitygw"}
SAVERS = ["boto3-crt", "s5cmd", "s3torchconnector-dcp", "tensorizer-s3"]
LOADERS = [
    ("boto3-crt", "s5cmd"),
    ("s5cmd", "s5cmd"),
    ("s3torchconnector-dcp", "s3torchconnector-dcp"),
    ("runai-streamer-s3", "safetensors-s3"),
    ("tensorizer-s3", "tensorizer-s3"),
]
ONES = ["s3torchconnector-dcp", "tensorizer-s3"]
WAYS = [(2, 8), (4, 8), (8, 8), (4, 32)]
CACHE, NEW_CACHE = "{disk}/cache", "{disk}/new-cache"


def key_of(program):
    return os.path.basename(program).split("-")[0]


class Server:
    """A server with an empty bucket in memory, and its variables in the environment of all that is measured."""

    def __init__(self, program):
        environment = {**os.environ, "TMPDIR": MEMORY_FOLDER, "CKPT_TEST_S3_FILES": "1", "CKPT_TEST_S3_HEAP": "2g"}
        command = [STARTER, program, sys.executable, "-c", TELL]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench: {program} did not start")
        told = json.loads(line)
        self.buckets = told["CKPT_TEST_S3_BUCKETS"]
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ.update({name: value for name, value in told.items() if name.startswith("AWS_")})
        os.environ.update({"AWS_ENDPOINT_URL": told["CKPT_TEST_S3"], "AWS_REGION": "us-east-1"})

    def end(self):
        self.process.stdin.close()
        self.process.wait()

    def folder(self, uri):
        """Where it keeps what is below a URI."""
        return os.path.join(self.buckets, uri.removeprefix("s3://"))


# ---- what is measured ----
def limit_sections(key, scale):
    workload, name = Workload("llama", scale), "{} threads, {} MiB".format
    return [
        Section(
            f"{key}-limit-put",
            f"{TITLES[key]}: which way of an upload by libcurl is the limit",
            workload,
            [raw(name(*w), "raw-write", *way(*w)) for w in WAYS],
            weight=0.5,
            least=2,
        ),
        Section(
            f"{key}-limit-get",
            f"{TITLES[key]}: which way of ranged GETs by libcurl is the limit",
            workload,
            [raw(name(*w), "raw-read", *way(*w), keep="raw") for w in WAYS],
            weight=0.5,
            least=2,
            prepare=[raw("raw", "raw-write", *way(4, 8))],
        ),
    ]


def save_section(key, workload, put, peers):
    contenders = [
        raw("libcurl", "raw-write", *put),
        raw("libcurl, with the checksums of parts", "raw-write", "--checksums", *put),
        ckpt("ckpt", "save"),
    ]
    if peers:
        contenders += [peer(name, "save") for name in SAVERS]
    return Section(
        f"{key}-save",
        f"{TITLES[key]}: Llama 1B, bf16: save",
        workload,
        contenders,
        "libcurl",
        weight=4,
        least=2,
    )


def load_sections(key, workload, put, get, peers):
    keepers = [raw("raw", "raw-write", *put), ckpt("ckpt", "save")]
    loads = [
        raw("libcurl", "raw-read", *get, keep="raw"),
        ckpt("ckpt, verified", "load", keep="ckpt"),
        ckpt("ckpt, verify=0", "load", keep="ckpt", verify=0),
        ckpt("ckpt, verified, into an empty cache", "load", keep="ckpt", cache=NEW_CACHE),
    ]
    ones = [
        raw("libcurl", "raw-read", "--one", *get, keep="raw"),
        ckpt("ckpt, verified", "load", "--one", keep="ckpt"),
    ]
    if peers:
        savers = dict.fromkeys(saver for _, saver in LOADERS)
        keepers += [peer(name, "save") for name in savers]
        loads += [peer(name, "load", keep=saver) for name, saver in LOADERS]
        ones += [peer(name, "one", keep=name) for name in ONES]
    title = f"{TITLES[key]}: Llama 1B, bf16: load"
    return [
        Section(f"{key}-load", title, workload, loads, "libcurl", weight=3, least=2, prepare=keepers),
        Section(
            f"{key}-one",
            f"{TITLES[key]}: one tensor out of the checkpoint",
            workload,
            ones,
            "libcurl",
            weight=0.4,
            rate=False,
            prepare=keepers,
        ),
    ]


def cache_sections(key, workload):
    contenders = [
        ckpt("ckpt, directory", "load", keep="local"),
        ckpt("ckpt, from the cache", "load", keep="ckpt", cache=CACHE),
    ]
    keepers = [
        ckpt("ckpt", "save"),
        ckpt("local", "save"),
        ckpt("cache", "load", keep="ckpt", cache=CACHE),
    ]
    return [
        Section(
            f"{key}-cache-{state}",
            f"{TITLES[key]}: load with a filled cache, against a directory, {title}",
            workload,
            contenders,
            "ckpt, directory",
            state=state,
            weight=0.7,
            least=5,
            prepare=keepers,
        )
        for state, title in (("cold", "page cache dropped"), ("warm", "from the page cache"))
    ]


def request_sections(key, scale):
    """What a provider bills: each number is the same in each round, so there is one."""
    workloads = [
        ("llama", "Llama 1B, bf16", Workload("llama", scale)),
        ("adam", "Model and Adam moments, f32", Workload("adam", scale)),
        ("small", "20000 tensors of 1 KiB", Workload("small", count=20000)),
    ]
    sections = []
    for name, title, workload in workloads:
        contenders = [ckpt("save", "save", "--stats"), ckpt("load", "load", keep="ckpt")]
        for contender in contenders:
            contender.most = 1
        sections.append(
            Section(
                f"{key}-requests-{name}",
                f"{TITLES[key]}: requests of {title}",
                workload,
                contenders,
                weight=0.1,
                least=1,
                prepare=[ckpt("ckpt", "save")],
            )
        )
    return sections


def sections(key, scale, put, get, peers, with_requests):
    llama = Workload("llama", scale)
    yield save_section(key, llama, put, peers)
    yield from load_sections(key, llama, put, get, peers)
    yield from cache_sections(key, llama)
    if with_requests:
        yield from request_sections(key, scale)


# ---- measuring ----
class S3Bench(Bench):
    with_statistics = False

    def __init__(self, a):
        super().__init__(a)
        self.server, self.results = None, []

    # ---- where things are: in the bucket, but caches and the directory that they are compared with ----
    def place(self, section):
        return BUCKET

    def keep_folder(self, section, name):
        place = os.path.join(self.disk, "keep") if name == "local" else os.path.join(BUCKET, "keep")
        return os.path.join(place, name)

    def fresh(self, folder):
        if not folder.startswith("s3://"):
            return host.fresh(folder)
        self.remove(folder)
        return folder

    def remove(self, folder):
        host.remove(self.server.folder(folder) if folder.startswith("s3://") else folder)

    def warm(self, folder):
        host.warm(self.disk)

    def forget(self):
        super().forget()
        if self.server:
            self.remove(BUCKET + "/keep")

    def commands(self, contender, folder, more=()):
        made = super().commands(contender, folder, more)
        return [[word.replace("{disk}", self.disk) for word in command] for command in made]

    def measure(self, section, contender, first):
        os.makedirs(self.disk, exist_ok=True)
        try:
            return super().measure(section, contender, first)
        finally:
            host.remove(NEW_CACHE.format(disk=self.disk))

    # ---- all ----
    def limits(self):
        return [result for result in self.results if "-limit-" in result["key"]]

    def measure_sections(self, of, share):
        of = [section for section in of if self.wanted(section)]
        for at, section in enumerate(of):
            self.results.append(self.section(section, self.seconds_for(section, of[at:], share)))
            self.write(self.best_ways(self.limits()), self.results)

    def measure_server(self, key, before, share):
        """`before`, `share`: of the time, what others have had, and what is gone at the end."""
        self.measure_sections(limit_sections(key, self.a.scale / 4), before + (share - before) * 0.2)
        best = self.best_ways(self.limits())
        put, get = (way(*best.get(f"{key}-limit-{verb}", (8, 8))) for verb in ("put", "get"))
        last = key == key_of(self.a.servers[-1])
        self.measure_sections(
            list(sections(key, self.a.scale, put, get, bool(self.a.peers_python), last)),
            share,
        )

    def write(self, best, results, **more):
        super().write(best, results, servers=[os.path.basename(program) for program in self.a.servers], **more)

    def run(self):
        self.cold, self.versions = host.drop_caches(), peer_versions(self.a.peers_python)
        count = len(self.a.servers)
        for at, program in enumerate(self.a.servers):
            self.server = Server(program)
            try:
                self.measure_server(key_of(program), at / count, (at + 1) / count)
            finally:
                self.forget()
                self.server.end()
                self.server = None


if __name__ == "__main__":
    measure_all(S3Bench(arguments(__doc__, servers=True)))
