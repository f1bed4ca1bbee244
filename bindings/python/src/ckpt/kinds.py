"""What a state may hold beside containers, plain values and arrays: one table, by the class of the record that it is
saved as (schemas/STATE_TREE.md section 5). A new kind is one row.

A value without a way of its own is saved as what its pickle says: what makes it, from what, and what it gets then. So
`ckpt import` of a .pt file makes the same record. Loading makes only what has a row here: no other class is looked up.
"""

from __future__ import annotations

import array
import copyreg
import datetime
import re
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType
from typing import Any

from .frameworks import loaded
from .generators import generator_of
from .generators import record_of as record_of_generator
from .trees import Record

Items = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A row: how a value is made of a record's items (None: nobody makes it), and its items of a value."""

    make: Callable[[Items], Any] | None
    items: Callable[[Any], Items] | None = None  # None: what its pickle says


def class_name(kind: Any) -> str:
    """The class or function as records name it, whatever version of Python, numpy or torch it is of."""
    module = kind.__module__ or getattr(getattr(kind, "__self__", None), "__module__", None) or ""
    name = f"{module}.{kind.__qualname__}"
    return name.replace("pathlib._local.", "pathlib.")


def expect(value: Any, *kinds: type) -> Any:
    """The value if it has one of these types; another could make a wrong object, or a huge one."""
    if type(value) not in kinds:
        raise TypeError
    return value


FUNCTIONS = (FunctionType, BuiltinFunctionType)


# ---- what a pickle says ----


def pickled(value: Any) -> tuple[Any, bool, Items] | None:
    """What makes the value, whether that is the class's __new__, and the items of its record; None if no pickle could
    hold it. Protocol 2 is torch.save's; it forgets the `fold` of a time."""
    reduce = copyreg.dispatch_table.get(type(value))
    protocol = 4 if isinstance(value, (datetime.datetime, datetime.time)) else 2
    try:
        said = reduce(value) if reduce is not None else value.__reduce_ex__(protocol)
    except TypeError:
        return None
    if not isinstance(said, tuple):
        return None
    maker, args, state, more, entries = (*said, None, None, None)[:5]
    new = maker in (copyreg.__newobj__, copyreg.__newobj_ex__)  # type: ignore[attr-defined]
    kwargs = args[2] if new and maker is not copyreg.__newobj__ else {}  # type: ignore[attr-defined]
    if new:
        maker, args = args[0], args[1] if maker is not copyreg.__newobj__ else args[1:]  # type: ignore[attr-defined]
    if isinstance(value, (set, frozenset)):
        args = (set(value),)  # which is written in an order that all processes agree on
    found = {"args": args, "kwargs": kwargs, "items": list(more or ()), "entries": dict(entries or ())}
    items = {key: item for key, item in found.items() if item}
    return maker, new, items if state is None else {**items, "state": state}


def made_like(like: Any, items: Items) -> Any:
    """A new object of what makes `like`, from the items of a record of its class."""
    told = pickled(like)
    if told is None:
        raise TypeError("no pickle could hold it")
    maker, new, _ = told
    args, kwargs = items.get("args", ()), items.get("kwargs", {})
    made = maker.__new__(maker, *args, **kwargs) if new else maker(*args, **kwargs)
    if "items" in items:
        made.extend(items["items"])
    for key, value in items.get("entries", {}).items():
        made[key] = value
    if "state" in items:
        set_state(made, items["state"])
    return made


def set_state(made: Any, state: Any) -> None:
    """As a pickle sets it: by its own method, or its attributes."""
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return
    plain, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if plain:
        vars(made).update(plain)
    for name, value in (slots or {}).items():
        setattr(made, name, value)


def _items(value: Any) -> Items:
    told = pickled(value)
    if told is None:
        raise TypeError
    return told[2]


# ---- Python ----


