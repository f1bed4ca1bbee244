#!/usr/bin/env python3
"""seeds.py GOLDEN CORPUS: makes seed inputs for the fuzzers from the checkpoints in GOLDEN (tests/golden/r0), and
for the tree fuzzer from every kind of node."""
import os
import pickle
import struct
import sys


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def write(data, *path):
    os.makedirs(os.path.join(*path[:-1]), exist_ok=True)
    with open(os.path.join(*path), "wb") as file:
        file.write(data)


TREES = {
    "scalars": r'[null,true,false,0,-1,9223372036854775807,18446744073709551616,1.0,-0.0,1e300,'
               r'"a\u0000\n\ud83d\ude00"]',
    "kinds": '{"t":{"$":"tensor","name":"a/b"},"u":{"$":"tuple","items":[1,{"$":"set","items":[2]}]},'
             '"d":{"$":"dict","items":[[0,1],["0",[]],["$",{}]]},"f":{"$":"float","value":"-inf"},'
             '"i":{"$":"int","value":"-99999999999999999999"},"b":{"$":"bytes","base64":"AP8="}}',
    "records": '{"$":"record","class":"collections.OrderedDict","items":{"items":{"w":{"$":"record","class":'
               '"torch.nn.parameter.Parameter","items":{"data":{"$":"tensor","name":"w"},"requires_grad":true}}},'
               '"$":null}}',
    "deep": '[{"a":' * 100 + "0" + "}]" * 100,
}


def write_pickles(corpus):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
    import pickles
    for protocol in range(6):
        write(pickle.dumps(pickles.sample(), protocol), corpus, "pickle", f"protocol{protocol}.seed")
    tensor = (b"\x80\x02}q\x00X\x01\x00\x00\x00wq\x01ctorch._utils\n_rebuild_tensor_v2\nq\x02((X\x07\x00\x00\x00storage"
              b"q\x03ctorch\nFloatStorage\nq\x04X\x01\x00\x00\x000q\x05X\x03\x00\x00\x00cpuq\x06K\x04tq\x07QK\x00"
              b"K\x02K\x02\x86q\x08K\x02K\x01\x86q\x09\x89ccollections\nOrderedDict\nq\x0a)Rq\x0btq\x0cRq\x0ds.")
    write(tensor, corpus, "pickle", "tensor.seed")
    write(b"(S'id'\nios\nsystem\n.", corpus, "pickle", "system.seed")
    write(
        b"cmy\nC\n)\x81K\x01a}(K\x01K\x02ub(cmy\nC\nK\x03icopy_reg\n__newobj__\nPid\n\x87.", corpus,
        "pickle", "objects.seed")


def main():
    golden, corpus = sys.argv[1:]
    write_pickles(corpus)
    for name, text in TREES.items():
        write(text.encode(), corpus, "tree", f"{name}.seed")
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
