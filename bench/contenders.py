"""A contender is a program with a workload; a section holds the contenders that do the same work on the same bytes."""

import dataclasses

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Workload:
    kind: str  # llama, adam, small, table
    scale: float = 1
    count: int = 0
    elements: int = 256
    content: str = "gauss"

    def words(self):
        words = ["--workload", self.kind, "--content", self.content]
        if self.kind == "small":
            return words + ["--count", str(self.count), "--elements", str(self.elements)]
        return words + ["--scale", str(self.scale)]

    def name(self):
        return f"{self.kind}-{self.content}-{self.count or self.scale}-{self.elements}"


@dataclasses.dataclass
class Contender:
    name: str
    kind: str  # ckpt, raw, peer; python: ckpt by its binding, which is measured as a peer
    words: list  # arguments of the program
    ranks: int = 1
    keep: str = ""  # the prepared folder to read; "": write into a new one
    most: int = 1000  # rounds at most, for slow contenders


@dataclasses.dataclass
class Section:
    key: str
    title: str
    workload: Workload
    contenders: list
    limit: str = ""  # the contender with which the others are compared
    place: str = "disk"  # disk, memory (tmpfs)
    state: str = ""  # of the files to read: cold, warm
    value: str = "t_total"  # the time that counts
    prepare: list = dataclasses.field(default_factory=list)  # contenders that each fill the kept folder of their name
    weight: float = 1  # share of the time
    rate: bool = True  # show GB/s
    least: int = 3  # rounds at least


def options(values):
    return [word for key, value in values.items() for word in ("-o", f"{key}={value}")]


def ckpt(name, measure, *words, ranks=1, keep="", **values):
    return Contender(name, "ckpt", [measure, *words, *options(values)], ranks, keep)


def raw(name, measure, *words, ranks=1, keep=""):
    return Contender(name, "raw", [measure, *words], ranks, keep)


def peer(name, operation, keep="", adapter="", most=3):
    return Contender(name, "peer", [adapter or name, operation], 1, keep, most)


def python(name, operation, keep=""):
    return Contender(name, "python", ["ckpt-python", operation], 1, keep)


def way(threads, mib):
    return ["--threads", str(threads), "--block", str(mib * MIB)]


WAYS = [(threads, mib) for threads in (1, 2, 4) for mib in (4, 8)]
BUFFERED = ["--buffered", *way(2, 8)]
CKPT_SAVERS = [ckpt("ckpt", "save"), ckpt("ckpt-bits", "save", compression="bitplane-lz4")]
PEER_SAVERS = ["torch.save", "safetensors", "safetensors-numpy", "dcp", "dcp-2threads", "npz", "npy", "tensorizer"]
# name of the reader, whose files it reads
PEER_LOADERS = [
    ("torch.load", "torch.save"),
    ("torch.load-mmap", "torch.save"),
    ("safetensors", "safetensors"),
    ("safetensors-pread", "safetensors"),
    ("safetensors-numpy", "safetensors-numpy"),
    ("dcp", "dcp"),
    ("npz", "npz"),
    ("npy", "npy"),
    ("runai-streamer", "safetensors"),
    ("tensorizer", "tensorizer"),
]
PEER_ONES = ["torch.load-mmap", "safetensors", "safetensors-pread", "dcp", "npz", "npy"]


def savers(names):
    return [peer(name, "save") for name in names]


def loaders(names, operation):
    return [peer(name, operation, keep=saver) for name, saver in PEER_LOADERS if name in names]


def loading(savers_named):
    return [name for name, saver in PEER_LOADERS if saver in savers_named]
