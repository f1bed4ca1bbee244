"""Composes checkpoints by hand for reference_reader_test.py: the inverse of the reference reader, piece by piece."""
import copy
import itertools
import os
import random
import re
import struct

import flatbuffers

import reference_elements as elements
import reference_grammar as grammar
from reference_elements import digest_of

SESSION, STORE = bytes(range(16)), bytes(range(100, 116))
F32, F64, U8, BF16, U4, F6 = 0x220, 0x240, 0x108, 0x410, 0x104, 0x0F06


def xxh64(data):
    return elements.xxhash.xxh3_64_intdigest(data)


def padded(data, multiple):
    return bytes(data) + bytes(-len(data) % multiple)


# ---- encoders, the inverse of the reader's decoders, element by element ----

def lz4_compress(data):
    """Greedy; the last five bytes stay literal, as the block format wants."""
    out, seen, anchor, at = bytearray(), {}, 0, 0

    def number(value):
        return bytes([255] * ((value - 15) // 255) + [(value - 15) % 255]) if value >= 15 else b""
    while at + 12 < len(data):
        known, seen[data[at:at + 4]] = seen.get(data[at:at + 4]), at
        if known is None or at - known > 65535:
            at += 1
            continue
        length = 4
        while at + length < len(data) - 5 and data[known + length] == data[at + length]:
            length += 1
        literals = data[anchor:at]
        out += bytes([min(15, len(literals)) << 4 | min(15, length - 4)]) + number(len(literals)) + literals
        out += struct.pack("<H", at - known) + number(length - 4)
        at = anchor = at + length
    return bytes(out + bytes([min(15, len(data) - anchor) << 4]) + number(len(data) - anchor) + data[anchor:])


def shuffle(data, width):
    whole = len(data) // width * width
    return b"".join(data[k:whole:width] for k in range(width)) + data[whole:]


def planes(data, width):
    count = len(data) // (8 * width) * 8
    values = [int.from_bytes(data[i * width:(i + 1) * width], "little") for i in range(count)]
    out = bytearray(len(data))
    for plane, i in itertools.product(range(8 * width), range(count)):
        out[plane * count // 8 + i // 8] |= (values[i] >> plane & 1) << i % 8
    out[count * width:] = data[count * width:]
    return bytes(out)


# ---- a writer of indexes: high-level rows in, pages and a root out ----

def pack(name, *values):
    """A row of ckpt.fbs; what is left out at its end is 0."""
    flat = [value for item in values for value in (item if isinstance(item, tuple) else (item,))]
    codes = re.findall(r"16s|.", grammar.LAYOUTS[name].codes)
    return struct.pack("<" + "".join(codes), *flat, *[0] * (len(codes) - len(flat)))


class Columns:
    """The columns of a page, or the names and numbers of a root."""

    def __init__(self):
        self.names, self.numbers, self.inline = bytearray(), [], bytearray()
        columns = "tensors holdings regions segments chunks objects aliases attrs parts homes used"
        self.rows = {name: [] for name in columns.split()}

    def text(self, data):
        offset = len(self.names)
        self.names += data + b"\0"
        return offset, len(data)

    def number_list(self, values):
        self.numbers += values
        return len(self.numbers) - len(values)

    def put(self, column, *rows):
        """Appends rows; returns the (first, count) of their range."""
        self.rows[column] += rows
        return len(self.rows[column]) - len(rows), len(rows)

    def chunks(self, chunks):
        """A chunk may have a fifth number, its home."""
        self.put("homes", *(struct.pack("<H", sum(chunk[4:])) for chunk in chunks))
        return self.put("chunks", *(pack("Chunk", *chunk[:4]) for chunk in chunks))

    def add(self, content):
        """Rows in the order that FORMAT §4 wants: segments own the first chunks, then objects."""
        for name, (dtype, shape, regions, *holding) in content["tensors"]:
            rows = []
            first = len(self.rows["regions"])
            for kind, numbers, segments in regions:
                begin = len(self.rows["segments"])
                for start, count, codec, filter_kind, width, chunks in segments:
                    self.put("segments", pack("Segment", start, count, *self.chunks(chunks), codec, filter_kind, width))
                geometry = self.number_list(numbers) if numbers else 0
                rows.append(pack("Region", kind, 0, 0, geometry, begin, len(segments)))
            self.put("regions", *rows)
            self.put("tensors", pack("Tensor", self.text(name), dtype, len(shape), self.number_list(shape), first,
                                     len(regions)))
            self.put("holdings", *(pack("Holding", *row) for row in holding))
        for name, scope, placement, data, layout, chunks in content["objects"]:
            inline = len(self.inline)
            self.inline += data if placement == 0 else b""
            said = (0, bytes(16)) if placement == 3 and scope else (len(data), digest_of(data))
            self.put("objects", pack("Object", self.text(name), self.text(b"text/plain"), *said, scope, placement, 0,
                                     layout, inline, *self.chunks(chunks)))
        for name, target, view in content["aliases"]:
            numbers = self.number_list(view) if view else 0
            self.put("aliases", pack("Alias", self.text(name), self.text(target), view is not None, 0,
                                     len(view or ()) // 2, numbers))
        for row in content["attrs"]:
            self.put("attrs", pack("Attr", *map(self.text, row)))
        return self

    def size(self):
        return len(self.names) + 8 * len(self.numbers) + len(self.inline) + sum(
            len(row) for name, rows in self.rows.items() for row in rows if name != "homes")

    def page(self):
        if not any(map(any, self.rows["homes"])):
            self.rows["homes"] = []
        vectors = [(slot, self.rows[name], 4 if name in ("attrs", "aliases", "tensors") else 8)
                   for slot, name in enumerate(re.findall(r"(\w+):", grammar.PAGE)) if name in self.rows]
        return table_bytes(b"CKPI", self, vectors, 17, {0: "names", 1: "numbers", 8: "inline"})


def table_bytes(identifier, columns, vectors, fields, slots, summary=None, scalars=()):
    """A Page or a Root; `slots` says where names, numbers and inline data belong."""
    builder, offsets = flatbuffers.Builder(), {}
    for slot, rows, align in vectors + [(slot, [struct.pack("<Q", number) for number in columns.numbers], 8)
                                        for slot, what in slots.items() if what == "numbers"]:
        data = b"".join(rows)
        builder.StartVector(len(rows[0]) if rows else 8, len(rows), align)
        builder.head -= len(data)
        builder.Bytes[builder.head:builder.head + len(data)] = data
        offsets[slot] = builder.EndVector()
    for slot, what in slots.items():
        if what == "inline":
            offsets[slot] = builder.CreateByteVector(bytes(columns.inline))
        elif what == "names":
            offsets[slot] = builder.CreateString(bytes(columns.names))
    if summary:
        offsets[0] = put_summary(builder, summary)
    builder.StartObject(fields)
    for slot, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    for slot, value in scalars:
        (builder.PrependUint32Slot if slot == 5 else builder.PrependUint64Slot)(slot, value, 0)
    builder.Finish(builder.EndObject(), identifier)
    return bytes(builder.Output())


def paged(content):
    """(first name, names and objects on it, the page) of each page, filled up to `content["full"]` bytes."""
    columns = {column: content[column] for column in ("tensors", "objects", "aliases", "attrs")}

    def only(names):
        return {column: [row for row in rows if row[0] in names] for column, rows in columns.items()}
    pages, size = [[]], 0
    for name in sorted({row[0] for rows in columns.values() for row in rows}):
        more = Columns().add(only([name])).size()
        if size + more > content.get("full", 65536) and pages[-1]:
            pages.append([])
            size = 0
        pages[-1].append(name)
        size += more
    for number, names in enumerate(pages):
        rows = only(set(names))
        objects = sum(content["layouts"][row[4]][2] if "layouts" in content else 1 for row in rows["objects"])
        yield (names[0] if number else b"", len(rows["tensors"]) + len(rows["aliases"]), objects,
               Columns().add(rows).page())


def index_bytes(summary, content):
    """(index, size of its root). `content["refs"]` may change the references to pages."""
    root, data, refs, names, objects = Columns(), b"", [], 0, 0
    for first, more_names, more_objects, page in paged(content):
        data = padded(data, 64)
        refs.append([len(data), names, objects, digest_of(page), first, len(page), 0])
        data, names, objects = data + page, names + more_names, objects + more_objects
    parts, part_refs = content.get("parts", ()), []
    for first in range(0, len(parts), 512):
        columns, data = Columns(), padded(data, 64)
        columns.put("parts", *(pack("Part", *part) for part in parts[first:first + 512]))
        columns.put("used", *(struct.pack("<Q", used) for used in content.get("used", ())[first:first + 512]))
        part_refs.append([len(data), 0, 0, digest_of(columns.page()), b"", len(columns.page()), 0])
        data += columns.page()
    content.get("refs", lambda *_: 0)(refs, part_refs)
    rows = [[pack("PageRef", *ref[:4], root.text(ref[4]), *ref[5:]) for ref in some] for some in (refs, part_refs)]
    layouts, runs = [], []
    for kind, cells, per_cell, some in content.get("layouts", ()):
        at = root.number_list(cells) if cells else 0
        layouts.append(pack("Layout", kind, 0, len(cells), at, per_cell, len(runs), len(some)))
        runs += [pack("PartRun", *run) for run in some]
    groups = [pack("Group", *group) for group in content.get("groups", ())]
    bases = [pack("Base", tuple(base), *[0] * (12 - len(base)), used) for base, used in content.get("bases", ())]
    vectors = [(3, rows[0], 8), (4, rows[1], 8), (7, layouts, 4), (8, runs, 4), (9, groups, 8), (10, bases, 8)]
    scalars = [(5, 512 if parts else 0), (6, names + content.get("more_names", 0))]
    tail = table_bytes(b"CKPR", root, vectors, 11, {1: "names", 2: "numbers"}, summary, scalars)
    return padded(data, 64) + tail, len(tail)


def put_summary(builder, summary):
    strings = {key: builder.CreateString(summary[key]) for key in ("run", "label", "writer")}
    builder.StartObject(22)
    for slot, field in enumerate(grammar.SUMMARY.split()):
        name, kind = field.split(":")
        if kind == "id":
            low, high = struct.unpack("<QQ", summary[name])
            builder.Prep(8, 16)
            builder.PrependUint64(high)
            builder.PrependUint64(low)
            builder.PrependStructSlot(slot, builder.Offset(), 0)
        elif kind == "string":
            builder.PrependUOffsetTRelativeSlot(slot, strings[name], 0)
        elif name in summary:
            {"u32": builder.PrependUint32Slot, "u64": builder.PrependUint64Slot, "bool": builder.PrependBoolSlot,
             "i64=-1": builder.PrependInt64Slot}[kind](slot, summary[name], -1 if kind == "i64=-1" else 0)
    return builder.EndObject()


def summary_bytes(summary):
    builder = flatbuffers.Builder()
    builder.Finish(put_summary(builder, summary), b"CKPS")
    return bytes(builder.Output())


def manifest_bytes(index, summary, kind=1, revision=1, copies=b""):
    data, root_size = index
    trailer = struct.pack("<QQQQ16s16sII8s", len(data), root_size, len(copies), len(summary),
                          digest_of(data[-root_size:]), digest_of(summary), kind, revision, b"CKPTMANI")
    return padded(data, 64) + copies + padded(summary, 8) + trailer + struct.pack("<Q", xxh64(trailer))


def base_summary():
    label, attempt = "step-10", 3
    save_id = digest_of(SESSION + label.encode() + b"\0" + struct.pack("<Q", attempt))
    return dict(revision=1, required_features=0, store_id=STORE, session_id=SESSION, save_id=save_id,
                run="run", label=label, token=5, attempt=attempt, sequence=9, step=10, world_size=2,
                writer="by hand", created_unix_ms=1)


# ---- a checkpoint of two ranks ----

class PartWriter:
    def __init__(self, rank, summary):
        self.rank, self.summary = rank, summary
        header = struct.pack("<8sII16sII16sQQ", b"CKPTPART", 1, 4096, summary["save_id"], rank, summary["world_size"],
                             STORE, 5, 3)
        self.data = bytearray(padded(header + struct.pack("<Q", xxh64(header)), 4096))

    def store(self, raw, encoded=None):
        stored = encoded if encoded is not None and len(encoded) < len(raw) else raw
        self.data += bytes(-len(self.data) % 16)
        chunk = (len(self.data), len(stored), len(raw), digest_of(stored))
        self.data += stored
        return chunk

    def region(self, kind, numbers, count, raw, codec=0, kind_of_filter=0, width=0, start=0, chunk_bytes=1 << 20):
        """A region with one segment."""
        undo = {0: lambda data, _: data, 1: shuffle, 2: planes}[kind_of_filter]
        pieces = [raw[at:at + chunk_bytes] for at in range(0, len(raw), chunk_bytes)]
        chunks = [self.store(piece, lz4_compress(undo(piece, width)) if codec else None) for piece in pieces]
        return [kind, list(numbers), [[start, count, codec, kind_of_filter, width, chunks]]]

    def finish(self, content):
        summary = self.summary if self.rank == 0 else dict(self.summary, created_unix_ms=0)
        (self.index, root_size), begin = index_bytes(summary, content), len(padded(self.data, 64))
        digest, save_id = digest_of(self.index[-root_size:]), self.summary["save_id"]
        trailer = struct.pack("<QQQ16s16s8s", begin, len(self.index), root_size, digest, save_id, b"CKPTTAIL")
        body = padded(padded(self.data, 64) + self.index + bytes(72), 4096)[:-72]
        self.data = body + trailer + struct.pack("<Q", xxh64(trailer))
        self.record = [len(self.data), begin, len(self.index), 0, digest, save_id, root_size, self.rank, 0]
        return self


BOX = struct.pack("<24f", *range(24))
PLANES = b"".join(struct.pack("<H", 0x3F80 + i % 5) for i in range(1003))
NIBBLES = bytes([0x10, 0x32, 0x54, 0x76, 0x98, 0xBA])
SIXES = sum(value << 6 * i for i, value in enumerate([1, 2, 3, 60, 63])).to_bytes(4, "little")
SCALAR = struct.pack("<d", 2.5)
BIG_OBJECT = bytes(random.Random(1).randbytes(5000))


def box_piece(column):
    return b"".join(BOX[24 * row + 12 * column:][:12] for row in range(4))


def group_list():
    name, size = b"c/planes", len(PLANES)
    return struct.pack("<QHBBQI", size, BF16, 0, 1, 1003, len(name)) + name


def compose(change=None):
    """Two finished parts; `change(rank, content)` breaks what a part's own index says, and not the manifest."""
    summary, out, declared = base_summary(), [], group_list()
    for rank in (0, 1):
        part = PartWriter(rank, summary)
        tensors = [
            [b"a/box", (F32, (4, 6), [part.region(1, (0, 3 * rank, 4, 3), 12, box_piece(rank), 1, 1, 4)])],
            [b"c/planes", (BF16, (1003,), [part.region(0, (), (512, 491)[rank], PLANES[1024 * rank:][:1024], 1, 2, 2,
                                                       512 * rank, 600)])],
            [b"empty", (F32, (0, 3), [])],
            [b"nibbles", (U4, (3, 4), [part.region(1, (0, 2 * rank, 3, 2), 6, NIBBLES[rank::2])])]]
        if rank == 0:
            tensors.append([b"scalar", (F64, (), [part.region(0, (), 1, SCALAR)])])
        else:
            tensors.append([b"sixes", (F6, (5,), [part.region(2, (0, 4), 4, SIXES[:3]),
                                                  part.region(2, (4, 1), 1, SIXES[3:])])])
        objects = [[b"config", 0, 2 if rank else 0, b"{}", 0, []],
                   [b"rng", 1, rank, BIG_OBJECT if rank else b"", 0, [part.store(BIG_OBJECT)] if rank else []]]
        aliases = [[b"a/tied", b"a/box", None], [b"a/transposed", b"a/box", (0, 6, 4, 1, 6)],
                   [b"odd", b"sixes", (1, 2, 2)]]
        attrs = [[b"a/box", b"layout", b"columns"]]
        attrs = attrs if rank else [[b"", b"framework", b"none\nat all"]] + attrs
        content = dict(tensors=tensors, objects=objects, aliases=aliases, attrs=attrs,
                       groups=[[7, digest_of(declared), 1, part.store(declared), rank, 2]])
        part.content = copy.deepcopy(content)
        if change:
            change(rank, content)
        out.append(part.finish(content))
    return out


COLUMNS, BOTH, NONE, PART_0, PART_1 = range(5)
LAYOUTS = [[1, [1, 2], 1, [(0, 2, 1)]], [0, [], 2, [(0, 2, 1)]], [0, [], 0, []], [0, [], 1, [(0, 1, 0)]],
           [0, [], 1, [(1, 1, 0)]]]
LAYOUT_OF = {b"a/box": COLUMNS, b"c/planes": BOTH, b"empty": NONE, b"nibbles": COLUMNS, b"scalar": PART_0,
             b"sixes": PART_1}


def merge(parts):
    """What MANIFEST says of the two parts; the layouts are written down by hand."""
    tensors = {}
    for part in parts:
        for name, (dtype, shape, regions) in part.content["tensors"]:
            known = tensors.setdefault(name, [dtype, shape, [], [0, 0, LAYOUT_OF[name]]])
            for _, _, segments in regions:
                known[3][0] += sum(chunk[1] for segment in segments for chunk in segment[5])
                known[3][1] += len(segments)
    first, at, records = parts[0].content, 0, []
    for part in parts:
        records.append(part.record[:3] + [at] + part.record[4:])
        at += len(padded(part.index, 64))
    return dict(tensors=[[name, tensors[name]] for name in sorted(tensors)], aliases=first["aliases"],
                objects=[[b"config", 0, 3, b"{}", PART_0, []], [b"rng", 1, 3, b"", BOTH, []]], attrs=first["attrs"],
                parts=records, layouts=copy.deepcopy(LAYOUTS), copies=[part.index for part in parts])


def manifest_of(content, **changes):
    parts = content["parts"]
    objects = sum(content["layouts"][row[4]][2] for row in content["objects"])
    summary = dict(base_summary(), part_count=len(parts), tensor_count=len(content["tensors"]), world_size=len(parts),
                   object_count=objects, part_bytes=sum(part[0] for part in parts))
    summary.update(changes)
    copies = b"".join(padded(copy, 64) for copy in content["copies"])
    return manifest_bytes(index_bytes(summary, content), summary_bytes(summary), copies=copies)


PARTS = compose()
CONTENT = merge(PARTS)
MANIFEST = manifest_of(CONTENT)


def write_checkpoint(folder, manifest=MANIFEST, parts=PARTS):
    os.makedirs(folder, exist_ok=True)
    for name, data in [("MANIFEST", manifest)] + [(f"PART_{part.rank:03d}", part.data) for part in parts]:
        with open(os.path.join(folder, name), "wb") as out:
            out.write(data)
    return folder
