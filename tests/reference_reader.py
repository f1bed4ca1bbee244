#!/usr/bin/env python3
"""A second reader of the ckpt format, written from schemas/FORMAT.md and schemas/ckpt.fbs alone.

It proves that the specification is enough to read a checkpoint, and it checks every rule that the specification states:
where the library accepts what this program refuses, or the other way round, one of the three has a bug. Slow and plain.
It needs Python 3.11 and the package `xxhash`; the rest of it is in reference_{grammar,index,elements,table,tree}.py.

    reference_reader.py CHECKPOINT                           verify, print what it holds as canonical JSON
    reference_reader.py CHECKPOINT --tensor NAME --out FILE  write the row-major bytes of a tensor or alias
    reference_reader.py --check-all STORE                    verify each committed checkpoint of a store

As a module: `read_checkpoint(path)` returns a verified `Checkpoint`. Not thread-safe; nothing is ever written but FILE.
"""
import argparse
import contextlib
import hashlib
import itertools
import json
import mmap
import os
import re
import stat
import struct
import sys
from collections import Counter
from math import prod

from reference_elements import (box_runs, boxes_of, bytes_of, check_sum, check_zero, count_of, decode, digest_of,
                                disjoint, dtype_name, gather, grid_of)
from reference_grammar import (NO_ID, SUMMARY, TOMBSTONE, CheckpointError, CorruptError, FormatError,
                               NotCommittedError, RevisionError, Table, UnsupportedError, require, show)
from reference_index import BLOCK, COUNTS, Index, Layout, check_bases, check_part, identity_of, up
from reference_table import tables_of
from reference_tree import MismatchError, merge, put_back

REVISION = 1
MAX_COPIES = 1 << 20
MAX_SLOT_TEXT = 1 << 20  # of a summary or tombstone


def check_revision(revision, where):
    require(revision == REVISION, f"{where}: revision {revision}, known is {REVISION}", RevisionError)


# ---- MANIFEST, FORMAT §2 ----