def _of(module: str, name: str, *kinds: type) -> Kind:
    """A class of the standard library that is called with `args`, each of one of these types, if any are said."""
    def make(items: Items) -> Any:
        import importlib
        args = items.get("args", ())
        if set(items) - {"args"}:
            raise ValueError
        return getattr(importlib.import_module(module), name)(*(expect(arg, *kinds) if kinds else arg for arg in args))
    return Kind(make)


def _of_state(module: str, name: str) -> Kind:
    """A class whose objects are their attributes."""
    def make(items: Items) -> Any:
        import importlib
        made = getattr(importlib.import_module(module), name)()
        vars(made).update(_names(items.get("state", {})))
        return made
    return Kind(make)


def _names(state: Any) -> dict[str, Any]:
    if not all(type(name) is str for name in expect(state, dict)):
        raise TypeError
    return dict(state)


def _ordered_items(value: OrderedDict[Any, Any]) -> Items:
    attributes, items = dict(vars(value)), {"items": dict(value)}
    if "_metadata" in attributes:  # of a torch module's state_dict()
        items["metadata"] = attributes.pop("_metadata")
    return {**items, "state": attributes} if attributes else items


def _ordered_dict(items: Items) -> OrderedDict[Any, Any]:
    out = OrderedDict(items["items"])
    if "metadata" in items:
        out._metadata = items["metadata"]  # type: ignore[attr-defined]
    vars(out).update(items.get("state", {}))
    return out


_TYPES = {f"builtins.{kind.__name__}": kind for kind in (
    bool, bytearray, bytes, complex, dict, float, frozenset, int, list, object, set, str, tuple, type(None))} | {
    "collections.Counter": Counter, "collections.OrderedDict": OrderedDict, "collections.defaultdict": defaultdict,
    "builtins.Ellipsis": ...}


def _named(items: Items) -> Any:
    """A class, function or constant that is a value. Only what can do no harm is made of its name."""
    name = expect(items["name"], str)
    if name in _TYPES:
        return _TYPES[name]
    family, _, last = name.partition(".")
    module = loaded(family)
    found = getattr(module, last) if family in ("numpy", "torch") and module is not None else None
    if family == "numpy" and isinstance(found, type) and issubclass(found, module.generic):
        return found
    if family == "torch" and type(found) in (module.memory_format, module.qscheme, module.dtype):
        return found
    raise LookupError(name)


def _name_items(value: Any) -> Items:
    return {"name": "builtins.Ellipsis" if value is ... else class_name(value)}


def _default_items(value: defaultdict[Any, Any]) -> Items:
    """As in a pickle: the arguments of the constructor, and the entries set afterwards."""
    factory: Any = value.default_factory
    items: Items = {} if factory is None else {"args": (factory,)}
    return {**items, "entries": dict(value)} if value else items


def _defaultdict(items: Items) -> defaultdict[Any, Any]:
    (factory,) = items.get("args", (None,))
    if factory is not None and factory not in _TYPES.values():
        raise LookupError
    return defaultdict(factory, expect(items.get("entries", {}), dict))


def _deque(items: Items) -> deque[Any]:
    if set(items) - {"args", "items"} or any(type(arg) not in (tuple, list, int) for arg in items.get("args", ())):
        raise TypeError
    made: deque[Any] = deque(*items.get("args", ()))
    made.extend(expect(items.get("items", []), list))
    return made


def _fraction(items: Items) -> Any:
    from fractions import Fraction
    args = items["args"]
    if any(type(arg) is not int for arg in args) and not re.fullmatch(r"-?\d+(/\d+)?", expect(*args, str)):
        raise ValueError  # "1e999999999" would take for ever
    return Fraction(*args)


def _uuid(items: Items) -> Any:
    from uuid import UUID
    return UUID(int=items["state"]["int"])


def _random(items: Items) -> Any:
    import random
    made = random.Random()
    made.setstate(items["state"])
    return made


