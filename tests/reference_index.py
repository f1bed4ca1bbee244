"""The index half of the reference reader: pages and root (FORMAT §4), checked as far as one index can tell.

The records come out of it free of where on a page they lie. What several indexes say together is the matter of
reference_reader.py.
"""
import re
from collections import Counter, namedtuple
from math import prod

from reference_elements import bytes_of, check_zero, count_of, digest_of
from reference_grammar import (LAYOUTS, NO_ID, PAGE, ROOT, Columns, CorruptError, RevisionError, UnsupportedError,
                               require, show, weight)

BLOCK = 4096  # size of a part's header; sizes of parts are multiples of it
MAX_NDIM = 16
MAX_CHUNK = 64 << 20
MAX_RATIO = 255  # of LZ4
MAX_TENSOR = (1 << 63) - 1
MAX_INLINE = 4096
FULL_PAGE = 65536
PARTS_PER_PAGE = 512
COUNTS = ("part_count", "tensor_count", "object_count", "part_bytes", "base_count", "base_bytes", "used_bytes")
HAS_BASES, HAS_RUNS = 1, 2  # the known bits of required_features
RUNS = b"ckpt.table.runs"
MAX_BASES = 65535
RESERVED = ("parity",)

# Records, free of where they lie. Of a layout: runs are (first part, count, stride). `home`: 0 is the part itself.
Chunk = namedtuple("Chunk", (*LAYOUTS["Chunk"].row._fields, "home"))
Tensor = namedtuple("Tensor", "name dtype shape regions holding")
Region = namedtuple("Region", "kind numbers segments")
Segment = namedtuple("Segment", "start count codec filter width chunks")
Object = namedtuple("Object", "name media_type size digest scope placement layout inline chunks")
Alias = namedtuple("Alias", "name target view")
Layout = namedtuple("Layout", "kind cells per_cell runs")


