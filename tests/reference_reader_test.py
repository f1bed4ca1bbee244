"""The reference reader reads a checkpoint composed here by hand, and notices every changed byte and broken rule."""
import copy
import io
import itertools
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout

import flatbuffers

import reference_elements as elements
import reference_grammar as grammar
import reference_reader as reader
from reference_elements import digest_of

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMA = os.path.join(HERE, "..", "schemas", "ckpt.fbs")
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


# ---- a writer of indexes: high-level rows in, one FlatBuffer out ----

class Columns:
    def __init__(self):
        self.names, self.numbers, self.inline = bytearray(), [], bytearray()
        columns = "parts tensors segments chunks objects aliases attrs groups"
        self.rows = {name: [] for name in columns.split()}

    def text(self, data):
        offset = len(self.names)
        self.names += data + b"\n"
        return offset, len(data)

    def number_list(self, values):
        self.numbers += values
        return len(self.numbers) - len(values)

    def chunk_list(self, chunks):
        first = len(self.rows["chunks"])
        self.rows["chunks"] += [struct.pack("<QII16s", *chunk) for chunk in chunks]
        return first, len(chunks)

    def add(self, content):
        """Rows in the order that FORMAT §4 wants: segments own the first chunks, then objects, then groups."""
        for name, (dtype, shape, segments) in content["tensors"]:
            first = len(self.rows["segments"])
            for part, kind, codec, kind_of_filter, width, numbers, chunks in segments:
                self.rows["segments"].append(struct.pack("<IBBBBQQQ", part, kind, codec, kind_of_filter, width,
                                                         self.number_list(numbers), *self.chunk_list(chunks)))
            self.rows["tensors"].append(struct.pack("<IIHHIQQQ", *self.text(name), dtype, len(shape), 0,
                                                    self.number_list(shape), first, len(segments)))
        for name, scope, placement, rank, data, part, chunks in content["objects"]:
            inline = len(self.inline)
            self.inline += data if placement == 0 else b""
            self.rows["objects"].append(struct.pack(
                "<IIIIBBHIQQ16sIIQQ", *self.text(name), *self.text(b"text/plain"), scope, placement, 0, rank, len(data),
                inline, digest_of(data), part, 0, *self.chunk_list(chunks)))
        for name, target, view in content["aliases"]:
            self.rows["aliases"].append(struct.pack(
                "<IIIIBBHIQ", *self.text(name), *self.text(target), view is not None, 0, len(view or ()) // 2, 0,
                self.number_list(view or ())))
        for owner, key, value in content["attrs"]:
            self.rows["attrs"].append(struct.pack("<6I", *self.text(owner), *self.text(key), *self.text(value)))
        for group, index, count, data, entries, chunk in content.get("groups", ()):
            self.rows["groups"].append(struct.pack("<QII16sQQ", group, index, count, digest_of(data), entries,
                                                   self.chunk_list([chunk])[0]))
        self.rows["parts"] = [struct.pack("<Q16s16sIBBH", *part) for part in content.get("parts", ())]
        return self


def put_summary(builder, summary):
    strings = {key: builder.CreateString(summary[key]) for key in ("run", "label", "writer")}
    builder.StartObject(19)
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


def index_bytes(summary, content):
    columns, builder, offsets = Columns().add(content), flatbuffers.Builder(), {}

    def vector(slot, rows, size, align):
        builder.StartVector(size, len(rows), align)
        data = b"".join(rows)
        builder.head -= len(data)
        builder.Bytes[builder.head:builder.head + len(data)] = data
        offsets[slot] = builder.EndVector()
    for slot, name, size in ((3, "parts", 48), (4, "tensors", 40), (5, "segments", 32), (6, "chunks", 32),
                             (7, "objects", 80), (9, "aliases", 32), (10, "attrs", 24), (11, "groups", 48)):
        vector(slot, columns.rows[name], size, 4 if name == "attrs" else 8)
    vector(2, [struct.pack("<Q", number) for number in columns.numbers], 8, 8)
    offsets[8] = builder.CreateByteVector(bytes(columns.inline))
    offsets[1] = builder.CreateString(bytes(columns.names))
    offsets[0] = put_summary(builder, summary)
    builder.StartObject(17)
    for slot, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    builder.Finish(builder.EndObject(), b"CKPI")
    return bytes(builder.Output())


