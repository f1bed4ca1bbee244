#!/usr/bin/env python3
"""Files that must be refused by name, never carried out and never survive as half a file.

    CKPT_LIBRARY=… hostile_test.py [-v]

Each case is opened, opened with verify=1 and imported by hostile_worker.py: a process that dies, hangs or grows is a
failure of the file that it had before it.
"""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from hostile_files import (FLOATS, Call, Entry, Name, Persistent, Raw, archive, entries, legacy, legacy_storage,
                           legacy_tensor, opcodes, pickled, pt, storage, tensor, write_zip64)

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


def names(text):
    return re.sub(r"\|?\n +", "|", text).strip("|").split("|")


# "module name" that may stand in no file, called or not.
HARMFUL = names("""
    os system|posix system|nt system|subprocess Popen|subprocess check_output|builtins eval|
    builtins exec|__builtin__ eval|builtins __import__|builtins open|builtins compile|
    importlib import_module|runpy run_path|ctypes CDLL|socket create_connection|shutil rmtree|
    pty spawn|webbrowser open|code interact|pickle loads|cPickle loads|marshal loads|
    functools partialmethod|operator attrgetter|operator methodcaller|torch.hub load|torch load|
    torch.serialization load|torch.package PackageImporter|torch.utils.cpp_extension load|
    torch.jit load|torch.storage _load_from_bytes|numpy load|numpy.testing._private.utils runstring|
    timeit timeit|cProfile run|profile Profile.run|trace Trace.run|bdb Bdb.run|pdb run|
    pydoc pipepager|types FunctionType|types CodeType|sys exit|asyncio run|multiprocessing Process|
    threading Thread|signal signal|tempfile mkdtemp|urllib.request urlopen|
    http.client HTTPConnection|smtplib SMTP|logging.config dictConfig|pip main|unittest.mock patch|
    doctest debug_script|idlelib.pyshell main|ensurepip _run_pip|venv create|
    torch.distributed.rpc rpc_sync|torch.utils.collect_env run|_io open|io open|io FileIO|
    torch os.system|torch.serialization os.system|concurrent.futures ProcessPoolExecutor|
    zipimport zipimporter|site execsitecustomize""")
# Functions that no list knows: refused as soon as they are called.
CALLED = names("""
    mymodule function|torch.fx.experimental.symbolic_shapes eval_guards|
    torch.utils.bottleneck.__main__ run_cprofile|torch._dynamo.guards get|numpy.lib.npyio fromregex|
    torch compile|torch from_file|torch.cuda _lazy_init""")


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

    def spelled(self, module, name):
        """As messages spell it, in Python 3's names."""
        return {"__builtin__": "builtins", "cPickle": "pickle", "_io": "io"}.get(module, module) + "." + name

    def test_every_way_of_calling_os_system_is_refused_by_its_name(self):
        for opcode, code in self.calls("os", "system").items():
            self.refused(f"zip {opcode}", pt(b"\x80\x02" + code + b"."), UNSUPPORTED, "os.system")
            self.refused(f"legacy {opcode}", legacy(b"\x80\x02" + code + b".", keys=(), storages=b""), UNSUPPORTED,
                         "os.system")

    def test_names_of_harm_are_refused_called_or_not(self):
        for full in HARMFUL:
            module, name = full.split(" ")
            for opcode in ("REDUCE", "mention", "NEWOBJ"):
                code = self.calls(module, name)[opcode]
                self.refused(f"{full} {opcode}", pt(b"\x80\x02" + code + b"."), UNSUPPORTED, self.spelled(module, name))

    def test_functions_that_nobody_knows_are_refused_when_called(self):
        for full in CALLED:
            module, name = full.split(" ")
            self.refused(full, pt(pickled(Call(Name(module, name), "x"))), UNSUPPORTED, self.spelled(module, name))

    def test_what_is_built_from_harmless_pieces_is_refused(self):
        getattr_of = Name("builtins", "getattr")
        self.refused("partial", pt(pickled(Call(Name("functools", "partial"), Name("os", "system"), "x"))), UNSUPPORTED,
                     "os.system")
        self.refused("getattr of a module", pt(pickled(Call(getattr_of, Name("os", "path"), "system"))), UNSUPPORTED,
                     "os.path")
        self.refused("getattr of a class", pt(pickled(Call(Call(getattr_of, Name("torch", "Tensor"), "__reduce_ex__"),
                                                           2))),
                     UNSUPPORTED)
        self.refused("type with three arguments", pt(pickled(Call(Name("builtins", "type"), "X", (), {}))), UNSUPPORTED,
                     "builtins.type")
        self.refused("codecs", pt(pickled(Call(Name("_codecs", "encode"), "x", "rot13"))), UNSUPPORTED, "encode")
        self.refused(
    "call of a result", pt(
        pickled(
            Call(
                Call(
                    Name(
                        "collections", "Counter")), "x"))), UNSUPPORTED, "Counter")
        self.refused(
    "apply of map", pt(
        pickled(
            Call(
                Name(
                    "builtins", "map"), Name(
                        "os", "system"), ["x"]))), UNSUPPORTED)
        self.refused("call in a storage's type", pt(pickled(tensor(
            Persistent(("storage", Call(Name("os", "system"), "x"), "0", "cpu", 6))))), UNSUPPORTED, "os.system")
        self.refused("call in a tensor's hooks", pt(pickled(Call(Name("torch._utils", "_rebuild_tensor_v2"),
                                                                 storage(), 0, (6,),
                                                                 (1,), False, Call(Name("os", "system"), "x")))),
                     UNSUPPORTED, "os.system")
        self.refused("extension registry", pt(b"\x80\x02\x82\x01."), (UNSUPPORTED, FORMAT))

    def test_a_call_in_a_pickle_before_the_object_is_refused(self):
        call = pickled(Call(Name("os", "system"), f"touch {self.marker}"))
        for place, data in {"first": call, "second": pickled(0x1950A86A20F9469CFC6C) + call,
                            "keys": legacy().split(b"\x80\x02](")[0] + call}.items():
            self.refused(place, data, (UNSUPPORTED, FORMAT))