class Manifest:
    def __init__(self, data, where="MANIFEST"):
        require(len(data) >= 88, f"{where}: {len(data)} bytes, at least 88 expected")
        trailer = data[-88:]
        (index_size, root_size, copies_size, summary_size, root_digest, summary_digest, kind, revision, magic,
         checksum) = struct.unpack("<QQQQ16s16sII8sQ", trailer)
        require(magic == b"CKPTMANI", f"{where}: magic {magic!r}")
        check_sum(trailer[16 if revision == 0 else 0:80], checksum, f"{where}: trailer")  # revision 0 had less of it
        check_revision(revision, where)
        copies = up(index_size, 64)
        begin = copies + copies_size
        end = up(begin + summary_size, 8)
        require(end + 88 == len(data), f"{where}: {len(data)} bytes, the trailer says {end + 88}")
        at = index_size - root_size
        legal = copies_size % 64 == 0 and at >= 0 and (at % 64 == 0 or kind == 2)
        require(legal, f"{where}: copies of {copies_size} bytes, root at {at}")
        legal = kind == 1 or kind == 2 and root_size == copies_size == summary_size == 0
        require((summary_size if kind == 1 else index_size) <= MAX_SLOT_TEXT, f"{where}: more than 1 MiB to list it")
        require(legal, f"{where}: kind {kind}, or a tombstone with more than itself")
        index, summary = data[:index_size], data[begin:begin + summary_size]
        for piece, digest in ((index[-root_size:], root_digest), (summary, summary_digest)):
            require(digest_of(piece) == digest, f"{where}: digest does not match", CorruptError)
        check_zero(data, index_size, copies, where)
        check_zero(data, begin + summary_size, end, where)
        if kind == 2:
            stone = Table.root(index, b"CKPX", where).record(TOMBSTONE)
            raise NotCommittedError(f"{where}: given up by rank {stone['rank']}: {stone['reason']}")
        self.index = Index(index, root_size, root_digest, where)
        self.summary, files = self.index.summary, self.index.parts
        count = self.summary["part_count"]
        self.parts, self.bases, self.used = files[:count], files[count:], self.index.used[count:]
        copy = Table.root(summary, b"CKPS", f"{where}.summary").record(SUMMARY)
        require(copy == self.summary, f"{where}: the two summaries differ")
        stated = self.summary["revision"]
        require(stated == revision, f"{where}: revision {stated} in the summary, {revision} in the trailer")
        check_identity(self.summary, where)
        self.check_parts(where)
        self.copies = list(self.check_copies(data, copies, copies_size, where))

    def check_parts(self, where):
        parts, summary = self.parts, self.summary
        require(all(part.kind != 1 for part in parts), f"{where}: a base in the place of a part")
        require(all(part.kind == 0 for part in parts), f"{where}: parts of kind 2 are reserved", UnsupportedError)
        for number, part in enumerate(parts):
            name = f"{where}: part {number}"
            require(part.rank == number, f"{name} is of rank {part.rank}")
            require(part.save_id == summary["save_id"], f"{name} is of another save")
            check_part(part, name)
        check_bases(self.bases, summary["save_id"], where)
        require(not any(self.index.used[:len(parts)]), f"{where}: used bytes of a part that is no base")
        require(all(self.used), f"{where}: a base of which nothing is used")
        counts = (len(parts), len(self.index.tensors), self.index.object_count, sum(part.size for part in parts),
                  len(self.bases), sum(base.size for base in self.bases), sum(self.used))
        for field, count in zip(COUNTS, counts):
            require(summary[field] == count, f"{where}: {field} {summary[field]}, expected {count}")
        require(len(parts) == summary["world_size"] > 0, f"{where}: {len(parts)} parts, world {summary['world_size']}")

    def check_copies(self, data, at, size, where):
        """The bytes of the copies, none if the parts' indexes are too large. Bases have none."""
        begin, total = at, sum(up(part.index_size, 64) for part in self.parts)
        copied = total <= MAX_COPIES
        require(size == (total if copied else 0), f"{where}: copies of {size} bytes, indexes of {total}")
        for number, part in enumerate(self.parts):
            name, expected = f"{where}: copy {number}", at - begin if copied else 0
            require(part.copy_offset == expected, f"{name} at {part.copy_offset}, expected {expected}")
            if copied:
                copy, end = data[at:at + part.index_size], at + up(part.index_size, 64)
                Index(copy, part.root_size, part.root_digest, name, part)
                check_zero(data, at + part.index_size, end, name)
                at = end
                yield copy


def check_names(summary, where):
    for field in ("label", "run"):
        legal = re.fullmatch(r"(?!\.)[A-Za-z0-9._=+-]{1,200}", summary[field])
        require(legal, f"{where}: {field} {summary[field]!r}")


def check_identity(summary, where):
    check_names(summary, where)
    label = summary["label"].encode()
    expected = digest_of(summary["session_id"] + label + b"\0" + struct.pack("<Q", summary["attempt"]))
    require(summary["save_id"] == expected, f"{where}: save id {summary['save_id'].hex()}, expected {expected.hex()}")


# ---- parts, FORMAT §3 ----

