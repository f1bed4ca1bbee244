"""The reference reader reads chunks of earlier checkpoints, and notices every rule of bases that is broken."""
import copy
import os
import shutil
import tempfile
import types
import unittest

import reference_index
import reference_reader as reader
from reference_elements import digest_of
from reference_writer import U8, PartWriter, base_summary, manifest_of, write_checkpoint


class ReadsBases(unittest.TestCase):
    """A checkpoint of one rank: of its tensor the second chunk lies in its own part, and the others in two bases."""

    def setUp(self):
        store = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, store)
        self.folder = os.path.join(store, "step-10.5.3")
        self.raw = [bytes([1]) * 5000, bytes([2]) * 5000, bytes([3]) * 77]
        self.bases = sorted(((self.base(number), number) for number in (0, 2)),
                            key=lambda base: reference_index.identity_of(self.record_of(base[0])))

    def base(self, number):
        """A part of an earlier checkpoint of seven ranks; its first chunk is of no use."""
        part = PartWriter(5, dict(base_summary(), save_id=digest_of(b"save %d" % number), world_size=7))
        chunks = [part.store(b"useless"), part.store(self.raw[number])]
        return part.finish(dict(tensors=[[b"old", (U8, (7,), [[0, [], [[0, 7, 0, 0, 0, chunks[:1]]]]])],
                                         [b"t", (U8, (len(self.raw[number]),), [[0, [], [
                                             [0, len(self.raw[number]), 0, 0, 0, chunks[1:]]]]])]],
                                objects=[], aliases=[], attrs=[])), chunks[1]

    def record_of(self, base):
        return types.SimpleNamespace(save_id=base[0].record[5], rank=5)

    def write(self, own=lambda content: None, manifest=lambda content: None, features=1, **summary):
        """`own` and `manifest` change what the part's index and MANIFEST say."""
        identity = dict(base_summary(), world_size=1, required_features=features)
        part = PartWriter(0, identity)
        homes = {number: home for home, (_, number) in enumerate(self.bases, 1)}
        found = {number: base[1] for base, number in self.bases}
        chunks = [(*found[0], homes[0]), part.store(self.raw[1]), (*found[2], homes[2])]
        records = [base[0].record[:8] + [1] for base, _ in self.bases]
        used = [len(self.raw[number]) for _, number in self.bases]
        count = sum(map(len, self.raw))
        content = dict(tensors=[[b"t", (U8, (count,), [[0, [], [[0, count, 0, 0, 0, chunks]]]])]], objects=[],
                       aliases=[], attrs=[], bases=[list(pair) for pair in zip(copy.deepcopy(records), used)])
        own(content)
        part.finish(content)
        said = dict(tensors=[[b"t", (U8, (count,), [], [count, 1, 0])]], objects=[], aliases=[], attrs=[],
                    layouts=[[0, [], 1, [(0, 1, 0)]]], copies=[part.index], parts=[part.record] + records,
                    used=[0] + used)
        manifest(said)
        counts = dict(part_count=1, world_size=1, part_bytes=part.record[0], base_count=2,
                      base_bytes=sum(record[0] for record in records), used_bytes=sum(used), required_features=features)
        shutil.rmtree(self.folder, ignore_errors=True)
        write_checkpoint(self.folder, manifest_of(said, **{**counts, **summary}), [part])
        for base, _ in self.bases:
            with open(self.path(base), "wb") as out:
                out.write(base[0].data)

    def path(self, base):
        return os.path.join(self.folder, f"BASE_{base[0].record[5].hex()}_005")

    def test_chunks_are_read_where_they_lie(self):
        self.write()
        got = reader.read_checkpoint(self.folder)
        self.assertEqual(got.tensor("t"), b"".join(self.raw))
        self.assertEqual(got.dump()["identity"]["used_bytes"], 5077)

    def test_every_rule_of_bases_is_checked(self):
        def base(number, at, value):
            return lambda content: content["bases"][number][0].__setitem__(at, value)

        def chunk(number, at, value):
            def change(content):
                chunks = content["tensors"][0][1][2][0][2][0][5]
                chunks[number] = (*chunks[number][:at], value, *chunks[number][at + 1:])
            return change
        own_save = base_summary()["save_id"]
        cases = {
            "used": dict(own=lambda c: c["bases"][0].__setitem__(1, 5)),
            "bases out of order": dict(own=lambda c: c["bases"].reverse()),
            "of the checkpoint itself": dict(own=base(0, 5, own_save)),
            "kind 0": dict(own=base(0, 8, 0)),
            "not the one that MANIFEST names": dict(own=base(0, 7, 4)),
            "a chunk in base 3 of 2": dict(own=chunk(0, 4, 3)),
            "limit": dict(own=chunk(0, 0, 1 << 20)),
            "is none of BASE_": dict(own=chunk(0, 0, 4096)),
            "MANIFEST: .* used bytes of BASE_": dict(manifest=lambda c: c["used"].__setitem__(2, 76), used_bytes=5076),
            "of which nothing is used": dict(manifest=lambda c: c.__setitem__("used", []), used_bytes=0),
            "a part that is no base": dict(manifest=lambda c: c["used"].__setitem__(0, 1)),
            "2 used for 3": dict(manifest=lambda c: c["used"].pop()),
            "base_bytes": dict(base_bytes=1),
            "features 0x0, bases": dict(features=0),
        }
        for problem, change in cases.items():
            with self.subTest(problem):
                self.write(**change)
                with self.assertRaisesRegex(reader.FormatError, problem):
                    reader.read_checkpoint(self.folder)

    def test_a_base_that_is_missing_or_damaged_is_corrupt(self):
        base = self.bases[0][0]

        def cut(path):
            os.truncate(path, 4096)

        def flip(at):
            def change(path):
                with open(path, "r+b") as file:
                    file.seek(at)
                    byte = file.read(1)[0]
                    file.seek(at)
                    file.write(bytes([byte ^ 1]))
            return change
        for change in (os.remove, cut, flip(base[1][0]), flip(24)):
            self.write()
            change(self.path(base))
            with self.assertRaises(reader.CorruptError):
                reader.read_checkpoint(self.folder)


if __name__ == "__main__":
    unittest.main()
