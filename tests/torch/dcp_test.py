#!/usr/bin/env python3
"""What torch.distributed.checkpoint writes is to ckpt what it is to torch, and torch takes what ckpt writes.

    CKPT_LIBRARY=… dcp_test.py WORK PYTHON…      each PYTHON's torch writes new ones into WORK (dcp_fixtures.py, on two
                                                 ranks), and loads what ckpt exported (dcp_side.py)

Only torch from 2.6 on, whose FSDP2 runs on CPUs, is asked.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import capi

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHONS, WORK = [], None
CASES = ("fsdp2", "threads", "per_item", "async", "alone")
SHARDS = (1, 3)


def run(*words, **more):
    done = subprocess.run(words, env=dict(os.environ, OMP_NUM_THREADS="1", **more), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def without_library():
    """Torch in other processes needs no sanitizer of the library's."""
    return {"LD_PRELOAD": ""}


class Dcp(unittest.TestCase):
    maxDiff = 2000

    def test_what_this_torch_writes_is_read_as_it_reads_it_and_it_loads_what_is_exported(self):
        self.assertTrue(PYTHONS)
        for number, python in enumerate(PYTHONS):
            work = os.path.join(WORK, str(number))
            shutil.rmtree(work, ignore_errors=True)
            os.makedirs(work)
            run(python, "-m", "torch.distributed.run", "--nproc-per-node", "2", os.path.join(HERE, "dcp_fixtures.py"),
                work, *CASES, **without_library())
            for case in CASES:
                with self.subTest(f"{python}: {case}"):
                    self.check_read(work, case)
            run(python, os.path.join(HERE, "dcp_side.py"), work, *CASES, **without_library())

    def check_read(self, work, case):
        path = os.path.join(work, case)
        with capi.store(f"mem:dcp-{case}") as store:
            capi.import_file(store, path, "dcp")
            capi.import_file(store, f"{path}.pt", "pt")
            expected = capi.read_checkpoint(store, "label:pt", run="import")
            self.assertEqual(capi.read_checkpoint(store, "label:dcp", run="import"), expected)
            for shards in SHARDS:
                capi.export(store, "label:dcp", f"{path}.out{shards}", format="dcp", shards=shards)

    def test_what_is_exported_again_is_the_same_state(self):
        fixtures = os.path.join(HERE, "..", "..", "interop", "tests", "fixtures", "dcp")
        with tempfile.TemporaryDirectory() as folder, capi.store("mem:again") as store:
            for case in sorted(name for name in os.listdir(fixtures) if not name.endswith(".pt")):
                with self.subTest(case):
                    capi.import_file(store, os.path.join(fixtures, case), case)
                    capi.export(store, f"label:{case}", os.path.join(folder, case), format="dcp", shards=2)
                    capi.import_file(store, os.path.join(folder, case), f"{case}-again")
                    again = capi.read_checkpoint(store, f"label:{case}-again", run="import")
                    expected = capi.read_checkpoint(store, f"label:{case}", run="import")
                    self.assertEqual(plain(again), plain(expected))


def plain(state):
    """Without the class of what is each rank's own: torch has dicts."""
    tree, tensors = state

    def value(node):
        if isinstance(node, capi.Record) and node.cls == "ckpt.PerRank":
            node = node.fields
        if isinstance(node, dict):
            return {key: value(entry) for key, entry in node.items()}
        return [value(entry) for entry in node] if isinstance(node, list) else node
    return value(tree), tensors


if __name__ == "__main__":
    WORK, *PYTHONS = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    unittest.main(argv=[sys.argv[0], *[argument for argument in sys.argv[1:] if argument.startswith("-")]])
