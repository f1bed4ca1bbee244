"""ckpt.save and ckpt.load of whole states, with numpy."""

from __future__ import annotations

import itertools
import math
import shutil
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ckpt
import ml_dtypes
import numpy as np
import pytest
from ckpt import errors, progress
from conftest import bits, python, sessions_of

VALUES = [
    None, True, False, 0, -1, 2**63 - 1, -2**63, 2**63, -2**200, 10**5000, 0.0, -0.0, 1e308, 5e-324, math.inf,
    -math.inf, "", "té\0xt\U0001F600", b"", b"\0\xff", [], [[]], (), (1, [2, (3,)]), {}, {"a": {"b": {}}}, set(),
    {1, "a", (2, 3)}, {"0": "text", 0: "int", -5: 1, "$": 1, "": 2, "a/b": 3, "~": 4},
    Counter({"b": 2, 7: -1}), Counter(), Counter({(1, 2): 1}), defaultdict(list, {"x": [1], 3: []}), defaultdict(None),
    defaultdict(int, {(1, 2): 3}), {np.int64(1), 2}, {frozenset(), frozenset({1, frozenset({2})})},
    {1j, b"x", np.bool_(True)},
    OrderedDict([("b", 1), ("a", 2)]), frozenset({1, 2}), bytearray(b"ab"), 1 + 2j,
    {(1, 2): "tuple", None: 1, 2**70: 2, 1.5: 3},
    np.float32(1.5), np.int64(-3), np.bool_(True), np.float16(0.1), np.complex64(1 + 2j), np.uint8(255),
]


def same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b)
    if isinstance(a, dict):
        if getattr(a, "default_factory", None) is not getattr(b, "default_factory", None):
            return False
        return list(a) == list(b) and all(type(k) is type(q) and same(a[k], b[q]) for k, q in zip(a, b))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return math.isnan(a) and math.isnan(b) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return bool(a == b)


@pytest.mark.parametrize("value", VALUES, ids=[f"{i}-{type(value).__name__}" for i, value in enumerate(VALUES)])
def test_every_value_keeps_its_type_and_value(tmp_path: Path, value: Any) -> None:
    ckpt.save(tmp_path / "s", {"value": value, "list": [value]})
    assert same(ckpt.load(tmp_path / "s"), {"value": value, "list": [value]})


def test_large_ints_need_no_high_limit_of_the_process(tmp_path: Path) -> None:
    values = [sign * 10**digits + odd for sign in (1, -1) for digits in (639, 640, 641, 5000) for odd in (0, 7, -1)]
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)  # the lowest that Python allows
    try:
        ckpt.save(tmp_path / "s", values)
        loaded = ckpt.load(tmp_path / "s")
    finally:
        sys.set_int_max_str_digits(limit)
    assert loaded == values