class Pickles(HostileCase):
    def damaged(self, what, code, *words, statuses=FORMAT):
        self.refused(what, pt(b"\x80\x02" + code), statuses, "data.pkl", *words)

    def test_broken_pickles_are_refused(self):
        for what, code in {
                "empty": b"", "no STOP": b"N", "nothing to return": b".", "unknown opcode": b"\xff.",
                "text opcode": b"?.",
                "stack underflow": b"0.", "REDUCE of nothing": b"R.", "no mark": b"e.", "tuple without mark": b"t.",
                "memo that is not there": b"h\x07.", "long memo": b"j\xff\xff\xff\xff.", "GET of no number": b"gx\n.",
                "odd SETITEMS": b"}(K\x01u.", "SETITEMS on a list": b"](K\x01K\x02u.",
                "APPENDS to a dict": b"}(K\x01e.",
                "text past the end": b"X\xff\xff\xff\x7fa.", "text of 2^63": b"\x8d" + b"\xff" * 8 + b"a.",
                "bytes of 2^62": b"\x8e" + b"\x00" * 7 + b"\x40" + b".",
                "LONG4 of 2^31-1": b"\x8b\xff\xff\xff\x7f\x00.",
                "negative LONG4": b"\x8b\xff\xff\xff\xff\x00.", "frame past the end": b"\x95" + b"\xff" * 8 + b"N.",
                "text that is not UTF-8": b"X\x01\x00\x00\x00\xff.",
                "number that is none": b"Ix\n.", "float that is none": b"Fx\n.", "GLOBAL without a name": b"cos\n",
                "BUILD of a number": b"K\x01}b.", "NEWOBJ of a number": b"K\x01)\x81.",
                "name with a line": b"c\n\n."}.items():
            self.damaged(what, code)

    def test_what_is_no_checkpoint_is_refused(self):
        self.refused("persistent id of no tuple", pt(pickled(Persistent("0"))), FORMAT, "persistent id")
        self.refused(
    "persistent id of another kind", pt(
        pickled(
            Persistent(
                ("file", "/etc/passwd")))), FORMAT, "persistent id")

    def test_what_holds_itself_is_read(self):
        for what, code in {"list": b"]q\x00h\x00a.", "dict": b"}q\x00X\x01\x00\x00\x00ah\x00s.",
                           "two lists": b"]q\x00]q\x01h\x00aa."}.items():
            self.accepted(what, pt(b"\x80\x02" + code))

    def test_a_billion_laughs_are_refused(self):
        code = b"]q\x00"
        for level in range(1, 40):
            get = b"h" + bytes([level - 1])
            code += b"](" + get * 10 + b"eq" + bytes([level])
        self.refused("lists", pt(b"\x80\x02" + code + b"."), (UNSUPPORTED, FORMAT))
        code = opcodes("x" * 60000) + b"q\x00(" + b"h\x00" * 60000 + b"t"
        self.refused("text", pt(b"\x80\x02" + code + b"."), (UNSUPPORTED, FORMAT))

    def test_nesting_a_hundred_thousand_deep_is_refused(self):
        deep = 100000
        for what, code in {"lists": b"]" * deep + b"a" * (deep - 1), "tuples": b")" + b"\x85" * deep,
                           "dicts": b"}K\x01" * deep + b"}" + b"s" * deep,
                           "objects": opcodes(Name("a", "B")) + b")\x81" + b"\x85" * deep,
                           "persistent ids": b"K\x01" + b"Q" * deep,
                           "calls": opcodes(Name("a", "B")) * deep + b")" + b"R\x85" * deep}.items():
            self.refused(what, pt(b"\x80\x02" + code + b"."), (UNSUPPORTED, FORMAT))

    def test_two_hundred_levels_are_read_and_more_are_refused(self):
        self.accepted("200", pt(b"\x80\x02" + b"]" * 200 + b"a" * 199 + b"."))
        self.refused("201", pt(b"\x80\x02" + b"]" * 201 + b"a" * 200 + b"."), (UNSUPPORTED, FORMAT), "200")

    def test_two_tensors_of_one_path_are_not_mixed_up(self):
        twice = pt(pickled({"0": tensor(), 0: tensor(shape=(3,), strides=(1,))}))
        self.accepted("0 and '0'", twice)


