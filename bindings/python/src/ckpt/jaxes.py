"""jax arrays in a state. A save takes each distinct box of an array from where it lies. A load makes new arrays, since
those of jax never change. Imported only where a program has imported jax. No communication.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import jax
import numpy

from ._core import Memory
from .enums import Status
from .errors import Error, UnsupportedError, error_of
from .frameworks import aligned, check_jax_dtype, framework_name_of, is_key
from .kinds import bytes_of, is_plain
from .regions import Regions, Shard, replica_of

Box: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]  # offset and extent


def _box(index: Any, shape: tuple[int, ...]) -> Box:
    """What jax says as slices."""
    runs = [part.indices(size) for part, size in zip(index, shape)]
    return tuple(first for first, _, _ in runs), tuple(max(0, end - first) for first, end, _ in runs)


# ---- save ----


def check_alive(array: Any, where: str = "") -> None:
    """Raises InvalidError if the array has no values. `where`: begins the error."""
    if isinstance(array, jax.core.Tracer):
        raise error_of(Status.INVALID, f"{where}a tracer of jax, which has no values yet: expected an array; save "
                       "outside of jax.jit and the like", {"expected": "an array", "found": "a tracer"})
    if array.is_deleted():
        raise error_of(Status.INVALID, f"{where}a jax array that was deleted, or donated to a jitted function: "
                       "expected one with values; save what the function returned, or save before the call",
                       {"expected": "an array with values", "found": "a deleted array"})


class _Same:
    """Equal for one array only, which it keeps: a number of an array that is gone may come back."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._array is other._array

    def __hash__(self) -> int:
        return id(self._array)


def saved_of(array: Any, rank: int) -> Memory | Regions:
    """What this process saves of an array: its memory; or Regions, each distinct box that it has, with the processes
    that hold the same one, which share out its bytes. `rank`: of this process, for the save."""
    check_alive(array)
    shape = tuple(array.shape)
    here: dict[Box, Any] = {}
    for shard in array.addressable_shards:
        here.setdefault(_box(shard.index, shape), shard)
    if array.is_fully_addressable:
        holders: Mapping[Box, Collection[int]] = dict.fromkeys(here, ())
    else:
        _check_rank(rank)
        holders = _holders(array.sharding, shape)
    known_to_all = array.is_fully_addressable or len(next(iter(holders.values()), ())) == jax.process_count()
    if len(here) == len(holders) == 1 and known_to_all:
        return _memory(next(iter(here.values())).data)
    tail = () if is_plain(array.dtype) else (array.dtype.itemsize,)
    shards = tuple(Shard(_memory(shard.data), shape + tail, box[0] + (0,) * len(tail),
                         replica=replica_of(rank, list(holders[box]))) for box, shard in here.items())
    # Other processes may have the same array on devices of their own, of which this one's sharding knows nothing.
    return Regions(shards, array, _Same(array), array.is_fully_addressable)


def _check_rank(rank: int) -> None:
    if rank != jax.process_index():
        raise error_of(Status.INVALID, "a jax array that is spread over processes: expected that this process has the "
                       f"rank that jax.process_index() says, {jax.process_index()}, found rank {rank}; give the save "
                       "a path, or a session with these ranks",
                       {"expected": str(jax.process_index()), "found": str(rank)})


def _holders(sharding: Any, shape: tuple[int, ...]) -> dict[Box, set[int]]:
    """By box, the processes that hold it: every process finds the same."""
    out: dict[Box, set[int]] = {}
    for device, index in sharding.devices_indices_map(shape).items():
        out.setdefault(_box(index, shape), set()).add(device.process_index)
    return out


def _memory(data: Any) -> Memory:
    """Of an array on one device; a copy on the host if ckpt does not read that device's (TPU), or has no such dtype."""
    if not is_plain(data.dtype):
        return Memory.of(bytes_of(numpy.asarray(data)))
    try:
        return Memory.of(data)
    except UnsupportedError:
        return Memory.of(numpy.asarray(data))


