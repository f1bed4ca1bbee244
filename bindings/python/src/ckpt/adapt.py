"""Turns Python, numpy and torch objects into records and back: schemas/STATE_TREE.md section 5.

simplify() turns an object that a tree has no kind for into a Record, or a tensor into a Leaf. restore() makes the
object of a Record, or returns the Record if it cannot.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from .enums import Status
from .errors import Error, error_of
from .frameworks import MEMORY_FORMATS, FrameworkName, framework_name_of, loaded, memory_format_of
from .generators import generator_of, record_of
from .objects import is_object, record_of_object
from .regions import Regions, Shard
from .trees import Record, TreeSet, TreeWriter, place

# By class: the item that adds no segment to paths; schemas/STATE_TREE.md section 5 has the rule.
TRANSPARENT = {
    "collections.OrderedDict": "items",
    "collections.defaultdict": "entries",
    "builtins.dict": "items",
    "torch.nn.parameter.Parameter": "data",
    "torch.Tensor": "data",
    "torch.QTensor": "data",
    "numpy.ndarray": "data",
}


@dataclass(frozen=True)
class Leaf:
    """A tensor: an array, a Shard, or Regions."""

    data: Any


def odd_dict(value: dict[Any, Any]) -> Record:
    """A dict with keys that are neither text nor int64."""
    return Record("builtins.dict", {"items": list(value.items())})


def simplify(value: Any, path: tuple[str, ...]) -> Any:
    """What stands for the value in a tree; None if its type is unknown. `path` is its place, for errors."""
    kind = type(value)
    if kind in (set, frozenset):
        elements = _of_set(value, path)
        return elements if kind is set else Record("builtins.frozenset", {"items": elements})
    if kind is defaultdict:
        return _of_defaultdict(value, path)
    simple = _SIMPLE.get(kind)
    if simple is not None:
        return simple(value)
    found = _of_framework(value)
    return record_of_object(value) if found is None else found


def is_value(value: Any) -> bool:
    """Whether a load replaces the value instead of filling it."""
    kind = type(value)
    plain = kind in (bool, int, float, str, bytes, set, frozenset) or kind in _SIMPLE
    return plain or is_object(value) or _of_framework(value) is not None


def _of_framework(value: Any) -> Any:
    for module, function in (("torch", _of_torch), ("numpy", _of_numpy), ("jax", _of_jax), ("cupy", _of_cupy)):
        found = loaded(module)
        if found is not None and (known := function(found, value)) is not None:
            return known
    return None


class _ElementWriter(TreeWriter):
    """Writes an element of a set, which may not be a tensor."""

    def other(self, value: Any, path: tuple[str, ...]) -> None:
        simple = simplify(value, path)
        if simple is None or isinstance(simple, Leaf):
            super().other(value, path)
        else:
            self.write(simple, path)


def _of_set(value: Any, path: tuple[str, ...]) -> TreeSet:
    """The elements in the same order in every process: integers first, then by what is written."""
    def order(element: Any) -> tuple[int, int, str]:
        if type(element) is int:
            return 0, element, ""
        writer = _ElementWriter()
        writer.write(element, path)
        return 1, 0, writer.tree.json()

    return TreeSet(sorted(value, key=order))


_FACTORIES = {f"{kind.__module__}.{kind.__name__}": kind for kind in (
    bool, bytearray, bytes, complex, dict, float, frozenset, int, list, set, str, tuple, Counter, OrderedDict)}


def _of_defaultdict(value: defaultdict[Any, Any], path: tuple[str, ...]) -> Record:
    """As in a pickle: the arguments of the constructor, and the entries set afterwards."""
    items: dict[str, Any] = {}
    factory: Any = value.default_factory
    if factory is not None:
        name = f"{factory.__module__}.{factory.__name__}" if isinstance(factory, type) else ""
        if _FACTORIES.get(name) is not factory:
            raise TypeError(f"{place(path)}: a defaultdict whose default_factory is a {type(factory).__name__} "
                            f"({factory!r}) cannot be saved; {', '.join(sorted(_FACTORIES))} can")
        items["args"] = (Record("builtins.type", {"name": name}),)
    if value:
        items["entries"] = dict(value)
    return Record("collections.defaultdict", items)


def _of_ordered_dict(value: OrderedDict[Any, Any]) -> Record:
    attributes = dict(vars(value))
    items: dict[str, Any] = {"items": dict(value)}
    if "_metadata" in attributes:  # of a torch module's state_dict()
        items["metadata"] = attributes.pop("_metadata")
    if attributes:
        items["state"] = attributes
    return Record("collections.OrderedDict", items)


_SIMPLE: dict[type, Callable[[Any], Any]] = {
    Counter: lambda value: Record("collections.Counter", {"args": (dict(value),)}),
    bytearray: lambda value: Record("builtins.bytearray", {"value": bytes(value)}),
    complex: lambda value: Record("builtins.complex", {"args": (value.real, value.imag)}),
    OrderedDict: _of_ordered_dict,
    Shard: Leaf,
    Regions: Leaf,
    Leaf: lambda value: value,
}


def _of_numpy(numpy: Any, value: Any) -> Any:
    if type(value) is numpy.ndarray:
        return Leaf(value)
    kind = value.dtype.kind if isinstance(value, numpy.generic) else ""
    name = f"numpy.{value.dtype.name}" if kind else ""
    if kind == "b":
        return Record("numpy.bool_", {"value": bool(value)})
    if kind in tuple("iu"):
        return Record(name, {"value": int(value)})
    if kind == "f" and value.dtype.itemsize <= 8:
        return Record(name, {"value": float(value)})
    if kind == "c" and value.dtype.itemsize <= 16:
        return Record(name, {"value": complex(value)})
    return record_of(value)


def _of_jax(jax: Any, value: Any) -> Any:
    return Leaf(value) if isinstance(value, jax.Array) else None


def _of_cupy(cupy: Any, value: Any) -> Any:
    return Leaf(value) if isinstance(value, cupy.ndarray) else None


def _of_torch(torch: Any, value: Any) -> Any:
    kind = type(value)
    if kind is torch.nn.Parameter:
        items = {"data": value.detach(), "requires_grad": value.requires_grad}
        if vars(value):
            items["state"] = dict(vars(value))
        return Record("torch.nn.parameter.Parameter", items)
    if kind is torch.Tensor:
        return _of_tensor(torch, value)
    if isinstance(value, torch.Tensor):
        return _of_subclass(value)
    if kind is torch.Size:
        return Record("torch.Size", {"items": tuple(value)})
    if kind is torch.device:
        return Record("torch.device", {"type": value.type} | ({} if value.index is None else {"index": value.index}))
    if kind is torch.dtype:
        return Record("torch.dtype", {"name": str(value)})
    if kind is torch.layout:
        return Record("torch.layout", {"name": str(value)})
    return None


def _of_subclass(tensor: Any) -> Any:
    """A tensor that is spread over ranks; or one that wraps others and says which (torchao), as a record of these."""
    from .torch.dtensor import regions_of
    regions = regions_of(tensor)
    if regions is not None:
        return Leaf(regions)
    items = parts_of(tensor)
    return None if items is None else Record(f"{type(tensor).__module__}.{type(tensor).__qualname__}", items)


def regions_of(like: Any) -> tuple[Shard, ...] | None:
    """The regions of a tensor that a Shard or a tensor spread over ranks stands for; None for anything else."""
    if isinstance(like, Shard):
        return (like,)
    regions: Regions | None = like if isinstance(like, Regions) else None
    torch = loaded("torch")
    if torch is not None and isinstance(like, torch.Tensor) and type(like) not in (torch.Tensor, torch.nn.Parameter):
        from .torch.dtensor import regions_of as find
        regions = find(like)
    return None if regions is None else regions.shards


def parts_of(tensor: Any) -> dict[str, Any] | None:
    """The tensors that a tensor subclass wraps, by the names of its attributes; None for any other value."""
    flatten = getattr(type(tensor), "__tensor_flatten__", None)
    return None if flatten is None else {name: getattr(tensor, name) for name in flatten(tensor)[0]}


def parts_for(like: Any, class_name: str) -> dict[str, Any] | None:
    """Its parts, to be filled from the record of a tensor of its class."""
    parts, name = parts_of(like), f"{type(like).__module__}.{type(like).__qualname__}"
    if parts is not None and class_name != name:
        raise _does_not_fit(f"a {name}", class_name)
    return parts


_COMPRESSED = {
    "csr": ("crow_indices", "col_indices"),
    "bsr": ("crow_indices", "col_indices"),
    "csc": ("ccol_indices", "row_indices"),
    "bsc": ("ccol_indices", "row_indices"),
}


def _of_tensor(torch: Any, tensor: Any) -> Any:
    plain = tensor.detach()
    layout = str(tensor.layout).removeprefix("torch.sparse_")
    if tensor.layout == torch.sparse_coo:
        return Record("torch.sparse_coo", {"indices": plain._indices(), "values": plain._values(),
                                           "size": tuple(tensor.shape), "is_coalesced": tensor.is_coalesced()})
    if layout in _COMPRESSED:
        parts = {key: getattr(plain, key)() for key in _COMPRESSED[layout]}
        return Record(f"torch.sparse_{layout}", {**parts, "values": plain.values(), "size": tuple(tensor.shape)})
    if tensor.is_quantized:
        return _of_quantized(plain)
    if tensor.layout != torch.strided:
        return None
    more: dict[str, Any] = {"requires_grad": tensor.requires_grad, "conj": tensor.is_conj(), "neg": tensor.is_neg()}
    memory_format = memory_format_of(torch, plain)
    plain = without_marks(plain)
    integer = _integer_of(plain)
    if integer is not None:
        more["dtype"] = str(plain.dtype)
        plain = plain.view(getattr(torch, integer))
    if memory_format is not None:
        more["memory_format"] = memory_format
    more = {key: value for key, value in more.items() if value}
    return Record("torch.Tensor", {"data": Leaf(plain), **more}) if more else Leaf(plain)


# Dtypes that are torch's only, and the integers as which their elements are stored.
_AS_INTEGERS = {"torch.bits8": "uint8", "torch.bits16": "uint16", "torch.bits1x8": "uint8", "torch.bits2x4": "uint8",
                "torch.bits4x2": "uint8", "torch.bcomplex32": "uint32", "torch.float4_e2m1fn_x2": "uint8"}


def _integer_of(tensor: Any) -> str | None:
    """The integer as which the tensor's elements are stored; None if they have a dtype of ours."""
    name = str(tensor.dtype)
    if name == "torch.float4_e2m1fn_x2" and tensor.ndim and tensor.is_contiguous():
        return None  # two elements of four bits each, which lie in a row
    return _AS_INTEGERS.get(name)


