"""Memory of CUDA devices: which device and stream an array tells, and that saves and loads read and write the device's
memory itself. CKPT_TEST_CUDART names the libcudart: the fake of tests/cuda, or NVIDIA's (tools/gpu-check)."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import ckpt
import numpy as np
import pytest
from conftest import load_one
from test_memory import Producer

LIBRARY = os.environ.get("CKPT_TEST_CUDART")
pytestmark = pytest.mark.cuda

CUDA, MANAGED, DEFAULT = 2, 13, 4


class DeviceArray(Producer):
    """An array of bytes in the memory of a device, which the host cannot touch."""

    def __init__(self, cudart: Any, content: bytes, device_id: int = 0) -> None:
        super().__init__(device=CUDA, code=1, bits=8, count=len(content))
        self.cudart, self.content_size = cudart, len(content)
        self.address, count = ctypes.c_void_p(), ctypes.c_int()
        assert cudart.cudaGetDeviceCount(ctypes.byref(count)) == 0
        device_id %= count.value  # the fake has several
        assert cudart.cudaSetDevice(device_id) == 0
        assert cudart.cudaMalloc(ctypes.byref(self.address), ctypes.c_size_t(len(content))) == 0
        assert cudart.cudaSetDevice(0) == 0
        assert cudart.cudaMemcpy(self.address, content, ctypes.c_size_t(len(content)), DEFAULT) == 0
        self.place, self.offset, self.device_id = self.address.value, 0, device_id

    def __len__(self) -> int:
        return self.content_size

    def get(self) -> bytes:
        out = ctypes.create_string_buffer(self.content_size)
        assert self.cudart.cudaMemcpy(out, self.address, ctypes.c_size_t(self.content_size), DEFAULT) == 0
        return out.raw


@pytest.fixture
def cudart() -> Iterator[Any]:
    assert LIBRARY and os.environ.get("CKPT_CUDART") == LIBRARY, "set CKPT_TEST_CUDART and CKPT_CUDART"
    yield ctypes.CDLL(LIBRARY)


def test_an_array_tells_its_device_and_is_asked_behind_the_legacy_stream(cudart: Any) -> None:
    array = DeviceArray(cudart, b"0123456789", 1)
    memory = ckpt.Memory.of(array)
    assert (memory.device, memory.stream, memory.address) == ((CUDA, array.device_id), 1, array.address.value)
    assert array.asked["stream"] == 1
    assert ckpt.Memory.of(np.zeros(3)).device == (1, 0)


def test_device_memory_is_saved_and_loaded_without_a_copy(cudart: Any, reader_of: Any) -> None:
    first, second = os.urandom(3 << 20), os.urandom(1000)
    reader = reader_of({"a": DeviceArray(cudart, first), "b": DeviceArray(cudart, second, 2), "host": b"bytes"})
    assert load_one(reader, "a", bytearray(len(first))) == first
    assert load_one(reader, "b", bytearray(len(second))) == second
    target = DeviceArray(cudart, bytes(len(first)), 1)
    load_one(reader, "a", target)
    assert target.get() == first


def test_tensors_of_several_devices_are_added_by_one_call(cudart: Any, store: ckpt.Store,
                                                          session: ckpt.Session) -> None:
    content = {f"t{i}": os.urandom(100 + i) for i in range(6)}
    with ckpt.Save(session, "a") as save:
        save.add_tensors({name: np.frombuffer(data, "u1") if i % 3 == 0 else DeviceArray(cudart, data, i % 3)
                          for i, (name, data) in enumerate(content.items())})
        save.run()
    with ckpt.Reader(store, "a") as reader:
        for name, data in content.items():
            assert load_one(reader, name, bytearray(len(data))) == data


def test_a_state_on_a_device_is_loaded_into_arrays_on_it(cudart: Any, tmp_path: Any,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = types.ModuleType("cupy")  # which needs a GPU to be imported
    cupy.ndarray = DeviceArray  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    content = os.urandom(5000)
    ckpt.save(tmp_path / "store", {"model": {"w": DeviceArray(cudart, content)}, "step": 3})
    target = {"model": {"w": DeviceArray(cudart, bytes(5000), 1)}, "step": 0}
    ckpt.load(tmp_path / "store", into=target)
    assert target["model"]["w"].get() == content


def test_parts_that_overlap_on_a_device_are_saved_from_it(cudart: Any, tmp_path: Any,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = types.ModuleType("cupy")
    cupy.ndarray = DeviceArray  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    content = os.urandom(100)
    whole = DeviceArray(cudart, content, 1)

    def part(begin: int, size: int) -> DeviceArray:
        made = copy.copy(whole)
        made.place, made.shape, made.content_size = whole.place + begin, (ctypes.c_int64 * 1)(size), size
        return made

    ckpt.save(tmp_path / "store", {"a": part(0, 60), "b": part(40, 60)})
    back = ckpt.load(tmp_path / "store")
    assert (back["a"].tobytes(), back["b"].tobytes()) == (content[:60], content[40:])


def test_columns_of_a_table_are_saved_from_a_device_and_loaded_to_one(cudart: Any, store: ckpt.Store) -> None:
    ids = list(range(1000, 0, -1))  # the save sorts the rows
    rows, more = os.urandom(1000), os.urandom(1000)
    ckpt.save(store, {"emb": ckpt.Table(ids, {"x": DeviceArray(cudart, rows, 1), "y": DeviceArray(cudart, more, 1)})})
    found = ckpt.load(store, into={"emb": ckpt.Rowset.ids(ids)})["emb"]
    assert (found.columns["x"].tobytes(), found.columns["y"].tobytes()) == (rows, more)
    there = {name: DeviceArray(cudart, bytes(3), 2) for name in ("x", "y")}
    ckpt.load(store, into={"emb": ckpt.Table([7, 1000, 1], there)})
    assert there["x"].get() == bytes([rows[993], rows[0], rows[999]])
    assert there["y"].get() == bytes([more[993], more[0], more[999]])
    with ckpt.Reader(store) as reader, reader.share("emb") as share, ckpt.Load(reader) as load:
        loaded, to = np.zeros(1000, np.int64), DeviceArray(cudart, bytes(1000))
        load.add_table(share, loaded, {"x": to})
        load.run()
    assert to.get() == bytes(rows[1000 - id] for id in loaded)


class TorchCuda:
    """torch.cuda: a current device and its current stream."""

    def __init__(self, stream: int) -> None:
        self.current, self.kept = 0, types.SimpleNamespace(cuda_stream=stream)

    def current_stream(self, device: int) -> Any:
        return self.kept

    @contextlib.contextmanager
    def device(self, device: int) -> Iterator[None]:
        before, self.current = self.current, device
        yield
        self.current = before


class TorchArray(DeviceArray):
    """What torch says of an array of bytes on a device."""

    requires_grad = False

    def __dlpack__(self, **wanted: Any) -> Any:
        if sys.modules["torch"].cuda.current != self.device_id:  # type: ignore[attr-defined]
            raise BufferError("Can't export tensors on a different CUDA device index.")
        return super().__dlpack__(**wanted)

    def detach(self) -> TorchArray:
        return self


@pytest.fixture
def stream(cudart: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """torch's current stream, in which copies are late."""
    class Fake(ctypes.Structure):
        _fields_ = [(name, ctypes.c_void_p) for name in ("counts", "fail_call", "fail_copy", "delay_us", "reset_peak")]

    delay: Any = lambda least, most: None  # a real device takes its time by itself
    if hasattr(cudart, "ckpt_fake_cudart"):
        delay = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(Fake.in_dll(cudart, "ckpt_fake_cudart").delay_us)
    made, non_blocking = ctypes.c_void_p(), 1
    assert cudart.cudaStreamCreateWithFlags(ctypes.byref(made), non_blocking) == 0
    torch = types.ModuleType("torch")  # which needs a GPU to have such arrays
    torch.Tensor, torch.cuda = TorchArray, TorchCuda(made.value or 0)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    delay(2000, 4000)
    yield made.value or 0
    delay(0, 0)
    assert cudart.cudaStreamDestroy(made) == 0


