"""Arrays: indexing, strides, views, memory."""

import ctypes

from julia_ast import Char, Symbol
from .base_text import substring
from .dispatch import Function, error
from .types import (
    ABSTRACT_ARRAY,
    ANY,
    ARRAY,
    INT64,
    PERMUTED,
    PTR,
    SUB_ARRAY,
    TYPES,
    FAMILIES,
    Type,
    Unsupported,
    size_of,
)
from .values import (
    ARRAYS,
    Array,
    BitArray,
    CodeUnits,
    Dict,
    NamedTuple,
    Num,
    Ptr,
    Range,
    Ref,
    Struct,
    View,
    cartesian,
    number,
    type_of,
)


class Whole:
    """The index : of a dimension."""


COLON = Whole()


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
        return ANY

    def elements(self, array):
        """Of an AbstractArray of the program."""
        dims = self.interpreter.base("size")(array)
        count = 1
        for extent in dims:
            count *= extent
        get = self.interpreter.base("getindex")
        return (get(array, *cartesian(i, dims)) for i in range(count))

    # ---- indexing ----

    def check(self, array, index, dims):
        if any(not 1 <= number(i) <= extent for i, extent in zip(index, dims)):
            raise error("BoundsError", a=array, i=tuple(index))

    def get(self, array, *index):
        if isinstance(array, Array) and len(index) == 1 and type(index[0]) is int:
            if not 1 <= index[0] <= len(array):
                raise error("BoundsError", a=array, i=index)
            return array.at(index[0] - 1)
        if isinstance(array, (Dict,)):
            found = array.entries.get(array.slot(index[0]))
            if found is None:
                raise error("KeyError", key=index[0])
            return found[1]
        if isinstance(array, Ref):
            return array.get()
        if isinstance(array, NamedTuple):
            return (
                list(array.items.values())[index[0] - 1]
                if isinstance(index[0], int)
                else array.items[str(index[0])]
            )
        if isinstance(array, (TYPES, type(ARRAY))) or hasattr(array, "make"):
            return self.typed_vector(array, index)
        if isinstance(array, str):
            return self.get_text(array, index[0])
        if isinstance(array, tuple):
            return self.get_tuple(array, index[0])
        return self.get_array(array, index)

    def typed_vector(self, kind, items):
        kind = self.interpreter.as_type(kind)
        return Array(kind, (len(items),), [self.interpreter.convert(kind, item) for item in items])

    @staticmethod
    def get_text(text, index):
        if isinstance(index, Range):
            return substring(text, index.first, index.last)
        return Char(ord(substring(text, index, index)))

    def get_tuple(self, items, index):
        if isinstance(index, Range):
            return tuple(items[i - 1] for i in index.python())
        if not 1 <= number(index) <= len(items):
            raise error("BoundsError", a=items, i=index)
        return items[number(index) - 1]

    def get_array(self, array, index):
        dims = self.interpreter.base("size")(array)
        if all(isinstance(i, (int, Num)) for i in index):
            plain = [number(i) for i in index]
            if len(plain) == 1 and len(dims) != 1:
                count = self.interpreter.base("length")(array)
                self.check(array, plain, (count,))
                plain = cartesian(plain[0] - 1, dims)
            self.check(array, plain, dims)
            if isinstance(array, Range):
                return array.first + (plain[0] - 1) * array.step
            if isinstance(array, Struct):
                return self.interpreter.base("getindex")(array, *plain)
            return array.get(tuple(plain)) if not isinstance(array, BitArray) else array.at(plain[0] - 1)
        if (
            isinstance(array, Array)
            and array.bits
            and len(index) == 1
            and isinstance(index[0], Range)
            and index[0].step == 1
        ):
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
        if isinstance(array, Ref):
            array.set(self.interpreter.convert(array.kind, value))
            return array
        if not isinstance(array, (Array, View)):
            raise error("MethodError", f="setindex!", args=(array, value, *index))
        if isinstance(array, Array) and len(index) == 1 and type(index[0]) is int:
            if not 1 <= index[0] <= len(array):
                raise error("BoundsError", a=array, i=index)
            array.put(index[0] - 1, self.interpreter.convert(array.kind, value))
            return array
        plain = [number(i) for i in index]
        if len(plain) == 1 and len(array.dims) != 1:
            self.check(array, plain, (len(array),))
            array.put(plain[0] - 1, self.interpreter.convert(array.kind, value))
        else:
            self.check(array, plain, array.dims)
            array.set(tuple(plain), self.interpreter.convert(array.kind, value))
        return array

    def view(self, array, *index):
        """A SubArray: dimensions of integers are dropped; strides where all indices are ranges."""
        dims, places = self.interpreter.base("size")(array), []
        for one, extent in zip(index, dims):
            if isinstance(one, Function) and one.name == ":" or one is COLON:
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
            try:
                base = self.interpreter.base("strides")(array)
                steps = tuple(s * p.step for p, s in zip(places, base) if isinstance(p, Range))
                first = sum(
                    ((p.first if isinstance(p, Range) else number(p)) - 1) * s for p, s in zip(places, base)
                )
            except Exception as problem:
                if "MethodError" not in repr(problem):
                    raise
        get = self.interpreter.base("getindex")

        def locate(at):
            rest = iter(at)
            return tuple(number(p) if isinstance(p, (int, Num)) else number(get(p, next(rest))) for p in places)

        parent = array if not isinstance(array, (Range, Struct)) else Reader(self, array)
        return View(SUB_ARRAY, self.element(array), extents, parent, locate, steps, first)

    def permuted(self, array, order):
        order = [number(o) for o in order]
        dims = tuple(array.dims[o - 1] for o in order)
        base = self.strides(array)
        back = [order.index(d + 1) for d in range(len(order))]
        return View(
            PERMUTED,
            array.kind,
            dims,
            array,
            lambda at: tuple(at[b] for b in back),
            tuple(base[o - 1] for o in order),
            0,
        )

    def parent(self, array):
        if isinstance(array, View):
            return array.parent if not isinstance(array.parent, Reader) else array.parent.array
        return array

    # ---- making ----

    def reshape(self, array, *dims):
        dims = dims[0] if len(dims) == 1 and isinstance(dims[0], tuple) else dims
        count = 1
        for extent in dims:
            count *= extent
        if count != len(array):
            raise error(
                "DimensionMismatch", msg=f"new dimensions {dims} must be consistent with array size {len(array)}"
            )
        if not isinstance(array, Array):
            array = self.interpreter.base("collect")(array)
        made = Array(array.kind, dims, None, shared=array) if array.bits else Array(array.kind, dims, array.list)
        return made

    def reinterpret(self, kind, value):
        if isinstance(value, Array):
            count = len(value) * size_of(value.kind) // size_of(kind)
            return Array(kind, (count, *value.dims[1:]) if value.dims else (), None, shared=value)
        if isinstance(value, (int, float, Num)):
            source = Ref(type_of(value), value)
            from .values import load_value

            return load_value(kind, source.address)
        raise Unsupported(f"reinterpret of {value!r}")

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

    def copy_into(self, target, source):
        for i, value in enumerate(self.interpreter.iterate(source)):
            target.put(i, self.interpreter.convert(target.kind, value))
        return target

    def make(self, kind, arguments):
        """Array{T,N}(undef, dims…), Vector{T}(something)."""
        element, count = kind.params
        if arguments and isinstance(arguments[0], Symbol) and arguments[0] == "#undef":
            dims = arguments[1:]
            dims = dims[0] if len(dims) == 1 and isinstance(dims[0], tuple) else dims
            if isinstance(count, int) and len(dims) != count:
                raise error("MethodError", f=kind, args=arguments)
            return Array(element, [number(self.interpreter.convert(INT64, d)) for d in dims])
        if not arguments:
            return Array(element, (0,))
        values = list(self.interpreter.iterate(arguments[0]))
        if repr(element) == "*":
            return self.interpreter.vector(values)
        dims = getattr(arguments[0], "dims", (len(values),))
        return Array(element, dims, [self.interpreter.convert(element, v) for v in values])


