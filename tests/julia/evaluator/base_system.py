"""References, pointers, collection, tasks, files, time, and what types do when they are called."""

import ctypes
import gc
import os
import shutil
import tempfile
import time
from pathlib import Path

from julia_ast import Char, Expr, Symbol
from .base_numbers import convert_number, is_number, make
from .dispatch import Function, error
from .types import (ANY, ARRAY, COMPLEX, FAMILIES, INTS, NUMBER, PTR, REF, STRING, TYPES, WILD, JuliaError, TupleType,
                    Type, TypeOf, Unsupported, is_bits, layout, matches, size_of)
from .values import (Array, Buffer, CodeUnits, Dict, Module, Num, Pair, Ptr, Ref, Set, SpinLock, Struct, Task,
                     load_value, number, store_value, type_of)


def base_construct(interpreter, kind, arguments):
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
    makers = {
        "String": make_string,
        "Symbol": lambda i, a: i.symbol(*a),
        "Set": lambda i, a: Set(i.iterate(a[0])),
        "Expr": lambda i, a: Expr(str(a[0]), list(a[1:])),
        "SpinLock": lambda i, a: SpinLock(),
        "VersionNumber": lambda i, a: i.version(a[0]),
        "Pair": lambda i, a: Pair(*(i.convert(part, item) for part, item in zip(kind.params, a))),
    }
    if name not in makers:
        raise error("MethodError", f=kind, args=arguments)
    return makers[name](interpreter, arguments)


def make_string(interpreter, arguments):
    value = arguments[0]
    if isinstance(value, Array):
        return value.bytes().decode("utf-8", "surrogateescape")
    return str(interpreter.text(value))


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
        store_value(kind, pointer.address + (number(index) - 1) * size_of(kind), self.interpreter.convert(kind, value))
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
        raise Unsupported(f"sizeof of {value!r}")

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


class FileStream(Buffer):
    def __init__(self, file):
        super().__init__()
        self.file = file


def base_modules(interpreter):
    """GC, Threads, Libdl, Logging, Mmap and Test, as far as they are used."""
    table = interpreter.base_module.globals

    def module(name, **functions):
        made = Module(name)
        for key, function in functions.items():
            made.globals[Symbol(key)] = Function(key, function)
            made.exports.add(Symbol(key))
        table[Symbol(name)] = made
        return made

    module("GC", gc=lambda *full: gc.collect() and None)
    threads = module("Threads", nthreads=lambda: 4)
    threads.globals[Symbol("SpinLock")] = table[Symbol("SpinLock")]
    foreign = interpreter.foreign
    dl = module("Libdl", dlopen=lambda path: Symbol("library"), dlsym=lambda library, name: foreign.address(name))
    module("Libc").globals[Symbol("Libdl")] = dl
    module("Test")
    logging = module("Logging", disable_logging=lambda level: setattr(interpreter, "quiet", True))
    logging.globals[Symbol("Warn")] = Symbol("Warn")
    module("Mmap", mmap=lambda kind, count: Array(kind.params[0], (number(count),)))  # anonymous memory
    environment = Dict(STRING, STRING)
    interpreter.collections.put(environment, interpreter.library, "JULIA_CKPT_LIBRARY")
    table[Symbol("ENV")] = environment
    table[Symbol("ARGS")] = Array(STRING, (0,))
    table[Symbol("PROGRAM_FILE")] = ""


def temporary(function):
    folder = tempfile.mkdtemp()
    try:
        return function(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def type_name(kind):
    return Symbol(kind.family.name if isinstance(kind, Type) else getattr(kind, "name", repr(kind)))


def install(interpreter):
    system = System(interpreter)
    base_modules(interpreter)
    foreign = interpreter.foreign

    def is_a(value, kind):
        return matches(type_of(value), interpreter.as_type(kind), {})

    def exit_process(code=0):
        raise SystemExit(number(code))

    def is_subtype(a, b):
        return matches(interpreter.as_type(a), interpreter.as_type(b), {})

    def typeof(value):
        found = type_of(value)
        return FAMILIES["DataType"].of() if isinstance(found, TypeOf) else found

    interpreter.define({
        "unsafe_load": system.load, "unsafe_store!": system.store, "unsafe_string": string_at,
        "unsafe_copyto!": system.copy, "sizeof": system.size_of, "finalizer": system.finalizer,
        "lock": system.locked, "isa": is_a, "typeof": typeof, "<:": is_subtype, "isbitstype": is_bits,
        "nameof": type_name, "fetch": system.fetch, "wait": system.wait, "run": None, "diff": None,
        "write": system.write, "isfile": os.path.isfile, "joinpath": os.path.join,
        "abspath": os.path.abspath, "exit": exit_process,
        "unsafe_convert": lambda kind, value: foreign.unsafe_convert(interpreter.as_type(kind), value),
        "cconvert": lambda kind, value: foreign.cconvert(interpreter.as_type(kind), value),
        "cglobal": lambda pair: foreign.address(pair[0]),
        "getfield": lambda value, name: value.fields[str(name)],
        "fieldnames": lambda kind: tuple(Symbol(field) for field in kind.family.fields),
        "fieldcount": lambda kind: len(kind.family.fields),
        "fieldoffset": lambda kind, i: layout(kind)[i - 1][1],
        "fieldtype": lambda kind, i: layout(kind)[i - 1][3],
        "time_ns": lambda: Num(INTS["UInt64"], time.monotonic_ns()),
        "sleep": lambda seconds: time.sleep(number(seconds)),
        "yield": lambda: time.sleep(0),
        "open": system_error(system.open),
        "close": lambda stream: stream.file.close(),
        "isopen": lambda stream: not stream.file.closed,
        "seek": lambda stream, n: stream.file.seek(number(n)) and None,
        "truncate": lambda stream, n: stream.file.truncate(number(n)) and None,
        "read": system_error(system.read),
        "rm": system_error(os.remove),
        "cp": system_error(lambda a, b, force: shutil.copyfile(a, b) and None),
        "mv": system_error(lambda a, b, force: os.replace(a, b)),
        "mktempdir": lambda f: temporary(lambda folder: interpreter.invoke(f, [folder], {})),
    })
