#!/usr/bin/env python3
"""A second reader of the ckpt format, written from schemas/FORMAT.md and schemas/ckpt.fbs alone.

It proves that the specification is enough to read a checkpoint, and it checks every rule that the specification states:
where the library accepts what this program refuses, or the other way round, one of the three has a bug. Slow and plain.
It needs Python 3.11 and the package `xxhash`; its other halves are reference_grammar.py and reference_elements.py.

    reference_reader.py CHECKPOINT                           verify, print what it holds as canonical JSON
    reference_reader.py CHECKPOINT --tensor NAME --out FILE  write the row-major bytes of a tensor or alias
    reference_reader.py --check-all STORE                    verify each committed checkpoint of a store

As a module: `read_checkpoint(path)` returns a verified `Checkpoint`. Not thread-safe; nothing is ever written but FILE.
"""
import argparse
import contextlib
import hashlib
import json
import mmap
import os
import re
import stat
import struct
import sys
from math import prod

from reference_elements import (box_runs, bytes_of, check_sum, check_zero, decode, digest_of, disjoint, dtype_name,
                                flat_as_boxes, gather)
from reference_grammar import (NO_ID, SUMMARY, TOMBSTONE, CheckpointError, CorruptError, FormatError, Index,
                               NotCommittedError, RevisionError, Table, UnsupportedError, require, show)

REVISION = 0
PAGE = 4096
MAX_NDIM = 16
MAX_CHUNK = 64 << 20
MAX_TENSOR = (1 << 63) - 1
MAX_INLINE = 4096
RESERVED = ("tables", "columns", "table_shards", "streams", "parity")


# ---- the rules of FORMAT §4, for MANIFEST (rank None) and for a part's own index ----

