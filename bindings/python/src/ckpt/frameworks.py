"""The dtypes of numpy and torch, and new arrays of them. Nothing is imported before it is needed."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any, Literal, Protocol

from .enums import DType, Status
from .errors import Error, error_of

FrameworkName = Literal["numpy", "torch"]

_NUMPY = {
    DType.I8: "int8", DType.I16: "int16", DType.I32: "int32", DType.I64: "int64",
    DType.U8: "uint8", DType.U16: "uint16", DType.U32: "uint32", DType.U64: "uint64",
    DType.F16: "float16", DType.F32: "float32", DType.F64: "float64",
    DType.C64: "complex64", DType.C128: "complex128", DType.BOOL: "bool",
}
_ML_DTYPES = {
    DType.BF16: "bfloat16", DType.F8_E3M4: "float8_e3m4", DType.F8_E4M3: "float8_e4m3",
    DType.F8_E4M3B11FNUZ: "float8_e4m3b11fnuz", DType.F8_E4M3FN: "float8_e4m3fn",
    DType.F8_E4M3FNUZ: "float8_e4m3fnuz", DType.F8_E5M2: "float8_e5m2", DType.F8_E5M2FNUZ: "float8_e5m2fnuz",
    DType.F8_E8M0FNU: "float8_e8m0fnu",
}
# An older torch lacks some of these.
_TORCH = _NUMPY | _ML_DTYPES | {DType.C32: "complex32", DType.F4_E2M1FN: "float4_e2m1fn_x2"}


def loaded(module: str) -> Any:
    """The module if the program has imported it, else None; without it there are no objects of it."""
    return sys.modules.get(module)


class Framework(Protocol):
    """Makes the arrays into which tensors are loaded."""

    name: FrameworkName

    def empty(self, name: str, dtype: DType, shape: tuple[int, ...]) -> Any:
        """A new array with undefined elements for tensor `name`."""

    def view(self, base: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
        """A view of contiguous `base`: strides and offset in elements."""


def _no_dtype(name: str, dtype: DType, where: str, more: str = "") -> Error:
    return error_of(Status.UNSUPPORTED, f"tensor '{name}': {where} has no dtype for {dtype}{more}; ckpt.Load reads it "
                    "as raw bytes (dtype=)", {"tensor": name, "found": str(dtype)})


class Numpy:
    """numpy arrays; bf16 and float8 need ml_dtypes."""

    name: FrameworkName = "numpy"

    def __init__(self) -> None:
        import numpy
        self._numpy = numpy

    def _dtype(self, name: str, dtype: DType) -> Any:
        if dtype in _NUMPY:
            return _NUMPY[dtype]
        if dtype not in _ML_DTYPES:
            raise _no_dtype(name, dtype, "numpy")
        try:
            import ml_dtypes
        except ImportError as error:
            raise _no_dtype(name, dtype, "numpy", " without the package ml_dtypes") from error
        return getattr(ml_dtypes, _ML_DTYPES[dtype])

    def empty(self, name: str, dtype: DType, shape: tuple[int, ...]) -> Any:
        return self._numpy.empty(shape, self._dtype(name, dtype))

    def view(self, base: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
        raw = base.reshape(-1).view("u1")  # as bytes: not every dtype has a buffer
        width = base.dtype.itemsize
        return self._numpy.ndarray(shape, base.dtype, raw, offset * width, [stride * width for stride in strides])


class Torch:
    """torch CPU tensors."""

    name: FrameworkName = "torch"

    def __init__(self) -> None:
        import torch
        self._torch = torch

    def empty(self, name: str, dtype: DType, shape: tuple[int, ...]) -> Any:
        found = getattr(self._torch, _TORCH.get(dtype, ""), None)
        if found is None:
            raise _no_dtype(name, dtype, f"torch {self._torch.__version__}")
        if dtype == DType.F4_E2M1FN:  # an element of torch is a pair of them
            if not shape or shape[-1] % 2:
                raise _no_dtype(name, dtype, "torch", " with rows of an odd length")
            shape = (*shape[:-1], shape[-1] // 2)
        return self._torch.empty(shape, dtype=found)

    def view(self, base: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
        return base.as_strided(shape, strides, offset)


def framework_of(name: str) -> Framework:
    """The framework of that name, which is imported here."""
    if name == "numpy":
        return Numpy()
    if name == "torch":
        return Torch()
    raise ValueError(f"framework: expected 'numpy' or 'torch', found {name!r}")


SAVED_AS = "ckpt.framework"
"""The attribute that says whose arrays were saved: of a checkpoint "torch", or "mixed" if each of torch's says so."""


def saved_framework(saved_as: str | None) -> FrameworkName:
    """The framework of what was saved, if it is installed here."""
    installed = loaded("torch") is not None or importlib.util.find_spec("torch") is not None
    return "torch" if saved_as in ("torch", "mixed") and installed else "numpy"


def framework_name_of(value: Any) -> FrameworkName | None:
    """The framework of an array; None for anything else."""
    torch, numpy = loaded("torch"), loaded("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch"
    if numpy is not None and isinstance(value, numpy.ndarray):
        return "numpy"
    return None


def is_array(value: Any) -> bool:
    """Whether the caller means it as memory to load into; Memory.of refuses jax arrays, which never change."""
    jax = loaded("jax")
    return framework_name_of(value) is not None or (jax is not None and isinstance(value, jax.Array))