_QUANTIZED = ("torch.qint8", "torch.quint8", "torch.qint32")


def _of_quantized(tensor: Any) -> Record | None:
    """The stored integers and how they are read; None for other kinds than those of STATE_TREE.md."""
    items = {"data": tensor.int_repr(), "dtype": str(tensor.dtype), "qscheme": str(tensor.qscheme())}
    if items["dtype"] not in _QUANTIZED:
        return None
    if items["qscheme"] == "torch.per_tensor_affine":
        return Record("torch.QTensor", {**items, "scale": tensor.q_scale(), "zero_point": tensor.q_zero_point()})
    if items["qscheme"] == "torch.per_channel_affine":
        more = {"scales": tensor.q_per_channel_scales(), "zero_points": tensor.q_per_channel_zero_points()}
        return Record("torch.QTensor", {**items, **more, "axis": tensor.q_per_channel_axis()})
    return None


def is_quantized(value: Any) -> bool:
    """Whether it is a quantized tensor of torch: its memory cannot be filled, only copied to."""
    torch = loaded("torch")
    return torch is not None and isinstance(value, torch.Tensor) and bool(value.is_quantized)


def fill_quantized(like: Any, record: Any) -> Any:
    """Copies what the record of a quantized tensor makes to one of the same kind."""
    made = restore(record, "torch") if type(record) is Record else record
    if not is_quantized(made) or (made.dtype, made.qscheme(), made.shape) != (like.dtype, like.qscheme(), like.shape):
        found = f"{made.dtype} of shape {tuple(made.shape)}" if isinstance(made, type(like)) else type(made).__name__
        raise _does_not_fit(f"a {like.dtype} of shape {tuple(like.shape)}, {like.qscheme()}", found)
    return like.copy_(made)


