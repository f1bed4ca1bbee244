"""The kinds of values of a state: what is saved, comes back as what it was, also from a .pt file; and what others hold
is filled. Each kind is one row here, as it is in ckpt.kinds."""

from __future__ import annotations

import argparse
import array
import dataclasses
import datetime
import enum
import functools
import random
import re
import uuid
import zoneinfo
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import SimpleNamespace
from typing import Any

import ckpt
import ml_dtypes
import numpy as np
import pytest
from test_state import same


class Text(str):
    pass


class Number(int):
    pass


class Names(dict):  # type: ignore[type-arg]
    """As Lightning's AttributeDict."""


class Ordered(OrderedDict):  # type: ignore[type-arg]
    pass


class Several(list):  # type: ignore[type-arg]
    pass


class Once(set):  # type: ignore[type-arg]
    pass


NOON = datetime.datetime(2026, 11, 27, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=1), "x"))
PYTHON = [
    NOON.replace(fold=1), datetime.time(1, fold=1),
    NOON, NOON.date(), NOON.timetz(), NOON - NOON.replace(year=2025), datetime.timezone.utc, zoneinfo.ZoneInfo("UTC"),
    deque([1, [2]], 3), deque(), range(1, 9, 2), slice(None, 3), Decimal("1.50"), Fraction(-1, 3), uuid.UUID(int=5),
    PurePosixPath("/a/b"), PureWindowsPath("c:\\x"), Path("x"), argparse.Namespace(a=1, b=[NOON]), SimpleNamespace(x=2),
    UserDict(a=1), UserList([1]), ChainMap({"a": 1}), array.array("d", [1, 2]), re.compile("a+", re.I), int, np.float32,
    dict, type(None), ..., Counter("aab"), defaultdict(list, a=[1]), frozenset({(1, 2)}), bytearray(b"x"), 1j,
]
NUMPY = [
    np.datetime64("2026-11-27T12", "h"), np.timedelta64(3, "s"), np.datetime64("NaT"), np.str_("é"), np.bytes_(b"x"),
    np.longdouble("1.1"), np.dtype(">f4"), np.dtype("<M8[3D]"), np.bool_(True), np.complex64(1j),
    np.dtype((">f4", (2, 3))), np.dtype([("a", "U1"), ("b", [("c", "M8[D]", 2)])]), np.dtype([(("t", "a"), "<i4")]),
    np.dtype([("a", "i1"), ("b", "f8")], align=True), np.dtype({"names": ["a"], "formats": ["i1"], "offsets": [3]}),
    np.array(["a", "bcd"]), np.array([[b"x", b"yz"]]), np.arange(6, dtype=">f4").reshape(2, 3).T,
    np.array(["2026-11-27"], "M8[D]"), np.array([1], "m8[s]"), np.array([1.5], np.longdouble),
    np.array(["a", "b", "c"])[::2],
    np.array([("a", 1)], [("x", "U1"), ("y", "<i4", (2,))]), np.zeros((2, 0), ">i8"), np.array("text"),
    np.ones(3, ml_dtypes.int4), np.ones((4, 2), ml_dtypes.float4_e2m1fn), ml_dtypes.bfloat16(1.5),
]


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, (UserDict, UserList, ChainMap, np.generic)):
        return type(a) is type(b) and (str(a) == str(b))
    if isinstance(a, (dict, list, tuple, np.ndarray)):
        return same(a, b)
    return type(a) is type(b) and a == b and getattr(a, "fold", 0) == getattr(b, "fold", 0)


@pytest.mark.parametrize("value", PYTHON + NUMPY, ids=[f"{i}-{type(v).__name__}" for i, v in enumerate(PYTHON + NUMPY)])
def test_a_value_comes_back_as_what_it_was(tmp_path: Path, value: Any) -> None:
    state = {"value": value, "in": [{"deep": (value,)}]}
    ckpt.save(tmp_path / "s", state)
    for back in (ckpt.load(tmp_path / "s"), ckpt.load(tmp_path / "s", into=state)):
        assert equal(back["value"], value) and equal(back["in"][0]["deep"][0], value)
    ckpt.save(tmp_path / "s", back)
    assert equal(ckpt.load(tmp_path / "s")["value"], value)


