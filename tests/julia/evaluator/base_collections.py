"""Collections: dicts, sets, vectors that grow, tuples, and functions over anything that iterates."""

import ctypes
import math

from julia_ast import Char, Symbol
from .dispatch import Function, error
from .types import ABSTRACT_ARRAY, ABSTRACT_DICT, ANY, ID_DICT, INTEGER, TYPES, Unsupported, matches
from .values import ARRAYS, Array, Dict, Generator, NamedTuple, Num, Pair, Range, Struct, key_of, number, type_of
from .base_text import byte_place


def egal(a, b):
    """===: the same object, or equal plain data of one type."""
    if a is b:
        return True
    if isinstance(a, TYPES) and isinstance(b, TYPES):
        return a == b
    if type(a) is not type(b) or isinstance(a, (Array, Dict)):
        return False
    if isinstance(a, Num):
        return a.type is b.type and (a.value == b.value or a.value != a.value and b.value != b.value)
    if isinstance(a, float):
        return a == b and str(a) == str(b) or a != a and b != b
    if isinstance(a, Struct):
        return (a.type == b.type and not a.type.family.mutable
                and all(egal(a.fields[k], b.fields[k]) for k in a.fields))
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(egal, a, b))
    if hasattr(a, "address") and hasattr(a, "type"):
        return a.type == b.type and a.address == b.address
    return isinstance(a, (str, int, bool)) and a == b


