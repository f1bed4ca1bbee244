"""The grammar half of the reference reader: schemas/ckpt.fbs as tables of text, and FlatBuffers read by them.

Every offset is checked before it is followed. What the fields mean and may hold is the matter of reference_reader.py.
"""
import struct
from collections import namedtuple

MAX_INDEX = (1 << 31) - 1
NO_ID = bytes(16)


class CheckpointError(Exception):
    """Whatever keeps this reader from vouching for a checkpoint."""


class FormatError(CheckpointError):
    """The bytes are those that were written, or claim to be, and break a rule of FORMAT.md."""


class CorruptError(CheckpointError):
    """Not the bytes that were written: a checksum, digest or zero byte is wrong, a part is cut or missing."""


class RevisionError(CheckpointError):
    """Written by another revision, or with a feature that this reader does not know."""


class UnsupportedError(CheckpointError):
    """Legal, reserved, and not readable by revision 1 (FORMAT §9)."""


class NotCommittedError(CheckpointError):
    """No MANIFEST, or a tombstone in its place."""


def require(condition, message, error=FormatError):
    if not condition:
        raise error(message)


# ---- the grammar, ckpt.fbs: structs as `name:type`, tables as `name:type` by field id ----

SCALARS = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i32": "i", "i64": "q", "bool": "?"}
STRUCTS = {
    "Chunk": "offset:u64 stored_size:u32 raw_size:u32 digest:id",
    "Tensor": "name:Text dtype:u16 ndim:u16 shape:u32 region_first:u32 region_count:u32",
    "Holding": "stored_bytes:u64 segment_count:u32 layout:u32",
    "Region": "kind:u8 pad:u8 pad2:u16 geometry:u32 segment_first:u32 segment_count:u32",
    "Segment": "start:u64 count:u64 chunk_first:u32 chunk_count:u32 codec:u8 filter:u8 filter_width:u8 pad:u8 pad2:u32",
    "Alias": "name:Text target:Text is_view:u8 pad:u8 ndim:u16 view:u32",
    "Object": "name:Text media_type:Text size:u64 digest:id scope:u8 placement:u8 pad:u16 layout:u32 inline_offset:u32 "
              "chunk_first:u32 chunk_count:u32 pad2:u32",
    "Attr": "owner:Text key:Text value:Text",
    "Part": "size:u64 index_offset:u64 index_size:u64 copy_offset:u64 root_digest:id save_id:id root_size:u32 rank:u32 "
            "kind:u8 pad:u8 pad2:u16 pad3:u32",
    "Base": "part:Part used:u64",
    "ParityBlock": "group:u32 part:u32 chunk:u64",
    "PageRef": "offset:u64 name_first:u64 object_first:u64 digest:id first:Text size:u32 pad:u32",
    "Layout": "kind:u8 pad:u8 ndim:u16 cells:u32 per_cell:u32 run_first:u32 run_count:u32",
    "PartRun": "first:u32 count:u32 stride:i32",
    "Group": "id:u64 digest:id entry_count:u64 list:Chunk index:u32 count:u32",
}
SUMMARY = ("revision:u32 required_features:u64 store_id:id session_id:id save_id:id run:string label:string token:u64 "
           "attempt:u64 sequence:u64 step:i64=-1 world_size:u32 writer:string created_unix_ms:u64 part_count:u32 "
           "tensor_count:u64 object_count:u64 part_bytes:u64 rebuilt:bool base_count:u32 base_bytes:u64 used_bytes:u64")
PAGE = ("names:string numbers:[u64] tensors:[Tensor] holdings:[Holding] regions:[Region] segments:[Segment] "
        "chunks:[Chunk] objects:[Object] inline_data:[u8] aliases:[Alias] attrs:[Attr] parts:[Part] "
        "parity:[ParityBlock] homes:[u16] used:[u64]")
