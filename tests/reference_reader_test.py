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
import types
import unittest
import unittest.mock
from contextlib import redirect_stdout

import flatbuffers

import reference_elements as elements
import reference_grammar as grammar
import reference_index
import reference_reader as reader
from reference_elements import digest_of
from reference_writer import (BF16, BIG_OBJECT, BOTH, BOX, COLUMNS, CONTENT, F32, MANIFEST, NIBBLES, NONE, PART_0,
                              PART_1, PARTS, PLANES, SCALAR, SESSION, SIXES, STORE, U8, PartWriter, base_summary,
                              box_piece, compose, group_list, index_bytes, lz4_compress, manifest_bytes, manifest_of,
                              merge, padded, paged, planes, shuffle, summary_bytes, write_checkpoint, xxh64)

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMA = os.path.join(HERE, "..", "schemas", "ckpt.fbs")


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
        segments = [segment for part in PARTS for _, (_, _, regions) in part.content["tensors"]
                    for _, _, found in regions for segment in found]
        packed = {(s[2], s[3]) for s in segments if any(chunk[1] < chunk[2] for chunk in s[5])}
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
        stone = bytes(builder.Output())
        write_checkpoint(self.folder, manifest_bytes((stone, 0), b"", kind=2))
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
    def test_flatc_prints_the_root_of_a_manifest(self):
        index, root_size = index_bytes(base_summary(), CONTENT)
        with open(os.path.join(self.folder, "ROOT"), "wb") as out:
            out.write(index[-root_size:])
        subprocess.run(["flatc", "--json", "--raw-binary", SCHEMA, "--", "ROOT"], check=True, cwd=self.folder)
        with open(os.path.join(self.folder, "ROOT.json"), encoding="utf-8") as text:
            self.assertIn('"step-10"', text.read())


class ReadsManyPages(unittest.TestCase):
    def checkpoint(self, ranks, tensors):
        """Each rank has an object, and rank 0 tensors without elements and with long names."""
        summary, parts = dict(base_summary(), world_size=ranks), []
        tensors = [[b"%03d" % i + b"x" * 4000, (F32, (0,), [])] for i in range(tensors)]
        objects = [[b"rng", 1, 0, b"abc", 0, []]]
        for rank in range(ranks):
            content = dict(tensors=tensors * (rank == 0), objects=objects, aliases=[], attrs=[])
            parts.append(PartWriter(rank, summary).finish(content))
        copied = sum(len(padded(part.index, 64)) for part in parts) <= 1 << 20
        at, records = 0, []
        for part in parts:
            records.append(part.record[:3] + [at * copied] + part.record[4:])
            at += len(padded(part.index, 64))
        layouts = [[0, [], 0, []]] * bool(tensors) + [[0, [], ranks, [(0, ranks, 1 if ranks > 1 else 0)]]]
        content = dict(tensors=[[name, [*rest, [0, 0, 0]]] for name, rest in tensors], aliases=[], attrs=[],
                       objects=[[b"rng", 1, 3, b"", len(layouts) - 1, []]], parts=records, layouts=layouts,
                       copies=[part.index for part in parts] * copied)
        return manifest_of(content), parts

    def test_of_names(self):
        manifest, parts = self.checkpoint(1, 300)
        with tempfile.TemporaryDirectory() as folder:
            got = reader.read_checkpoint(write_checkpoint(folder, manifest, parts))
        self.assertEqual((len(got.tensors), got.manifest.copies), (300, []))
        self.assertEqual({len(got.parts[0].index.pages), len(got.index.pages)}, {19})

    def test_of_parts(self):
        manifest, parts = self.checkpoint(513, 0)
        with tempfile.TemporaryDirectory() as folder:
            got = reader.read_checkpoint(write_checkpoint(folder, manifest, parts))
            self.assertEqual(got.object("rng", 512), b"abc")
        self.assertEqual((len(got.index.part_pages), len(got.manifest.copies)), (2, 513))


