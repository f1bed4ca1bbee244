"""References, pointers, collection, tasks, files, time, and what types do when they are called."""

import ctypes
import gc
import os
import shutil
import tempfile
import time
from pathlib import Path

from julia_ast import Char, Expr, Quoted, Symbol
from .base_numbers import convert_number, is_number, make
from .dispatch import ERRORS, Function, error
from .types import (
    ANY,
    ARRAY,
    COMPLEX,
    INT64,
    INTS,
    NUMBER,
    PTR,
    REF,
    STRING,
    TYPES,
    WILD,
    JuliaError,
    TupleType,
    Type,
    TypeOf,
    is_bits,
    layout,
    matches,
    size_of,
)
from .values import (
    ARRAYS,
    Array,
    Buffer,
    CodeUnits,
    Dict,
    Module,
    NamedTuple,
    Num,
    Pair,
    Ptr,
    Ref,
    Set,
    SpinLock,
    Struct,
    Task,
    load_value,
    number,
    store_value,
    type_of,
)


def base_construct(interpreter, kind, arguments, keywords):
    """T(x) of a type of Base."""
    if isinstance(kind, TupleType):
        return tuple(interpreter.iterate(arguments[0])) if arguments else ()
    if not isinstance(kind, Type):
        raise error("MethodError", f=kind, args=arguments)
    family, name = kind.family, kind.family.name
    if matches(kind, NUMBER, {}):
        if family is COMPLEX and len(arguments) == 2:
            part = kind.params[0] if kind.params[0] is not WILD else type_of(arguments[0])
            return make(COMPLEX.of(part), complex(number(arguments[0]), number(arguments[1])))
        if len(arguments) == 1 and isinstance(arguments[0], Ptr):
            return Num(kind, arguments[0].address)
        if len(arguments) == 1 and isinstance(arguments[0], Char):
            return convert_number(kind, arguments[0].code)
        if len(arguments) != 1 or not is_number(arguments[0]):
            raise error("MethodError", f=kind, args=arguments)
        return convert_number(kind, number(arguments[0]))
    if family is PTR:
        value = arguments[0]
        return Ptr(kind, value.address if isinstance(value, Ptr) else number(value))
    if family is REF:
        element = kind.params[0]
        if element is WILD:
            element = type_of(arguments[0])
            element = ANY if isinstance(element, TypeOf) else element
        if not arguments:
            return Ref(element, None, False)
        return Ref(element, interpreter.convert(element, arguments[0]))
    if name in ("Dict", "IdDict"):
        return interpreter.collections.make_dict(kind, arguments)
    if family is ARRAY:
        return interpreter.arrays.make(kind, arguments)
    if name in ERRORS:
        return Struct(kind, dict(zip(family.fields, arguments)))
    makers = {
        "String": make_string,
        "Symbol": lambda i, a: i.symbol(*a),
        "Set": lambda i, a: Set(i.iterate(a[0]) if a else ()),
        "Expr": lambda i, a: Expr(str(a[0]), list(a[1:])),
        "QuoteNode": lambda i, a: Quoted(a[0]),
        "IOBuffer": lambda i, a: Buffer(),
        "SpinLock": lambda i, a: SpinLock(),
        "Char": lambda i, a: Char(number(a[0])),
        "VersionNumber": lambda i, a: i.version(a[0]),
        "Pair": lambda i, a: make_pair(i, kind, a),
        "NamedTuple": lambda i, a: NamedTuple({str(k): v for k, v in i.pairs(a[0])}),
        "PermutedDimsArray": lambda i, a: i.arrays.permuted(*a),
    }
    if name not in makers:
        raise error("MethodError", f=kind, args=arguments)
    return makers[name](interpreter, arguments)


def make_string(interpreter, arguments):
    value = arguments[0]
    if isinstance(value, Array):
        return bytes(number(b) for b in interpreter.iterate(value)).decode("utf-8", "surrogateescape")
    if isinstance(value, CodeUnits):
        return value.raw.decode("utf-8", "surrogateescape")
    return str(interpreter.text(value))


def make_pair(interpreter, kind, arguments):
    if kind.params[0] is WILD:
        return Pair(*arguments)
    return Pair(*(interpreter.convert(k, a) for k, a in zip(kind.params, arguments)))


def string_at(pointer, size=None):
    if pointer.address == 0:
        raise error("ArgumentError", msg="cannot convert NULL to string")
    raw = ctypes.string_at(pointer.address) if size is None else ctypes.string_at(pointer.address, number(size))
    return raw.decode("utf-8", "surrogateescape")


