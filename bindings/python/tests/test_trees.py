"""Trees node by node, and as native values."""

from __future__ import annotations

from typing import Any

import ckpt
import pytest
from ckpt import NodeKind
from ckpt._core import escape

NATIVE = {"a": [1, 2.5, None, True, "t", b"b", 2**90],
          0: ("x", {"y": ckpt.TensorName("w")}), "0": ckpt.TreeSet([3, [1], 3]),
          "r": ckpt.Record("torch.Size", {"items": (1, 2), "$": 1}), "$": {}}


def test_native_values_become_a_tree_and_the_same_values_again() -> None:
    tree = ckpt.from_native(NATIVE)
    assert ckpt.to_native(tree) == NATIVE
    again = ckpt.Tree.parse(tree.json())
    assert again.json() == tree.json() and ckpt.to_native(again) == NATIVE
    assert ckpt.Tree.parse(tree.json().encode()).json() == tree.json()
    big = tree.node(tree.find(tree.find(0, "a"), 6))
    assert (big.kind, big.value, type(big.value)) == (NodeKind.BIGINT, 2**90, int)
    back = ckpt.to_native(tree)
    assert list(back) == list(NATIVE) and type(back["0"]) is ckpt.TreeSet and type(back["a"][3]) is bool


@pytest.mark.parametrize("key", ["", ".", "..", "0", "-5", "-0", "007", "a/b", "~", "~s0", "a\x01\x7f", "é", "10" * 30,
                                 "-", "٣"])
def test_paths_are_escaped_as_the_library_does(key: str) -> None:
    tree = ckpt.Tree()
    tree.begin(NodeKind.DICT)
    tree.key(key)
    assert escape(key) == tree.add_tensor()


@pytest.mark.parametrize("value", [object(), {1.5: 1}, {2**63: 1}, {True: 1}, [{1, 2}], bytearray()])
def test_other_values_are_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="state"):
        ckpt.from_native(value)


def test_classes_that_nobody_knows_are_kept_as_records(store: ckpt.Store, session: ckpt.Session) -> None:
    record = ckpt.Record("mine.Thing", {"args": (1, 2), "state": {"x": 3}})
    ckpt.save(session, {"thing": record, "odd": ckpt.Record("torch.Size", {"wrong": 1})}, label="a")
    assert ckpt.load(store) == {"thing": record, "odd": ckpt.Record("torch.Size", {"wrong": 1})}


def test_checkpoints_without_a_tree_are_a_dict_of_their_tensors(store: ckpt.Store, session: ckpt.Session) -> None:
    with ckpt.Save(session, "a") as save:
        save.add_tensor("b/c", b"12")
        save.run()
    assert {name: value.tolist() for name, value in ckpt.load(store).items()} == {"b/c": [49, 50]}


def test_trees_have_names(store: ckpt.Store, session: ckpt.Session) -> None:
    with ckpt.Save(session, "a") as save:
        save.add_tree(ckpt.from_native([1]))
        save.add_tree(ckpt.from_native([2]), "second")
        save.run()
    with ckpt.Reader(store) as reader:
        tree = reader.tree("second")
    assert ckpt.to_native(tree) == [2]  # it does not need its reader