class NoticesEveryChangedByte(Folder):
    def test_in_the_manifest(self):
        for at in range(len(MANIFEST)):
            data = bytearray(MANIFEST)
            data[at] ^= 1 << at % 8
            with self.assertRaises(reader.CheckpointError, msg=f"byte {at}"):
                reader.Manifest(bytes(data))

    def test_in_a_part(self):
        manifest, data = reader.Manifest(MANIFEST), bytearray(PARTS[1].data)
        record = manifest.parts[1]
        for at in range(len(data)):
            data[at] ^= 1 << at % 8
            with self.assertRaises(reader.CheckpointError, msg=f"byte {at}"):
                reader.Part(bytes(data), record, manifest.summary, "PART_001").verify()
            data[at] ^= 1 << at % 8

    def test_in_a_header_or_trailer_with_a_right_checksum(self):
        manifest, sound = reader.Manifest(MANIFEST), PARTS[1].data
        begin = len(sound) - 72
        corrupt, broken, other = reader.CorruptError, reader.FormatError, reader.RevisionError
        for start, size, fields in ((0, 72, {0: broken, 8: other, 12: broken, 16: corrupt, 32: corrupt, 36: broken,
                                             40: broken, 56: broken, 64: broken}),
                                    (begin, 64, {**dict.fromkeys((0, 8, 16, 24, 40), corrupt), 56: broken})):
            for field, error in fields.items():
                data = bytearray(sound)
                data[start + field] ^= 2
                data[start + size:start + size + 8] = struct.pack("<Q", xxh64(bytes(data[start:start + size])))
                with self.subTest((start, field)), self.assertRaises(error):
                    reader.Part(bytes(data), manifest.parts[1], manifest.summary, "PART_001")
        for field in (0, 8, 16, 24, 64):
            data = bytearray(MANIFEST)
            data[field - 88] ^= 2
            with self.subTest(field), self.assertRaises(reader.FormatError):
                reader.Manifest(bytes(data[:-8]) + struct.pack("<Q", xxh64(bytes(data[-88:-8]))))

    def test_in_the_unused_bits_of_a_tensor(self):
        with unittest.mock.patch("reference_writer.SIXES", SIXES[:3] + b"\xff"):
            parts = compose()
        got = reader.read_checkpoint(write_checkpoint(self.folder, manifest_of(merge(parts)), parts))
        with self.assertRaisesRegex(reader.FormatError, "unused bits"):
            got.tensor("sixes")

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


def row_of(content, name):
    """(dtype, shape, regions) of a tensor, in a list that may be changed."""
    row = next(row for row in content["tensors"] if row[0] == name)
    row[1] = list(row[1])
    return row[1]


def edit_region(content, name, field, value):
    if any(row[0] == name for row in content["tensors"]):
        row_of(content, name)[2][0][field] = value


def edit_segment(content, name, field, value):
    if any(row[0] == name for row in content["tensors"]):
        row_of(content, name)[2][0][2][0][field] = value


def edit_row(content, column, at, field, value):
    content[column][at][field] = value


def edit_page(which, field, value):
    return lambda c: c.update(refs=lambda *refs: refs[which][0].__setitem__(field, value))


def edit_layout(at, field, value):
    return lambda c: edit_row(c, "layouts", at, field, value)


def new_tensor(name, dtype, shape):
    return lambda c: c["tensors"].append([name, (dtype, shape, [], [0, 0, NONE])])