def _pattern(items: Items) -> Any:
    text, flags = items["args"]
    return re.compile(expect(text, str, bytes), expect(flags, int))


def _zone(items: Items) -> Any:
    from zoneinfo import ZoneInfo
    return ZoneInfo(expect(items["args"][0], str))


_PYTHON = {
    "builtins.bytearray": Kind(lambda items: bytearray(expect(items["value"], bytes)),
                               lambda value: {"value": bytes(value)}),
    "builtins.complex": Kind(lambda items: complex(*items["args"]), lambda value: {"args": (value.real, value.imag)}),
    "builtins.dict": Kind(lambda items: dict(items["items"]), lambda value: {"items": list(value.items())}),
    "builtins.frozenset": Kind(lambda items: frozenset(items["items"]), lambda value: {"items": set(value)}),
    "builtins.range": _of("builtins", "range", int),
    "builtins.slice": _of("builtins", "slice"),
    "builtins.str": Kind(lambda items: str(*items["args"])),  # text that is no UTF-8
    "builtins.type": Kind(_named, _name_items),
    "argparse.Namespace": _of_state("argparse", "Namespace"),
    "array.array": Kind(lambda items: array.array(*expect(items["args"], tuple))),
    "collections.ChainMap": _of_state("collections", "ChainMap"),
    "collections.Counter": Kind(lambda items: Counter(expect(items["args"][0], dict)),
                                lambda value: {"args": (dict(value),)}),
    "collections.OrderedDict": Kind(_ordered_dict, _ordered_items),
    "collections.UserDict": _of_state("collections", "UserDict"),
    "collections.UserList": _of_state("collections", "UserList"),
    "collections.defaultdict": Kind(_defaultdict, _default_items),
    "collections.deque": Kind(_deque),
    "datetime.date": _of("datetime", "date"),
    "datetime.datetime": _of("datetime", "datetime"),
    "datetime.time": _of("datetime", "time"),
    "datetime.timedelta": _of("datetime", "timedelta"),
    "datetime.timezone": _of("datetime", "timezone"),
    "decimal.Decimal": _of("decimal", "Decimal", str),
    "fractions.Fraction": Kind(_fraction),
    **{f"pathlib.{name}": _of("pathlib", name, str) for name in (
        "PosixPath", "PurePosixPath", "PureWindowsPath", "WindowsPath")},
    "random.Random": Kind(_random),
    "re._compile": Kind(_pattern),
    "types.SimpleNamespace": _of_state("types", "SimpleNamespace"),
    "uuid.UUID": Kind(_uuid),
    "zoneinfo.ZoneInfo._unpickle": Kind(_zone),
}

# ---- numpy ----

_SCALARS = ("bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
            "complex128").split()


def _scalar(name: str) -> Kind:
    def make(items: Items) -> Any:
        import numpy
        return getattr(numpy, name)(expect(items["value"], bool, int, float, complex))
    return Kind(make, lambda value: {"value": value.item()})


def _dtype(items: Items) -> Any:
    """Of numbers, dates and text in the machine's order of bytes or the other: never of Python's objects."""
    import numpy
    made = numpy.dtype(expect(items["args"][0], str))
    _, order, *rest = items.get("state", (3, "="))
    if made.kind not in "biufcSUVmM" or made.hasobject or made.names:
        raise TypeError
    if rest and rest[:2] != [None, None]:
        return _dtype_of_others(*rest[:6])
    if made.kind in "mM":
        unit, count, *_ = rest[-1][1]
        made = numpy.dtype(f"{made.kind}8[{count}{expect(unit, bytes).decode()}]")
    elif made.kind in "SUV":
        made = numpy.dtype(f"{made.kind}{int(rest[3]) // (4 if made.kind == 'U' else 1)}")
    return made.newbyteorder(order) if order in "<>" else made


