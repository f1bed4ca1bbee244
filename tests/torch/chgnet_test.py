#!/usr/bin/env python3
"""chgnet's training checkpoints, Adam's moments and the scheduler included, are to ckpt what they are to torch.load.

    CKPT_LIBRARY=… CKPT_TOOL=… chgnet_test.py WORK…      WORK/chgnet has files and index.json, one WORK a torch
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import capi
from canonical import FromCkpt, FromTorch, first_difference

WORKS = []


class Chgnet(unittest.TestCase):
    def files(self):
        for work in WORKS:
            folder = os.path.join(work, "chgnet")
            with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
                said = json.load(file)
            self.assertEqual(len(said), 3)
            for name, expected in said.items():
                self.assertNotEqual(expected[0], "failed", expected)
                yield os.path.join(folder, name), expected

    def compare(self, expected, found):
        difference = first_difference(expected, found)
        self.assertIsNone(difference, difference)

    def test_they_are_read_in_place_as_torch_reads_them(self):
        for path, expected in self.files():
            with self.subTest(path):
                _, tree, tensors = capi.open_file(path, verify=1)
                self.compare(FromTorch(loaded=False).whole(expected), FromCkpt(tensors, loaded=False).whole(tree))

    def test_they_are_imported_as_torch_reads_them(self):
        for path, expected in self.files():
            with self.subTest(path), capi.store("mem:chgnet") as store:
                capi.import_file(store, path, "x")
                tree, tensors = capi.read_checkpoint(store, "x", run="import")
                self.compare(FromTorch(loaded=True).whole(expected), FromCkpt(tensors, loaded=True).whole(tree))

    def test_they_hold_what_a_training_needs(self):
        for path, _ in self.files():
            with self.subTest(path):
                _, tree, tensors = capi.open_file(path)
                self.assertTrue({"model", "optimizer", "scheduler"} <= set(tree), list(tree))
                self.assertTrue(any(name.endswith("/exp_avg_sq") for name in tensors))
                self.assertGreater(len(tensors), 280)

    def test_the_tool_imports_them_and_finds_the_checkpoint_sound(self):
        for path, _ in self.files():
            with self.subTest(path), tempfile.TemporaryDirectory() as store:
                for words in (("info", path), ("import", path, store, "--label", "chgnet"),
                              ("verify", store + "@chgnet")):
                    done = subprocess.run([os.environ["CKPT_TOOL"], *words],
                                          capture_output=True, text=True, check=False)
                    self.assertEqual(done.returncode, 0, (words, done.stdout, done.stderr))


if __name__ == "__main__":
    WORKS += [word for word in sys.argv[1:] if os.path.isdir(word)]
    unittest.main(argv=[word for word in sys.argv if not os.path.isdir(word)])