@pytest.mark.torch
def test_what_an_import_keeps_is_what_a_save_keeps(torch: Any, tmp_path: Path) -> None:
    plain = [value for value in PYTHON + NUMPY if not isinstance(value, np.ndarray) or value.dtype.kind in "US"]
    state = {f"{i}": value for i, value in enumerate(plain) if not isinstance(value, (re.Pattern, ml_dtypes.bfloat16))}
    state |= {"version": torch.torch_version.TorchVersion("2.1"), "generator": torch.Generator().manual_seed(3),
              "size": torch.Size([2]), "text": Text("x"), "names": Names(a=1), "ordered": Ordered(a=1)}
    torch.save(state, tmp_path / "x.pt")
    ckpt.save(tmp_path / "s", state)
    kept, saved = ckpt.load(tmp_path / "x.pt", framework="torch"), ckpt.load(tmp_path / "s", framework="torch")
    for key, value in state.items():
        if key == "generator":
            assert torch.equal(kept[key].get_state(), saved[key].get_state()) and saved[key].initial_seed() == 3
        else:
            assert type(kept[key]) is type(saved[key]) and str(kept[key]) == str(saved[key]), key


@pytest.mark.parametrize("value", [Text("x"), Number(3), Names(a=[1]), Ordered(a=1), Several([1]), Once({1, "a"})])
def test_a_subclass_is_a_record_and_comes_back_into_one_of_its_class(tmp_path: Path, value: Any) -> None:
    ckpt.save(tmp_path / "s", {"x": value})
    assert ckpt.load(tmp_path / "s")["x"].class_name == f"{__name__}.{type(value).__name__}"
    mine = {"x": type(value)()}
    back = ckpt.load(tmp_path / "s", into=mine)["x"]
    assert type(back) is type(value) and back == value
    assert isinstance(value, (str, int)) or back is mine["x"]


class Plain:
    """An object with attributes."""

    def __init__(self, step: int) -> None:
        self.step, self.weights, self.more = step, np.full(3, float(step)), {"on": NOON}


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a: int) -> None:
        self.a, self.b = a, np.full(2, float(a))


class Closed:
    """Lets nobody set its attributes by their names, as a Variable of flax does."""

    __slots__ = ("a", "__dict__")

    def __init__(self, a: int) -> None:
        object.__setattr__(self, "a", a)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)

    def __getstate__(self) -> dict[str, int]:
        return {"a": self.a}

    def __setstate__(self, state: dict[str, int]) -> None:
        object.__setattr__(self, "a", state["a"])


def test_an_object_that_cannot_be_filled_is_made_anew(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"closed": Closed(3)})
    mine = {"closed": Closed(4)}
    assert ckpt.load(tmp_path / "s", into=mine)["closed"].a == 3
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        keeper.restore(mine)
    assert mine["closed"].a == 3


@pytest.mark.torch
def test_objects_of_any_class_and_partials_are_records_that_nobody_calls(torch: Any, tmp_path: Path) -> None:
    def state(n: int) -> dict[str, Any]:
        return {"plain": Plain(n), "slots": Slots(n), "partial": functools.partial(np.full, 2, fill_value=n),
                "in": Plain(0), "norm": functools.partial(torch.nn.LayerNorm, eps=1e-6)}

    saved, mine = state(3), state(4)
    slots, inner = mine["slots"], mine["slots"].b
    saved["in"].more, mine["in"].more = [Plain(5), torch.nn.Linear(2, 2)], [Plain(6), torch.nn.Linear(2, 2)]
    ckpt.save(tmp_path / "s", saved)
    back = ckpt.load(tmp_path / "s")
    assert [back[key].class_name for key in saved] == [
        f"{__name__}.Plain", f"{__name__}.Slots", "functools.partial", f"{__name__}.Plain", "functools.partial"]
    assert back["plain"].items["state"]["weights"].tolist() == [3] * 3
    held, weights, linear = mine["plain"], mine["plain"].weights, mine["in"].more[1]
    with ckpt.Checkpointer(tmp_path / "s") as keeper:
        keeper.restore(mine)
    assert mine["plain"] is held and held.weights is weights and (held.step, weights.tolist()) == (3, [3.0] * 3)
    assert mine["slots"] is slots and slots.b is inner and (slots.a, inner.tolist()) == (3, [3.0] * 2)
    assert mine["partial"]().tolist() == [3, 3]
    assert mine["in"].more[0].step == 5 and mine["in"].more[1] is linear
    assert torch.equal(linear.weight, saved["in"].more[1].weight)
    del saved["in"]  # a module by itself is its state, and in a file what a pickle says of it
    saved["slots"].b = saved["plain"].weights = 1
    torch.save(saved, tmp_path / "x.pt")
    ckpt.save(tmp_path / "t", saved)
    assert ckpt.load(tmp_path / "x.pt", framework="torch") == ckpt.load(tmp_path / "t", framework="torch")


@dataclasses.dataclass(frozen=True)
class Frozen:
    more: dict[str, Any]


@dataclasses.dataclass
class Train:
    step: int
    weight: Any
    more: dict[str, Any]


