"""Exceptions of Base, and throwing them."""

import sys

from julia_ast import Symbol
from .dispatch import ERRORS, error
from .types import ANY, EXCEPTION, FAMILIES, Family, JuliaError
from .values import Struct

FIELDS = {
    "ErrorException": ["msg"], "ArgumentError": ["msg"], "DimensionMismatch": ["msg"], "TypeError": ["msg"],
    "ConcurrencyViolationError": ["msg"], "InvalidStateException": ["msg", "state"], "MethodError": ["f", "args"],
    "KeyError": ["key"], "BoundsError": ["a", "i"], "InexactError": ["func", "T", "val"], "UndefVarError": ["var"],
    "UndefKeywordError": ["var"], "SystemError": ["prefix", "errnum"], "FieldError": ["type", "field"],
    "TaskFailedException": ["task"], "DivideError": [],
}

for _name, _fields in FIELDS.items():
    ERRORS[_name] = FAMILIES[_name] = _made = Family(_name, 0, EXCEPTION, "struct")
    _made.fields, _made.field_types = list(_fields), lambda kind, n=len(_fields): [ANY] * n


def describe(interpreter, value):
    """What showerror prints of Base's own exceptions."""
    show, fields = interpreter.text, value.fields
    name = value.type.family.name
    if "msg" in fields:
        return f"{name}: {show(fields['msg'])}" if name != "ErrorException" else show(fields["msg"])
    return f"{name}: " + ", ".join(f"{k} = {show(v)}" for k, v in fields.items())


def install(interpreter):
    table = interpreter.base_module.globals
    for name in FIELDS:
        table[Symbol(name)] = FAMILIES[name].of()

    def throw(value):
        raise JuliaError(value)

    def fail(*parts):
        raise error("ErrorException", msg="".join(map(interpreter.text, parts)))

    def rethrow():
        raise interpreter.caught[-1]

    def show_error(io, value):
        io.write(describe(interpreter, value) if isinstance(value, Struct) else interpreter.text(value))

    def current_exceptions():
        """Those that are being handled: in a catch, or in a finally that an exception has reached."""
        handled = sys.exc_info()[1]
        return interpreter.vector([handled.value] if isinstance(handled, JuliaError) else [])

    interpreter.define({"throw": throw, "error": fail, "rethrow": rethrow, "showerror": show_error,
                        "current_exceptions": current_exceptions})
