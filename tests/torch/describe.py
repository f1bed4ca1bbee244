"""What torch.load gives, as plain JSON that a process without torch can compare with what ckpt gives.

Values are pairs [kind, …]:
  none  bool b  int "123"  float "0x1.8p+1"  text s  bytes hex  list […]  tuple […]  set […]  frozenset […]
  dict [[key, value], …]           ordered [[key, value], …] {attributes}
  name "torch.float32"             object callee [args] state [items] [[key, value], …]  (as pickle would make it again)
  tensor {…}  quantized {…}  sparse_coo {…}  sparse_csr {…}  storage {…}  numpy {…}  numpy_scalar {…}
Tensors say which storage they lie in, and where, so that who shares memory with whom can be compared too.
"""
import collections
import copyreg
import ctypes
import hashlib

import numpy
from quick_torch import torch

COMPRESSED = {"sparse_csr": ("crow_indices", "col_indices"), "sparse_csc": ("ccol_indices", "row_indices"),
              "sparse_bsr": ("crow_indices", "col_indices"), "sparse_bsc": ("ccol_indices", "row_indices")}
PACKED = {torch.quint4x2, torch.quint2x4}  # several elements in a byte
# What these functions take and give is said by what they give.
MAKERS = {"copyreg.__newobj__", "copyreg._reconstructor", "copyreg.__newobj_ex__"}


def digest(data):
    return hashlib.sha256(data).hexdigest()


def full_name(thing):
    module = thing.__module__
    return f"{module}.{thing.__qualname__}"


def float_text(value):
    return "nan" if value != value else value.hex()


def tensor_bytes(tensor):
    """The elements in row-major order as they lie in memory, whatever their dtype; not conjugated or negated."""
    if not tensor.numel():
        return b""
    if tensor.dtype in PACKED:
        return ctypes.string_at(tensor.data_ptr(), storage_of(tensor).nbytes())
    size = tensor.element_size()
    span = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride())) + 1
    memory = (ctypes.c_char * (span * size)).from_address(tensor.data_ptr())
    steps = tuple(size * stride for stride in tensor.stride())
    return numpy.ndarray(tuple(tensor.shape), f"V{size}", memory, 0, steps).tobytes()


def storage_of(tensor):
    if hasattr(tensor, "untyped_storage"):
        return tensor.untyped_storage()
    storage = tensor.storage()
    return storage.untyped() if hasattr(storage, "untyped") else storage._storage


