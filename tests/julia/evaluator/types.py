"""Julia's types as far as Ckpt.jl needs them: families with parameters, unions, type variables, and matching for
dispatch.

Written from Julia's manual (Types, Methods). It knows invariance of parameters, upper bounds, Type{T}, tuples and
Vararg, and refuses what it does not know.
"""

import struct


class JuliaError(Exception):
    """A thrown Julia value."""

    def __init__(self, value):
        super().__init__(repr(value))
        self.value = value


class Unsupported(Exception):
    """Julia that this evaluator cannot carry out: never a pass."""


class Wild:
    def __repr__(self):
        return "*"


WILD = Wild()


class TypeVar:
    def __init__(self, name, upper):
        self.name, self.upper = name, upper

    def __repr__(self):
        return f"{self.name}<:{self.upper}"


class Family:
    """A type before its parameters: Array, Handle, Int64."""

    def __init__(self, name, parameters=0, parent=None, kind="abstract"):
        self.name, self.parameters, self.parent, self.kind = name, parameters, parent, kind
        self.fields, self.field_types, self.constructors, self.atomic = [], None, None, set()
        self.mutable, self.inner = False, False  # `inner`: whether it has inner constructors
        self.made = {}

    def __repr__(self):
        return self.name

    def of(self, *given):
        """The type with these parameters, the missing ones open."""
        if len(given) > self.parameters:
            raise TypeError(f"{self.name} takes {self.parameters} parameters")
        given = tuple(given) + (WILD,) * (self.parameters - len(given))
        if given not in self.made:
            self.made[given] = Type(self, given)
        return self.made[given]


class Type:
    def __init__(self, family, params):
        self.family, self.params = family, params

    def __repr__(self):
        if not any(p is not WILD for p in self.params):
            return self.family.name
        return f"{self.family.name}{{{', '.join(map(repr, self.params))}}}"

    @property
    def parent(self):
        parent = self.family.parent
        return parent(*self.params) if callable(parent) else parent

    def supers(self):
        at = self
        while at is not None:
            yield at
            at = at.parent


class TupleType:
    """Tuple{A, B}; `rest` is the type of any number more."""

    def __init__(self, items, rest=None, count=None):
        self.items, self.rest, self.count = tuple(items), rest, count

    def __repr__(self):
        return f"Tuple{{{', '.join(map(repr, self.items))}{', ' + repr(self.rest) + '...' if self.rest else ''}}}"

    def __eq__(self, other):
        return isinstance(other, TupleType) and (self.items, self.rest) == (other.items, other.rest)

    def __hash__(self):
        return hash((self.items, self.rest))


class Union:
    def __init__(self, items):
        self.items = tuple(items)

    def __repr__(self):
        return f"Union{{{', '.join(map(repr, self.items))}}}"

    def __eq__(self, other):
        return isinstance(other, Union) and set(self.items) == set(other.items)

    def __hash__(self):
        return hash(frozenset(self.items))


class TypeOf:
    """Type{T}: the type whose only value is T."""

    def __init__(self, target):
        self.target = target

    def __repr__(self):
        return f"Type{{{self.target!r}}}"

    def __eq__(self, other):
        return isinstance(other, TypeOf) and self.target == other.target

    def __hash__(self):
        return hash(("Type", self.target))


TYPES = (Type, TupleType, Union, TypeOf)

ANY = Family("Any").of()
FAMILIES = {}


def family(name, parameters=0, parent=ANY, kind="abstract"):
    made = FAMILIES[name] = Family(name, parameters, parent, kind)
    return made


def simple(name, parent=ANY, kind="abstract"):
    return family(name, 0, parent, kind).of()


NUMBER = simple("Number")
REAL = simple("Real", NUMBER)
INTEGER = simple("Integer", REAL)
FLOATING = simple("AbstractFloat", REAL)
SIGNED, UNSIGNED = simple("Signed", INTEGER), simple("Unsigned", INTEGER)
PRIMITIVES = {}


def primitive(name, parent, code):
    PRIMITIVES[name] = code
    return simple(name, parent, "primitive")


