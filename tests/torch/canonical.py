"""What torch.load gives and what ckpt gives, in one form, so that they can be compared.

Both become the values of describe.py. Tensors lose the numbers of storages and addresses: instead, those that share
memory with others have a "run", a number that the tensors of one overlapping run have in common (in order of first
appearance), and, where the side knows it, the place of their first element in that run.
"""
import struct

from capi import Leaf, Record, Set, digest

TORCH_NAMES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
               "i16": "int16", "i8": "int8", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
               "bool": "bool",
               "c32": "complex32", "c64": "complex64", "c128": "complex128", "f8_e4m3fn": "float8_e4m3fn",
               "f8_e5m2": "float8_e5m2", "f8_e4m3fnuz": "float8_e4m3fnuz", "f8_e5m2fnuz": "float8_e5m2fnuz",
               "f8_e8m0fnu": "float8_e8m0fnu", "f4_e2m1fn": "float4_e2m1fn_x2"}
NUMPY = {"bool_": ("|b1", "?"), "int8": ("|i1", "b"), "int16": ("<i2", "h"), "int32": ("<i4", "i"),
         "int64": ("<i8", "q"),
         "uint8": ("|u1", "B"), "uint16": ("<u2", "H"), "uint32": ("<u4", "I"), "uint64": ("<u8", "Q"),
         "float16": ("<f2", "e"), "float32": ("<f4", "f"), "float64": ("<f8", "d"), "complex64": ("<c8", "ff"),
         "complex128": ("<c16", "dd")}
ARRAY = {"bool": "|b1", "i8": "|i1", "u8": "|u1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "u16": "<u2", "u32": "<u4",
         "u64": "<u8", "f16": "<f2", "f32": "<f4", "f64": "<f8", "c64": "<c8", "c128": "<c16"}
SPARSE = {"torch.sparse_csr": ("crow_indices", "col_indices"), "torch.sparse_csc": ("ccol_indices", "row_indices"),
          "torch.sparse_bsr": ("crow_indices", "col_indices"), "torch.sparse_bsc": ("ccol_indices", "row_indices")}
STORAGES = {"DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16",
            "BFloat16Storage": "bfloat16",
            "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
            "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexDoubleStorage": "complex128",
            "ComplexFloatStorage": "complex64"}


def plain_tensor(fields, cls="torch.Tensor", requires_grad=False, state=()):
    fields.update({"class": cls, "requires_grad": requires_grad, "state": list(state)})
    return fields


def dense(shape, axes):
    """Strides without gaps, `axes` from the outermost to the innermost."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(axes):
        strides[axis], step = step, step * max(shape[axis], 1)
    return strides


def memory_format(shape, strides):
    """torch's name of the order of the elements; None where it is row-major or none that has a name."""
    wide = wide_strides(shape, strides)
    if wide == wide_strides(shape, dense(shape, range(len(shape)))):
        return None
    for name, axes in (("channels_last", (0, 2, 3, 1)), ("channels_last_3d", (0, 2, 3, 4, 1))):
        if len(shape) == len(axes) and wide == wide_strides(shape, dense(shape, axes)):
            return f"torch.{name}"
    return None


def wide_strides(shape, strides):
    """Strides that matter: of dimensions of more than one, of tensors with elements."""
    return [] if 0 in shape else [stride for extent, stride in zip(shape, strides) if extent > 1]


def attributes(pairs):
    """A state of torch's: a dict, or (dict, slots) with empty slots."""
    if pairs[0] == "tuple":
        pairs = pairs[1][0]
    return [] if pairs[0] == "none" else pairs[1]


def is_swapped(dtype):
    """A number of the other byte order: ckpt keeps it as it is, numpy turns it round when it loads it."""
    return dtype.fields["state"][1] == ">" and dtype.fields["args"][0][0] in "iufc"


def swapped(dtype, data):
    kind = dtype.fields["args"][0]
    width = int(kind[1:]) // (2 if kind[0] == "c" else 1)
    native = b"".join(data[at:at + width][::-1] for at in range(0, len(data), width))
    return "<" + kind, native