BROKEN = {
    "tensors out of order": ("out of order", lambda c: c["tensors"].reverse()),
    "the same tensor twice": ("there twice", lambda c: c["tensors"].append(c["tensors"][-1])),
    "objects out of order": ("out of order", lambda c: c["objects"].reverse()),
    "inline object": ("placement 0", lambda c: edit_row(c, "objects", 0, 2, 0)),
    "shared object of part 1": ("layout", lambda c: edit_row(c, "objects", 0, 4, PART_1)),
    "object of a grid": ("layout", lambda c: edit_row(c, "objects", 0, 4, COLUMNS)),
    "object of no part": ("layout", lambda c: edit_row(c, "objects", 1, 4, NONE)),
    "tensor with regions": ("belong to parts", lambda c: edit_row(
        c, "tensors", 0, 1, PARTS[0].content["tensors"][0][1] + ([0, 0, 0],))),
    "tensor without holding": ("5 holdings", lambda c: row_of(c, b"a/box").pop()),
    "holding of no layout": ("layout 5 of 5", lambda c: row_of(c, b"a/box")[3].__setitem__(2, 5)),
    "elements held by nobody": ("0 parts hold", lambda c: row_of(c, b"a/box")[3].__setitem__(2, NONE)),
    "no elements held by somebody": ("1 parts hold", lambda c: row_of(c, b"empty")[3].__setitem__(2, PART_0)),
    "grid of other dimensions": ("with cells", lambda c: row_of(c, b"c/planes")[3].__setitem__(2, COLUMNS)),
    "grid with an empty cell": ("with cells", lambda c: c["layouts"].__setitem__(
        COLUMNS, [1, [3, 1], 1, [(0, 3, 0)]])),
    "grid without dimensions": ("cells", edit_layout(COLUMNS, 1, [])),
    "grid of no cells": ("cells", edit_layout(COLUMNS, 1, [0, 2])),
    "grid of too few parts": ("2 parts", edit_layout(COLUMNS, 2, 2)),
    "list of fewer parts": ("2 parts", edit_layout(BOTH, 2, 1)),
    "list with cells": ("cells", edit_layout(BOTH, 1, [1])),
    "list that descends": ("ascend", edit_layout(BOTH, 3, [(1, 2, -1)])),
    "list with a part twice": ("ascend", edit_layout(BOTH, 3, [(1, 2, 0)])),
    "list of runs that descend": ("ascend", edit_layout(BOTH, 3, [(1, 1, 0), (0, 1, 0)])),
    "layout of kind 3": ("kind 3", edit_layout(BOTH, 0, 3)),
    "object of rows": ("layout", edit_layout(BOTH, 0, 2)),
    "rows of no part": ("rows of no part", edit_layout(NONE, 0, 2)),
    "run beyond the world": ("parts 1 to 2", edit_layout(BOTH, 3, [(1, 2, 1)])),
    "run below 0": ("parts 0 to -1", edit_layout(BOTH, 3, [(0, 2, -1)])),
    "empty run": ("parts 0 to", edit_layout(PART_0, 3, [(0, 0, 1), (0, 1, 0)])),
    "alias named like a tensor": ("has that name", lambda c: edit_row(c, "aliases", 0, 0, b"a/box")),
    "alias of nothing": ("no tensor", lambda c: edit_row(c, "aliases", 0, 1, b"none")),
    "view beyond its tensor": ("element 24", lambda c: edit_row(c, "aliases", 1, 2, (1, 6, 4, 1, 6))),
    "attribute of nothing": ("not there", lambda c: edit_row(c, "attrs", 1, 0, b"none")),
    "the same attribute twice": ("there twice", lambda c: c["attrs"].append(c["attrs"][-1])),
    "empty attribute key": ("name of 0", lambda c: edit_row(c, "attrs", 0, 1, b"")),
    "attribute with NUL": ("with NUL", lambda c: edit_row(c, "attrs", 0, 2, b"a\0")),
    "name with '..'": ("path element", new_tensor(b"../x", F32, (0,))),
    "name with a line feed": ("control", new_tensor(b"x\ny", F32, (0,))),
    "name not UTF-8": ("UTF-8", new_tensor(b"x\xff", F32, (0,))),
    "17 dimensions": ("17 dim", new_tensor(b"x", F32, (0,) * 17)),
    "elements of 0 bits": ("0 bits", new_tensor(b"x", 0x200, (0,))),
    "an extent that no signed number holds": ("extent beyond", new_tensor(b"x", U8, (1 << 63, 0))),
    "a view's extent, too": ("view beyond", lambda c: edit_row(c, "aliases", 1, 2, (0, 1 << 63, 0, 1, 6))),
    "tensor of 2^63 elements": ("larger", new_tensor(b"x", 0x101, (1 << 62, 2))),
    "view of 2^63 bytes": ("larger", lambda c: edit_row(c, "aliases", 1, 2, (0, 1 << 62, 2, 0, 0))),
    "tensor of 2^63 bytes": ("larger", new_tensor(b"x", U8, (1 << 62, 2))),
    "a part of another save": ("another save", lambda c: edit_row(c, "parts", 1, 5, SESSION)),
    "part size not of whole pages": ("size 8193", lambda c: edit_row(c, "parts", 1, 0, 8193)),
    "two parts of one rank": ("is of rank 0", lambda c: edit_row(c, "parts", 1, 7, 0)),
    "index in the header": ("index at 64", lambda c: edit_row(c, "parts", 1, 1, 64)),
    "index beyond the part": ("index at", lambda c: edit_row(c, "parts", 1, 2, 1 << 30)),
    "copy somewhere else": ("copy 1 at 64", lambda c: edit_row(c, "parts", 1, 3, 64)),
    "no copies": ("copies of 0", lambda c: c["copies"].clear()),
    "groups in MANIFEST": ("belong to a part", lambda c: c.update(groups=PARTS[0].content["groups"])),
    "page elsewhere": ("at 64, expected 0", edit_page(0, 0, 64)),
    "page of more names before": ("names, objects before", edit_page(0, 1, 1)),
    "page of more objects before": ("names, objects before", edit_page(0, 2, 1)),
    "first page with a first name": ("first name", edit_page(0, 4, b"a/box")),
    "page of parts with a first name": ("a name before parts", edit_page(1, 4, b"a")),
    "pages that are not full": ("begins too early", lambda c: c.update(full=300)),
    "one name more": ("10 names", lambda c: c.update(more_names=1)),
}

