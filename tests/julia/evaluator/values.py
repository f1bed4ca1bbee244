"""Julia's values in Python.

Int64, Float64, Bool, String, nothing and tuples are Python's own; what Python has no type for is here. Arrays and
references of plain data lie in real memory, so that C reads and writes them.
"""

import ctypes
import math
import mmap
import struct
import threading

from julia_ast import Char, Expr, Line, Quoted, Symbol
from .types import (ANY, ARRAY, BIT_ARRAY, BOOL, CHAR, CODE_UNITS, COMPLEX, CSTRING, DICT, EXPR, FLOAT64, FUNCTION,
                    GENERATOR, ID_DICT, INT64, INTS, IO_BUFFER, IO_STREAM, LINE_NODE, MODULE, NAMED_TUPLE, NOTHING,
                    PAIR, PRIMITIVES, PTR, QUOTE_NODE, REF_VALUE, SET, SPIN_LOCK, STEP_RANGE, STRING, SYMBOL, TASK,
                    TYPES, UNIT_RANGE, TupleType, Type, TypeOf, Unsupported, is_bits, layout, size_of)


class Num:
    """A number that is neither Int64, Float64 nor Bool."""

    __slots__ = ("type", "value")

    def __init__(self, kind, value):
        self.type, self.value = kind, value

    def __eq__(self, other):
        return self.value == number(other)

    def __hash__(self):
        return hash(self.value)

    def __repr__(self):
        return f"{self.type}({self.value})"


class Struct:
    __slots__ = ("type", "fields", "__weakref__", "finalizers")

    def __init__(self, kind, fields):
        self.type, self.fields, self.finalizers = kind, fields, None

    def __repr__(self):
        return f"{self.type}({', '.join(f'{k}={v!r}' for k, v in self.fields.items())})"

    def __del__(self):
        if self.finalizers and LOCKED.depth:
            LOCKED.waiting.append(self)  # lives on until then
        elif self.finalizers:
            self.finalize()

    def finalize(self):
        functions, self.finalizers = self.finalizers, None
        for function in functions:
            function(self)


class Ptr:
    __slots__ = ("type", "address")

    def __init__(self, kind, address):
        self.type, self.address = kind, address

    def __repr__(self):
        return f"{self.type}(0x{self.address:x})"


class Pair:
    __slots__ = ("first", "second")

    def __init__(self, first, second):
        self.first, self.second = first, second

    def __repr__(self):
        return f"{self.first!r} => {self.second!r}"


class NamedTuple:
    def __init__(self, items):
        self.items = dict(items)

    def __repr__(self):
        return f"(; {self.items})"


