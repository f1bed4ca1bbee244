"""Numbers: promotion, wrap-around, conversion with InexactError."""

import math
import struct

from julia_ast import Char
from .dispatch import error
from .types import (
    BIGINT,
    BOOL,
    CHAR,
    COMPLEX,
    CSTRING,
    FLOAT64,
    FLOATING,
    INT64,
    INTEGER,
    NUMBER,
    PTR,
    STRING,
    TYPES,
    UINT64,
    UNSIGNED,
    Type,
    matches,
    size_of,
)
from .values import Array, Num, Pair, Ptr, Struct, number, type_of, wrap_number

ORDER = [
    "Bool",
    "Int8",
    "UInt8",
    "Int16",
    "UInt16",
    "Int32",
    "UInt32",
    "Int64",
    "UInt64",
    "BigInt",
    "Float16",
    "Float32",
    "Float64",
]

MASK = (1 << 64) - 1


def is_number(value):
    return isinstance(value, (int, float, Num))


def promoted(kinds):
    out = kinds[0]
    for kind in kinds[1:]:
        if kind is out:
            continue
        if COMPLEX in (kind.family, out.family):
            parts = [k.params[0] if k.family is COMPLEX else k for k in (kind, out)]
            out = COMPLEX.of(promoted(parts))
        else:
            out = max(kind, out, key=lambda k: ORDER.index(k.family.name))
    return out


def limits(kind):
    bits = 8 * size_of(kind)
    if kind is BOOL:
        return 0, 1
    return (0, 2**bits - 1) if matches(kind, UNSIGNED, {}) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def wrapped(kind, raw):
    if kind is BIGINT:
        return Num(kind, raw)
    low, high = limits(kind)
    return wrap_number(kind, (raw - low) % (high - low + 1) + low)


def rounded(kind, raw):
    if kind is FLOAT64:
        return float(raw)
    try:
        return Num(
            kind,
            struct.unpack({2: "e", 4: "f"}[size_of(kind)], struct.pack({2: "e", 4: "f"}[size_of(kind)], raw))[0],
        )
    except OverflowError:
        return Num(kind, math.copysign(math.inf, raw))


def make(kind, raw):
    """A number of this type from a Python one that fits."""
    if kind.family is COMPLEX:
        part = kind.params[0]
        raw = complex(raw)
        return Num(kind, complex(number(make(part, raw.real)), number(make(part, raw.imag))))
    if matches(kind, FLOATING, {}):
        return rounded(kind, raw)
    return wrapped(kind, raw)


def base_convert(interpreter, kind, value):
    if isinstance(kind, Type):
        if isinstance(value, Ptr) and (kind.family is PTR or kind is CSTRING):
            return Ptr(kind, value.address)
        if matches(kind, NUMBER, {}) and is_number(value):
            return convert_number(kind, number(value))
        if kind is STRING and isinstance(value, str):
            return str(value)
        if kind is CHAR and isinstance(value, Char):
            return value
        if kind.family.name == "Array" and isinstance(value, Array) and len(value.dims) == kind.params[1]:
            element = kind.params[0]
            return Array(element, value.dims, [interpreter.convert(element, v) for v in interpreter.iterate(value)])
        if kind.family.name == "Pair" and isinstance(value, Pair):
            return Pair(
                interpreter.convert(kind.params[0], value.first), interpreter.convert(kind.params[1], value.second)
            )
    if (
        not isinstance(kind, Type)
        and isinstance(value, tuple)
        and hasattr(kind, "items")
        and len(kind.items) == len(value)
    ):
        return tuple(interpreter.convert(k, v) for k, v in zip(kind.items, value))
    raise error("MethodError", f="convert", args=(kind, value))


def convert_number(kind, raw):
    if kind.family is COMPLEX:
        return make(kind, raw)
    if kind is INTEGER or kind is NUMBER:
        return raw
    if matches(kind, FLOATING, {}):
        return rounded(kind, raw)
    if isinstance(raw, float):
        if raw != int(raw) if math.isfinite(raw) else True:
            raise error("InexactError", func="convert", T=kind, val=raw)
        raw = int(raw)
    if kind is not BIGINT:
        low, high = limits(kind)
        if not low <= raw <= high:
            raise error("InexactError", func="convert", T=kind, val=raw)
    return wrap_number(kind, bool(raw) if kind is BOOL else int(raw))


def arithmetic(operation):
    def run(*values):
        out = values[0]
        for value in values[1:]:
            if type(out) is int and type(value) is int:
                raw = operation(out, value)
                out = raw if -(1 << 63) <= raw < 1 << 63 else wrapped(INT64, raw)
                continue
            if type(out) is Num and type(value) is Num and out.type is UINT64 and value.type is UINT64:
                out = Num(UINT64, operation(out.value, value.value) & MASK)
                continue
            if not (is_number(out) and is_number(value)):
                raise error("MethodError", f=operation.__name__, args=(out, value))
            kinds = [INT64 if k is BOOL else k for k in (type_of(out), type_of(value))]
            out = make(promoted(kinds), operation(number(out), number(value)))
        return out

    return run


