"""Turns Python, numpy and torch objects into records and back: schemas/STATE_TREE.md section 5.

simplify() turns an object that a tree has no kind for into a Record, or a tensor into a Leaf. restore() makes the
object of a Record, or returns the Record if it cannot.
"""

from __future__ import annotations

import copy
import io
import random
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from ._core import Memory
from .enums import Status
from .errors import Error, UnsupportedError, error_of
from .frameworks import MEMORY_FORMATS, FrameworkName, framework_name_of, is_key, loaded, memory_format_of
from .kinds import FUNCTIONS, KINDS, bytes_of, class_name, described, is_plain, make
from .objects import record_of_object
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


def odd_dict(value: dict[Any, Any], path: tuple[str, ...]) -> Record:
    """A dict with keys that are neither text nor int64."""
    for key in value:
        written(key, path)
    return Record("builtins.dict", {"items": list(value.items())})


def simplify(value: Any, path: tuple[str, ...]) -> Any:
    """What stands for the value in a tree; None if its type is unknown. `path` is its place, for errors."""
    kind = type(value)
    if kind is set:
        return _of_set(value, path)
    if kind in (Shard, Regions):
        return Leaf(value)
    if isinstance(value, random.SystemRandom):
        return None
    if kind is Leaf:
        return value
    found = _of_framework(value)
    return record_of_object(value) if found is None else found


def is_value(value: Any) -> bool:
    """Whether a load replaces the value instead of filling it."""
    plain = type(value) in (bool, int, float, str, bytes, set, frozenset, Shard, Regions, Leaf)
    return plain or _of_framework(value) is not None or record_of_object(value) is not None


def _of_framework(value: Any) -> Any:
    for module, function in (("torch", _of_torch), ("numpy", _of_numpy), ("jax", _of_jax), ("cupy", _of_cupy)):
        found = loaded(module)
        if found is not None and (known := function(found, value)) is not None:
            return known
    return None


def way_out(value: Any) -> str:
    """What the caller may do about a value that simplify() does not know."""
    numpy, torch = loaded("numpy"), loaded("torch")
    if isinstance(value, FUNCTIONS):
        return "a function that no module has under its name (a lambda, or one inside of another); leave it out"
    if numpy is not None and isinstance(value, numpy.ma.MaskedArray):
        return "give its .data and its .mask"
    if numpy is not None and isinstance(value, numpy.ndarray):
        plain = type(value) is numpy.ndarray
        return f"elements of dtype {value.dtype}; give a list (.tolist())" if plain else "give numpy.asarray(…) of it"
    if torch is not None and isinstance(value, torch.Tensor):
        return "give a plain tensor, such as its .detach().clone() or .to_dense()"
    if isinstance(value, io.IOBase):
        return "an open file; give its bytes (.read(), .getvalue()), or its position (.tell())"
    if isinstance(value, memoryview) or type(type(value)).__module__ == "_ctypes":
        return "memory without a name; give bytes() or numpy.asarray() of it"
    if isinstance(value, random.SystemRandom):
        return "it draws from the system and has no state; leave it out"
    if hasattr(value, "__next__"):
        return "an iterator; give what is left of it as a list, or its position"
    return ("give its numbers, text and arrays (a dict, a dataclass), or give it state_dict() and load_state_dict(), "
            "or leave it out")


def memory(data: Any, writable: bool = False) -> Memory:
    """Where an array's numbers lie. UNSUPPORTED, with a way out, for one whose do not lie in a memory of its own."""
    try:
        return Memory.of(data, writable=writable)
    except UnsupportedError as error:
        torch, why = loaded("torch"), ""
        if torch is not None and isinstance(data, torch.Tensor) and data.is_nested:
            why = "a nested tensor: give its parts, a list (.unbind()), or one of layout=torch.jagged"
        elif torch is not None and isinstance(data, torch.Tensor) and _is_wrapped(torch, data):
            why = "a tensor inside of torch.func (vmap, grad), without memory of its own: do it outside of that"
        elif "stride" in error.message:
            why = f"{error.message}; give numpy.ascontiguousarray(…) of it"
        raise error_of(error.status, why, error.details) if why else error from None