class FromCkpt:
    """A tree of capi.py with its tensors; `loaded` where they come out of a store, which keeps no strides."""

    def __init__(self, tensors, loaded):
        self.tensors, self.loaded = tensors, loaded
        self.leaves = []  # (description, name)

    def whole(self, tree):
        value = self.value(tree)
        roots = [self.tensors[name].alias_of or name for _, name in self.leaves]
        runs = {}
        for (said, name), root in zip(self.leaves, roots):
            if roots.count(root) > 1 or root.startswith("~storage/"):
                said["run"] = runs.setdefault(root, len(runs))
                if not self.loaded:
                    said["place"] = self.tensors[name].start
        drop_lonely(self.leaves)
        return value

    def value(self, tree):
        if isinstance(tree, Leaf):
            return ["tensor", plain_tensor(self.leaf(tree))]
        if isinstance(tree, Record):
            return self.record(tree.cls, tree.fields)
        if isinstance(tree, Set):
            return ["set", sorted(self.items(tree.items), key=str)]
        if tree is None:
            return ["none"]
        if isinstance(tree, dict):
            return ["dict", self.pairs(tree)]
        if isinstance(tree, (list, tuple)):
            return [type(tree).__name__, self.items(tree)]
        plain = {bool: lambda: tree, int: lambda: hex(tree), float: lambda: "nan" if tree != tree else tree.hex(),
                 str: lambda: tree, bytes: lambda: tree.hex()}
        return [{str: "text"}.get(type(tree), type(tree).__name__), plain[type(tree)]()]

    def items(self, values):
        return [self.value(value) for value in values]

    def pairs(self, values):
        return [[self.value(key), self.value(value)] for key, value in values.items()]

    def leaf(self, leaf, dtype=None):
        found = self.tensors[leaf.name]
        shape, strides = found.shape, found.strides
        if found.dtype == "f4_e2m1fn":  # which lies in a row, and torch counts pairs
            shape = [*shape[:-1], shape[-1] // 2]
            strides = dense(shape, range(len(shape)))
        said = {"dtype": dtype or TORCH_NAMES[found.dtype], "shape": shape, "digest": found.digest, "conj": False,
                "neg": False, "memory_format": None}
        if not self.loaded:
            said["strides"] = wide_strides(shape, strides)
        if found.size:
            self.leaves.append((said, leaf.name))
        return said

    # ---- records ----
    def record(self, cls, fields):
        made = {"torch.Size": lambda: ["size", self.items(fields["items"])],
                "torch.device": lambda: ["device", ":".join(str(part) for part in fields.values())],
                "torch.dtype": lambda: ["name", fields["name"]], "torch.layout": lambda: ["name", fields["name"]],
                "builtins.type": lambda: ["name", fields["name"]],
                "builtins.frozenset": lambda: ["frozenset", self.value(fields["items"])[1]],
                "builtins.bytearray": lambda: ["bytearray", fields["value"].hex()],
                "builtins.dict": lambda: ["dict", self.entries(fields)],
                "collections.OrderedDict": lambda: self.ordered(fields),
                "numpy.ndarray": lambda: self.array(fields),
                "torch.sparse_coo": lambda: self.sparse_coo(fields), "torch.QTensor": lambda: self.quantized(fields),
                "torch._utils._rebuild_meta_tensor_no_storage": lambda: self.meta(*fields["args"])}
        if cls in made:
            return made[cls]()
        if cls in SPARSE:
            return self.compressed(cls, fields)
        if cls.startswith("numpy.") and cls[6:] in NUMPY and set(fields) == {"value"}:
            return self.scalar(cls[6:], fields["value"])
        if cls.rpartition(".")[2].endswith("Storage") and isinstance(fields.get("data"), Leaf):
            return self.storage(cls, fields["data"])
        if "data" in fields and "args" not in fields:
            return self.tensor(cls, fields)
        return self.unknown(cls, fields)

    def unknown(self, cls, fields):
        assert set(fields) <= {"args", "items", "entries", "state"}, (cls, list(fields))
        if cls.endswith(".numeric._frombuffer"):
            module, (data, dtype, shape, order) = cls.rpartition(".numeric.")[0], fields["args"]
            plain = data.fields["value"] if isinstance(data, Record) else data
            fields = {"args": (Record("builtins.type", {"name": "numpy.ndarray"}), (0,), b"b"),
                      "state": (1, shape, dtype, order == "F", plain)}
            return self.unknown(f"{module}.multiarray._reconstruct", fields)
        if cls.endswith(".multiarray._reconstruct") and is_swapped(fields["state"][2]):
            _, shape, dtype, _, data = fields["state"]
            name, native = swapped(dtype, data)
            return ["numpy", {"dtype": name, "shape": list(shape), "digest": digest(native)}]
        if cls.endswith(".multiarray.scalar") and is_swapped(fields["args"][0]):
            name, native = swapped(*fields["args"])
            return ["numpy_scalar", {"dtype": name, "bytes": native.hex()}]
        return ["object", cls, self.items(fields.get("args", ())), self.value(fields.get("state")),
                self.items(fields.get("items", ())), self.entries({"items": fields.get("entries", {})})]

    def entries(self, fields):
        """Of a dict whose keys are all text or integers, or of its pairs."""
        items = fields["items"]
        if isinstance(items, Record) and items.cls == "builtins.dict":
            items = items.fields["items"]
        return self.pairs(items) if isinstance(items, dict) else [self.items(pair) for pair in items]

    def ordered(self, fields):
        state = fields.get("state", {})
        extra = self.pairs({"_metadata": fields["metadata"]} if "metadata" in fields else state)
        return ["ordered", self.entries(fields), extra]

    def tensor(self, cls, fields):
        state = attributes(self.value(fields.get("state")))
        data = fields["data"]
        if isinstance(data, Record):  # of a Parameter whose tensor is not a plain one
            said = self.value(data)
            said[1].update({"class": cls, "requires_grad": fields["requires_grad"], "state": state})
            return said
        dtype = fields["dtype"][6:] if "dtype" in fields else None
        said = plain_tensor(self.leaf(data, dtype), cls, fields.get("requires_grad", False), state)
        said.update(conj=fields.get("conj", False), neg=fields.get("neg", False),
                    memory_format=fields.get("memory_format"))
        return ["tensor", said]

    @staticmethod
    def meta(dtype, shape, strides, requires_grad):
        """What a tensor without data was like."""
        return ["meta", {"dtype": dtype.fields["name"][6:], "shape": list(shape), "strides": list(strides),
                         "requires_grad": requires_grad}]

    def sparse_coo(self, fields):
        indices, values = self.value(fields["indices"]), self.value(fields["values"])
        few = values[1]["shape"][0] < 2  # that is coalesced, whatever a file says
        return ["sparse_coo", plain_tensor({"shape": list(fields["size"].fields["items"]), "indices": indices,
                                            "values": values, "coalesced": few or fields.get("is_coalesced", False)})]

    def compressed(self, cls, fields):
        outer, inner = SPARSE[cls]
        return [cls[6:], plain_tensor({"shape": list(fields["size"].fields["items"]),
                                       "outer": self.value(fields[outer]),
                                       "inner": self.value(fields[inner]), "values": self.value(fields["values"])})]

    def quantized(self, fields):
        said = plain_tensor(self.leaf(fields["data"], fields["dtype"][6:]), "torch.Tensor",
                            fields.get("requires_grad", False))
        said["scheme"], said["memory_format"] = fields["qscheme"][6:], fields.get("memory_format")
        if "scale" in fields:
            said["scale"], said["zero_point"] = fields["scale"].hex(), fields["zero_point"]
        else:
            said["axis"] = fields["axis"]
            said["scales"], said["zero_points"] = self.value(fields["scales"]), self.value(fields["zero_points"])
        return ["quantized", said]

    def storage(self, cls, leaf):
        found = self.tensors[leaf.name]
        name = cls.rpartition(".")[2]
        return ["storage", {"dtype": STORAGES.get(name, "uint8"), "size": found.size,
                            "digest": found.digest}]

    # ---- numpy ----
    def array(self, fields):
        found = self.tensors[fields["data"].name]
        return ["numpy", {"dtype": ARRAY[found.dtype], "shape": found.shape, "digest": found.digest}]

    @staticmethod
    def scalar(name, value):
        dtype, code = NUMPY[name]
        data = struct.pack("<" + code, *(value.fields["args"] if isinstance(value, Record) else [value]))
        return ["numpy_scalar", {"dtype": dtype, "bytes": data.hex()}]


class FromTorch:
    """What describe.py says, without what only torch can know."""

    def __init__(self, loaded):
        self.loaded, self.leaves = loaded, []  # (description, what torch said)

    def whole(self, said):
        value = self.value(said)
        views = sorted(((old["storage"], old["dtype"], self.begin(old), number)
                        for number, (_, old) in enumerate(self.leaves)), key=lambda view: view[:3])
        runs, last, end, run = {}, None, 0, 0
        for storage, dtype, begin, number in views:
            old = self.leaves[number][1]
            if (storage, dtype) != last or begin >= end:
                last, end, run = (storage, dtype), 0, run + 1
            end = max(end, begin + self.span(old))
            runs[number] = run
        for number, (new, old) in enumerate(self.leaves):
            new["run"] = runs[number]
            if not self.loaded:
                new["place"] = self.begin(old)
        drop_lonely(self.leaves)
        return value

    @staticmethod
    def begin(old):
        return old["offset"] * old["width"]

    @staticmethod
    def span(old):
        return old["width"] * (1 + sum((extent - 1) * stride for extent, stride in zip(old["shape"], old["strides"])))

    def value(self, said):
        kind, rest = said[0], said[1:]
        if kind in ("list", "tuple", "set", "frozenset", "size"):
            items = self.items(rest[0])
            return [kind, sorted(items, key=str) if "set" in kind else items]
        if kind == "dict":
            return [kind, self.pairs(rest[0])]
        if kind == "ordered":
            return [kind, self.pairs(rest[0]), self.pairs(rest[1])]
        if kind == "object":
            return [kind, rest[0], self.items(rest[1]), self.value(rest[2]), self.items(rest[3]), self.pairs(rest[4])]
        if kind == "storage":
            return [kind, {key: value for key, value in rest[0].items() if key != "storage"}]
        if kind == "tensor" or kind == "quantized" or kind.startswith("sparse"):
            return [kind, self.tensor(rest[0])]
        return said

    def items(self, values):
        return [self.value(value) for value in values]

    def pairs(self, values):
        return [[self.value(key), self.value(value)] for key, value in values]

    def tensor(self, said):
        new = {key: value for key, value in said.items() if key not in ("strides", "width", "offset", "storage")}
        if "digest" in said:
            new["memory_format"] = memory_format(said["shape"], said["strides"])
            if not self.loaded:
                new["strides"] = wide_strides(said["shape"], said["strides"])
            if said["storage"] is not None:
                self.leaves.append((new, said))
        for key in ("indices", "values", "outer", "inner", "scales", "zero_points"):
            if key in new:
                new[key] = self.value(new[key])
        new["state"] = self.pairs(new["state"])
        return new


def drop_lonely(leaves):
    """Runs of one tensor say nothing; the others are numbered by first appearance, places from the first one's."""
    runs = [said.get("run") for said, _ in leaves]
    numbers, first = {}, {}
    for said, _ in leaves:
        run, place = said.pop("run", None), said.pop("place", None)
        if run is None or runs.count(run) < 2:
            continue
        said["run"] = numbers.setdefault(run, len(numbers))
        if place is not None:
            said["place"] = place - first.setdefault(run, place)


def first_difference(expected, found, path="$"):
    """Where two canonical values differ first, in words; None where they do not."""
    if type(expected) is not type(found):
        return f"{path}: expected {str(expected)[:200]}, found {str(found)[:200]}"
    if isinstance(expected, dict):
        if list(sorted(expected)) != list(sorted(found)):
            return f"{path}: expected fields {sorted(expected)}, found {sorted(found)}: {str(expected)[:200]}"
        pairs = [(f"{path}.{key}", expected[key], found[key]) for key in expected]
    elif isinstance(expected, list):
        if len(expected) != len(found):
            return f"{path}: expected {str(expected)[:300]}, found {str(found)[:300]}"
        pairs = [(f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(expected, found))]
    else:
        return None if expected == found else f"{path}: expected {str(expected)[:200]}, found {str(found)[:200]}"
    return next((difference for where, a, b in pairs if (difference := first_difference(a, b, where))), None)