class Rules:
    def __init__(self, index, rank=None):
        self.index, self.rank, self.where = index, rank, index.where
        self.next_segment = self.next_chunk = 0
        self.manifest = rank is None

    def check(self):
        ix = self.index
        reserved = [name for name in RESERVED if getattr(ix, name)]
        require(not reserved, f"{self.where}: {reserved} are reserved", UnsupportedError)
        for column, key in (("tensors", lambda r: r.name), ("objects", lambda r: (r.name, r.rank)),
                            ("aliases", lambda r: r.name), ("attrs", lambda r: (r.owner, r.key))):
            keys = [key(row) for row in getattr(ix, column)]
            bad = next((b for a, b in zip(keys, keys[1:]) if a >= b), None)
            require(bad is None, f"{self.where}.{column}: {bad!r} is out of order or there twice")
        self.targets = {tensor.name: tensor for tensor in ix.tensors}
        for tensor in ix.tensors:
            self.tensor(tensor)
        self.objects()
        for alias in ix.aliases:
            self.alias(alias)
        self.attrs()
        for group in ix.groups:
            self.group(group)
        require(self.next_segment == len(ix.segments), f"{self.where}: segment {self.next_segment} has no owner")
        require(self.next_chunk == len(ix.chunks), f"{self.where}: chunk {self.next_chunk} has no owner")

    def name(self, name, where):
        where = f"{self.where}.{where} {show(name)}"
        require(1 <= len(name) <= 4096, f"{where}: name of {len(name)} bytes, expected 1 to 4096")
        require(not re.search(rb"[\x00-\x1f\x7f]", name), f"{where}: control character")
        require(b".." not in name.split(b"/"), f"{where}: path element '..'")

    def follow(self, what, first, count, limit, where):
        """Lists are owned in order, without overlap or hole; an empty one stands where it would begin."""
        position = getattr(self, what)
        require(first == position, f"{where}: {what[5:]} list begins at {first}, expected {position}")
        require(first + count <= limit, f"{where}: {what[5:]} list {first}+{count} of {limit}")
        setattr(self, what, first + count)

    def tensor(self, tensor):
        ix, where, bits = self.index, f"{self.where}: tensor {show(tensor.name)}", tensor.dtype % 256
        self.name(tensor.name, "tensors")
        require(tensor.ndim <= MAX_NDIM, f"{where}: {tensor.ndim} dimensions, at most {MAX_NDIM}")
        require(bits > 0, f"{where}: elements of 0 bits")
        shape = ix.shape(tensor)
        require(bytes_of(prod(shape), bits) <= MAX_TENSOR, f"{where}: larger than 2^63 - 1 bytes")
        self.follow("next_segment", tensor.segment_first, tensor.segment_count, len(ix.segments), where)
        boxes, order = [], []
        for segment in ix.segments_of(tensor):
            boxes += self.segment(tensor, shape, segment, where)
            order.append((segment.part, ix.chunks_of(segment)[0].offset))
        require(order == sorted(order), f"{where}: segments are not ordered by part and offset")
        require(not boxes or disjoint(boxes), f"{where}: segments overlap")
        if self.manifest:
            covered = sum(prod(extent) for _, extent in boxes)
            require(covered == prod(shape), f"{where}: segments cover {covered} of {prod(shape)} elements")

    def segment(self, tensor, shape, segment, where):
        """Checks one segment; returns the boxes that it covers."""
        ix, bits, elements = self.index, tensor.dtype % 256, prod(shape)
        self.part(segment.part, where)
        known = segment.kind <= 1 and segment.codec <= 1 and segment.filter <= 2
        require(known, f"{where}: unknown kind, codec or filter", UnsupportedError)
        require(segment.filter_width in ((1, 2, 4, 8) if segment.filter else (0,)),
                f"{where}: filter {segment.filter} of width {segment.filter_width}")
        numbers = ix.geometry(tensor, segment)
        if segment.kind == 1:
            start, count = numbers
            require(start + count <= elements, f"{where}: flat range {start}+{count} of {elements}")
            boxes = flat_as_boxes(start, start + count, shape)
            aligned = start * bits % 8 == 0 and (start + count == elements or count * bits % 8 == 0)
        else:
            offset, extent = numbers[:tensor.ndim], numbers[tensor.ndim:]
            require(all(o + e <= s for o, e, s in zip(offset, extent, shape)), f"{where}: box {numbers} of {shape}")
            boxes, count = [(offset, extent)], prod(extent)
            aligned = all(numbers[-1] * bits % 8 == 0 for numbers in (offset, extent, shape) if numbers)
        require(count > 0, f"{where}: empty segment")
        require(aligned or count == elements, f"{where}: segment {numbers} does not begin and end at whole bytes")
        self.follow("next_chunk", segment.chunk_first, segment.chunk_count, len(ix.chunks), where)
        self.chunk_sizes(segment, bytes_of(count, bits), segment.codec == 0, where)
        unit = bits // 8 if bits % 8 == 0 else 1
        whole = all(chunk.raw_size % unit == 0 for chunk in ix.chunks_of(segment))
        require(whole, f"{where}: a chunk ends in an element")
        return boxes

    def chunk_sizes(self, owner, total, raw, where):
        chunks = self.index.chunks_of(owner)
        sizes = [chunk.raw_size for chunk in chunks]
        require(sum(sizes) == total, f"{where}: chunks of {sum(sizes)} bytes in all, expected {total}")
        require(all(0 < size <= MAX_CHUNK for size in sizes), f"{where}: chunk sizes must be 1 to {MAX_CHUNK}")
        require(len(set(sizes[:-1])) <= 1 and sizes[-1:] <= sizes[:1], f"{where}: chunks of unequal sizes")
        for chunk in chunks:
            legal = chunk.stored_size == chunk.raw_size if raw else 0 < chunk.stored_size <= chunk.raw_size
            require(legal, f"{where}: {chunk.stored_size} stored bytes for {chunk.raw_size}")

    def part(self, part, where):
        if self.manifest:
            require(part < len(self.index.parts), f"{where}: part {part} of {len(self.index.parts)}")
        else:
            require(part == self.rank, f"{where}: part {part}, expected this part's rank {self.rank}")

    def objects(self):
        scopes = {}
        for item in self.index.objects:
            where = f"{self.where}: object {show(item.name)} of rank {item.rank}"
            self.name(item.name, "objects")
            self.part(item.part, where)
            writer = self.index.parts[item.part].rank if self.manifest else self.rank
            require(item.scope <= 1 and item.placement <= 2, f"{where}: unknown scope or placement")
            require(scopes.setdefault(item.name, item.scope) == item.scope, f"{where}: two scopes")
            declared_only = item.placement == 2
            require(not declared_only or not self.manifest and item.scope == 0 and writer != 0,
                    f"{where}: declared only, where nobody else can have written it")
            require(item.rank == (writer if item.scope else 0), f"{where}: but part {item.part} is of rank {writer}")
            require(item.scope or declared_only or writer == 0, f"{where}: shared, and not written by rank 0")
            self.follow("next_chunk", item.chunk_first, item.chunk_count, len(self.index.chunks), where)
            self.chunk_sizes(item, item.size if item.placement == 1 else 0, True, where)
            if item.placement == 0:
                end, limit = item.inline_offset + item.size, len(self.index.inline_data)
                fits = item.size <= MAX_INLINE and end <= limit
                require(fits, f"{where}: {item.size} inline bytes to {end} of {limit}")

    def alias(self, alias):
        where = f"{self.where}: alias {show(alias.name)}"
        self.name(alias.name, "aliases")
        require(alias.name not in self.targets, f"{where}: a tensor has that name")
        require(alias.is_view <= 1 and alias.ndim <= MAX_NDIM, f"{where}: is_view {alias.is_view}, ndim {alias.ndim}")
        view = self.index.view(alias) if alias.is_view else (0, (), ())
        target = self.targets.get(alias.target)
        require(target or not self.manifest, f"{where}: no tensor {show(alias.target)}")
        if alias.is_view and target and 0 not in view[1]:
            last, elements = view[0] + sum((e - 1) * s for e, s in zip(*view[1:])), prod(self.index.shape(target))
            require(last < elements, f"{where}: element {last} of {elements}")

    def attrs(self):
        owners = {b""} | set(self.targets) | {alias.name for alias in self.index.aliases}
        for attr in self.index.attrs:
            where = f"{self.where}: attribute {show(attr.key)} of {show(attr.owner)}"
            require(attr.owner in owners or not self.manifest, f"{where}: no such owner")
            fits = 1 <= len(attr.key) <= 255 and len(attr.value) <= 1 << 20
            require(fits, f"{where}: key of {len(attr.key)} bytes, value of {len(attr.value)}")

    def group(self, group):
        where = f"{self.where}: group {group.id:#x}"
        require(not self.manifest, f"{where}: groups belong to a part's index")
        require(group.count > 1 and group.index < group.count, f"{where}: member {group.index} of {group.count}")
        self.follow("next_chunk", group.chunk, 1, len(self.index.chunks), where)
        chunk = self.index.chunks[group.chunk]
        require(chunk.stored_size <= chunk.raw_size <= MAX_CHUNK, f"{where}: list of {chunk.raw_size} bytes")