INTS = {
    name: primitive(name, SIGNED, code)
    for name, code in (("Int8", "b"), ("Int16", "h"), ("Int32", "i"), ("Int64", "q"))
}
INTS.update({
    name: primitive(name, UNSIGNED, code)
    for name, code in (("UInt8", "B"), ("UInt16", "H"), ("UInt32", "I"), ("UInt64", "Q"))
})
INT64, UINT64 = INTS["Int64"], INTS["UInt64"]
BOOL = primitive("Bool", INTEGER, "?")
FLOATS = {
    name: primitive(name, FLOATING, code)
    for name, code in (("Float16", "e"), ("Float32", "f"), ("Float64", "d"))
}
FLOAT64 = FLOATS["Float64"]
simple("Int128", SIGNED, "primitive")
BIGINT = simple("BigInt", SIGNED, "struct")
COMPLEX = family("Complex", 1, NUMBER, "struct")
STRING_TOP = simple("AbstractString")
STRING = simple("String", STRING_TOP, "struct")
CHAR = simple("Char", kind="primitive")
SYMBOL, NOTHING = simple("Symbol", kind="struct"), simple("Nothing", kind="struct")
FUNCTION, MODULE, TASK = simple("Function"), simple("Module", kind="struct"), simple("Task", kind="struct")
EXCEPTION = simple("Exception")
ABSTRACT_ARRAY = family("AbstractArray", 2)
DENSE_ARRAY = family("DenseArray", 2, lambda t, n: ABSTRACT_ARRAY.of(t, n))
ARRAY = family("Array", 2, lambda t, n: DENSE_ARRAY.of(t, n), "struct")
SUB_ARRAY = family("SubArray", 2, lambda t, n: ABSTRACT_ARRAY.of(t, n), "struct")
PERMUTED = family("PermutedDimsArray", 2, lambda t, n: ABSTRACT_ARRAY.of(t, n), "struct")
CODE_UNITS = family("CodeUnits", 2, lambda t, s: DENSE_ARRAY.of(t, 1), "struct")
BIT_ARRAY = family("BitArray", 1, lambda n: ABSTRACT_ARRAY.of(BOOL, n), "struct")
RANGE_TOP = family("AbstractRange", 1, lambda t: ABSTRACT_ARRAY.of(t, 1))
UNIT_RANGE = family("UnitRange", 1, lambda t: RANGE_TOP.of(t), "struct")
STEP_RANGE = family("StepRange", 1, lambda t: RANGE_TOP.of(t), "struct")
ABSTRACT_DICT = family("AbstractDict", 2)
DICT = family("Dict", 2, lambda k, v: ABSTRACT_DICT.of(k, v), "struct")
ID_DICT = family("IdDict", 2, lambda k, v: ABSTRACT_DICT.of(k, v), "struct")
ABSTRACT_SET = family("AbstractSet", 1)
SET = family("Set", 1, lambda t: ABSTRACT_SET.of(t), "struct")
PAIR = family("Pair", 2, kind="struct")
NAMED_TUPLE = family("NamedTuple", 2, kind="struct")
REF = family("Ref", 1)
REF_VALUE = family("RefValue", 1, lambda t: REF.of(t), "struct")
PTR = family("Ptr", 1, kind="primitive")
CSTRING = simple("Cstring", kind="primitive")
DATA_TYPE = simple("DataType", kind="struct")
IO_TOP = simple("IO")
IO_BUFFER, IO_STREAM = simple("IOBuffer", IO_TOP, "struct"), simple("IOStream", IO_TOP, "struct")
simple("VersionNumber", kind="struct")
SPIN_LOCK = simple("SpinLock", kind="struct")
EXPR, LINE_NODE, QUOTE_NODE = (simple(n, kind="struct") for n in ("Expr", "LineNumberNode", "QuoteNode"))
simple("IndexStyle")
GENERATOR = simple("Generator", kind="struct")
EMPTY_UNION = Union(())


def same(a, b):
    return a == b or matches(a, b, {}) and matches(b, a, {})


def bind(variable, found, bound):
    if variable in bound:
        known = bound[variable]
        return known == found if not isinstance(known, TYPES) else isinstance(found, TYPES) and same(known, found)
    if isinstance(found, TYPES) and variable.upper is not ANY and not matches(found, variable.upper, bound):
        return False
    bound[variable] = found
    return True


def match_parameter(found, wanted, bound):
    """Parameters are invariant; an open one takes anything."""
    if wanted is WILD:
        return True
    if isinstance(wanted, TypeVar):
        return bind(wanted, found, bound)
    if isinstance(found, TypeVar) or found is WILD:
        return found is wanted
    if isinstance(wanted, TYPES):
        if not isinstance(found, TYPES):
            return False
        if found is wanted or found == wanted:
            return True
        return matches(found, wanted, bound) and (has_variables(wanted) or matches(wanted, found, {}))
    return found == wanted and type(found) is type(wanted)


