"""libckpt through ctypes: foreign files, stores and their trees as plain Python values, tensors as bytes.

The library is $CKPT_LIBRARY, and libckpt_files beside it. Needs no torch and no numpy, so that nothing but ckpt reads
what is compared.
"""
import collections
import ctypes
import hashlib
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_uint32, c_uint64, c_void_p

MAX_NDIM = 16
NULL, BOOL, INT, BIGINT, FLOAT, TEXT, BYTES, TENSOR = range(8)
LIST, TUPLE, SET, DICT, RECORD = range(16, 21)
END = 2**64 - 1
CPU = 1

Record = collections.namedtuple("Record", "cls fields")
# Where a tensor stands in a tree; what it is, is in the tensors of its file or reader.
Leaf = collections.namedtuple("Leaf", "name")
Set = collections.namedtuple("Set", "items")
Tensor = collections.namedtuple("Tensor", "dtype shape digest alias_of strides start size")


class Node(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("kind", c_int32), ("key_kind", c_int32), ("bool_value", c_int32),
                ("key_int", c_int64), ("key", c_void_p), ("key_size", c_uint64), ("int_value", c_int64),
                ("float_value", c_double), ("text", c_void_p), ("text_size", c_uint64), ("child_count", c_uint64),
                ("first_child", c_uint64), ("next_sibling", c_uint64), ("parent", c_uint64)]


class FileTensor(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("dtype", c_int32), ("ndim", c_int32), ("reserved", c_int32),
                ("shape", c_int64 * MAX_NDIM), ("strides", c_int64 * MAX_NDIM), ("data", c_void_p),
                ("data_bytes", c_uint64), ("bytes", c_uint64), ("name", c_char_p), ("alias_of", c_char_p),
                ("alias_offset", c_int64)]


class TensorInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("dtype", c_int32), ("ndim", c_int32), ("segment_count", c_uint32),
                ("shape", c_int64 * MAX_NDIM), ("bytes", c_uint64), ("stored_bytes", c_uint64), ("name", c_char_p),
                ("alias_of", c_char_p)]


class PartInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("rank", c_uint32), ("bytes", c_uint64), ("name", ctypes.c_char * 32),
                ("save_id", ctypes.c_char * 40)]


class TensorDesc(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("dtype", c_int32), ("ndim", c_int32), ("region_kind", c_int32),
                ("flags", c_uint32), ("replica_count", c_uint32), ("replica_index", c_uint32), ("reserved", c_uint32),
                ("replica_group", c_uint64), ("shape", c_int64 * MAX_NDIM), ("offset", c_int64 * MAX_NDIM),
                ("extent", c_int64 * MAX_NDIM), ("flat_offset", c_int64), ("flat_size", c_int64),
                ("strides", c_int64 * MAX_NDIM)]


class CkptError(Exception):
    """A refusal: its status by name ("FORMAT"), and its message."""

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status, self.message = status, message


def declare(library):
    """Only what ctypes would guess wrong: everything but int32 results and pointer arguments."""
    library.ckpt_status_name.restype = library.ckpt_error_message.restype = c_char_p
    library.ckpt_status_name.argtypes = [c_int32]
    library.ckpt_dtype_name.restype = library.ckpt_file_format.restype = c_char_p
    library.ckpt_dtype_name.argtypes = [c_int32]
    for name in ("ckpt_tree_node_count", "ckpt_file_tensor_count", "ckpt_reader_tensor_count"):
        getattr(library, name).restype = c_uint64
    library.ckpt_tree_at.argtypes = [c_void_p, c_uint64, POINTER(Node), c_void_p]
    library.ckpt_file_tensor_at.argtypes = [c_void_p, c_uint64, POINTER(FileTensor), c_void_p]
    library.ckpt_reader_tensor_at.argtypes = [c_void_p, c_uint64, POINTER(TensorInfo), c_void_p]
    library.ckpt_load_add_tensor.argtypes = [c_void_p, c_char_p, POINTER(TensorDesc), c_void_p, c_uint64, c_int32,
                                             c_int32,
                                             c_void_p]
    library.ckpt_import.argtypes = [c_void_p, c_char_p, c_char_p, c_int64, c_void_p, c_void_p, c_void_p]
    library.ckpt_options_set_int.argtypes = [c_void_p, c_char_p, c_int64, c_void_p]
    return library