# ---- MANIFEST, FORMAT §2 ----

class Manifest:
    def __init__(self, data, where="MANIFEST"):
        require(len(data) >= 72, f"{where}: {len(data)} bytes, at least 72 expected")
        trailer = data[-72:]
        index_size, summary_size, index_digest, summary_digest, kind, revision, magic, checksum = struct.unpack(
            "<QQ16s16sII8sQ", trailer)
        require(magic == b"CKPTMANI", f"{where}: magic {magic!r}")
        check_sum(trailer[:64], checksum, f"{where}: trailer")
        require(revision <= REVISION, f"{where}: revision {revision}, known up to {REVISION}", RevisionError)
        require(kind in (1, 2), f"{where}: kind {kind}")
        begin = (index_size + 7) // 8 * 8
        end = begin + (summary_size + 7) // 8 * 8
        require(end + 72 == len(data), f"{where}: {len(data)} bytes, the trailer says {end + 72}")
        index, summary = data[:index_size], data[begin:begin + summary_size]
        for piece, digest in ((index, index_digest), (summary, summary_digest)):
            require(digest_of(piece) == digest, f"{where}: digest does not match", CorruptError)
        check_zero(data, index_size, begin, where)
        check_zero(data, begin + summary_size, end, where)
        if kind == 2:
            require(summary_size == 0, f"{where}: tombstone with a summary of {summary_size} bytes")
            stone = Table.root(index, b"CKPX", where).record(TOMBSTONE)
            raise NotCommittedError(f"{where}: given up by rank {stone['rank']}: {stone['reason']}")
        self.index = Index(index, where)
        self.summary = self.index.summary
        copy = Table.root(summary, b"CKPS", f"{where}.summary").record(SUMMARY)
        require(copy == self.summary, f"{where}: the two summaries differ")
        stated = self.summary["revision"]
        require(stated == revision, f"{where}: revision {stated} in the summary, {revision} in the trailer")
        self.check_parts(where)
        check_identity(self.summary, where)
        Rules(self.index).check()
        self.check_chunk_places(where)

    def check_parts(self, where):
        parts, summary = self.index.parts, self.summary
        require(parts, f"{where}: no parts")
        require(all(part.kind == 0 for part in parts), f"{where}: parts of kind 1 or 2 are reserved", UnsupportedError)
        ranks = [part.rank for part in parts]
        require(ranks == sorted(set(ranks)) and ranks[0] == 0 and ranks[-1] < summary["world_size"],
                f"{where}: parts of ranks {ranks} in a world of {summary['world_size']}")
        require(all(part.save_id == summary["save_id"] for part in parts), f"{where}: a part of another save")
        require(all(part.size % PAGE == 0 and part.size >= 2 * PAGE for part in parts), f"{where}: part size")
        for field, count in (("part_count", len(parts)), ("tensor_count", len(self.index.tensors)),
                             ("object_count", len(self.index.objects)), ("part_bytes", sum(p.size for p in parts))):
            require(summary[field] == count, f"{where}: {field} {summary[field]}, expected {count}")

    def check_chunk_places(self, where):
        owners = self.index.segments + self.index.objects
        for number, part in enumerate(self.index.parts):
            spans = [chunk for owner in owners if owner.part == number for chunk in self.index.chunks_of(owner)]
            check_spans(spans, part.size - 64, f"{where}: part {number}")