def truncated(a, b):
    if b == 0:
        raise error("DivideError")
    quotient = abs(a) // abs(b)
    return quotient if (a >= 0) == (b >= 0) else -quotient


def whole(operation):
    """Of integers: result in the promoted type."""

    def run(a, b):
        kind = promoted([type_of(a), type_of(b)])
        return make(kind, operation(number(a), number(b)))

    return run


def shift(left):
    def run(a, b):
        kind, by = type_of(a), number(b)
        if kind is UINT64 and not left:
            return Num(kind, a.value >> by)
        raw = number(a) << by if left else number(a) >> by
        return wrapped(kind, raw)

    return run


def remainder(a, b):
    if isinstance(b, TYPES):  # x % UInt8
        return wrapped(b, number(a))
    return whole(lambda x, y: x - y * truncated(x, y))(a, b)


def bitwise(operation):
    def run(*values):
        out = values[0]
        for value in values[1:]:
            if type(out) is Num and type(value) is Num and out.type is value.type is UINT64:
                out = Num(UINT64, operation(out.value, value.value))
                continue
            kind = promoted([type_of(out), type_of(value)])
            raw = operation(number(out), number(value))
            out = bool(raw) if kind is BOOL else wrapped(kind, raw)
        return out

    return run


def negate(a):
    return make(INT64 if type_of(a) is BOOL else type_of(a), -number(a))


def minus(*values):
    return negate(values[0]) if len(values) == 1 else arithmetic(lambda a, b: a - b)(*values)


def compared(operation):
    def run(a, b):
        if isinstance(a, str) and isinstance(b, str):
            return operation(a, b)
        if isinstance(a, Char) and isinstance(b, Char):
            return operation(a.code, b.code)
        if isinstance(a, Struct) and isinstance(b, Struct) and a.type.family.name == "VersionNumber":
            return operation(tuple(a.fields.values()), tuple(b.fields.values()))
        if is_number(a) and is_number(b):
            return operation(number(a), number(b))
        if isinstance(a, tuple) and isinstance(b, tuple):
            return operation(a, b)
        raise error("MethodError", f="<", args=(a, b))

    return run


def install(interpreter):
    define = interpreter.define
    plus = arithmetic(lambda a, b: a + b)

    def add(*values):
        if isinstance(values[0], Ptr):
            return Ptr(values[0].type, values[0].address + number(values[1]))
        return plus(*values)

    def multiply(*values):
        if isinstance(values[0], str) or isinstance(values[0], Char):
            return "".join(interpreter.text(v) for v in values)
        return arithmetic(lambda a, b: a * b)(*values)

    def divide(a, b):
        kinds = [FLOAT64 if matches(k, INTEGER, {}) else k for k in (type_of(a), type_of(b))]
        x, y = number(a), number(b)
        raw = x / y if y else (math.nan if x == 0 or x != x else math.copysign(math.inf, x))
        return make(promoted(kinds), raw)

    for name, function in (
        ("+", add),
        ("-", minus),
        ("*", multiply),
        ("/", divide),
        ("÷", whole(truncated)),
        ("div", whole(truncated)),
        ("%", remainder),
        ("rem", remainder),
        ("mod", whole(lambda a, b: a % b)),
        ("<<", shift(True)),
        (">>", shift(False)),
        ("&", bitwise(lambda a, b: a & b)),
        ("|", bitwise(lambda a, b: a | b)),
        ("xor", bitwise(lambda a, b: a ^ b)),
        ("<", compared(lambda a, b: a < b)),
        ("<=", compared(lambda a, b: a <= b)),
        (">", compared(lambda a, b: a > b)),
        (">=", compared(lambda a, b: a >= b)),
        ("^", arithmetic(lambda a, b: a**b)),
        ("abs", lambda a: make(type_of(a), abs(number(a)))),
        ("htol", lambda a: a),
        ("cld", whole(lambda a, b: -(-a // b))),
        ("isnan", lambda a: number(a) != number(a)),
        ("isinf", lambda a: math.isinf(number(a))),
        ("iseven", lambda a: number(a) % 2 == 0),
        ("isodd", lambda a: number(a) % 2 == 1),
        ("iszero", lambda a: number(a) == 0),
        ("!", lambda a: not interpreter.compiler.truth(a)),
        ("zero", lambda a: make(interpreter.as_type(a) if isinstance(a, TYPES) else type_of(a), 0)),
        ("one", lambda a: make(interpreter.as_type(a) if isinstance(a, TYPES) else type_of(a), 1)),
        ("typemax", lambda k: wrap_number(k, limits(k)[1])),
        ("typemin", lambda k: wrap_number(k, limits(k)[0])),
        ("big", lambda a: Num(BIGINT, number(a))),
        ("sqrt", lambda a: make(type_of(a), math.sqrt(number(a)))),
        ("sin", lambda a: math.sin(number(a))),
        ("float", lambda a: float(number(a))),
        ("complex", lambda a, b: Num(COMPLEX.of(FLOAT64), complex(a, b))),
    ):
        define(name, function)

    def extreme(pick):
        return lambda *values: pick(values, key=number)

    define("min", extreme(min))
    define("max", extreme(max))
    define("reinterpret", lambda kind, value: interpreter.arrays.reinterpret(kind, value))