def write_late(cudart: Any, array: DeviceArray, content: bytes, stream: int) -> DeviceArray:
    """As what a training has put into a stream."""
    source = DeviceArray(cudart, content)
    for _ in range(20):
        assert cudart.cudaMemcpyAsync(array.address, source.address, ctypes.c_size_t(len(content)), DEFAULT,
                                      ctypes.c_void_p(stream)) == 0
    return source


def test_a_tensor_of_torch_on_another_device_than_the_current_one_is_taken(cudart: Any, stream: int) -> None:
    tensor = TorchArray(cudart, bytes(10), 1)
    memory = ckpt.Memory.of(tensor)
    assert (memory.device, memory.stream, memory.address) == ((CUDA, tensor.device_id), stream, tensor.address.value)
    assert sys.modules["torch"].cuda.current == 0  # type: ignore[attr-defined]


def test_what_torchs_current_stream_still_makes_is_saved(cudart: Any, store: ckpt.Store, session: ckpt.Session,
                                                         stream: int) -> None:
    content, rows = os.urandom(1 << 20), os.urandom(1000)
    tensor, column = TorchArray(cudart, bytes(len(content))), TorchArray(cudart, bytes(1000))
    with ckpt.Save(session, "a") as save:
        save.add_tensor("w", tensor)
        save.add_table("emb", np.arange(1000), {"x": column})
        kept = [write_late(cudart, tensor, content, stream), write_late(cudart, column, rows, stream)]
        save.run()
    assert len(kept) == 2
    with ckpt.Reader(store, "a") as reader:
        assert load_one(reader, "w", bytearray(len(content))) == content
        found = reader.share("emb", ckpt.Rowset.ids(np.arange(1000))).read(framework="numpy")
        assert found.columns["x"].tobytes() == rows