class Describer:
    def __init__(self):
        self.storages = {}  # address -> number
        self.kept = []      # what is described stays alive, or an address could come twice

    def value(self, thing):
        kind = type(thing)
        if thing is None:
            return ["none"]
        simple = {bool: lambda: ["bool", thing], int: lambda: ["int", hex(thing)],
                  float: lambda: ["float", float_text(thing)],
                  str: lambda: ["text", thing], bytes: lambda: ["bytes", thing.hex()],
                  bytearray: lambda: ["bytearray", thing.hex()], list: lambda: ["list", self.items(thing)],
                  tuple: lambda: ["tuple", self.items(thing)], dict: lambda: ["dict", self.pairs(thing)],
                  set: lambda: ["set", sorted(self.items(thing), key=str)],
                  frozenset: lambda: ["frozenset", sorted(self.items(thing), key=str)],
                  collections.OrderedDict: lambda: ["ordered", self.pairs(thing), self.pairs(vars(thing))],
                  torch.Size: lambda: ["size", self.items(thing)], torch.dtype: lambda: ["name", str(thing)],
                  torch.layout: lambda: ["name", str(thing)],
                  torch.device: lambda: ["device", str(thing)], numpy.ndarray: lambda: self.array(thing)}
        if kind in simple:
            return simple[kind]()
        if isinstance(thing, torch.Tensor):
            return self.tensor(thing)
        if torch.is_storage(thing):
            return self.storage(thing)
        if isinstance(thing, numpy.generic) and thing.dtype.kind in "biufc":
            return ["numpy_scalar", {"dtype": thing.dtype.str, "bytes": thing.tobytes().hex()}]
        return self.thing(thing)

    def items(self, things):
        return [self.value(thing) for thing in things]

    def pairs(self, things):
        return [[self.value(key), self.value(value)] for key, value in things.items()]

    # ---- objects ----
    def thing(self, thing):
        if isinstance(thing, type) or hasattr(thing, "__qualname__"):
            return ["name", full_name(thing)]
        reduced = copyreg.dispatch_table.get(type(thing), lambda thing: thing.__reduce_ex__(2))(thing)
        if isinstance(reduced, str):
            return ["name", f"{type(thing).__module__}.{reduced}"]
        callee, arguments, state, items, entries = (tuple(reduced) + (None,) * 3)[:5]
        name, arguments = full_name(callee), list(arguments)
        if name == "builtins.getattr":  # a member of an enum
            return ["name", f"{full_name(arguments[0])}.{arguments[1]}"]
        if name in MAKERS:
            if name == "copyreg._reconstructor":
                arguments = arguments[:1] if arguments[2] is None else [arguments[0], arguments[2]]
            name = full_name(arguments[0])
            arguments = arguments[1:]
        return ["object", name, self.items(arguments), self.value(state), self.items(items or ()),
                [[self.value(key), self.value(value)] for key, value in entries or ()]]

    # ---- tensors ----
    def tensor(self, tensor):
        kind = type(tensor)
        if tensor.is_sparse:
            said = self.sparse(tensor)
        elif str(tensor.layout)[6:] in COMPRESSED:
            said = self.compressed(tensor)
        elif tensor.is_meta:
            return ["meta", {"dtype": str(tensor.dtype)[6:], "shape": list(tensor.shape),
                             "strides": list(tensor.stride()), "requires_grad": tensor.requires_grad}]
        elif tensor.is_nested or kind.__name__.startswith("Uninitialized"):
            return self.thing(tensor)
        elif tensor.is_quantized:
            said = self.quantized(tensor)
        else:
            said = ["tensor", self.strided(tensor)]
        said[1]["class"] = full_name(kind)
        said[1]["requires_grad"] = tensor.requires_grad
        said[1]["state"] = self.pairs(vars(tensor))
        return said

    def strided(self, tensor):
        self.kept.append(tensor)
        plain = tensor.detach()
        address = storage_of(plain).data_ptr()
        number = self.storages.setdefault(address, len(self.storages)) if plain.numel() else None
        return {"dtype": str(tensor.dtype)[6:], "shape": list(tensor.shape), "strides": list(plain.stride()),
                "width": plain.element_size(), "offset": plain.storage_offset(), "storage": number,
                "digest": digest(tensor_bytes(plain)), "conj": plain.is_conj(), "neg": plain.is_neg()}

    def sparse(self, tensor):
        return ["sparse_coo", {"shape": list(tensor.shape), "coalesced": tensor.is_coalesced() or tensor._nnz() < 2,
                               "indices": self.value(tensor._indices().detach()),
                               "values": self.value(tensor._values().detach())}]

    def compressed(self, tensor):
        layout = str(tensor.layout)[6:]
        outer, inner = COMPRESSED[layout]
        return [layout, {"shape": list(tensor.shape), "outer": self.value(getattr(tensor, outer)()),
                         "inner": self.value(getattr(tensor, inner)()), "values": self.value(tensor.values().detach())}]

    def quantized(self, tensor):
        plain = self.strided(tensor)
        plain["scheme"] = str(tensor.qscheme())[6:].replace("_float_qparams", "")  # the dtype of zero_points says that
        if "per_tensor" in plain["scheme"]:
            plain["scale"], plain["zero_point"] = float_text(tensor.q_scale()), tensor.q_zero_point()
        else:
            plain["axis"] = tensor.q_per_channel_axis()
            plain["scales"] = self.value(tensor.q_per_channel_scales())
            plain["zero_points"] = self.value(tensor.q_per_channel_zero_points())
        return ["quantized", plain]

    def storage(self, storage):
        dtype = str(getattr(storage, "dtype", torch.uint8))[6:]
        untyped = next((getattr(storage, name)() for name in ("_untyped", "untyped") if hasattr(storage, name)),
                       getattr(storage, "_storage", storage))
        self.kept.append(untyped)
        number = self.storages.setdefault(untyped.data_ptr(), len(self.storages))
        data = ctypes.string_at(untyped.data_ptr(), untyped.nbytes())
        return ["storage", {"dtype": dtype, "storage": number, "size": len(data), "digest": digest(data)}]

    # ---- numpy ----
    def array(self, array):
        if array.dtype.hasobject or array.dtype.kind not in "biufc":
            return self.thing(array)
        native = array.astype(array.dtype.newbyteorder("="))
        return ["numpy", {"dtype": native.dtype.str, "shape": list(array.shape), "digest": digest(native.tobytes("C"))}]


def describe(path, weights_only=False):
    """What torch.load gives of a file; ["failed", why] where it gives nothing."""
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=weights_only)
    except Exception as error:
        return ["failed", f"{type(error).__name__}: {error}"[:500]]
    return Describer().value(loaded)
