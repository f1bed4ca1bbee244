"""Numbers: promotion, wrap-around, conversion with InexactError."""

import math
import struct

from julia_ast import Char
from .dispatch import error
from .types import (BIGINT, BOOL, COMPLEX, CSTRING, FLOAT64, FLOATING, INT64, INTEGER, NUMBER, PRIMITIVES, PTR,
                    UINT64, UNSIGNED, Type, Unsupported, matches, size_of)
from .values import Array, Num, Pair, Ptr, Struct, number, type_of, wrap_number

ORDER = [
    "Bool", "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "BigInt", "Float16", "Float32",
    "Float64",
]

MASK = (1 << 64) - 1


def is_number(value):
    return isinstance(value, (int, float, Num))


def promoted(kinds):
    out = kinds[0]
    for kind in kinds[1:]:
        if kind is not out:
            out = max(kind, out, key=lambda k: ORDER.index(k.family.name))
    return out


def limits(kind):
    bits = 8 * size_of(kind)
    if kind is BOOL:
        return 0, 1
    return (0, 2**bits - 1) if matches(kind, UNSIGNED, {}) else (-(2**(bits - 1)), 2**(bits - 1) - 1)


def wrapped(kind, raw):
    if kind is BIGINT:
        return Num(kind, raw)
    low, high = limits(kind)
    return wrap_number(kind, (raw - low) % (high - low + 1) + low)


def rounded(kind, raw):
    if kind is FLOAT64:
        return float(raw)
    try:
        code = PRIMITIVES[kind.family.name]
        return Num(kind, struct.unpack(code, struct.pack(code, raw))[0])
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
        if kind.family.name == "Array" and isinstance(value, Array) and len(value.dims) == kind.params[1]:
            element = kind.params[0]
            return Array(element, value.dims, [interpreter.convert(element, v) for v in interpreter.iterate(value)])
        if kind.family.name == "Pair" and isinstance(value, Pair):
            return Pair(interpreter.convert(kind.params[0], value.first),
                        interpreter.convert(kind.params[1], value.second))
    raise error("MethodError", f="convert", args=(kind, value))


def convert_number(kind, raw):
    if kind.family is COMPLEX:
        return make(kind, raw)
    if matches(kind, FLOATING, {}):
        return rounded(kind, raw)
    if isinstance(raw, float):
        if not math.isfinite(raw) or raw != int(raw):
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


def shift_right(a, b):
    if type_of(a) is not UINT64:
        raise Unsupported(">> of anything but UInt64")
    return Num(UINT64, a.value >> number(b))


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
        if isinstance(a, Char) and isinstance(b, Char):
            return operation(a.code, b.code)
        if isinstance(a, Struct) and isinstance(b, Struct) and a.type.family.name == "VersionNumber":
            return operation(tuple(a.fields.values()), tuple(b.fields.values()))
        if is_number(a) and is_number(b):
            return operation(number(a), number(b))
        raise error("MethodError", f="<", args=(a, b))

    return run


def install(interpreter):
    def multiply(*values):
        if isinstance(values[0], str) or isinstance(values[0], Char):
            return "".join(interpreter.text(v) for v in values)
        return arithmetic(lambda a, b: a * b)(*values)

    def divide(a, b):
        kinds = [FLOAT64 if matches(k, INTEGER, {}) else k for k in (type_of(a), type_of(b))]
        x, y = number(a), number(b)
        raw = x / y if y else (math.nan if x == 0 or x != x else math.copysign(math.inf, x))
        return make(promoted(kinds), raw)

    interpreter.define({
        "+": arithmetic(lambda a, b: a + b), "-": minus, "*": multiply, "/": divide,
        "÷": whole(truncated), "%": whole(lambda a, b: a - b * truncated(a, b)), "cld": whole(lambda a, b: -(-a // b)),
        "^": arithmetic(lambda a, b: a**b), ">>": shift_right,
        "&": bitwise(lambda a, b: a & b), "|": bitwise(lambda a, b: a | b), "xor": bitwise(lambda a, b: a ^ b),
        "<": compared(lambda a, b: a < b), "<=": compared(lambda a, b: a <= b),
        ">": compared(lambda a, b: a > b), ">=": compared(lambda a, b: a >= b),
        "min": lambda *values: min(values, key=number), "max": lambda *values: max(values, key=number),
        "htol": lambda a: a,
        "isnan": lambda a: number(a) != number(a),
        "iseven": lambda a: number(a) % 2 == 0,
        "isodd": lambda a: number(a) % 2 == 1,
        "iszero": lambda a: number(a) == 0,
        "!": lambda a: not interpreter.compiler.truth(a),
        "typemax": lambda kind: wrap_number(kind, limits(kind)[1]),
        "typemin": lambda kind: wrap_number(kind, limits(kind)[0]),
        "big": lambda a: Num(BIGINT, number(a)),
        "sin": lambda a: math.sin(number(a)),
        "reinterpret": lambda kind, array: interpreter.arrays.reinterpret(kind, array),
    })