BROKEN_PARTS = {
    "regions overlap": ("overlap", lambda r, c: edit_region(c, b"a/box", 1, [0, 3 - r, 4, 3])),
    "segments overlap": ("expected 512", lambda r, c: r and edit_segment(c, b"c/planes", 0, 511)),
    "a hole": ("cover 12 of 24", lambda r, c: r and c["tensors"].pop(0)),
    "half a region": ("512 of 1003", lambda r, c: r and c["tensors"].pop(1)),
    "box beyond the tensor": ("region ", lambda r, c: edit_region(c, b"a/box", 1, [1, 0, 4, 3])),
    "box wraps around 2^64": ("region ", lambda r, c: edit_region(c, b"a/box", 1, [2**64 - 1, 0, 4, 3])),
    "empty box": ("empty", lambda r, c: edit_region(c, b"a/box", 1, [0, 0, 0, 3])),
    "box of the whole tensor": ("all of it", lambda r, c: edit_region(c, b"a/box", 1, [0, 0, 4, 6])),
    "region of kind 4": ("kind 4", lambda r, c: edit_region(c, b"a/box", 0, 4)),
    "half of the rows": ("12 of 24 elements of rows", lambda r, c: edit_region(c, b"a/box", 0, 3)),
    "regions out of order": ("out of order", lambda r, c: r and row_of(c, b"sixes")[2].reverse()),
    "region without segments": ("without a segment", lambda r, c: edit_region(c, b"a/box", 2, [])),
    "empty segment": ("0.0 of 12", lambda r, c: edit_segment(c, b"a/box", 1, 0)),
    "segment beyond its region": ("0.13 of 12", lambda r, c: edit_segment(c, b"a/box", 1, 13)),
    "segment at half a byte": ("whole bytes", lambda r, c: edit_segment(c, b"nibbles", 0, 1) or edit_segment(
        c, b"nibbles", 1, 5)),
    "chunks of fewer bytes than their segment": ("bytes in all", lambda r, c: edit_segment(c, b"a/box", 1, 11)),
    "nibble box at half a byte": ("whole bytes", lambda r, c: edit_region(c, b"nibbles", 1, [0, 1, 3, 2])),
    "unknown codec": ("unknown", lambda r, c: edit_segment(c, b"a/box", 2, 2)),
    "unknown filter": ("unknown", lambda r, c: edit_segment(c, b"a/box", 3, 3)),
    "filter of width 3": ("width 3", lambda r, c: edit_segment(c, b"a/box", 4, 3)),
    "segment without chunks": ("0 bytes in all", lambda r, c: edit_segment(c, b"a/box", 5, [])),
    "chunk in the header": ("chunk at 4088", lambda r, c: edit_segment(c, b"scalar", 5, [(4088, 8, 8, bytes(16))])),
    "chunk beyond the part": ("limit", lambda r, c: edit_segment(c, b"scalar", 5, [(1 << 40, 8, 8, bytes(16))])),
    "chunks overlap": ("are taken", lambda r, c: edit_segment(c, b"scalar", 5, [(4096, 8, 8, bytes(16))])),
    "chunks of unequal raw size": ("unequal", lambda r, c: edit_segment(
        c, b"scalar", 5, [(8000, 3, 3, bytes(16)), (8003, 5, 5, bytes(16))])),
    "segments that descend": ("expected from 512", lambda r, c: r or row_of(c, b"c/planes")[2][0][2].append(
        [0, 512, 0, 0, 0, [(8000, 1024, 1024, bytes(16))]])),
    "chunk that ends in an element": ("ends in an element", lambda r, c: edit_segment(
        c, b"scalar", 5, [(8000, 4, 4, bytes(16)), (8004, 4, 4, bytes(16))])),
    "page too full": ("bytes of [23][0-9] names", lambda r, c: c.update(full=1 << 20) or c["tensors"].extend(
        [b"x%02d" % i + b"x" * 4000, (F32, (0,), [])] for i in range(20))),
    "codec 0 with a compressed chunk": ("7 stored", lambda r, c: edit_segment(
        c, b"scalar", 5, [(8000, 7, 8, bytes(16))])),
    "a part's index with layouts": ("belong to MANIFEST", lambda r, c: c.update(layouts=[[0, [], 1, [(0, 1, 0)]]])),
    "a part's index with parts": ("belong to MANIFEST", lambda r, c: c.update(parts=[PARTS[0].record])),
    "a part's index with holdings": ("1 holdings, expected 0", lambda r, c: c["tensors"].__setitem__(
        2, [b"empty", (F32, (0, 3), [], [0, 0, 0])])),
    "object of no chunks": ("with 0 chunks", lambda r, c: r or edit_row(c, "objects", 1, 2, 1)),
    "chunk that no LZ4 block can hold": ("3 stored bytes for 1024", lambda r, c: r or edit_segment(
        c, b"c/planes", 5, [(8000, 3, 1024, bytes(16))])),
    "object of 5000 inline bytes": ("5000 inline", lambda r, c: r and edit_row(c, "objects", 1, 2, 0)),
    "shared object of rank 1": ("placement 0", lambda r, c: r and edit_row(c, "objects", 0, 2, 0)),
    "object that rank 0 lacks": ("rank 0 has none", lambda r, c: r or c["objects"].pop(0)),
    "object in two scopes": ("two scopes", lambda r, c: r or edit_row(c, "objects", 1, 1, 0)),
    "group of one member": ("member 0 of 1", lambda r, c: edit_row(c, "groups", 0, 5, 1)),
    "group with a member missing": ("members missing", lambda r, c: edit_row(c, "groups", 0, 4, 0)),
    "group of fewer entries": ("1 entries", lambda r, c: edit_row(c, "groups", 0, 2, 0)),
    "group digest of other bytes": ("digest of the list", lambda r, c: edit_row(c, "groups", 0, 1, SESSION)),
    "groups that differ": ("different lists", lambda r, c: edit_row(c, "groups", 0, 2, 2 + r)),
    "declared object of other bytes": ("differs from rank 0", lambda r, c: r and edit_row(c, "objects", 0, 3, b"[]")),
    "alias that differs": ("differs between", lambda r, c: r and edit_row(c, "aliases", 0, 1, b"scalar")),
    "attribute that differs": ("differs between", lambda r, c: r and edit_row(c, "attrs", 0, 2, b"rows")),
    "shape that differs": ("dtype or shape", lambda r, c: r and edit_row(c, "tensors", 2, 1, (F32, (3, 0), []))),
    "chunk over the index": ("limit", lambda r, c: r == 0 and edit_segment(
        c, b"scalar", 5, [(12000, 8, 8, bytes(16))])),
}