class Part:
    """A part whose frame, own index and identity are checked; `verify` reads the rest of it. `bases`, by their number
    in this part from 1 on, are found later. A part that is itself a base of `summary`'s checkpoint has none."""

    def __init__(self, data, record, summary, where):
        self.data, self.where, self.rank, self.bases = data, where, record.rank, {}
        require(len(data) == record.size, f"{where}: {len(data)} bytes, expected {record.size}", CorruptError)
        self.check_header(record, summary)
        *frame, magic, checksum = struct.unpack("<QQQ16s16s8sQ", data[-72:])
        require(magic == b"CKPTTAIL", f"{where}: trailer magic {magic!r}")
        check_sum(data[-72:-8], checksum, f"{where}: trailer")
        named = [record.index_offset, record.index_size, record.root_size, record.root_digest, record.save_id]
        require(frame == named, f"{where}: the trailer is not the one that MANIFEST names", CorruptError)
        self.begin, self.end = record.index_offset, record.index_offset + record.index_size
        self.index = Index(bytes(data[self.begin:self.end]), record.root_size, record.root_digest, where, record)
        own = self.index.summary
        same = (own["save_id"], own["world_size"]) == (record.save_id, self.world)
        require(same, f"{where}: the summary of its index is of another save")
        check_revision(own["revision"], where)
        check_names(own, where)

    def check_header(self, record, summary):
        magic, revision, start, save_id, rank, self.world, store_id, token, attempt, checksum = struct.unpack(
            "<8sII16sII16sQQQ", self.data[:80])
        require(magic == b"CKPTPART", f"{self.where}: magic {magic!r}")
        check_sum(self.data[:72], checksum, f"{self.where}: header")
        check_revision(revision, self.where)
        require(start == BLOCK, f"{self.where}: data may start at {start}, expected {BLOCK}")
        own = save_id == record.save_id and rank == record.rank
        require(own, f"{self.where}: of another save or rank", CorruptError)
        found = dict(world_size=self.world, store_id=store_id, token=token, attempt=attempt) if record.kind == 0 else {}
        bad = [field for field in found if found[field] != summary[field]]
        require(not bad, f"{self.where}: {bad} of the header differ from MANIFEST")

    def chunk(self, chunk):
        if chunk.home:
            return self.bases[chunk.home].chunk(chunk._replace(home=0))
        stored = self.data[chunk.offset:chunk.offset + chunk.stored_size]
        require(digest_of(stored) == chunk.digest, f"{self.where}: chunk at {chunk.offset} is damaged", CorruptError)
        return stored

    def decoded(self, chunks, codec=0, filter_kind=0, width=0):
        return b"".join(decode(self.chunk(chunk), chunk.raw_size, codec, filter_kind, width) for chunk in chunks)

    def verify(self):
        """Zero bytes and every chunk's digest."""
        at = 80
        for chunk in sorted(self.index.chunks):
            check_zero(self.data, at, chunk.offset, self.where)
            self.chunk(chunk)
            at = chunk.offset + chunk.stored_size
        check_zero(self.data, at, self.begin, self.where)
        check_zero(self.data, self.end, len(self.data) - 72, self.where)

    def take_bases(self, known):
        """`known`: each base of the checkpoint by what identifies it, with its record in MANIFEST."""
        for number, base in enumerate(self.index.root.bases, 1):
            name = f"{self.where}: base {number}"
            found = known.get(identity_of(base.part))
            require(found and found[0] == base.part, f"{name} is not the one that MANIFEST names")
            self.bases[number] = found[1]
        own = {number: {(c.offset, c.stored_size, c.digest) for c in base.index.chunks}
               for number, base in self.bases.items()}
        for c in self.index.based:
            mine = (c.offset, c.stored_size, c.digest) in own[c.home]
            require(mine, f"{self.where}: the chunk at {c.offset} is none of {self.bases[c.home].where}")


# ---- what the parts say together, FORMAT §4 and §6 ----

FROM_PART_0 = [field.split(":")[0] for field in SUMMARY.split()
               if field.split(":")[0] not in (*COUNTS, "rebuilt", "required_features")]