class Range:
    def __init__(self, first, last, step=1):
        self.first, self.last, self.step = first, last, step

    def __len__(self):
        return max((self.last - self.first) // self.step + 1, 0)

    def python(self):
        return range(self.first, self.last + (1 if self.step > 0 else -1), self.step)


class Generator:
    def __init__(self, items):
        self.items = items


def key_of(value):
    """As a key of a dict: by isequal, so that 1 and "1" and :a and "a" are apart, and 1 and UInt8(1) are not."""
    if isinstance(value, str):
        return ("symbol" if isinstance(value, Symbol) else "text", str(value))
    if isinstance(value, (Num, bool, int, float)):
        return ("number", number(value))
    if isinstance(value, Ptr):
        return ("pointer", value.address)
    raise Unsupported(f"{value!r} as a key")


class Dict:
    def __init__(self, key_type=ANY, value_type=ANY, by_identity=False):
        self.key_type, self.value_type, self.by_identity = key_type, value_type, by_identity
        self.entries = {}

    def slot(self, key):
        return ("id", id(key)) if self.by_identity else key_of(key)


class Set:
    def __init__(self, items=()):
        self.items = {key_of(item): item for item in items}


class Buffer:
    """An IO: text that was written."""

    def __init__(self, stream=None):
        self.parts, self.stream = [], stream

    def write(self, text):
        self.parts.append(text) if self.stream is None else self.stream.write(text)

    def text(self):
        return "".join(self.parts)


class Module:
    def __init__(self, name, parent=None):
        self.name, self.parent, self.globals, self.used, self.exports = name, parent, {}, [], set()
        self.macros = {}

    def __repr__(self):
        return f"module {self.name}"


class Locked(threading.local):
    """Of each thread: the SpinLocks it holds, and the objects whose finalisers wait for that to end, as in Julia."""

    def __init__(self):
        self.depth, self.waiting = 0, []


LOCKED = Locked()


class SpinLock:
    def __init__(self):
        self.lock = threading.Lock()

    def __enter__(self):
        LOCKED.depth += 1
        self.lock.acquire()

    def __exit__(self, *problem):
        self.lock.release()
        LOCKED.depth -= 1
        while LOCKED.waiting and not LOCKED.depth:
            LOCKED.waiting.pop().finalize()


class Task:
    def __init__(self, function):
        self.result, self.error = None, None
        self.thread = threading.Thread(target=self.run, args=(function,), daemon=True)
        self.thread.start()

    def run(self, function):
        try:
            self.result = function()
        except BaseException as error:  # told to whoever fetches it
            self.error = error


# ---- memory ----


def allocate(size):
    """(keeper, address) of zeroed memory; large pieces are sparse."""
    if size > 1 << 20:
        pages = mmap.mmap(-1, size)
        return pages, ctypes.addressof(ctypes.c_char.from_buffer(pages))
    buffer = ctypes.create_string_buffer(max(size, 1))
    return buffer, ctypes.addressof(buffer)


def wrap_number(kind, raw):
    if kind is INT64 or kind is FLOAT64 or kind is BOOL:
        return raw
    return Num(kind, raw)


def load_value(kind, address):
    if isinstance(kind, TupleType):
        out = []
        for item in kind.items:
            out.append(load_value(item, address))
            address += size_of(item)
        return tuple(out)
    name = kind.family.name
    if name in PRIMITIVES:
        return wrap_number(kind, struct.unpack(PRIMITIVES[name], ctypes.string_at(address, size_of(kind)))[0])
    if kind.family is PTR or kind is CSTRING:
        return Ptr(kind, ctypes.c_uint64.from_address(address).value)
    if kind.family is COMPLEX:
        part = kind.params[0]
        real, imag = (float(number(load_value(part, address + i * size_of(part)))) for i in (0, 1))
        return Num(kind, complex(real, imag))
    return Struct(kind, {name: load_value(field, address + at) for name, at, _, field in layout(kind)})


def store_value(kind, address, value):
    if isinstance(kind, TupleType):
        for item, part in zip(kind.items, value):
            store_value(item, address, part)
            address += size_of(item)
        return
    name = kind.family.name
    if name in PRIMITIVES:
        ctypes.memmove(address, struct.pack(PRIMITIVES[name], number(value)), size_of(kind))
    elif kind.family is PTR or kind is CSTRING:
        ctypes.c_uint64.from_address(address).value = value.address
    elif kind.family is COMPLEX:
        whole, part = complex(number(value)), kind.params[0]
        code = PRIMITIVES[part.family.name]
        ctypes.memmove(address, struct.pack(code, whole.real) + struct.pack(code, whole.imag), size_of(kind))
    else:
        for name, at, _, field in layout(kind):
            store_value(field, address + at, value.fields[name])


def number(value):
    """The Python number of a Julia one."""
    return value.value if isinstance(value, Num) else value


class Ref:
    """Ref{T}: a cell, in memory where T is plain data."""

    def __init__(self, kind, value=None, given=True):
        self.kind = kind
        if is_bits(kind):
            self.keeper, self.address = allocate(size_of(kind))
            if given:
                store_value(kind, self.address, value)
        else:
            self.address, self.value = None, value

    def get(self):
        return self.value if self.address is None else load_value(self.kind, self.address)


class Array:
    """Array{T,N}, column-major. Plain data lies in memory at `address`; anything else in a list."""

    def __init__(self, kind, dims, items=None, shared=None):
        self.kind, self.dims, self.bits = kind, tuple(dims), is_bits(kind)
        self.shared, self.window, self.capacity = shared, None, 0
        if shared is not None:
            self.address, self.list = shared.address, None
        elif self.bits:
            self.width = size_of(kind)
            self.keeper, self.address = allocate(self.width * len(self))
            self.list = None
        else:
            self.list = [None] * len(self) if items is None else list(items)
        if self.bits:
            self.width = size_of(kind)
            code = PRIMITIVES.get(kind.family.name) if isinstance(kind, Type) else None
            self.code = struct.Struct(code) if code else None
            if items is not None:
                for i, item in enumerate(items):
                    self.put(i, item)

    def __len__(self):
        return math.prod(self.dims)

    def at(self, index):
        """By 0-based linear index."""
        if self.list is not None:
            return self.list[index]
        if self.code is None:
            return load_value(self.kind, self.address + index * self.width)
        return wrap_number(self.kind, self.code.unpack_from(self.room(), index * self.width)[0])

    def put(self, index, value):
        if self.list is not None:
            self.list[index] = value
        elif self.code is not None:
            self.code.pack_into(self.room(), index * self.width, number(value))
        else:
            store_value(self.kind, self.address + index * self.width, value)

    def room(self):
        """The memory as a buffer that struct writes into."""
        if self.window is None or self.window[0] != self.address:  # also after a resize
            size = self.width * len(self)
            self.window = self.address, (ctypes.c_char * size).from_address(self.address)
        return self.window[1]

    def strides(self):
        steps, step = [], 1
        for extent in self.dims:
            steps.append(step)
            step *= extent
        return tuple(steps)

    def place(self, index):
        return sum((i - 1) * s for i, s in zip(index, self.strides()))

    def get(self, index):
        return self.at(self.place(index))

    def clear(self):
        if self.bits:
            raise Unsupported(f"empty! of a Vector{{{self.kind}}}")
        self.dims, self.list = (0,), []

    def extend(self, values):
        """push! of plain data: room is doubled, so that many pushes stay cheap."""
        if self.shared is not None:
            raise Unsupported("resize of shared data")
        before, after = len(self), len(self) + len(values)
        if after > self.capacity:
            keeper, address = allocate(self.width * 2 * after)
            ctypes.memmove(address, self.address, self.width * before)
            self.keeper, self.address, self.capacity = keeper, address, 2 * after
        self.dims, self.window = (after,), None
        for i, value in enumerate(values):
            self.put(before + i, value)

    def bytes(self):
        return ctypes.string_at(self.address, self.width * len(self))


class View:
    """SubArray of strided parents, PermutedDimsArray: places in another array."""

    def __init__(self, family, kind, dims, parent, locate, steps, first):
        self.family, self.kind, self.dims, self.parent = family, kind, tuple(dims), parent
        self.locate, self.steps, self.first = locate, steps, first

    def __len__(self):
        return math.prod(self.dims)

    def get(self, index):
        return self.parent.get(self.locate(index))

    def at(self, index):
        return self.get(cartesian(index, self.dims))


class BitArray:
    def __init__(self, dims):
        self.dims, self.kind = tuple(dims), BOOL

    def __len__(self):
        return math.prod(self.dims)


class CodeUnits:
    """The bytes of a string, in memory as C sees them."""

    def __init__(self, text):
        self.raw = text.encode("utf-8", "surrogateescape")
        self.kind, self.dims = INTS["UInt8"], (len(self.raw),)
        self.keeper, self.address = allocate(len(self.raw) + 1)
        ctypes.memmove(self.address, self.raw, len(self.raw))

    def __len__(self):
        return len(self.raw)

    def at(self, index):
        return Num(self.kind, self.raw[index])

    def get(self, index):
        return self.at(index[0] - 1)


def cartesian(index, dims):
    out = []
    for extent in dims:
        out.append(index % extent + 1)
        index //= extent
    return tuple(out)


ARRAYS = (Array, View, CodeUnits, BitArray)


def type_of(value):
    """typeof, except that a type's is Type{T}, as dispatch wants it."""
    if value is None:
        return NOTHING
    kind = type(value)
    if kind is bool:
        return BOOL
    if kind is int:
        return INT64
    if kind is float:
        return FLOAT64
    if kind is str:
        return STRING
    if kind is Symbol:
        return SYMBOL
    if kind in (Num, Struct, Ptr):
        return value.type
    if kind is tuple:
        return TupleType(map(type_of, value))
    if kind is Array:
        return ARRAY.of(value.kind, len(value.dims))
    if kind is View:
        return value.family.of(value.kind, len(value.dims))
    if kind is CodeUnits:
        return CODE_UNITS.of(INTS["UInt8"], STRING)
    if isinstance(value, TYPES):
        return TypeOf(value)
    return other_type(value, kind)


def other_type(value, kind):
    if kind is Dict:
        return (ID_DICT if value.by_identity else DICT).of(value.key_type, value.value_type)
    if kind is Range:
        return (UNIT_RANGE if value.step == 1 else STEP_RANGE).of(INT64)
    if kind is Pair:
        return PAIR.of(type_of(value.first), type_of(value.second))
    if kind is Ref:
        return REF_VALUE.of(value.kind)
    if kind is NamedTuple:
        return NAMED_TUPLE.of()
    if kind is Set:
        return SET.of()
    table = {
        Buffer: IO_BUFFER, Char: CHAR, Module: MODULE, Task: TASK, SpinLock: SPIN_LOCK, Expr: EXPR, Line: LINE_NODE,
        Quoted: QUOTE_NODE, Generator: GENERATOR,
    }
    if isinstance(value, Buffer):
        return IO_BUFFER if value.stream is None and kind is Buffer else IO_STREAM
    if kind in table:
        return table[kind]
    if kind is BitArray:
        return BIT_ARRAY.of(len(value.dims))
    if callable(value):
        return FUNCTION
    raise Unsupported(f"the type of {value!r}")