class RowsOfEachRank(unittest.TestCase):
    """Each part has two rows of a/box."""

    @staticmethod
    def own_rows(change=lambda rank, row: None):
        def edit(rank, content):
            row = row_of(content, b"a/box")
            row[1], row[2][0][:2] = (2, 6), (3, [])
            change(rank, row)
        return compose(edit)

    @staticmethod
    def manifest(parts, rows=4):
        content = merge(parts)
        content["layouts"] = [[2, [], 2, [(0, 2, 1)]]] + [content["layouts"][at] for at in (1, 2, 0, 3, 4)]
        for number, (name, row) in enumerate(content["tensors"]):
            row[3][2] = number
            if name == b"a/box":
                row[1] = (rows, 6)
        content["objects"][0][4], content["objects"][1][4] = 4, 1
        return manifest_of(content)

    def test_make_one_tensor_in_the_order_of_parts(self):
        with tempfile.TemporaryDirectory() as folder:
            parts = self.own_rows()
            write_checkpoint(folder, self.manifest(parts), parts)
            got = reader.read_checkpoint(folder)
            self.assertEqual(got.tensors[b"a/box"].shape, (4, 6))
            self.assertEqual(got.tensor("a/box"), box_piece(0) + box_piece(1))

    def test_are_refused_where_parts_and_manifest_disagree(self):
        def shape(rank, row):
            row[1] = (2, 2, 3) if rank else (2, 6)

        def region(rank, row):
            row[1], row[2][0][:2] = ((4, 6), (1, [0, 0, 2, 6])) if rank else ((2, 6), (3, []))
        cases = {"dtype or shape": (shape, 4), "beside rows": (region, 4),
                 "MANIFEST.tensors": (lambda rank, row: None, 5)}
        for message, (change, rows) in cases.items():
            with tempfile.TemporaryDirectory() as folder:
                parts = self.own_rows(change)
                write_checkpoint(folder, self.manifest(parts, rows), parts)
                with self.subTest(message), self.assertRaisesRegex(reader.FormatError, message):
                    reader.read_checkpoint(folder)