# What this one is linked with is found by it, too: libckpt.
LIBRARY = declare(ctypes.CDLL(os.path.join(os.path.dirname(os.environ["CKPT_LIBRARY"]), "libckpt_files.so.0")))


def call(name, *arguments):
    """Calls a fallible function; a refusal becomes CkptError."""
    error = c_void_p()
    status = getattr(LIBRARY, name)(*arguments, byref(error))
    if status == 0:
        return
    message = LIBRARY.ckpt_error_message(error)
    try:
        message = message.decode()
    except UnicodeDecodeError:
        raise AssertionError(f"{name}: a message that is not UTF-8: {message}") from None
    LIBRARY.ckpt_error_free(error)
    raise CkptError(LIBRARY.ckpt_status_name(status).decode(), message)


class Handle:
    """Owns one object of the library."""

    def __init__(self, noun, make, *arguments):
        self.noun, self.pointer = noun, c_void_p()
        call(make, byref(self.pointer), *arguments)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        getattr(LIBRARY, f"ckpt_{self.noun}_free")(self.pointer)


def options(**values):
    handle = Handle("options", "ckpt_options_new")
    for key, value in values.items():
        if isinstance(value, int):
            call("ckpt_options_set_int", handle.pointer, key.encode(), value)
        else:
            call("ckpt_options_set_str", handle.pointer, key.encode(), value.encode())
    return handle


# ---- trees ----

class TreeReader:
    """A ckpt_tree as Python values: ints, floats, str, bytes, list, tuple, Set, dict, Record, Leaf."""

    def __init__(self, pointer):
        self.pointer = pointer

    def at(self, number):
        node = Node(struct_size=ctypes.sizeof(Node))
        call("ckpt_tree_at", self.pointer, number, byref(node))
        return node

    def value(self, number=0):
        node = self.at(number)
        text = ctypes.string_at(node.text, node.text_size) if node.text else b""
        plain = {NULL: lambda: None, BOOL: lambda: bool(node.bool_value), INT: lambda: node.int_value,
                 BIGINT: lambda: decimal(text.decode()), FLOAT: lambda: node.float_value, TEXT: text.decode,
                 BYTES: lambda: text, TENSOR: lambda: Leaf(text.decode())}
        if node.kind in plain:
            return plain[node.kind]()
        children = self.children(node)
        if node.kind in (DICT, RECORD):
            values = {key: self.value(child) for key, child in children}
            assert len(values) == node.child_count, "a key is there twice"
            return values if node.kind == DICT else Record(text.decode(), values)
        values = [self.value(child) for _, child in children]
        return {LIST: list, TUPLE: tuple, SET: Set}[node.kind](values)

    def children(self, node):
        """[(key, number)], the key None where there is none."""
        found, child = [], node.first_child
        while child != END:
            there = self.at(child)
            key = {0: lambda: None, 1: lambda: ctypes.string_at(there.key, there.key_size).decode(),
                   2: lambda: there.key_int}[there.key_kind]()
            found.append((key, child))
            child = there.next_sibling
        assert len(found) == node.child_count
        return found


def decimal(digits):
    """int(), which refuses more than 4300 digits."""
    sign, digits = (-1, digits[1:]) if digits.startswith("-") else (1, digits)
    value = 0
    for at in range(0, len(digits), 1000):
        piece = digits[at:at + 1000]
        value = value * 10**len(piece) + int(piece)
    return sign * value


# ---- foreign files ----

def gather(address, shape, strides, size):
    """The elements of strided memory in row-major order; `size` is of one element, in bytes."""
    if 0 in shape:
        return b""
    rest, contiguous = 1, True
    for extent, stride in zip(reversed(shape), reversed(strides)):
        contiguous = contiguous and (extent == 1 or stride == rest)
        rest *= extent
    if contiguous:
        return ctypes.string_at(address, rest * size)
    return b"".join(gather(address + i * strides[0] * size, shape[1:], strides[1:], size) for i in range(shape[0]))


def digest(data):
    return hashlib.sha256(data).hexdigest()


def dtype_name(dtype):
    return LIBRARY.ckpt_dtype_name(dtype).decode()


