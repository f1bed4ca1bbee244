"""The element half of the reference reader: geometry, dtypes, codecs, filters and digests (FORMAT §4 and §5).

Pure functions of bytes and numbers; LZ4 blocks and both filters are decoded here, slowly and without a library.
"""
import itertools
import re
from math import prod
from pathlib import Path

import xxhash

from reference_grammar import CorruptError, FormatError, UnsupportedError, require

MAX_IN_MEMORY = 1 << 32  # of this program, not of the format: a view may repeat one element 2^60 times


# ---- elements and geometry, FORMAT §4 and §5 ----

def dtypes_of(page):
    """code -> (the name, the widths that it has), from the table of FORMAT §5."""
    table = page.partition("| code | bits | dtype |")[2].partition("\n\n")[0]
    names = {"signed integer": "i{}", "unsigned integer": "u{}", "IEEE float": "f{}", "bfloat16": "bf{}",
             "complex": "c{}", "bool": "bool"}
    for code, bits, words in re.findall(r"\| (\d+) \| ([\d ]+?) \| ([^|(]+?) (?=[|(])", table):
        yield int(code), (names.get(words, words.replace("float", "f").replace(" ", "_")), [*map(int, bits.split())])


DTYPES = dict(dtypes_of((Path(__file__).resolve().parents[1] / "schemas" / "FORMAT.md").read_text()))


def dtype_name(dtype):
    code, bits = divmod(dtype, 256)
    name, widths = DTYPES.get(code, ("", ()))
    return name.format(bits) if bits in widths else f"opaque{code}_{bits}"


def bytes_of(elements, bits):
    return (elements * bits + 7) // 8


def flat_as_boxes(start, stop, shape):
    """The boxes, at most 2 ndim − 1, that make up the elements [start, stop) in row-major order."""
    if start >= stop:
        return []
    if not shape:
        return [((), ())]
    row = prod(shape[1:])
    (first, head), (last, tail) = divmod(start, row), divmod(stop, row)

    def within(index, low, high):
        return [((index, *offset), (1, *extent)) for offset, extent in flat_as_boxes(low, high, shape[1:])]
    if first == last:
        return within(first, head, tail)
    boxes = within(first, head, row) if head else []
    first += head > 0
    if last > first:
        boxes.append(((first, *(0 for _ in shape[1:])), (last - first, *shape[1:])))
    return boxes + within(last, 0, tail)


def boxes_of(kind, numbers, shape):
    """The boxes (offset, extent) that a region is made of."""
    if kind == 2:
        return flat_as_boxes(numbers[0], sum(numbers), shape)
    return [(numbers[:len(shape)], numbers[len(shape):]) if kind else ((0,) * len(shape), shape)]


def count_of(kind, numbers, shape):
    """Elements of a region."""
    return numbers[1] if kind == 2 else prod(numbers[len(shape):] if kind == 1 else shape)


