#!/usr/bin/env python3
"""Four ranks in four languages save one checkpoint; C++ loads it on three ranks: equal byte for byte.

  four_test.py PROGRAMS PREFIX INCLUDE PYTHON WORK      PROGRAMS: rank_go, rank_rust, rank_c, load_cpp
"""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import tracer
from claims import Claims, run

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples" / "languages"


class Four:
    def __init__(self, programs, prefix, include, python, work):
        self.programs, self.prefix, self.include, self.python = programs, prefix, include, python
        self.work = Path(work)
        shutil.rmtree(self.work, ignore_errors=True)
        self.store = self.work / "store"
        self.library = tracer.make(include, self.work)
        self.counts = self.work / "counts"

    def ckpt(self, *words):
        return run([f"{self.prefix}/bin/ckpt", *words])

    def info(self):
        return json.loads(self.ckpt("info", "--json", "--segments", f"{self.store}@latest"))

    def tensor(self, name):
        return next(tensor for tensor in self.info()["tensor_list"] if tensor["name"] == name)

    def save_and_load(self):
        environment = dict(os.environ, LD_PRELOAD=str(self.library), CKPT_TRACE=str(self.counts))
        output = run([EXAMPLE / "run.sh", self.programs, self.store, self.python], timeout=180, env=environment)
        for rank, language in enumerate(("Go", "Rust", "Python", "C")):
            assert f"rank {rank} ({language}): saved step-3.1.1\n" in output, output
        loaded = re.findall(r"rank (\d) of 3 \(C\+\+\): (\d+) bytes", output)
        assert sorted(rank for rank, _ in loaded) == ["0", "1", "2"], output
        # Every rank holds the embedding and the head; the rest is sharded.
        everyone, shared = 65536 * 64 * 4 + 10 * 8, 2 * 96 * 32 * 4 + 7 * 12
        assert sum(int(size) for _, size in loaded) == 3 * everyone + shared, output

    def one_checkpoint_of_four_parts(self):
        info = self.info()
        parts = sorted(path.name for path in (self.store / "step-3.1.1").glob("PART_*"))
        assert parts == ["PART_000", "PART_001", "PART_002", "PART_003"], parts
        assert info["ranks"] == 4 and info["state"] == "committed", info

    def each_rank_wrote_some_of_the_large_tensor(self):
        parts = sorted(segment["part_index"] for segment in self.tensor("embedding.weight")["segments"])
        assert parts == [0, 1, 2, 3], parts

    def sound(self):
        self.ckpt("verify", f"{self.store}@latest")

    def nothing_left(self):
        counts = tracer.Counts(self.include, self.counts)
        saves = {name: counts.calls[name] for name in tracer.SAVES}
        assert sum(saves.values()) == 4, saves
        assert not counts.left(), counts.left()

    def a_flipped_bit_is_found(self):
        segment = next(segment for segment in self.tensor("embedding.weight")["segments"] if segment["part_index"] == 2)
        with open(self.store / "step-3.1.1" / "PART_002", "r+b") as part:
            part.seek(segment["offset"] + 4321)
            byte = part.read(1)[0]
            part.seek(-1, os.SEEK_CUR)
            part.write(bytes([byte ^ 1]))
        done = subprocess.run([f"{self.programs}/load_cpp", str(self.store), "0", "3"], text=True, capture_output=True,
                              check=False)
        said = (done.returncode, done.stderr)
        assert done.returncode == 1 and "embedding.weight" in done.stderr and "XXH3-128" in done.stderr, said


def main(*arguments):
    four, claims = Four(*arguments), Claims()
    claims.check("Go, Rust, Python and C save one checkpoint, three ranks of C++ load it byte for byte",
                 four.save_and_load)
    claims.check("it is one checkpoint with a part of each language", four.one_checkpoint_of_four_parts)
    claims.check("each language wrote its share of the large replicated tensor",
                 four.each_rank_wrote_some_of_the_large_tensor)
    claims.check("verify finds it sound", four.sound)
    claims.check("no handle was left alive in any of the languages", four.nothing_left)
    claims.check("a flipped bit is refused by the loader", four.a_flipped_bit_is_found)
    return claims.end()


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
