"""The evaluator: modules, names, properties, iteration, conversion; Base is in base_*.py."""

import threading
from pathlib import Path

from julia_ast import Char, Expr, Line, Symbol
from . import base_arrays, base_collections, base_errors, base_numbers, base_system, base_text
from .compiler import Compiler
from .scopes import Scope
from .definitions import Definitions
from .dispatch import Function, construct, convert, error
from .foreign import Foreign
from .macros import Macros
from .types import (ABSTRACT_ARRAY, ANY, ARRAY, FAMILIES, INT64, NOTHING, PTR, TYPES, UINT64, WILD, Family, TupleType,
                    Type, TypeOf, TypeVar, Union, Unsupported, matches)
from .values import (ARRAYS, Array, Dict, Generator, Module, NamedTuple, Pair, Ptr, Range, Set, Struct, number, type_of)

threading.stack_size(256 << 20)


class Alias:
    """Vector{T}, Matrix{T}, NTuple{N,T}: other names of types."""

    def __init__(self, name, make):
        self.name, self.make = name, make

    def __repr__(self):
        return self.name


def vararg(params):
    count, item = params
    if isinstance(count, int):
        return TupleType([item] * count)
    return TupleType([], item, None if count is WILD else count)


def flat_union(items):
    out = []
    for item in items:
        out.extend(item.items if isinstance(item, Union) else [item])
    return out[0] if len(out) == 1 else Union(out)


ALIASES = {
    "Vector": Alias("Vector", lambda p: ARRAY.of(p[0] if p else WILD, 1)),
    "AbstractVector": Alias("AbstractVector", lambda p: ABSTRACT_ARRAY.of(p[0] if p else WILD, 1)),
    "AbstractMatrix": Alias("AbstractMatrix", lambda p: ABSTRACT_ARRAY.of(p[0] if p else WILD, 2)),
    "NTuple": Alias("NTuple", vararg),
    "Tuple": Alias("Tuple", lambda p: TupleType(p) if p else TupleType([], ANY)),
    "Union": Alias("Union", flat_union),
    "Type": Alias("Type", lambda p: TypeOf(p[0] if p else WILD)),
}