def manifest_bytes(index, summary, kind=1, revision=0):
    trailer = struct.pack("<QQ16s16sII8s", len(index), len(summary), digest_of(index), digest_of(summary),
                          kind, revision, b"CKPTMANI")
    return padded(index, 8) + padded(summary, 8) + trailer + struct.pack("<Q", xxh64(trailer))


def base_summary():
    label, attempt = "step-10", 3
    save_id = digest_of(SESSION + label.encode() + b"\0" + struct.pack("<Q", attempt))
    return dict(revision=0, required_features=0, store_id=STORE, session_id=SESSION, save_id=save_id,
                run="run", label=label, token=5, attempt=attempt, sequence=9, step=10, world_size=2,
                writer="by hand", created_unix_ms=1)


# ---- a checkpoint of two ranks ----

class PartWriter:
    def __init__(self, rank, summary):
        self.rank, self.summary = rank, summary
        header = struct.pack("<8sII16sII16sQQ", b"CKPTPART", 0, 4096, summary["save_id"], rank, 2, STORE, 5, 3)
        self.data = bytearray(padded(header + struct.pack("<Q", xxh64(header)), 4096))

    def store(self, raw, encoded=None):
        stored = encoded if encoded is not None and len(encoded) < len(raw) else raw
        self.data += bytes(-len(self.data) % 16)
        chunk = (len(self.data), len(stored), len(raw), digest_of(stored))
        self.data += stored
        return chunk

    def segment(self, kind, numbers, raw, codec=0, kind_of_filter=0, width=0, chunk_bytes=1 << 20):
        undo = {0: lambda data, _: data, 1: shuffle, 2: planes}[kind_of_filter]
        pieces = [raw[at:at + chunk_bytes] for at in range(0, len(raw), chunk_bytes)]
        chunks = [self.store(piece, lz4_compress(undo(piece, width)) if codec else None) for piece in pieces]
        return self.rank, kind, codec, kind_of_filter, width, list(numbers), chunks

    def finish(self, content):
        summary = self.summary if self.rank == 0 else dict(self.summary, created_unix_ms=0)
        index, begin = index_bytes(summary, content), len(padded(self.data, 64))
        trailer = struct.pack("<QQ16s16s8s", begin, len(index), digest_of(index), self.summary["save_id"], b"CKPTTAIL")
        body = padded(padded(self.data, 64) + index + bytes(64), 4096)[:-64]
        self.data = body + trailer + struct.pack("<Q", xxh64(trailer))
        self.record = len(self.data), digest_of(index), self.summary["save_id"], self.rank, 0, 0, 0
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
            (b"a/box", (F32, (4, 6), [part.segment(0, (0, 3 * rank, 4, 3), box_piece(rank), 1, 1, 4)])),
            (b"c/planes", (BF16, (1003,), [part.segment(1, ((0, 512), (512, 491))[rank], PLANES[1024 * rank:][:1024],
                                                        1, 2, 2, chunk_bytes=600)])),
            (b"empty", (F32, (0, 3), [])),
            (b"nibbles", (U4, (3, 4), [part.segment(0, (0, 2 * rank, 3, 2), NIBBLES[rank::2])]))]
        if rank == 0:
            tensors.append((b"scalar", (F64, (), [part.segment(0, (), SCALAR)])))
        else:
            tensors.append((b"sixes", (F6, (5,), [part.segment(1, (0, 5), SIXES)])))
        objects = [(b"config", 0, 2 if rank else 0, 0, b"{}", rank, []),
                   (b"rng", 1, rank, rank, BIG_OBJECT if rank else b"", rank, [part.store(BIG_OBJECT)] if rank else [])]
        aliases = [(b"a/tied", b"a/box", None), (b"a/transposed", b"a/box", (0, 6, 4, 1, 6)),
                   (b"odd", b"sixes", (1, 2, 2))]
        attrs = [(b"a/box", b"layout", b"columns")]
        attrs = attrs if rank else [(b"", b"framework", b"none\nat all")] + attrs
        content = dict(tensors=tensors, objects=objects, aliases=aliases, attrs=attrs,
                       groups=[(7, rank, 2, declared, 1, part.store(declared))])
        part.content = copy.deepcopy(content)
        if change:
            change(rank, content)
        out.append(part.finish(content))
    return out


