"""Which arrays are taken as memory: without a copy, or not at all."""

from __future__ import annotations

import array
import ctypes
from typing import Any

import ckpt
import ml_dtypes
import numpy as np
import pytest
from conftest import bits, load_one

NUMPY = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
         "float64", "complex64", "complex128"]
ML_DTYPES = ["bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
             "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]


def sample(dtype: Any, shape: tuple[int, ...]) -> Any:
    dtype = np.dtype(dtype)
    raw = np.random.default_rng(7).integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)
    return (raw & 1 if dtype == bool else raw).view(dtype)[..., 0]


@pytest.mark.parametrize("name", NUMPY + ML_DTYPES)
def test_every_numpy_dtype_comes_back_bit_for_bit(reader_of: Any, name: str) -> None:
    dtype = np.dtype(name if name in NUMPY else getattr(ml_dtypes, name))
    saved = sample(dtype, (3, 5))
    reader = reader_of({"w": saved, "scalar": saved[1, 2, ...], "empty": saved[:0], "t": saved.T})
    assert bits(load_one(reader, "w", np.empty((3, 5), dtype))) == bits(saved)
    assert bits(load_one(reader, "scalar", np.empty((), dtype))) == bits(saved[1, 2])
    assert bits(load_one(reader, "t", np.empty((5, 3), dtype))) == bits(saved.T)
    assert reader.tensor("empty").shape == (0, 5)
    assert reader.tensor("w").dtype.bits == dtype.itemsize * 8


def test_memory_is_the_arrays_own(reader_of: Any) -> None:
    saved = np.arange(12, dtype="f4").reshape(3, 4)
    assert ckpt.Memory.of(saved).address == saved.ctypes.data
    assert ckpt.Memory.of(saved[1:, 2:]).address == saved[1:, 2:].ctypes.data
    bf16 = saved.astype(ml_dtypes.bfloat16)
    memory = ckpt.Memory.of(bf16[:, ::2])
    assert (memory.address, memory.dtype, memory.shape, memory.strides) == (
        bf16.ctypes.data, ckpt.DType.BF16, (3, 2), (4, 2))
    assert memory.nbytes == (2 * 4 + 1 * 2 + 1) * 2 and not memory.contiguous


def test_strides_are_taken_on_both_sides(reader_of: Any) -> None:
    whole = np.arange(60, dtype="i4").reshape(5, 12)
    reader = reader_of({"columns": whole[:, 1::3], "broadcast": np.broadcast_to(whole[0], (3, 12))})
    target = np.zeros((5, 9), "i4")
    load_one(reader, "columns", target[:, 1::2])
    assert (target[:, 1::2] == whole[:, 1::3]).all() and (target[:, ::2] == 0).all()
    assert (load_one(reader, "broadcast", np.empty((3, 12), "i4")) == whole[0]).all()


@pytest.mark.parametrize("data", [b"bytes", bytearray(b"bytes"), memoryview(b"xbytesx")[1:6],
                                  array.array("B", b"bytes"), (ctypes.c_ubyte * 5)(*b"bytes"),
                                  np.frombuffer(b"bytes", "u1")])
def test_anything_with_the_buffer_protocol_is_taken(reader_of: Any, data: Any) -> None:
    reader = reader_of({"w": data})
    assert reader.tensor("w").dtype == ckpt.DType.U8
    assert load_one(reader, "w", bytearray(5)) == b"bytes"


@pytest.mark.parametrize("code,dtype", [("b", "i8"), ("h", "i16"), ("i", "i32"), ("q", "i64"), ("H", "u16"),
                                        ("f", "f32"), ("d", "f64"), ("l", "i64")])
def test_elements_of_array_array_have_their_dtype(reader_of: Any, code: str, dtype: str) -> None:
    assert str(reader_of({"w": array.array(code, [1, 2])}).tensor("w").dtype) == dtype


