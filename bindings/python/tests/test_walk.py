"""The walk over a state in the module: the same tree and names as tests/plain_walk.py gives, and the same arrays."""

from __future__ import annotations

import gc
import random
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import ckpt
import ml_dtypes
import numpy as np
import pytest
from ckpt.saving import _StateWriter
from plain_walk import PlainWalk

KEYS = ["w", "", ".", "..", "0", "-1", "-0", "007", "a/b", "~", "~s0", "é\x00\x1f\x7f", "٣", 0, 7, -(2**63), 2**63 - 1]
KEYS_OF_ODD = [True, None, 2.5, 2**63, (1, "x"), b"k"]


def arrays_of_numpy(draw: random.Random) -> Any:
    dtype = draw.choice(["f4", "i8", "u1", "?", "c16", ml_dtypes.bfloat16])
    base = np.arange(draw.choice([1, 2, 24])).astype(dtype)
    return draw.choice([base, base[::2], base[:0], base[1:], base.reshape(1, -1), base.reshape(-1, 1).T, base[:1],
                        np.array(base[0]), np.asfortranarray(np.stack([base, base]))])


def leaf(draw: random.Random, array: Callable[[random.Random], Any]) -> Any:
    values: list[Any] = [None, True, 3, -(2**90), 10**5000, 2.5, float("nan"), "é\x00", b"\xff\x00", bytearray(b"a"),
                         1j, np.float32(1.5), ckpt.Shard(np.zeros(2), (4,), offset=(0,)), np.random.PCG64(1)]
    return draw.choice([*values, *(array(draw) for _ in range(12))])


def state(draw: random.Random, array: Callable[[random.Random], Any], depth: int = 4) -> Any:
    if depth == 0 or draw.random() < 0.2:
        return leaf(draw, array)
    items = [state(draw, array, depth - 1) for _ in range(draw.randrange(5))]
    named = dict(zip(draw.sample([key for key in KEYS if key != 0], len(items)), items))
    texts = {str(key): item for key, item in named.items()}
    return draw.choice([
        lambda: items, lambda: tuple(items), lambda: named, lambda: named, lambda: OrderedDict(named),
        lambda: defaultdict(list, named), lambda: Counter(a=1), lambda: {1, "a", (2, b"b")}, lambda: frozenset([2.5]),
        lambda: dict(zip(draw.sample(KEYS_OF_ODD, len(items)), items)),
        lambda: ckpt.Record("some.Class", {"data": draw.choice([items, leaf(draw, array)]), "x": 1}),
        lambda: ckpt.Record("collections.OrderedDict", {"items": named, "metadata": texts}),
        lambda: ckpt.TreeSet([1, "a"]),
    ])()


def layout(memory: ckpt.Memory) -> Any:
    return memory.address, memory.nbytes, memory.dtype, memory.shape, memory.strides


def expect_the_same(value: Any) -> None:
    writer, plain = _StateWriter(0, {}), PlainWalk(value)
    writer.write(value)
    assert writer.tree.json() == plain.tree.json()
    assert writer.names == {*writer.tensors, *writer.shards}
    assert writer.shards == {name: (shard,) for name, shard in plain.shards.items()}
    assert [(name, layout(memory)) for name, memory in writer.tensors.items()] == [
        (name, layout(memory)) for name, memory in plain.tensors.items()]


@pytest.mark.parametrize("seed", range(100))
def test_a_state_becomes_the_same_tree_and_names_as_node_by_node(seed: int) -> None:
    expect_the_same(state(random.Random(seed), arrays_of_numpy))


def arrays_of_torch(draw: random.Random) -> Any:
    import torch
    names = ["float32", "int64", "uint8", "bool", "complex64", "complex32", "bfloat16", "float8_e4m3fn", "bits8",
             "float4_e2m1fn_x2"]
    base = torch.arange(48).to(torch.uint8).view(getattr(torch, draw.choice(names)))
    image = torch.zeros(2, 3, 4, 5)
    return draw.choice([base, base[1:3], base[::2], base[:0], base[2], base.reshape(1, 1, -1), base.reshape(2, -1).T,
                        torch.nn.Parameter(torch.ones(2)), torch.ones(3, requires_grad=True), torch.ones(2, 2)[:1].T,
                        torch.tensor([1j, 2j]).conj(), torch._neg_view(torch.ones(2)), torch.eye(2).to_sparse(),
                        image.contiguous(memory_format=torch.channels_last), image.transpose(1, 2), torch.Size([1]),
                        torch.ones(2)[0].expand(3), torch.float32])


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(100))
def test_a_state_of_torch_becomes_the_same_tree_and_names_as_node_by_node(torch: Any, seed: int) -> None:
    expect_the_same(state(random.Random(seed), arrays_of_torch))


def test_a_state_that_changes_while_it_is_walked_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict[str, Any] = {"a": 1j, "b": 2}
    kind = ckpt.kinds.Kind(complex, lambda value: state.update(c=3) or {})
    monkeypatch.setitem(ckpt.kinds.KINDS, "builtins.complex", kind)
    with pytest.raises(RuntimeError, match="changed size"):
        _StateWriter(0, {}).write(state)


def test_the_search_for_garbage_is_as_it_was_after_a_walk() -> None:
    assert gc.isenabled()
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            with pytest.raises(TypeError):
                _StateWriter(0, {}).write([1, object()])
            ckpt.to_native(ckpt.from_native([1, {"a": ckpt.Record("C", {"b": (2,)})}]))
            assert gc.isenabled() == enabled
        finally:
            gc.enable()


@pytest.mark.parametrize(("value", "error", "words"), [
    ({"a": ["\ud800"]}, ckpt.InvalidError, "state at 'a/0': text cannot be UTF-8: it has a lone surrogate"),
    ({"a": {"\ud800": 1}}, ckpt.InvalidError, "state at 'a': text cannot be UTF-8: it has a lone surrogate"),
    ([1, object()], TypeError, "state at '1': a value of type builtins.object cannot be saved"),
    ({"m": np.zeros(4)[::-1]}, ckpt.UnsupportedError,
     "tensor 'm': ndarray cannot be taken as it is: dimension 0 has the negative stride -1"),
    (ckpt.Record("collections.OrderedDict", {"items": {"x": np.zeros(1)}, "x": np.zeros(1)}), ckpt.InvalidError,
     "state at 'x': two tensors would have this name"),
])
def test_what_cannot_be_saved_is_told_with_its_place(value: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        _StateWriter(0, {}).write(value)
    assert words in str(caught.value)