def _does_not_fit(expected: str, found: str) -> Error:
    return error_of(Status.MISMATCH, f"into has {expected}, and the saved {found} does not fit",
                    {"expected": expected, "found": found})


# ---- torch's marks: a tensor may say that its numbers are to be conjugated or negated when they are read ----

Marks: TypeAlias = tuple[bool, bool]  # conj, neg


def marks_of(array: Any) -> Marks:
    """Which marks the array has."""
    torch = loaded("torch")
    return (array.is_conj(), array.is_neg()) if torch is not None and isinstance(array, torch.Tensor) else (False,) * 2


def without_marks(array: Any) -> Any:
    """A view of the same memory, without marks."""
    return _turned(array, marks_of(array))


def _turned(tensor: Any, marks: Marks) -> Any:
    """A view of the same memory, with these marks flipped."""
    tensor = tensor.conj() if marks[0] else tensor
    return loaded("torch")._neg_view(tensor) if marks[1] else tensor


def stand_in(array: Any) -> Any:
    """New memory of the array's shape and dtype."""
    module = loaded("torch" if framework_name_of(array) == "torch" else "numpy")
    return module.empty(tuple(array.shape), dtype=array.dtype)


def put(array: Any, data: Any, marks: Marks) -> None:
    """Copies into the array the values that `data` (its stand_in) has under these marks."""
    if framework_name_of(array) == "torch":
        own = marks_of(array)
        data = _turned(data, (marks[0] != own[0], False)).resolve_conj()  # singly: torch lacks both for complex32
        data = _turned(data, (False, marks[1] != own[1])).resolve_neg()
        without_marks(array.detach()).copy_(data)
        return
    numpy = loaded("numpy")
    data = numpy.conjugate(data) if marks[0] else data
    array[...] = numpy.negative(data) if marks[1] else data


