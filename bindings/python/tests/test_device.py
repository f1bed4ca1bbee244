"""Memory of CUDA devices, on the fake libcudart of tests/cuda (CKPT_FAKE_CUDART names it): which device and stream an
array tells, and that saves and loads read and write the device's memory itself."""

from __future__ import annotations

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

LIBRARY = os.environ.get("CKPT_FAKE_CUDART")
pytestmark = pytest.mark.cuda

CUDA, MANAGED, DEFAULT = 2, 13, 4


class DeviceArray(Producer):
    """An array of bytes in the memory of a device, which the host cannot touch."""

    def __init__(self, cudart: Any, content: bytes, device_id: int = 0) -> None:
        super().__init__(device=CUDA, code=1, bits=8, count=len(content))
        self.cudart, self.content_size = cudart, len(content)
        self.address = ctypes.c_void_p()
        assert cudart.cudaSetDevice(device_id) == 0
        assert cudart.cudaMalloc(ctypes.byref(self.address), ctypes.c_size_t(len(content))) == 0
        assert cudart.cudaSetDevice(0) == 0
        assert cudart.cudaMemcpy(self.address, content, ctypes.c_size_t(len(content)), DEFAULT) == 0
        self.place, self.offset, self.device_id = self.address.value, 0, device_id

    def get(self) -> bytes:
        out = ctypes.create_string_buffer(self.content_size)
        assert self.cudart.cudaMemcpy(out, self.address, ctypes.c_size_t(self.content_size), DEFAULT) == 0
        return out.raw


@pytest.fixture
def cudart() -> Iterator[Any]:
    assert LIBRARY and os.environ.get("CKPT_CUDART") == LIBRARY, "set CKPT_FAKE_CUDART and CKPT_CUDART to the fake"
    yield ctypes.CDLL(LIBRARY)


def test_an_array_tells_its_device_and_is_asked_behind_the_legacy_stream(cudart: Any) -> None:
    array = DeviceArray(cudart, b"0123456789", 1)
    memory = ckpt.Memory.of(array)
    assert (memory.device, memory.stream, memory.address) == ((CUDA, 1), 1, array.address.value)
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


def test_memory_of_the_host_that_is_said_to_be_a_devices_is_invalid(cudart: Any, session: ckpt.Session) -> None:
    with ckpt.Save(session, "a") as save, pytest.raises(ckpt.InvalidError, match="said to be on cuda:0") as caught:
        save.add_tensor("w", Producer(device=CUDA))
    assert caught.value.details["tensor"] == "w"