def merge(parts):
    tensors, objects = {}, []
    for part in parts:
        for name, (dtype, shape, segments) in part.content["tensors"]:
            tensors.setdefault(name, (dtype, shape, []))[2].extend(segments)
        objects += [item for item in part.content["objects"] if item[2] != 2]
    return dict(tensors=sorted(tensors.items()), objects=sorted(objects), aliases=parts[0].content["aliases"],
                attrs=parts[0].content["attrs"], parts=[part.record for part in parts])


def manifest_of(content, **changes):
    summary = dict(base_summary(), part_count=len(content["parts"]), tensor_count=len(content["tensors"]),
                   object_count=len(content["objects"]), part_bytes=sum(part[0] for part in content["parts"]))
    summary.update(changes)
    return manifest_bytes(index_bytes(summary, content), summary_bytes(summary))


PARTS = compose()
CONTENT = merge(PARTS)
MANIFEST = manifest_of(CONTENT)


def write_checkpoint(folder, manifest=MANIFEST, parts=PARTS):
    os.makedirs(folder, exist_ok=True)
    for name, data in [("MANIFEST", manifest)] + [(f"PART_{part.rank:03d}", part.data) for part in parts]:
        with open(os.path.join(folder, name), "wb") as out:
            out.write(data)
    return folder


class Folder(unittest.TestCase):
    def setUp(self):
        self.store = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.store)
        self.folder = write_checkpoint(os.path.join(self.store, "step-10.5.3"))


class ReadsWhatWasComposed(Folder):
    def test_tensors_aliases_objects_and_attributes_come_back(self):
        got = reader.read_checkpoint(self.folder)
        transposed = b"".join(BOX[4 * column:][k:k + 4] for column in range(6) for k in range(0, 96, 24))
        expected = {"a/box": BOX, "c/planes": PLANES, "empty": b"", "nibbles": NIBBLES, "scalar": SCALAR,
                    "sixes": SIXES, "a/tied": BOX, "a/transposed": transposed,
                    "odd": (2 | 60 << 6).to_bytes(2, "little")}
        self.assertEqual({name: got.tensor(name) for name in expected}, expected)
        self.assertEqual([got.object("config"), got.object("rng", 0), got.object("rng", 1)], [b"{}", b"", BIG_OBJECT])
        self.assertEqual(got.attrs(), {"framework": "none\nat all"})
        self.assertEqual(got.attrs(b"a/box"), {"layout": "columns"})
        dump = got.dump()
        self.assertEqual(dump["tensors"]["sixes"]["dtype"], "f6_e2m3fn")
        self.assertEqual(dump["aliases"]["a/transposed"]["shape"], [6, 4])
        self.assertEqual(dump["identity"]["session_id"], SESSION.hex())

    def test_compressed_and_filtered_chunks_are_among_them(self):
        segments = [segment for _, (_, _, found) in CONTENT["tensors"] for segment in found]
        packed = {(s[2], s[3]) for s in segments if any(chunk[1] < chunk[2] for chunk in s[6])}
        self.assertTrue({(1, 1), (1, 2)} <= packed, packed)

    def test_check_all_tells_damaged_from_whole(self):
        os.mkdir(os.path.join(self.store, ".ckpt"))
        os.mkdir(os.path.join(self.store, "open"))
        bad = write_checkpoint(os.path.join(self.store, "bad"))
        os.remove(os.path.join(bad, "PART_001"))
        with redirect_stdout(io.StringIO()) as out:
            self.assertEqual(reader.check_all(self.store), 1)
        self.assertEqual([line.split()[0] for line in out.getvalue().splitlines()], ["CorruptError", "not", "ok"])

    def test_the_command_prints_json_and_writes_tensors(self):
        command = [sys.executable, "-B", os.path.join(HERE, "reference_reader.py"), self.folder]
        dump = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        self.assertEqual(dump, json.loads(json.dumps(reader.read_checkpoint(self.folder).dump())))
        out = os.path.join(self.store, "out")
        subprocess.run(command + ["--tensor", "a/tied", "--out", out], check=True)
        with open(out, "rb") as written:
            self.assertEqual(written.read(), BOX)
        os.remove(os.path.join(self.folder, "PART_001"))
        self.assertIn(b"PART_001", subprocess.run(command, capture_output=True).stderr)

    def test_tombstone_and_missing_manifest_are_not_committed(self):
        builder = flatbuffers.Builder()
        reason = builder.CreateString("rank 1 died")
        builder.StartObject(5)
        builder.PrependUOffsetTRelativeSlot(3, reason, 0)
        builder.Finish(builder.EndObject(), b"CKPX")
        write_checkpoint(self.folder, manifest_bytes(bytes(builder.Output()), b"", kind=2))
        with self.assertRaisesRegex(reader.NotCommittedError, "rank 1 died"):
            reader.read_checkpoint(self.folder)
        os.remove(os.path.join(self.folder, "MANIFEST"))
        with self.assertRaises(reader.NotCommittedError):
            reader.read_checkpoint(self.folder)

    def test_links_are_not_followed(self):
        path = os.path.join(self.folder, "PART_000")
        os.rename(path, path + ".moved")
        os.symlink(path + ".moved", path)
        with self.assertRaises(reader.CorruptError):
            reader.read_checkpoint(self.folder)

    @unittest.skipUnless(shutil.which("flatc"), "flatc is not installed")
    def test_flatc_prints_the_index_of_a_manifest(self):
        subprocess.run(["flatc", "--json", "--raw-binary", SCHEMA, "--", "MANIFEST"], check=True, cwd=self.folder)
        with open(os.path.join(self.folder, "MANIFEST.json"), encoding="utf-8") as text:
            self.assertIn('"step-10"', text.read())


