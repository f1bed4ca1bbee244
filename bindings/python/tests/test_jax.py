"""jax arrays are saved without a copy; they never change, so loading into one is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest
from conftest import bits

pytestmark = pytest.mark.jax


@pytest.mark.parametrize("name", ["bool", "int32", "uint8", "float32", "float16", "bfloat16", "complex64",
                                  "float8_e4m3fn", "float8_e5m2"])
def test_jax_arrays_come_back_as_numpy(jax: Any, tmp_path: Path, name: str) -> None:
    saved = jax.numpy.arange(6).reshape(2, 3).astype(name)
    ckpt.save(tmp_path / "s", {"w": saved, "same": saved})
    back = ckpt.load(tmp_path / "s")["w"]
    assert back.dtype == saved.dtype and bits(back) == bits(np.asarray(saved))
    with ckpt.Reader(ckpt.Store(tmp_path / "s")) as reader:
        assert reader.tensor("w").dtype.bits == saved.dtype.itemsize * 8
        assert [tensor.alias_of for tensor in reader.tensors()] == ["w", None]


def test_memory_is_the_arrays_own(jax: Any) -> None:
    array = jax.numpy.arange(1000.0)
    assert ckpt.Memory.of(array).address == array.unsafe_buffer_pointer()


def test_jax_arrays_are_not_written_to(jax: Any, tmp_path: Path) -> None:
    mine = jax.numpy.zeros(3)
    ckpt.save(tmp_path / "s", {"w": np.ones(3, "f4")})
    with pytest.raises(ckpt.UnsupportedError, match="read-only"):
        ckpt.load(tmp_path / "s", into={"w": mine})
    with pytest.raises(ckpt.UnsupportedError, match="read-only"):
        ckpt.Memory.of(mine, writable=True)
    assert not mine.any()


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_typed_keys_load_again_and_go_on(jax: Any, tmp_path: Path, impl: str) -> None:
    state = {"a": {"key": jax.random.key(5, impl=impl)}, "keys": jax.random.split(jax.random.key(1, impl=impl), 3)}
    ckpt.save(tmp_path / "s", state)
    other = {"a": {"key": jax.random.key(0, impl=impl)}, "keys": jax.random.split(jax.random.key(2, impl=impl), 3)}
    with ckpt.Checkpointer(tmp_path / "s", signals=()) as keeper:
        keeper.restore(other)
    for back in (ckpt.load(tmp_path / "s"), other):
        assert back["a"]["key"].dtype == state["a"]["key"].dtype and back["keys"].shape == (3,)
        assert jax.random.bits(back["a"]["key"]) == jax.random.bits(state["a"]["key"])
        assert (jax.random.key_data(back["keys"]) == jax.random.key_data(state["keys"])).all()


def test_a_training_state_comes_back(jax: Any, tmp_path: Path) -> None:
    key = jax.random.PRNGKey(0)
    state = {"params": {"w": jax.random.normal(key, (3, 4)), "b": jax.numpy.zeros(4)}, "key": key, "step": 3}
    ckpt.save(tmp_path / "s", state)
    back = jax.tree.map(jax.numpy.asarray, ckpt.load(tmp_path / "s"))
    assert jax.tree.structure(back) == jax.tree.structure(state)
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), back, state)))