class Producer:
    """DLPack by its specification, over memory of ours; counts how often the consumer releases it."""

    def __init__(self, device: int = 1, version: int | None = 1, flags: int = 0, code: int = 2, bits: int = 32,
                 lanes: int = 1, count: int = 4) -> None:
        self.data = (ctypes.c_uint8 * 64)(*range(64))
        self.place, self.offset, self.device_id = ctypes.addressof(self.data), 4, 0
        self.asked: dict[str, Any] = {}
        self.device, self.version, self.flags = device, version, flags
        self.type = code | bits << 8 | lanes << 16
        self.shape = (ctypes.c_int64 * 1)(count)
        self.released = 0
        self.blocks: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, self.device_id

    def __dlpack__(self, **wanted: Any) -> Any:
        self.asked = wanted

        class Tensor(ctypes.Structure):
            _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                        ("dtype", ctypes.c_uint32), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                        ("offset", ctypes.c_uint64)]

        free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        tensor = Tensor(self.place, (ctypes.c_int32 * 2)(self.device, self.device_id), 1, self.type,
                        ctypes.addressof(self.shape), None, self.offset)

        class Managed(ctypes.Structure):
            _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", free)]

        class Versioned(ctypes.Structure):
            _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                        ("deleter", free), ("flags", ctypes.c_uint64), ("tensor", Tensor)]

        def release(_: int) -> None:
            self.released += 1

        deleter = free(release)
        if self.version is None:
            if wanted:
                raise TypeError("an old producer takes no arguments")
            block: Any = Managed(tensor, None, deleter)
        else:
            block = Versioned(self.version, 0, None, deleter, self.flags, tensor)
        self.blocks += [deleter, block]
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        name = b"dltensor" if self.version is None else b"dltensor_versioned"
        self.blocks.append(name)
        return make(ctypes.addressof(block), name, None)


@pytest.mark.parametrize("version", [None, 1])
def test_dlpack_old_and_new_is_taken_and_let_go(reader_of: Any, version: int | None) -> None:
    producer = Producer(version=version)
    reader = reader_of({"w": producer})
    assert producer.released == 1
    assert load_one(reader, "w", bytearray(16), dtype="f32", shape=(4,)) == bytes(range(4, 20))


def test_vector_lanes_are_elements(reader_of: Any) -> None:
    reader = reader_of({"w": Producer(code=17, bits=4, lanes=2, count=3)})
    assert (reader.tensor("w").dtype, reader.tensor("w").shape) == (ckpt.DType.F4_E2M1FN, (6,))
    assert load_one(reader, "w", bytearray(3), dtype="f4_e2m1fn", shape=(6,)) == bytes([4, 5, 6])


@pytest.mark.parametrize("producer,reason", [
    (Producer(device=10), "device 10:0"),
    (Producer(device=2), "memory of CUDA devices cannot be taken"),
    (Producer(version=2), "DLPack 2"),
    (Producer(flags=2), "made one"),
    (Producer(code=3, bits=64), "opaque"),
])
def test_dlpack_that_cannot_be_used_is_refused_and_let_go(session: ckpt.Session, producer: Producer,
                                                          reason: str) -> None:
    with ckpt.Save(session, "a") as save, pytest.raises(ckpt.UnsupportedError, match=reason) as caught:
        save.add_tensor("w", producer)
    assert caught.value.details["tensor"] == "w"
    del caught
    assert producer.released == (0 if producer.device == 10 else 1)


def test_pinned_host_memory_is_cpu_memory(reader_of: Any) -> None:
    assert reader_of({"w": Producer(device=3)}).tensor("w").bytes == 16


@pytest.mark.parametrize("data,reason", [
    (np.arange(4)[::-1], "negative stride"),
    (np.zeros(3, [("a", "u1"), ("b", "<f4")])["b"], "stride of 5 bytes"),
    (np.zeros(2, ">f4"), "big-endian"),
    (np.zeros(2, np.dtype(ml_dtypes.bfloat16).newbyteorder(">")), "big-endian"),
    (np.zeros(2, np.longdouble), "format 'g'"),
    (np.zeros(2, "M8[s]"), "format|buffer"),
    (np.zeros(2, [("a", "u1"), ("b", "<f4")]), "format"),
    (np.zeros(2, object), "format 'O'"),
    (np.zeros(2, ml_dtypes.int4), "int4 has no ckpt dtype of the same layout"),
    (np.zeros(2, ml_dtypes.float4_e2m1fn), "float4_e2m1fn has no"),
])
def test_what_would_need_a_copy_is_refused(session: ckpt.Session, data: Any, reason: str) -> None:
    with ckpt.Save(session, "a") as save, pytest.raises(ckpt.UnsupportedError, match=reason) as caught:
        save.add_tensor("w", data)
    assert caught.value.details == {"tensor": "w", "found": "ndarray"}