def test_a_load_writes_rows_after_what_torchs_current_stream_still_does(
        cudart: Any, store: ckpt.Store, session: ckpt.Session, stream: int) -> None:
    rows = os.urandom(1000)
    with ckpt.Save(session, "a") as save:
        save.add_table("emb", np.arange(1000), {"x": np.frombuffer(rows, "u1")})
        save.run()
    column = TorchArray(cudart, bytes(1000))
    with ckpt.Reader(store) as reader, ckpt.Load(reader) as load:
        with reader.share("emb", ckpt.Rowset.ids(np.arange(1000))) as share:
            load.add_table(share, None, {"x": column})
        kept = write_late(cudart, column, os.urandom(1000), stream)
        load.run()
    assert cudart.cudaStreamSynchronize(ctypes.c_void_p(stream)) == 0 and kept.get() != rows
    assert column.get() == rows


def test_what_a_table_cannot_have_on_a_device_is_refused_by_name(cudart: Any, session: ckpt.Session) -> None:
    ids, there = np.arange(10), DeviceArray(cudart, bytes(10))
    columns = {"x": there, "y": DeviceArray(cudart, bytes(10), 1)}
    if columns["y"].device_id != 0:  # there are several
        with ckpt.Save(session, "a") as save, pytest.raises(ckpt.InvalidError, match="2:0, stream 1.*found.*2:1") as at:
            save.add_table("emb", ids, columns)
        assert at.value.details["tensor"] == "emb/y"
    with ckpt.Save(session, "b") as save, pytest.raises(ckpt.InvalidError, match="2:0, stream 1.*found.*1:0"):
        save.add_table("emb", ids, {"x": there, "y": np.zeros(10)})
    with ckpt.Save(session, "c") as save, pytest.raises(ckpt.UnsupportedError, match="positions.*memory of the CPU"):
        save.add_table("emb", ids, {"x": there}, positions=there)
    with ckpt.Save(session, "d") as save, pytest.raises(ckpt.UnsupportedError, match="ids.*memory of the CPU"):
        save.add_table("emb", there, {"x": there})


def test_memory_of_the_host_that_is_said_to_be_a_devices_is_invalid(cudart: Any, session: ckpt.Session) -> None:
    with ckpt.Save(session, "a") as save, pytest.raises(ckpt.InvalidError, match="said to be on cuda:0") as caught:
        save.add_tensor("w", Producer(device=CUDA))
    assert caught.value.details["tensor"] == "w"
