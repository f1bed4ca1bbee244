"""reader.* and file.*: a committed checkpoint, and other people's files, opened in place."""

import ctypes

import ckpt

from runner import Commands, Failure, Runner, shape_text


def reader_of(r: Runner) -> ckpt.Reader:
    return r.get(0, ckpt.Reader)


def file_of(r: Runner) -> ckpt.File:
    return r.get(0, ckpt.File)


def reader_tensors(r: Runner) -> None:
    reader = reader_of(r)
    found = reader.tensors()
    if found != [reader.tensor_at(i) for i in range(reader.tensor_count)]:
        raise Failure("expected the same tensors one by one, found others")
    r.expect_words(1, [info.name for info in found])


def reader_tensor(r: Runner) -> None:
    info = reader_of(r).tensor(r.words[1])
    r.expect_words(1, [info.name])
    r.expect_fields(info)


def reader_segment(r: Runner) -> None:
    info = reader_of(r).segment(r.words[1], r.number(2))
    box = flat = ""
    if info.offset is None or info.extent is None:
        flat = f"{info.flat_offset}:{info.flat_size}"
    else:
        box = f"{shape_text(info.offset)}:{shape_text(info.extent)}"
    r.expect_fields(info, box=box, flat=flat)


def reader_objects(r: Runner) -> None:
    reader = reader_of(r)
    found = reader.objects()
    if found != [reader.object_at(i) for i in range(reader.object_count)]:
        raise Failure("expected the same objects one by one, found others")
    r.expect_words(1, [f"{info.name}:{'-' if info.scope == ckpt.Scope.SHARED else info.rank}" for info in found])


def reader_tree(r: Runner) -> None:
    rank = r.key("rank")
    r.put(1, reader_of(r).tree(r.key("name"), rank=None if rank is None else int(rank)))


def reader_attrs(r: Runner) -> None:
    r.expect_words(2, [f"{key}={value}" for key, value in reader_of(r).attrs(r.words[1] or None).items()])


def file_data(r: Runner) -> None:
    memory = ckpt.Memory.of(file_of(r).data(r.number(1)))
    # from the first element to the last, gaps included
    r.put(2, bytearray(ctypes.string_at(memory.address, memory.nbytes)))


def file_read(r: Runner) -> None:
    file_of(r).read(r.number(1), r.get(4, bytearray) if r.words[4] else None, **r.tensor(2))


COMMANDS: Commands = {
    "reader.open": lambda r: r.put(0, ckpt.Reader(r.get(1, ckpt.Store), r.words[2], r.options)),
    "reader.info": lambda r: r.expect_fields(reader_of(r).info),
    "reader.report": lambda r: r.put(1, reader_of(r).report()),
    "reader.map": lambda r: r.put(2, bytearray(memoryview(reader_of(r).map(r.words[1], r.options)).tobytes())),
    "reader.verify": lambda r: r.put(1, reader_of(r).verify(r.options)),
    "reader.copy": lambda r: r.put(2, reader_of(r).copy(r.get(1, ckpt.Store), r.options, job=r.call_job())),
    "reader.diff": lambda r: r.put(2, reader_of(r).diff(r.get(1, ckpt.Reader), r.options, job=r.call_job())),
    "reader.tree": reader_tree,
    "reader.export": lambda r: reader_of(r).export(r.words[1], r.options, job=r.call_job()),
    "reader.tensors": reader_tensors,
    "reader.tensor": reader_tensor,
    "reader.alias": lambda r: r.expect_fields(reader_of(r).alias(r.words[1])),
    "reader.segment": reader_segment,
    "reader.objects": reader_objects,
    "reader.object": lambda r: r.expect_fields(reader_of(r).object(r.words[1], r.number(2))),
    "reader.part": lambda r: r.expect_fields(reader_of(r).part(r.number(1))),
    "reader.attrs": reader_attrs,
    "reader.attr": lambda r: r.expect_words(2, [reader_of(r).attr(r.words[1], r.key("tensor")) or ""]),
    "file.open": lambda r: r.put(0, ckpt.File(r.words[1], r.options)),
    "file.format": lambda r: r.expect_words(1, [file_of(r).format, *file_of(r).left_out]),
    "file.tensors": lambda r: r.expect_words(1, [tensor.name for tensor in file_of(r).tensors()]),
    "file.tensor": lambda r: r.expect_fields(file_of(r).tensor(r.number(1))),
    "file.data": file_data,
    "file.read": file_read,
    "file.tree": lambda r: r.put(1, file_of(r).tree(), lent_by=file_of(r)),
}