def _dtype_of_others(sub: Any, names: Any, fields: Any, size: int, alignment: int, flags: int) -> Any:
    """Of arrays of one dtype, or of fields, each of a dtype, at an offset, maybe with a title."""
    import numpy
    if sub:
        made = numpy.dtype((sub[0], expect(sub[1], tuple)))
    else:
        inside = [fields[name] for name in names]
        made = numpy.dtype({"names": names, "formats": [found[0] for found in inside], "itemsize": size,
                            "offsets": [found[1] for found in inside],
                            "titles": [found[2] if len(found) > 2 else None for found in inside]},
                           align=bool(flags & 128))
    if made.hasobject or made.itemsize != size:
        raise TypeError
    return made


def _numpy_scalar(items: Items) -> Any:
    import numpy
    dtype, data = items["args"]
    if not isinstance(dtype, numpy.dtype) or len(expect(data, bytes)) != dtype.itemsize:
        raise TypeError
    return numpy.frombuffer(data, dtype)[0] if dtype.itemsize else dtype.type()


def _rebuilt_array(items: Items) -> Any:
    """What numpy's pickles say of an array whose dtype has no tensor of ckpt's."""
    import numpy
    _, shape, dtype, columns, data = items["state"]
    if items["args"][0] != Record("builtins.type", {"name": "numpy.ndarray"}) or not isinstance(dtype, numpy.dtype):
        raise TypeError
    flat = numpy.frombuffer(expect(data, bytes), dtype) if dtype.itemsize else numpy.zeros(shape, dtype)
    return flat.reshape(shape, order="F" if columns else "C").copy(order="K")


def bytes_of(array: Any) -> Any:
    """A view of an array's elements as bytes, in one more dimension."""
    import numpy
    return array.view(numpy.dtype([("", "u1", (array.dtype.itemsize,))]))["f0"]


def is_plain(dtype: Any) -> bool:
    """Whether ckpt has tensors of the dtype."""
    if dtype.isbuiltin == 2:
        return bool(dtype.name == "bfloat16" or dtype.name.startswith("float8_"))
    return bool(dtype.kind in "biufc" and dtype.isnative and dtype.itemsize <= (16 if dtype.kind == "c" else 8))


def described(dtype: Any) -> Any:
    """A dtype that ckpt has no tensors of, as text or the list of its fields; None if its arrays cannot be saved."""
    import numpy
    if dtype.isbuiltin == 2:  # of ml_dtypes, in a byte each
        return dtype.name if dtype.itemsize == 1 else None
    if dtype.hasobject or dtype.kind == "T" or not dtype.itemsize:
        return None
    return numpy.lib.format.dtype_to_descr(dtype)


def is_packed(said: Any) -> bool:
    """Whether described() says a dtype of ml_dtypes."""
    return isinstance(said, str) and said[:1] not in "<>|"


def _dtype_described(said: Any) -> Any:
    import numpy
    if is_packed(said):
        import ml_dtypes
        return numpy.dtype(getattr(ml_dtypes, said))
    made = numpy.lib.format.descr_to_dtype(said)
    if made.hasobject:
        raise TypeError
    return made


def _array(items: Items) -> Any:
    import numpy
    data = items["data"]
    if "dtype" in items:
        dtype = _dtype_described(items["dtype"])
        if data.dtype != "u1" or data.shape[-1:] != (dtype.itemsize,):
            raise ValueError
        return numpy.ascontiguousarray(data).view(dtype)[..., 0]
    return numpy.asfortranarray(data) if items.get("order") == "F" else data