def test_nan_is_nan(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", [math.nan])
    assert math.isnan(ckpt.load(tmp_path / "s")[0])


def test_a_state_that_is_one_value_needs_no_dict(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", np.arange(3))
    assert ckpt.load(tmp_path / "s").tolist() == [0, 1, 2]
    with ckpt.Reader(ckpt.Store(tmp_path / "s")) as reader:
        assert [tensor.name for tensor in reader.tensors()] == ["state"]


def test_arrays_of_every_kind_come_back_where_they_were(tmp_path: Path) -> None:
    state = {"f4": np.arange(6, dtype="f4").reshape(2, 3), "deep": [{"x": (np.float64(2), np.arange(3, dtype="u2"))}],
             "bf16": np.arange(4).astype(ml_dtypes.bfloat16), "fp8": np.arange(4).astype(ml_dtypes.float8_e5m2),
             "scalar": np.array(7, "i8"), "empty": np.empty((0, 3), "c16"), "fortran": np.asfortranarray(np.eye(3)),
             "odd": OrderedDict(a={2**64: np.ones(2)})}
    identifier = ckpt.save(tmp_path / "s", state, step=3)
    assert identifier.startswith("step-3.")
    assert same(ckpt.load(tmp_path / "s", "step:3"), state)
    with ckpt.Reader(ckpt.Store(tmp_path / "s")) as reader:
        assert [tensor.name for tensor in reader.tensors()] == [
            "bf16", "deep/0/x/1", "empty", "f4", "fortran", "fp8", "odd/a/0/1", "scalar"]


def test_sets_are_written_in_an_order_that_all_processes_agree_on(tmp_path: Path) -> None:
    code = "import sys, ckpt; ckpt.save(sys.argv[1], {'s': {'b', 'a', 10, 9, ('x',), b'c'}})"
    trees = set()
    for run in range(3):
        python(code, str(tmp_path / f"{run}"))
        trees.add(ckpt.Reader(ckpt.Store(tmp_path / f"{run}")).tree().json())
    assert len(trees) == 1 and '"items":[9,10,' in trees.pop()


@pytest.mark.parametrize("value,place", [
    ({"a": [1, {"x": object()}]}, "state at 'a/1/x': a value of type builtins.object"),
    ({"a": defaultdict(lambda: 1)}, "state at 'a/args/0': .*function"),
    ({"a": {"b": {object()}}}, "state at 'a/b': a value of type builtins.object"),
    ({"a": [frozenset({(1, "x".join)})]}, "state at 'a/0.*builtin_function"),
    ({"m": np.ma.masked_array([1])}, "MaskedArray"),
])
def test_other_types_are_refused_by_their_place(tmp_path: Path, value: Any, place: str) -> None:
    with pytest.raises(TypeError, match=place):
        ckpt.save(tmp_path / "s", value)


@pytest.mark.parametrize("value", [{"a": {"b": "\ud800"}}, {"a": {"b": {"\udcff": 1}}}, {"a": {"b": {"x", "\ud800"}}}])
def test_text_that_is_no_utf8_is_refused_by_its_place(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ckpt.InvalidError, match="state at 'a/b.*surrogate"):
        ckpt.save(tmp_path / "s", value)


@pytest.mark.parametrize("record", [
    ckpt.Record("numpy.int8", {"value": 300}), ckpt.Record("builtins.bytearray", {"value": 2**40}),
    ckpt.Record("numpy.float32", {"value": [1, 2]}), ckpt.Record("builtins.frozenset", {"items": 3}),
    ckpt.Record("collections.Counter", {"args": (3,)}), ckpt.Record("collections.defaultdict", {"args": ("list",)}),
    ckpt.Record("collections.defaultdict", {"args": (ckpt.Record("builtins.type", {"name": "os.system"}),)}),
    ckpt.Record("builtins.complex", {"args": (10**400, 1)}),
])
def test_records_that_say_what_cannot_be_stay_records(tmp_path: Path, record: ckpt.Record) -> None:
    ckpt.save(tmp_path / "s", {"x": record})
    assert ckpt.load(tmp_path / "s") == {"x": record}


def test_arrays_in_a_defaultdict_are_named_and_found_like_those_in_a_dict(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"d": defaultdict(dict, {"x": {"w": np.ones(2)}})})
    mine = defaultdict(dict, {"x": {"w": np.zeros(2)}})
    assert ckpt.load(tmp_path / "s", into={"d": mine})["d"]["x"]["w"] is mine["x"]["w"] and mine["x"]["w"].all()
    assert ckpt.load(tmp_path / "s", at=("d", "x"))["w"].tolist() == [1, 1]
    with ckpt.Reader(ckpt.Store(tmp_path / "s")) as reader:
        assert [tensor.name for tensor in reader.tensors()] == ["d/x/w"]


def test_an_array_that_cannot_be_taken_is_named(tmp_path: Path) -> None:
    with pytest.raises(ckpt.UnsupportedError) as caught:
        ckpt.save(tmp_path / "s", {"a": {"b": np.arange(3)[::-1]}})
    assert caught.value.details["tensor"] == "a/b"


# ---- shared memory ----


def test_shared_memory_is_saved_once_and_shared_again(tmp_path: Path) -> None:
    base = np.arange(12, dtype="f4")
    state = {"base": base, "same": base, "view": base.reshape(3, 4)[:, 1:3], "t": base.reshape(3, 4).T,
             "other": base.copy(), "bytes": base.view("u1")}
    ckpt.save(tmp_path / "s", state)
    with ckpt.Reader(ckpt.Store(tmp_path / "s")) as reader:
        aliases = {tensor.name: tensor.alias_of for tensor in reader.tensors()}
    assert aliases == {"base": None, "same": "base", "view": "base", "t": "base", "other": None, "bytes": None}
    back = ckpt.load(tmp_path / "s")
    assert same(back, state)
    back["base"][:] = 9
    assert (back["view"] == 9).all() and (back["t"] == 9).all() and (back["same"] == 9).all()
    assert (back["other"] == base).all()
    assert same(ckpt.load(tmp_path / "s", at=("view",)), state["view"])  # without its target


@pytest.mark.parametrize("order", list(itertools.permutations(["base", "a", "b", "t", "u"])))
def test_a_view_that_comes_twice_is_a_view_of_the_whole_in_any_order(tmp_path: Path, order: tuple[str, ...]) -> None:
    base = np.arange(12.0)
    a, t = base[2:6], base.reshape(3, 4).T
    state = {name: {"base": base, "a": a, "b": a, "t": t, "u": t}[name] for name in order}
    ckpt.save(tmp_path / "s", state)
    with ckpt.Reader(ckpt.Store(tmp_path / "s")) as reader:
        assert {tensor.name: tensor.alias_of for tensor in reader.tensors()} == {
            "base": None, "a": "base", "b": "base", "t": "base", "u": "base"}
    assert same(ckpt.load(tmp_path / "s"), state)


@pytest.mark.parametrize("order", list(itertools.permutations(["a", "b", "c", "s"])))
def test_parts_that_overlap_share_again_what_they_shared(tmp_path: Path, order: tuple[str, ...]) -> None:
    base = np.arange(30)
    parts = {"a": base[2:12], "b": base[8:20], "c": base[20:], "s": base[4:16:3]}  # c touches b, and shares nothing
    state = {name: parts[name] for name in order}
    ckpt.save(tmp_path / "s", state)
    back = ckpt.load(tmp_path / "s", strict="exact")
    assert same(back, state)
    back["a"][6] = 100  # base[8]
    back["b"][2] = 200  # base[10]
    assert back["b"][0] == 100 and back["a"][8] == 200 and list(back["s"]) == [4, 7, 200, 13]
    with ckpt.Reader(ckpt.Store(tmp_path / "s")) as reader:
        stored = sum(tensor.stored_bytes for tensor in reader.tensors())
        assert stored == (18 + 10) * 8 and reader.tensor("c").alias_of is None
    into = {name: np.zeros_like(part) for name, part in parts.items()}
    ckpt.load(tmp_path / "s", into=into, strict="exact")
    assert same(into, {name: parts[name] for name in into})


def test_a_part_that_overlaps_is_loaded_without_the_others(tmp_path: Path) -> None:
    base = np.arange(10)
    ckpt.save(tmp_path / "s", {"x": {"a": base[:6]}, "y": [base[4:], base[5:]]})
    alone = ckpt.load(tmp_path / "s", at=("x", "a"))
    assert same(alone, base[:6]) and alone.base is None
    two = ckpt.load(tmp_path / "s", at=("y",))
    two[0][1] = 100
    assert two[1][0] == 100


GAPS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "columns": lambda x: {"a": x[:, 0:3], "b": x[:, 2:5]},
    "columns and a row": lambda x: {"a": x[:, 0:3], "row": x[2], "c": x[:, 5]},
    "a part without gaps": lambda x: {"flat": x.reshape(-1)[:8], "b": x[:, 1]},
    "turned and more": lambda x: {"a": x[1:4, 1:4].T, "b": x[2:6, 0:2], "apart": x[0:2, 4:6]},
    "windows": lambda x: {"a": np.lib.stride_tricks.as_strided(x, (5, 3), (8, 8), writeable=True)},
}