def test_what_is_no_array_is_a_type_error(session: ckpt.Session) -> None:
    with ckpt.Save(session, "a") as save, pytest.raises(TypeError, match="found list"):
        save.add_tensor("w", [1, 2])


def test_memory_that_cannot_be_written_is_no_target(reader_of: Any) -> None:
    reader = reader_of({"w": b"bytes"})
    frozen = np.zeros(5, "u1")
    frozen.flags.writeable = False
    with ckpt.Load(reader) as load:
        for target in (b"bytes", frozen, Producer(flags=1, code=1, bits=8, count=5), ckpt.Memory.of(b"bytes"),
                       reader.map("w")):
            with pytest.raises(ckpt.UnsupportedError, match="not writ|read-only|read.only"):
                load.add_tensor("w", target)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit])
@pytest.mark.parametrize("method", ["__dlpack__", "__dlpack_device__"])
def test_what_ends_the_program_is_not_taken_for_a_refusal(error: type[BaseException], method: str) -> None:
    def stop(self: Any, **wanted: Any) -> Any:
        raise error

    with pytest.raises(error):
        ckpt.Memory.of(type("Stopping", (Producer,), {method: stop})())


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.float32])
def test_a_mapped_view_is_saved_with_its_own_dtype(reader_of: Any, dtype: Any) -> None:
    saved = sample(dtype, (3, 4))
    first = reader_of({"w": saved})
    again = reader_of({"w": first.map("w")})
    assert (again.tensor("w").dtype, again.tensor("w").shape) == (first.tensor("w").dtype, (3, 4))
    assert bits(load_one(again, "w", np.empty((3, 4), dtype))) == bits(saved)


def test_a_mapped_view_of_packed_elements_is_saved_as_such(reader_of: Any, session: ckpt.Session,
                                                           store: ckpt.Store) -> None:
    with ckpt.Save(session, "packed") as save:
        save.add_tensor("w", b"\x21\x43\x05", dtype="i4", shape=(5,))
        save.run()
    with ckpt.Reader(store, "packed") as reader:
        view = reader.map("w")
    again = reader_of({"w": view})
    assert (again.tensor("w").dtype, again.tensor("w").shape) == (ckpt.DType.I4, (5,))
    assert load_one(again, "w", bytearray(3), dtype="i4", shape=(5,)) == b"\x21\x43\x05"
    memory = ckpt.Memory.of(view)
    assert (memory.nbytes, memory.readonly, memory.strides) == (3, True, (1,))


def test_a_view_that_was_never_made_is_refused() -> None:
    for use in (memoryview, ckpt.Memory.of):
        with pytest.raises((BufferError, TypeError, ckpt.Error)):
            use(ckpt.View.__new__(ckpt.View))


def test_unaligned_memory_is_taken(reader_of: Any) -> None:
    raw = bytearray(range(17))
    saved = np.frombuffer(raw, "<f4", count=4, offset=1)
    reader = reader_of({"w": saved})
    target = np.frombuffer(bytearray(17), "<f4", count=4, offset=1)
    assert bits(load_one(reader, "w", target)) == bytes(raw[1:])


def test_a_tensor_of_more_than_2_gib_keeps_its_end(reader_of: Any) -> None:
    size = 2**31 + 2**28
    saved = np.zeros(size, "u1")  # pages that are only read take no memory
    saved[-3:] = [1, 2, 3]
    reader = reader_of({"w": saved}, compression="lz4")
    assert reader.tensor("w").bytes == size
    got = load_one(reader, "w", np.zeros(8, "u1"), shape=(size,), offset=(size - 8,))
    assert got.tolist() == [0, 0, 0, 0, 0, 1, 2, 3]
