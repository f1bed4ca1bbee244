"""What commands work with: their words, keys and options, the scenario's objects by name, and what they reply."""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

import ckpt

T = TypeVar("T")
NUMBERS = (ckpt.CheckpointFlags, ckpt.Codec, ckpt.Filter, ckpt.IoEngine)  # constants that replies say by number


class Failure(Exception):
    """The command cannot be carried out."""


def unquoted(text: str) -> str:
    """Bytes that are not UTF-8 become surrogates, which ckpt refuses."""
    return unquote_to_bytes(text).decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def shape_text(extents: tuple[int, ...]) -> str:
    return " ".join(map(str, extents))


def spelled(found: object) -> str:
    if isinstance(found, ckpt.DType):
        return str(found) if str(found) != "dtype" else str(int(found))
    if isinstance(found, enum.IntEnum) and not isinstance(found, NUMBERS):
        return found.name
    if isinstance(found, int):
        return str(int(found))
    if isinstance(found, tuple):
        return shape_text(found)
    if isinstance(found, bytes):
        return found.decode("utf-8", "surrogateescape")
    return "" if found is None else str(found)


def record(of: Any, **others: object) -> dict[str, str]:
    """The reply that says all fields of a record, and the others."""
    fields = {field.name: getattr(of, field.name) for field in dataclasses.fields(of)}
    return {key: spelled(value) for key, value in {**fields, **others}.items()}


def numbers_in(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.replace(":", " ").split()))


class Runner:
    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}
        self._lent: dict[str, Any] = {}  # trees, by the file that they belong to

    # ---- the command ----

    def take(self, fields: list[str]) -> None:
        self.words = [unquoted(field) for field in fields if field[:1] not in ("=", "@", "$")]
        pairs = [(field[0], *field[1:].split("=", 1)) for field in fields if field[:1] in ("=", "@", "$")]
        self._keys = {key: unquoted(value) for sign, key, value in pairs if sign == "="}
        self.options: dict[str, int | str] = {key: int(value) if sign == "@" else unquoted(value)
                                              for sign, key, value in pairs if sign != "="}

    def call_job(self) -> ckpt.Job | None:
        """The job that the command names for its call."""
        return self.named(self._keys["job"], ckpt.Job) if "job" in self._keys else None

    def number(self, word: int) -> int:
        return int(self.words[word])

    def octets(self, word: int) -> bytes:
        return encoded(self.words[word])

    def key(self, key: str) -> str | None:
        return self._keys.get(key)

    def numbers(self, key: str) -> tuple[int, ...] | None:
        return numbers_in(self._keys[key]) if key in self._keys else None

    def tensor(self, first: int) -> dict[str, Any]:
        """The keyword arguments of add_tensor: DTYPE, SHAPE (the words from `first` on) and the keys of a region."""
        dtype, shape = self.words[first:first + 2]
        out: dict[str, Any] = {"dtype": int(dtype) if dtype.isdigit() else dtype, "shape": numbers_in(shape)}
        if (box := self.numbers("box")) is not None:
            half = len(box) // 2
            out |= {"offset": box[:half], "extent": box[half:]}
        if (flat := self.numbers("flat")) is not None:
            out["flat_offset"], out["flat_size"] = flat
        if "first_replica" in self._keys:
            out["first_replica"] = self.numbers("first_replica") == (1,)
        return out | {key: self.numbers(key) for key in ("strides", "replica", "device") if key in self._keys}

    # ---- objects ----

    def named(self, name: str, kind: type[T]) -> T:
        found = self._objects.get(name)
        if not isinstance(found, kind):
            raise Failure(f"expected a {kind.__name__} {name}, found {type(found).__name__ if found else 'none'}")
        return found

    def get(self, word: int, kind: type[T]) -> T:
        """The object whose name is this word of the command."""
        return self.named(self.words[word], kind)

    def data(self, word: int) -> bytearray | None:
        return self.get(word, bytearray) if self.words[word] else None

    def put(self, word: int, value: Any, lent_by: Any = None) -> None:
        """Names the value by this word of the command; frees what had that name before."""
        name = self.words[word]
        if name in self._objects:
            self.free(name)
        self._objects[name] = value
        if lent_by is not None:
            self._lent[name] = lent_by

    def free(self, name: str) -> None:
        if name not in self._objects:
            raise Failure(f"expected an object {name}, found none")
        gone = self._objects.pop(name)
        self._lent.pop(name, None)
        for tree in [tree for tree, owner in self._lent.items() if owner is gone]:
            self.free(tree)
        if hasattr(gone, "close"):
            gone.close()

    def close(self) -> None:
        for kind in (ckpt.Job, object):  # jobs first: until they end, the engine uses the memory
            for name in [name for name, value in self._objects.items() if isinstance(value, kind)]:
                if name in self._objects:
                    self.free(name)


# A list is the words of the reply, a dict its record; anything else says no more than that the call succeeded.
Commands = dict[str, Callable[[Runner], object]]
