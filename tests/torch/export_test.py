#!/usr/bin/env python3
"""What ckpt exports opens in torch.load(weights_only=True), in hfai's load, and is what was imported.

    CKPT_LIBRARY=… export_test.py EXPORTS WORK…      exports.py and both torches (WORK/check.json) have been there
"""
import json
import os
import re
import sys
import unittest

import capi
from canonical import ARRAY, TORCH_NAMES, FromCkpt, FromTorch, first_difference, plain_tensor
from hfai_test import plain, without

EXPORTS, WORKS = [], []

# Objects of classes that weights_only refuses: exported only as plain dicts (opaque=dict), and then not compared.
OPAQUE = {"library_objects", "own_objects", "containers", "module", "tied_module", "library_module", "list_of_modules",
          "whole_optimizer", "odd_keys", "checkpoint", "subclasses", "uninitialized", "nested_tensor", "torch_values",
          "numpy_scalars", "numpy_arrays_of_other_kinds", "numpy_date", "numpy_big_endian", "quantized_packed",
          "big_ints", "random_states", "generators", "meta_tensor"}

# 1.13 makes CSR by a function that 2.15 no longer has; exports use the one that 2.15 has. And it has no uint32,
# of which the state of a generator is.
NOT_FOR_BOTH = {"1.13 opens 1.13.sparse_rows.pt", "1.13 opens 1.13.generators.opaque.pt",
                "1.13 opens 2.15.generators.opaque.pt"}

NUMPY_DTYPES = {dtype: TORCH_NAMES[name] for name, dtype in ARRAY.items()}


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def dict_of(said):
    """The tensors of a dict by their keys."""
    return {key[1]: value[1] for key, value in said[1]}


def as_exported(value):
    """numpy's arrays are tensors then, its scalars Python's numbers."""
    if isinstance(value, dict):
        return {key: as_exported(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if value[:1] == ["numpy"]:
        said = value[1]
        return ["tensor", plain_tensor({"dtype": NUMPY_DTYPES[said["dtype"]], "shape": said["shape"],
                                        "digest": said["digest"], "memory_format": None,
                                        "conj": False, "neg": False})]
    return [as_exported(item) for item in value]


class Exports(unittest.TestCase):
    def setUp(self):
        self.index = load(os.path.join(EXPORTS[0], "index.json"))
        self.origins = {}
        for work in WORKS:
            for folder, kind in (("zoo", lambda said: said["files"]), ("chgnet", dict), ("hfai", dict)):
                for name, said in kind(load(os.path.join(work, folder, "index.json"))).items():
                    self.origins[os.path.join(work, folder, name)] = said

    def checked(self, ending):
        """(name, what the index says, what this torch found) for each torch."""
        for work in WORKS:
            for name, said in load(os.path.join(work, "check.json")).items():
                if re.search(ending, name):
                    yield f"{os.path.basename(work)} opens {name}", self.index[name], said

    def compare(self, expected, found):
        difference = first_difference(expected, found)
        self.assertIsNone(difference, difference)

    def test_weights_only_opens_every_export_of_what_it_opened_before(self):
        opened = {}
        for what, export, said in self.checked(r"(?<!opaque)\.pt$"):
            if what in NOT_FOR_BOTH:
                continue
            with self.subTest(what):
                self.assertTrue(said["opened"] or not said["origin"], said["found"])
                opened[what.split(" ")[0]] = opened.get(what.split(" ")[0], 0) + said["opened"]
        self.assertGreater(min(opened.values()), 45, opened)
        self.assertGreater(max(opened.values()), 60 * len(WORKS), opened)

    def test_an_export_is_what_was_imported(self):
        for what, export, said in self.checked(r"(?<!opaque)\.pt$"):
            if said["found"][0] == "failed":
                continue
            with self.subTest(what):
                expected = self.origins[export["origin"]]
                expected = expected[2] if expected[0] == "unread" else expected
                self.compare(
    as_exported(
        FromTorch(
            loaded=True).whole(expected)), FromTorch(
                loaded=True).whole(
                    said["found"]))

    def test_a_tensor_has_the_memory_format_that_was_imported(self):
        count = 0
        for what, export, said in self.checked(r"\.strides\.pt$"):
            origin, found = dict_of(self.origins[export["origin"]]), dict_of(said["found"])
            for name in ("channels_last", "channels_last_3d"):
                with self.subTest(f"{what}: {name}"):
                    self.assertEqual(found[name]["strides"], origin[name]["strides"])
                    count += 1
        self.assertEqual(count, 2 * len(WORKS) ** 2)  # each torch opens what each has written

    def test_only_what_weights_only_refuses_is_refused_and_by_name(self):
        for name, export in self.index.items():
            if export["outcome"] in ("OK", "not imported") or name.endswith(".opaque.pt"):
                continue
            with self.subTest(name):
                self.assertEqual(export["outcome"], "UNSUPPORTED", export["message"])
                self.assertIn(name.split(".")[1 if name.count(".") == 2 else 2], OPAQUE, export["message"])
                self.assertRegex(export["message"], "class|dtype|bytes|key")

    def test_objects_of_unknown_classes_can_be_exported_as_dicts(self):
        made = [name for name, export in self.index.items() if name.endswith(".opaque.pt")
                                                          and export["outcome"] == "OK"]
        self.assertGreater(len(made), 10)
        for what, export, said in self.checked(r"\.opaque\.pt$"):
            if what in NOT_FOR_BOTH:
                continue
            with self.subTest(what):
                self.assertNotEqual(said["found"][0], "failed", said["found"])
                self.assertTrue(said["opened"] or what.startswith("1."))

    def test_a_directory_that_ckpt_exports_is_loaded_by_hfai(self):
        count = 0
        for what, export, said in self.checked(r"^\d.*\.hfai\d$"):
            with self.subTest(what):
                self.assertNotEqual(said["found"][0], "failed", said["found"])
                whole = FromTorch(loaded=True).whole(self.origins[export["origin"]]["whole"])
                found = without(FromTorch(loaded=True).whole(said["found"]), "__nshards__", "__version__")
                self.compare(plain(whole), plain(found))
                count += 1
        self.assertEqual(count, len(WORKS) ** 2 * 10 * 4)

    def test_tensors_above_256_mib_are_cut_over_the_parts_and_joined_by_hfai(self):
        _, tree, tensors = capi.open_file(os.path.join(EXPORTS[0], "large.pt"), verify=0)
        expected = plain(FromCkpt(tensors, loaded=True).whole(tree))
        for what, export, said in self.checked(r"^large\.hfai\d$"):
            with self.subTest(what):
                self.assertNotEqual(said["found"][0], "failed", said["found"])
                found = without(FromTorch(loaded=True).whole(said["found"]), "__nshards__", "__version__", "optimizer")
                self.compare(expected, plain(found))
        for shards in (2, 3):
            folder = os.path.join(EXPORTS[0], f"large.hfai{shards}")
            sizes = [os.path.getsize(os.path.join(folder, name)) for name in sorted(os.listdir(folder))]
            self.assertEqual(len(sizes), shards)
            self.assertLess(max(sizes) - min(sizes), 1 << 16, sizes)


if __name__ == "__main__":
    ARGUMENTS = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    EXPORTS.append(ARGUMENTS[0])
    WORKS += ARGUMENTS[1:]
    unittest.main(argv=sys.argv[:1] + [argument for argument in sys.argv[1:] if argument.startswith("-")])
