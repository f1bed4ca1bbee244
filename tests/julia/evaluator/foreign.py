"""ccall: Julia's conversions of arguments, then the real call through ctypes."""

import ctypes

from .dispatch import error
from .types import CSTRING, INTS, NOTHING, PTR, Type, Unsupported
from .values import Array, CodeUnits, Num, Ptr, Ref, View, number

C_TYPES = {
    "Int8": ctypes.c_int8, "Int16": ctypes.c_int16, "Int32": ctypes.c_int32, "Int64": ctypes.c_int64,
    "UInt8": ctypes.c_uint8, "UInt16": ctypes.c_uint16, "UInt32": ctypes.c_uint32, "UInt64": ctypes.c_uint64,
    "Float64": ctypes.c_double, "Float32": ctypes.c_float, "Bool": ctypes.c_bool, "Nothing": None,
}
NAMES = {INTS["UInt8"], INTS["Int8"], NOTHING}


class Foreign:
    def __init__(self, interpreter, path):
        self.interpreter, self.library = interpreter, ctypes.CDLL(str(path))
        self.calls = set()
        self.stubs = {"jl_gc_safe_enter": lambda: Num(INTS["Int8"], 0), "jl_gc_safe_leave": lambda state: None}

    def address(self, name):
        """dlsym, cglobal."""
        return Ptr(PTR.of(INTS["Int8"]), ctypes.cast(self.library[name], ctypes.c_void_p).value)

    @staticmethod
    def c_type(kind):
        if kind is CSTRING or kind.family is PTR:
            return ctypes.c_void_p
        if kind.family.name in C_TYPES:
            return C_TYPES[kind.family.name]
        raise Unsupported(f"ccall with {kind}")

    def call(self, library, name, result, types, values):
        if len(types) != len(values):
            raise Unsupported(f"{name}: {len(values)} values for {len(types)} types")
        if library is None:
            if name not in self.stubs:
                raise Unsupported(f"ccall of {name}")
            return self.stubs[name](*values)
        roots = [self.cconvert(kind, value) for kind, value in zip(types, values)]
        plain = [self.unsafe_convert(kind, root) for kind, root in zip(types, roots)]
        function = self.library[name]  # one object per call: argtypes are not shared between threads
        function.restype = self.c_type(result)
        function.argtypes = [self.c_type(kind) for kind in types]
        self.calls.add(str(name))
        answer = function(*[p.address if isinstance(p, Ptr) else number(p) for p in plain])
        del roots
        return self.result(result, answer)

    @staticmethod
    def result(kind, answer):
        if kind is NOTHING:
            return None
        if kind is CSTRING or kind.family is PTR:
            return Ptr(kind, answer or 0)
        return answer if kind.family.name in ("Int64", "Float64", "Bool") else Num(kind, answer)

    def cconvert(self, kind, value):
        if kind is CSTRING or kind.family is PTR:
            return CodeUnits(value) if type(value) is str else value
        return self.interpreter.convert(kind, value)

    def unsafe_convert(self, kind, value):
        """As Base: from pointers, references, arrays and text; other types by their methods."""
        if not isinstance(kind, Type) or not (kind is CSTRING or kind.family is PTR):
            return value
        if isinstance(value, Ptr):
            if kind is CSTRING and value.type is not CSTRING and not self.is_text(value.type):
                raise error("MethodError", f="unsafe_convert", args=(kind, value))
            if kind is not CSTRING and value.type is CSTRING:
                raise error("MethodError", f="unsafe_convert", args=(kind, value))
            return Ptr(kind, value.address)
        if isinstance(value, CodeUnits):
            if kind is CSTRING and b"\0" in value.raw:
                raise error("ArgumentError", msg="embedded NULs are not allowed in C strings")
            if kind is CSTRING or kind.params[0] in NAMES:
                return Ptr(kind, value.address)
        element = kind.params[0] if kind is not CSTRING else None
        if isinstance(value, Ref) and value.address is not None and (element is NOTHING or value.kind is element):
            return Ptr(kind, value.address)
        if isinstance(value, (Array, View)) and (element is NOTHING or value.kind is element):
            return Ptr(kind, self.interpreter.arrays.address(value))
        raise error("MethodError", f="unsafe_convert", args=(kind, value))

    @staticmethod
    def is_text(kind):
        return kind.params[0] in NAMES