class Collections:
    def __init__(self, interpreter):
        self.interpreter, self.iterate = interpreter, interpreter.iterate

    def equal(self, a, b):
        if isinstance(a, (int, float, Num)) and isinstance(b, (int, float, Num)):
            return number(a) == number(b)
        if isinstance(a, Symbol) or isinstance(b, Symbol):
            return isinstance(a, Symbol) and isinstance(b, Symbol) and str(a) == str(b)
        if isinstance(a, tuple) and isinstance(b, tuple):
            return len(a) == len(b) and all(self.same(x, y) for x, y in zip(a, b))
        if self.is_dict(a) and self.is_dict(b):
            return self.equal_dicts(a, b)
        if (isinstance(a, Array) and isinstance(b, Array) and a.bits and a.kind is b.kind
                and matches(a.kind, INTEGER, {})):
            return a.dims == b.dims and a.bytes() == b.bytes()
        if self.is_array(a) and self.is_array(b):
            size = self.interpreter.base("size")
            return size(a) == size(b) and all(self.same(x, y) for x, y in zip(self.iterate(a), self.iterate(b)))
        if isinstance(a, Pair) and isinstance(b, Pair):
            return self.same(a.first, b.first) and self.same(a.second, b.second)
        if isinstance(a, Char) and isinstance(b, Char):
            return a.code == b.code
        if hasattr(a, "address") and hasattr(b, "address") and hasattr(a, "type"):
            return a.address == b.address
        return egal(a, b)

    def is_array(self, value):
        return (isinstance(value, ARRAYS + (Range,))
                or isinstance(value, Struct) and matches(value.type, ABSTRACT_ARRAY.of(), {}))

    def is_dict(self, value):
        return isinstance(value, Dict) or isinstance(value, Struct) and matches(value.type, ABSTRACT_DICT.of(), {})

    def equal_dicts(self, a, b):
        one, other = dict_of(self.interpreter, a), dict_of(self.interpreter, b)
        return one.keys() == other.keys() and all(self.same(one[k], other[k]) for k in one)

    def same(self, a, b):
        return self.interpreter.base("==")(a, b)

    def equal_bits(self, a, b):
        """isequal: as ==, but NaN is NaN and 0.0 is not -0.0."""
        if not (isinstance(a, float) and isinstance(b, float)):
            raise Unsupported("isequal of anything but Float64")
        return egal(a, b)

    # ---- dicts ----

    def get(self, table, key, default=None):
        if not isinstance(table, (Dict, NamedTuple)):  # get(f, dict, key)
            entry = key.entries.get(key.slot(default))
            return entry[1] if entry else self.interpreter.invoke(table, [], {})
        entry = table.entries.get(table.slot(key))
        return entry[1] if entry else default

    def get_or_add(self, function, table, key):
        slot = table.slot(key)
        if slot not in table.entries:
            self.put(table, self.interpreter.invoke(function, [], {}), key)
        return table.entries[slot][1]

    def put(self, table, value, key):
        key = self.interpreter.convert(table.key_type, key)
        table.entries[table.slot(key)] = (key, self.interpreter.convert(table.value_type, value))
        return table

    def pop(self, table, key, default):
        entry = table.entries.pop(table.slot(key), None)
        return entry[1] if entry else default

    def delete(self, table, key):
        table.entries.pop(table.slot(key), None)
        return table

    def make_dict(self, kind, arguments):
        """Dict{K,V}(pairs…) or of something that gives pairs."""
        family = kind.family
        key, value = (ANY if repr(p) == "*" else p for p in kind.params)
        pairs = []
        for argument in arguments:
            pairs += [argument] if isinstance(argument, Pair) else list(self.iterate(argument))
        if repr(kind.params[0]) == "*" and pairs:
            types = {(type_of(p.first), type_of(p.second)) for p in pairs}
            keys, values = {k for k, _ in types}, {v for _, v in types}
            key = keys.pop() if len(keys) == 1 else ANY
            value = values.pop() if len(values) == 1 else ANY
        out = Dict(key, value, family is ID_DICT)
        for pair in pairs:
            first, second = self.iterate(pair)
            self.put(out, second, first)
        return out

    # ---- vectors ----

    def push(self, table, *values):
        if isinstance(table, Dict):
            for pair in values:
                self.put(table, pair.second, pair.first)
        elif table.list is not None:
            table.list.extend(self.interpreter.convert(table.kind, v) for v in values)
            table.dims = (len(table.list),)
        else:
            table.extend([self.interpreter.convert(table.kind, v) for v in values])
        return table

    def empty(self, table):
        table.clear()
        return table

    # ---- over anything ----

    def map(self, function, *collections):
        values = [
            self.interpreter.invoke(function, list(items), {}) for items in zip(*(self.iterate(c) for c in collections))
        ]
        if isinstance(collections[0], tuple):
            return tuple(values)
        return self.interpreter.vector(values)

    def find_first(self, test, items):
        if isinstance(items, str):
            return self.find_text(test, items)
        for i, item in enumerate(self.iterate(items), 1):
            if self.truth(self.interpreter.invoke(test, [item], {})):
                return i
        return None

    def find_text(self, test, text):
        for place, char in enumerate(text):
            if isinstance(test, Char):
                found = char == chr(test.code)
            elif isinstance(test, str):
                found = text.startswith(test, place)
            else:
                found = self.truth(self.interpreter.invoke(test, [Char(ord(char))], {}))
            if found:
                first = byte_place(text, place)
                return Range(first, byte_place(text, place + len(test) - 1)) if isinstance(test, str) else first
        return None

    def truth(self, value):
        return self.interpreter.compiler.truth(value)

    def all(self, test, items):
        return all(self.truth(self.interpreter.invoke(test, [v], {})) for v in self.iterate(items))

    def total(self, first, items=None, init=None):
        values = self.iterate(items if items is not None else first)
        add, out = self.interpreter.base("+"), init
        for value in values:
            value = self.interpreter.invoke(first, [value], {}) if items is not None else value
            out = value if out is None else add(out, value)
        return 0 if out is None else out

    def contains(self, item, items):
        return any(self.same(item, other) for other in self.iterate(items))

    def length(self, items):
        if isinstance(items, Dict):
            return len(items.entries)
        if isinstance(items, NamedTuple):
            return len(items.items)
        if isinstance(items, Struct) and self.is_array(items):
            return math.prod(self.interpreter.base("size")(items))
        if isinstance(items, (tuple, str, Range) + ARRAYS):
            return len(items)
        raise error("MethodError", f="length", args=(items,))

    def is_empty(self, items):
        if isinstance(items, (Dict, NamedTuple, tuple, str, Range) + ARRAYS):
            return self.length(items) == 0
        return self.interpreter.base("length")(items) == 0

    def reverse(self, items):
        if isinstance(items, tuple):
            return items[::-1]
        values = list(self.iterate(items))[::-1]
        return Array(items.kind, (len(values),), values)

    def collect(self, first, items=None):
        if items is not None:
            values = list(self.iterate(items))
            return Array(self.interpreter.as_type(first), (len(values),), values)
        if isinstance(first, Array) and first.bits:
            made = Array(first.kind, first.dims)
            ctypes.memmove(made.address, first.address, first.width * len(first))
            return made
        if isinstance(first, Struct) and self.is_array(first):
            made = Array(self.interpreter.base("eltype")(first), self.interpreter.base("size")(first))
            return self.interpreter.base("copyto!")(made, first)
        values = list(self.iterate(first))
        if isinstance(first, ARRAYS):
            return Array(first.kind, first.dims, values)
        return self.interpreter.vector(values)

    def sort(self, items, by=None):
        values = list(self.iterate(items))
        return self.interpreter.vector(
            sorted(values, key=(lambda v: self.interpreter.invoke(by, [v], {})) if by else number))

    def entries(self, which):
        def run(table):
            if isinstance(table, Struct):
                return Generator(p.first if which == 0 else p.second for p in self.iterate(table))
            return Generator([entry[which] for entry in table.entries.values()])

        return run

    def has_key(self, table, key):
        return table.slot(key) in table.entries

    def pairs(self, table):
        if isinstance(table, (NamedTuple, Array, tuple)):
            found = self.interpreter.pairs(table) if not isinstance(table, tuple) else list(enumerate(table, 1))
            return Generator([Pair(k, v) for k, v in found])
        return table

    def copy(self, value):
        return Array(value.kind, value.dims, list(self.iterate(value)))

    def for_each(self, function, items):
        for item in self.iterate(items):
            self.interpreter.invoke(function, [item], {})

    def first(self, items):
        return items.first if isinstance(items, Range) else next(self.iterate(items))

    def last(self, items):
        return items.last if isinstance(items, Range) else list(self.iterate(items))[-1]

    def something(self, *values):
        for value in values:
            if value is not None:
                return value
        raise error("ArgumentError", msg="No value arguments present")


