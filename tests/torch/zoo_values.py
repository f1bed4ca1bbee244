"""Zoo: what is no tensor. Each function gives one object to save."""
import argparse
import collections
import datetime
import decimal
import fractions
import pathlib
import random
import uuid

import numpy
from quick_torch import torch

import zoo_classes as classes


def scalars():
    return {"none": None, "true": True, "false": False, "zero": 0, "small": 7, "minus": -1, "byte": 255, "short": 65535,
            "int32": -2**31, "over": 2**31, "int64": 2**63 - 1, "low": -2**63, "pi": 3.141592653589793, "tiny": 5e-324,
            "minus_zero": -0.0, "largest": 1.7976931348623157e308, "third": 1 / 3, "text": "text", "empty": ""}


def big_ints():
    return [2**63, -2**63 - 1, 2**64, 10**40, -10**40, 2**2000, -2**2048 + 1, 1 << 4095]


def special_floats():
    return [float("nan"), float("inf"), float("-inf"), -0.0]


def texts():
    return {"ключ": "значение", "日本": "語", "🙂": "🙂🙃", "a\0b": "c\0d", "quote\"\\/": "\t\n\r\x01", "long": "x" * 70000,
            "é": "e\u0301", "": "empty key", "a/b": 1, "a.b": 2, "..": 3, "%2F": 4, "~0": 5, "#": 6, "$ref": 7,
            "@type": 8}


def raw_bytes():
    return [b"", b"abc", bytes(range(256)), bytes(70000), bytearray(b"xyz"), bytearray(), {"b": b"\xff"}]


def keys():
    return {0: "int", "0": "text", -1: "minus", "-1": "text minus", 2**40: "wide", "x": {1: {2: {"3": 4}}}, 10: 1, 9: 2}


def odd_keys():
    return {(0, "a"): 1, (1, 2): 2, None: 3, 1.5: 4, b"b": 5, True: 6, "x": 7, frozenset([1]): 8, 2**70: 9}


def nested():
    return {"list": [1, [2, [3, []]], ()], "tuple": (1, (2,), [], {}), "dict": {"a": {"b": {"c": {}}}},
            "mix": [{"a": (1, [2])}],
            "long": list(range(3000)), "wide": {str(i): i for i in range(3000)},
            "pairs": [(i, str(i)) for i in range(1001)]}


def same_objects():
    shared, text = [1, 2], "one text, twice"
    return {"a": shared, "b": shared, "c": [shared, (shared,)], "text": [text, text, {text: text}]}


def containers():
    return {"set": {1, 2, 3}, "frozen": frozenset({"a", "b"}), "empty": [set(), frozenset()],
            "of_tuples": {(1, 2), (3, 4)},
            "ordered": collections.OrderedDict([("z", 1), ("a", 2)]),
            "ordered_empty": collections.OrderedDict(),
            "default": collections.defaultdict(list, {"a": [1], "b": []}),
            "default_none": collections.defaultdict(None, {1: 2}),
            "default_of_ints": collections.defaultdict(int, x=3),
            "counter": collections.Counter("hello"), "deque": collections.deque([1, 2, 3]),
            "deque_short": collections.deque([1, 2], maxlen=2)}


def library_objects():
    return {"date": datetime.date(2026, 11, 21), "time": datetime.datetime(2026, 11, 21, 17, 5, 9, 123456),
            "zone": datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
            "delta": datetime.timedelta(days=1, seconds=2), "path": pathlib.PurePosixPath("/data/run7"),
            "uuid": uuid.UUID(int=7), "decimal": decimal.Decimal("1.10"), "fraction": fractions.Fraction(1, 3),
            "complex": complex(1.5, -2.0), "range": range(2, 10, 3), "slice": slice(1, None, 2), "dots": ...,
            "namespace": argparse.Namespace(lr=0.1, layers=[1, 2], name="run", nested=argparse.Namespace(a=1))}


def own_objects():
    named_list, named_dict = classes.NamedList([1, 2]), classes.NamedDict(a=1)
    named_list.note, named_dict.note = "list", torch.ones(2)
    return {"local": classes.Local(), "plain": classes.Plain(a=1, t=torch.ones(2)), "empty": classes.Plain(),
            "slotted": classes.Slotted(1, [2]), "stated": classes.Stated(1, torch.zeros(1)),
            "reduced": classes.Reduced(1, "two", [3.0]), "list": named_list, "dict": named_dict,
            "colours": [classes.Colour.RED, classes.Colour.BLUE], "class": classes.Plain, "type": int,
            "twice": [named_list, named_list]}


def torch_values():
    return {"size": torch.Size([2, 3]), "no_size": torch.Size([]), "cpu": torch.device("cpu"),
            "cuda": torch.device("cuda:1"),
            "dtypes": [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.quint8],
            "layout": torch.strided, "sparse": torch.sparse_coo,
            "scheme": torch.per_channel_affine}


def torch_keys():
    return {torch.float32: 1, torch.bfloat16: torch.ones(2), torch.device("cuda:1"): 2, (torch.int8, 0): 3,
            torch.Size([2, 3]): 4}


def numpy_scalars():
    kinds = ("bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
             "complex128").split()
    values = {kind: getattr(numpy, kind)(1) for kind in kinds}
    values.update(loss=numpy.float64(0.1), half=numpy.float16(-1.5), nan=numpy.float64("nan"),
                  top=numpy.uint64(2**64 - 1),
                  text=numpy.str_("text"), bytes=numpy.bytes_(b"raw"))
    return values


def numpy_date():
    return numpy.datetime64("2026-11-21")


def numpy_arrays():
    kinds = ("bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
             "complex128").split()
    arrays = {kind: (numpy.arange(6) % 5).astype(kind).reshape(2, 3) for kind in kinds}
    base = numpy.arange(24.0).reshape(2, 3, 4)
    arrays.update(fortran=numpy.asfortranarray(base), transposed=base.transpose(2, 0, 1), strided=base[:, ::2, 1:],
                  scalar=numpy.array(3.5), empty=numpy.zeros((0, 3)), one_row=numpy.zeros((1, 5), order="F"))
    return arrays


def numpy_big_endian():
    return {"ints": numpy.arange(4, dtype=">i4"), "double": numpy.array([0.5, -0.0], dtype=">f8")[1], "number": 1}


def numpy_arrays_of_other_kinds():
    return {"text": numpy.array(["a", "bcd"]), "bytes": numpy.array([b"a", b"bc"]),
            "objects": numpy.array([1, "two", None, [3]], dtype=object),
            "record": numpy.array([(1, 2.0), (3, 4.0)], dtype=[("a", "<i4"), ("b", "<f8")]),
            "dates": numpy.array(["2026-11-21"], dtype="datetime64[D]"), "dtype": numpy.dtype("float32")}


def random_states():
    random.seed(5)
    numpy.random.seed(6)
    torch.manual_seed(7)
    generator = numpy.random.Generator(numpy.random.PCG64(8))
    return {"torch": torch.get_rng_state(), "python": random.getstate(), "numpy": numpy.random.get_state(),
            "numpy_dict": numpy.random.get_state(legacy=False), "pcg": generator.bit_generator.state, "cuda": []}


def generators():
    made = {kind: numpy.random.Generator(getattr(numpy.random, kind)(8))
            for kind in ("PCG64", "MT19937", "Philox", "SFC64")}
    return {**made, "old": numpy.random.RandomState(3), "bits": numpy.random.Philox(9)}


def only_none():
    return None


def only_a_number():
    return 42


def only_text():
    return "hello"


def only_a_list():
    return [1, 2.5, "x", None]


def empty_dict():
    return {}
