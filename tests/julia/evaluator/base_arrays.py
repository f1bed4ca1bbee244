"""Arrays: indexing, strides, views, memory."""

import ctypes
import math

from julia_ast import Symbol
from .base_text import byte_place, substring
from .dispatch import Function, error
from .types import (ABSTRACT_ARRAY, ARRAY, INT64, PERMUTED, PTR, SUB_ARRAY, TYPES, FAMILIES, Type, Unsupported, size_of)
from .values import (ARRAYS, Array, BitArray, CodeUnits, Dict, Num, Ptr, Range, Ref, Struct, View, cartesian, number,
                     type_of)


class Arrays:
    def __init__(self, interpreter):
        self.interpreter = interpreter

    def size(self, array, place=None):
        if isinstance(array, Range):
            dims = (len(array),)
        elif isinstance(array, ARRAYS):
            dims = array.dims
        else:
            raise error("MethodError", f="size", args=(array,))
        return dims if place is None else dims[place - 1]

    def strides(self, array):
        if isinstance(array, Array):
            return array.strides()
        if isinstance(array, CodeUnits):
            return (1,)
        if isinstance(array, View) and array.steps is not None:
            return array.steps
        raise error("MethodError", f="strides", args=(array,))

    def address(self, array):
        if isinstance(array, View):
            if array.steps is None:
                raise error("ErrorException", msg="conversion to pointer not defined")
            return self.address(array.parent) + array.first * size_of(array.kind)
        if isinstance(array, Struct):
            return self.interpreter.base("unsafe_convert")(PTR.of(self.element(array)), array).address
        if not isinstance(array, (Array, CodeUnits)) or isinstance(array, Array) and not array.bits:
            raise error("ErrorException", msg="conversion to pointer not defined")
        return array.address

    def element(self, array):
        if isinstance(array, ARRAYS):
            return array.kind
        if isinstance(array, Range):
            return INT64
        found = type_of(array) if not isinstance(array, TYPES) else array
        for at in found.supers() if isinstance(found, Type) else ():
            if at.family is ABSTRACT_ARRAY:
                return at.params[0]
        raise error("MethodError", f="eltype", args=(array,))

    def elements(self, array):
        """Of an AbstractArray of the program."""
        dims = self.interpreter.base("size")(array)
        get = self.interpreter.base("getindex")
        return (get(array, *cartesian(i, dims)) for i in range(math.prod(dims)))

    # ---- indexing ----

    def check(self, array, index, dims):
        if len(index) != len(dims):
            raise Unsupported("a linear index into an array of several dimensions")
        if any(not 1 <= number(i) <= extent for i, extent in zip(index, dims)):
            raise error("BoundsError", a=array, i=tuple(index))

    def get(self, array, *index):
        if isinstance(array, Array) and len(index) == 1 and type(index[0]) is int:
            if not 1 <= index[0] <= len(array):
                raise error("BoundsError", a=array, i=index)
            return array.at(index[0] - 1)
        if isinstance(array, Dict):
            found = array.entries.get(array.slot(index[0]))
            if found is None:
                raise error("KeyError", key=index[0])
            return found[1]
        if isinstance(array, Ref):
            return array.get()
        if isinstance(array, (TYPES, type(ARRAY))) or hasattr(array, "make"):
            kind = self.interpreter.as_type(array)  # T[a, b, c]
            return Array(kind, (len(index),), [self.interpreter.convert(kind, item) for item in index])
        if isinstance(array, str):
            return substring(array, index[0].first, index[0].last)
        if isinstance(array, tuple):
            if not 1 <= number(index[0]) <= len(array):
                raise error("BoundsError", a=array, i=index)
            return array[number(index[0]) - 1]
        return self.get_array(array, index)

    def get_array(self, array, index):
        dims = self.interpreter.base("size")(array)
        if all(isinstance(i, (int, Num)) for i in index):
            plain = [number(i) for i in index]
            self.check(array, plain, dims)
            if isinstance(array, Range):
                return array.first + (plain[0] - 1) * array.step
            return array.get(tuple(plain))
        if (isinstance(array, Array) and array.bits and len(index) == 1 and isinstance(index[0], Range)
                and index[0].step == 1):
            return self.piece(array, index[0])
        view = self.view(array, *index)
        return Array(view.kind, view.dims, list(self.interpreter.iterate(view)))

    def piece(self, array, places):
        """A copy of neighbours, at once."""
        if len(places) and not (1 <= places.first and places.last <= len(array)):
            raise error("BoundsError", a=array, i=(places,))
        made = Array(array.kind, (len(places),))
        ctypes.memmove(made.address, array.address + (places.first - 1) * array.width, len(places) * array.width)
        return made

    def set(self, array, value, *index):
        if isinstance(array, Dict):
            return self.interpreter.collections.put(array, value, index[0])
        if not isinstance(array, Array) or len(index) != 1 or type(index[0]) is not int:
            raise Unsupported(f"{array!r}[{index}] = …")
        if not 1 <= index[0] <= len(array):
            raise error("BoundsError", a=array, i=index)
        array.put(index[0] - 1, self.interpreter.convert(array.kind, value))
        return array

    def view(self, array, *index):
        """A SubArray: dimensions of integers are dropped; strides where all indices are ranges."""
        dims, places = self.interpreter.base("size")(array), []
        for one, extent in zip(index, dims):
            if isinstance(one, Function) and one.name == ":":
                one = Range(1, extent)
            places.append(one)
        for one, extent in zip(places, dims):
            values = [number(one)] if isinstance(one, (int, Num)) else list(self.interpreter.iterate(one))
            if any(not 1 <= number(v) <= extent for v in values):
                raise error("BoundsError", a=array, i=tuple(index))
        kept = [p for p in places if not isinstance(p, (int, Num))]
        extents = tuple(self.interpreter.base("length")(p) for p in kept)
        steps, first = None, 0
        if all(isinstance(p, (int, Num, Range)) for p in places) and not isinstance(array, (Range, BitArray)):
            base = self.interpreter.base("strides")(array)
            steps = tuple(s * p.step for p, s in zip(places, base) if isinstance(p, Range))
            first = sum(((p.first if isinstance(p, Range) else number(p)) - 1) * s for p, s in zip(places, base))
        get = self.interpreter.base("getindex")

        def locate(at):
            rest = iter(at)
            return tuple(number(p) if isinstance(p, (int, Num)) else number(get(p, next(rest))) for p in places)

        return View(SUB_ARRAY, self.element(array), extents, array, locate, steps, first)

    def permuted(self, array, order):
        order = [number(o) for o in order]
        dims = tuple(array.dims[o - 1] for o in order)
        base = self.strides(array)
        back = [order.index(d + 1) for d in range(len(order))]
        return View(PERMUTED, array.kind, dims, array, lambda at: tuple(at[b] for b in back),
                    tuple(base[o - 1] for o in order), 0)

    # ---- making ----

    def reshape(self, array, *dims):
        dims = dims[0] if len(dims) == 1 and isinstance(dims[0], tuple) else dims
        if math.prod(dims) != len(array):
            raise error("DimensionMismatch", msg=f"new dimensions {dims}, array size {len(array)}")
        return Array(array.kind, dims, None, shared=array) if array.bits else Array(array.kind, dims, array.list)

    def reinterpret(self, kind, array):
        if not isinstance(array, Array) or len(array.dims) != 1:
            raise Unsupported(f"reinterpret of {array!r}")
        return Array(kind, (len(array) * size_of(array.kind) // size_of(kind),), None, shared=array)

    def filled(self, value):
        def run(*arguments):
            arguments, kind = list(arguments), FAMILIES["Float64"].of()
            if arguments and not isinstance(arguments[0], (int, Num, tuple)):
                kind = self.interpreter.as_type(arguments.pop(0))
            dims = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], tuple) else arguments
            made = Array(kind, [number(d) for d in dims])
            if value:
                for i in range(len(made)):
                    made.put(i, self.interpreter.convert(kind, value))
            return made

        return run

    def fill(self, value, *dims):
        made = Array(type_of(value), dims)
        for i in range(len(made)):
            made.put(i, value)
        return made

    def fill_into(self, array, value):
        for i in range(len(array)):
            array.put(i, self.interpreter.convert(array.kind, value))
        return array

    def make(self, kind, arguments):
        """Array{T,N}(undef, dims…)."""
        (element, count), (first, *dims) = kind.params, arguments
        if first != "#undef":
            raise Unsupported(f"{kind}{arguments}")
        if isinstance(count, int) and len(dims) != count:
            raise error("MethodError", f=kind, args=arguments)
        return Array(element, [number(self.interpreter.convert(INT64, d)) for d in dims])


