"""The new arrays that a load makes: small ones lie together, large ones by themselves, and each is its own."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest

SIZES = [0, 1, 7, 16, 64, 1000, 16383, 16384, 16385, 70000, 600000]


def many(count: int = 60) -> dict[str, Any]:
    draw = random.Random(count)
    return {str(place): (np.arange(draw.choice(SIZES)) % 100 + place % 20).astype(draw.choice(["f4", "i8", "u1", "f2"]))
            for place in range(count)}


def mapped_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * 4096


def test_new_arrays_are_right_writable_aligned_and_apart(tmp_path: Path) -> None:
    state = many()
    ckpt.save(tmp_path / "s", state)
    back = ckpt.load(tmp_path / "s")
    for name, array in back.items():
        assert array.dtype == state[name].dtype and array.flags.c_contiguous and array.flags.writeable
        assert array.ctypes.data % 64 == 0 or array.size == 0
    for name, array in back.items():
        assert np.array_equal(array, state[name]), name  # no earlier array reaches into this one
        array[...] = 99


def test_an_array_outlives_the_others_and_gives_its_memory_back(tmp_path: Path) -> None:
    state = {"small": np.arange(5), **{f"large{place}": np.full(1 << 22, place, "f4") for place in range(4)}}
    ckpt.save(tmp_path / "s", state)
    kept = [ckpt.load(tmp_path / "s")["small"]]
    before = mapped_bytes()
    kept += [ckpt.load(tmp_path / "s")["small"] for _ in range(8)]  # of 64 MiB each
    assert mapped_bytes() - before < 200 << 20
    assert all(np.array_equal(array, np.arange(5)) for array in kept)


def test_a_load_that_fails_gives_its_memory_back(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"large": np.zeros(1 << 24, "f4"), "packed": ckpt.Shard(np.zeros(4, "u1"), (4,), (0,))})
    into = {"packed": np.zeros(3, "u1")}
    with pytest.raises(ckpt.MismatchError):
        ckpt.load(tmp_path / "s", into=into)
    before = mapped_bytes()
    for _ in range(8):
        with pytest.raises(ckpt.MismatchError):
            ckpt.load(tmp_path / "s", into=into)
    assert mapped_bytes() - before < 200 << 20


def test_a_tensor_with_two_names_in_the_tree_is_one_array(store: ckpt.Store, session: ckpt.Session) -> None:
    with ckpt.Save(session, "a") as save:
        save.add_tensors({"w": np.arange(3.0)})
        save.add_tree(ckpt.from_native([ckpt.TensorName("w"), {"x": ckpt.TensorName("w")}]))
        save.run()
    first, second = ckpt.load(store)
    assert first is second["x"] and list(first) == [0, 1, 2]


def test_many_tensors_are_added_in_one_call_up_to_the_first_that_is_wrong(session: ckpt.Session) -> None:
    tensors = {f"{place}": np.full(2, place) for place in range(600)}
    with ckpt.Save(session, "a") as save:
        with pytest.raises(ckpt.InvalidError) as caught:
            save.add_tensors({**tensors, "x/../y": np.zeros(1), "later": np.zeros(1)})
        assert caught.value.details["tensor"] == "x/../y"
        with pytest.raises(TypeError, match="expected an array"):
            save.add_tensors({"z": "text"})
        save.add_tensors({"later": np.zeros(1)})
        with pytest.raises(ckpt.ExistsError):
            save.add_tensors({"599": np.zeros(2)})


def test_the_callers_many_arrays_are_filled_wherever_they_stand(tmp_path: Path) -> None:
    state = {"a": many(400), "b": [np.arange(6).reshape(2, 3), (np.float32(2), {"c": np.arange(4.0)})], 3: 7}
    ckpt.save(tmp_path / "s", state)
    into: Any = {"b": [np.zeros((3, 2), "i8").T, (None, {"c": np.zeros(8)[::2]})], "extra": {},
                 "a": {name: np.zeros_like(array) for name, array in state["a"].items()}}
    back = ckpt.load(tmp_path / "s", into=into, strict="exact")
    assert back[3] == 7 and "extra" not in back
    assert all(back["a"][name] is array for name, array in into["a"].items())
    assert all(np.array_equal(array, state["a"][name]) for name, array in into["a"].items())
    assert back["b"][0] is into["b"][0] and back["b"][1][1]["c"] is into["b"][1][1]["c"]
    assert into["b"][0].tolist() == [[0, 1, 2], [3, 4, 5]] and list(into["b"][1][1]["c"]) == [0, 1, 2, 3]


@pytest.mark.torch
def test_new_tensors_of_torch_have_storages_of_their_own(torch: Any, tmp_path: Path) -> None:
    state = {name: torch.from_numpy(array) for name, array in many().items()}
    ckpt.save(tmp_path / "s", state)
    back = ckpt.load(tmp_path / "s", framework="torch")
    for name, tensor in back.items():
        assert type(tensor) is torch.Tensor and tensor.dtype == state[name].dtype and not tensor._is_view()
        assert tensor.untyped_storage().nbytes() == tensor.nbytes and torch.equal(tensor, state[name])
        tensor.fill_(99)
    one = back["7"]
    del back, tensor
    assert bool((one == 99).all())
