#!/usr/bin/env python3
"""seeds.py GOLDEN CORPUS: makes seed inputs of the three fuzzers from the checkpoints in GOLDEN (tests/golden/r0)."""
import os
import struct
import sys


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def write(data, *path):
    os.makedirs(os.path.join(*path[:-1]), exist_ok=True)
    with open(os.path.join(*path), "wb") as file:
        file.write(data)


def main():
    golden, corpus = sys.argv[1:]
    for name in sorted(entry for entry in os.listdir(golden) if os.path.isdir(os.path.join(golden, entry))):
        manifest = read(golden, name, "MANIFEST")
        index = manifest[:struct.unpack_from("<Q", manifest, len(manifest) - 72)[0]]
        write(manifest, corpus, "manifest", f"{name}.slot.seed")
        write(index, corpus, "manifest", f"{name}.index.seed")
        for part_name in sorted(entry for entry in os.listdir(os.path.join(golden, name)) if entry.startswith("PART_")):
            part = read(golden, name, part_name)
            at, size = struct.unpack_from("<QQ", part, len(part) - 64)
            write(part[:80] + part[-64:] + part[at:at + size], corpus, "part", f"{name}.{part_name[-1]}.seed")
        data_end = struct.unpack_from("<Q", read(golden, name, "PART_000"), len(read(golden, name, "PART_000")) - 64)[0]
        data = read(golden, name, "PART_000")[4096:data_end]
        write(struct.pack("<H", len(index)) + index + data[:9000], corpus, "load", f"{name}.seed")


if __name__ == "__main__":
    main()