class Together:
    """The records of all parts by name: what MANIFEST must say."""

    def __init__(self, parts):
        self.tensors, self.objects, self.aliases, self.attrs, self.rows = {}, {}, {}, {}, set()
        told = {}
        for part in parts:
            for tensor in part.index.tensors:
                told.setdefault(tensor.name, []).append((part, tensor))
            for item in part.index.objects:
                self.object(part, item)
            for known, records, size in ((self.aliases, part.index.aliases, 1), (self.attrs, part.index.attrs, 2)):
                for record in records:
                    same = known.setdefault(record[:size], record) == record
                    require(same, f"{part.where}: {record[:size]} differs between parts")
        for name, found in told.items():
            self.tensors[name] = self.tensor(name, found)
        for name, ((dtype, shape), held) in self.tensors.items():
            for segments in held.values():
                segments.sort(key=lambda found: found[1].start)
            check_coverage(shape, held, f"tensor {show(name)}")

    def tensor(self, name, found):
        """Rows become flat ranges of the tensor that they make together."""
        first = next((tensor for _, tensor in found if tensor.regions and tensor.regions[0].kind == 3), None)
        kind = found[0][1].dtype, found[0][1].shape
        if first:
            self.rows.add(name)
            kind = first.dtype, (sum(tensor.shape[0] for _, tensor in found), *first.shape[1:])
        held, at = {}, 0
        for part, tensor in found:
            shape = (kind[1][0], *tensor.shape[1:]) if first and tensor.shape else tensor.shape
            same = kind == (tensor.dtype, shape) and (not first or tensor.regions or tensor.shape[0] == 0)
            require(same, f"{part.where}: dtype or shape of {show(tensor.name)} differs between parts")
            for region in tensor.regions:
                require((region.kind == 3) == bool(first), f"{part.where}: {show(tensor.name)}: a region beside rows")
                key = (2, (at, prod(tensor.shape))) if first else region[:2]
                held.setdefault(key, []).extend((part, segment) for segment in region.segments)
                at += prod(tensor.shape)
        return kind, held

    def object(self, part, item):
        """A shared object is that of rank 0, which others may only declare; of one of each rank there is a list, and of
        a tree that ranks make together one of those whose trees differ."""
        known = self.objects.setdefault(item.name, [])
        first = known[0][1] if known else item
        require(first.scope == item.scope, f"{part.where}: object {show(item.name)} in two scopes")
        same = item.placement != 2 or known and (first.size, first.digest) == (item.size, item.digest)
        require(same, f"{part.where}: object {show(item.name)} differs from rank 0's, or rank 0 has none")
        again = item.scope == 2 and any(item.digest == other.digest for _, other in known)
        if item.placement != 2 and not again:
            known.append((part, item))

    def manifest(self):
        """What MANIFEST must say: records, and the layouts in the order of their first use."""
        tensors, objects, layouts = [], [], {}

        def use(layout):
            return layouts.setdefault(layout, len(layouts))
        for name, ((dtype, shape), held) in sorted(self.tensors.items()):
            segments = [segment for found in held.values() for _, segment in found]
            stored = sum(chunk.stored_size for segment in segments for chunk in segment.chunks)
            layout = use(layout_of(shape, held, name in self.rows))
            tensors.append((name, dtype, shape, (stored, len(segments), layout)))
        for name, known in sorted(self.objects.items()):
            first, layout = known[0][1], use(list_of(part.rank for part, _ in known))
            said = (0, NO_ID) if first.scope else (first.size, first.digest)
            objects.append((name, first.media_type, *said, first.scope, layout))
        aliases, attrs = ([known[key] for key in sorted(known)] for known in (self.aliases, self.attrs))
        return dict(tensors=tensors, objects=objects, aliases=aliases, attrs=attrs, layouts=list(layouts))


def check_coverage(shape, held, where):
    """`held` maps a region to the segments of all parts: each region is written once, and the tensor is tiled."""
    for region, segments in held.items():
        at, count = 0, count_of(*region, shape)
        for part, segment in segments:
            require(segment.start == at, f"{where}: {part.where} wrote {region} from {segment.start}, expected {at}")
            at += segment.count
        require(at == count, f"{where}: {at} of {count} elements of {region} were written")
    covered = sum(count_of(*region, shape) for region in held)
    require(covered == prod(shape), f"{where}: regions cover {covered} of {prod(shape)} elements")
    boxes = [box for region in held for box in boxes_of(*region, shape)]
    require(not boxes or disjoint(boxes), f"{where}: regions overlap")


def layout_of(shape, held, rows=False):
    """`held` as above, the segments of each region in their order."""
    if rows:
        return list_of({part.rank for segments in held.values() for part, _ in segments})._replace(kind=2)
    if all(kind == 1 for kind, _ in held) and held:
        cells = {tuple(boxes_of(*region, shape)[0]): region for region in held}
        counts = grid_of(list(cells), shape)
        if counts:
            parts = [list(dict.fromkeys(part.rank for part, _ in held[cells[box]])) for box in sorted(cells)]
            most = max(map(len, parts))
            return Layout(1, counts, most, runs_of(r for cell in parts for r in cell + cell[-1:] * (most - len(cell))))
    return list_of({part.rank for segments in held.values() for part, _ in segments})