def install(interpreter):
    arrays = interpreter.arrays
    interpreter.base_module.globals[Symbol("undef")] = Symbol("#undef")

    def last_index(value):
        if isinstance(value, str):
            return byte_place(value, len(value) - 1) if value else 0
        return interpreter.base("length")(value)

    def in_bounds(kind, array, *index):
        dims = interpreter.base("size")(array)
        return len(index) == len(dims) and all(1 <= i <= extent for i, extent in zip(index, dims))

    def pointer(array, index=1):
        width = size_of(arrays.element(array))
        return Ptr(PTR.of(arrays.element(array)), arrays.address(array) + (number(index) - 1) * width)

    interpreter.define({
        "getindex": arrays.get, "setindex!": arrays.set, "size": arrays.size, "strides": arrays.strides,
        "lastindex": last_index, "view": arrays.view, "reshape": arrays.reshape,
        "zeros": arrays.filled(0), "ones": arrays.filled(1), "fill": arrays.fill, "fill!": arrays.fill_into,
        "copyto!": None, "eltype": arrays.element, "checkbounds": in_bounds, "pointer": pointer,
        "PermutedDimsArray": arrays.permuted,
        "ndims": lambda array: len(interpreter.base("size")(array)),
        "elsize": lambda kind: size_of(arrays.element(kind)),
        "IndexStyle": lambda kind: None,
        "IndexCartesian": lambda: Symbol("IndexCartesian"),
        "parent": lambda array: array.parent if isinstance(array, View) else array,
        "vec": lambda array: arrays.reshape(array, len(array)),
        "falses": lambda *dims: BitArray(dims),
    })