class Interpreter:
    """`tests` takes what @testset and @test find; without it a program with tests can be compiled, not run."""

    def __init__(self, parser, library, package, tests=None, version=(1, 13)):
        self.parser, self.tests, self.julia_version = parser, tests, version
        self.quiet = False  # after Logging.disable_logging
        self.library = str(library)
        self.caught, self.base_module = [], Module("Base")
        self.compiler = Compiler(self)
        self.definitions, self.macros = Definitions(self), Macros(self)
        self.foreign = Foreign(self, library)
        self.arrays = base_arrays.Arrays(self)
        self.main = Module("Main")
        self.main.path = Path(".")
        self.give_include(self.main)
        self.packages, self.loaded = {"Ckpt": package / "src" / "Ckpt.jl"}, {}
        values = {name: made if made.parameters else made.of() for name, made in FAMILIES.items()} | ALIASES
        values |= {
            "Any": ANY, "Int": INT64, "UInt": UINT64, "Csize_t": UINT64, "Cvoid": NOTHING, "nothing": None,
            "C_NULL": Ptr(PTR.of(NOTHING), 0), "Base": self.base_module, "NaN": float("nan"),
            "VERSION": self.version(".".join(map(str, version))),
        }
        self.base_module.globals = {Symbol(name): value for name, value in values.items()}
        for part in (base_errors, base_numbers, base_text, base_collections, base_arrays, base_system):
            part.install(self)

    # ---- names ----

    def base(self, name):
        return self.base_module.globals[Symbol(name)]

    def define(self, functions):
        """Functions of Base; None: one that has only the methods of the program."""
        for name, function in functions.items():
            self.base_module.globals[Symbol(name)] = Function(name, function)

    def lookup(self, module, name):
        if name in module.globals:
            return module.globals[name]
        for used in module.used:
            if name in used.exports and name in used.globals:
                return used.globals[name]
        if name in self.base_module.globals:
            return self.base_module.globals[name]
        raise error("UndefVarError", var=name)

    def own_function(self, module, name, line):
        """The function that a definition `name(…) = …` in a module adds to: its own, or a type's constructor."""
        found = module.globals.get(name)
        if isinstance(found, Type):
            found = found.family
        if isinstance(found, Family):
            return found.constructors
        if found is None:
            found = module.globals[name] = Function(str(name))
        if not isinstance(found, Function):
            raise RuntimeError(f"{module.name}:{line}: {name} is a {found!r}")
        return found

    def function_of(self, module, name):
        found = self.get_property(module, name)
        if not isinstance(found, Function):
            raise Unsupported(f"a method of {found!r} outside its module")
        return found

    def find_module(self, path, module):
        first = str(path[0])
        if first == "Base":
            found = self.base_module
        elif first in self.loaded:
            found = self.loaded[first]
        elif first in self.packages:
            self.loaded[first] = None
            self.run_file(self.packages[first], self.main)
            found = self.loaded[first] = self.main.globals[Symbol(first)]
        elif Symbol(first) in self.base_module.globals:
            found = self.base_module.globals[Symbol(first)]
        else:
            raise Unsupported(f"package {first}")
        for name in path[1:]:
            found = self.get_property(found, name)
        return found

    # ---- running ----

    def run_file(self, path, module):
        path = Path(path)
        tree, problem = self.parser.parse(path.read_text(), str(path))
        if problem:
            raise SyntaxError(f"{path}:{problem[0]}: {problem[1]}")
        before, module.path = getattr(module, "path", None), path
        try:
            return self.run_block(tree, module)
        finally:
            module.path = before

    def run_block(self, tree, module):
        value, scope = None, Scope(module)
        for node in tree.args:
            if not isinstance(node, Line):
                value = self.compiler.compile(node, scope)(None)
        return value

    def give_include(self, module):
        include = Function("include", lambda name: self.run_file(module.path.parent / name, module))
        module.globals[Symbol("include")] = include

    def invoke(self, called, values, keywords):
        if isinstance(called, Function):
            return called(*values, **keywords)
        if isinstance(called, Alias):
            called = called.make([])
        if isinstance(called, (Family, *TYPES)):
            return construct(called, tuple(values), keywords, self)
        raise error("MethodError", f=called, args=tuple(values))

    def version(self, text):
        parts = [*map(int, text.split(".")), 0, 0]
        return Struct(FAMILIES["VersionNumber"].of(), dict(zip(("major", "minor", "patch"), parts)))

    # ---- types ----

    def apply_type(self, base, params):
        params = [self.as_parameter(p) for p in params]
        if isinstance(base, Alias):
            return base.make(params)
        if isinstance(base, Type) and base.family.parameters:
            base = base.family
        if not isinstance(base, Family):
            raise error("TypeError", msg=f"{base!r} takes no parameters")
        return base.of(*params)

    def as_parameter(self, value):
        return self.as_type(value) if isinstance(value, (Family, Alias)) else value

    def as_type(self, value):
        if isinstance(value, Family):
            return value.of()
        if isinstance(value, Alias):
            return value.make([])
        if isinstance(value, TYPES) or isinstance(value, TypeVar):
            return value
        raise error("TypeError", msg=f"{value!r} is no type")

    def convert(self, kind, value):
        return convert(kind, value, self)

    def base_convert(self, kind, value):
        return base_numbers.base_convert(self, kind, value)

    def base_construct(self, kind, arguments):
        return base_system.base_construct(self, kind, arguments)

    # ---- values ----

    def vector(self, items):
        """[a, b, c]: of their common type, numbers promoted."""
        kinds = {type_of(item) for item in items}
        kind = kinds.pop() if len(kinds) == 1 else ANY
        if kinds and all(isinstance(number(i), (int, float, complex)) for i in items):
            kind = base_numbers.promoted([type_of(i) for i in items])
            items = [self.convert(kind, i) for i in items]
        return Array(kind, (len(items),), items)

    def iterate(self, value):
        """A Python iterator over a Julia collection."""
        if isinstance(value, tuple):
            return iter(value)
        if isinstance(value, Range):
            return iter(value.python())
        if isinstance(value, ARRAYS):
            return (value.at(i) for i in range(len(value)))
        if isinstance(value, Generator):
            return iter(value.items)
        if isinstance(value, Dict):
            return iter([Pair(k, v) for k, v in value.entries.values()])
        if isinstance(value, Set):
            return iter(list(value.items.values()))
        if isinstance(value, Pair):
            return iter((value.first, value.second))
        if isinstance(value, NamedTuple):
            return iter(list(value.items.values()))
        if type(value) is str:
            return (Char(ord(c)) for c in value)
        if isinstance(value, Struct):
            return self.iterate_struct(value)
        raise error("MethodError", f="iterate", args=(value,))

    def iterate_struct(self, value):
        function = self.base("iterate")
        if not function.select([type_of(value)]):
            if matches(type_of(value), ABSTRACT_ARRAY.of(), {}):
                return self.arrays.elements(value)
            raise error("MethodError", f="iterate", args=(value,))
        step = function(value)

        def walk(step):
            while step is not None:
                yield step[0]
                step = function(value, step[1])

        return walk(step)

    def pairs(self, value):
        if isinstance(value, NamedTuple):
            return [(Symbol(k), v) for k, v in value.items.items()]
        return [tuple(self.iterate(item)) for item in self.iterate(value)]

    def get_property(self, owner, name):
        if isinstance(owner, Module):
            if name in owner.globals:
                return owner.globals[name]
            raise error("UndefVarError", var=name)
        if isinstance(owner, Struct):
            if str(name) in owner.fields:
                if str(name) in owner.type.family.atomic:
                    raise error("ConcurrencyViolationError", msg=f"{name} is read without @atomic")
                return owner.fields[str(name)]
            raise error("FieldError", type=owner.type, field=name)
        if isinstance(owner, Pair) and name in ("first", "second"):
            return getattr(owner, name)
        if isinstance(owner, NamedTuple) and str(name) in owner.items:
            return owner.items[str(name)]
        if isinstance(owner, Expr) and name in ("head", "args"):
            return ListArray(owner.args) if name == "args" else Symbol(owner.head)
        raise error("FieldError", type=type_of(owner), field=name)

    def set_property(self, owner, name, value):
        if not isinstance(owner, Struct) or not owner.type.family.mutable:
            raise error("ErrorException", msg=f"setfield!: immutable {owner!r}")
        if str(name) in owner.type.family.atomic:
            raise error("ConcurrencyViolationError", msg=f"{name} is written without @atomic")
        kind = dict(zip(owner.type.family.fields, owner.type.family.field_types(owner.type)))[str(name)]
        owner.fields[str(name)] = self.convert(kind, value)

    def text(self, value):
        return base_text.show(self, value)


class ListArray(Array):
    """The args of an Expr: a Vector{Any} over the same list."""

    def __init__(self, items):
        super().__init__(ANY, (len(items),), [])
        self.list = items