def up(number, multiple):
    return -(-number // multiple) * multiple


# ---- a page, FORMAT §4 ----

class Page:
    """The records of one page of MANIFEST (rank None) or of a part's index, checked as far as one page can tell."""

    def __init__(self, data, where, rank):
        self.columns, self.where, self.rank = Columns(data, b"CKPI", PAGE, where), where, rank
        rows, self.next, self.weights = self.columns, Counter(), Counter()
        reserved = [name for name in RESERVED if getattr(rows, name)]
        require(not reserved, f"{where}: {reserved} are reserved", UnsupportedError)
        own = rank is not None or not (rows.regions or rows.segments or rows.chunks)
        require(own, f"{where}: regions, segments and chunks belong to parts")
        legal = len(rows.homes) in (0, len(rows.chunks))
        require(legal, f"{where}: {len(rows.homes)} homes of {len(rows.chunks)} chunks")
        rows.chunks = [Chunk(*row, home) for row, home in zip(rows.chunks, rows.homes or [0] * len(rows.chunks))]
        wanted = len(rows.tensors) if rank is None else 0
        require(len(rows.holdings) == wanted, f"{where}: {len(rows.holdings)} holdings, expected {wanted}")
        self.tensors = [self.tensor(row, rows.holdings[i:i + 1]) for i, row in enumerate(rows.tensors)]
        self.objects = [self.object(row) for row in rows.objects]
        self.aliases = [self.alias(row) for row in rows.aliases]
        self.attrs = [self.attr(row) for row in rows.attrs]
        for column in ("regions", "segments", "chunks", "inline_data"):
            owned, all_of_them = self.next[column], len(getattr(rows, column))
            require(owned == all_of_them, f"{where}: {column} from {owned} to {all_of_them} have no owner")
        names = {item.name for item in self.tensors + self.aliases} | {b""}
        lost = next((attr.owner for attr in self.attrs if attr.owner not in names and rank is None), b"")
        require(not lost, f"{where}: attribute of {show(lost)}, which is not there")

    def begin(self, row, name, where):
        """Whatever is read from now on counts as this name's."""
        self.owner = name
        self.weigh([row])
        if where:
            self.check_name(name, 4096, where)
            require(b".." not in name.split(b"/"), f"{where}: path element '..' in {show(name)}")

    def check_name(self, name, limit, where):
        require(1 <= len(name) <= limit, f"{where}: name of {len(name)} bytes, expected 1 to {limit}")
        require(not re.search(rb"[\x00-\x1f\x7f]", name), f"{where}: control character in {show(name)}")

    def weigh(self, rows):
        self.weights[self.owner] += sum(map(weight, rows))

    def numbers(self, first, count, where):
        self.weights[self.owner] += 8 * count
        return self.columns.numbers_at(first, count, where)

    def take(self, column, first, count, where):
        """Ranges follow each other in the order of their owners; an empty one stands where it would begin."""
        at, rows = self.next[column], getattr(self.columns, column)
        require(first == at, f"{where}: {column} begin at {first}, expected {at}")
        require(first + count <= len(rows), f"{where}: {column} {first}+{count} of {len(rows)}")
        self.next[column] += count
        return rows[first:first + count]

    def tensor(self, row, holding):
        where, bits = f"{self.where}: tensor {show(row.name)}", row.dtype % 256
        self.begin(row, row.name, where)
        self.weigh(holding)
        require(row.ndim <= MAX_NDIM, f"{where}: {row.ndim} dimensions, at most {MAX_NDIM}")
        require(bits > 0, f"{where}: elements of 0 bits")
        shape = self.numbers(row.shape, row.ndim, where)
        require(all(extent <= MAX_TENSOR for extent in shape), f"{where}: an extent beyond 2^63 - 1")
        check_large(shape, bits, where)
        regions = [self.region(region, shape, bits, where)
                   for region in self.take("regions", row.region_first, row.region_count, where)]
        keys = [region[:2] for region in regions]
        require(all(a < b for a, b in zip(keys, keys[1:])), f"{where}: regions out of order")
        alone = len(regions) == 1 or all(region.kind != 3 for region in regions)
        require(alone, f"{where}: another region beside rows")
        return Tensor(row.name, row.dtype, shape, regions, *holding or [None])

    def region(self, row, shape, bits, where):
        self.weigh([row])
        require(row.kind <= 3, f"{where}: region of kind {row.kind}")
        require(row.kind in (1, 2) or row.geometry == 0, f"{where}: the whole tensor, with geometry {row.geometry}")
        numbers = self.numbers(row.geometry, (0, 2 * len(shape), 2, 0)[row.kind], where)
        if row.kind == 2:
            end = sum(numbers)
            inside = end <= prod(shape)
            aligned = numbers[:1] if end == prod(shape) else numbers
        else:
            inner = [numbers[:len(shape)], numbers[len(shape):], shape] if row.kind == 1 else []
            inside = all(o + e <= s for o, e, s in zip(*inner))
            aligned = [extents[-1] for extents in inner if extents]
        if row.kind == 3:
            require(shape, f"{where}: rows of a scalar")
            aligned = [prod(shape[1:])]
        require(inside, f"{where}: region {numbers} of {shape}")
        count = count_of(row.kind, numbers, shape)
        require(count > 0, f"{where}: empty region {numbers}")
        told = row.kind in (0, 3) or count < prod(shape)
        require(told, f"{where}: region {numbers} is all of it, but of kind {row.kind}")
        require(all(number * bits % 8 == 0 for number in aligned), f"{where}: region {numbers} is not of whole bytes")
        require(row.segment_count > 0, f"{where}: region {numbers} without a segment")
        segments, at = [], 0
        for segment in self.take("segments", row.segment_first, row.segment_count, where):
            segments.append(self.segment(segment, count, bits, where))
            require(segment.start >= at, f"{where}: segment at {segment.start}, expected from {at} on")
            require(row.kind != 3 or segment.start == at, f"{where}: rows from {at} to {segment.start} are not there")
            at = segment.start + segment.count
        require(row.kind != 3 or at == count, f"{where}: {at} of {count} elements of rows")
        return Region(row.kind, numbers, segments)

    def segment(self, row, elements, bits, where):
        self.weigh([row])
        end = row.start + row.count
        where = f"{where}: segment {row.start}+{row.count}"
        require(row.count > 0 and end <= elements, f"{where} of {elements} elements")
        whole = row.start * bits % 8 == 0 and (end == elements or end * bits % 8 == 0)
        require(whole, f"{where} is not of whole bytes")
        require(row.codec <= 1 and row.filter <= 2, f"{where}: unknown codec or filter", UnsupportedError)
        require(row.filter_width in ((1, 2, 4, 8) if row.filter else (0,)),
                f"{where}: filter {row.filter} of width {row.filter_width}")
        chunks = self.chunks(row, bytes_of(row.count, bits), row.codec == 0, where)
        sizes, unit = [chunk.raw_size for chunk in chunks], bits // 8 if bits % 8 == 0 else 1
        require(len(set(sizes[:-1])) <= 1 and sizes[-1] <= sizes[0], f"{where}: chunks of unequal sizes")
        require(all(size % unit == 0 for size in sizes), f"{where}: a chunk ends in an element")
        return Segment(row.start, row.count, row.codec, row.filter, row.filter_width, chunks)

    def chunks(self, row, total, raw, where):
        chunks = self.take("chunks", row.chunk_first, row.chunk_count, where)
        self.weigh(chunks)
        size = sum(chunk.raw_size for chunk in chunks)
        require(size == total, f"{where}: chunks of {size} bytes in all, expected {total}")
        for chunk in chunks:
            check_chunk(chunk, raw, where)
        return chunks

    def object(self, row):
        where = f"{self.where}: object {show(row.name)}"
        self.begin(row, row.name, where)
        require(row.scope <= 2, f"{where}: scope {row.scope}")
        legal = (3,) if self.rank is None else (0, 1) if row.scope or self.rank == 0 else (2,)
        require(row.placement in legal, f"{where}: placement {row.placement}, expected one of {legal}")
        require(self.rank is None or row.layout == 0, f"{where}: layout {row.layout}, expected 0")
        zero = self.rank is not None or row.scope == 0 or row.size == 0 and row.digest == NO_ID
        require(zero, f"{where}: size and digest, but it is of each rank")
        size = row.size if row.placement == 0 else 0
        require(size <= MAX_INLINE, f"{where}: {size} inline bytes, at most {MAX_INLINE}")
        inline = self.take("inline_data", row.inline_offset, size, where)
        self.weights[self.owner] += size
        legal = (row.placement == 1) == (row.chunk_count > 0) and b"\0" not in row.media_type
        require(legal, f"{where}: placement {row.placement} with {row.chunk_count} chunks, or type with NUL")
        chunks = self.chunks(row, row.size if row.placement == 1 else 0, True, where)
        return Object(*row[:6], row.layout, inline, chunks)

    def alias(self, row):
        where = f"{self.where}: alias {show(row.name)}"
        self.begin(row, row.name, where)
        require(row.is_view <= 1 and row.ndim <= MAX_NDIM, f"{where}: is_view {row.is_view}, ndim {row.ndim}")
        require(row.is_view or row.view == row.ndim == 0, f"{where}: numbers without a view")
        if not row.is_view:
            return Alias(row.name, row.target, None)
        numbers = self.numbers(row.view, 1 + 2 * row.ndim, where)
        require(all(number <= MAX_TENSOR for number in numbers), f"{where}: a number of its view beyond 2^63 - 1")
        return Alias(row.name, row.target, (numbers[0], numbers[1:1 + row.ndim], numbers[1 + row.ndim:]))

    def attr(self, row):
        where = f"{self.where}: attribute {show(row.key)} of {show(row.owner)}"
        self.begin(row, row.owner, where if row.owner else None)
        self.check_name(row.key, 255, where)
        legal = len(row.value) <= 1 << 20 and b"\0" not in row.value
        require(legal, f"{where}: value of {len(row.value)} bytes, or with NUL")
        return row


def check_large(shape, bits, where):
    large = max(prod(shape), bytes_of(prod(shape), bits)) > MAX_TENSOR
    require(not large, f"{where}: larger than 2^63 - 1 elements or bytes")


def check_chunk(chunk, raw, where):
    sizes = chunk.raw_size // MAX_RATIO <= chunk.stored_size <= chunk.raw_size <= MAX_CHUNK and chunk.stored_size > 0
    legal = sizes and (chunk.stored_size == chunk.raw_size or not raw)
    require(legal, f"{where}: {chunk.stored_size} stored bytes for {chunk.raw_size}")


def check_spans(chunks, end, where):
    """Chunks lie between the header and `end`, none over another."""
    at = BLOCK
    for chunk in sorted(chunks):
        require(chunk.offset >= at, f"{where}: chunk at {chunk.offset}, the bytes before {at} are taken")
        at = chunk.offset + chunk.stored_size
    require(at <= end, f"{where}: chunks end at {at}, limit {end}")


def identity_of(part):
    """The order of bases."""
    return int.from_bytes(part.save_id[:8], "little"), int.from_bytes(part.save_id[8:], "little"), part.rank


def check_part(part, where):
    require(part.size % BLOCK == 0, f"{where}: size {part.size}")
    require(part.index_offset % 64 == 0 and BLOCK <= part.index_offset
            and part.index_offset + part.index_size <= part.size - 72,
            f"{where}: index at {part.index_offset}+{part.index_size}, size {part.size}")


def check_bases(bases, save_id, where):
    """Records of kind 1: in their order, of other checkpoints."""
    for number, base in enumerate(bases, 1):
        name = f"{where}: base {number}"
        require(base.kind == 1 and base.copy_offset == 0, f"{name}: kind {base.kind}, a copy at {base.copy_offset}")
        require(base.save_id != save_id, f"{name}: of the checkpoint itself")
        check_part(base, name)
    order = [identity_of(base) for base in bases]
    require(all(a < b for a, b in zip(order, order[1:])), f"{where}: bases out of order")


# ---- an index, FORMAT §4 ----

class Index:
    """Root and pages, each checked: of MANIFEST, or of the part of a `Part` record."""

    def __init__(self, data, root_size, root_digest, where, part=None):
        self.data, self.where, self.rank = data, where, part and part.rank
        begin = len(data) - root_size
        require(begin >= 0 and begin % 64 == 0, f"{where}: root of {root_size} bytes in an index of {len(data)}")
        require(digest_of(data[begin:]) == root_digest, f"{where}: digest of the root does not match", CorruptError)
        self.root = root = Columns(data[begin:], b"CKPR", ROOT, f"{where}.root")
        self.summary, features = root.summary, root.summary["required_features"]
        known = HAS_BASES | HAS_RUNS
        require(features & ~known == 0, f"{where}: required features {features:#x}, known: {known:#x}", RevisionError)
        some = self.summary["base_count"] if part is None else root.bases
        require(bool(some) == bool(features & HAS_BASES), f"{where}: features {features:#x}, bases {bool(some)}")
        self.pages, end = [], 0
        for number, ref in enumerate(root.pages + root.part_pages):
            name, at = f"{where}.page {number}", end
            require(ref.offset == up(end, 64), f"{name}: at {ref.offset}, expected {up(end, 64)}")
            end = ref.offset + ref.size
            require(end <= begin, f"{name}: {ref.size} bytes at {ref.offset}, the root begins at {begin}")
            check_zero(data, at, ref.offset, name)
            page = data[ref.offset:end]
            require(digest_of(page) == ref.digest, f"{name}: digest does not match", CorruptError)
            self.pages.append(Page(page, name, self.rank))
        require(up(end, 64) == begin, f"{where}: pages end at {end}, and the root begins at {begin}")
        check_zero(data, end, begin, where)
        self.part_pages, self.pages = self.pages[len(root.pages):], self.pages[:len(root.pages)]
        for column in ("tensors", "objects", "aliases", "attrs"):
            setattr(self, column, [record for page in self.pages for record in getattr(page, column)])
        some = [attr for attr in self.attrs if attr.key == RUNS]
        require(bool(some) == bool(features & HAS_RUNS), f"{where}: features {features:#x}, runs {bool(some)}")
        self.check_names()
        self.check_views()
        if part is None:
            self.check_layouts()
            self.check_holdings()
            self.check_pages()
            self.check_part_pages()
        else:
            self.check_pages()
            self.check_own_index(part)

    def check_names(self):
        for column, key in (("tensors", 1), ("objects", 1), ("aliases", 1), ("attrs", 2)):
            keys = [record[:key] for record in getattr(self, column)]
            bad = next((b for a, b in zip(keys, keys[1:]) if a >= b), None)
            require(bad is None, f"{self.where}.{column}: {bad!r} is out of order or there twice")
        self.targets = {tensor.name: tensor for tensor in self.tensors}
        both = next((alias.name for alias in self.aliases if alias.name in self.targets), None)
        require(both is None, f"{self.where}: alias {both!r}: a tensor has that name")

    def check_views(self):
        for alias in self.aliases:
            where, target = f"{self.where}: alias {show(alias.name)}", self.targets.get(alias.target)
            require(target or self.rank is not None, f"{where}: no tensor {show(alias.target)}")
            if alias.view and self.rank is None:
                check_large(alias.view[1], target.dtype % 256, where)
            # A part may have only some rows of the target.
            if alias.view and self.rank is None and 0 not in alias.view[1]:
                last = alias.view[0] + sum((e - 1) * s for e, s in zip(*alias.view[1:]))
                require(last < prod(target.shape), f"{where}: element {last} of {prod(target.shape)}")

    def check_layouts(self):
        at, self.layouts = 0, []
        for number, row in enumerate(self.root.layouts):
            where, parts = f"{self.where}: layout {number}", 0
            require(row.run_first == at, f"{where}: runs begin at {row.run_first}, expected {at}")
            runs, at = self.root.runs[at:at + row.run_count], at + row.run_count
            require(len(runs) == row.run_count, f"{where}: {row.run_count} runs, {len(runs)} are there")
            last, ascending = -1, True
            for run in runs:
                ascending = ascending and last < run.first and (run.count == 1 or run.stride > 0)
                last = run.first + (run.count - 1) * run.stride
                require(run.count >= 1 and max(run.first, last) < self.summary["world_size"] and last >= 0,
                        f"{where}: parts {run.first} to {last} in a world of {self.summary['world_size']}")
                parts += run.count
            cells = self.root.numbers_at(row.cells, row.ndim, where)
            require(row.kind <= 2, f"{where}: kind {row.kind}")
            legal = cells and all(cells) if row.kind == 1 else ascending and row.cells == row.ndim == 0
            require(row.kind != 2 or row.per_cell > 0, f"{where}: rows of no part")
            require(legal, f"{where}: cells {cells}, or parts of a list that do not ascend")
            require(row.per_cell <= self.summary["world_size"], f"{where}: {row.per_cell} parts for each cell")
            require(parts == row.per_cell * prod(cells), f"{where}: {parts} parts, {row.per_cell} for each of {cells}")
            self.layouts.append(Layout(row.kind, cells, row.per_cell, tuple(map(tuple, runs))))
        require(at == len(self.root.runs), f"{self.where}: run {at} has no owner")

    def check_holdings(self):
        for tensor in self.tensors:
            where, layout = f"{self.where}: tensor {show(tensor.name)}", self.layout(tensor.holding.layout)
            empty_cell = any((m - 1) * -(-e // m) >= e for e, m in zip(tensor.shape, layout.cells))
            require(layout.kind != 1 or len(layout.cells) == len(tensor.shape) and not empty_cell,
                    f"{where}: of shape {tensor.shape}, with cells {layout.cells}")
            legal = layout.kind != 2 or tensor.shape and tensor.shape[0] >= layout.per_cell
            require(legal, f"{where}: of shape {tensor.shape}, with rows in {layout.per_cell} parts")
            require((layout.per_cell > 0) == (prod(tensor.shape) > 0), f"{where}: {layout.per_cell} parts hold it")
        for item in self.objects:
            layout = self.layout(item.layout)
            legal = layout.kind == 0 and layout.per_cell > 0 and (item.scope or layout.runs == ((0, 1, 0),))
            require(legal, f"{self.where}: object {show(item.name)}: layout {layout}")

    def layout(self, number):
        require(number < len(self.layouts), f"{self.where}: layout {number} of {len(self.layouts)}")
        return self.layouts[number]

    def check_pages(self):
        """Each page has the names that it says, and as many of them as fit (FORMAT §6)."""
        require(self.pages, f"{self.where}: no pages")
        names = objects = size = 0
        last = b""
        for number, (page, ref) in enumerate(zip(self.pages, self.root.pages)):
            owners, where = sorted(page.weights) or [b""], page.where
            before = ref.name_first, ref.object_first
            require(before == (names, objects), f"{where}: {before} names, objects before, expected {names, objects}")
            require(ref.first == (owners[0] if number else b""), f"{where}: first name {show(ref.first)}")
            require(number == 0 or last < ref.first, f"{where}: {show(ref.first)} after {show(last)}")
            require(number == 0 or size + page.weights[ref.first] > FULL_PAGE, f"{where}: begins too early")
            last, size = owners[-1], page.weights.total()
            require(size <= FULL_PAGE or len(owners) == 1, f"{where}: {size} bytes of {len(owners)} names")
            names += len(page.tensors) + len(page.aliases)
            objects += sum(1 if self.rank is not None else self.layout(o.layout).per_cell for o in page.objects)
            strange = page.columns.parts or page.columns.used
            require(not strange, f"{where}: parts belong to pages of their own in MANIFEST")
        require(self.root.name_count == names, f"{self.where}: {self.root.name_count} names, expected {names}")
        self.object_count = objects

    def check_part_pages(self):
        """In MANIFEST: pages of parts, and no groups."""
        full, pages = self.root.parts_per_page, self.part_pages
        for page in pages:
            legal = len(page.columns.used) in (0, len(page.columns.parts))
            require(legal, f"{page.where}: {len(page.columns.used)} used for {len(page.columns.parts)} parts")
        self.parts = [part for page in pages for part in page.columns.parts]
        self.used = [used for page in pages for used in page.columns.used or [0] * len(page.columns.parts)]
        require(full == PARTS_PER_PAGE, f"{self.where}: {full} parts for each page, expected {PARTS_PER_PAGE}")
        for number, (page, ref) in enumerate(zip(pages, self.root.part_pages)):
            require((ref.first, ref.name_first, ref.object_first) == (b"", 0, 0), f"{page.where}: a name before parts")
            others = page.weights or page.columns.homes
            only_parts = not others and page.columns.parts == self.parts[number * full:][:full]
            require(only_parts and page.columns.parts, f"{page.where}: not {full} parts, or other records")
        require(not (self.root.groups or self.root.bases), f"{self.where}: groups, bases belong to a part's index")

    def check_own_index(self, part):
        """In a part's index: nothing of MANIFEST, chunks that do not overlap, groups."""
        root, where = self.root, self.where
        require(not (root.layouts or root.runs or root.part_pages), f"{where}: layouts or parts belong to MANIFEST")
        counted = [field for field in COUNTS if self.summary[field]]
        require(not counted, f"{where}: {counted} must be 0 in a part's index")
        root.groups = [group._replace(list=Chunk(*group.list, 0)) for group in root.groups]
        for group in root.groups:
            name = f"{where}: group {group.id:#x}"
            require(group.count > 1 and group.index < group.count, f"{name}: member {group.index} of {group.count}")
            check_chunk(group.list, False, name)
        chunks = [group.list for group in root.groups]
        chunks += [chunk for page in self.pages for chunk in page.columns.chunks]
        self.chunks, self.based = ([c for c in chunks if bool(c.home) == elsewhere] for elsewhere in (False, True))
        check_spans(self.chunks, part.index_offset, where)
        self.check_own_bases()

    def check_own_bases(self):
        bases, used = self.root.bases, Counter()
        require(len(bases) <= MAX_BASES, f"{self.where}: {len(bases)} bases")
        check_bases([base.part for base in bases], self.summary["save_id"], self.where)
        for chunk in self.based:
            require(chunk.home <= len(bases), f"{self.where}: a chunk in base {chunk.home} of {len(bases)}")
            check_spans([chunk], bases[chunk.home - 1].part.index_offset, f"{self.where}: base {chunk.home}")
            used[chunk.home] += chunk.stored_size
        for number, base in enumerate(bases, 1):
            require(base.used == used[number], f"{self.where}: base {number}: used {base.used}, not {used[number]}")