class RefusesBrokenRules(unittest.TestCase):
    def test_of_the_manifest(self):
        reader.Manifest(manifest_of(copy.deepcopy(CONTENT)))
        for name, (message, change) in BROKEN.items():
            content = copy.deepcopy(CONTENT)
            change(content)
            with self.subTest(name), self.assertRaisesRegex(reader.FormatError, message):
                reader.Manifest(manifest_of(content))

    def test_of_the_summary(self):
        for field, value in dict(part_count=1, tensor_count=0, object_count=9, part_bytes=1, save_id=STORE, label=".x",
                                 run="a/b", revision=0, world_size=3).items():
            with self.subTest(field), self.assertRaises(reader.FormatError):
                reader.Manifest(manifest_of(CONTENT, **{field: value}))
        index, summary = index_bytes(base_summary(), CONTENT), summary_bytes(dict(base_summary(), step=11))
        with self.assertRaisesRegex(reader.FormatError, "summaries"):
            reader.Manifest(manifest_bytes(index, summary))

    def test_of_other_revisions_features_and_reserved_parts(self):
        newer = manifest_bytes((b"not even a FlatBuffer", 8), b"", revision=2)
        older = struct.pack("<QQ16s16sII8s", 0, 0, bytes(16), bytes(16), 1, 0, b"CKPTMANI")
        for data in newer, bytes(16) + older + struct.pack("<Q", xxh64(older)):
            with self.assertRaises(reader.RevisionError):
                reader.Manifest(data)
        with self.assertRaises(reader.RevisionError):
            reader.Manifest(manifest_of(CONTENT, required_features=4))
        content = copy.deepcopy(CONTENT)
        for kind, error in (1, reader.FormatError), (2, reader.UnsupportedError):
            edit_row(content, "parts", 1, 8, kind)
            with self.assertRaises(error):
                reader.Manifest(manifest_of(content))

    def test_that_the_manifest_says_what_the_parts_say(self):
        changes = {"attrs": lambda c: edit_row(c, "attrs", 1, 2, b"rows"), "aliases": lambda c: c["aliases"].pop(),
                   "tensors": lambda c: row_of(c, b"a/box")[3].__setitem__(0, 7),
                   "objects": lambda c: edit_row(c, "objects", 0, 3, b"[]"),
                   "layouts": lambda c: edit_row(c, "layouts", COLUMNS, 3, [(0, 1, 0), (1, 1, 0)])}
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
                error = {"unknown": reader.UnsupportedError, "members missing": reader.MismatchError,
                         "different lists": reader.MismatchError}.get(message, reader.FormatError)
                with self.subTest(name), self.assertRaisesRegex(error, message):
                    reader.read_checkpoint(folder)

    def test_of_flatbuffers_whatever_the_bytes(self):
        rng, part = random.Random(7), PARTS[0]
        for content, record in ((CONTENT, None), (part.content, reader.Manifest(MANIFEST).parts[0])):
            data, root_size = index_bytes(base_summary(), content)
            page = next(paged(content))[3]
            for _ in range(500):
                index, changed = bytearray(data), bytearray(page)
                for _ in range(rng.randint(1, 4)):
                    index[-rng.randint(1, root_size)] = rng.choice((0, 1, 127, 128, 255))
                    changed[rng.randrange(len(page))] = rng.choice((0, 1, 127, 128, 255))
                try:
                    reference_index.Index(bytes(index), root_size, digest_of(index[-root_size:]), "index", record)
                except reader.CheckpointError:
                    pass
                try:
                    reference_index.Page(bytes(changed), "page", record and record.rank)
                except reader.CheckpointError:
                    pass


