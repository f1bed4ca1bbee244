#!/usr/bin/env python3
"""seeds.py GOLDEN CORPUS: makes seed inputs for the fuzzers from the checkpoints in GOLDEN (of make_golden), for the
tree fuzzer from every kind of node, and for those of several ranks' files from interop/tests/fixtures."""
import os
import pickle
import struct
import sys
import zipfile


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
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "interop", "tests"))
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


FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "interop", "tests", "fixtures")


def pickle_of(*path):
    with zipfile.ZipFile(os.path.join(FIXTURES, *path)) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith("/data.pkl")))


def write_files_of_ranks(corpus):
    """The first byte says which kind; the lengths of all pickles but the last are numbers of 16 bits before them."""
    def put(fuzzer, name, kind, pickles):
        lengths = struct.pack(f"<{len(pickles) - 1}H", *map(len, pickles[:-1]))
        write(bytes([kind]) + lengths + b"".join(pickles), corpus, fuzzer, f"{name}.seed")

    for name, file in [("sharded", "rank{}.pt"), ("dtensor", "state_rank{}.pt"), ("torch_legacy", "rank{}.pt")]:
        put("shards", name, 0, [pickle_of("ranks", name, file.format(rank)) for rank in range(2)])
    put("shards", "local", 1, [pickle_of("ranks", "local", part, f"rank{rank}.pt")
                               for part in ("model", "optim") for rank in range(2)])
    zero = ["mp_rank_00_model_states.pt"] + [f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in range(2)]
    zero3 = [f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt" for rank in range(2)] + zero[1:]
    for kind, name, files in [(0, "zero1", zero), (0, "zero2", zero), (1, "zero3", zero3)]:
        put("deepspeed", name, kind, [pickle_of("deepspeed", name, "global_step3", file) for file in files])
    universal = ["mp_rank_00_model_states.pt", "zero/optimizer_state.pt", "zero/hidden.weight/fp32.pt",
                 "zero/hidden.weight/exp_avg.pt"]
    put("deepspeed", "universal", 2, [pickle_of("deepspeed", "universal", "global_step3_universal", file)
                                      for file in universal])


def order_of(name):
    """Parts by rank, then bases as MANIFEST has them."""
    if name.startswith("PART_"):
        return (0, int(name[5:]))
    save = bytes.fromhex(name[5:37])
    return (1, *struct.unpack("<QQ", save), int(name[38:]))


def parts_of(directory):
    for name in sorted((entry for entry in os.listdir(directory) if entry[:5] in ("PART_", "BASE_")), key=order_of):
        part = read(directory, name)
        at, size, root = struct.unpack_from("<QQQ", part, len(part) - 72)
        yield part, at, size, root


def write_checkpoint(directory, corpus, name):
    """Seeds for the manifest, part and load fuzzers. `paged` is `sharded`, made by a library with a kPageBytes of 512
    (src/format/index_builder.cpp), so that few bytes make several pages."""
    manifest = read(directory, "MANIFEST")
    size, root_size = struct.unpack_from("<QQ", manifest, len(manifest) - 88)
    index = manifest[:size]
    write(manifest, corpus, "manifest", f"{name}.slot.seed")
    write(index[-root_size:], corpus, "manifest", f"{name}.root.seed")
    starts = [at for at in range(0, size - root_size, 64) if index[at + 4:at + 8] == b"CKPI"]
    for number, (at, end) in enumerate(zip(starts, starts[1:] + [size - root_size])):
        write(index[at:end], corpus, "manifest", f"{name}.page{number}.seed")
    sizes, bodies = [struct.pack("<HHH", size, root_size, 0)], [index]
    limit = {"compressed": 9000, "lz4": 9000, "tables": 60000}.get(name, 600)  # of data: what is not there is zeros
    for number, (part, at, part_size, part_root) in enumerate(parts_of(directory)):
        own = part[at:at + part_size]
        write(part[:80] + part[-72:] + own, corpus, "part", f"{name}.{number}.seed")
        data = part[4096:min(at, 4096 + limit)]
        sizes.append(struct.pack("<HHH", part_size, part_root, len(data)))
        bodies += [own, data]
    kinds = {"": 0, ".own": 1, ".large": 2, ".repair": 4}  # the flags of load_fuzz.cpp
    taken = {"paged": kinds, "reused": ["", ".repair"]}.get(name, [""])
    for kind, flags in ((kind, kinds[kind]) for kind in taken):
        head = struct.pack("<BB", flags, len(sizes) - 1)
        write(head + b"".join(sizes + bodies), corpus, "load", f"{name}{kind}.seed")


def main():
    golden, corpus = sys.argv[1:]
    write_pickles(corpus)
    write_files_of_ranks(corpus)
    for name, text in TREES.items():
        write(text.encode(), corpus, "tree", f"{name}.seed")
    for name in sorted(entry for entry in os.listdir(golden) if os.path.isdir(os.path.join(golden, entry))):
        if not name.startswith("."):
            write_checkpoint(os.path.join(golden, name), corpus, name)


if __name__ == "__main__":
    main()
