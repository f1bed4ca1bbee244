"""jax arrays are saved without a copy. They never change, so a load into them makes new ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import ckpt
import numpy as np
import pytest
from conftest import bits

pytestmark = pytest.mark.jax


@pytest.mark.parametrize("name", ["bool", "int32", "uint8", "float32", "float16", "bfloat16", "complex64",
                                  "float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float8_e3m4", "float8_e4m3b11fnuz",
                                  "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz", "int4", "uint4", "int2",
                                  "uint2", "float4_e2m1fn"])
def test_each_dtype_comes_back_as_jax_by_itself_and_into_a_state(jax: Any, tmp_path: Path, name: str) -> None:
    saved = jax.numpy.asarray([[0, 1, 0], [1, 1, 0]]).astype(name)
    ckpt.save(tmp_path / "s", {"w": saved, "same": saved, "step": 1})
    like = {"w": jax.numpy.zeros((2, 3), name), "same": jax.ShapeDtypeStruct((2, 3), name)}
    before = bits(np.asarray(like["w"]))
    for state in (ckpt.load(tmp_path / "s"), ckpt.load(tmp_path / "s", into=like)):
        assert state["step"] == 1
        for back in (state["w"], state["same"]):
            assert isinstance(back, jax.Array) and back.dtype == saved.dtype
            assert bits(np.asarray(back)) == bits(np.asarray(saved))
    assert bits(np.asarray(like["w"])) == before
    numpy = ckpt.load(tmp_path / "s", framework="numpy")["w"]
    assert type(numpy) is np.ndarray and numpy.dtype == saved.dtype and bits(numpy) == bits(np.asarray(saved))


def test_memory_is_the_arrays_own(jax: Any) -> None:
    array = jax.numpy.arange(1000.0)
    assert ckpt.Memory.of(array).address == array.unsafe_buffer_pointer()


def test_jax_arrays_are_not_written_to(jax: Any) -> None:
    with pytest.raises(ckpt.UnsupportedError, match="read-only"):
        ckpt.Memory.of(jax.numpy.zeros(3), writable=True)


def test_a_load_makes_new_arrays_and_leaves_those_of_into(jax: Any, tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"a": {"w": jax.numpy.ones(3), "n": np.ones(2)}, "l": [jax.numpy.ones(1)]})
    mine = {"a": {"w": jax.numpy.zeros(3), "n": np.zeros(2)}, "l": [jax.numpy.zeros(1)]}
    back = ckpt.load(tmp_path / "s", into=mine)
    assert back["a"]["w"].all() and back["l"][0].all() and not mine["a"]["w"].any() and not mine["l"][0].any()
    assert back["a"]["n"] is mine["a"]["n"] and mine["a"]["n"].all()


def test_a_restore_puts_new_arrays_into_the_state(jax: Any, tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"a": {"w": jax.numpy.ones(3)}, "l": [jax.numpy.ones((), "int4")], "step": 4}, step=4)
    state = {"a": {"w": jax.numpy.zeros(3)}, "l": [jax.numpy.zeros((), "int4")], "step": 0}
    inner = state["a"]
    with ckpt.Checkpointer(tmp_path / "s", signals=()) as keeper:
        keeper.restore(state)
        assert state["a"] is inner and state["a"]["w"].all() and state["l"][0] == 1 and state["step"] == 4
        other = {"l": [jax.ShapeDtypeStruct((), "int4")], "step": 0}
        keeper.restore(other, only="l")
        assert other["l"][0] == 1 and other["step"] == 0


def test_new_arrays_may_move_where_those_of_into_may(jax: Any, tmp_path: Path) -> None:
    state = {"free": jax.numpy.ones(3), "held": jax.device_put(jax.numpy.ones(3), jax.devices()[2]),
             "weak": jax.numpy.asarray(0.5)}
    ckpt.save(tmp_path / "s", state)
    back = ckpt.load(tmp_path / "s", into=state)
    for name, value in state.items():
        assert back[name].committed == value.committed and back[name].sharding == value.sharding
        assert back[name].weak_type == value.weak_type


def test_what_does_not_fit_is_refused(jax: Any, tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"w": jax.numpy.ones((2, 3)), "k": jax.random.key(0), "q": jax.numpy.ones(2, "int4")})
    struct = jax.ShapeDtypeStruct((2, 3), "float32")
    into: Any
    for into, kind, said in (
            ({"w": jax.numpy.zeros((3, 2))}, ckpt.MismatchError, "shape"),
            ({"w": jax.numpy.zeros((2, 3), "int32")}, ckpt.MismatchError, "dtype"),
            ({"w": jax.ShapeDtypeStruct((2, 3), "float64")}, ckpt.UnsupportedError, "jax_enable_x64"),
            ({"q": jax.numpy.zeros(2, "uint4")}, ckpt.MismatchError, "'q' has elements of uint4"),
            ({"k": jax.random.key(0, impl="rbg")}, ckpt.MismatchError, "'k' has keys of rbg"),
            ({"k": jax.numpy.zeros(2, "uint32")}, ckpt.MismatchError, "'k' has a tensor"),
            ({"w": struct, "no": struct}, ckpt.NotFoundError, "no tensor: no"),
            ({"w": struct, "no": jax.random.key(0)}, ckpt.NotFoundError, "no tensor: no")):
        numpy = np.zeros(2)
        with pytest.raises(kind, match=said):
            ckpt.load(tmp_path / "s", into={**into, "other": numpy})
    back = ckpt.load(tmp_path / "s", into={"w": jax.ShapeDtypeStruct((2, 3), "bfloat16")}, convert=True)
    assert back["w"].dtype == "bfloat16" and back["w"].all()


def test_arrays_without_values_are_refused_by_name(jax: Any, tmp_path: Path) -> None:
    array, key = jax.numpy.ones(3), jax.random.key(0)
    array.delete()
    key._base_array.delete()
    with pytest.raises(ckpt.InvalidError, match="'a/b'.*donated"):
        ckpt.save(tmp_path / "s", {"a": {"b": array}})
    with pytest.raises(ckpt.InvalidError, match="'a/k'.*donated"):
        ckpt.save(tmp_path / "s", {"a": {"k": key}})
    with pytest.raises(ckpt.InvalidError, match="'a/t'.*tracer"):
        jax.jit(lambda value: ckpt.save(tmp_path / "s", {"a": {"t": value}}))(1.0)
    ckpt.save(tmp_path / "s", {"a": {"b": np.ones(3, "f4"), "k": jax.random.key(7)}})
    back = ckpt.load(tmp_path / "s", into={"a": {"b": array, "k": key}})  # a donated state still says its form
    assert back["a"]["b"].all() and jax.random.bits(back["a"]["k"]) == jax.random.bits(jax.random.key(7))


def test_arrays_may_be_donated_while_a_save_runs_in_the_background(jax: Any, tmp_path: Path) -> None:
    plus = jax.jit(lambda state: jax.tree.map(lambda value: value + 1, state), donate_argnums=0)
    with ckpt.Checkpointer(tmp_path / "s", signals=()) as keeper:
        for step in range(1, 4):
            state = {"big": jax.numpy.full(1 << 20, float(step)), "small": jax.numpy.full(3, float(step))}
            keeper.save(step, state)
            state = plus(plus(state))
    for step in range(1, 4):
        back = ckpt.load(tmp_path / "s", f"step:{step}")
        assert (back["big"] == step).all() and (back["small"] == step).all()


def test_loaded_arrays_may_be_donated(jax: Any, tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"a": jax.numpy.zeros(1 << 12), "n": np.zeros(3, "f4")})
    plus = jax.jit(lambda state: jax.tree.map(lambda value: value + 1, state), donate_argnums=0)
    assert all((value == 2).all() for value in plus(plus(ckpt.load(tmp_path / "s", framework="jax"))).values())


# ---- pytrees ----


class Adam(NamedTuple):
    """As optax keeps it."""

    count: Any
    mu: Any


@dataclasses.dataclass(frozen=True)
class Train:
    """As flax and equinox make them: some fields are data, others say the form of the tree."""

    step: Any
    params: Any
    opt: Any
    act: Any
    width: int = dataclasses.field(metadata={"static": True})
    apply: Any = dataclasses.field(metadata={"static": True})


@pytest.fixture(scope="module")
def train(jax: Any) -> Any:
    jax.tree_util.register_dataclass(Train)

    def make(value: float, step: Any = 0, width: int = 3) -> Train:
        weights = {"w": jax.numpy.full(3, value)}
        return Train(step, weights, (Adam(jax.numpy.int32(value), weights), None), jax.jit(lambda x: x + value), width,
                     lambda x: x * value)
    return make


def test_static_fields_and_functions_are_the_targets_own(jax: Any, train: Any, tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"train": train(1.0, step=4)})
    mine = train(0.0, width=5)
    back = ckpt.load(tmp_path / "s", into={"train": mine})["train"]
    assert type(back) is Train and type(back.opt[0]) is Adam and back.step == 4 and back.opt[0].count == 1
    assert back.params["w"].all() and back.opt[0].mu["w"].all() and not mine.params["w"].any()
    assert back.act is mine.act and back.apply is mine.apply and back.width == 5
    assert "apply" not in ckpt.load(tmp_path / "s")["train"].items["state"]


class Layer:
    """As flax.nnx makes them: a pytree with attributes."""

    def __init__(self, w: Any, value: float) -> None:
        self.w, self.init, self.tx = w, lambda: value, Adam(lambda: value, lambda: value)


def test_functions_of_other_pytrees_are_the_targets_own_too(jax: Any, tmp_path: Path) -> None:
    jax.tree_util.register_pytree_node(Layer, lambda layer: ((layer.w,), None), lambda _, inside: Layer(*inside, 0.0))
    ckpt.save(tmp_path / "s", {"layer": Layer(jax.numpy.ones(3), 1.0)})
    mine = Layer(jax.numpy.zeros(3), 0.0)
    back = ckpt.load(tmp_path / "s", into={"layer": mine})["layer"]
    assert back is mine and back.w.all() and back.init() == 0 and back.tx.mu() == 0


def test_what_nobody_may_change_is_made_anew_inside_of_others(jax: Any, train: Any, tmp_path: Path) -> None:
    inner = train(0.0)
    ckpt.save(tmp_path / "s", {"t": dataclasses.replace(train(1.0), params=train(1.0, step=7))})
    back = ckpt.load(tmp_path / "s", into={"t": dataclasses.replace(train(0.0), params=inner)})["t"].params
    assert back.step == 7 and back.apply is inner.apply and inner.step == 0 and not inner.params["w"].any()


def test_a_restore_puts_a_frozen_pytree_into_a_dict_only(jax: Any, train: Any, tmp_path: Path) -> None:
    with ckpt.Checkpointer(tmp_path / "s", signals=()) as keeper:
        keeper.save(1, train(1.0, step=jax.numpy.int32(4)))
        for frozen in (train(0.0), (jax.numpy.zeros(3),), jax.numpy.zeros(3)):
            with pytest.raises(TypeError, match='jax arrays never change.*give a dict.*"state"'):
                keeper.restore(frozen)
        keeper.save(2, {"state": train(1.0, step=4)})
        old = train(0.0, step=jax.numpy.int32(0))
        state = {"state": old}
        keeper.restore(state)
    assert state["state"].params["w"].all() and state["state"].step == 4 and state["state"].step.dtype == "int32"
    assert old.step == 0 and not old.params["w"].any()


def test_a_saved_number_becomes_an_array_where_into_has_one(jax: Any, tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"step": 3, "rate": 0.5, "on": True}, step=1)
    form = jax.eval_shape(lambda: {"step": 0, "rate": 0.0, "on": False})
    other = {"step": jax.numpy.uint8(0), "rate": jax.numpy.zeros((), "bfloat16"), "on": jax.numpy.bool_(False)}
    for into in (form, other):
        back = ckpt.load(tmp_path / "s", into=into)
        assert all(isinstance(value, jax.Array) and value.dtype == into[name].dtype for name, value in back.items())
        assert (back["step"], back["rate"], back["on"]) == (3, 0.5, True)
    with ckpt.Checkpointer(tmp_path / "s", signals=()) as keeper:
        keeper.restore(other, only=["step"])
    assert other["step"] == 3 and other["step"].dtype == "uint8" and other["rate"] == 0
    ckpt.save(tmp_path / "t", {"step": 300})
    for wrong in (jax.numpy.uint8(0), jax.numpy.float32(0), jax.numpy.zeros(3, "int32")):
        with pytest.raises(ckpt.MismatchError, match=f"'step' has an array of shape.*{wrong.dtype}.*number 300"):
            ckpt.load(tmp_path / "t", into={"step": wrong})


def test_a_training_goes_on_bit_for_bit(jax: Any, train: Any, tmp_path: Path) -> None:
    @jax.jit
    def one(state: dict[str, Any]) -> dict[str, Any]:
        key, new = jax.random.split(state["key"])
        mu = state["opt"].mu * 0.9 + jax.random.normal(new, (3,))
        return {"w": state["w"] - mu, "opt": Adam(state["opt"].count + 1, mu), "key": key}

    def run(store: Path, steps: int) -> Any:
        state = {"w": jax.numpy.ones(3), "opt": Adam(jax.numpy.int32(0), jax.numpy.zeros(3)), "key": jax.random.key(1)}
        with ckpt.Checkpointer(store, every=2, signals=()) as keeper:
            restored = keeper.restore(state)
            for step in range(restored.step + 1 if restored else 1, steps + 1):
                state = jax.jit(one, donate_argnums=0)(state)
                keeper.step(step, state)
        return state

    run(tmp_path / "a", 4)
    again, whole = run(tmp_path / "a", 6), run(tmp_path / "b", 6)
    assert jax.tree.structure(again) == jax.tree.structure(whole)
    assert bits(again["w"]) == bits(whole["w"]) and bits(again["opt"].mu) == bits(whole["opt"].mu)


# ---- which framework ----


def test_arrays_come_back_as_what_was_saved(jax: Any, torch: Any, tmp_path: Path) -> None:
    arrays = {"numpy": np.ones(2), "jax": jax.numpy.ones(2), "torch": torch.ones(2)}
    kinds = {"numpy": np.ndarray, "jax": jax.Array, "torch": torch.Tensor}
    for names in (["jax"], ["numpy", "jax"], ["jax", "torch"], ["numpy", "jax", "torch"], ["numpy"]):
        ckpt.save(tmp_path / "s", {name: arrays[name] for name in names}, step=1, on_existing="replace")
        for name, value in ckpt.load(tmp_path / "s").items():
            assert isinstance(value, kinds[name]), (names, name)
        if "numpy" not in names:
            assert all(isinstance(value, jax.Array) for value in ckpt.load(tmp_path / "s", framework="jax").values())


def test_jax_without_64_bits_says_what_it_lacks(jax: Any, tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"a": {"w": np.ones(2)}, "rng": np.random.Generator(np.random.Philox(3))})
    with pytest.raises(ckpt.UnsupportedError, match="'a/w': jax would make float32 of float64: set jax_enable_x64"):
        ckpt.load(tmp_path / "s", framework="jax")
    assert ckpt.load(tmp_path / "s", framework="jax", at=("rng",)).random() == np.random.Generator(
        np.random.Philox(3)).random()
    with jax.enable_x64(True):
        assert ckpt.load(tmp_path / "s", framework="jax")["a"]["w"].dtype == "float64"


def test_slices_of_an_open_checkpoint_are_jax(jax: Any, tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"w": jax.numpy.arange(8)})
    with ckpt.open(tmp_path / "s", framework="jax") as found:
        assert isinstance(found["w"][::-2], jax.Array) and found["w"][::-2].tolist() == [7, 5, 3, 1]


def test_keys_of_a_struct_come_back(jax: Any, tmp_path: Path) -> None:
    keys = jax.random.split(jax.random.key(3), 4)
    ckpt.save(tmp_path / "s", {"keys": keys})
    back = ckpt.load(tmp_path / "s", into={"keys": jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 4))})
    assert (jax.random.key_data(back["keys"]) == jax.random.key_data(keys)).all() and back["keys"].dtype == keys.dtype


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
