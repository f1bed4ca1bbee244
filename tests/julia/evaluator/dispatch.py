"""Functions, their methods, and which one a call means."""

from .types import ANY, TYPES, WILD, Family, JuliaError, TupleType, TypeOf, TypeVar, Union, Unsupported, matches
from .values import Struct, type_of

ERRORS = {}


def error(name, **fields):
    """A Julia exception of Base, ready to raise."""
    return JuliaError(Struct(ERRORS[name].of(), fields))


REQUIRED = object()  # the default of a keyword that has none


class Method:
    """`types` of the positional arguments; `rest` of a trailing x...; `needed` of them have no default."""

    def __init__(self, types, rest, needed, keywords, takes_any, variables, body, where):
        self.types, self.rest, self.needed, self.keywords = types, rest, needed, keywords
        self.takes_any, self.variables, self.body, self.where = takes_any, variables, body, where

    def accepts(self, found):
        """The bindings of the type variables, or None."""
        if len(found) < self.needed or (self.rest is None and len(found) > len(self.types)):
            return None
        bound = {}
        for kind, wanted in zip(found, self.types):
            if not matches(kind, wanted, bound):
                return None
        more = found[len(self.types):]
        if self.rest is not None:
            rest, count = self.rest
            if isinstance(count, TypeVar) and bound.setdefault(count, len(more)) != len(more):
                return None
            if isinstance(count, int) and len(more) != count:
                return None
            if not all(matches(kind, rest, bound) for kind in more):
                return None
        return bound

    def tuple_of(self, count):
        """The types of `count` arguments, to compare with another method's."""
        types = list(self.types[:count])
        while len(types) < count:
            types.append(self.rest[0])
        return types

    def beats(self, other, count):
        bound = {}
        if not all(matches(a, b, bound) for a, b in zip(self.tuple_of(count), other.tuple_of(count))):
            return False
        back = {}
        equal = all(matches(b, a, back) for a, b in zip(self.tuple_of(count), other.tuple_of(count)))
        return not equal or (self.rest is None and other.rest is not None)


class Function:
    """A generic function. `builtin` is what Base does where no method of the program fits."""

    def __init__(self, name, builtin=None):
        self.name, self.builtin, self.methods, self.cache = name, builtin, [], {}
        self.family = None  # of constructors

    def __repr__(self):
        return self.name

    def add(self, method):
        if (self.family and not self.family.inner and method.rest is None and method.needed == len(self.family.fields)
                and all(kind is ANY for kind in method.types)):
            raise RuntimeError(f"{self.name}: the method at {method.where} is there already: the default constructor")
        for known in self.methods:
            if (len(known.types) == len(method.types) and (known.rest is None) == (method.rest is None)
                    and known.needed == method.needed and same_signature(known, method)):
                raise RuntimeError(
                    f"{self.name}: method {method.types} at {method.where} is there already, {known.where}")
        self.methods.append(method)
        self.cache.clear()

    def select(self, found):
        key = tuple(found)
        if key not in self.cache:
            fitting = [(m, bound) for m in self.methods if (bound := m.accepts(found)) is not None]
            best = [pair for pair in fitting if all(pair[0] is m or pair[0].beats(m, len(found)) for m, _ in fitting)]
            if fitting and len(best) != 1:
                raise RuntimeError(f"{self.name}{tuple(found)} is ambiguous: {[m.where for m, _ in fitting]}")
            self.cache[key] = best[0] if best else None
        return self.cache[key]

    def __call__(self, *arguments, **keywords):
        if not self.methods and self.builtin is not None:
            return self.builtin(*arguments, **keywords)
        if self.methods:
            chosen = self.select([type_of(a) for a in arguments])
            if chosen:
                return chosen[0].body(arguments, keywords, chosen[1])
        if self.builtin is not None:
            return self.builtin(*arguments, **keywords)
        raise error("MethodError", f=self, args=arguments)


def same_signature(a, b):
    pairs = list(zip(a.types, b.types)) + ([(a.rest[0], b.rest[0])] if a.rest and b.rest else [])
    return all(matches(x, y, {}) and matches(y, x, {}) for x, y in pairs)


# ---- types as functions ----


def convert(kind, value, interpreter):
    """convert(T, value)."""
    if kind is ANY or isinstance(kind, TYPES) and matches(type_of(value), kind, {}):
        return value
    return interpreter.base_convert(kind, value)


def default_constructor(kind, arguments, interpreter):
    """T(fields…): converted to the fields' types."""
    family = kind.family
    if family.kind == "abstract" or len(arguments) != len(family.fields):
        raise error("MethodError", f=kind, args=arguments)
    if any(isinstance(p, TypeVar) or p is WILD for p in kind.params):
        raise Unsupported(f"{kind}(…), whose parameters are to be found from its fields")
    fields = family.field_types(kind)
    values = (convert(field, value, interpreter) for field, value in zip(fields, arguments))
    return Struct(kind, dict(zip(family.fields, values)))


def construct(kind, arguments, keywords, interpreter):
    """A type that is called."""
    if isinstance(kind, Family):
        kind = kind.of()
    if isinstance(kind, (Union, TupleType, TypeOf)):
        return interpreter.base_construct(kind, arguments)
    family = kind.family
    if family.constructors is not None and family.constructors.methods:
        chosen = family.constructors.select([type_of(a) for a in arguments])
        if chosen:
            fits = not family.inner and len(arguments) == len(family.fields) and not keywords
            if fits and all(matches(type_of(a), t, {}) for a, t in zip(arguments, family.field_types(kind))):
                raise Unsupported(f"{kind}{arguments}: an outer constructor beside the default one")
            return chosen[0].body(arguments, keywords, chosen[1])
    elif family.field_types is None:
        return interpreter.base_construct(kind, arguments)
    if family.inner or keywords:
        raise error("MethodError", f=kind, args=arguments)
    return default_constructor(kind, arguments, interpreter)
