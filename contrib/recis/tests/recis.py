"""A checkpoint directory of RecIS, from what its sources say, without them, torch or safetensors.

recis.py forge DIR SHARDS   a run: DIR/checkpoint, DIR/ckpt_30
recis.py check DIR SHARDS   a run as RecIS' Loader reads it, on 1 to 5 workers: every row and state of `forge`
"""

import json
import os
import pickle
import struct
import sys
import zipfile

BUCKETS = 65536
KNOWN = {"BOOL": 1, "I8": 1, "U8": 1, "I16": 2, "I32": 4, "I64": 8, "F16": 2, "BF16": 2, "F32": 4, "F64": 8}
SLOTS = {"embedding": ("F32", [6]), "sparse_adam_exp_avg": ("F32", [6]), "sparse_adam_exp_avg_sq": ("BF16", [6]),
         "step_filter": ("I64", [1]), "flag": ("bool", [1])}
TABLES = {"user.profile.emb": [-5, -1, 0, 2**63 - 1, -(2**63), *range(11, 400_000_000_000, 1_234_567_891)],
          "none": [], "item": list(range(40, 60))}


def size(dtype, shape):
    count = KNOWN[dtype.upper()]
    for extent in shape:
        count *= extent
    return count


def row(name, slot, number):
    """The bytes of a row, by its table, slot and id."""
    dtype, shape = SLOTS[slot]
    first = sum(f"{name} {slot} {number}".encode())
    return bytes((first + i) % (2 if dtype == "bool" else 251) for i in range(size(dtype, shape)))


def gen_slice(shard, shards):
    each, rest = divmod(BUCKETS, shards)
    begin = shard * each + min(shard, rest)
    return begin, begin + each + (shard < rest)


def home(number, begin, end):
    return begin <= number % 2**64 % BUCKETS < end