@pytest.mark.parametrize("parts", list(GAPS))
@pytest.mark.parametrize("backwards", [False, True])
def test_views_with_gaps_that_have_elements_in_common_are_loaded_into_themselves(tmp_path: Path, parts: str,
                                                                                 backwards: bool) -> None:
    state = GAPS[parts](np.arange(36.0).reshape(6, 6))
    state = dict(reversed(state.items())) if backwards else state
    ckpt.save(tmp_path / "s", state)
    assert same(ckpt.load(tmp_path / "s", strict="exact"), state)
    other = GAPS[parts](np.zeros((6, 6)))
    ckpt.load(tmp_path / "s", into=other, strict="exact")
    assert same(other, {name: state[name] for name in other})


def test_views_with_gaps_that_have_nothing_in_common_are_saved_by_themselves(tmp_path: Path) -> None:
    x = np.arange(36.0).reshape(6, 6)
    ckpt.save(tmp_path / "s", {"a": x[:, 0:3], "b": x[:, 3:5], "c": x[1::2, 5]})
    with ckpt.Reader(ckpt.Store(tmp_path / "s")) as reader:
        assert [(tensor.name, tensor.alias_of, tensor.stored_bytes) for tensor in reader.tensors()] == [
            ("a", None, 18 * 8), ("b", None, 12 * 8), ("c", None, 3 * 8)]


