"""Builds .pt files byte by byte, honest ones and others: pickles from opcodes, zip archives from their records."""
import struct
import zlib


# ---- pickles ----

class Name:
    """A class or function, by GLOBAL."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class Call:
    """callee(*arguments) by REDUCE."""

    def __init__(self, callee, *arguments):
        self.callee, self.arguments = callee, arguments


class Persistent:
    def __init__(self, identity):
        self.identity = identity


def opcodes(value):
    """The opcodes of a value, protocol 2."""
    if isinstance(value, Name):
        return b"c" + value.module.encode() + b"\n" + value.name.encode() + b"\n"
    if isinstance(value, Call):
        return opcodes(value.callee) + opcodes(tuple(value.arguments)) + b"R"
    if isinstance(value, Persistent):
        return opcodes(value.identity) + b"Q"
    if value is None or isinstance(value, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    if isinstance(value, int):
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes([len(data)]) + data
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"X" + struct.pack("<I", len(value.encode())) + value.encode()
    if isinstance(value, bytes):
        return b"B" + struct.pack("<I", len(value)) + value
    if isinstance(value, tuple):
        return b"(" + b"".join(map(opcodes, value)) + b"t"
    if isinstance(value, list):
        return b"](" + b"".join(map(opcodes, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(opcodes(key) + opcodes(item) for key, item in value.items()) + b"u"
    raise TypeError(type(value))


def pickled(value):
    return b"\x80\x02" + opcodes(value) + b"."


def storage(key="0", kind="FloatStorage", count=6):
    return Persistent(("storage", Name("torch", kind), key, "cpu", count))


def tensor(of=None, offset=0, shape=(2, 3), strides=(3, 1)):
    return Call(Name("torch._utils", "_rebuild_tensor_v2"), of or storage(), offset, tuple(shape), tuple(strides),
                False,
                Call(Name("collections", "OrderedDict")))


FLOATS = struct.pack("<6f", *range(6))


# ---- zip archives ----

class Entry:
    """One entry of an archive."""

    def __init__(self, name, data):
        self.name, self.data = name, data

    def fields(self):
        """(CRC-32, name, and the sizes stored and unpacked)"""
        return zlib.crc32(self.data), self.name.encode(), len(self.data)


def local_header(entry, at):
    crc, name, size = entry.fields()
    padding = -(at + 30 + len(name) + 4) % 64 + 4
    extra = struct.pack("<HH", 0x4246, padding - 4) + b"Z" * (padding - 4)
    return struct.pack("<IHHHHHIIIHH", 0x04034B50, 0, 0, 0, 0, 0, crc, size, size, len(name), len(extra)) + name + extra


def central_header(entry, offset):
    crc, name, size = entry.fields()
    return struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 0, 0, 0, 0, 0, 0, crc, size, size, len(name), 0, 0, 0, 0, 0,
                       offset) + name


def archive(entries, comment=b""):
    out, directory = bytearray(), bytearray()
    for entry in entries:
        offset = len(out)
        out += local_header(entry, offset) + entry.data
        directory += central_header(entry, offset)
    start, listed, directory_size = len(out), len(entries), len(directory)
    if listed > 0xFFFF:
        directory += zip64_end(listed, directory_size, start, start + directory_size)
        listed = 0xFFFF
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, listed, listed, directory_size, start & 0xFFFFFFFF, len(comment))
    return bytes(out + directory + end + comment)


def zip64_end(count, directory_size, directory, record, record_size=44):
    """The zip64 end record and its locator, which says that the former is at `record`."""
    end = struct.pack("<IQHHIIQQQQ", 0x06064B50, record_size, 45, 45, 0, 0, count, count, directory_size, directory)
    return end + struct.pack("<IIQI", 0x07064B50, 0, record, 1)


def write_zip64(path, pickle, storage_size, tail, **said):
    """A .pt whose storage is a hole that ends in `tail`; `said` is what its zip64 records say apart from what is."""
    size, directory = storage_size, b""
    with open(path, "wb") as out:
        for entry in (Entry("archive/data.pkl", pickle), Entry("archive/version", b"3\n")):
            directory += central_header(entry, out.tell())
            out.write(local_header(entry, out.tell()) + entry.data)
        offset, name = out.tell(), b"archive/data/0"
        extra = struct.pack("<HHQQ", 1, 16, size, size)
        extra += struct.pack("<HH", 0x4246, -(offset + 30 + len(name) + len(extra) + 4) % 64)
        extra += b"Z" * struct.unpack("<H", extra[-2:])[0]
        out.write(struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF, len(name),
                              len(extra)))
        out.write(name + extra)
        out.seek(out.tell() + size - len(tail))
        out.write(tail)
        start = out.tell()
        extra = struct.pack("<HHQQQ", 1, 24, said.get("size", size), said.get("stored", size),
                            said.get("offset", offset))
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF,
                                 len(name),
                                 len(extra), 0, 0, 0, 0, 0xFFFFFFFF) + name + extra
        record = start + len(directory)
        out.write(directory)
        out.write(zip64_end(said.get("count", 3), said.get("directory_size", len(directory)),
                            said.get("directory", start),
                            said.get("record", record), said.get("record_size", 44)))
        out.write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0))


def entries(value=None, data=FLOATS):
    """The entries of an honest .pt that holds `value`, or pickle bytes."""
    pickle = value if isinstance(value, bytes) else pickled({"w": tensor()} if value is None else value)
    return [Entry("archive/data.pkl", pickle), Entry("archive/byteorder", b"little"),
            Entry("archive/data/0", data), Entry("archive/version", b"3\n")]


def pt(value=None, data=FLOATS):
    return archive(entries(value, data))


# ---- the form before zip ----

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
SYSTEM = {"protocol_version": PROTOCOL, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}


def legacy(value=None, keys=("0",), storages=struct.pack("<q", 6) + FLOATS):
    pickle = value if isinstance(value, bytes) else pickled({"w": legacy_tensor()} if value is None else value)
    return pickled(MAGIC) + pickled(PROTOCOL) + pickled(SYSTEM) + pickle + pickled(list(keys)) + storages


def legacy_tensor():
    return tensor(Persistent(("storage", Name("torch", "FloatStorage"), "0", "cpu", 6, None)))
