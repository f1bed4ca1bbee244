"""How the classes of ckpt._core show themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import show


def _elements(of: Any) -> str:
    return f" {of.dtype}, {show.shape(of.shape)}, {show.size(of.nbytes)}"


_WHAT: dict[str, Callable[[Any], str]] = {
    "Memory": _elements,
    "View": _elements,
    "Job": lambda job: f" {job.state.name.lower()}",
    "Tree": lambda tree: f": {len(tree)} nodes",
    "Save": lambda save: f" {save.id}",
    "File": lambda file: f" {file.format}: {file.tensor_count} tensors",
}


def of(value: Any) -> str:
    """What repr() says of an object of ckpt._core."""
    name = type(value).__name__
    if getattr(value, "closed", False):
        return f"<ckpt.{name}, closed>"
    return f"<ckpt.{name}{_WHAT[name](value) if name in _WHAT else ''}>"
