#!/usr/bin/env python3
"""pickles.py: prints pickle_samples.h, one value as Python 3 pickles it in protocols 0 to 5 (CPython 3.11 wrote the
committed one), for pickle_test.cpp."""
import argparse
import collections
import datetime
import decimal
import enum
import pickle
import re
import types


class Outer:
    class Inner:
        def __init__(self):
            self.x = 1


class Color(enum.Enum):
    RED = 1


class MyDict(dict):
    pass


class MyList(list):
    pass


class lower:
    pass


def sample():
    shared = [1]
    own = MyDict()
    own.attr = 2
    plain = lower()
    plain.shared = shared
    return [
        None, True, False, 0, -1, 255, 256, 65536, -2**31, 2**31, 2**63 - 1, -2**63, 2**63, -2**63 - 1, 10**40, -10**40,
        1.5, -0.0, float("inf"), "text", "\u00fc\u2603\U0001f600\n\\u", b"", b"a\xff\0", bytearray(b"q\x80"), (), (1,),
        (1, 2), (1, 2, 3), (1, 2, 3, 4), [], shared, {}, {"k": shared, 2: (3,)}, {7}, set(), frozenset([8]),
        collections.OrderedDict(a=1), collections.defaultdict(list, {1: []}), collections.deque([1], 5),
        datetime.timedelta(1, 2, 3), decimal.Decimal("1.5"), argparse.Namespace(lr=1), types.SimpleNamespace(q=1),
        complex(1, 2), Outer.Inner(), Color.RED, own, MyList([1, 2]), plain, type(None), int, Ellipsis, re.compile("a"),
        ValueError("x")
    ]


def main():
    print("// Made by pickles.py: pickles of one value, by protocol.\n#pragma once\n\n#include <string_view>\n")
    print("namespace ckpt::interop {\n\n// clang-format off\ninline constexpr std::string_view kSamples[] = {")
    for protocol in range(6):
        data = pickle.dumps(sample(), protocol)
        print(f"    // protocol {protocol}\n    {{")
        for at in range(0, len(data), 26):
            print('     "' + "".join(f"\\{byte:03o}" for byte in data[at:at + 26]) + '"')
        print(f"     , {len(data)}}},")
    print("};\n// clang-format on\n\n}  // namespace ckpt::interop")


if __name__ == "__main__":
    main()