def check_identity(summary, where):
    label, run = summary["label"], summary["run"]
    require(re.fullmatch(r"(?!\.)[A-Za-z0-9._=+-]{1,200}", label), f"{where}: label {label!r}")
    require(re.fullmatch(r"(?!\.)[A-Za-z0-9._=+-]{0,200}", run), f"{where}: run {run!r}")
    expected = digest_of(summary["session_id"] + label.encode() + b"\0" + struct.pack("<Q", summary["attempt"]))
    require(summary["save_id"] == expected, f"{where}: save id {summary['save_id'].hex()}, expected {expected.hex()}")


def check_spans(chunks, end, where):
    """Chunks lie between the header and `end`, none over another."""
    at = PAGE
    for chunk in sorted(chunks):
        require(chunk.offset >= at, f"{where}: chunk at {chunk.offset}, the bytes before {at} are taken")
        at = chunk.offset + chunk.stored_size
    require(at <= end, f"{where}: chunks end at {at}, limit {end}")


# ---- parts, FORMAT §3 ----

class Part:
    """A part whose frame, own index and identity are checked; `verify` reads the rest of it."""

    def __init__(self, data, record, summary, where):
        self.data, self.where = data, where
        require(len(data) == record.size, f"{where}: {len(data)} bytes, expected {record.size}", CorruptError)
        self.check_header(record, summary)
        self.index_offset, index_size, digest, save_id, magic, checksum = struct.unpack("<QQ16s16s8sQ", data[-64:])
        require(magic == b"CKPTTAIL", f"{where}: trailer magic {magic!r}")
        check_sum(data[-64:-8], checksum, f"{where}: trailer")
        self.index_end = self.index_offset + index_size
        require(self.index_offset % 64 == 0 and PAGE <= self.index_offset and self.index_end <= len(data) - 64,
                f"{where}: index at {self.index_offset}+{index_size}")
        require(digest == record.index_digest and save_id == record.save_id,
                f"{where}: the trailer is not the one that MANIFEST names", CorruptError)
        index = bytes(data[self.index_offset:self.index_end])
        require(digest_of(index) == digest, f"{where}: index digest does not match", CorruptError)
        self.index = Index(index, where)
        require(not self.index.parts, f"{where}: a part's index has no parts")
        Rules(self.index, record.rank).check()
        check_spans(self.index.chunks, self.index_offset, where)

    def check_header(self, record, summary):
        magic, revision, start, save_id, rank, world, store_id, token, attempt, checksum = struct.unpack(
            "<8sII16sII16sQQQ", self.data[:80])
        require(magic == b"CKPTPART", f"{self.where}: magic {magic!r}")
        check_sum(self.data[:72], checksum, f"{self.where}: header")
        require(revision <= REVISION, f"{self.where}: revision {revision}, known up to {REVISION}", RevisionError)
        require(start == PAGE, f"{self.where}: data may start at {start}, expected {PAGE}")
        found = dict(save_id=save_id, rank=rank, world_size=world, store_id=store_id, token=token, attempt=attempt)
        expected = {field: summary[field] for field in ("world_size", "store_id", "token", "attempt")}
        expected.update(save_id=record.save_id, rank=record.rank)
        bad = [field for field in found if found[field] != expected[field]]
        require(not bad, f"{self.where}: {bad} of the header differ from MANIFEST", CorruptError)

    def chunk(self, chunk):
        stored = self.data[chunk.offset:chunk.offset + chunk.stored_size]
        require(digest_of(stored) == chunk.digest, f"{self.where}: chunk at {chunk.offset} is damaged", CorruptError)
        return stored

    def verify(self, manifest):
        """Zero bytes, every chunk's digest, and the declaration lists of its groups."""
        at = 80
        for chunk in sorted(self.index.chunks):
            check_zero(self.data, at, chunk.offset, self.where)
            self.chunk(chunk)
            at = chunk.offset + chunk.stored_size
        check_zero(self.data, at, self.index_offset, self.where)
        check_zero(self.data, self.index_end, len(self.data) - 64, self.where)
        for group in self.index.groups:
            self.verify_group(group, manifest)

    def verify_group(self, group, manifest):
        where = f"{self.where}: group {group.id:#x}"
        chunk = self.index.chunks[group.chunk]
        data = decode(self.chunk(chunk), chunk.raw_size, 1, 0, 0)
        require(digest_of(data) == group.digest, f"{where}: digest of the list does not match")
        tensors = {tensor.name: (tensor.dtype, manifest.index.shape(tensor)) for tensor in manifest.index.tensors}
        at, order = 0, []
        try:
            for _ in range(group.entry_count):
                size, dtype, kind, ndim = struct.unpack_from("<QHBB", data, at)
                numbers = ndim + (0, 2 * ndim, 2)[kind]
                *values, length = struct.unpack_from(f"<{numbers}QI", data, at + 12)
                at += 12 + 8 * numbers + 4 + length
                name = data[at - length:at]
                require(tensors.get(name) == (dtype, tuple(values[:ndim])), f"{where}: {show(name)} is not in MANIFEST")
                order.append((-size, name))
        except (struct.error, IndexError):
            raise FormatError(f"{where}: the list ends early, or an entry is of unknown kind") from None
        require(at == len(data), f"{where}: list of {len(data)} bytes, entries of {at}")
        require(order == sorted(order), f"{where}: regions out of order")