def save_zip(path, value):
    """torch.save of what has no tensor."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(value, 2))
        archive.writestr("archive/version", "3\n")


def forge(run, shards):
    threads = 3
    folder = os.path.join(run, "ckpt_30")
    os.makedirs(folder)
    files, blocks, keys = {}, {}, {}
    for shard in range(shards):
        begin, end = gen_slice(shard, shards)
        tables = [[] for _ in range(threads)]
        next_table = 0

        def add(name, dtype, shape, data, shard=shard, tables=tables):
            nonlocal next_table
            tables[next_table % threads].append((name, dtype, shape, data))
            blocks[name] = f"model-{shard * threads + next_table % threads:06}-of-{shards * threads:06}.safetensors"
            next_table += 1

        for name, ids in TABLES.items():
            own = [number for number in ids if home(number, begin, end)]
            for slot in ["id", *SLOTS]:
                block = f"{name}.{slot}/part_{shard}_{shards}"
                keys[block] = f"{name}@{slot}^{begin:05}@{end:05}@{BUCKETS}"
                if slot == "id":
                    add(block, "I64", [len(own)], b"".join(struct.pack("<q", number) for number in own))
                else:
                    dtype, shape = SLOTS[slot]
                    add(block, dtype, [len(own), *shape], b"".join(row(name, slot, number) for number in own))
        if shard == 0:
            add("sparse_adam_step^ ", "I64", [], struct.pack("<q", 30))
        for thread, written in enumerate(tables):
            header, offset = {}, 0
            for name, dtype, shape, data in written:
                header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
                offset += len(data)
            text = json.dumps(header, separators=(",", ":")).encode()
            text += b" " * (8 - len(text) % 8)
            path = f"model-{shard * threads + thread:06}-of-{shards * threads:06}.safetensors"
            files[path] = len(files)
            with open(os.path.join(folder, path), "wb") as file:
                file.write(struct.pack("<Q", len(text)) + text + b"".join(data for *_, data in written))
        save_zip(os.path.join(folder, f"io_state_{shard}.pt"), {"train_io": {"offset": 10 * shard}})
    with open(os.path.join(folder, "index"), "w") as file:
        json.dump({"block_index": {name: files[path] for name, path in blocks.items()}, "file_index": files}, file)
    with open(os.path.join(folder, "tensorkey.json"), "w") as file:
        json.dump(keys, file, indent=4)
    with open(os.path.join(folder, "io_state_count"), "w") as file:
        file.write(str(shards))
    save_zip(os.path.join(folder, "extra.pt"), {"global_step": 30, "note": "x"})
    with open(os.path.join(run, "checkpoint"), "w") as file:
        file.write("ckpt_30\n")


class Bundle:
    """LoadBundle and TableReader."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "tensorkey.json")) as file:
            self.keys = json.load(file)
        with open(os.path.join(folder, "index")) as file:
            index = json.load(file)
        self.files = {number: name for name, number in index["file_index"].items()}
        assert sorted(self.files) == list(range(len(self.files))), self.files
        self.blocks = {self.keys.get(name, name): number for name, number in index["block_index"].items()}
        assert all(len(name.split("^")) == 2 for name in self.blocks)
        self.headers = {number: self.header(name) for number, name in self.files.items()}

    def header(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            data = file.read()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        assert length % 8 == 0 and data[8:9] == b"{"
        data, end = data[8 + length :], 0
        for tensor in header.values():  # safetensors: no hole, nothing behind
            begin, last = tensor["data_offsets"]
            assert begin == end and last - begin == size(tensor["dtype"], tensor["shape"]), (name, tensor)
            end = last
            tensor["data"] = data[begin:last]
        assert end == len(data)
        return {self.keys.get(block, block): tensor for block, tensor in header.items()}

    def block(self, name):
        tensor = self.headers[self.blocks[name]][name]
        assert tensor["dtype"] in KNOWN, tensor["dtype"]  # DeserializeDtype
        return tensor

    def slices(self, tensor):
        return [name.split("^")[1] for name in self.blocks if name.startswith(tensor + "^")]


def load(bundle, begin, end):
    """What a worker with these buckets has afterwards: {(table, slot): {id: row}}."""
    found = {}
    for table in TABLES:
        for text in bundle.slices(f"{table}@id"):
            first, last, count = map(int, text.split("@"))
            assert count == BUCKETS
            if not max(first, begin) < min(last, end):
                continue
            data = bundle.block(f"{table}@id^{text}")["data"]
            ids = struct.unpack(f"<{len(data) // 8}q", data)
            assert all(home(number, first, last) for number in ids), table
            for slot in SLOTS:
                tensor = bundle.block(f"{table}@{slot}^{text}")
                assert tensor["shape"] == [len(ids), *SLOTS[slot][1]], tensor["shape"]
                width = size(*SLOTS[slot])
                rows = found.setdefault((table, slot), {})
                for place, number in enumerate(ids):
                    if not home(number, begin, end):
                        continue
                    assert number not in rows, (table, number)
                    rows[number] = tensor["data"][place * width : (place + 1) * width]
    return found


def load_zip(path):
    with zipfile.ZipFile(path) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        return pickle.loads(archive.read(name))


def check(run, shards):
    with open(os.path.join(run, "checkpoint")) as file:
        folder = os.path.join(run, file.read().split("\n")[::-1][1].strip())
    bundle = Bundle(folder)
    for table in TABLES:
        texts = sorted(bundle.slices(f"{table}@id"))
        assert texts == ["{:05}@{:05}@65536".format(*gen_slice(i, shards)) for i in range(shards)], texts
    for workers in range(1, 6):
        seen = 0
        for worker in range(workers):
            begin, end = gen_slice(worker, workers)
            for (table, slot), rows in load(bundle, begin, end).items():
                wanted = {number: row(table, slot, number) for number in TABLES[table] if home(number, begin, end)}
                assert rows == wanted, (table, slot, workers, worker)
                seen += len(rows)
        assert seen == len(SLOTS) * sum(len(ids) for ids in TABLES.values()), seen
    step = bundle.block("sparse_adam_step^ ")
    assert step["shape"] == [] and struct.unpack("<q", step["data"]) == (30,)
    assert load_zip(os.path.join(folder, "extra.pt")) == {"global_step": 30, "note": "x"}
    with open(os.path.join(folder, "io_state_count")) as file:
        count = int(file.read())
    for i in range(count):
        assert load_zip(os.path.join(folder, f"io_state_{i}.pt")) == {"train_io": {"offset": 10 * i}}
    assert not os.path.exists(os.path.join(folder, f"io_state_{count}.pt"))
    print(f"checked {len(bundle.blocks)} blocks of {len(bundle.files)} files, {count} workers")


if __name__ == "__main__":
    {"forge": forge, "check": check}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