def data_in(tree: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Of the fields of a dataclass that is a pytree, what is data. Static fields say the form of the tree, and a load
    makes the form of its target; functions are code, which no checkpoint has."""
    pairs = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda value: value is not tree)[0]
    names = {getattr(path[0], "name", getattr(path[0], "key", None)) for path, _ in pairs}
    return without_code({name: value for name, value in fields.items() if name in names})


def without_code(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without functions, and what has nothing else in it (optax.GradientTransformation)."""
    leaves = {name: jax.tree_util.tree_leaves(value) for name, value in fields.items()}
    return {name: value for name, value in fields.items() if not leaves[name] or not all(map(callable, leaves[name]))}


# ---- load ----


class Loads:
    """What one load reads for arrays, keys and ShapeDtypeStructs of `into`."""

    def __init__(self, request: Any, convert: bool) -> None:
        self._request, self._convert = request, convert
        self._filled: Counter[int] = Counter()  # how often, by id

    def takes(self, like: Any) -> bool:
        """Whether a new array or key stands for it."""
        return framework_name_of(like) == "jax" or is_key(like)

    def takes_record(self, like: Any, class_name: str, has_dtype: bool) -> bool:
        """Whether that, of the tensor in a record of keys, or of elements that no tensor has."""
        return is_key(like) or (class_name == "numpy.ndarray" and has_dtype and framework_name_of(like) == "jax")

    def ask(self, name: str, like: Any, marks: tuple[bool, bool], torch_dtype: str | None) -> Callable[[object], Any]:
        """Asks for a tensor, in the dtype and the boxes of `like`. What makes the array once it is loaded. `marks`,
        `torch_dtype`: what torch says of the saved one beside its numbers."""
        try:
            if any(marks) or torch_dtype is not None:
                raise error_of(Status.UNSUPPORTED, "the saved numbers are to be conjugated, negated or read as "
                               f"{torch_dtype or 'they are'}, by torch: expected a tensor of torch in into, found one "
                               "of jax", {"expected": "torch", "found": "jax"})
            target = _Target(like)
            for shard in target.shards():
                self._request.add_tensor(name, shard.data, shape=shard.shape, offset=shard.offset,
                                         convert=self._convert)
        except Error as error:
            if "tensor" not in error.details:
                error._name_tensor(name)
            raise
        self._filled[id(like)] += 1
        return target.make

    def number(self, value: bool | int | float, like: Any, path: str) -> Any:
        """A new array of a number that was saved: a step is a number of Python at first, and an array after jax.jit."""
        kinds = {bool: jax.numpy.bool_, int: jax.numpy.integer, float: jax.numpy.floating}
        target = None
        if like.shape == () and jax.dtypes.issubdtype(like.dtype, kinds[type(value)]):
            target = _Target(like)
        if target is None or not target.fill(value):
            raise error_of(Status.MISMATCH, f"into at '{path}' has an array of shape {like.shape} and dtype "
                           f"{like.dtype}, and the checkpoint has the number {value!r}",
                           {"path": path, "expected": str(like.dtype), "found": repr(value)})
        self._filled[id(like)] += 1
        return target.make(None)

    def check_record(self, like: Any, class_name: str, said: Any, path: str) -> None:
        """Raises MismatchError if a record does not make what `like` is. `said`: its keys' impl, or its dtype."""
        mine = f"keys of {_impl_of(like.dtype)}" if is_key(like) else f"elements of {like.dtype}"
        kinds = {KEY: f"keys of {said}", "numpy.ndarray": f"elements of {said}"}
        found = kinds.get(class_name, f"a {class_name}")
        if mine != found:
            raise error_of(Status.MISMATCH, f"into at '{path}' has {mine}, and the checkpoint has {found}",
                           {"path": path, "expected": mine, "found": found})

    def unfilled(self, found: list[tuple[str, Any]], names: Collection[str]) -> list[tuple[str, Any]]:
        """Of arrays of `into` with their paths, those that nothing was read for. One object may stand at several
        paths, so they are counted. `names`: of the tensors that were read."""
        left, filled = Counter(self._filled), set()
        for place, (_, value) in sorted(enumerate(found), key=lambda each: each[1][0] not in names):
            if left[id(value)] > 0:
                left[id(value)] -= 1
                filled.add(place)
        return [pair for place, pair in enumerate(found) if place not in filled]


class _Target:
    """Memory for each distinct box that this process has of a new array, and then the array."""

    def __init__(self, like: Any) -> None:
        self._like, self._shape = like, tuple(like.shape)
        words = _words_of(like)
        dtype = numpy.dtype(words.dtype)
        check_jax_dtype(jax, dtype)
        self._words = tuple(words.shape[len(self._shape):])  # of each key
        self._sharding = _sharding_of(like)
        self._places: list[tuple[Any, Box]] = []
        boxes: set[Box] = {((0,) * len(self._shape), self._shape)}
        if self._sharding is not None:
            self._places = [(device, _box(index, self._shape))
                            for device, index in _indices(self._sharding, self._shape).items()]
            boxes = {box for _, box in self._places}
        self._buffers = {box: aligned(box[1] + self._words, dtype) for box in boxes}

    def shards(self) -> list[Shard]:
        """What the engine fills."""
        out = []
        for (offset, _), buffer in self._buffers.items():
            bytewise = not is_plain(buffer.dtype)
            tail = self._words + ((buffer.dtype.itemsize,) if bytewise else ())
            out.append(Shard(bytes_of(buffer) if bytewise else buffer, self._shape + tail, offset + (0,) * len(tail)))
        return out

    def fill(self, value: bool | int | float) -> bool:
        """Fills an array without dimensions; False if its dtype cannot hold the integer."""
        try:
            for buffer in self._buffers.values():
                buffer[()] = value
        except OverflowError:
            return False
        return True

    def make(self, _: object) -> Any:
        """The new array. Its host memory is let go as soon as jax has it."""
        buffers, self._buffers = self._buffers, {}
        if self._sharding is None:
            return self._keyed(jax.device_put(_as_weak(self._like, *buffers.values())))
        kind = self._sharding.memory_kind
        arrays = jax.device_put([buffers[box] for _, box in self._places],
                                [jax.sharding.SingleDeviceSharding(device, memory_kind=kind)
                                 for device, _ in self._places])
        more = {} if arrays else {"dtype": self._like.dtype}  # nothing here says it
        return jax.make_array_from_single_device_arrays(self._shape, self._sharding, list(map(self._keyed, arrays)),
                                                        **more)

    def _keyed(self, array: Any) -> Any:
        """A key of its words; any other array itself."""
        if not is_key(self._like):
            return array
        return jax.random.wrap_key_data(array, impl=_impl_of(self._like.dtype))


def _sharding_of(like: Any) -> Any:
    """Where the new array is to be; None: on the default device, from which jax may move it."""
    if isinstance(like, jax.Array) and not like.committed:
        return None
    sharding, named = like.sharding, jax.sharding
    if isinstance(getattr(sharding, "mesh", None), named.AbstractMesh):  # jax.eval_shape says no devices
        mesh = named.get_mesh()
        if mesh.empty or mesh.abstract_mesh.shape != sharding.mesh.shape:
            raise error_of(Status.UNSUPPORTED, f"its sharding has no devices, {sharding.spec} over an abstract mesh "
                           f"{dict(sharding.mesh.shape)}: load inside of jax.set_mesh(mesh), or give a NamedSharding "
                           "over a Mesh", {"expected": "a Mesh", "found": "an AbstractMesh"})
        return named.NamedSharding(mesh, sharding.spec)
    return sharding


def _indices(sharding: Any, shape: tuple[int, ...]) -> Any:
    """What each device of this process has."""
    try:
        return sharding.addressable_devices_indices_map(shape)
    except ValueError as error:  # the shape of a ShapeDtypeStruct is not yet divided
        raise error_of(Status.INVALID, f"a ShapeDtypeStruct of shape {shape}: {error}",
                       {"expected": "a shape that its sharding divides", "found": str(shape)}) from error


def _as_weak(like: Any, buffer: Any) -> Any:
    """A number of Python for a scalar of a weak type, which a stronger one would promote otherwise than before."""
    return jax.numpy.asarray(buffer.item()) if not buffer.shape and like.weak_type else buffer


# ---- keys, and elements of less than a byte: records of a tensor, and of what it means ----

KEY = "jax.random.key"
_impls: dict[Any, str] = {}  # of keys, by dtype


def _words_of(like: Any) -> Any:
    """Shape and dtype of what the engine knows: of keys, the numbers that they are."""
    if not is_key(like):
        return like
    return jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(tuple(like.shape), like.dtype))


def _impl_of(dtype: Any) -> str:
    """What makes keys of a dtype. Of a ShapeDtypeStruct jax says it only to a function that it traces."""
    if dtype not in _impls:
        def look(key: Any) -> int:
            _impls[dtype] = str(jax.random.key_impl(key))
            return 0
        jax.eval_shape(look, jax.ShapeDtypeStruct((), dtype))
    return _impls[dtype]