def list_of(parts):
    parts = sorted(parts)
    return Layout(0, (), len(parts), runs_of(parts))


def runs_of(parts):
    """(first, count, stride), each as long as possible."""
    runs, last = [], 0
    for part in parts:
        if runs and (runs[-1][1] == 1 or part == last + runs[-1][2]):
            first, count, stride = runs[-1]
            runs[-1] = first, count + 1, part - last if count == 1 else stride
        else:
            runs.append((part, 1, 0))
        last = part
    return tuple(runs)


def check_groups(parts, tensors):
    """The members of each group declared equal lists, and these are of regions that were written."""
    members = {}
    for part in parts:
        for group in part.index.root.groups:
            members.setdefault(group.id, []).append(group)
            check_declared(group, part, tensors)
    for group_id, found in members.items():
        lists = {(group.count, group.digest, group.entry_count) for group in found}
        require(len(lists) == 1, f"group {group_id:#x}: its members declared different lists", MismatchError)
        whole = sorted(g.index for g in found) == list(range(found[0].count))
        require(whole, f"group {group_id:#x}: members missing", MismatchError)


def check_declared(group, part, tensors):
    """A list may lack entries at its end, and then its digest says nothing."""
    where, data, at, order = f"{part.where}: group {group.id:#x}", part.decoded([group.list], 1), 0, []
    try:
        while at < len(data):
            size, dtype, kind, ndim = struct.unpack_from("<QHBB", data, at)
            kind, flags = kind & 3, kind & ~3
            require(flags & ~(16 | 32 | 64) == 0, f"{where}: flags {flags}")
            count = ndim + (0, 2 * ndim, 2)[kind]
            *values, length = struct.unpack_from(f"<{count}QI", data, at + 12)
            at += 16 + 8 * count + length
            name, shape, numbers = data[at - length:at], tuple(values[:ndim]), tuple(values[ndim:])
            at += 16 if flags & 16 else 0  # the digest of its values
            known, held = tensors.get(name, (None, None))
            require(known == (dtype, shape), f"{where}: {show(name)} is not in MANIFEST")
            expected = bytes_of(count_of(kind, numbers, shape), dtype % 256)
            require(size == expected, f"{where}: {show(name)}: {size} bytes, expected {expected}")
            require(size == 0 or (kind, numbers) in held, f"{where}: {show(name)}: {numbers} was not written")
            order.append((-size, name, kind, numbers, dtype, shape))
    except (struct.error, IndexError):
        raise FormatError(f"{where}: an entry ends early, or is of unknown kind") from None
    require(at == len(data), f"{where}: list of {len(data)} bytes, entries of {at}")
    require(order == sorted(order), f"{where}: regions out of order")
    complete = len(order) == group.entry_count and digest_of(data) == group.digest
    require(complete or len(order) < group.entry_count, f"{where}: {len(order)} entries, or the digest of the list")


# ---- a checkpoint ----