def has_variables(kind):
    if isinstance(kind, TypeVar) or kind is WILD:
        return True
    if isinstance(kind, Type):
        return any(map(has_variables, kind.params))
    if isinstance(kind, TupleType):
        return (any(map(has_variables, kind.items)) or (kind.rest is not None and has_variables(kind.rest))
                or isinstance(kind.count, TypeVar))
    if isinstance(kind, Union):
        return any(map(has_variables, kind.items))
    return isinstance(kind, TypeOf) and has_variables(kind.target)


def matches(found, wanted, bound):
    """Whether `found` is a subtype of `wanted`, binding the variables of the latter."""
    if wanted is ANY or found is EMPTY_UNION:
        return True
    if isinstance(wanted, TypeVar):
        if isinstance(found, TypeVar):
            return found is wanted or bind(wanted, found.upper, bound)
        return bind(wanted, found, bound)
    if isinstance(found, TypeVar):
        return matches(found.upper, wanted, bound)
    if isinstance(found, Union):
        return all(matches(item, wanted, bound) for item in found.items)
    if isinstance(wanted, Union):
        for item in wanted.items:
            trial = dict(bound)
            if matches(found, item, trial):
                bound.update(trial)
                return True
        return False
    if isinstance(wanted, TypeOf):
        return isinstance(found, TypeOf) and match_target(found.target, wanted.target, bound)
    if isinstance(wanted, TupleType):
        return isinstance(found, TupleType) and match_tuples(found, wanted, bound)
    if isinstance(found, TypeOf):
        return wanted is DATA_TYPE or wanted is ANY
    if isinstance(found, TupleType):
        return False
    for at in found.supers():
        if at.family is wanted.family:
            return all(match_parameter(f, w, bound) for f, w in zip(at.params, wanted.params))
    return False


def match_target(found, wanted, bound):
    """Of Type{T}: T itself, or what a bounded variable takes."""
    if isinstance(wanted, TypeVar):
        return bind(wanted, found, bound)
    if wanted is WILD:
        return True
    return match_parameter(found, wanted, bound)


def match_tuples(found, wanted, bound):
    if wanted.rest is None:
        return (found.rest is None and len(found.items) == len(wanted.items)
                and all(matches(f, w, bound) for f, w in zip(found.items, wanted.items)))
    if len(found.items) < len(wanted.items):
        return False
    if not all(matches(f, w, bound) for f, w in zip(found.items, wanted.items)):
        return False
    more = found.items[len(wanted.items):]
    if isinstance(wanted.count, TypeVar) and not bind(wanted.count, len(more), bound):
        return False
    if isinstance(wanted.count, int) and wanted.count != len(more):
        return False
    fits = all(matches(f, wanted.rest, bound) for f in more)
    return fits and (found.rest is None or matches(found.rest, wanted.rest, bound))


# ---- layout ----


def size_of(kind):
    if isinstance(kind, TupleType):
        return sum(map(size_of, kind.items))
    name = kind.family.name
    if name in PRIMITIVES:
        return struct.calcsize(PRIMITIVES[name])
    if kind.family in (PTR, CSTRING.family):
        return 8
    if kind.family is COMPLEX:
        return 2 * size_of(kind.params[0])
    if kind.family.kind == "struct" and kind.family.field_types:
        last, width = layout(kind)[-1][1:3]
        align = alignment(kind)
        return (last + width + align - 1) // align * align
    raise Unsupported(f"sizeof({kind})")


def alignment(kind):
    if isinstance(kind, TupleType):
        return max(map(alignment, kind.items), default=1)
    if kind.family.kind == "struct":
        return max(alignment(t) for t in kind.family.field_types(kind))
    return size_of(kind)


def layout(kind):
    """(name, offset, size, type) of each field, by C's rules, which Julia's isbits structs follow."""
    at, rows = 0, []
    for name, field in zip(kind.family.fields, kind.family.field_types(kind)):
        align = alignment(field)
        at = (at + align - 1) // align * align
        rows.append((name, at, size_of(field), field))
        at += size_of(field)
    return rows


def is_bits(kind):
    """Plain data, which may lie in memory."""
    if isinstance(kind, TupleType):
        return kind.rest is None and all(map(is_bits, kind.items))
    if not isinstance(kind, Type):
        return False
    family = kind.family
    if family.kind == "primitive" or family is COMPLEX:
        return True
    plain = family.kind == "struct" and family.field_types and not family.mutable
    return bool(plain) and all(map(is_bits, family.field_types(kind)))