def fresh() -> dict[str, Any]:
    return {"train": Train(0, np.zeros(2), {"epoch": 0, "w": np.zeros(1)}), "names": Names(lr=0.0, w=np.zeros(1)),
            "space": SimpleNamespace(n=0, w=np.zeros(1)), "queue": deque([np.zeros(1)]), "list": [0], "set": {0},
            "ordered": OrderedDict(a={"n": 0}), "default": defaultdict(list, a=[0]), "count": Counter(a=3, b=1),
            "pair": Pair({"n": 0}, 0), "frozen": Frozen({"n": 0}),
            "bytes": bytearray(b"0"), "numpy": np.random.default_rng(1), "python": random.Random(1),
            "old": np.random.RandomState(1)}


def trained() -> dict[str, Any]:
    state = {"train": Train(7, np.ones(2), {"epoch": 7, "w": np.ones(1)}), "names": Names(lr=0.5, w=np.ones(1)),
             "space": SimpleNamespace(n=7, w=np.ones(1)), "queue": deque([np.ones(1)]), "list": [7, 8], "set": {7},
             "ordered": OrderedDict(a={"n": 7}), "default": defaultdict(list, a=[7]), "count": Counter(b=7),
             "pair": Pair({"n": 7}, 7), "frozen": Frozen({"n": 7}),
             "bytes": bytearray(b"7"), "numpy": np.random.default_rng(2), "python": random.Random(2),
             "old": np.random.RandomState(2)}
    state["numpy"].random(3)
    return state


@pytest.mark.parametrize("choice", [{}, {"strict": False}])
def test_a_restore_fills_what_others_hold(tmp_path: Path, choice: dict[str, Any]) -> None:
    saved = trained()
    with ckpt.Checkpointer(tmp_path, signals=()) as keeper:
        keeper.save(1, saved)
        keeper.wait()
        mine = fresh()
        held = {**mine, "more": mine["train"].more, "w": mine["train"].weight, "a": mine["ordered"]["a"]}
        keeper.restore(mine, **choice)
    assert all(mine[key] is held[key] for key in mine if key not in ("pair", "frozen"))
    assert mine["pair"].a is held["pair"].a and mine["frozen"].more is held["frozen"].more
    assert mine["train"].more is held["more"] and mine["train"].weight is held["w"]
    assert mine["ordered"]["a"] is held["a"]
    assert mine["train"].step == 7 and held["more"]["epoch"] == 7 and held["w"].tolist() == [1, 1]
    assert mine["space"].n == 7 and mine["space"].w[0] == mine["queue"][0][0] == mine["names"]["w"][0] == 1
    for key in ("list", "set", "ordered", "default", "count", "bytes", "pair", "frozen"):
        assert mine[key] == saved[key], key
    assert mine["names"]["lr"] == 0.5
    for key in ("numpy", "python", "old"):
        draw = (lambda generator: generator.random()) if key != "old" else (lambda generator: generator.rand())
        assert draw(held[key]) == draw(saved[key])


# ---- keys of dicts, and elements of sets ----


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Other(enum.IntEnum):
    RED = 5


class Called(str, enum.Enum):
    RED = "red"


@dataclasses.dataclass(unsafe_hash=True)
class Key:
    n: int
    of: tuple[Any, ...] = ()


Pair = namedtuple("Pair", "a b")
KEYS = [Color.RED, Other.RED, Called.RED, Key(1, (Color.RED,)), Pair(1, Other.RED), (1, Color.RED), (Color.RED, 1),
        frozenset({Color.RED}), 1.5, 2**70, True, None, b"x", int, Decimal("2.5")]


