#!/usr/bin/env python3
"""make_bad.py GOLDEN DIRECTORY: makes hostile checkpoints DIRECTORY/STATUS-what from the sound golden checkpoint `lz4`.

Their digests are right, unless the digest is what is broken, so that a reader gets as far as the broken rule.
If the reader must stop at MANIFEST, there are no parts. Run once; the results are committed.
FORMAT-view-extent and FORMAT-shared-object-of-another-rank were found by a fuzzer, in a checkpoint of three ranks.
"""
import os
import struct
import sys

import xxhash

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from reference_elements import digest_of  # noqa: E402  (found by the path above)
from reference_grammar import LAYOUTS  # noqa: E402
from reference_reader import read_checkpoint  # noqa: E402


def replaced(data, before, after):
    """Bytes for as many other bytes, which must be there once."""
    assert len(before) == len(after) and data.count(before) == 1, (before, after, data.count(before))
    return data.replace(before, after)


def row(record, **fields):
    """A record of a page or root without text, before and after a change of some fields."""
    layout = LAYOUTS[type(record).__name__]
    length = len(layout.row._fields)  # a chunk's home is in another column
    return layout.packer.pack(*record[:length]), layout.packer.pack(*record._replace(**fields)[:length])


def numbers(before, after):
    return struct.pack(f"<{len(before)}Q", *before), struct.pack(f"<{len(after)}Q", *after)


def summed(data):
    """The same trailer or file, its last 8 bytes the checksum of those of the trailer before them."""
    size = {b"CKPTMANI": 88, b"CKPTTAIL": 72}[bytes(data[-16:-8])]
    return data[:-8] + struct.pack("<Q", xxhash.xxh3_64_intdigest(data[-size:-8]))


class Sound:
    """A sound checkpoint of one part; each method returns (manifest, part) after a change, all digests right."""

    def __init__(self, golden):
        checkpoint = read_checkpoint(golden)
        self.index, self.own, self.record = checkpoint.index, checkpoint.parts[0].index, checkpoint.manifest.parts[0]
        with open(os.path.join(golden, "MANIFEST"), "rb") as file:
            self.manifest = file.read()
        with open(os.path.join(golden, "PART_000"), "rb") as file:
            self.part = file.read()

    @staticmethod
    def changed_index(data, root_size, refs, before, after):
        """The index with a change in that one of its pages which has these bytes."""
        root = data[-root_size:]
        for ref in refs:
            page = data[ref.offset:ref.offset + ref.size]
            if before in page:
                page = replaced(page, before, after)
                data = data[:ref.offset] + page + data[ref.offset + ref.size:]
                root = replaced(root, ref.digest, digest_of(page))
        return data[:-root_size] + root

    def in_manifest(self, before, after, manifest=None):
        manifest, part = manifest or self.manifest, self.part
        size, root_size = struct.unpack_from("<QQ", manifest, len(manifest) - 88)
        root = self.index.root
        index = self.changed_index(manifest[:size], root_size, root.pages + root.part_pages, before, after)
        assert index != manifest[:size]
        manifest = index + manifest[size:-88 + 32] + digest_of(index[-root_size:]) + manifest[-88 + 48:]
        return summed(manifest), part

    def in_part(self, before, after):
        begin, end = self.record.index_offset, self.record.index_offset + self.record.index_size
        index = self.changed_index(self.part[begin:end], self.record.root_size, self.own.root.pages, before, after)
        digest = digest_of(index[-self.record.root_size:])
        manifest = replaced(self.manifest, self.part[begin:end], index)
        manifest, _ = self.in_manifest(self.record.root_digest, digest, manifest)
        part = self.part[:begin] + index + self.part[end:]
        return manifest, summed(replaced(part, self.record.root_digest, digest))


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


def cases(golden):
    sound = Sound(golden)
    manifest, part, record = sound.manifest, sound.part, sound.record
    page, root = sound.own.pages[0].columns, sound.index.root
    chunk, segment, holding = page.chunks[0], page.segments[0], sound.index.pages[0].columns.holdings[0]
    before, same = (row(region)[0] for region in page.regions[:2])
    rows = before + same, before + row(page.regions[1], kind=3)[1]
    newer = bytearray(manifest)
    newer[-20:-16] = struct.pack("<I", 2)
    yield "CORRUPT-chunk", manifest, flipped(part, chunk.offset + 5)
    yield "CORRUPT-manifest", flipped(manifest, 60), None
    yield "CORRUPT-padding", manifest, flipped(part, chunk.offset - 1)
    yield "CORRUPT-page", manifest, flipped(part, record.index_offset + 60)
    yield "FORMAT-chunk-beyond-its-part", *sound.in_part(*row(chunk, offset=1 << 40))
    yield "FORMAT-chunk-of-no-bytes", *sound.in_part(*row(chunk, stored_size=0))
    yield "FORMAT-chunk-too-large", *sound.in_part(*row(chunk, raw_size=(64 << 20) + 4))
    yield "FORMAT-empty-manifest", b"", None
    yield "FORMAT-filter-width", *sound.in_part(*row(segment, filter=2, filter_width=3))
    yield "FORMAT-pad", *sound.in_part(*row(page.regions[0], pad2=256))
    yield "FORMAT-rows-in-a-list", *sound.in_part(*rows)
    yield "FORMAT-segment-beyond-its-region", *sound.in_part(*row(segment, start=1))
    yield "FORMAT-segment-missing-elements", *sound.in_part(*row(segment, chunk_count=0))
    yield "FORMAT-holding-of-no-layout", sound.in_manifest(*row(holding, layout=len(root.layouts)))[0], None
    yield "FORMAT-index-beyond-its-part", sound.in_manifest(*row(record, index_size=1 << 40))[0], None
    yield "FORMAT-shape-overflows", *sound.in_part(*numbers([40, 50], [1 << 62, 50]))
    yield "FORMAT-shape-uncovered", *sound.in_part(*numbers([40, 50], [41, 50]))
    yield "FORMAT-shape-of-manifest-differs", *sound.in_manifest(*numbers([40, 50], [50, 40]))
    yield "FORMAT-truncated-manifest", manifest[:-8], None
    yield "INCOMPLETE-part-missing", manifest, None
    yield "INCOMPLETE-part-short", manifest, part[:-4096]
    yield "REVISION-newer", summed(bytes(newer)), None
    yield "UNSUPPORTED-codec", *sound.in_part(*row(segment, codec=7))
    yield "FORMAT-part-taken-over", sound.in_manifest(*row(record, kind=1))[0], None


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
