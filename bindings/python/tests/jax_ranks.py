"""One process of jax.distributed with four devices, for test_jax_sharded.py: RANK WORLD PORT STORE WHAT. It saves,
restores into other shardings, and prints what became of each array. Nothing is computed with arrays of both processes:
that takes minutes on a busy machine."""

from __future__ import annotations

import sys
from typing import Any

import ckpt
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

rank, world, port, store, what = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6]
jax.config.update("jax_num_cpu_devices", 4)
jax.distributed.initialize(f"127.0.0.1:{port}", world, rank)
devices = np.array(jax.devices())
mesh = Mesh(devices.reshape(4, 2), ("x", "y"))
turned = Mesh(devices.reshape(2, 4).T, ("x", "y"))  # "y" goes over both processes
own = Mesh(np.array(jax.local_devices()), ("x",))


def spread(values: Any, mesh: Any, *spec: Any) -> Any:
    """A global array of these values."""
    return jax.make_array_from_callback(values.shape, NamedSharding(mesh, PartitionSpec(*spec)),
                                        lambda index: values[index], dtype=values.dtype)


def same(array: Any, values: Any) -> bool:
    """Whether what this process has of it is right."""
    return all(np.array_equal(np.asarray(shard.data), values[shard.index]) for shard in array.addressable_shards)


VALUES = np.arange(64, dtype="f4").reshape(8, 8)
SPREAD = {"rows": (mesh, "x"), "boxes": (mesh, "x", "y"), "columns": (turned, None, "x"), "halves": (turned, "y"),
          "whole": (mesh,), "scattered": (turned, ("x", "y"), None), "one": (Mesh(devices[4:6], ("x",)), "x")}


def saved() -> dict[str, Any]:
    """Each kind of sharding, and what is this process's."""
    key = jax.random.wrap_key_data(spread(np.arange(16, dtype="u4").reshape(8, 2), mesh, "x"))
    return {**{name: spread(VALUES, *where) for name, where in SPREAD.items()}, "keys": key, "step": 7,
            "int4": spread((VALUES % 7).astype(jax.numpy.int4), turned, "x"),
            "local": jax.device_put(VALUES, NamedSharding(own, PartitionSpec("x"))), "alone": jax.numpy.ones(3),
            "mine": ckpt.PerRank(jax.numpy.full(2, float(rank))), "numpy": np.ones(5)}


def report(state: dict[str, Any]) -> None:
    print(state["step"], {name: same(state[name], VALUES) for name in (*SPREAD, "local")})
    mine = state["mine"].value if isinstance(state["mine"], ckpt.PerRank) else state["mine"]
    print(mine.tolist(), state["alone"].tolist(), same(jax.random.key_data(state["keys"]), np.arange(16).reshape(8, 2)),
          same(state["int4"], VALUES % 7))


if what == "save":
    ckpt.save(store, saved(), step=1)
elif what == "background":
    state = saved()
    with ckpt.Checkpointer(store, signals=()) as keeper:
        keeper.save(1, state)
        for name in SPREAD:
            state[name].delete()
else:
    template = {name: jax.ShapeDtypeStruct((8, 8), "float32", sharding=NamedSharding(
        turned if what == "turned" else mesh, PartitionSpec("y", "x"))) for name in SPREAD}
    state = {**saved(), **template}
    state["keys"] = jax.ShapeDtypeStruct((8,), state["keys"].dtype, sharding=NamedSharding(turned, PartitionSpec("y")))
    if what == "turned":
        state = ckpt.load(store, into=state)
    else:
        with ckpt.Checkpointer(store, signals=()) as keeper:
            keeper.restore(state)
    report(state)
jax.distributed.shutdown()  # as jax does at the end of an interpreter: whoever is left behind by rank 0 is aborted