class Pieces(unittest.TestCase):
    def test_the_grammar_tables_are_those_of_ckpt_fbs(self):
        with open(SCHEMA, encoding="utf-8") as text:
            schema = re.sub(r"//.*", "", text.read())
        short = {"uint8": "u8", "ubyte": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "int32": "i32",
                 "int64": "i64", "Digest": "id", "[uint64]": "[u64]", "[uint16]": "[u16]", "[ubyte]": "[u8]"}
        tables = dict(Summary=grammar.SUMMARY, Page=grammar.PAGE, Root=grammar.ROOT, Tombstone=grammar.TOMBSTONE)
        seen = set()
        for name, body in re.findall(r"(?:struct|table) (\w+) \{(.*?)\}", schema, re.S):
            fields = [(f, short.get(k, k) + (f"={d}" if d else ""))
                      for f, k, d in re.findall(r"(\w+):([\w\[\]]+)(?: = (-?\d+))?[^;]*;", body)]
            if name in ("Digest", "Text"):
                continue
            seen.add(name)
            ours = grammar.STRUCTS.get(name) or tables[name]
            self.assertEqual([tuple(field.split(":")) for field in ours.split()], fields, name)
        self.assertEqual(seen, set(grammar.STRUCTS) | set(tables))
        for name, layout in grammar.LAYOUTS.items():
            at = 0
            for _, kind in layout.fields:
                size = {"id": 16, "Text": 8, "Chunk": 32, "Part": 80}.get(kind)
                size = size or struct.calcsize(grammar.SCALARS[kind])
                self.assertEqual(at % {"id": 8, "Text": 4, "Chunk": 8}.get(kind, size), 0, name)
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

    def test_lists_of_groups_are_read_entry_by_entry(self):
        tensors = {b"c/planes": ((BF16, (1003,)), {(0, ()): []}), b"odd": ((F32, (3,)), {(2, (1, 2)): []})}
        odd = struct.pack("<QHBB3QI", 8, F32, 2, 1, 3, 1, 2, 3) + b"odd"
        planes_list, two = group_list(), group_list() + odd

        def check(data, entries, digest_from=None):
            group = types.SimpleNamespace(id=1, list=data, entry_count=entries, digest=digest_of(digest_from or data))
            reader.check_declared(group, types.SimpleNamespace(where="part", decoded=lambda some, _: some[0]), tensors)
        check(two, 2)
        check(planes_list, 2, two)
        for data, entries, message in (
                (two, 1, "2 entries"), (odd + planes_list, 2, "out of order"), (two[:-1], 2, "not in MANIFEST"),
                (two[:-9], 2, "ends early"), (odd.replace(b"odd", b"off"), 1, "not in MANIFEST"),
                (b"\0" + odd[1:], 1, "0 bytes, expected 8"), (odd[:20] + b"\0" + odd[21:], 1, "was not written"),
                (odd[:10] + b"\3" + odd[11:], 1, "unknown kind")):
            with self.subTest(message), self.assertRaisesRegex(reader.FormatError, message):
                check(data, entries)

    def test_an_empty_attribute_makes_no_table(self):
        attr = types.SimpleNamespace(owner=b"t", key=b"ckpt.table", value=b"")
        self.assertEqual(reader.tables_of(types.SimpleNamespace(aliases={b"t"}, index=types.SimpleNamespace(
            attrs=[attr]))), {})

    def test_layouts_are_grids_where_they_can_be_and_runs_as_long_as_possible(self):
        self.assertEqual(reader.runs_of([]), ())
        self.assertEqual(reader.runs_of([0, 2, 3, 4, 3, 2, 2, 2]), ((0, 2, 2), (3, 2, 1), (3, 2, -1), (2, 2, 0)))

        def layout(shape, *held, rows=False):
            """Regions as (kind, numbers, ranks in the order of their segments)."""
            found = {(kind, numbers): [(types.SimpleNamespace(rank=rank), None) for rank in ranks]
                     for kind, numbers, ranks in held}
            return tuple(reader.layout_of(shape, found, rows))
        self.assertEqual(layout((0,)), (0, (), 0, ()))
        self.assertEqual(layout((5,), (0, (), [3, 1])), (0, (), 2, ((1, 2, 2),)))
        self.assertEqual(layout((5,), (2, (0, 2), [1]), (2, (2, 3), [3]), rows=True), (2, (), 2, ((1, 2, 2),)))
        self.assertEqual(layout((5,), (1, (3, 2), [0]), (1, (0, 3), [2, 1, 2])),
                         (1, (2,), 2, ((2, 3, -1), (0, 1, 0))))
        self.assertEqual(layout((5,), (1, (0, 2), [0]), (1, (2, 3), [1])), (0, (), 2, ((0, 2, 1),)))
        self.assertEqual(layout((7,), (1, (0, 5), [0]), (1, (5, 2), [1])), (0, (), 2, ((0, 2, 1),)))
        self.assertEqual(layout((4,), (2, (0, 2), [0]), (2, (2, 2), [1])), (0, (), 2, ((0, 2, 1),)))
        self.assertEqual(layout((2, 2), *((1, (i, j, 1, 1), [2 * i + j]) for j in (0, 1) for i in (0, 1))),
                         (1, (2, 2), 1, ((0, 4, 1),)))


if __name__ == "__main__":
    unittest.main()
