"""Runs commands: their words and keys, what the keys expect, and the scenario's objects by name."""

import enum
from collections.abc import Callable
from typing import Any, TypeVar

import ckpt

T = TypeVar("T")


class Failure(Exception):
    """The scenario failed."""


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def shape_text(extents: tuple[int, ...]) -> str:
    return " ".join(map(str, extents))


def spellings(found: object) -> set[str]:
    """The ways in which scenarios may write a value."""
    if isinstance(found, ckpt.DType):
        return {str(found), str(int(found))}
    if isinstance(found, enum.IntEnum):
        return {found.name, found.name.lower().replace("_", "-"), str(int(found))}
    if isinstance(found, int):
        return {str(int(found))}
    if isinstance(found, tuple):
        return {shape_text(found)}
    if isinstance(found, bytes):
        return {found.decode("utf-8", "surrogateescape")}
    return {"" if found is None else str(found)}


class Runner:
    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}
        self._lent: dict[str, Any] = {}  # trees, by the file that they belong to

    # ---- the command ----

    def take(self, kind: str, text: str) -> None:
        """Adds a token to the next command."""
        if kind == ":":
            self.where = text
            self.words: list[str] = []
            self.keys: dict[str, tuple[str, str]] = {}
            self.options: dict[str, int | str] = {}
            self.status, self.details = "OK", list[tuple[str, str, str]]()
            return
        key, _, value = text.partition("=")
        if kind in "ct":
            self.command, self.timed = text, kind == "t"
        elif kind == "w":
            self.words.append(text)
        elif kind in "=>":
            self.keys[key] = (kind, value)
        elif kind in "is":
            self.options[key] = int(value) if kind == "i" else value
        elif kind == "!":
            self.status = text
        else:
            self.details.append((kind, key, value))

    def call_job(self) -> ckpt.Job | None:
        """Takes the job that the command names for its call; this key expects nothing."""
        given = self.keys.pop("job", None)
        return None if given is None else self.named(given[1], ckpt.Job)

    def number(self, word: int) -> int:
        return int(self.words[word])

    def octets(self, word: int) -> bytes:
        return encoded(self.words[word])

    def key(self, key: str) -> str | None:
        return self.keys[key][1] if key in self.keys else None

    def numbers(self, key: str) -> tuple[int, ...] | None:
        text = self.key(key)
        return None if text is None else numbers_in(text)

    def tensor(self, first: int) -> dict[str, Any]:
        """The keyword arguments of add_tensor: DTYPE, SHAPE (the words from `first` on) and the keys of a region."""
        dtype, shape = self.words[first:first + 2]
        out: dict[str, Any] = {"dtype": int(dtype) if dtype.isdigit() else dtype, "shape": numbers_in(shape)}
        if (box := self.numbers("box")) is not None:
            half = len(box) // 2
            out |= {"offset": box[:half], "extent": box[half:]}
        if (flat := self.numbers("flat")) is not None:
            out["flat_offset"], out["flat_size"] = flat
        if "first_replica" in self.keys:
            out["first_replica"] = self.numbers("first_replica") == (1,)
        return out | {key: self.numbers(key) for key in ("strides", "replica", "device") if key in self.keys}

    # ---- expectations: each looks only where the command has the key ----

    def expect(self, key: str, found: object) -> None:
        if key not in self.keys:
            return
        kind, wanted = self.keys[key]
        if kind == ">":
            right = isinstance(found, int) and found >= int(wanted)
        elif isinstance(found, float):
            right = repr(found) == repr(float(wanted))  # NaN is NaN, and 0 is not -0
        else:
            right = wanted in spellings(found)
        if not right:
            raise Failure(f"expected {key}{kind}{wanted}, found {found}")

    def expect_fields(self, record: object, **others: object) -> None:
        """All keys are fields of the record, or among the others."""
        for key in self.keys:
            self.expect(key, others[key] if key in others else getattr(record, key))

    def expect_words(self, first: int, found: list[str]) -> None:
        """The words from `first` on must be these, in this order."""
        if self.words[first:] != found:
            raise Failure(f"expected {self.words[first:]}, found {found}")

    # ---- objects ----

    def named(self, name: str, kind: type[T]) -> T:
        found = self._objects.get(name)
        if not isinstance(found, kind):
            raise Failure(f"expected a {kind.__name__} {name}, found {type(found).__name__ if found else 'none'}")
        return found

    def get(self, word: int, kind: type[T]) -> T:
        """The object whose name is this word of the command."""
        return self.named(self.words[word], kind)

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


def numbers_in(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.replace(":", " ").split()))


Commands = dict[str, Callable[[Runner], object]]
