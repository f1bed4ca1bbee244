#!/usr/bin/env python3
"""make_bad.py GOLDEN DIRECTORY: makes hostile checkpoints DIRECTORY/STATUS-what from the sound golden checkpoint `lz4`.

Their digests are right, unless the digest is what is broken, so that a reader gets as far as the broken rule.
If the reader must stop at MANIFEST, there are no parts. Run once; the results are committed.
"""
import os
import struct
import sys

import xxhash

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from reference_grammar import LAYOUTS  # noqa: E402  (found by the path above)
from reference_reader import read_checkpoint  # noqa: E402


def digest(data):
    value = xxhash.xxh3_128_intdigest(bytes(data))
    return struct.pack("<QQ", value & (1 << 64) - 1, value >> 64)


def seal(file):
    """Recomputes the digests of a MANIFEST."""
    trailer = len(file) - 72
    index, summary = struct.unpack_from("<QQ", file, trailer)
    begin = (index + 7) // 8 * 8
    file[trailer + 16:trailer + 32] = digest(file[:index])
    file[trailer + 32:trailer + 48] = digest(file[begin:begin + summary])
    file[trailer + 64:] = struct.pack("<Q", xxhash.xxh3_64_intdigest(bytes(file[trailer:trailer + 64])))
    return file


def change(manifest, struct_name, row, **fields):
    """Replaces the one record of the MANIFEST that equals `row`."""
    packer = LAYOUTS[struct_name].packer
    flat = [part for value in row for part in (value if isinstance(value, tuple) else (value,))]
    before, after = packer.pack(*flat), packer.pack(*[part for value in row._replace(**fields) for part in
                                                      (value if isinstance(value, tuple) else (value,))])
    assert manifest.count(before) == 1, (struct_name, row)
    return seal(bytearray(manifest.replace(before, after)))


def numbers(manifest, before, after):
    before, after = struct.pack(f"<{len(before)}Q", *before), struct.pack(f"<{len(after)}Q", *after)
    assert manifest.count(before) == 1
    return seal(bytearray(manifest.replace(before, after)))


def cases(golden):
    with open(os.path.join(golden, "MANIFEST"), "rb") as file:
        manifest = file.read()
    with open(os.path.join(golden, "PART_000"), "rb") as file:
        part = file.read()
    index = read_checkpoint(golden).index
    chunk, segment, record = index.chunks[0], index.segments[0], index.parts[0]

    def flipped(data, at):
        return bytes(data[:at]) + bytes([data[at] ^ 1]) + bytes(data[at + 1:])
    newer = bytearray(manifest)
    newer[-72 + 52:-72 + 56] = struct.pack("<I", 1)
    yield "CORRUPT-chunk", manifest, flipped(part, chunk.offset + 5)
    yield "CORRUPT-manifest", flipped(manifest, 60), None
    yield "CORRUPT-padding", manifest, flipped(part, chunk.offset - 1)
    yield "FORMAT-chunk-beyond-its-part", change(manifest, "Chunk", chunk, offset=1 << 40), None
    yield "FORMAT-chunk-of-no-bytes", change(manifest, "Chunk", chunk, stored_size=0), None
    yield "FORMAT-chunk-too-large", change(manifest, "Chunk", chunk, raw_size=(64 << 20) + 4), None
    yield "FORMAT-empty-manifest", b"", None
    yield "FORMAT-filter-width", change(manifest, "Segment", segment, filter=2, filter_width=3), None
    yield "FORMAT-segment-of-no-part", change(manifest, "Segment", segment, part=1), None
    yield "FORMAT-shape-overflows", numbers(manifest, [40, 50, 0, 0, 40, 50], [1 << 62, 50, 0, 0, 40, 50]), None
    yield "FORMAT-shape-uncovered", numbers(manifest, [40, 50, 0, 0, 40, 50], [41, 50, 0, 0, 40, 50]), None
    yield "FORMAT-truncated-manifest", manifest[:-8], None
    yield "INCOMPLETE-part-missing", manifest, None
    yield "INCOMPLETE-part-short", manifest, part[:8192]
    yield "REVISION-newer", seal(newer), None
    yield "UNSUPPORTED-codec", change(manifest, "Segment", segment, codec=7), None
    yield "UNSUPPORTED-part-taken-over", change(manifest, "Part", record, kind=1), None


def main():
    for name, manifest, part in cases(sys.argv[1]):
        directory = os.path.join(sys.argv[2], name)
        os.makedirs(directory)
        for file_name, data in (("MANIFEST", manifest), ("PART_000", part)):
            if data is not None:
                with open(os.path.join(directory, file_name), "wb") as file:
                    file.write(data)


if __name__ == "__main__":
    main()