class Keyed:
    """Has a state with such keys, and takes it."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def state_dict(self) -> Any:
        return {"state": self.state}

    def load_state_dict(self, state: Any) -> None:
        self.state = state["state"]


@pytest.mark.parametrize("choice", [{}, {"strict": False}])
@pytest.mark.parametrize("kind", [dict, OrderedDict, Keyed])
def test_keys_and_elements_are_those_of_the_callers_own(tmp_path: Path, kind: Any, choice: dict[str, Any]) -> None:
    def state(n: int) -> dict[str, Any]:
        each = kind({key: np.full(2, float(n)) if i % 2 else n for i, key in enumerate(KEYS)})
        return {"each": each, "set": set(KEYS[n:]), "frozen": frozenset(KEYS[n:]), "count": Counter(KEYS * n)}

    ckpt.save(tmp_path, state(7), step=1)
    mine, wanted = state(1), state(7)
    held, keys = dict(mine), list(KEYS)
    ckpt.Checkpointer(tmp_path, signals=()).restore(mine, **choice)
    assert all(mine[key] is held[key] for key in ("each", "set", "count")) and keys == KEYS
    assert mine["set"] == wanted["set"] and mine["frozen"] == wanted["frozen"] and mine["count"] == wanted["count"]
    found = mine["each"].state if kind is Keyed else mine["each"]
    assert list(found) == KEYS and all(np.array(value).ravel()[0] == 7 for value in found.values())
    assert [type(key) for key in found] == [type(key) for key in KEYS]


def test_keys_of_a_class_of_another_name_and_new_ones_are_made_of_the_callers(tmp_path: Path) -> None:
    ckpt.save(tmp_path, {"x": {Color.RED: 1, Color.BLUE: 2, Other.RED: 3}})
    assert ckpt.load(tmp_path, into={"x": {Other.RED: 0, Color.RED: 0}})["x"] == {
        Color.RED: 1, Color.BLUE: 2, Other.RED: 3}
    Moved = enum.Enum("Moved", "RED BLUE GREEN")
    ckpt.save(tmp_path, {"x": {Color.BLUE}})
    assert ckpt.load(tmp_path, into={"x": {Moved.RED}})["x"] == {Moved.BLUE}
    for saved, into in (({Color.RED: 1}, {}), ({Color.RED}, set())):
        ckpt.save(tmp_path, {"x": saved})
        with pytest.raises(ckpt.MismatchError, match="'x/0.*test_kinds.Color in a key .*name"):
            ckpt.load(tmp_path, into={"x": into})


@pytest.mark.parametrize("saved,into", [
    (np.random.default_rng(1), np.random.Generator(np.random.MT19937(1))), (3, np.random.default_rng(1)),
    (Train(1, np.ones(2), {}), SimpleNamespace(step=0)), (SimpleNamespace(a=1), argparse.Namespace(a=0)),
    (np.array(["ab"]), np.array(["a"])), (np.arange(2, dtype=">i4"), np.array(["2026"], "M8[Y]")),
])
def test_what_does_not_make_the_callers_own_is_refused_before_anything_changes(tmp_path: Path, saved: Any,
                                                                               into: Any) -> None:
    ckpt.save(tmp_path / "s", {"a": np.ones(2), "x": saved})
    weights = np.zeros(2)
    with pytest.raises((ckpt.MismatchError, TypeError), match="into"):
        ckpt.load(tmp_path / "s", into={"a": weights, "x": into})
    assert not weights.any()


@pytest.mark.parametrize("record", [
    ckpt.Record("collections.deque", {"args": (range(10**15),)}),
    ckpt.Record("fractions.Fraction", {"args": ("1e999999",)}),
    ckpt.Record("builtins.type", {"name": "os.system"}), ckpt.Record("builtins.type", {"name": "numpy.fromfile"}),
    ckpt.Record("numpy._core.multiarray.scalar",
                {"args": (ckpt.Record("numpy.dtype", {"args": ("O8",)}), b"12345678")}),
    ckpt.Record("numpy.ndarray", {"data": np.zeros((1, 8), "u1"), "dtype": "|O"}),
    ckpt.Record("uuid.UUID", {"state": {"int": -1}}), ckpt.Record("types.SimpleNamespace", {"state": {1: 2}}),
    ckpt.Record("random.Random", {"state": (3, (1,), None)}), ckpt.Record("subprocess.Popen", {"args": ("ls",)}),
])
def test_a_record_makes_nothing_but_what_has_a_row(tmp_path: Path, record: ckpt.Record) -> None:
    ckpt.save(tmp_path / "s", {"x": record})
    assert ckpt.load(tmp_path / "s")["x"].class_name == record.class_name


@pytest.mark.parametrize("value,said", [
    ({"a": {"deep": lambda: 1}}, "state at 'a/deep'.*lambda"), ({"a": iter([1])}, "state at 'a'.*iterator"),
    ({"a": np.array([1, None])}, r"state at 'a'.*dtype object.*tolist"), ({"a": np.ma.masked_array([1])}, "'a'.*mask"),
    ({"a": [np.matrix([1])]}, "'a/0'.*asarray"), ({"a": object()}, "'a'.*state_dict"), ({"a": open}, None),
    ({"a": {Plain(1): 1}}, "'a'.*Plain.*equals only itself"), ({"a": {(1, Plain(1))}}, "'a/1'.*equals only itself"),
])
def test_what_cannot_be_saved_is_told_with_its_path_and_a_way_out(tmp_path: Path, value: Any, said: str | None) -> None:
    if said is None:
        ckpt.save(tmp_path / "s", value)
        assert ckpt.load(tmp_path / "s", into=value)["a"] is value["a"]
        return
    with pytest.raises(TypeError, match=said):
        ckpt.save(tmp_path / "s", value)


def test_what_nests_too_deep_is_refused_in_our_words(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(ckpt.InvalidError, match="200 levels"):
        ckpt.save(tmp_path / "s", {"d": deep})
    ckpt.save(tmp_path / "s", {"d": [1]})
    assert ckpt.load(tmp_path / "s", into={"d": deep})["d"] == [1]
