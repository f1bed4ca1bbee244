"""numpy's random generators as records and back: what their pickles say, without running what a pickle names."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from .frameworks import loaded
from .trees import Record

_PICKLE = "numpy.random._pickle"

# The arrays in a bit generator's state, with dtype and length.
_ARRAYS: dict[str, dict[str, tuple[str, int]]] = {
    "MT19937": {"key": ("uint32", 624)},
    "PCG64": {},
    "PCG64DXSM": {},
    "Philox": {"counter": ("uint64", 4), "key": ("uint64", 2), "buffer": ("uint64", 4)},
    "SFC64": {"state": ("uint64", 4)},
}
# And the numbers, below which limit. numpy does not look, and would read past its arrays.
_LIMITS = {"pos": 625, "buffer_pos": 5, "has_uint32": 2, "uinteger": 2**32, "state": 2**128, "inc": 2**128,
           "has_gauss": 2}


def record_of(value: Any) -> Record | None:
    """The record of a Generator, RandomState, bit generator or SeedSequence of numpy's own; None for anything else."""
    module = loaded("numpy.random")
    if module is None or not _is_known(module, type(value)):
        return None
    function, args, state = (*value.__reduce__(), None)[:3]
    items: dict[str, Any] = {"args": tuple(_argument(argument) for argument in args)}
    if state is not None:
        items["state"] = state
    return Record(f"{function.__module__}.{function.__name__}", items)


def _is_known(module: Any, kind: type) -> bool:
    known = ("Generator", "RandomState", "SeedSequence", *_ARRAYS)
    return any(kind is getattr(module, name, None) for name in known)


def _argument(value: Any) -> Any:
    if isinstance(value, type):
        return Record("builtins.type", {"name": f"{value.__module__}.{value.__name__}"})
    return value


def generator_of(record: Record) -> Any:
    """The object of such a record, or the record itself if it is none. Raises LookupError, TypeError or ValueError if
    no generator can be in that state."""
    import numpy
    module, _, name = record.class_name.rpartition(".")
    args: Any = record.items.get("args", ())
    state: Any = record.items.get("state")
    if name == "__pyx_unpickle_SeedSequence":
        return _seed_sequence(numpy, *state)
    if module != _PICKLE or name not in ("__generator_ctor", "__randomstate_ctor", "__bit_generator_ctor"):
        return record
    bits = _bit_generator(numpy, args[0], state[1] if isinstance(state, tuple) else None)
    if name == "__bit_generator_ctor" or (name == "__generator_ctor" and state is not None):
        bits.state = _checked(numpy, type(bits).__name__, state[0] if isinstance(state, tuple) else state)
    if name == "__bit_generator_ctor":
        return bits
    if name == "__generator_ctor":
        return numpy.random.Generator(bits)
    made = numpy.random.RandomState(bits)
    made.set_state(_checked(numpy, type(bits).__name__, state))
    return made


def _bit_generator(numpy: Any, given: Any, seed: Any) -> Any:
    """A bit generator, by itself or by its class, or in older pickles by its name."""
    if isinstance(given, numpy.random.BitGenerator):
        return given
    module, _, name = (given if isinstance(given, str) else given.items["name"]).rpartition(".")
    if name not in _ARRAYS or module not in ("", getattr(numpy.random, name).__module__):
        raise LookupError(name)
    return getattr(numpy.random, name)(seed if isinstance(seed, numpy.random.SeedSequence) else 0)


def _seed_sequence(numpy: Any, entropy: Any, spawned: int, pool: Any, pool_size: int, key: Any) -> Any:
    if pool_size != len(pool):  # which is memory that the record paid for
        raise ValueError
    return numpy.random.SeedSequence(entropy, spawn_key=key, pool_size=pool_size, n_children_spawned=spawned)


def _checked(numpy: Any, kind: str, state: Any) -> dict[str, Any]:
    if not isinstance(state, Mapping) or state["bit_generator"] != kind:
        raise ValueError
    return {key: _checked_value(numpy, kind, key, value) for key, value in state.items()}


def _checked_value(numpy: Any, kind: str, key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {inner: _checked_value(numpy, kind, inner, item) for inner, item in value.items()}
    if key in _ARRAYS[kind]:
        dtype, length = _ARRAYS[kind][key]
        array = numpy.asarray(value)
        if array.dtype != dtype or array.shape != (length,):
            raise ValueError
        return array
    if key in _LIMITS and not (type(value) is int and 0 <= value < _LIMITS[key]):
        raise ValueError
    return value


def is_generator(value: Any) -> bool:
    """Whether it draws random numbers, and can take the state of another one."""
    numpy, torch = loaded("numpy.random"), loaded("torch")
    kinds = [random.Random, torch and torch.Generator]
    kinds += [numpy.Generator, numpy.RandomState, numpy.BitGenerator] if numpy else []
    return isinstance(value, tuple(kind for kind in kinds if kind))


def fill(like: Any, made: Any) -> None:
    """Puts the state of a generator into the caller's, which others may hold."""
    if isinstance(like, random.Random):
        like.setstate(made.getstate())
    elif hasattr(like, "bit_generator"):
        like.bit_generator.state = made.bit_generator.state
    elif hasattr(like, "get_state"):  # torch's, and numpy's RandomState
        like.set_state(made.get_state())
    else:
        like.state = made.state


def fits(like: Any, record: Record) -> bool:
    """Whether the record is of a generator that draws as `like` does, of the same bit generator or device."""
    device = getattr(like, "device", None)
    if isinstance(like, random.Random):
        return record.class_name == "random.Random"
    bits = getattr(like, "bit_generator", getattr(like, "_bit_generator", like))
    return drawn_by(record) == (type(bits).__name__ if device is None else device.type)


def drawn_by(record: Record) -> str:
    """The name of the bit generator or device of a saved generator."""
    found: Any = record
    while isinstance(found, Record) and not {"name", "type"} & found.items.keys():
        args = found.items.get("args")
        found = args[0] if isinstance(args, tuple) and args else None
    told = found.items.get("name", found.items.get("type")) if isinstance(found, Record) else found
    return str(told).rpartition(".")[2]