class Tensors(HostileCase):
    def bad(self, what, value, *words, statuses=FORMAT):
        self.refused(f"zip: {what}", pt(pickled({"weight": value})), statuses, *words)

    def test_a_tensor_that_reaches_past_its_storage_is_refused_with_its_name(self):
        for what, said in {"shape": dict(shape=(3, 3)), "offset": dict(offset=1), "strides": dict(strides=(4, 1)),
                           "far": dict(offset=2**61), "offset times width": dict(offset=2**62, shape=(1,),
                                                                                 strides=(1,)),
                           "one dimension": dict(shape=(7,), strides=(1,)),
                           "just past": dict(shape=(), strides=(), offset=6),
                           "no elements but an offset of 2^63-1": dict(shape=(2,), strides=(2**62,), offset=2**63 - 1),
                           "stride overflow": dict(shape=(2**31, 2**31), strides=(2**62, 2**62)),
                           "huge": dict(shape=(2**40, 2**40), strides=(2**40, 1))}.items():
            self.bad(what, tensor(**said), "weight")
            self.refused(f"legacy: {what}", legacy(pickled({"weight": legacy_tensor(**said)})), FORMAT, "weight")

    def test_numbers_that_no_tensor_has_are_refused(self):
        for what, said in {"negative stride": dict(strides=(-3, 1)), "negative offset": dict(offset=-1),
                           "negative extent": dict(shape=(-2, 3)), "strides missing": dict(strides=(1,)),
                           "shape missing": dict(shape=()), "offset beyond int64": dict(offset=2**64),
                           "extent beyond int64": dict(shape=(2**70, 1))}.items():
            self.bad(what, tensor(**said), "weight")
        for what, arguments in {"text for shape": (storage(), 0, "23", (1,)),
                                "float offset": (storage(), 0.0, (6,), (1,)),
                                "no arguments": (), "few arguments": (storage(), 0), "None": (None, 0, (6,), (1,)),
                                "a tensor as storage": (tensor(), 0, (6,), (1,))}.items():
            self.bad(what, Call(Name("torch._utils", "_rebuild_tensor_v2"), *arguments), "weight")

    def test_elements_repeated_past_any_memory_are_refused(self):
        self.bad("2^124 elements of one", tensor(shape=(2**62, 2**62), strides=(0, 0)), "weight")
        self.bad("2^62 elements of 4 bytes", tensor(shape=(2**62,), strides=(0,)), "weight")

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

    def test_more_dimensions_than_ckpt_has_are_refused(self):
        self.bad("17", tensor(shape=[1] * 17, strides=[1] * 17), "weight", "17", statuses=UNSUPPORTED)

    def test_storages_that_are_not_there_or_too_small_are_refused(self):
        self.refused("missing", pt(pickled({"weight": tensor(storage("7"))})), FORMAT, "weight", "7")
        self.refused("path as key", pt(pickled({"weight": tensor(storage("../../etc/passwd"))})), FORMAT, "weight")
        self.refused("truncated record", pt(data=FLOATS[:20]), FORMAT, "w")
        self.refused("empty record", pt(data=b""), FORMAT, "w")
        self.refused("record no multiple of the width", pt(pickled(tensor(storage(kind="DoubleStorage", count=3),
                                                                          shape=(3,),
                                                                          strides=(1,))), data=FLOATS[:23]), FORMAT)
        self.refused("pickle says more than the record", pt(pickled({"weight": tensor(storage(count=600))})), FORMAT)
        self.refused("pickle says less", pt(pickled({"weight": tensor(storage(count=1))})), FORMAT, "weight", "1 elem")

    def test_dtypes_that_do_not_exist_are_refused_by_name(self):
        self.bad("storage class", tensor(storage(kind="FooStorage")), "FooStorage", statuses=UNSUPPORTED)
        self.bad("class of another module", tensor(Persistent(("storage", Name("mine", "FloatStorage"), "0", "cpu",
                                                               6))),
                 "mine", statuses=UNSUPPORTED)
        named = Call(Name("torch._utils", "_rebuild_tensor_v3"), storage(kind="UntypedStorage", count=24), 0, (6,),
                     (1,), False,
                     Call(Name("collections", "OrderedDict")), Name("torch", "float3_e9m9"))
        self.bad("dtype", named, "float3_e9m9", statuses=UNSUPPORTED)