ROOT = ("summary:Summary names:string numbers:[u64] pages:[PageRef] part_pages:[PageRef] parts_per_page:u32 "
        "name_count:u64 layouts:[Layout] runs:[PartRun] groups:[Group] bases:[Base]")
TOMBSTONE = "save_id:id rank:u32 status:i32 reason:string closed_by_token:u64 facts:[string]"

Layout = namedtuple("Layout", "row fields codes packer align")


def layout(name):
    """A struct's fields are packed here because ckpt.fbs lays every struct out without implicit padding."""
    fields = [field.split(":") for field in STRUCTS[name].split()]
    codes = "".join({"id": "16s", "Text": "II"}.get(kind) or SCALARS.get(kind) or layout(kind).codes
                    for _, kind in fields)
    align = 8 if set(kind for _, kind in fields) & {"u64", "id"} else 4
    return Layout(namedtuple(name, [field for field, _ in fields]), fields, codes, struct.Struct("<" + codes), align)


LAYOUTS = {name: layout(name) for name in STRUCTS}


def weight(row):
    """Bytes of a record and of its text in a page."""
    shape = LAYOUTS[type(row).__name__]
    return shape.packer.size + sum(len(getattr(row, field)) + 1 for field, kind in shape.fields if kind == "Text")


# ---- FlatBuffers, with each offset checked before it is followed ----

class Table:
    """A FlatBuffers table whose own bytes and vtable lie inside `buffer`."""

    def __init__(self, buffer, position, where):
        self.buffer, self.position, self.where = buffer, position, where
        self.need(position, 4, 4)
        self.vtable = position - self.load("i", position)
        self.need(self.vtable, 4, 2)
        self.vtable_size, self.size = self.load("H", self.vtable), self.load("H", self.vtable + 2)
        require(self.vtable_size >= 4 and self.vtable_size % 2 == 0, f"{where}: vtable of {self.vtable_size} bytes")
        require(self.size >= 4, f"{where}: table of {self.size} bytes")
        self.need(self.vtable, self.vtable_size, 2)
        self.need(position, self.size, 4)

    @classmethod
    def root(cls, buffer, identifier, where):
        require(8 <= len(buffer) <= MAX_INDEX, f"{where}: {len(buffer)} bytes cannot be a FlatBuffer")
        require(buffer[4:8] == identifier, f"{where}: file identifier {buffer[4:8]!r}, expected {identifier!r}")
        return cls(buffer, struct.unpack_from("<I", buffer)[0], where)

    def need(self, position, size, align):
        inside = 0 <= position and position + size <= len(self.buffer)
        require(inside and position % align == 0, f"{self.where}: {size} bytes at {position} of {len(self.buffer)}")

    def load(self, code, position):
        return struct.unpack_from("<" + code, self.buffer, position)[0]

    def field(self, number, size, align):
        """Position of a field, or None where the table lacks it."""
        if 4 + 2 * number + 2 > self.vtable_size:
            return None
        offset = self.load("H", self.vtable + 4 + 2 * number)
        if offset == 0:
            return None
        require(4 <= offset <= self.size - size, f"{self.where}: field {number} lies outside its table")
        self.need(self.position + offset, size, align)
        return self.position + offset

    def scalar(self, number, code, default):
        size = struct.calcsize("<" + code)
        position = self.field(number, size, size)
        return default if position is None else self.load(code, position)

    def id(self, number):
        position = self.field(number, 16, 8)
        return NO_ID if position is None else bytes(self.buffer[position:position + 16])

    def table(self, number, where):
        position = self.field(number, 4, 4)
        require(position is not None, f"{where}: missing")
        return Table(self.buffer, position + self.load("I", position), where)

    def vector_at(self, number, element_size, align):
        """(begin, size in bytes) of a vector; an absent one is empty."""
        position = self.field(number, 4, 4)
        if position is None:
            return 0, 0
        position += self.load("I", position)
        self.need(position, 4, 4)
        size = self.load("I", position) * element_size
        self.need(position + 4, size, align if size else 1)
        return position + 4, size

    def vector(self, number, element_size, align):
        begin, size = self.vector_at(number, element_size, align)
        return memoryview(self.buffer)[begin:begin + size]

    def string(self, number):
        return self.characters(*self.vector_at(number, 1, 1), number)

    def characters(self, begin, size, number):
        if begin:
            self.need(begin, size + 1, 1)
            require(self.buffer[begin + size] == 0, f"{self.where}: string {number} lacks its final zero")
        return bytes(self.buffer[begin:begin + size])

    def strings(self, number):
        begin, size = self.vector_at(number, 4, 4)
        for at in range(begin, begin + size, 4):
            position = at + self.load("I", at)
            self.need(position, 4, 4)
            yield self.characters(position + 4, self.load("I", position), number)

    def record(self, fields):
        """All scalar, id, string and [string] fields of a table described like SUMMARY."""
        out = {}
        for number, field in enumerate(fields.split()):
            name, kind = field.split(":")
            kind, _, default = kind.partition("=")
            if kind == "id":
                out[name] = self.id(number)
            elif kind == "string":
                out[name] = text(self.string(number), f"{self.where}.{name}")
            elif kind == "[string]":
                out[name] = [text(each, f"{self.where}.{name}") for each in self.strings(number)]
            else:
                out[name] = self.scalar(number, SCALARS[kind], int(default or 0))
        return out