_NUMPY = {
    **{f"numpy.{name}": _scalar(name) for name in _SCALARS},
    "numpy.ndarray": Kind(_array),
    "numpy.dtype": Kind(_dtype),
    **{f"numpy.{core}.multiarray.scalar": Kind(_numpy_scalar) for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray._reconstruct": Kind(_rebuilt_array) for core in ("core", "_core")},
}


# ---- torch and jax ----


def _torch_generator_items(value: Any) -> Items:
    offset = None if value.device.type == "cpu" else value.get_offset()
    return {"args": (value.device,), "state": (value.initial_seed(), offset, value.get_state())}


def _torch_generator(items: Items) -> Any:
    torch = loaded("torch")
    made = torch.Generator(*items["args"])
    made.set_state(torch.as_tensor(items["state"][2]))
    return made


def _torch_version(items: Items) -> Any:
    return loaded("torch").torch_version.TorchVersion(expect(items["args"][0], str))


def _key_items(value: Any) -> Items:
    import jax
    return {"data": jax.random.key_data(value), "impl": str(jax.random.key_impl(value))}


def _key(items: Items) -> Any:
    jax = loaded("jax")
    return jax.random.wrap_key_data(jax.numpy.asarray(items["data"]), impl=expect(items["impl"], str))


_ML_SCALARS = ("bfloat16 float8_e4m3fn float8_e5m2 float4_e2m1fn float6_e2m3fn float6_e3m2fn int2 int4 uint2 uint4"
               ).split()


def _ml_scalar(name: str) -> Kind:
    def make(items: Items) -> Any:
        import ml_dtypes
        return getattr(ml_dtypes, name)(expect(items["value"], float, int))
    return Kind(make, lambda value: {"value": float(value)})


KINDS = _PYTHON | _NUMPY | {f"ml_dtypes.{name}": _ml_scalar(name) for name in _ML_SCALARS} | {
    "torch._C.Generator": Kind(_torch_generator, _torch_generator_items),
    "torch.torch_version.TorchVersion": Kind(_torch_version),
    "jax.random.key": Kind(_key, _key_items),
}

_BASES = (dict, list, tuple, str, int, float, bytes, set)
# Beside what has a row: of these classes and their subclasses, too, a record is what their pickles say.
_PICKLED = {f"builtins.{base.__name__}" for base in _BASES} | {
    "re.Pattern", "zoneinfo.ZoneInfo", "numpy.datetime64", "numpy.timedelta64", "numpy.longdouble", "numpy.clongdouble"}


def record_of(value: Any) -> Record | None:
    """The record of a value, tensors in it not yet taken; None if it is of no kind that is known, and is not made by
    a class of its own (functools.partial, an object with attributes)."""
    kind, numpy = type(value), loaded("numpy")
    if kind in _BASES or kind is bool or value is None:
        return None
    if kind in FUNCTIONS or isinstance(value, type) or value is ...:
        return Record("builtins.type", _name_items(value)) if _is_importable(value) else None
    name = class_name(kind)
    if numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind in "biufc":
        name = f"numpy.{value.dtype.name}"  # of "numpy.longlong", too
    name = "numpy.bool_" if name == "numpy.bool" else name
    row = KINDS.get(name)
    if row is not None and row.items is not None:
        return Record(name, row.items(value))
    if (found := record_of_generator(value)) is not None:
        return found
    names = {class_name(base) for base in kind.__mro__}
    if kind is object or hasattr(value, "__next__") or names & {"numpy.ndarray", "torch.Tensor"} or (
            kind.__module__.partition(".")[0] in ("ckpt", "jax", "jaxlib")):
        return None  # arrays, and what stands for others in a state
    told = pickled(value)
    if told is None or not (names & _PICKLED or names & KINDS.keys() or told[0] is kind and _is_importable(kind)):
        return None
    return Record(class_name(told[0]), told[2])


def _is_importable(value: Any) -> bool:
    """Whether its name leads to it."""
    if value is type(None):
        return True
    found: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    for part in getattr(value, "__qualname__", "").split("."):
        found = getattr(found, part, None)
    return found is value or value is ...


def make(record: Record) -> Any:
    """The value of a record; the record itself if nobody here makes one of its class."""
    row = KINDS.get(record.class_name)
    if row is None or row.make is None:
        return generator_of(record) if record.class_name.startswith("numpy.random.") else record
    return row.make(record.items)
