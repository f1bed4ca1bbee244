"""Strings, symbols, characters, showing and parsing."""

import math
import sys

from julia_ast import Char, Expr, Symbol
from .base_errors import describe
from .dispatch import error
from .types import BIGINT, EXCEPTION, FLOATING, STRING, matches
from .values import ARRAYS, Array, Buffer, CodeUnits, Num, Pair, Range, Struct, number, type_of, wrap_number
from .base_numbers import convert_number, limits


def float_text(value):
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    text = repr(value)
    if "e" in text:
        mantissa, exponent = text.split("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent)}"
    return text


def show(interpreter, value):
    """print(value) as text."""
    if isinstance(value, str):
        return str(value)
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, Num):
        return float_text(value.value) if matches(value.type, FLOATING, {}) else str(value.value)
    if isinstance(value, Char):
        return chr(value.code)
    if isinstance(value, Struct):
        return show_struct(interpreter, value)
    if isinstance(value, tuple):
        inside = ", ".join(quoted(interpreter, v) for v in value)
        return f"({inside}{',' if len(value) == 1 else ''})"
    if isinstance(value, ARRAYS):
        return f"[{', '.join(quoted(interpreter, v) for v in interpreter.iterate(value))}]"
    if isinstance(value, Pair):
        return f"{quoted(interpreter, value.first)} => {quoted(interpreter, value.second)}"
    if isinstance(value, Range):
        return f"{value.first}:{value.last}"
    return repr(value)


def quoted(interpreter, value):
    """show(value): text with quotes, symbols with a colon."""
    if isinstance(value, Symbol):
        return f":{value}"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return show(interpreter, value)


def show_struct(interpreter, value):
    function = interpreter.base("show")
    buffer = Buffer()
    chosen = function.select([type_of(buffer), type_of(value)])
    if chosen:
        chosen[0].body((buffer, value), {}, chosen[1])
        return buffer.text()
    if matches(value.type, EXCEPTION, {}):
        return describe(interpreter, value)
    return f"{value.type.family.name}({', '.join(quoted(interpreter, v) for v in value.fields.values())})"


def parse_number(interpreter, kind, text, base=10):
    text = text.strip()
    try:
        if matches(kind, FLOATING, {}):
            raw = float.fromhex(text) if "0x" in text.lower() else float(text)
            return convert_number(kind, raw)
        if not text.strip("+-").isalnum():
            raise ValueError
        raw = int(text, base)
    except ValueError:
        raise error("ArgumentError", msg=f"invalid number: {text!r}") from None
    if kind is not BIGINT:
        low, high = limits(kind)
        if not low <= raw <= high:
            raise error("ArgumentError", msg=f"{text} is no {kind}")
    return wrap_number(kind, raw)


def byte_index(text, index):
    """From Julia's byte index, 1-based, to Python's character index."""
    raw = text.encode("utf-8", "surrogateescape")
    if not 1 <= index <= len(raw) + 1:
        raise error("BoundsError", a=text, i=index)
    return len(raw[:index - 1].decode("utf-8", "surrogateescape"))


def byte_place(text, place):
    return len(text[:place].encode("utf-8", "surrogateescape")) + 1


def substring(text, first, last):
    if last < first:
        return ""
    start, stop = byte_index(text, first), byte_index(text, last)
    if stop >= len(text):
        raise error("BoundsError", a=text, i=last)
    return text[start:stop + 1]


def split(text, divider=None):
    parts = text.split(None if divider is None else chr(divider.code))
    return Array(STRING, (len(parts),), parts)


def install(interpreter):
    show_value = interpreter.text

    def to_string(*values, base=10, pad=0):
        if base == 16:
            return format(number(values[0]), "x").rjust(pad, "0")
        return "".join(map(show_value, values))

    def output(io, parts):
        io.write("".join(map(show_value, parts)))

    def printing(end):
        def run(*values):
            if values and isinstance(values[0], Buffer):
                output(values[0], (*values[1:], end))
            else:
                output(interpreter.base_module.globals[Symbol("stdout")], (*values, end))

        return run

    def sprint(function, *values):
        buffer = Buffer()
        interpreter.invoke(function, [buffer, *values], {})
        return buffer.text()

    def join(items, divider=""):
        return show_value(divider).join(map(show_value, interpreter.iterate(items)))

    def replace(text, *pairs):
        for pair in pairs:
            text = text.replace(show_value(pair.first), show_value(pair.second))
        return text

    def symbol(*parts):
        return Symbol("".join(map(show_value, parts)))

    interpreter.base_module.globals[Symbol("stdout")] = Buffer(sys.stdout)
    interpreter.base_module.globals[Symbol("stderr")] = Buffer(sys.stderr)
    count = [0]

    def gensym(name="s"):
        count[0] += 1
        return Symbol(f"##{name}#{count[0]}")

    interpreter.define({
        "string": to_string, "print": printing(""), "println": printing("\n"), "sprint": sprint, "join": join,
        "replace": replace, "gensym": gensym, "split": split, "codeunits": CodeUnits,
        "startswith": lambda a, b: a.startswith(show_value(b)),
        "uppercase": str.upper,
        "lowercase": str.lower,
        "parse": lambda kind, text, base=10: parse_number(interpreter, kind, text, base),
        "esc": lambda expr: Expr("escape", [expr]),
        "nextind": lambda text, i: byte_place(text, byte_index(text, i) + 1),
        "prevind": lambda text, i: byte_place(text, byte_index(text, i) - 1) if i > 1 else 0,
        "show": lambda io, value: io.write(quoted(interpreter, value)),
    })
    interpreter.symbol = symbol
