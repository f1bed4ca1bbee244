"""ckpt.load's into= and strict=: what is filled, what is left alone, what is refused before anything changes."""

from __future__ import annotations

from collections import OrderedDict, UserDict
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest


class Model:
    """Stands for a torch module: it holds arrays but is not one."""

    def __init__(self) -> None:
        self.w = np.zeros(2)


@pytest.mark.parametrize("saved,into,said", [
    ({"model": {"w": np.ones(2)}}, {"model": Model()}, r"into at 'model': expected .*, found .*\.Model"),
    ({"model": OrderedDict(w=np.ones(2))}, {"model": Model()}, r"into at 'model': "),
    ({"w": np.ones(2)}, Model(), "^into: expected "),
    ({"a": [{"w": np.ones(2)}]}, {"a": [{"w": bytearray(16)}]}, r"into at 'a/0/w': .*, found builtins.bytearray"),
    ({"a": [1, 2]}, {"a": iter([3])}, "into at 'a': "),
    ({"a": {1.5: np.ones(2)}}, {"a": {1.5: Model()}}, "into at 'a/0/1': "),
    ({"a": complex(1, 2)}, {"a": Model()}, "into at 'a' has a .*Model, and the saved builtins.complex"),
])
def test_what_into_cannot_fill_is_an_error_that_names_its_place(tmp_path: Path, saved: Any, into: Any,
                                                                    said: str) -> None:
    ckpt.save(tmp_path / "s", saved)
    with pytest.raises((TypeError, ckpt.MismatchError), match=said):
        ckpt.load(tmp_path / "s", into=into)


def test_a_whole_state_may_be_given_as_into(tmp_path: Path) -> None:
    state = {"w": np.ones(2), "s": {1, 2}, "f": frozenset({1}), "b": bytearray(b"x"), "c": 1j, "n": np.float32(1),
             "o": OrderedDict(w=np.ones(3)), "odd": {1.5: np.ones(4), (1, 2): [np.ones(5)]}, "none": None, "t": (1, 2),
             "e": {}, "i": 3}
    ckpt.save(tmp_path / "s", state)
    mine = {**state, "w": np.zeros(2), "o": OrderedDict(w=np.zeros(3)), "i": 0, "n": 0.5,
            "odd": {(1, 2): [np.zeros(5)], 1.5: np.zeros(4)}}
    back = ckpt.load(tmp_path / "s", into=mine)
    assert back["w"] is mine["w"] and back["o"]["w"] is mine["o"]["w"]
    assert back["odd"][1.5] is mine["odd"][1.5] and back["odd"][1, 2][0] is mine["odd"][1, 2][0]
    assert mine["odd"][1.5].all() and mine["odd"][1, 2][0].all() and mine["o"]["w"].all() and mine["w"].all()
    assert {key: back[key] for key in "sfbcnti"} == {key: state[key] for key in "sfbcnti"}
    assert ckpt.load(tmp_path / "s", into=UserDict(w=mine["w"]))["w"] is mine["w"]


# ---- strict ----


def tied_views(path: Path) -> Any:
    base = np.arange(12.0)
    ckpt.save(path, {"base": base, "tied": base, "view": base[:4], "more": {"n": 1}})
    return base


@pytest.mark.parametrize("strict", ["none", "missing", "exact"])
def test_tied_tensors_and_views_are_read_however_strict(tmp_path: Path, strict: str) -> None:
    base = tied_views(tmp_path / "s")
    into = {"base": np.zeros(12), "view": np.zeros(4), "tied": np.zeros(12)}
    for back in (ckpt.load(tmp_path / "s", strict=strict), ckpt.load(tmp_path / "s", strict=strict, into=into)):
        assert (back["tied"] == base).all() and (back["view"] == base[:4]).all()
    with ckpt.Store(tmp_path / "s") as store, ckpt.Reader(store) as reader:
        assert (ckpt.load(reader, options={"strict": strict})["base"] == base).all()


def test_strict_none_leaves_arrays_alone_that_the_checkpoint_lacks(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"w": np.ones(2)})
    into = {"w": np.zeros(2), "absent": [np.full(2, 7.0)], "n": {"x": np.ones(1)}}
    with pytest.warns(ckpt.MissingWarning, match="'absent/0', 'n/x'") as caught:
        assert set(ckpt.load(tmp_path / "s", into=into, strict="none")) == {"w"}
    assert caught[0].filename == __file__
    assert caught[0].message.missing == ("absent/0", "n/x")  # type: ignore[union-attr]
    assert into["w"].tolist() == [1, 1] and into["absent"][0].tolist() == [7, 7]
    for strict in ("missing", "exact"):
        with pytest.raises(ckpt.NotFoundError, match="absent/0"):
            ckpt.load(tmp_path / "s", into=into, strict=strict)


def test_strict_exact_refuses_tensors_that_are_not_read(tmp_path: Path) -> None:
    tied_views(tmp_path / "s")
    assert ckpt.load(tmp_path / "s", at=("more",), strict="missing") == {"n": 1}
    with pytest.raises(ckpt.MismatchError, match="'base'") as caught:
        ckpt.load(tmp_path / "s", at=("more",), strict="exact")
    assert caught.value.details["tensor"] == "base"


def test_strict_exact_refuses_tensors_that_into_does_not_name(tmp_path: Path) -> None:
    tied_views(tmp_path / "s")
    for into, name in (({"base": np.zeros(12), "view": np.zeros(4)}, "tied"), ({"view": np.zeros(4)}, "base"),
                       ({}, "base"), ({"base": np.zeros(12), "view": np.zeros(4), "tied": None}, "tied")):
        with pytest.raises(ckpt.MismatchError, match=f"'{name}'.*into") as caught:
            ckpt.load(tmp_path / "s", into=into, strict="exact")
        assert caught.value.details["tensor"] == name and not any(
            array.any() for array in into.values() if array is not None)


def test_a_strictness_that_is_none_is_invalid(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"w": np.ones(2)})
    with ckpt.Store(tmp_path / "s") as store, ckpt.Reader(store) as reader:
        with pytest.raises(ckpt.InvalidError, match="strict"):
            ckpt.load(reader, strict="very")
