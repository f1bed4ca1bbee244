#!/usr/bin/env python3
"""Exports what was imported, for torch_side.py to open and export_test.py to compare.

    CKPT_LIBRARY=… exports.py EXPORTS WORK…      EXPORTS/TORCH.NAME.pt of the zoo's and chgnet's files,
                                                 EXPORTS/TORCH.CASE.hfaiN of directories, and EXPORTS/index.json
"""
import json
import os
import sys

import capi
from hostile_files import pickled, storage, tensor, write_zip64

SHARDS = (1, 2, 3, 8)
LARGE = (256 << 20) // 4 + 5  # floats: more than hfai keeps in one piece, and not to be divided by 2 or 3


def outcome(work):
    try:
        work()
        return "OK", ""
    except capi.CkptError as error:
        return error.status, error.message


def export(origin, path, **settings):
    """Imports `origin` and exports it to `path`; what the index says of it."""
    with capi.store("mem:exports") as store:
        capi.import_file(store, origin, "x")
        status, message = outcome(lambda: capi.export(store, "x", path, **settings))
    return {"origin": origin, "outcome": status, "message": message, "settings": settings}


def pt_files(work):
    zoo = os.path.join(work, "zoo")
    for name in sorted(os.listdir(zoo)):
        if name.endswith(".zip2.pt"):
            yield name[:-8], os.path.join(zoo, name)
    chgnet = os.path.join(work, "chgnet")
    for name in sorted(os.listdir(chgnet)):
        if name.endswith(".tar"):
            yield name[:-8], os.path.join(chgnet, name)


def large(exports):
    """EXPORTS/large.pt, mostly a hole, and its exports as directories."""
    origin, whole = os.path.join(exports, "large.pt"), storage(count=LARGE)
    model = {"w": tensor(whole, shape=(LARGE,), strides=(1,)), "end": tensor(whole, LARGE - 2, (2,), (1,))}
    write_zip64(origin, pickled({"model": model, "epoch": 1}), 4 * LARGE, bytes(range(100)))
    for shards in (2, 3):
        name = f"large.hfai{shards}"
        yield name, export(origin, os.path.join(exports, name), format="hfai", shards=shards)


def main(exports, works):
    os.makedirs(exports)
    index = dict(large(exports))
    for work in works:
        torch = os.path.basename(work)
        for name, origin in pt_files(work):
            for suffix, settings in ((".pt", {}), (".opaque.pt", {"opaque": "dict"})):
                file = f"{torch}.{name}{suffix}"
                try:
                    said = export(origin, os.path.join(exports, file), format="pt", **settings)
                except capi.CkptError as error:  # what cannot be imported is read_test.py's
                    said = {"origin": origin, "outcome": "not imported", "message": error.message, "settings": {}}
                if suffix == ".pt" or index[f"{torch}.{name}.pt"]["outcome"] == "UNSUPPORTED":
                    index[file] = said
                else:
                    os.path.exists(os.path.join(exports, file)) and os.unlink(os.path.join(exports, file))
        for case in sorted(name for name in os.listdir(os.path.join(work, "hfai")) if name.endswith(".2")):
            for shards in SHARDS:
                directory = f"{torch}.{case[:-2]}.hfai{shards}"
                index[directory] = export(os.path.join(work, "hfai", case), os.path.join(exports, directory),
                                          format="hfai",
                                          shards=shards)
    with open(os.path.join(exports, "index.json"), "w", encoding="utf-8") as out:
        json.dump(index, out, indent=1)
    print(f"{sum(said['outcome'] == 'OK' for said in index.values())} of {len(index)} exports made")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
