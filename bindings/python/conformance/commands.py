"""All commands but those of sparse tables and keepers."""

import ctypes
from collections.abc import Callable
from typing import Any, TypeVar

import ckpt
from ckpt import _core

from runner import Commands, Failure, Runner, record, shape_text

T = TypeVar("T")
MASK, STEP = 2**64 - 1, 0x9E3779B97F4A7C15
SLAB = 1 << 20  # words made at once
SCOPES = {"shared": ckpt.Scope.SHARED, "per-rank": ckpt.Scope.PER_RANK}  # those that a program may add
KINDS = {kind.name.lower(): kind for kind in ckpt.NodeKind}
TEXTS = (ckpt.NodeKind.TEXT, ckpt.NodeKind.BIGINT, ckpt.NodeKind.TENSOR, ckpt.NodeKind.RECORD)


def first(kind: type[T]) -> Callable[[Runner], T]:
    """Gives the object that a command names first."""
    return lambda r: r.get(0, kind)


store_of, reader_of, file_of, tree_of = first(ckpt.Store), first(ckpt.Reader), first(ckpt.File), first(ckpt.Tree)
save_of, load_of, job_of = first(ckpt.Save), first(ckpt.Load), first(ckpt.Job)


# ---- the library, memory ----
def status(r: Runner) -> dict[str, str]:
    number = r.number(0)
    names = [name for name, value in ckpt.Status.__members__.items() if value == number]
    if ckpt.Status(number).name != ckpt.status_name(number):
        raise Failure(f"expected one name of {number}, found two")
    return {"name": ckpt.status_name(number), "constants": " ".join(names)}


def dtype(r: Runner) -> dict[str, str]:
    found = ckpt.DType(r.number(0))
    names = [name for name, value in ckpt.DType.__members__.items() if value == found]
    return {"name": str(found), "bits": str(found.bits), "found": str(int(ckpt.dtype_find(str(found)))),
            "constants": " ".join(names)}


def option(r: Runner) -> dict[str, str]:
    found = next((info for info in ckpt.options() if info.key == r.words[0]), None)
    if found is None:
        raise Failure(f"expected an option {r.words[0]}, found none")
    return record(found)


