#!/usr/bin/env python3
"""Every file of the zoo is to ckpt what it is to torch.load: values, tensors to the bit, and who shares memory.

    CKPT_LIBRARY=… CKPT_TOOL=… read_test.py WORK…      WORK/zoo was filled by zoo.py, one WORK a torch, older first

Two ways of reading are compared, with no torch in this process: the file in place (ckpt_file_*), and the checkpoint
that ckpt_import makes of it (ckpt_reader_tree, ckpt_load).
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import capi
from canonical import FromCkpt, FromTorch, first_difference

FOLDERS = []

# What ckpt refuses, and the words that its message must have.
REFUSED = {"seventeen_dimensions": "17 dimensions, at most 16"}
# What torch 1.13 itself cannot save in any way: its own limits, written down so that a file that is missing is noticed.
NOT_SAVED = {"sparse_columns", "sparse_blocks", "sparse_blocks_by_column", "nested_tensor", "dtype_complex32"}

# Objects whose classes do more to them when a newer torch loads them: fields that did not exist then, enums by value.
NEWER = {"numpy_date", "module", "tied_module", "library_module", "list_of_modules", "whole_optimizer", "own_objects",
         "generators"}


def index_of(folder, name="index.json"):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def expectation(said):
    """What torch.load gave, or, where it cannot read its own file, what had been saved."""
    return said[2] if said[0] == "unread" else said


def object_of(file):
    return file.split(".")[0]


class Zoo(unittest.TestCase):
    maxDiff = 2000

    def files(self, names=("index.json",)):
        for folder in FOLDERS:
            for name in names:
                if os.path.exists(os.path.join(folder, name)):
                    for file, said in index_of(folder, name)["files"].items():
                        yield folder, file, said

    def readable(self):
        for folder, file, said in self.files():
            if object_of(file) not in REFUSED:
                yield folder, file, said

    def compare(self, expected, found):
        difference = first_difference(expected, found)
        self.assertIsNone(difference, difference)

    def test_every_file_is_read_in_place_as_torch_reads_it(self):
        count = 0
        for folder, file, said in self.readable():
            with self.subTest(f"{folder}/{file}"):
                form, tree, tensors = capi.open_file(os.path.join(folder, file), verify=0)
                self.assertEqual(form, "pt-legacy" if ".legacy" in file else "pt")
                self.compare(
    FromTorch(
        loaded=False).whole(
            expectation(said)), FromCkpt(
                tensors, loaded=False).whole(tree))
                count += 1
        self.assertGreater(count, 300 * len(FOLDERS))

    def test_every_file_is_imported_as_torch_reads_it(self):
        for folder, file, said in self.readable():
            with self.subTest(f"{folder}/{file}"), capi.store("mem:read") as store:
                capi.import_file(store, os.path.join(folder, file), "x")
                tree, tensors = capi.read_checkpoint(store, "x", run="import")
                self.compare(
    FromTorch(
        loaded=True).whole(
            expectation(said)), FromCkpt(
                tensors, loaded=True).whole(tree))

    def test_a_newer_torch_reads_the_older_ones_files_as_ckpt_does(self):
        older = FOLDERS[0]
        for folder in FOLDERS[1:]:
            for file, said in index_of(folder, "older.json")["files"].items():
                if object_of(file) in REFUSED.keys() | NEWER or said[0] == "failed":
                    continue
                with self.subTest(file):
                    _, tree, tensors = capi.open_file(os.path.join(older, file))
                    said = json.loads(json.dumps(said).replace("numpy._core.", "numpy.core."))
                    self.compare(FromTorch(loaded=False).whole(said), FromCkpt(tensors, loaded=False).whole(tree))

    def test_what_ckpt_has_no_dimensions_for_is_refused_by_name(self):
        count = 0
        for folder, file, _ in self.files():
            word = REFUSED.get(object_of(file))
            if word is None:
                continue
            with self.subTest(f"{folder}/{file}"):
                with self.assertRaises(capi.CkptError) as caught:
                    capi.open_file(os.path.join(folder, file))
                self.assertEqual(caught.exception.status, "UNSUPPORTED")
                self.assertIn(file, caught.exception.message)
                self.assertIn(word, caught.exception.message)
                count += 1
        self.assertGreaterEqual(count, len(FOLDERS))

    def test_a_tensor_on_meta_is_a_record_beside_the_others_which_exclude_leaves_out(self):
        count = 0
        for folder, file, _ in self.files():
            if object_of(file) != "meta_tensor":
                continue
            with self.subTest(f"{folder}/{file}"):
                _, tree, tensors = capi.open_file(os.path.join(folder, file))
                self.assertEqual(tree["meta"].cls, "torch._utils._rebuild_meta_tensor_no_storage")
                self.assertEqual(tree["meta"].fields["args"][1:3], ((2, 3), (3, 1)))
                self.assertEqual(list(tensors), ["real"])
                _, tree, _ = capi.open_file(os.path.join(folder, file), exclude="meta")
                self.assertEqual(list(tree), ["real"])
                count += 1
        self.assertGreaterEqual(count, len(FOLDERS))

    def test_checksums_are_checked_where_torch_wrote_them(self):
        for folder, file, _ in self.readable():
            with self.subTest(f"{folder}/{file}"):
                capi.open_file(os.path.join(folder, file), verify=1)

    def test_nothing_is_left_out_but_what_torch_cannot_save(self):
        for folder in FOLDERS:
            self.assertEqual({object_of(name) for name in index_of(folder)["refused_by_torch"]} - NOT_SAVED, set())

    def test_the_tool_shows_and_imports_every_form(self):
        for folder in FOLDERS:
            for file in ("checkpoint.zip2.pt", "checkpoint.legacy2.pt", "module.zip4.pt", "library_objects.zip2.pt"):
                with self.subTest(file), tempfile.TemporaryDirectory() as store:
                    path = os.path.join(folder, file)
                    shown = subprocess.run([os.environ["CKPT_TOOL"], "info", path],
                                           capture_output=True, text=True, check=False)
                    self.assertEqual(shown.returncode, 0, shown.stderr)
                    done = subprocess.run([os.environ["CKPT_TOOL"], "import", path, store, "--label", "x"],
                                          capture_output=True, text=True,
                                          check=False)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    for name in self.tensor_names(path):
                        self.assertIn(name, shown.stdout)

    @staticmethod
    def tensor_names(path):
        return list(capi.open_file(path)[2])[:5]


if __name__ == "__main__":
    FOLDERS += [os.path.join(word, "zoo") for word in sys.argv[1:] if os.path.isdir(word)]
    unittest.main(argv=[word for word in sys.argv if not os.path.isdir(word)])
