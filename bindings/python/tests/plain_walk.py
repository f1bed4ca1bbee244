"""How a state becomes a tree, said in Python node by node: what core/tree_write.cpp does must give the same."""

from __future__ import annotations

from typing import Any

import ckpt
from ckpt import NodeKind, Record, TensorName, Tree, TreeSet
from ckpt.adapt import TRANSPARENT, Leaf, odd_dict, simplify

CONTAINERS = (dict, list, tuple, set, frozenset, Record)


def escape(key: str) -> str:
    if key in ("", ".", ".."):
        return {"": "~e", ".": "~d", "..": "~d~d"}[key]
    digits = key.removeprefix("-")
    integer = key == "0" or (digits.isascii() and digits.isdigit() and digits[0] != "0")
    out = key.replace("~", "~0").replace("/", "~1")
    out = "".join(f"~x{ord(c):02X}" if ord(c) < 0x20 or ord(c) == 0x7F else c for c in out)
    return "~s" + out if integer else out


class PlainWalk:
    """Writes one value; `tensors` are the memories of its arrays by name, in the order of the walk; `shards` its
    Shards."""

    def __init__(self, value: Any) -> None:
        self.tree = Tree()
        self.tensors: dict[str, ckpt.Memory] = {}
        self.shards: dict[str, ckpt.Shard] = {}
        self.write(value, ())

    def write(self, value: Any, path: tuple[str, ...]) -> None:
        simple = {type(None): lambda value: self.tree.add_null(), bool: self.tree.add_bool, int: self.tree.add_int,
                  float: self.tree.add_float, str: self.tree.add_text, bytes: self.tree.add_bytes}
        kinds = {list: NodeKind.LIST, tuple: NodeKind.TUPLE, TreeSet: NodeKind.SET}
        kind = type(value)
        if kind in simple:
            simple[kind](value)
        elif kind in kinds:
            self.tree.begin(kinds[kind])
            for place, item in enumerate(value):
                self.write(item, (*path, str(place)))
            self.tree.end()
        elif kind is dict:
            self.mapping(value, path)
        elif kind is Record:
            self.record(value, path)
        elif kind is TensorName:
            self.tree.add_tensor(value.name)
        else:
            self.other(simplify(value, path), path)

    def other(self, simple: Any, path: tuple[str, ...]) -> None:
        if not isinstance(simple, Leaf):
            self.write(simple, path)
            return
        name = "/".join(path) or "state"
        if isinstance(simple.data, ckpt.Shard):
            self.shards[name] = simple.data
        else:
            self.tensors[name] = ckpt.Memory.of(simple.data)
        self.tree.add_tensor(name)

    def mapping(self, value: dict[Any, Any], path: tuple[str, ...]) -> None:
        if not all(type(key) is str or (type(key) is int and -2**63 <= key < 2**63) for key in value):
            self.write(odd_dict(value, path), path)
            return
        self.tree.begin(NodeKind.DICT)
        for key, item in value.items():
            self.tree.key(key)
            self.write(item, (*path, escape(key) if type(key) is str else str(key)))
        self.tree.end()

    def record(self, value: Record, path: tuple[str, ...]) -> None:
        self.tree.begin(NodeKind.RECORD, value.class_name)
        transparent = TRANSPARENT.get(value.class_name)
        for key, item in value.items.items():
            self.tree.key(key)
            tensor = transparent is None and key == "data" and not isinstance(item, CONTAINERS)
            self.write(item, path if tensor or key == transparent else (*path, escape(key)))
        self.tree.end()
