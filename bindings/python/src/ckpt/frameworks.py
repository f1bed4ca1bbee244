"""The dtypes of numpy, torch and jax, and new arrays of them. Nothing is imported before it is needed."""

from __future__ import annotations

import importlib
import math
import sys
from functools import cached_property
from typing import Any, Literal, Protocol

from .enums import NUMPY, TORCH, DType, Status
from .errors import Error, error_of, value_error

FrameworkName = Literal["numpy", "torch", "jax"]

# torch's orders of memory other than row-major, by the number of dimensions.
MEMORY_FORMATS = {4: "torch.channels_last", 5: "torch.channels_last_3d"}


def memory_format_of(torch: Any, tensor: Any) -> str | None:
    """The name of the tensor's memory format, unless its memory is in row-major order or in none that has a name."""
    name = MEMORY_FORMATS.get(tensor.dim())
    if name is None or tensor.is_contiguous():
        return None
    return name if tensor.is_contiguous(memory_format=getattr(torch, name.removeprefix("torch."))) else None


def is_whole(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> bool:
    """Whether a view is its target from the first element on, in row-major order."""
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return offset == 0


def loaded(module: str) -> Any:
    """The module if the program has imported it, else None; without it there are no objects of it."""
    return sys.modules.get(module)


def is_installed(name: str) -> bool:
    """Whether imported() finds it."""
    from importlib.util import find_spec  # not before it is needed
    return loaded(name) is not None or find_spec(name) is not None


def imported(name: str) -> Any:
    """The module of a framework whose arrays are needed now; ModuleNotFoundError says what to install."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:  # it is there, and lacks something itself
            raise
        raise ModuleNotFoundError(f"these arrays need {name}, which is not installed: pip install {name}, or choose "
                                  "another framework (framework=)", name=name) from None


class Framework(Protocol):
    """Makes the arrays into which tensors are loaded."""

    name: FrameworkName

    def dtype(self, name: str, dtype: DType) -> Any:
        """The framework's dtype for tensor `name`."""

    def empty(self, name: str, dtype: DType, shape: tuple[int, ...], memory_format: str | None = None) -> Any:
        """A new array with undefined elements for tensor `name`. Only torch knows memory formats."""

    def view(self, base: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
        """A view of `base`: strides and offset in elements of it in row-major order. None if the order of its memory is
        another, so that there is no such view."""

    def finished(self, array: Any) -> Any:
        """What a load returns for an array of empty() or view() that it has filled."""


def _no_dtype(name: str, dtype: DType, where: str, more: str = "") -> Error:
    return error_of(Status.UNSUPPORTED, f"tensor '{name}': {where} has no dtype for {dtype}{more}; ckpt.Load reads it "
                    "as raw bytes (dtype=)", {"tensor": name, "found": str(dtype)})


class Numpy:
    """numpy arrays; bf16 and float8 need ml_dtypes."""

    name: FrameworkName = "numpy"

    @cached_property
    def _numpy(self) -> Any:
        return imported("numpy")  # not before there is an array

    def dtype(self, name: str, dtype: DType) -> Any:
        if dtype in NUMPY:
            return self._numpy.dtype(NUMPY[dtype])
        if not str(dtype).startswith(("bf16", "f8_")):
            raise _no_dtype(name, dtype, "numpy")
        try:
            import ml_dtypes
        except ImportError as error:
            raise _no_dtype(name, dtype, "numpy", " without the package ml_dtypes") from error
        return self._numpy.dtype(getattr(ml_dtypes, str(dtype).replace("f", "float", 1)))

    def empty(self, name: str, dtype: DType, shape: tuple[int, ...], memory_format: str | None = None) -> Any:
        return self._numpy.empty(shape, self.dtype(name, dtype))

    def view(self, base: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
        raw = base.reshape(-1).view("u1")  # as bytes: not every dtype has a buffer
        width = base.dtype.itemsize
        return self._numpy.ndarray(shape, base.dtype, raw, offset * width, [stride * width for stride in strides])

    def finished(self, array: Any) -> Any:
        return array


class Torch:
    """torch CPU tensors."""

    name: FrameworkName = "torch"

    @cached_property
    def _torch(self) -> Any:
        return imported("torch")

    def dtype(self, name: str, dtype: DType) -> Any:
        found = torch_dtype(self._torch, dtype)
        if found is None:
            raise _no_dtype(name, dtype, f"torch {self._torch.__version__}")
        return found

    def empty(self, name: str, dtype: DType, shape: tuple[int, ...], memory_format: str | None = None) -> Any:
        found = self.dtype(name, dtype)
        if dtype == DType.F4_E2M1FN:  # an element of torch is a pair of them
            if not shape or shape[-1] % 2:
                raise _no_dtype(name, dtype, "torch", " with rows of an odd length")
            shape = (*shape[:-1], shape[-1] // 2)
        wanted = MEMORY_FORMATS.get(len(shape))
        if wanted is None or wanted != memory_format:
            return self._torch.empty(shape, dtype=found)
        return self._torch.empty(shape, dtype=found, memory_format=getattr(self._torch, wanted.removeprefix("torch.")))

    def view(self, base: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
        if base.is_contiguous():
            return base.as_strided(shape, strides, offset)
        return base.view(shape) if shape == tuple(base.shape) and is_whole(shape, strides, offset) else None

    def finished(self, array: Any) -> Any:
        return array


class Jax(Numpy):
    """jax arrays on the default device. They never change, so those of numpy are filled, and these made of them."""

    name: FrameworkName = "jax"

    @cached_property
    def _jax(self) -> Any:
        return imported("jax")

    def dtype(self, name: str, dtype: DType) -> Any:
        found = super().dtype(name, dtype)
        try:
            check_jax_dtype(self._jax, found)
        except Error as error:
            error._name_tensor(name)
            raise
        return found

    def empty(self, name: str, dtype: DType, shape: tuple[int, ...], memory_format: str | None = None) -> Any:
        return aligned(shape, self.dtype(name, dtype))

    def finished(self, array: Any) -> Any:
        return self._jax.device_put(array)


def aligned(shape: tuple[int, ...], dtype: Any) -> Any:
    """A new array of numpy that begins where jax on the CPU takes memory as it is; others it copies."""
    import numpy
    count, align = math.prod(shape) * dtype.itemsize, 64
    raw = numpy.empty(count + align, "u1")
    skip = -raw.__array_interface__["data"][0] % align
    return raw[skip:skip + count].view(dtype).reshape(shape)


def check_jax_dtype(jax: Any, dtype: Any) -> None:
    """Raises UnsupportedError for a dtype of numpy that jax, as it is set, would silently replace."""
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise error_of(Status.UNSUPPORTED, f"jax would make {jax.dtypes.canonicalize_dtype(dtype)} of {dtype}: set "
                       "jax_enable_x64, or load it into numpy", {"expected": str(dtype), "found": str(
                           jax.dtypes.canonicalize_dtype(dtype))})


def torch_dtype(torch: Any, dtype: DType) -> Any:
    """torch's dtype, or None."""
    return getattr(torch, TORCH.get(dtype, ""), None)


def framework_of(name: str) -> Framework:
    """The framework of that name, which is imported with its first array."""
    if name == "numpy":
        return Numpy()
    if name == "torch":
        return Torch()
    if name == "jax":
        return Jax()
    raise value_error(f"framework: expected 'numpy', 'torch' or 'jax', found {name!r}")


SAVED_AS = "ckpt.framework"
"""The attribute that says whose arrays were saved: of a checkpoint "torch", "jax" if others say "numpy", or "mixed" if
others say "numpy" or "jax"."""


def saved_framework(saved_as: str | None) -> FrameworkName:
    """The framework of what was saved, if it is installed here."""
    name: FrameworkName = "torch" if saved_as in ("torch", "mixed") else "jax" if saved_as == "jax" else "numpy"
    return name if name == "numpy" or is_installed(name) else "numpy"


def framework_name_of(value: Any) -> FrameworkName | None:
    """The framework of an array, or of a ShapeDtypeStruct, which stands for one of jax; None for anything else."""
    torch, numpy, jax = loaded("torch"), loaded("numpy"), loaded("jax")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch"
    if numpy is not None and isinstance(value, numpy.ndarray):
        return "numpy"
    if jax is not None and isinstance(value, (jax.Array, jax.ShapeDtypeStruct)):
        return None if is_key(value) else "jax"
    return None


def is_key(value: Any) -> bool:
    """Whether it is an array of typed keys of jax, or a ShapeDtypeStruct of one: a value with a meaning beside its
    numbers."""
    jax = loaded("jax")
    return (jax is not None and isinstance(value, (jax.Array, jax.ShapeDtypeStruct))
            and bool(jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)))


def is_array(value: Any) -> bool:
    """Whether the caller means it as memory to load into, or to be replaced by a new array (of jax)."""
    cupy = loaded("cupy")
    return framework_name_of(value) is not None or (cupy is not None and isinstance(value, cupy.ndarray))