# ---- into ----


def test_into_reads_into_the_callers_arrays(tmp_path: Path) -> None:
    saved = {"w": np.arange(6.0).reshape(2, 3), "more": {"b": np.ones(2, "i4"), "n": 7}}
    ckpt.save(tmp_path / "s", saved)
    mine = {"w": np.zeros((3, 2)).T, "more": {"b": np.zeros(2, "i4"), "n": 0}}
    back = ckpt.load(tmp_path / "s", into=mine)
    assert back["w"] is mine["w"] and back["more"]["b"] is mine["more"]["b"]
    assert same(back, saved) and mine["more"]["n"] == 0
    part = ckpt.load(tmp_path / "s", at=("more",), into={"b": mine["more"]["b"]})
    assert part["b"] is mine["more"]["b"] and part["n"] == 7


@pytest.mark.parametrize("into,error,named", [
    ({"w": np.zeros((3, 2))}, ckpt.MismatchError, "w"),
    ({"w": np.zeros((2, 3), "f4")}, ckpt.MismatchError, "w"),
    ({"w": np.zeros((2, 3)), "x": [np.zeros(1)]}, ckpt.NotFoundError, "x/0"),
    ({"w": np.broadcast_to(np.zeros(3), (2, 3))}, ckpt.UnsupportedError, "read-only|not writ"),
])
def test_an_array_of_into_that_does_not_fit_changes_nothing(tmp_path: Path, into: Any, error: type[Exception],
                                                            named: str) -> None:
    ckpt.save(tmp_path / "s", {"w": np.ones((2, 3))})
    with pytest.raises(error, match=named):
        ckpt.load(tmp_path / "s", into=into)
    assert not into["w"].any()


def test_into_converts_where_asked(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"w": np.array([1.5, 2], "f4")})
    half = np.zeros(2, "f2")
    ckpt.load(tmp_path / "s", into={"w": half}, convert=True)
    assert half.tolist() == [1.5, 2]