class NoticesEveryChangedByte(Folder):
    def test_in_the_manifest(self):
        for at in range(len(MANIFEST)):
            data = bytearray(MANIFEST)
            data[at] ^= 1 << at % 8
            with self.assertRaises(reader.CheckpointError, msg=f"byte {at}"):
                reader.Manifest(bytes(data))

    def test_in_a_part(self):
        manifest, data = reader.Manifest(MANIFEST), bytearray(PARTS[1].data)
        record = manifest.index.parts[1]
        for at in range(len(data)):
            data[at] ^= 1 << at % 8
            with self.assertRaises(reader.CheckpointError, msg=f"byte {at}"):
                reader.Part(bytes(data), record, manifest.summary, "PART_001").verify(manifest)
            data[at] ^= 1 << at % 8

    def test_a_cut_or_lengthened_file(self):
        for name, data in (("MANIFEST", MANIFEST), ("PART_000", PARTS[0].data)):
            for changed in (b"", data[:-1], data[:len(data) // 2], data + bytes(1), data + bytes(4096)):
                with open(os.path.join(self.folder, name), "wb") as out:
                    out.write(changed)
                with self.assertRaises((reader.CorruptError, reader.FormatError)):
                    reader.read_checkpoint(self.folder)
            write_checkpoint(self.folder)

    def test_parts_of_two_ranks_swapped(self):
        write_checkpoint(self.folder)
        a, b = (os.path.join(self.folder, f"PART_00{i}") for i in (0, 1))
        os.rename(a, a + "x"), os.rename(b, a), os.rename(a + "x", b)
        with self.assertRaises(reader.CorruptError):
            reader.read_checkpoint(self.folder)


def edit_segment(content, name, field, value):
    for found, (_, _, segments) in content["tensors"]:
        if found == name:
            segments[0] = segments[0][:field] + (value,) + segments[0][field + 1:]


def edit_row(content, column, at, field, value):
    content[column][at] = content[column][at][:field] + (value,) + content[column][at][field + 1:]


BROKEN = {
    "tensors out of order": ("out of order", lambda c: c["tensors"].reverse()),
    "the same tensor twice": ("there twice", lambda c: c["tensors"].append(c["tensors"][-1])),
    "boxes overlap": ("overlap", lambda c: edit_segment(c, b"a/box", 5, [0, 1, 4, 3])),
    "chunks of more bytes than their segment": ("bytes in all", lambda c: edit_segment(c, b"c/planes", 5, [0, 511])),
    "box beyond the tensor": ("box ", lambda c: edit_segment(c, b"a/box", 5, [1, 0, 4, 3])),
    "box wraps around 2^64": ("box ", lambda c: edit_segment(c, b"a/box", 5, [2**64 - 1, 0, 4, 3])),
    "a hole": ("cover 12 of 24", lambda c: c["tensors"][0][1][2].pop()),
    "nibble box at half a byte": ("whole bytes", lambda c: edit_segment(c, b"nibbles", 5, [0, 1, 3, 2])),
    "unknown codec": ("unknown", lambda c: edit_segment(c, b"a/box", 2, 2)),
    "unknown filter": ("unknown", lambda c: edit_segment(c, b"a/box", 3, 3)),
    "filter of width 3": ("width 3", lambda c: edit_segment(c, b"a/box", 4, 3)),
    "segment of no part": ("part 2 of 2", lambda c: edit_segment(c, b"a/box", 0, 2)),
    "segments not in order of parts": ("ordered by part", lambda c: c["tensors"][0][1][2].reverse()),
    "segment without chunks": ("0 bytes in all", lambda c: edit_segment(c, b"a/box", 6, [])),
    "chunk in the header": ("chunk at 4088", lambda c: edit_segment(c, b"scalar", 6, [(4088, 8, 8, bytes(16))])),
    "chunk beyond the part": ("limit", lambda c: edit_segment(c, b"scalar", 6, [(1 << 40, 8, 8, bytes(16))])),
    "chunks overlap": ("are taken", lambda c: edit_segment(c, b"scalar", 6, [(4096, 8, 8, bytes(16))])),
    "chunks of unequal raw size": ("unequal", lambda c: edit_segment(
        c, b"scalar", 6, [(8000, 3, 3, bytes(16)), (8003, 5, 5, bytes(16))])),
    "codec 0 with a compressed chunk": ("7 stored", lambda c: edit_segment(c, b"scalar", 6, [(8000, 7, 8, bytes(16))])),
    "objects out of order": ("out of order", lambda c: c["objects"].reverse()),
    "object in two scopes": ("two scopes", lambda c: edit_row(c, "objects", 2, 1, 0)),
    "placement 2 in MANIFEST": ("declared only", lambda c: edit_row(c, "objects", 0, 2, 2)),
    "shared object of rank 1": ("of rank", lambda c: edit_row(c, "objects", 0, 3, 1)),
    "object of another part's rank": ("is of rank 1", lambda c: edit_row(c, "objects", 1, 5, 1)),
    "alias named like a tensor": ("has that name", lambda c: edit_row(c, "aliases", 0, 0, b"a/box")),
    "alias of nothing": ("no tensor", lambda c: edit_row(c, "aliases", 0, 1, b"none")),
    "view beyond its tensor": ("element 24", lambda c: edit_row(c, "aliases", 1, 2, (1, 6, 4, 1, 6))),
    "attribute of nothing": ("no such owner", lambda c: edit_row(c, "attrs", 1, 0, b"none")),
    "the same attribute twice": ("there twice", lambda c: c["attrs"].append(c["attrs"][-1])),
    "empty attribute key": ("key of 0", lambda c: edit_row(c, "attrs", 0, 1, b"")),
    "name with '..'": ("path element", lambda c: c["tensors"].insert(0, (b"../x", (F32, (0,), [])))),
    "name with a line feed": ("control", lambda c: c["tensors"].append((b"x\ny", (F32, (0,), [])))),
    "name not UTF-8": ("UTF-8", lambda c: c["tensors"].append((b"x\xff", (F32, (0,), [])))),
    "17 dimensions": ("17 dim", lambda c: c["tensors"].append((b"x", (F32, (0,) * 17, [])))),
    "elements of 0 bits": ("0 bits", lambda c: c["tensors"].append((b"x", (0x200, (0,), [])))),
    "tensor of 2^63 bytes": ("larger", lambda c: c["tensors"].append((b"x", (U8, (1 << 63,), [])))),
    "a part of another save": ("another save", lambda c: edit_row(c, "parts", 1, 2, SESSION)),
    "part size not of whole pages": ("part size", lambda c: edit_row(c, "parts", 1, 0, 8193)),
    "two parts of one rank": ("parts of ranks", lambda c: edit_row(c, "parts", 1, 3, 0)),
    "groups in MANIFEST": ("belong to a part", lambda c: c.update(groups=PARTS[0].content["groups"])),
}




BROKEN_PARTS = {
    "segment of another part": ("expected this part's rank", lambda r, c: edit_segment(c, b"nibbles", 0, 1 - r)),
    "a part's index with parts": ("has no parts", lambda r, c: c.update(parts=[PARTS[0].record])),
    "group of one member": ("member 0 of 1", lambda r, c: edit_row(c, "groups", 0, 2, 1)),
    "group with a member missing": ("members missing", lambda r, c: edit_row(c, "groups", 0, 1, 0)),
    "group of too many entries": ("ends early", lambda r, c: edit_row(c, "groups", 0, 4, 2)),
    "group of too few entries": ("entries of 0", lambda r, c: edit_row(c, "groups", 0, 4, 0)),
    "group digest of other bytes": ("digest of the list", lambda r, c: edit_row(c, "groups", 0, 3, b"other")),
    "declared object of other bytes": ("differs from rank 0", lambda r, c: r and edit_row(c, "objects", 0, 4, b"[]")),
    "alias that differs": ("differs between", lambda r, c: r and edit_row(c, "aliases", 0, 1, b"scalar")),
    "attribute that differs": ("differs between", lambda r, c: r and edit_row(c, "attrs", 0, 2, b"rows")),
    "shape that differs": ("dtype or shape", lambda r, c: r and edit_row(c, "tensors", 2, 1, (F32, (3, 0), []))),
    "chunk over the index": ("limit", lambda r, c: r == 0 and edit_segment(c, b"scalar", 6, [(8000, 8, 8, bytes(16))])),
}


class RefusesBrokenRules(unittest.TestCase):
    def test_of_the_manifest(self):
        reader.Manifest(manifest_of(copy.deepcopy(CONTENT)))
        for name, (message, change) in BROKEN.items():
            content = copy.deepcopy(CONTENT)
            change(content)
            error = reader.UnsupportedError if message == "unknown" else reader.FormatError
            with self.subTest(name), self.assertRaisesRegex(error, message):
                reader.Manifest(manifest_of(content))

    def test_of_the_summary(self):
        for field, value in dict(part_count=1, tensor_count=0, object_count=9, part_bytes=1, save_id=STORE, label=".x",
                                 run="a/b", revision=1, world_size=1).items():
            with self.subTest(field), self.assertRaises(reader.FormatError):
                reader.Manifest(manifest_of(CONTENT, **{field: value}))
        index, summary = index_bytes(base_summary(), CONTENT), summary_bytes(dict(base_summary(), step=11))
        with self.assertRaisesRegex(reader.FormatError, "summaries"):
            reader.Manifest(manifest_bytes(index, summary))

    def test_of_newer_revisions_features_and_reserved_parts(self):
        with self.assertRaises(reader.RevisionError):
            reader.Manifest(manifest_bytes(b"not even a FlatBuffer", b"", revision=1))
        with self.assertRaises(reader.RevisionError):
            reader.Manifest(manifest_of(CONTENT, required_features=4))
        content = copy.deepcopy(CONTENT)
        edit_row(content, "parts", 1, 4, 1)
        with self.assertRaises(reader.UnsupportedError):
            reader.Manifest(manifest_of(content))

    def test_that_the_manifest_says_what_the_parts_say(self):
        changes = {"attrs": lambda c: edit_row(c, "attrs", 1, 2, b"rows"), "aliases": lambda c: c["aliases"].pop(),
                   "tensors": lambda c: edit_segment(c, b"c/planes", 3, 1),
                   "objects": lambda c: edit_row(c, "objects", 0, 4, b"[]")}
        with tempfile.TemporaryDirectory() as folder:
            for column, change in changes.items():
                content = copy.deepcopy(CONTENT)
                change(content)
                write_checkpoint(folder, manifest_of(content))
                with self.subTest(column), self.assertRaisesRegex(reader.FormatError, f"MANIFEST.{column}"):
                    reader.read_checkpoint(folder)
            write_checkpoint(folder, manifest_of(CONTENT, writer="another"))
            with self.assertRaisesRegex(reader.FormatError, "writer"):
                reader.read_checkpoint(folder)

    def test_of_the_parts(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, (message, change) in BROKEN_PARTS.items():
                parts = compose(change)
                write_checkpoint(folder, manifest_of(merge(parts)), parts)
                with self.subTest(name), self.assertRaisesRegex(reader.CheckpointError, message):
                    reader.read_checkpoint(folder)

    def test_of_flatbuffers_whatever_the_bytes(self):
        rng, index, summary = random.Random(7), index_bytes(base_summary(), CONTENT), summary_bytes(base_summary())
        for _ in range(1500):
            data = bytearray(index)
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255))
            try:
                reader.Manifest(manifest_bytes(bytes(data), summary))
            except reader.CheckpointError:
                pass


class Pieces(unittest.TestCase):
    def test_the_grammar_tables_are_those_of_ckpt_fbs(self):
        with open(SCHEMA, encoding="utf-8") as text:
            schema = re.sub(r"//.*", "", text.read())
        short = {"uint8": "u8", "ubyte": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "int32": "i32",
                 "int64": "i64", "Digest": "id", "Summary": "table", "[uint64]": "[u64]", "[ubyte]": "[u8]"}
        tables = dict(SUMMARY=grammar.SUMMARY, INDEX=grammar.INDEX, TOMBSTONE=grammar.TOMBSTONE)
        seen = set()
        for name, body in re.findall(r"(?:struct|table) (\w+) \{(.*?)\}", schema, re.S):
            fields = [(f, short.get(k, k) + (f"={d}" if d else ""))
                      for f, k, d in re.findall(r"(\w+):([\w\[\]]+)(?: = (-?\d+))?[^;]*;", body)]
            if name in ("Digest", "Text"):
                continue
            seen.add(name)
            ours = grammar.STRUCTS.get(name) or tables[name.upper()]
            self.assertEqual([tuple(field.split(":")) for field in ours.split()], fields, name)
        self.assertEqual(seen | {"Digest"}, set(grammar.STRUCTS) | {"Summary", "Index", "Tombstone"})
        for name, layout in grammar.LAYOUTS.items():
            at = 0
            for _, kind in layout.fields:
                size = {"id": 16, "Text": 8}.get(kind) or struct.calcsize(grammar.SCALARS[kind])
                self.assertEqual(at % {"id": 8, "Text": 4}.get(kind, size), 0, name)
                at += size
            self.assertEqual(at % layout.align, 0, name)

    def test_filters_and_lz4_are_undone(self):
        rng = random.Random(3)
        for size, width in itertools.product((1, 7, 8, 63, 64, 65, 1000), (1, 2, 4, 8)):
            data = bytes(rng.choices(b"abc", k=size))
            self.assertEqual(elements.unshuffle(shuffle(data, width), width), data)
            self.assertEqual(elements.unplane(planes(data, width), width), data)
            self.assertEqual(elements.lz4_block(lz4_compress(data), size), data)
        self.assertEqual(elements.unshuffle(b"\0\2\4\1\3\5\6", 2), bytes(range(7)))
        self.assertEqual(elements.unplane(bytes([0, 0, 1] + [0] * 4 + [128]), 1), bytes([4, 0, 0, 0, 0, 0, 0, 128]))

    def test_broken_lz4_blocks_are_refused(self):
        for block, size in ((b"", 0), (b"\x10", 1), (b"\x20a", 2), (b"\x10a\x02\x00", 5), (b"\x10a\x00\x00\x00", 5),
                            (b"\x10a\x01\x00", 5), (b"\x10a\x01", 5), (b"\x10a", 2), (b"\xf0\xff", 300),
                            (b"\x1fa\x01\x00\xff", 99)):
            with self.subTest(block), self.assertRaises(reader.FormatError):
                elements.lz4_block(block, size)

    def test_flat_ranges_become_the_boxes_that_hold_the_same_elements(self):
        for shape in ((), (7,), (3, 4), (2, 3, 4), (2, 1, 3, 2)):
            total = elements.prod(shape)
            for start in range(total):
                for stop in range(start + 1, total + 1):
                    boxes = elements.flat_as_boxes(start, stop, shape)
                    self.assertTrue(elements.disjoint(boxes))
                    found = [first + k for offset, extent in boxes
                                for first, count in elements.box_runs(offset, extent, shape) for k in range(count)]
                    self.assertEqual(found, list(range(start, stop)))


if __name__ == "__main__":
    unittest.main()