# ---- MANIFEST from the parts, FORMAT §6 ----

FROM_PART_0 = [field.split(":")[0] for field in SUMMARY.split()
               if not re.match("part_count|tensor_count|object_count|part_bytes|rebuilt", field)]


def content_of(index, own_part=None):
    """What an index says, free of where it says it. `own_part`: the part's position in MANIFEST."""
    def part(number):
        return number if own_part is None else own_part
    def segment(tensor, s):
        chunks = index.chunks_of(s)
        coding = s.codec, s.filter, s.filter_width
        return part(s.part), chunks[0].offset, s.kind, coding, index.geometry(tensor, s), chunks

    def item(o):
        inline = index.inline_data[o.inline_offset:o.inline_offset + o.size] if o.placement == 0 else b""
        return o.size, o.digest, o.scope, o.placement, o.media_type, part(o.part), index.chunks_of(o), inline
    tensors = {t.name: (t.dtype, index.shape(t), [segment(t, s) for s in index.segments_of(t)]) for t in index.tensors}
    objects = {(o.name, o.rank): item(o) for o in index.objects}
    aliases = {a.name: (a.target, index.view(a) if a.is_view else None) for a in index.aliases}
    return {"tensors": tensors, "objects": objects, "aliases": aliases,
            "attrs": {(a.owner, a.key): a.value for a in index.attrs}}