def test_arrays_of_into_that_share_memory_need_a_checkpoint_that_does(tmp_path: Path) -> None:
    tied, loose = np.ones(3), np.zeros(3)
    ckpt.save(tmp_path / "tied", {"a": tied, "b": tied})
    ckpt.save(tmp_path / "loose", {"a": tied, "b": tied + 1})
    assert ckpt.load(tmp_path / "tied", into={"a": loose, "b": loose})["b"].tolist() == [1, 1, 1]
    with pytest.raises(ckpt.MismatchError, match="'a' and 'b' share memory"):
        ckpt.load(tmp_path / "loose", into={"a": loose, "b": loose})


@pytest.mark.parametrize("name", ["step-2.1.1", "renamed"])
def test_a_checkpoint_that_was_copied_alone_is_opened(tmp_path: Path, name: str) -> None:
    ckpt.save(tmp_path / "s", {"w": np.arange(3)}, step=2)
    shutil.copytree(tmp_path / "s" / "step-2.1.1", tmp_path / "laptop" / name)
    assert ckpt.load(tmp_path / "laptop" / name)["w"].tolist() == [0, 1, 2]


def test_a_place_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"a": [1]})
    assert ckpt.load(tmp_path / "s", at=("a", 0)) == 1
    with pytest.raises(ckpt.NotFoundError, match="'a/1'"):
        ckpt.load(tmp_path / "s", at=("a", 1))


# ---- sessions, ranks, time ----


def test_a_session_is_used_for_many_saves(session: ckpt.Session, store: ckpt.Store) -> None:
    w = np.zeros(100)
    for step in range(3):
        w += 1
        ckpt.save(session, {"w": w, "step": step}, step=step, keep_last=2)
    assert [info.step for info in store.list()] == [1, 2]
    assert ckpt.load(store)["w"][0] == 3 and ckpt.load(store, "step-1")["step"] == 1


def test_without_step_and_label_every_save_has_its_own(tmp_path: Path) -> None:
    assert ckpt.save(tmp_path / "s", 1) != ckpt.save(tmp_path / "s", 2)
    assert ckpt.load(tmp_path / "s") == 2
    with pytest.raises(ValueError, match="label= or step="):
        ckpt.save(tmp_path / "s", 1, world_size=2)


def test_a_session_of_several_ranks_needs_a_common_label(store: ckpt.Store) -> None:
    with ckpt.Session(store, 0, 2) as several:
        for call in (ckpt.save, ckpt.save_async):
            with pytest.raises(ValueError, match="label= or step="):
                call(several, 1)


@pytest.mark.parametrize("given", [{"rank": 1}, {"world_size": 2}, {"session_string": "x"}])
def test_a_session_says_itself_which_rank_it_is(session: ckpt.Session, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(given))}="):
        ckpt.save(session, 1, label="a", **given)


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("state", [{"x": object()}, {"w": ckpt.Shard(np.ones(2), (1,), (0,))}])
def test_a_state_that_one_rank_cannot_save_ends_the_save_of_all(store: ckpt.Store, failing: int, state: Any) -> None:
    ranks = sessions_of(store)
    # in_place: rank 1's save is staged only once rank 0 has begun
    with ckpt.save_async(ranks[1 - failing], {"w": np.ones(2)}, label="a", in_place=True) as waiting:
        with pytest.raises((TypeError, ckpt.Error)) as caught:
            ckpt.save(ranks[failing], state, label="a")
        assert not isinstance(caught.value, ckpt.RankError)
        with pytest.raises(ckpt.RankError, match="gave up: TypeError: state at 'x'|lies outside") as told:
            waiting.result(timeout_ms=60_000)
        assert "CANCELLED" not in told.value.message
        assert waiting.stats.state == ckpt.JobState.FAILED
        waiting.close()
    assert not [info for info in store.list() if info.state == ckpt.CheckpointState.COMMITTED]


