#!/usr/bin/env python3
"""Files that must be refused by name, never carried out and never survive as half a file. What is refused, tests of
interop prove by the rule that refuses it (pickle, pickle_names, pt_*, zip_reader); here are whole files, in processes.

    CKPT_LIBRARY=… hostile_test.py [-v]

Each case is opened, opened with verify=1 and imported by hostile_worker.py: a process that dies, hangs or grows is a
failure of the file that it had before it.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from hostile_files import (Call, Entry, Name, archive, entries, legacy, opcodes, pickled, pt, storage, tensor,
                           write_zip64)

HERE = os.path.dirname(os.path.abspath(__file__))
MAX_GROWTH = 400 << 20   # bytes: far above what the files need, far below what some of them ask for
MAX_SECONDS = 120        # for one file; a hang, not a speed

UNSUPPORTED, FORMAT, CORRUPT = "UNSUPPORTED", "FORMAT", "CORRUPT"


class Worker:
    """hostile_worker.py, started again where a file ended it."""

    def __init__(self):
        self.process, self.peak = None, 0

    def start(self):
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "hostile_worker.py")],
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, path):
        """What came of the file; the way the process ended where it did."""
        if self.process is None:
            self.start()
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        timer = threading.Timer(MAX_SECONDS, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if not line:
            code = self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None
            return {"died": f"signal {-code}" if code < 0 else f"exit {code}"}
        said = json.loads(line)
        said["growth"], self.peak = max(0, said["peak"] - self.peak) if self.peak else 0, said["peak"]
        return said

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()


class HostileCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.worker = Worker()
        cls.marker = os.path.join(cls.folder.name, "marker")
        cls.numbers = 0

    @classmethod
    def tearDownClass(cls):
        cls.worker.close()
        cls.folder.cleanup()

    def open(self, data, name="case.pt"):
        type(self).numbers += 1
        path = os.path.join(self.folder.name, f"{self.numbers}-{name}")
        pathlib.Path(path).write_bytes(data)
        said = self.worker.ask(path)
        os.unlink(path)
        self.assertNotIn("died", said, "the process ended")
        for way in ("open", "verify", "import"):
            self.assertIn(said[way][0], ("OK", FORMAT, UNSUPPORTED, CORRUPT), (way, said[way][1]))
        self.assertLess(said["growth"], MAX_GROWTH, "memory")
        self.assertFalse(os.path.exists(self.marker), "code of the file was run")
        return said

    def refused(self, what, data, statuses, *words, opened=False):
        """`opened`: only verify and import refuse it."""
        with self.subTest(what):
            said = self.open(data)
            for way in ("verify", "import") if opened else ("open", "verify", "import"):
                status, message = said[way]
                self.assertIn(status, (statuses,) if isinstance(statuses, str) else statuses, (way, message))
                for word in words:
                    self.assertIn(word, message, way)
                self.assertIn("case.pt", message, f"{way}: the message names the file")

    def accepted(self, what, data):
        with self.subTest(what):
            said = self.open(data)
            self.assertEqual([said[way][0] for way in ("open", "verify", "import")], ["OK"] * 3, said)
            return said["open"][1]


class Baseline(HostileCase):
    def test_the_honest_files_that_all_others_are_made_from_are_read(self):
        zipped, old = self.accepted("zip", pt()), self.accepted("legacy", legacy())
        self.assertNotEqual(zipped, old)  # "pt" and "pt-legacy"
        self.accepted("empty tensor beyond its storage's end", pt(pickled(tensor(shape=(0, 3), offset=6))))
        self.accepted("expanded", pt(pickled(tensor(shape=(1000, 6), strides=(0, 1)))))
        self.accepted("comment", archive(entries(), comment=b"made elsewhere"))


class Code(HostileCase):
    def calls(self, module, name):
        command = f"touch {self.marker}"
        return {"REDUCE": opcodes(Call(Name(module, name), command)),
                "INST": b"(" + opcodes(command) + b"i" + module.encode() + b"\n" + name.encode() + b"\n",
                "OBJ": b"(" + opcodes(Name(module, name)) + opcodes(command) + b"o",
                "NEWOBJ": opcodes(Name(module, name)) + opcodes((command,)) + b"\x81",
                "NEWOBJ_EX": opcodes(Name(module, name)) + opcodes((command,)) + opcodes({}) + b"\x92",
                "STACK_GLOBAL": opcodes(module) + opcodes(name) + b"\x93" + opcodes((command,)) + b"R",
                "BUILD": opcodes(Call(Name("collections", "OrderedDict"))) + opcodes({"f": Name(module, name)}) + b"b",
                "mention": opcodes(Name(module, name)),
                "memo": opcodes(Name(module, name)) + b"q\x00" + b"0h\x00" + opcodes((command,)) + b"R"}

    def test_every_way_of_calling_os_system_is_refused_by_its_name(self):
        for opcode, code in self.calls("os", "system").items():
            self.refused(f"zip {opcode}", pt(b"\x80\x02" + code + b"."), UNSUPPORTED, "os.system")
            self.refused(f"legacy {opcode}", legacy(b"\x80\x02" + code + b".", keys=(), storages=b""), UNSUPPORTED,
                         "os.system")


class Repeated(HostileCase):
    def imported_bytes(self, data):
        """The size of a store that has the file and nothing else."""
        path = os.path.join(self.folder.name, "repeated.pt")
        pathlib.Path(path).write_bytes(data)
        code = "import capi, sys; capi.import_file(capi.store(sys.argv[2]), sys.argv[1], 'x')"
        with tempfile.TemporaryDirectory() as place:
            done = subprocess.run([sys.executable, "-c", code, path, place], cwd=HERE, capture_output=True, text=True,
                                  timeout=MAX_SECONDS, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return sum(file.stat().st_size for file in pathlib.Path(place).rglob("*") if file.is_file())

    def test_elements_repeated_a_trillion_times_take_no_room_in_a_store(self):
        data = pt(pickled({"weight": tensor(shape=(2**40,), strides=(0,))}))
        self.assertLess(self.imported_bytes(data), 1 << 20)

    def test_many_tensors_of_few_repeated_elements_take_as_much_room_as_their_file(self):
        of = storage(kind="ByteStorage", count=2000)
        data = pt(pickled([tensor(of, i, shape=(1 << 16,), strides=(0,)) for i in range(2000)]), data=bytes(2000))
        self.assertLess(self.imported_bytes(data), 8 * len(data))


class Archives(HostileCase):
    def test_every_changed_byte_is_found_or_changes_nothing(self):
        whole = pt()
        honest = self.accepted("honest", whole)
        flips = 0
        for at in range(len(whole)):
            for bit in (0x01, 0x80):
                data = bytearray(whole)
                data[at] ^= bit
                status, message = self.open(bytes(data))["verify"]
                self.assertTrue(status in (FORMAT, CORRUPT, UNSUPPORTED) or (status, message) == ("OK", honest),
                                (at, bit, status, message))
                flips += status != "OK"
        self.assertGreater(flips, len(whole) // 2)


class Legacy(HostileCase):
    def test_every_changed_byte_of_the_old_form_is_survived(self):
        whole = legacy()
        for at in range(len(whole)):
            for bit in (0x01, 0x80):
                data = bytearray(whole)
                data[at] ^= bit
                self.open(bytes(data))


class Large(HostileCase):
    """Archives that need zip64; what they hold is a hole in the file."""
    COUNT = (5 << 30) // 4  # floats

    def value(self):
        whole = storage(count=self.COUNT)
        return {"whole": tensor(whole, shape=(self.COUNT,), strides=(1,)),
                "end": tensor(whole, offset=self.COUNT - 3, shape=(3,), strides=(1,))}

    def large(self, **said):
        path = os.path.join(self.folder.name, "large.pt")
        write_zip64(path, pickled(self.value()), 4 * self.COUNT, struct.pack("<3f", 1, 2, 3), **said)
        return path

    def test_a_storage_of_more_than_4_gib_is_read_where_it_lies(self):
        code = "import capi, sys; f = capi.open_names(sys.argv[1]); print(*f['whole'], *f['end'])"
        done = subprocess.run([sys.executable, "-c", code, self.large()], cwd=HERE,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        end = struct.pack("<3f", 1, 2, 3).hex()
        self.assertEqual(done.stdout.split(), [str(self.COUNT), bytes(12).hex(), end, "3", end, end])

    def test_zip64_records_that_lie_are_refused(self):
        for what, said in {"size": dict(size=2**63), "stored": dict(stored=4 * self.COUNT + 4),
                           "offset": dict(offset=2**62),
                           "count": dict(count=2**40), "directory's place": dict(directory=2**63),
                           "directory's size": dict(directory_size=2**62), "record's place": dict(record=2**62),
                           "record's size": dict(record_size=2**60)}.items():
            with self.subTest(what):
                said = self.worker.ask(self.large(**said))
                self.assertNotIn("died", said)
                self.assertEqual([said[way][0] for way in ("open", "verify", "import")], [FORMAT] * 3, said)

    def test_an_archive_of_seventy_thousand_storages_is_read(self):
        count = 70000
        value = {str(i): tensor(storage(str(i), count=1), shape=(1,), strides=(1,)) for i in (0, 1, 65535, count - 1)}
        others = entries(value)[:2] + entries()[3:]
        others += [Entry(f"archive/data/{i}", struct.pack("<f", i)) for i in range(count)]
        self.accepted("zip64 for the number of entries", archive(others))


if __name__ == "__main__":
    unittest.main()