class Reader:
    """Elements of a range or of an array of the program, as parent of a view."""

    def __init__(self, arrays, array):
        self.arrays, self.array = arrays, array
        self.dims = arrays.interpreter.base("size")(array)

    def get(self, index):
        return self.arrays.interpreter.base("getindex")(self.array, *index)


def install(interpreter):
    arrays, define = interpreter.arrays, interpreter.define
    interpreter.base_module.globals[Symbol("undef")] = Symbol("#undef")

    def last_index(value):
        if isinstance(value, str):
            from .base_text import byte_place

            return byte_place(value, len(value) - 1) if value else 0
        return interpreter.base("length")(value)

    def in_bounds(kind, array, *index):
        dims = interpreter.base("size")(array)
        return len(index) == len(dims) and all(1 <= i <= extent for i, extent in zip(index, dims))

    def element_size(kind):
        return size_of(arrays.element(kind))

    def transpose_free(array, order):
        return arrays.permuted(array, order)

    for name, function in (
        ("getindex", arrays.get),
        ("setindex!", arrays.set),
        ("size", arrays.size),
        ("strides", arrays.strides),
        ("lastindex", last_index),
        ("view", arrays.view),
        ("parent", arrays.parent),
        ("reshape", arrays.reshape),
        ("zeros", arrays.filled(0)),
        ("ones", arrays.filled(1)),
        ("fill", arrays.fill),
        ("fill!", arrays.fill_into),
        ("copyto!", arrays.copy_into),
        ("eltype", arrays.element),
        ("checkbounds", in_bounds),
        ("ndims", lambda a: len(interpreter.base("size")(a))),
        ("elsize", element_size),
        ("IndexStyle", lambda k: None),
        ("IndexCartesian", lambda: Symbol("IndexCartesian")),
        ("PermutedDimsArray", transpose_free),
        ("vec", lambda a: arrays.reshape(a, len(a))),
        (
            "pointer",
            lambda a, i=1: Ptr(
                PTR.of(arrays.element(a)), arrays.address(a) + (number(i) - 1) * size_of(arrays.element(a))
            ),
        ),
        ("falses", lambda *dims: BitArray(dims)),
    ):
        define(name, function)