def merged(parts):
    """The content that MANIFEST must have, from the parts' own indexes in their order."""
    out, declared = {"tensors": {}, "objects": {}, "aliases": {}, "attrs": {}}, {}
    for number, part in enumerate(parts):
        content = content_of(part.index, number)
        for name, (dtype, shape, segments) in content["tensors"].items():
            known = out["tensors"].setdefault(name, (dtype, shape, []))
            require(known[:2] == (dtype, shape), f"{part.where}: dtype or shape of {show(name)} differs between parts")
            known[2].extend(segments)
        for key, item in content["objects"].items():
            if item[3] == 2:
                declared[key] = item[:3]
                require(out["objects"].get(key, ())[:3] == item[:3], f"{part.where}: {key} differs from rank 0's")
            else:
                require(out["objects"].setdefault(key, item) == item, f"{part.where}: {key} differs between parts")
        for column in ("aliases", "attrs"):
            for key, item in content[column].items():
                require(out[column].setdefault(key, item) == item, f"{part.where}: {key} differs between parts")
    for known in out["tensors"].values():
        known[2].sort()
    return out


def check_groups(parts):
    members = {}
    for part in parts:
        for group in part.index.groups:
            members.setdefault(group.id, []).append(group)
    for group_id, found in members.items():
        lists = {(group.count, group.digest, group.entry_count) for group in found}
        require(len(lists) == 1, f"group {group_id:#x}: its members declared different lists")
        require(sorted(g.index for g in found) == list(range(found[0].count)), f"group {group_id:#x}: members missing")


# ---- a checkpoint ----

@contextlib.contextmanager
def opened(path):
    """The bytes of a regular file that is no symbolic link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise CorruptError(f"{path}: {error.strerror}") from None
    try:
        info = os.fstat(descriptor)
        require(stat.S_ISREG(info.st_mode), f"{path}: not a regular file", CorruptError)
        yield mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) if info.st_size else b""
    finally:
        os.close(descriptor)


class Checkpoint:
    """A committed checkpoint; names are bytes or str. `verify` is what `read_checkpoint` calls."""

    def __init__(self, path):
        self.path = path
        manifest_path = os.path.join(path, "MANIFEST")
        require(os.path.lexists(manifest_path), f"{path}: no MANIFEST", NotCommittedError)
        with opened(manifest_path) as data:
            self.manifest = Manifest(bytes(data))
        self.summary, self.index, self.parts = self.manifest.summary, self.manifest.index, []
        for number, record in enumerate(self.index.parts):
            name = f"PART_{number:03d}"
            with opened(os.path.join(path, name)) as data:
                self.parts.append(Part(data, record, self.summary, name))
        self.tensors = {tensor.name: tensor for tensor in self.index.tensors}
        self.aliases = {alias.name: alias for alias in self.index.aliases}

    def verify(self):
        first = self.parts[0].index.summary
        bad = [field for field in FROM_PART_0 if first[field] != self.summary[field]]
        require(not bad, f"MANIFEST: {bad} differ from the summary of part 0")
        for part in self.parts:
            own = part.index.summary["save_id"]
            require(own in (NO_ID, self.summary["save_id"]), f"{part.where}: its summary is of save {own.hex()}")
            part.verify(self.manifest)
        rebuilt, stated = merged(self.parts), content_of(self.index)
        for column in rebuilt:
            bad = [key for key in rebuilt[column].keys() | stated[column].keys()
                   if rebuilt[column].get(key) != stated[column].get(key)]
            require(not bad, f"MANIFEST.{column}: {sorted(bad)[:3]} differ from the parts")
        check_groups(self.parts)
        return self

    def pieces(self, owner, codec=0, filter_kind=0, width=0):
        part = self.parts[owner.part]
        return b"".join(decode(part.chunk(chunk), chunk.raw_size, codec, filter_kind, width)
                        for chunk in self.index.chunks_of(owner))

    def tensor(self, name):
        """Row-major bytes of a tensor, or of what an alias names."""
        name = name.encode() if isinstance(name, str) else name
        alias = self.aliases.get(name)
        if alias:
            data, bits = self.tensor(alias.target), self.tensors[alias.target].dtype % 256
            return gather(data, bits, self.index.view(alias)) if alias.is_view else data
        require(name in self.tensors, f"no tensor or alias {show(name)}", KeyError)
        tensor = self.tensors[name]
        bits, shape = tensor.dtype % 256, self.index.shape(tensor)
        out = bytearray(bytes_of(prod(shape), bits))
        for segment in self.index.segments_of(tensor):
            data = self.pieces(segment, segment.codec, segment.filter, segment.filter_width)
            numbers, at = self.index.geometry(tensor, segment), 0
            flat = segment.kind == 1 or len(data) == len(out)
            start = numbers[0] if segment.kind == 1 else 0
            runs = [(start, None)] if flat else box_runs(numbers[:tensor.ndim], numbers[tensor.ndim:], shape)
            for first, count in runs:
                size = len(data) if count is None else count * bits // 8
                out[first * bits // 8:first * bits // 8 + size] = data[at:at + size]
                at += size
        unused = len(out) * 8 - prod(shape) * bits
        require(not unused or out[-1] >> 8 - unused == 0, f"tensor {show(name)}: unused bits at its end are not zero")
        return bytes(out)

    def object(self, name, rank=0):
        """Bytes of a shared object (rank 0) or of one rank's."""
        name = name.encode() if isinstance(name, str) else name
        item = next((o for o in self.index.objects if (o.name, o.rank) == (name, rank)), None)
        require(item, f"no object {show(name)} of rank {rank}", KeyError)
        begin = item.inline_offset
        data = self.pieces(item) if item.placement else self.index.inline_data[begin:begin + item.size]
        require(digest_of(data) == item.digest, f"object {show(name)} of rank {rank} is damaged", CorruptError)
        return data

    def attrs(self, owner=b""):
        return {a.key.decode(): a.value.decode() for a in self.index.attrs if a.owner == owner}

    def dump(self):
        """Everything, as values for json.dumps; assembles each tensor and object."""
        def tensor(name, dtype, shape):
            return {"dtype": dtype_name(dtype), "shape": list(shape), "attrs": self.attrs(name),
                    "sha256": hashlib.sha256(self.tensor(name)).hexdigest()}
        out = {"identity": {k: v.hex() if isinstance(v, bytes) else v for k, v in self.summary.items()},
               "attrs": self.attrs(), "tensors": {}, "aliases": {}, "objects": []}
        for name, item in self.tensors.items():
            out["tensors"][name.decode()] = tensor(name, item.dtype, self.index.shape(item))
        for name, alias in self.aliases.items():
            target = self.tensors[alias.target]
            view = self.index.view(alias) if alias.is_view else None
            out["aliases"][name.decode()] = {
                **tensor(name, target.dtype, view[1] if view else self.index.shape(target)),
                "target": alias.target.decode(), "view": view and dict(zip(("offset", "extents", "strides"), view))}
        for item in self.index.objects:
            out["objects"].append({
                "name": item.name.decode(), "rank": item.rank if item.scope else None, "size": item.size,
                "media_type": item.media_type.decode(),
                "sha256": hashlib.sha256(self.object(item.name, item.rank)).hexdigest()})
        return out