def system_error(function):
    def run(*arguments, **keywords):
        try:
            return function(*arguments, **keywords)
        except OSError as problem:
            raise error("SystemError", prefix=str(problem), errnum=problem.errno or 0) from None

    return run


class System:
    def __init__(self, interpreter):
        self.interpreter = interpreter

    def load(self, pointer, index=1):
        kind = pointer.type.params[0]
        return load_value(kind, pointer.address + (number(index) - 1) * size_of(kind))

    def store(self, pointer, value, index=1):
        kind = pointer.type.params[0]
        store_value(
            kind, pointer.address + (number(index) - 1) * size_of(kind), self.interpreter.convert(kind, value)
        )
        return pointer

    @staticmethod
    def copy(target, source, count):
        if target.type.params[0] is not source.type.params[0]:
            raise error("MethodError", f="unsafe_copyto!", args=(target, source))
        ctypes.memmove(target.address, source.address, number(count) * size_of(target.type.params[0]))
        return target

    def size_of(self, value):
        if isinstance(value, TYPES):
            return size_of(value)
        if isinstance(value, str):
            return len(CodeUnits(value))
        if isinstance(value, ARRAYS):
            return len(value) * size_of(value.kind)
        return size_of(type_of(value))

    def finalizer(self, function, value):
        """Runs when Python's collector ends the object, on whatever thread."""
        if not isinstance(value, Struct) or not value.type.family.mutable:
            raise error("ErrorException", msg="objects of this type cannot be finalized")
        value.finalizers = (value.finalizers or []) + [lambda v: self.interpreter.invoke(function, [v], {})]
        return value

    def locked(self, function, lock):
        with lock:
            return self.interpreter.invoke(function, [], {})

    def fetch(self, task):
        task.thread.join()
        if isinstance(task.error, JuliaError):
            raise error("TaskFailedException", task=task) from task.error
        if task.error is not None:
            raise task.error
        return task.result

    def wait(self, task):
        if not isinstance(task, Task):
            raise error("MethodError", f="wait", args=(task,))
        self.fetch(task)

    def open(self, *arguments, **keywords):
        """open(path, mode), open(f, arguments…)."""
        if isinstance(arguments[0], Function):
            made = self.interpreter.base("open")(*arguments[1:], **keywords)
            try:
                return self.interpreter.invoke(arguments[0], [made], {})
            finally:
                self.interpreter.base("close")(made)
        modes = {"r+": "r+b", "w": "wb", "r": "rb"}
        return FileStream(open(arguments[0], modes[arguments[1] if len(arguments) > 1 else "r"]))

    def write(self, target, *values):
        if isinstance(target, str):
            Path(target).write_bytes(b"".join(map(self.raw, values)))
        else:
            for value in values:
                target.file.write(self.raw(value))

    @staticmethod
    def raw(value):
        if isinstance(value, str):
            return value.encode("utf-8", "surrogateescape")
        if isinstance(value, Array):
            return value.bytes()
        return bytes([number(value)])

    def read(self, path, kind=None):
        data = Path(path).read_bytes()
        if kind is STRING:
            return data.decode("utf-8", "surrogateescape")
        made = Array(INTS["UInt8"], (len(data),))
        ctypes.memmove(made.address, data, len(data))
        return made

    def lines(self, path):
        return self.interpreter.vector(Path(path).read_text("utf-8", "surrogateescape").splitlines())


class FileStream(Buffer):
    def __init__(self, file):
        super().__init__()
        self.file = file


def base_modules(interpreter, system):
    """GC, Threads, Libdl, Sys, Mmap and Test, as far as they are used."""
    table = interpreter.base_module.globals

    def module(name, **functions):
        made = Module(name)
        for key, function in functions.items():
            made.globals[Symbol(key)] = Function(key, function) if callable(function) else function
            made.exports.add(Symbol(key))
        table[Symbol(name)] = made
        return made

    module("GC", gc=lambda *full: gc.collect() and None)
    threads = module("Threads", nthreads=lambda: 4, threadid=lambda: 1)
    threads.globals[Symbol("SpinLock")] = table[Symbol("SpinLock")]
    dl = module(
        "Libdl",
        dlopen=lambda path: Symbol("library"),
        dlsym=lambda library, name: Ptr(
            PTR.of(INTS["Int8"]), ctypes.cast(interpreter.foreign.library[name], ctypes.c_void_p).value
        ),
    )
    libc = module("Libc")
    libc.globals[Symbol("Libdl")] = dl
    module("Test")
    module("Mmap", mmap=mapped_file)
    module("Iterators")
    environment = Dict(STRING, STRING)
    for key, value in interpreter.environment.items():
        environment.entries[environment.slot(key)] = (key, value)
    table[Symbol("ENV")] = environment
    table[Symbol("ARGS")] = Array(STRING, (0,))
    table[Symbol("PROGRAM_FILE")] = ""


