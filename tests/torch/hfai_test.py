#!/usr/bin/env python3
"""hfai directories: imported they are what hfai's own load gives, exported they are what it accepts.

    CKPT_LIBRARY=… hfai_test.py WORK…      WORK/hfai was filled by hfai_generator.py, one WORK for each torch
"""
import json
import os
import sys
import unittest

import capi
from canonical import FromCkpt, FromTorch, first_difference

WORKS = []

# Directory of hfai_generator.bad: statuses it may be refused with, and what the message must have.
BAD = {"missing_part": (("INCOMPLETE", "MISMATCH"), "PART_001"),
       "missing_first": (("INCOMPLETE", "MISMATCH"), "PART_000"),
       "missing_last": (("INCOMPLETE", "MISMATCH"), "3"), "more_parts": (("INCOMPLETE", "MISMATCH"), "3"),
       "nothing": (("NOT_FOUND", "FORMAT", "INVALID"), "nothing"),
       "other_content": (("FORMAT", "UNSUPPORTED"), "PART_000"), "a_list": (("FORMAT", "INCOMPLETE"), "PART_000"),
       "numbers_of_parts_differ": (("MISMATCH", "INCOMPLETE"), "PART_002"),
       "part_of_other_models": (("MISMATCH", "FORMAT"), "PART_002"),
       "part_of_two_models": (("MISMATCH",), "PART_002"), "same_part_twice": (("FORMAT", "MISMATCH"), "PART_00"),
       "old_version": (("UNSUPPORTED", "REVISION", "MISMATCH"), "1.0.0"),
       "no_version": (("UNSUPPORTED", "FORMAT", "MISMATCH"), "__version__"),
       "version_of_one_part": (("UNSUPPORTED", "MISMATCH"), "PART_001"),
       "no_number_of_parts": (("FORMAT", "MISMATCH"), "__nshards__"),
       "number_is_text": (("FORMAT", "MISMATCH"), "__nshards__"),
       "row_too_short": (("FORMAT", "MISMATCH", "INCOMPLETE"), "convolution.weight"),
       "row_of_another_dtype": (("FORMAT", "MISMATCH"), "PART_001"),
       "row_of_another_shape": (("FORMAT", "MISMATCH"), "PART_001"),
       "row_missing": (("FORMAT", "MISMATCH", "INCOMPLETE"), "convolution.weight"),
       "whole_and_cut": (("FORMAT", "MISMATCH"), "PART_000"), "row_is_a_matrix": (("FORMAT", "MISMATCH"), "PART_001")}


def plain(value):
    """Without order of keys and who shares memory: two ranks cannot save one memory once."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key not in ("run", "place", "strides")}
    if not isinstance(value, list):
        return value
    if value and value[0] in ("dict", "ordered"):
        return ["dict", sorted((plain(pair) for pair in value[1]), key=str)]
    return [plain(item) for item in value]


def without(value, *keys):
    return [value[0], [pair for pair in value[1] if pair[0][1] not in keys]]


def imported(path):
    with capi.store("mem:hfai") as store:
        capi.import_file(store, path, "x")
        return capi.read_checkpoint(store, "x", run="import")


class Import(unittest.TestCase):
    def cases(self):
        for work in WORKS:
            with open(os.path.join(work, "hfai", "index.json"), encoding="utf-8") as file:
                said = json.load(file)
            for name, expected in said.items():
                yield name, os.path.join(work, "hfai", name), expected

    def compare(self, expected, found):
        difference = first_difference(expected, found)
        self.assertIsNone(difference, difference)

    def test_a_directory_is_imported_as_hfai_loads_it(self):
        """In its order of keys, too."""
        for name, path, expected in self.cases():
            with self.subTest(path):
                tree, tensors = imported(path)
                self.compare(
    FromTorch(
        loaded=True).whole(
            expected["loaded"]), FromCkpt(
                tensors, loaded=True).whole(tree))

    def test_an_import_is_the_state_before_it_was_sharded(self):
        for name, path, expected in self.cases():
            with self.subTest(path):
                tree, tensors = imported(path)
                found = without(FromCkpt(tensors, loaded=True).whole(tree), "__nshards__", "__version__")
                whole = FromTorch(loaded=True).whole(expected["whole"])
                self.compare(plain(whole), plain(found))

    def test_any_number_of_ranks_gives_the_same(self):
        found = {}
        for name, path, _ in self.cases():
            tree, tensors = imported(path)
            case = os.path.dirname(path), name.split(".")[0]
            value = plain(without(FromCkpt(tensors, loaded=True).whole(tree), "__nshards__"))
            with self.subTest(path):
                self.compare(found.setdefault(case, value), value)

    def test_the_checkpoint_has_a_part_for_each_rank(self):
        for work in WORKS:
            with capi.store("mem:parts") as store:
                capi.import_file(store, os.path.join(work, "hfai", "one_model.8"), "x")
                self.assertEqual(capi.part_count(store, "x", run="import"), 8)

    def test_directories_that_do_not_fit_together_are_refused_by_name(self):
        for work in WORKS:
            folder = os.path.join(work, "hfai", "bad")
            self.assertEqual(set(os.listdir(folder)), set(BAD))
            for name, (statuses, word) in BAD.items():
                with self.subTest(name):
                    with self.assertRaises(capi.CkptError) as caught:
                        imported(os.path.join(folder, name))
                    self.assertIn(caught.exception.status, statuses, caught.exception.message)
                    self.assertIn(word, caught.exception.message)


if __name__ == "__main__":
    WORKS += [word for word in sys.argv[1:] if os.path.isdir(word)]
    unittest.main(argv=[word for word in sys.argv if not os.path.isdir(word)])