def _is_wrapped(torch: Any, tensor: Any) -> bool:
    """Whether torch.func has it. What says so is no public function of torch."""
    ask = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", None)
    return ask is not None and bool(ask(tensor))


def written(value: Any, path: tuple[str, ...] = ()) -> str:
    """The text of the tree of an element of a set or key of a dict."""
    writer = _ElementWriter()
    writer.write(value, path)
    return writer.tree.json()


class _ElementWriter(TreeWriter):
    """Writes an element of a set, or a key of a dict: what a load can make again, so that the two are equal. No
    tensors, and no objects that equal only themselves."""

    def way_out(self, value: Any) -> str:
        if simplify(value, ()) is None:
            return way_out(value)
        return "as a key of a dict, or in a set, it equals only itself, and what is loaded would not; give its name"

    def other(self, value: Any, path: tuple[str, ...]) -> None:
        simple, kind = simplify(value, path), cast(Any, type(value))
        if simple is None or isinstance(simple, Leaf) or (
                kind.__eq__ is object.__eq__ and copy.copy(value) is not value):
            super().other(value, path)
        else:
            self.write(simple, path)


def _of_set(value: Any, path: tuple[str, ...]) -> TreeSet:
    """The elements in the same order in every process: integers first, then by what is written."""
    def order(element: Any) -> tuple[int, int, str]:
        if type(element) is int:
            return 0, element, ""
        return 1, 0, written(element, path)

    return TreeSet(sorted(value, key=order))


def _of_numpy(numpy: Any, value: Any) -> Any:
    if type(value) not in (numpy.ndarray, numpy.memmap):
        return None
    if is_plain(value.dtype):
        return Leaf(value)
    said = described(value.dtype)
    return None if said is None else Record("numpy.ndarray", {"data": Leaf(bytes_of(value)), "dtype": said})


def _of_jax(jax: Any, value: Any) -> Any:
    if not isinstance(value, jax.Array):
        return None
    if is_key(value):
        items = KINDS["jax.random.key"].items
        return None if items is None else Record("jax.random.key", items(value))
    if is_plain(value.dtype):
        return Leaf(value)
    said = described(value.dtype)  # its elements are saved a byte each
    return None if said is None else Record("numpy.ndarray", {"data": Leaf(value), "dtype": said})


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
    if items is None:
        return None
    context = tensor.__tensor_flatten__()[1]
    try:
        _ElementWriter().write(context)
    except (TypeError, Error):
        pass  # it fills one of its kind, and is not made anew
    else:
        items |= {"context": context, "size": tuple(tensor.shape), "stride": tensor.stride()}
    return Record(class_name(type(tensor)), items)


def wrapper_class(name: str) -> Any:
    """The class of tensors that wrap others, among those that the program has imported; None if it has none so
    called."""
    torch = loaded("torch")
    kinds = [torch.Tensor] if torch is not None else []
    while kinds:
        kind = kinds.pop()
        if class_name(kind) == name and hasattr(kind, "__tensor_unflatten__"):
            return kind
        kinds += kind.__subclasses__()
    return None


def _wrapper_of(record: Record) -> Any:
    items = dict(record.items)
    context, size, stride = items.pop("context"), items.pop("size"), items.pop("stride")
    kind = None if record_in(context) else wrapper_class(record.class_name)
    return record if kind is None else kind.__tensor_unflatten__(items, context, size, stride)


def record_in(value: Any) -> Record | None:
    """An innermost record in a value that was read."""
    own = value.items if isinstance(value, Record) else value
    inside = own.values() if isinstance(own, dict) else own if isinstance(own, (list, tuple)) else ()
    found = next(filter(None, map(record_in, inside)), None)
    return value if found is None and isinstance(value, Record) else found


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