def mapped_file(kind, count):
    """Mmap.mmap(Vector{T}, n): anonymous memory."""
    return Array(kind.params[0], (number(count),))


def temporary(function):
    folder = tempfile.mkdtemp()
    try:
        return function(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def type_name(kind):
    return Symbol(kind.family.name if isinstance(kind, Type) else getattr(kind, "name", repr(kind)))


def install(interpreter):
    system, define = System(interpreter), interpreter.define
    interpreter.system = system
    base_modules(interpreter, system)
    foreign = interpreter.foreign

    def truth_is(value, kind):
        return matches(type_of(value), interpreter.as_type(kind), {})

    def exit_process(code=0):
        raise SystemExit(number(code))

    def is_subtype(a, b):
        return matches(interpreter.as_type(a), interpreter.as_type(b), {})

    def typeof(value):
        found = type_of(value)
        return (
            INT64
            if found is None
            else (interpreter.base_or_family("DataType") if isinstance(found, TypeOf) else found)
        )

    for name, function in (
        ("unsafe_load", system.load),
        ("unsafe_store!", system.store),
        ("unsafe_string", string_at),
        ("unsafe_copyto!", system.copy),
        ("unsafe_convert", lambda kind, value: foreign.unsafe_convert(interpreter.as_type(kind), value)),
        ("cconvert", lambda kind, value: foreign.cconvert(interpreter.as_type(kind), value)),
        (
            "cglobal",
            lambda pair: Ptr(PTR.of(INTS["Int8"]), ctypes.cast(foreign.library[pair[0]], ctypes.c_void_p).value),
        ),
        ("sizeof", system.size_of),
        ("finalizer", system.finalizer),
        ("lock", system.locked),
        ("finalize", lambda v: [f(v) for f in v.finalizers or []] and setattr(v, "finalizers", None)),
        ("isa", truth_is),
        ("typeof", typeof),
        ("<:", is_subtype),
        ("isbitstype", is_bits),
        ("nameof", type_name),
        ("getfield", lambda v, n: v.fields[str(n)]),
        ("fieldnames", lambda k: tuple(Symbol(f) for f in k.family.fields)),
        ("fieldcount", lambda k: len(k.family.fields)),
        ("fieldoffset", lambda k, i: layout(k)[i - 1][1]),
        ("fieldtype", lambda k, i: layout(k)[i - 1][3]),
        ("convert", lambda k, v: interpreter.convert(interpreter.as_type(k), v)),
        ("time_ns", lambda: Num(INTS["UInt64"], time.monotonic_ns())),
        ("time", time.time),
        ("sleep", lambda s: time.sleep(number(s))),
        ("yield", lambda: time.sleep(0)),
        ("fetch", system.fetch),
        ("wait", system.wait),
        ("istaskdone", lambda t: not t.thread.is_alive()),
        ("run", lambda *a: (_ for _ in ()).throw(error("MethodError", f="run", args=a))),
        ("open", system_error(system.open)),
        ("close", lambda f: f.file.close()),
        ("isopen", lambda f: not f.file.closed),
        ("seek", lambda f, n: f.file.seek(number(n)) and None),
        ("truncate", lambda f, n: f.file.truncate(number(n)) and None),
        ("write", system.write),
        ("read", system_error(system.read)),
        ("eachline", system.lines),
        ("isfile", os.path.isfile),
        ("isdir", os.path.isdir),
        ("joinpath", lambda *p: os.path.join(*p)),
        ("abspath", os.path.abspath),
        ("readdir", lambda p: interpreter.vector(sorted(os.listdir(p)))),
        ("rm", system_error(lambda p, **k: os.remove(p))),
        ("mkpath", lambda p: os.makedirs(p, exist_ok=True)),
        ("cp", system_error(lambda a, b, force=False: shutil.copyfile(a, b) and None)),
        ("mv", system_error(lambda a, b, force=False: os.replace(a, b))),
        ("filesize", os.path.getsize),
        ("mktempdir", lambda f: temporary(lambda d: interpreter.invoke(f, [d], {}))),
        ("exit", exit_process),
        ("objectid", id),
        ("diff", lambda *a: (_ for _ in ()).throw(error("MethodError", f="diff", args=a))),
    ):
        define(name, function)
    interpreter.base_module.globals[Symbol("system")] = None