def dict_of(interpreter, table):
    return {key_of(k): v for k, v in (tuple(interpreter.iterate(p)) for p in interpreter.iterate(table))}


def install(interpreter):
    made = Collections(interpreter)
    interpreter.collections = made

    def curried_equal(*values):
        if len(values) == 2:
            return made.equal(*values)
        function = Function("==")
        function.builtin = lambda other: made.same(other, values[0])
        return function

    def zipped(*items):
        return Generator(list(zip(*(interpreter.iterate(i) for i in items))))

    def enumerated(items):
        return Generator((i, v) for i, v in enumerate(interpreter.iterate(items), 1))

    interpreter.define({
        "==": curried_equal, "===": egal, "isequal": made.equal_bits, "=>": Pair, ":": colon, "get": made.get,
        "get!": made.get_or_add, "haskey": made.has_key, "pop!": made.pop, "delete!": made.delete,
        "push!": made.push, "empty!": made.empty, "map": made.map,
        "findfirst": made.find_first, "all": made.all, "sum": made.total, "in": made.contains,
        "length": made.length, "isempty": made.is_empty, "reverse": made.reverse, "collect": made.collect,
        "sort": made.sort, "keys": made.entries(0), "values": made.entries(1), "pairs": made.pairs,
        "copy": made.copy, "foreach": made.for_each, "first": made.first, "last": made.last,
        "something": made.something, "zip": zipped, "enumerate": enumerated,
        "!=": lambda a, b: not made.same(a, b),
        "!==": lambda a, b: not egal(a, b),
        "identity": lambda value: value,
        "ntuple": lambda f, n: tuple(interpreter.invoke(f, [i], {}) for i in range(1, n + 1)),
        "occursin": lambda a, b: (chr(a.code) if isinstance(a, Char) else str(a)) in b,
        "isnothing": lambda value: value is None,
        "iterate": lambda value, *state: step(interpreter, value, *state),
    })


def colon(first, *rest):
    ends = [number(first), *map(number, rest)]
    if not all(isinstance(end, int) for end in ends):
        raise Unsupported("a range of numbers that are no integers")
    return Range(ends[0], ends[-1], ends[1] if len(ends) == 3 else 1)


def step(interpreter, value, at=1):
    items = list(interpreter.iterate(value))
    return (items[at - 1], at + 1) if at <= len(items) else None