# ---- from records to objects ----


def restore(record: Record, framework: FrameworkName) -> Any:
    """The object of the record; the record itself if its class is unknown here or its items do not fit."""
    try:
        if (make := _MAKERS.get(record.class_name)) is not None:
            return make(record.items)
        family, _, name = record.class_name.partition(".")
        if family == "numpy":
            return generator_of(record) if name.startswith("random.") else _numpy_of(name, record)
        if family == "torch" and framework == "torch":
            return _torch_of(name, record)
        if name == "Tensor" and set(record.items) == {"data", "memory_format"}:
            return record.items["data"]  # numpy needs no record to hold its numbers
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, ImportError, RuntimeError):
        pass  # RuntimeError: torch raises it for sparse indices that are out of range
    return record


def _ordered_dict(items: dict[str, Any]) -> OrderedDict[Any, Any]:
    out = OrderedDict(items["items"])
    if "metadata" in items:
        out._metadata = items["metadata"]  # type: ignore[attr-defined]
    vars(out).update(items.get("state", {}))
    return out


def _expect(value: Any, *kinds: type) -> Any:
    """The value if it has one of these types; another could make a wrong object, or a huge one."""
    if type(value) not in kinds:
        raise TypeError
    return value


def _defaultdict(items: dict[str, Any]) -> defaultdict[Any, Any]:
    args = items.get("args", ())
    factory = _FACTORIES[_expect(args[0], Record).items["name"]] if args else None
    return defaultdict(factory, _expect(items.get("entries", {}), dict))


_MAKERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "builtins.frozenset": lambda items: frozenset(items["items"]),
    "builtins.bytearray": lambda items: bytearray(_expect(items["value"], bytes)),
    "builtins.complex": lambda items: complex(*items["args"]),
    "builtins.dict": lambda items: dict(items["items"]),
    "collections.OrderedDict": _ordered_dict,
    "collections.Counter": lambda items: Counter(_expect(items["args"][0], dict)),
    "collections.defaultdict": _defaultdict,
}
_NUMPY_SCALARS = ("bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
                  "complex128").split()


def _numpy_of(name: str, record: Record) -> Any:
    import numpy
    if name == "ndarray":
        data = record.items["data"]
        return numpy.asfortranarray(data) if record.items.get("order") == "F" else data
    if name not in _NUMPY_SCALARS:
        return record
    return getattr(numpy, name)(_expect(record.items["value"], bool, int, float, complex))


def _torch_of(name: str, record: Record) -> Any:
    import torch
    items = record.items
    if name == "nn.parameter.Parameter":
        made = torch.nn.Parameter(items["data"], requires_grad=items["requires_grad"])
        vars(made).update(items.get("state", {}))
        return made
    if name == "Tensor":
        return _tensor_of(record)
    if name == "QTensor":
        return _quantized_of(torch, record)
    if name == "Size":
        return torch.Size(items["items"])
    if name == "device":
        return torch.device(items["type"], items["index"]) if "index" in items else torch.device(items["type"])
    if name in ("dtype", "layout"):
        found = getattr(torch, items["name"].removeprefix("torch."))
        return found if type(found) is getattr(torch, name) else record
    if name == "sparse_coo":
        return torch.sparse_coo_tensor(items["indices"], items["values"], tuple(items["size"]),
                                       is_coalesced=items.get("is_coalesced", False), check_invariants=True)
    if name.removeprefix("sparse_") in _COMPRESSED:
        outer, inner = _COMPRESSED[name.removeprefix("sparse_")]
        return torch.sparse_compressed_tensor(items[outer], items[inner], items["values"], tuple(items["size"]),
                                              layout=getattr(torch, name), check_invariants=True)
    return record


def _tensor_of(record: Record) -> Any:
    items = record.items
    data = items["data"]
    if (name := items.get("dtype")) is not None:
        if f"torch.{_AS_INTEGERS[name]}" != str(data.dtype):
            return record
        data = data.view(getattr(loaded("torch"), name.removeprefix("torch.")))
    if items.get("memory_format") in MEMORY_FORMATS.values():  # it was made so, unless it is a view
        data = data.contiguous(memory_format=getattr(loaded("torch"), items["memory_format"].removeprefix("torch.")))
    tensor = _turned(data, (bool(items.get("conj")), bool(items.get("neg"))))
    return tensor.requires_grad_() if items.get("requires_grad") else tensor


def _quantized_of(torch: Any, record: Record) -> Any:
    items = record.items
    if items["qscheme"] == "torch.per_tensor_affine":
        made = torch._make_per_tensor_quantized_tensor(items["data"], items["scale"], items["zero_point"])
    else:
        made = torch._make_per_channel_quantized_tensor(items["data"], items["scales"], items["zero_points"],
                                                        items["axis"])
    return made if str(made.dtype) == items["dtype"] and str(made.qscheme()) == items["qscheme"] else record