def text(data, where):
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"{where}: not UTF-8") from None


class Columns:
    """What a Root or a Page says; each Text is already replaced by the bytes that it names."""

    def __init__(self, buffer, identifier, fields, where):
        self.where = where
        table = Table.root(buffer, identifier, where)
        for number, field in enumerate(fields.split()):
            name, kind = field.split(":")
            if kind == "Summary":
                value = table.table(number, f"{where}.{name}").record(SUMMARY)
            elif kind == "string":
                require(table.field(number, 4, 4) is not None, f"{where}.{name}: missing")
                value = table.string(number)
                text(value, f"{where}.{name}")
            elif kind == "[u64]":
                value = [number for number, in struct.iter_unpack("<Q", table.vector(number, 8, 8))]
            elif kind == "[u16]":
                value = [number for number, in struct.iter_unpack("<H", table.vector(number, 2, 2))]
            elif kind == "[u8]":
                value = bytes(table.vector(number, 1, 1))
            elif kind[0] == "[":
                shape = LAYOUTS[kind[1:-1]]
                rows = table.vector(number, shape.packer.size, shape.align)
                value = [self.row(shape, iter(row), f"{where}.{name}") for row in shape.packer.iter_unpack(rows)]
            else:
                value = table.scalar(number, SCALARS[kind], 0)
            setattr(self, name, value)

    def row(self, shape, values, where):
        out = []
        for field, kind in shape.fields:
            if kind == "Text":
                out.append(self.piece(next(values), next(values), f"{where}.{field}"))
            elif kind in LAYOUTS:
                out.append(self.row(LAYOUTS[kind], values, f"{where}.{field}"))
            else:
                out.append(next(values))
            require(out[-1] == 0 or not field.startswith("pad"), f"{where}.{field}: {out[-1]}, expected 0")
        return shape.row(*out)

    def piece(self, offset, size, where):
        end = offset + size
        require(end < len(self.names), f"{where}: text {offset}+{size} of {len(self.names)} bytes, no zero byte after")
        require(self.names[end] == 0, f"{where}: no zero byte after the text")
        text(self.names[offset:end], where)
        return self.names[offset:end]

    def numbers_at(self, first, count, where):
        require(first + count <= len(self.numbers), f"{where}: numbers {first}+{count} of {len(self.numbers)}")
        return tuple(self.numbers[first:first + count])


def show(name):
    return repr(name.decode("utf-8", "replace"))