def base_name(record):
    return f"BASE_{record.save_id.hex()}_{record.rank:03d}"


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
        for record in self.manifest.parts:
            self.parts.append(self.open_part(record, f"PART_{record.rank:03d}"))
        self.bases = {identity_of(record): (record, self.open_part(record, base_name(record)))
                      for record in self.manifest.bases}
        for part in self.parts:
            part.take_bases(self.bases)
        self.tensors, self.aliases = self.index.targets, {alias.name: alias for alias in self.index.aliases}

    def open_part(self, record, name):
        with opened(os.path.join(self.path, name)) as data:
            return Part(data, record, self.summary, name)

    def check_used(self):
        told = Counter()
        for base in (base for part in self.parts for base in part.index.root.bases):
            told[identity_of(base.part)] += base.used
        for record, used in zip(self.manifest.bases, self.manifest.used):
            found = told[identity_of(record)]
            require(used == found, f"MANIFEST: {used} used bytes of {base_name(record)}, expected {found}")

    def verify(self):
        first = self.parts[0].index.summary
        bad = [field for field in FROM_PART_0 if first[field] != self.summary[field]]
        require(not bad, f"MANIFEST: {bad} differ from the summary of part 0")
        for part, copy in itertools.zip_longest(self.parts, self.manifest.copies):
            require(copy in (None, part.index.data), f"{part.where}: index differs from its copy", CorruptError)
        self.together = Together(self.parts)
        stated = dict(tensors=[(*t[:3], t.holding) for t in self.index.tensors], layouts=self.index.layouts,
                      objects=[(*o[:5], o.layout) for o in self.index.objects], aliases=self.index.aliases,
                      attrs=self.index.attrs)
        for column, rows in self.together.manifest().items():
            bad = next(((a, b) for a, b in itertools.zip_longest(stated[column], rows) if a != b), None)
            require(not bad, f"MANIFEST.{column}: {bad and bad[0]} differs from the parts: {bad and bad[1]}")
        check_groups(self.parts, self.together.tensors)
        self.check_used()
        for part in self.parts + [base for _, base in self.bases.values()]:
            part.verify()
        return self

    def tensor(self, name):
        """Row-major bytes of a tensor, or of what an alias names."""
        name = name.encode() if isinstance(name, str) else name
        alias = self.aliases.get(name)
        if alias:
            data, bits = self.tensor(alias.target), self.tensors[alias.target].dtype % 256
            return gather(data, bits, alias.view) if alias.view else data
        require(name in self.tensors, f"no tensor or alias {show(name)}", KeyError)
        (dtype, shape), held = self.together.tensors[name]
        bits = dtype % 256
        out = bytearray(bytes_of(prod(shape), bits))
        for region, segments in held.items():
            data = b"".join(part.decoded(s.chunks, s.codec, s.filter, s.width) for part, s in segments)
            if region[0] != 1:
                begin = region[1][0] * bits // 8 if region[1] else 0
                out[begin:begin + len(data)] = data
                continue
            at = 0
            for first, count in box_runs(*boxes_of(*region, shape)[0], shape):
                size = count * bits // 8
                out[first * bits // 8:first * bits // 8 + size] = data[at:at + size]
                at += size
        unused = len(out) * 8 - prod(shape) * bits
        require(not unused or out[-1] >> 8 - unused == 0, f"tensor {show(name)}: unused bits at its end are not zero")
        return bytes(out)

    def object(self, name, rank=0):
        """Bytes of a shared object (rank 0) or of one rank's."""
        name = name.encode() if isinstance(name, str) else name
        found = next(((p, o) for p, o in self.together.objects.get(name, ()) if p.rank == rank), None)
        require(found, f"no object {show(name)} of rank {rank}", KeyError)
        part, item = found
        data = part.decoded(item.chunks) if item.placement else item.inline
        sound = len(data) == item.size and digest_of(data) == item.digest
        require(sound, f"object {show(name)} of rank {rank} is damaged", CorruptError)
        return data

    def tree(self, name):
        """The tree that ranks make together under that name, as JSON's values."""
        def parsed(name):
            known = self.together.objects.get(name.encode(), ())
            return {part.rank: json.loads(self.object(name, part.rank)) for part, _ in known}
        return put_back(merge(list(parsed(name).values())), parsed(name + ".per_rank"))

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
            out["tensors"][name.decode()] = tensor(name, item.dtype, item.shape)
        for name, alias in self.aliases.items():
            target, view = self.tensors[alias.target], alias.view
            out["aliases"][name.decode()] = {
                **tensor(name, target.dtype, view[1] if view else target.shape), "target": alias.target.decode(),
                "view": view and dict(zip(("offset", "extents", "strides"), view))}
        for name, known in sorted(self.together.objects.items()):
            for part, item in known:
                out["objects"].append({
                    "name": name.decode(), "rank": part.rank if item.scope else None, "size": item.size,
                    "media_type": item.media_type.decode(),
                    "sha256": hashlib.sha256(self.object(name, part.rank)).hexdigest()})
            if known[0][1].scope == 2:
                out.setdefault("trees", {})[name.decode()] = self.tree(name.decode())
        tables = tables_of(self)
        return {**out, "tables": tables} if tables else out


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