def read_checkpoint(path):
    """Opens and wholly verifies the checkpoint in directory `path`; raises a CheckpointError."""
    return Checkpoint(os.fspath(path)).verify()


def check_all(store):
    """Verifies each committed checkpoint; returns how many are damaged."""
    damaged = 0
    for name in sorted(os.listdir(store)):
        path = os.path.join(store, name)
        if name.startswith(".") or not os.path.isdir(path):
            continue
        try:
            read_checkpoint(path).dump()
            print(f"ok             {name}")
        except NotCommittedError:
            print(f"not committed  {name}")
        except CheckpointError as error:
            print(f"{type(error).__name__:14} {name}: {error}")
            damaged += 1
    return damaged


def main():
    parser = argparse.ArgumentParser(description="Independent reader of the ckpt format.")
    parser.add_argument("path", help="a checkpoint's directory; with --check-all, a store's")
    parser.add_argument("--tensor", help="write the bytes of this tensor or alias to --out")
    parser.add_argument("--out")
    parser.add_argument("--check-all", action="store_true", help="verify every committed checkpoint of a store")
    options = parser.parse_args()
    if bool(options.tensor) != bool(options.out):
        parser.error("--tensor and --out go together")
    if options.check_all:
        return 1 if check_all(options.path) else 0
    try:
        checkpoint = read_checkpoint(options.path)
        if options.tensor:
            with open(options.out, "wb") as out:
                out.write(checkpoint.tensor(options.tensor))
        else:
            print(json.dumps(checkpoint.dump(), sort_keys=True, indent=1, ensure_ascii=False))
    except (CheckpointError, KeyError) as error:
        print(f"{type(error).__name__}: {error.args[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