def parts_for(like: Any, saved: str) -> dict[str, Any] | None:
    """Its parts, to be filled from the record of a tensor of its class."""
    parts, name = parts_of(like), class_name(type(like))
    if parts is not None and saved != name:
        raise _does_not_fit(f"a {name}", saved)
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
    plain = _turned(plain, marks_of(plain))
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
                "torch.bits4x2": "uint8", "torch.bcomplex32": "uint32", "torch.float4_e2m1fn_x2": "uint8",
                **{f"torch.{sign}int{bits}": f"{sign}int8" for sign in ("u", "") for bits in range(1, 8)}}


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


def is_filled_whole(value: Any) -> bool:
    """Whether it is a quantized or sparse tensor of torch: its memory cannot be filled, only copied to."""
    torch = loaded("torch")
    return torch is not None and isinstance(value, torch.Tensor) and (
        value.is_quantized or str(value.layout).startswith("torch.sparse"))


def check_sparse(like: Any, record: Record) -> None:
    """Raises MismatchError if the record, whose tensors are not yet read, is not of a sparse tensor as `like` is."""
    mine, items = f"{like.layout} of {like.dtype}, of shape {tuple(like.shape)}", record.items
    found = (f"{record.class_name} of {getattr(items.get('values'), 'dtype', None)}, of shape "
             f"{tuple(items.get('size', ()))}")
    if not like.is_quantized and mine != found:
        raise _does_not_fit(f"a {mine}", found)


def fill_whole(like: Any, record: Any) -> Any:
    """Copies what the record of such a tensor makes to one of the same kind."""
    torch, made = loaded("torch"), restore(record, "torch") if type(record) is Record else record
    fits = is_filled_whole(made) and (made.dtype, made.layout, made.shape) == (like.dtype, like.layout, like.shape)
    if not fits or (like.is_quantized and made.qscheme() != like.qscheme()):
        found = f"{made.dtype} of shape {tuple(made.shape)}" if isinstance(made, torch.Tensor) else type(made).__name__
        raise _does_not_fit(f"a {like.dtype} of shape {tuple(like.shape)}, "
                            f"{like.qscheme() if like.is_quantized else like.layout}", found)
    with torch.no_grad():
        if like.layout not in (torch.strided, torch.sparse_coo):
            like.resize_as_sparse_(made)  # which it does itself otherwise
        like.copy_(made)
    return like


def check_dtype(like: Any, saved: Any) -> None:
    """Raises MismatchError if the array has a dtype of torch's only, and the saved one has another, or the other way
    round. `saved`: the item of the record that says it."""
    mine = str(getattr(like, "dtype", ""))
    mine = mine if mine in _AS_INTEGERS and _integer_of(like) else ""
    if framework_name_of(like) == "torch" and mine != (saved or "") and (saved or "") in {"", *_AS_INTEGERS}:
        raise _does_not_fit(f"a tensor of dtype {like.dtype}", f"tensor of dtype {saved or 'that is plain'}")


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
    """A view of the same memory, without marks, and of a dtype that ckpt knows."""
    array = _turned(array, marks_of(array))
    if framework_name_of(array) == "torch" and (integer := _integer_of(array)) is not None:
        return array.detach().view(getattr(loaded("torch"), integer))
    return array


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
        _turned(array.detach(), own).copy_(data)
        return
    numpy = loaded("numpy")
    data = numpy.conjugate(data) if marks[0] else data
    array[...] = numpy.negative(data) if marks[1] else data


# ---- from records to objects ----


def restore(record: Record, framework: FrameworkName) -> Any:
    """The object of the record; the record itself if its class is unknown here or its items do not fit."""
    try:
        family, _, name = record.class_name.partition(".")
        if family == "torch" and framework == "torch" and (made := _torch_of(name, record)) is not record:
            return made
        if framework == "torch" and {"context", "size", "stride"} <= record.items.keys():
            return _wrapper_of(record)
        if name == "Tensor" and set(record.items) == {"data", "memory_format"}:
            return record.items["data"]  # numpy needs no record to hold its numbers
        return make(record)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, ImportError, RuntimeError,
            AssertionError):
        return record  # RuntimeError: torch raises it for sparse indices that are out of range


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