def test_a_handle_may_be_closed_inside_its_block(session: ckpt.Session, store: ckpt.Store) -> None:
    with ckpt.save_async(session, 1, label="a") as handle:
        assert handle.result() == "a.1.1" and handle.stats.state == ckpt.JobState.COMMITTED
        handle.close()
    assert handle.id == "a.1.1" and ckpt.load(store) == 1


def test_shards_of_two_ranks_are_one_tensor(store: ckpt.Store) -> None:
    whole = np.arange(24.0).reshape(4, 6)
    handles = [
        ckpt.save_async(session, {"w": ckpt.Shard(whole[2 * rank:2 * rank + 2], (4, 6), (2 * rank, 0)), "n": 5,
                                  "flat": ckpt.Shard(whole.reshape(-1)[12 * rank:12 * rank + 12], (4, 6),
                                                     flat_offset=12 * rank)}, label="a")
        for rank, session in enumerate(sessions_of(store))]
    for handle in handles:
        handle.result()
        handle.close()
    assert same(ckpt.load(store), {"w": whole, "n": 5, "flat": whole})
    middle = np.zeros((2, 6))
    back = ckpt.load(store, into={"w": ckpt.Shard(middle, (4, 6), (1, 0))}, at=())
    assert (back["w"].data == whole[1:3]).all() and (middle == whole[1:3]).all()


def test_what_each_rank_has_for_itself_is_a_row_of_a_tensor(store: ckpt.Store) -> None:
    handles = []
    for rank, session in enumerate(sessions_of(store)):
        mine = np.frombuffer(bytes([rank] * 5), "u1")
        handles.append(ckpt.save_async(session, {"rng": ckpt.Shard(mine[None], (2, 5), (rank, 0))}, label="a"))
    for handle in handles:
        with handle:
            handle.result()
    for rank in range(2):
        mine = np.empty((1, 5), "u1")
        ckpt.load(store, into={"rng": ckpt.Shard(mine, (2, 5), (rank, 0))})
        assert mine.tolist() == [[rank] * 5]


def test_progress_is_told_to_the_end(tmp_path: Path, capsys: Any) -> None:
    said: list[tuple[int, int]] = []
    state = {"w": np.ones(300_000)}
    ckpt.save(tmp_path / "s", state, progress=lambda done, total: said.append((done, total)))
    ckpt.load(tmp_path / "s", progress=lambda done, total: said.append((done, total)))
    assert said.count((said[-1][1],) * 2) >= 1 and said[-1][1] >= 2_400_000
    ckpt.load(tmp_path / "s", progress=True)
    assert "load" in capsys.readouterr().err


def test_progress_without_tqdm_is_plain(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    ckpt.save(tmp_path / "s", {"w": np.ones(300_000)}, progress=True)
    assert "save: 2 of 2 MB" in capsys.readouterr().err


def test_an_exception_in_progress_ends_the_save(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyError("mine")

    w = bytearray(100)
    with ckpt.Store(tmp_path / "s") as store, ckpt.Session(store, 0, 2) as session:  # the other rank never saves
        with pytest.raises(KeyError):
            ckpt.save(session, {"w": np.frombuffer(w, "u1")}, label="a", progress=stop)
        w.append(1)  # nobody holds it
        assert not [info for info in store.list() if info.state == ckpt.CheckpointState.COMMITTED]


class EndsAfterThePoll:
    """A job that fails after a wait for it timed out and before its state is read."""

    stats = ckpt.JobStats
    state = ckpt.JobState.FAILED

    def wait(self, timeout_ms: int = -1) -> None:
        """The first time it was still running."""
        raise errors.error_of(60 if timeout_ms < 0 else ckpt.Status.TIMEOUT, "the job's own" if timeout_ms < 0 else "")


def test_the_jobs_own_error_is_raised_with_progress_too() -> None:
    with pytest.raises(ckpt.InternalError, match="the job's own"):
        progress.ended(EndsAfterThePoll())  # type: ignore[arg-type]