def mixed(z: Any) -> Any:
    """The word of splitmix64 (Steele, Lea, Flood 2014) for a state, or for an array of them."""
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def generated(size: int, seed: int) -> bytearray:
    if seed == 0:
        return bytearray(size)
    count = -(-size // 8)
    if count <= 1024:  # most are; importing numpy takes longer than such a scenario
        data = bytearray().join(mixed(seed + i * STEP & MASK).to_bytes(8, "little") for i in range(1, count + 1))
    else:
        import numpy as np
        data = bytearray(8 * count)
        words, steps = np.frombuffer(data, "<u8"), np.arange(1, SLAB + 1, dtype=np.uint64) * np.uint64(STEP)
        for start in range(0, count, SLAB):
            slab = words[start:start + SLAB]
            slab[:] = mixed(steps[:len(slab)] + np.uint64(seed + start * STEP & MASK))
        del words, slab
    del data[size:]
    return data


def memory_part(r: Runner) -> None:
    whole, offset, size = r.get(1, bytearray), r.number(2), r.number(3)
    if offset + size > len(whole):
        raise Failure(f"expected {size} bytes at {offset}, found {len(whole)} in all")
    r.put(0, whole[offset:offset + size])


# ---- saves, loads, jobs ----
def add_many(to: Any, r: Runner, writable: bool) -> None:
    memory, tensor = ckpt.Memory.of(r.get(5, bytearray), writable=writable), r.tensor(3)
    for i in range(r.number(1)):
        to.add_tensor(f"{r.words[2]}{i}", memory, **tensor)


def save_alias(r: Runner) -> None:
    offset = r.numbers("offset")
    view = {"shape": r.numbers("shape"), "strides": r.numbers("strides"), "offset": offset and offset[0]}
    given = {key: value for key, value in view.items() if value is not None}
    save_of(r).add_alias(r.words[1], r.words[2], **given)  # type: ignore[arg-type]


def load_tensor(r: Runner) -> None:
    convert = r.numbers("convert") not in (None, (0,))
    load_of(r).add_tensor(r.words[1], r.data(4), convert=convert, **r.tensor(2))


def session_open(r: Runner) -> None:
    r.put(0, ckpt.Session(r.get(1, ckpt.Store), r.number(2), r.number(3), r.key("string"), r.options, job=r.call_job()))


# ---- readers, files ----
def reader_tensors(r: Runner) -> list[str]:
    reader = reader_of(r)
    found = reader.tensors()
    if found != [reader.tensor_at(i) for i in range(reader.tensor_count)]:
        raise Failure("expected the same tensors one by one, found others")
    return [info.name for info in found]


def reader_segment(r: Runner) -> dict[str, str]:
    info = reader_of(r).segment(r.words[1], r.number(2))
    if info.offset is None or info.extent is None:
        return record(info, box="", flat=f"{info.flat_offset}:{info.flat_size}")
    return record(info, box=f"{shape_text(info.offset)}:{shape_text(info.extent)}", flat="")


def reader_objects(r: Runner) -> list[str]:
    reader = reader_of(r)
    found = reader.objects()
    if found != [reader.object_at(i) for i in range(reader.object_count)]:
        raise Failure("expected the same objects one by one, found others")
    return [f"{info.name}:{'-' if info.scope == ckpt.Scope.SHARED else info.rank}" for info in found]


def reader_tree(r: Runner) -> None:
    rank = r.key("rank")
    r.put(1, reader_of(r).tree(r.key("name"), rank=None if rank is None else int(rank)))


def file_data(r: Runner) -> None:
    memory = ckpt.Memory.of(file_of(r).data(r.number(1)))
    # from the first element to the last, gaps included
    r.put(2, bytearray(ctypes.string_at(memory.address, memory.nbytes)))


# ---- trees ----
def tree_node(r: Runner) -> dict[str, str]:
    node = tree_of(r).node(r.number(1))
    kind, value, key = node.kind, node.value, node.key
    links = {link: "-" if to is None else to for link in ("first_child", "next_sibling", "parent")
             for to in [getattr(node, link)]}
    found = record(node, key=key if isinstance(key, str) else "", key_int=key if isinstance(key, int) else 0,
                   bool=value is True, int=value if kind == ckpt.NodeKind.INT else 0,
                   float=value if isinstance(value, float) else 0.0, text=str(value) if kind in TEXTS else "", **links)
    return found | ({"bytes": found["value"]} if isinstance(value, bytes) else {})


def known(names: dict[str, Any], name: str) -> Any:
    if name not in names:
        raise Failure(f"expected one of {', '.join(names)}, found {name}")
    return names[name]


COMMANDS: Commands = {
    "version": lambda r: {"text": ckpt.version(), "number": str(ckpt.version_number()),
                          "header": str(_core.HEADER_VERSION_NUMBER)},
    "status": status,
    "dtype": dtype,
    "option": option,
    "memory": lambda r: r.put(0, generated(r.number(1), r.number(2))),
    "memory.hex": lambda r: r.put(0, bytearray(r.octets(1))),
    "memory.alloc": lambda r: r.put(0, bytearray(r.number(1))),
    "memory.part": memory_part,
    "same": lambda r: [str(int(r.get(0, bytearray) == r.get(1, bytearray)))],
    "free": lambda r: r.free(r.words[0]),
    "store.open": lambda r: r.put(0, ckpt.Store(r.words[1], r.options)),
    "store.states": lambda r: [f"{info.id}:{info.state.name}" for info in store_of(r).list()],
    "store.runs": lambda r: [f"{run.name}:{run.token}:{run.checkpoint_count}:{run.newest_step}:{run.newest_id}:"
                             f"{run.newest_label}" for run in store_of(r).runs()],
    "store.find": lambda r: record(store_of(r).find(r.words[1], r.options)),
    "store.remove": lambda r: store_of(r).remove(r.words[1]),
    "store.keep": lambda r: store_of(r).keep(r.words[1], r.words[2] == "1"),
    "store.name": lambda r: store_of(r).name(r.words[2], r.words[3] or None, r.words[1]),
    "store.prune": lambda r: r.put(1, store_of(r).prune(r.options, job=r.call_job())),
    "store.repair": lambda r: r.put(2, store_of(r).repair(r.words[1], r.options, job=r.call_job())),
    "store.import": lambda r: record(store_of(r).import_file(r.words[1], r.words[2], r.number(3), r.options,
                                                             job=r.call_job())),
    "session.open": session_open,
    "session.mirror": lambda r: r.put(1, r.get(0, ckpt.Session).mirror()),
    "session.string": lambda r: [r.get(0, ckpt.Session).string],
    "save.new": lambda r: r.put(0, ckpt.Save(r.get(1, ckpt.Session), r.words[2], r.number(3), r.options)),
    "save.tensor": lambda r: save_of(r).add_tensor(r.words[1], r.data(4), **r.tensor(2)),
    "save.tensors": lambda r: add_many(save_of(r), r, writable=False),
    "save.object": lambda r: save_of(r).add_object(r.words[1], r.get(4, bytearray), r.words[2],
                                                   known(SCOPES, r.words[3])),
    "save.alias": save_alias,
    "save.attr": lambda r: save_of(r).set_attr(r.words[1], r.words[2], r.key("tensor")),
    "save.tree": lambda r: save_of(r).add_tree(r.get(1, ckpt.Tree), r.key("name")),
    "save.give_up": lambda r: save_of(r).give_up(r.words[1]),
    "save.id": lambda r: [save_of(r).id],
    "save.run": lambda r: save_of(r).run(),
    "save.start": lambda r: r.put(1, save_of(r).start()),
    "save.start_in_place": lambda r: r.put(1, save_of(r).start(in_place=True)),
    "save.report": lambda r: r.put(1, save_of(r).report()),
    "load.new": lambda r: r.put(0, ckpt.Load(r.get(1, ckpt.Reader), r.options)),
    "load.tensor": load_tensor,
    "load.tensors": lambda r: add_many(load_of(r), r, writable=True),
    "load.object": lambda r: load_of(r).add_object(r.words[1], r.get(3, bytearray), r.number(2)),
    "load.run": lambda r: load_of(r).run(),
    "load.start": lambda r: r.put(1, load_of(r).start()),
    "load.report": lambda r: r.put(1, load_of(r).report()),
    "job.new": lambda r: r.put(0, ckpt.Job()),
    "job.wait": lambda r: job_of(r).wait(known(dict(ckpt.JobState.__members__), r.words[1]),
                                         int(r.key("timeout_ms") or "-1")),
    "job.state": lambda r: [job_of(r).state.name],
    "job.cancel": lambda r: job_of(r).cancel(),
    "job.stats": lambda r: record(job_of(r).stats),
    "job.report": lambda r: r.put(1, job_of(r).report()),
    "report": lambda r: [str(len(r.get(0, ckpt.Report)))],
    "report.at": lambda r: record(r.get(0, ckpt.Report)[r.number(1)]),
    "reader.open": lambda r: r.put(0, ckpt.Reader(r.get(1, ckpt.Store), r.words[2], r.options)),
    "reader.info": lambda r: record(reader_of(r).info),
    "reader.report": lambda r: r.put(1, reader_of(r).report()),
    "reader.map": lambda r: r.put(2, bytearray(memoryview(reader_of(r).map(r.words[1], r.options)).tobytes())),
    "reader.verify": lambda r: r.put(1, reader_of(r).verify(r.options)),
    "reader.copy": lambda r: r.put(2, reader_of(r).copy(r.get(1, ckpt.Store), r.options, job=r.call_job())),
    "reader.diff": lambda r: r.put(2, reader_of(r).diff(r.get(1, ckpt.Reader), r.options, job=r.call_job())),
    "reader.tree": reader_tree,
    "reader.export": lambda r: reader_of(r).export(r.words[1], r.options, job=r.call_job()),
    "reader.tensors": reader_tensors,
    "reader.tensor": lambda r: record(reader_of(r).tensor(r.words[1])),
    "reader.alias": lambda r: record(reader_of(r).alias(r.words[1])),
    "reader.segment": reader_segment,
    "reader.objects": reader_objects,
    "reader.object": lambda r: record(reader_of(r).object(r.words[1], r.number(2))),
    "reader.part": lambda r: record(reader_of(r).part(r.number(1))),
    "reader.attrs": lambda r: [f"{key}={value}" for key, value in reader_of(r).attrs(r.words[1] or None).items()],
    "reader.attr": lambda r: [reader_of(r).attr(r.words[1], r.key("tensor")) or ""],
    "file.open": lambda r: r.put(0, ckpt.File(r.words[1], r.options)),
    "file.format": lambda r: [file_of(r).format, *file_of(r).left_out],
    "file.tensors": lambda r: [tensor.name for tensor in file_of(r).tensors()],
    "file.tensor": lambda r: record(file_of(r).tensor(r.number(1))),
    "file.data": file_data,
    "file.read": lambda r: file_of(r).read(r.number(1), r.data(4), **r.tensor(2)),
    "file.tree": lambda r: r.put(1, file_of(r).tree(), lent_by=file_of(r)),
    "tree.new": lambda r: r.put(0, ckpt.Tree()),
    "tree.parse": lambda r: r.put(0, ckpt.Tree.parse(r.octets(1))),
    "tree.json": lambda r: [tree_of(r).json()],
    "tree.key": lambda r: tree_of(r).key(r.words[1]),
    "tree.key_int": lambda r: tree_of(r).key(r.number(1)),
    "tree.null": lambda r: tree_of(r).add_null(),
    "tree.bool": lambda r: tree_of(r).add_bool(bool(r.number(1))),
    "tree.int": lambda r: tree_of(r).add_int(r.number(1)),
    "tree.bigint": lambda r: tree_of(r).add_bigint(r.words[1]),
    "tree.float": lambda r: tree_of(r).add_float(float(r.words[1])),
    "tree.text": lambda r: tree_of(r).add_text(r.words[1]),
    "tree.bytes": lambda r: tree_of(r).add_bytes(r.octets(1)),
    "tree.tensor": lambda r: {"path": tree_of(r).add_tensor(r.key("name"))},
    "tree.begin": lambda r: tree_of(r).begin(known(KINDS, r.words[1]), r.key("class")),
    "tree.end": lambda r: tree_of(r).end(),
    "tree.count": lambda r: [str(len(tree_of(r)))],
    "tree.node": tree_node,
    "tree.find": lambda r: [str(tree_of(r).find(r.number(1), r.words[2]))],
    "tree.find_int": lambda r: [str(tree_of(r).find(r.number(1), r.number(2)))],
    "tree.native": lambda r: r.put(1, ckpt.from_native(ckpt.to_native(tree_of(r)))),
}