def directory_of(data):
    return data.index(b"PK\x01\x02")


class References(HostileCase):
    """A few bytes that refer to a long value, again and again: each of them must not cost what the value does."""
    COUNT = 200000

    def test_a_long_text_that_is_encoded_again_and_again_is_refused(self):
        code = (b"(" + opcodes("a" * self.COUNT) + b"q\x00" + opcodes("latin1") + b"tq\x010" +
                opcodes(Name("_codecs", "encode")) + b"q\x02" + b"h\x01R0h\x02" * self.COUNT)
        self.refused("text", pt(b"\x80\x02" + code + b"."), FORMAT, "copies more than it holds")

    def test_a_dict_that_gives_one_key_many_times_is_refused_where_it_is_shared(self):
        code = b"](}q\x00(" + b"K\x00N" * self.COUNT + b"u" + b"h\x00" * self.COUNT + b"e"
        self.refused("dict", pt(b"\x80\x02" + code + b"."), UNSUPPORTED, "repeats values so often")

    def test_long_texts_and_metadata_that_tensors_share_are_refused(self):
        long = "x" * self.COUNT
        head = (storage(), 0, (6,), (1,), False, Call(Name("collections", "OrderedDict")))
        flags = Raw(b"}(" + b"K\x00N" * self.COUNT + b"u")
        self.refused("metadata", pt(pickled(Call(Name("torch._utils", "_rebuild_tensor_v2"), *head, flags))),
                     UNSUPPORTED, "metadata of 200000 entries")
        self.refused("key", pt(pickled(tensor(storage(long)))), FORMAT, "key is longer than 255")
        self.refused("location", pt(pickled(tensor(Persistent(("storage", Name("torch", "FloatStorage"), "0", long,
                                                               6))))), FORMAT, "location is longer than 255")

    def test_twenty_thousand_pairs_of_overlapping_views_of_one_storage_are_read(self):
        of = storage(kind="ByteStorage", count=60000)
        self.accepted("pairs", pt(pickled([tensor(of, i // 2 * 3 + i % 2, (2,), (1,)) for i in range(40000)]),
                                  data=bytes(60000)))


class Archives(HostileCase):
    def test_every_truncation_is_refused(self):
        whole = pt()
        for size in range(len(whole)):
            said = self.open(whole[:size])
            for way in ("open", "verify", "import"):
                self.assertIn(said[way][0], (FORMAT, UNSUPPORTED), (size, way, said[way]))

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

    def test_damage_in_a_pickle_is_found_without_being_asked_to_verify(self):
        whole = bytearray(pt())
        at = whole.index(b"_rebuild_tensor_v2")
        whole[at + 9] ^= 1
        self.refused("pickle", bytes(whole), CORRUPT, "data.pkl")

    def test_damage_in_a_tensor_is_found_by_verify(self):
        whole = bytearray(pt())
        whole[whole.index(FLOATS) + 5] ^= 1
        said = self.open(bytes(whole))
        self.assertEqual(said["open"][0], "OK")
        self.assertEqual(said["verify"][0], CORRUPT)
        self.assertIn("archive/data/0", said["verify"][1])

    def test_an_import_never_takes_a_damaged_tensor(self):
        whole = bytearray(pt())
        whole[whole.index(FLOATS) + 5] ^= 1
        status, message = self.open(bytes(whole))["import"]
        self.assertEqual(status, CORRUPT, message)
        self.assertIn("archive/data/0", message)

    def test_entries_that_lie_are_refused_by_name(self):
        for what, said in {"size in the directory": dict(central_size=23, central_stored=23),
                           "size in the header": dict(local_size=25, local_stored=25),
                           "larger than the file": dict(size=2**31, stored=2**31),
                           "stored is not size": dict(size=12), "name in the header": dict(local_name="archive/data/1"),
                           "offset past the end": dict(offset=2**31), "offset into data": dict(offset=130),
                           "offset of another": dict(offset=0), "all ones without zip64": dict(stored=0xFFFFFFFF,
                                                                                              size=0xFFFFFFFF)}.items():
            self.refused(what, pt(**said), FORMAT)

    def test_overlapping_entries_are_refused(self):
        honest = entries()
        twice = Entry("archive/data/1", b"", offset=0, absent_local=True, central_stored=len(FLOATS))
        self.refused("one header, two names", archive(honest + [twice]), FORMAT)
        inner = archive([Entry("archive/data/2", FLOATS)])[:-100]
        outer = Entry("archive/data/1", inner + bytes(100))
        first = archive(honest + [outer])
        start = first.index(inner[:30], first.index(b"archive/data/1"))
        within = Entry("archive/data/2", FLOATS, offset=start, absent_local=True)
        self.refused("an entry in an entry", archive(honest + [outer, within]), FORMAT)

    def test_entries_of_one_name_are_refused(self):
        self.refused("storage", archive(entries() + [Entry("archive/data/0", bytes(24))]), FORMAT, "archive/data/0")
        self.refused("pickle", archive(entries() + [Entry("archive/data.pkl", pickled(1))]), FORMAT, "archive/data.pkl")

    def test_directories_that_lie_are_refused(self):
        for what, said in {"more entries": dict(count=5), "fewer entries": dict(count=3), "no entries": dict(count=0),
                           "65535 entries": dict(count=65535), "begins later": dict(directory_shift=1),
                           "begins earlier": dict(directory_shift=-1),
                           "begins past the end": dict(directory_shift=2**30),
                           "too long": dict(directory_grow=1), "too short": dict(directory_grow=-1),
                           "several disks": dict(disk=1), "bytes before": dict(before=b"x" * 64),
                           "bytes behind": dict(after=b"x" * 70)}.items():
            self.refused(what, archive(entries(), **said), (FORMAT, UNSUPPORTED))

    def test_entries_in_other_ways_than_plain_are_refused_by_name(self):
        self.refused("deflated", pt(method=8), UNSUPPORTED, "archive/data/0")
        self.refused("of an unknown method", pt(method=99), UNSUPPORTED, "archive/data/0")
        self.refused("encrypted", pt(flags=1), UNSUPPORTED, "archive/data/0")

    def test_archives_of_something_else_are_refused(self):
        self.refused("no pickle", archive(entries()[1:]), FORMAT, "data.pkl")
        self.refused("no entries at all", archive([]), FORMAT)
        self.refused("a text file", b"hello, this is no checkpoint at all\n" * 10, FORMAT)
        self.refused("an empty file", b"", FORMAT)
        self.refused("zeros", bytes(4096), FORMAT)

    def test_a_plain_pickle_is_read_to_its_last_byte_and_has_no_storages(self):
        whole = pickled({"w": 1, "b": [2.5, "text"]})
        self.accepted("a plain pickle", whole)
        for size in range(len(whole)):
            self.refused(f"{size} bytes of it", whole[:size], FORMAT)
        self.refused("another pickle behind", whole + pickled(1), FORMAT, f"ends at byte {len(whole)}")
        self.refused("a tensor", pickled({"w": tensor()}), FORMAT, "no such storage")
        self.refused("a call", pickled({"w": Call(Name("os", "system"), "id")}), UNSUPPORTED, "os.system")

    def test_what_ckpt_cannot_know_is_refused_by_name(self):
        others = [entry for entry in entries() if not entry.name.endswith(("byteorder", "version"))]
        self.refused("big-endian", archive(others + [Entry("archive/byteorder", b"big")]), UNSUPPORTED, "big")
        self.refused("a later version", archive(others + [Entry("archive/version", b"999\n")]), UNSUPPORTED, "999")


class Legacy(HostileCase):
    def test_every_truncation_of_the_old_form_is_refused(self):
        whole = legacy()
        for size in range(len(whole)):
            said = self.open(whole[:size])
            for way in ("open", "verify", "import"):
                self.assertIn(said[way][0], (FORMAT, UNSUPPORTED), (size, way, said[way]))

    def test_every_changed_byte_of_the_old_form_is_survived(self):
        whole = legacy()
        for at in range(len(whole)):
            for bit in (0x01, 0x80):
                data = bytearray(whole)
                data[at] ^= bit
                self.open(bytes(data))

    def test_old_files_that_lie_are_refused(self):
        words = struct.pack("<q", 6)
        for what, said in {"magic": dict(magic=1), "protocol": dict(protocol=1002), "no system": dict(system={}),
                           "keys are missing": dict(keys=()), "keys of no storage": dict(keys=("0", "1")),
                           "a key twice": dict(keys=("0", "0"), storages=(words + FLOATS) * 2),
                           "numbers as keys": dict(keys=(0,)),
                           "too few elements": dict(storages=struct.pack("<q", 5) + FLOATS[:20]),
                           "too many elements": dict(storages=struct.pack("<q", 7) + FLOATS + FLOATS[:4]),
                           "negative count": dict(storages=struct.pack("<q", -1) + FLOATS),
                           "count of 2^62": dict(storages=struct.pack("<q", 2**62) + FLOATS),
                           "more than it says": dict(storages=words + FLOATS + b"x"),
                           "truncated": dict(storages=words + FLOATS[:-1]), "no storages": dict(storages=b"")}.items():
            self.refused(what, legacy(**said), FORMAT)

    def test_old_files_of_other_machines_are_refused_by_name(self):
        self.refused("big-endian", legacy(system={"protocol_version": 1001, "little_endian": False, "type_sizes": {}}),
                     UNSUPPORTED, "big")
        tar = b"sys_info" + bytes(249) + b"ustar\x0000" + bytes(248)
        self.refused("tar", tar + bytes(10240), UNSUPPORTED, "tar")

    def test_views_of_storages_stay_inside_them(self):
        for what, view in {"past the end": ("1", 4, 3), "negative": ("1", -1, 3), "huge": ("1", 2**62, 2**62)}.items():
            of = legacy_storage(view=view)
            self.refused(what, legacy(pickled({"w": legacy_tensor(of, shape=(3,), strides=(1,))})), FORMAT)
        self.accepted("inside", legacy(
            pickled({"w": legacy_tensor(legacy_storage(view=("1", 3, 3)), shape=(3,), strides=(1,))})))


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


class Opcodes(HostileCase):
    def test_every_opcode_behind_every_kind_of_value_is_survived(self):
        tails = (b".", b"\x01\x00\x00\x00a.1\n2\n.")
        heads = (b"", b"(N", b"]", b"}q\x00(N", b"))", opcodes(Name("a", "B")) + b")")
        for code in range(256):
            for head in heads:
                for tail in tails:
                    self.open(pt(b"\x80\x02" + head + bytes([code]) + tail))


if __name__ == "__main__":
    unittest.main()
