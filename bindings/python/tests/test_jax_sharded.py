"""jax arrays over eight devices of one process, and over two processes: saved box by box, loaded into any sharding."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest
from conftest import run_ranks

pytestmark = pytest.mark.jax
VALUES = np.arange(64, dtype="f4").reshape(8, 8)


def mesh_of(jax: Any, *shape: int) -> Any:
    devices = np.array(jax.devices()[:int(np.prod(shape))])
    return jax.sharding.Mesh(devices.reshape(shape), ("x", "y")[:len(shape)])


def placed(jax: Any, mesh: Any, *spec: Any) -> Any:
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))


SPECS: dict[str, tuple[Any, ...]] = {"boxes": ("x", "y"), "rows": ("x",), "columns": (None, "x"), "all": (("y", "x"),),
                                     "replicated": ()}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_sharded_array_loads_into_other_meshes(jax: Any, tmp_path: Path, spec: tuple[Any, ...]) -> None:
    saved = jax.device_put(VALUES, placed(jax, mesh_of(jax, 4, 2), *spec))
    ckpt.save(tmp_path / "s", {"w": saved})
    assert np.array_equal(ckpt.load(tmp_path / "s", framework="numpy")["w"], VALUES)
    for where in (saved.sharding, placed(jax, mesh_of(jax, 4), "x"), placed(jax, mesh_of(jax, 2, 4), "y", "x"),
                  placed(jax, mesh_of(jax, 2, 2)), jax.sharding.SingleDeviceSharding(jax.devices()[3])):
        for like in (jax.device_put(VALUES * 0, where), jax.ShapeDtypeStruct((8, 8), "float32", sharding=where)):
            back = ckpt.load(tmp_path / "s", into={"w": like})["w"]
            assert back.sharding == where and np.array_equal(np.asarray(back), VALUES)


def test_each_distinct_box_is_saved_once_from_where_it_lies(jax: Any, tmp_path: Path) -> None:
    from ckpt.jaxes import saved_of
    half = jax.device_put(VALUES, placed(jax, mesh_of(jax, 4, 2), "y"))
    regions: Any = saved_of(half, 0)
    addresses = {shard.data.unsafe_buffer_pointer() for shard in half.addressable_shards}
    assert [shard.offset for shard in regions.shards] == [(0, 0), (4, 0)]
    assert {shard.data.address for shard in regions.shards} <= addresses
    ckpt.save(tmp_path / "s", {"w": half, "same": half})
    with ckpt.Store(tmp_path / "s") as store, ckpt.Reader(store) as reader:
        assert [(tensor.bytes, tensor.alias_of) for tensor in reader.tensors()] == [(256, "w"), (256, None)]


def test_replicas_that_were_loaded_may_be_donated(jax: Any, tmp_path: Path) -> None:
    values, everywhere = np.arange(4096, dtype="f4"), placed(jax, mesh_of(jax, 8))
    ckpt.save(tmp_path / "s", {"w": values})
    form = {"w": jax.ShapeDtypeStruct(values.shape, values.dtype, sharding=everywhere)}
    plus = jax.jit(lambda array: array + 1, donate_argnums=0)
    again = plus(plus(ckpt.load(tmp_path / "s", into=form)["w"]))
    assert all(np.array_equal(np.asarray(shard.data), values + 2) for shard in again.addressable_shards)


def test_shardings_without_names_and_kinds_of_memory_are_kept(jax: Any, tmp_path: Path) -> None:
    from jax._src.sharding_impls import GSPMDSharding
    named = placed(jax, mesh_of(jax, 4, 2), "x", "y")
    mapped = GSPMDSharding(tuple(named.mesh.devices.flat), named._to_xla_hlo_sharding(2))
    state = {"mapped": jax.device_put(VALUES, mapped),
             "host": jax.device_put(VALUES, named.with_memory_kind("unpinned_host"))}
    ckpt.save(tmp_path / "s", state)
    back = ckpt.load(tmp_path / "s", into=state)
    for name, value in state.items():
        assert back[name].sharding == value.sharding and back[name].sharding.memory_kind == value.sharding.memory_kind
        assert np.array_equal(np.asarray(back[name]), VALUES)


def test_keys_packed_elements_and_empty_arrays_are_sharded_too(jax: Any, tmp_path: Path) -> None:
    where, other = placed(jax, mesh_of(jax, 4, 2), "x"), placed(jax, mesh_of(jax, 2, 2), "y")
    state = {"keys": jax.random.split(jax.random.key(1), 8), "int4": jax.numpy.arange(8).astype("int4"),
             "empty": jax.numpy.zeros((8, 0)), "bf16": jax.numpy.arange(8, dtype="bfloat16")}
    state = jax.tree.map(lambda value: jax.device_put(value, where), state)
    ckpt.save(tmp_path / "s", state)
    back = ckpt.load(tmp_path / "s", into=jax.tree.map(lambda value: jax.ShapeDtypeStruct(
        value.shape, value.dtype, sharding=other), state))
    assert all(value.sharding == other for value in back.values())
    assert jax.tree.map(lambda value: value.shape, back) == jax.tree.map(lambda value: value.shape, state)
    assert np.array_equal(*(np.asarray(jax.random.key_data(one["keys"])) for one in (back, state)))
    assert all(np.array_equal(np.asarray(back[name]), np.asarray(state[name])) for name in ("int4", "bf16"))


def test_eval_shape_says_a_form_where_a_mesh_is_set(jax: Any, tmp_path: Path) -> None:
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    where = placed(jax, mesh, "x", "y")
    state = {"w": jax.device_put(VALUES, where)}
    ckpt.save(tmp_path / "s", state)
    form = jax.eval_shape(lambda state: state, jax.tree.map(lambda value: jax.ShapeDtypeStruct(
        value.shape, value.dtype, sharding=placed(jax, mesh.abstract_mesh, "x", "y")), state))
    with pytest.raises(ckpt.UnsupportedError, match="'w'.*no devices.*jax.set_mesh"):
        ckpt.load(tmp_path / "s", into=form)
    with jax.set_mesh(mesh):
        assert ckpt.load(tmp_path / "s", into=form)["w"].sharding == where
    with pytest.raises(ckpt.MismatchError, match="shape"):
        ckpt.load(tmp_path / "s", into={"w": jax.ShapeDtypeStruct((4, 8), "float32", sharding=where)})
    with pytest.raises(ckpt.InvalidError, match="'w'.*divi"):
        ckpt.load(tmp_path / "s", into={"w": jax.ShapeDtypeStruct((6, 8), "float32", sharding=where)})


def _two(folder: Path, store: Path, what: str) -> list[str]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    return [out for out, _ in run_ranks(Path(__file__).parent / "jax_ranks.py", 2, folder, port, store, what)]


@pytest.mark.parametrize("save,load", [("save", "turned"), ("background", "restored")])
def test_two_processes_save_each_box_once_and_load_into_any_sharding(jax: Any, tmp_path: Path, save: str,
                                                                     load: str) -> None:
    _two(tmp_path, tmp_path / "s", save)
    names = ("rows", "boxes", "columns", "halves", "whole", "scattered", "one", "local")
    for rank, said in enumerate(_two(tmp_path, tmp_path / "s", load)):
        assert said.splitlines() == [f"7 {dict.fromkeys(names, True)}",
                                     f"{[float(rank)] * 2} [1.0, 1.0, 1.0] True True"]
    back = ckpt.load(tmp_path / "s", or_rank0=True)
    assert all(isinstance(back[name], jax.Array) and np.array_equal(np.asarray(back[name]), VALUES) for name in names)
    assert type(back["numpy"]) is np.ndarray
    with ckpt.Store(tmp_path / "s") as store, ckpt.Reader(store) as reader:
        for name in names:
            segments = [reader.segment(name, index) for index in range(reader.tensor(name).segment_count)]
            by_rank = [sum(one.stored_bytes for one in segments if reader.part(one.part).rank == rank)
                       for rank in range(2)]
            assert sum(by_rank) == 256 and (by_rank == [128, 128] or name in ("whole", "one")), (name, by_rank)