def grid_of(boxes, shape):
    """The counts of cells along each dimension if `boxes` are the cells of a grid, of more than one; else None."""
    size = min(boxes)[1]
    counts = tuple(-(-extent // cell) for extent, cell in zip(shape, size))
    if len(boxes) < 2 or prod(counts) != len(boxes) or any(-(-e // m) != c for e, m, c in zip(shape, counts, size)):
        return None
    offsets = [tuple(k * c for k, c in zip(at, size)) for at in itertools.product(*map(range, counts))]
    cells = {(offset, tuple(min(c, e - o) for o, c, e in zip(offset, size, shape))) for offset in offsets}
    return counts if cells == set(boxes) else None


def disjoint(boxes):
    """A sweep along the dimension in which the boxes differ most."""
    ndim = len(boxes[0][0])
    if ndim == 0:
        return len(boxes) == 1
    axis = max(range(ndim), key=lambda k: len({offset[k] for offset, _ in boxes}))
    active = []
    for box in sorted(boxes, key=lambda b: b[0][axis]):
        active = [other for other in active if other[0][axis] + other[1][axis] > box[0][axis]]
        if any(all(a < c + d and c < a + b for a, b, c, d in zip(*box, *other)) for other in active):
            return False
        active.append(box)
    return True


def box_runs(offset, extent, shape):
    """(first element in the tensor, count) of each contiguous run of a box, in the box's row-major order."""
    outer = len(shape)
    while outer and extent[outer:] == shape[outer:]:
        outer -= 1
    strides = [prod(shape[k + 1:]) for k in range(len(shape))]
    base = sum(o * s for o, s in zip(offset, strides))
    for at in itertools.product(*(range(e) for e in extent[:outer])):
        yield base + sum(a * s for a, s in zip(at, strides)), prod(extent[outer:])


def gather(data, bits, view):
    """The elements of a view as row-major bytes."""
    offset, extents, strides = view
    require(bytes_of(prod(extents), bits) <= MAX_IN_MEMORY, "view too large for this reader", UnsupportedError)
    if 0 in extents:
        return b""
    out, pending, held = bytearray(), 0, 0
    for at in itertools.product(*(range(e) for e in extents)):
        bit = (offset + sum(a * s for a, s in zip(at, strides))) * bits
        covering = int.from_bytes(data[bit // 8:(bit + bits + 7) // 8], "little")
        pending |= (covering >> bit % 8 & (1 << bits) - 1) << held
        held += bits
        out += (pending & (1 << held // 8 * 8) - 1).to_bytes(held // 8, "little")
        pending, held = pending >> held // 8 * 8, held % 8
    return bytes(out) + (bytes([pending]) if held else b"")


# ---- codecs and filters, FORMAT §5 ----

def lz4_block(data, raw_size):
    out, at = bytearray(), 0

    def more(length):
        nonlocal at
        if length == 15:
            while True:
                length, at = length + data[at], at + 1
                if data[at - 1] != 255:
                    break
        return length
    try:
        while True:
            token, at = data[at], at + 1
            literals = more(token >> 4)
            require(at + literals <= len(data), "LZ4 literals beyond the block", FormatError)
            out += data[at:at + literals]
            at += literals
            if at == len(data):
                break
            distance, at = data[at] | data[at + 1] << 8, at + 2
            length = more(token & 15) + 4
            require(0 < distance <= len(out), f"LZ4 match {distance} bytes back at {len(out)}", FormatError)
            require(len(out) + length <= raw_size, "LZ4 block is longer than its raw size", FormatError)
            match = out[len(out) - distance:len(out) - distance + length]
            out += (match * (length // len(match) + 1))[:length]
    except IndexError:
        raise FormatError("LZ4 block ends early") from None
    require(len(out) == raw_size, f"LZ4 block of {len(out)} bytes, expected {raw_size}", FormatError)
    return bytes(out)


def unshuffle(data, width):
    count, out = len(data) // width, bytearray(data)
    for k in range(width):
        out[k:count * width:width] = data[k * count:(k + 1) * count]
    return bytes(out)


SPREAD = [bytes(byte >> bit & 1 for bit in range(8)) for byte in range(256)]  # bit i of a byte as the value of byte i


def unplane(data, width):
    plane_size = len(data) // (8 * width)
    count, out = 8 * plane_size, bytearray(data)
    for k in range(width if count else 0):
        total = 0
        for bit in range(8):
            plane = data[(8 * k + bit) * plane_size:(8 * k + bit + 1) * plane_size]
            total |= int.from_bytes(b"".join(map(SPREAD.__getitem__, plane)), "little") << bit
        out[k:count * width:width] = total.to_bytes(count, "little")
    return bytes(out)


def decode(stored, raw_size, codec, filter_kind, width):
    if codec == 0 or len(stored) == raw_size:
        return bytes(stored)
    data = lz4_block(stored, raw_size)
    return data if filter_kind == 0 else (unshuffle if filter_kind == 1 else unplane)(data, width)


def digest_of(data):
    return xxhash.xxh3_128_intdigest(data).to_bytes(16, "little")


def check_sum(data, expected, where):
    require(xxhash.xxh3_64_intdigest(data) == expected, f"{where}: checksum does not match", CorruptError)


def check_zero(data, begin, end, where):
    for at in range(begin, end, 1 << 20):
        piece = data[at:min(end, at + (1 << 20))]
        require(not any(piece) if len(piece) < 64 else piece.count(0) == len(piece),
                f"{where}: bytes {begin} to {end} are not all zero", CorruptError)
