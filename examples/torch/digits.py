#!/usr/bin/env python3
"""The trainer's data: 1797 handwritten digits of 8 x 8 pixels, as 65 bytes each (64 pixels from 0 to 16, the digit).

  digits.py extract WHEEL OUT   takes digits.csv.gz out of scikit-learn's wheel; nothing of the wheel is run
  digits.py make-up OUT         made-up images of the same number and shape: a fixed pattern for each digit, and noise

Only Python's own library is used.
"""
import gzip
import os
import random
import sys
import zipfile

COUNT, PIXELS = 1797, 64


def write(out, records):
    if len(records) != COUNT or any(len(record) != PIXELS + 1 for record in records):
        sys.exit(f"expected {COUNT} images of {PIXELS} pixels and a digit, found {len(records)}")
    with open(out + ".part", "wb") as file:
        file.writelines(records)
    os.replace(out + ".part", out)
    return f"{len(records)} images of 8 x 8 pixels"


def extract(wheel, out):
    with zipfile.ZipFile(wheel) as archive:
        lines = gzip.decompress(archive.read("sklearn/datasets/data/digits.csv.gz")).decode().split()
    return write(out, [bytes(map(int, line.split(","))) for line in lines])


def make_up(out):
    rng = random.Random(1)
    patterns = [[rng.choice((0, 0, 12)) for _ in range(PIXELS)] for _ in range(10)]
    records = []
    for _ in range(COUNT):
        digit = rng.randrange(10)
        noisy = [min(16, max(0, pixel + rng.randrange(-4, 5))) for pixel in patterns[digit]]
        records.append(bytes(noisy + [digit]))
    return write(out, records) + ", made up"


def main():
    commands = {"extract": extract, "make-up": make_up}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    print("  ", commands[sys.argv[1]](*sys.argv[2:]))


if __name__ == "__main__":
    main()