def file_tensors(pointer):
    tensors = {}
    for index in range(LIBRARY.ckpt_file_tensor_count(pointer)):
        found = FileTensor(struct_size=ctypes.sizeof(FileTensor))
        call("ckpt_file_tensor_at", pointer, index, byref(found))
        shape, strides = list(found.shape[:found.ndim]), list(found.strides[:found.ndim])
        bits = LIBRARY.ckpt_dtype_bits(found.dtype)
        if not found.bytes:
            data = b""
        elif bits % 8:  # packed; torch has such tensors only in a row
            data = ctypes.string_at(found.data, found.bytes)
        else:
            data = gather(found.data, shape, strides, bits // 8)
        assert len(data) == found.bytes, (found.name, len(data), found.bytes)
        name = found.name.decode()
        assert name not in tensors, f"{name} is there twice"
        alias = found.alias_of.decode() if found.alias_of else None
        assert alias is None or alias in tensors, f"{name} comes before {alias}, whose memory it shares"
        tensors[name] = Tensor(dtype_name(found.dtype), shape, digest(data), alias, strides, found.data,
                               found.data_bytes)
    return tensors


def open_file(path, **settings):
    """(format, tree, tensors by name) of a foreign file."""
    with options(**settings) as bag, Handle("file", "ckpt_file_open", os.fsencode(path), bag.pointer) as file:
        tree = c_void_p()
        call("ckpt_file_tree", file.pointer, byref(tree))
        form = LIBRARY.ckpt_file_format(file.pointer).decode()
        return form, TreeReader(tree).value(), file_tensors(file.pointer)


def open_names(path):
    """{name: (elements, first bytes, last bytes)} of a file too large to be read as a whole."""
    with options(verify=0) as bag, Handle("file", "ckpt_file_open", os.fsencode(path), bag.pointer) as file:
        found = {}
        for index in range(LIBRARY.ckpt_file_tensor_count(file.pointer)):
            said = FileTensor(struct_size=ctypes.sizeof(FileTensor))
            call("ckpt_file_tensor_at", file.pointer, index, byref(said))
            ends = [ctypes.string_at(said.data + at, 12).hex() for at in (0, said.data_bytes - 12)]
            found[said.name.decode()] = (said.shape[0], *ends)
        return found


# ---- stores ----

def store(uri):
    return Handle("store", "ckpt_store_open", uri.encode(), None)


def import_file(into, path, label, run="import", **settings):
    with options(run=run, **settings) as bag:
        call("ckpt_import", into.pointer, os.fsencode(path), label.encode(), -1, bag.pointer, None)


def open_reader(of, selector, **settings):
    with options(**settings) as bag:
        return Handle("reader", "ckpt_reader_open", of.pointer, selector.encode(), bag.pointer)


def part_count(of, selector, **settings):
    with open_reader(of, selector, **settings) as reader:
        count = 0
        part = PartInfo(struct_size=ctypes.sizeof(PartInfo))
        while LIBRARY.ckpt_reader_part_at(reader.pointer, c_uint32(count), byref(part), None) == 0:
            count += 1
        return count


def export(of, selector, path, run="import", **settings):
    with open_reader(of, selector, run=run) as reader, options(**settings) as bag:
        call("ckpt_export", reader.pointer, os.fsencode(path), bag.pointer)


def load_tensors(reader):
    """Every tensor of a checkpoint, loaded as it was saved."""
    with Handle("load", "ckpt_load_new", reader.pointer, None) as load:
        wanted = []
        for index in range(LIBRARY.ckpt_reader_tensor_count(reader.pointer)):
            info = TensorInfo(struct_size=ctypes.sizeof(TensorInfo))
            call("ckpt_reader_tensor_at", reader.pointer, index, byref(info))
            desc = TensorDesc(struct_size=ctypes.sizeof(TensorDesc), dtype=info.dtype, ndim=info.ndim, shape=info.shape)
            memory = (ctypes.c_char * max(1, info.bytes))()
            call("ckpt_load_add_tensor", load.pointer, info.name, byref(desc), memory, info.bytes, CPU, 0)
            wanted.append((info, memory))
        call("ckpt_load_run", load.pointer)
        return {info.name.decode(): Tensor(dtype_name(info.dtype), list(info.shape[:info.ndim]),
                                           digest(memory[:info.bytes]
                                                  ), info.alias_of and info.alias_of.decode(), None, None,
                                           info.bytes) for info, memory in wanted}


def read_checkpoint(of, selector, **settings):
    """(tree, tensors by name) of a checkpoint."""
    with open_reader(of, selector, **settings) as reader:
        pointer = c_void_p()
        call("ckpt_reader_tree", reader.pointer, None, byref(pointer))
        try:
            return TreeReader(pointer).value(), load_tensors(reader)
        finally:
            LIBRARY.ckpt_tree_free(pointer)
