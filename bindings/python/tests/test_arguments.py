"""Every argument of a public function is checked at its door: an error names it, in ckpt's words."""

from __future__ import annotations

import inspect
import random
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest

API: Any = ckpt  # which is given what its types forbid
WRONG: tuple[Any, ...] = (None, -1, 1.5, 2**70, b"x", [], object())
ANY = {"self", "state", "value", "into", "data", "kind", "listed"}  # parameters that may be anything
OTHER_NAMES = {"n": "step", "end": "Rowset", "first": "Rowset", "index": "Rowset", "count": "Rowset"}
NOT_OURS = re.compile("incompatible function|object is not|has no attribute|could not convert|cannot be conv|iterable|"
                      "argument must be|can't be|out of bounds|too large to")


def calls(path: Path) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Public functions of Python, with what they must be given."""
    store = ckpt.Store(path)
    keeper = ckpt.Checkpointer(path / "kept", signals=())
    ckpt.save(path, {"n": np.ones(3), "t": ckpt.Table([1, 2], {"v": np.ones((2, 1))})}, step=1)
    reader, session = ckpt.Reader(store), ckpt.Session(ckpt.Store(path / "own"))
    share = reader.share("t")
    done = ckpt.save_async(session, {"n": 1}, step=1)
    yield from (
        ("save", ckpt.save, {"target": path, "state": {"n": 1}, "on_existing": "replace", "label": "x"}),
        ("save_async", lambda **given: ckpt.save_async(**given).result(), {
            "target": path, "state": {"n": 1}, "on_existing": "replace", "label": "x"}),
        ("load", ckpt.load, {"source": path, "selector": "step-1"}),
        ("open", ckpt.open, {"source": path}), ("ls", ckpt.ls, {"store": path}),
        ("Store", ckpt.Store, {"uri": path}), ("find", store.find, {}),
        ("Reader", ckpt.Reader, {"store": store}), ("share", reader.share, {"table": "t"}),
        ("Session", ckpt.Session, {"store": ckpt.Store(path / "more"), "timeout_ms": 1}), ("wait", session.wait, {}),
        ("result", done.result, {}), ("staged", done.staged, {}),
        ("Checkpointer", ckpt.Checkpointer, {"path": path / "k", "signals": ()}),
        ("step", keeper.step, {"n": 1, "state": {}}), ("keeper.save", keeper.save, {"n": 1, "state": {}}),
        ("restore", keeper.restore, {}), ("Shard", ckpt.Shard, {"data": np.ones(2), "shape": (2,)}),
        ("Table", ckpt.Table, {"ids": [1], "columns": {}}), ("all", ckpt.Rowset.all, {}),
        ("buckets", ckpt.Rowset.buckets, {"first": 0, "end": 1}), ("mod", ckpt.Rowset.mod, {"index": 0, "count": 1}),
        ("slice", ckpt.Rowset.slice, {"index": 0, "count": 1}), ("ids", ckpt.Rowset.ids, {"ids": [1]}),
        ("read", share.read, {}), ("windows", lambda **given: list(share.windows(**given)), {}))


def test_wrong_arguments_are_named(tmp_path: Path, monkeypatch: Any) -> None:
    warnings.simplefilter("ignore")
    monkeypatch.chdir(tmp_path)  # b"x" is a path
    wrong = []
    for name, call, given in calls(tmp_path):
        function: Any = {"save_async": ckpt.save_async, "windows": ckpt.Share.windows}.get(name, call)
        names = {one.name for one in inspect.signature(function).parameters.values() if one.kind != one.VAR_KEYWORD}
        if "options" in names:
            names |= {"timeout_ms", "strict"}
        for parameter in sorted(names - ANY):
            for value in WRONG:
                try:
                    made = call(**{**given, parameter: value})
                    if isinstance(made, (ckpt.Checkpointer, ckpt.Session)):
                        made.close()
                except ckpt.NotFoundError:
                    pass  # what it names could be there
                except (TypeError, ValueError, ckpt.Error) as error:
                    named = (parameter, OTHER_NAMES.get(parameter, parameter))
                    if not any(word in str(error) for word in named) or NOT_OURS.search(str(error)):
                        wrong.append(f"{name}({parameter}={value!r}): {type(error).__name__}: {error}")
                except Exception as error:
                    wrong.append(f"{name}({parameter}={value!r}): {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def closed(path: Path) -> Any:
    keeper = ckpt.Checkpointer(path, signals=())
    keeper.close()
    return keeper


@pytest.mark.parametrize(("call", "words"), [
    (lambda path: API.load(path, rank="0"), "rank: expected an int, found str '0'"),
    (lambda path: API.load(path, rank=0, world_size=2), '"world_size", but an argument of another call'),
    (lambda path: API.load(path, map="nonsense"), "map: 'nonsense' is for files of another program"),
    (lambda path: API.save(path, {}, keep_last=None), "option keep_last: expected an int, found None; leave it out"),
    (lambda path: API.save(path, {}, timeout_ms=1e4), "option timeout_ms: expected an int, found float 10000.0"),
    (lambda path: API.Checkpointer(path, signals="SIGTERM"), "signals: expected a list of names"),
    (lambda path: API.Checkpointer(path, signals=()).step(1, {}, metrics={"l": "x"}), "metrics: l: expected a number"),
    (lambda path: API.Checkpointer(path, signals=()).step(1, {}, epoch=np.ones(2)), "epoch: expected a number"),
    (lambda path: API.save(path, {"a": {"r": random.SystemRandom()}}), "state at 'a/r': .* it draws from the system"),
    (lambda path: API.save(path, {"a": {"f": "x\udcff"}}), r"state at 'a/f': .*surrogate; give bytes"),
    (lambda path: API.load("a\0b"), "INVALID: source: expected a path without a NUL"),
    (lambda path: API.save(b"a\0b", {}), "INVALID: target: expected a path without a NUL"),
    (lambda path: API.Store(Path("a\0b")), "INVALID: uri: expected a path without a NUL"),
    (lambda path: API.Checkpointer("a\0b"), "INVALID: path: expected a path without a NUL"),
    (lambda path: API.save(path, {"a": np.arange(4)[::-1]}), r"'a': .*negative.*give numpy.ascontiguousarray\(…\)"),
    (lambda path: API.save(path, {"a": ckpt.Shard(np.arange(4)[::-1], (4,), (0,))}), "'a': .*give numpy.ascont"),
    (lambda path: API.save(path, {}, step=-1), "INVALID: step: expected 0 to .*, found -1; leave it out"),
    (lambda path: closed(path).save(2, {}), "INVALID: the Checkpointer is closed; make a new one"),
    (lambda path: closed(path).step(2, {}), "INVALID: the Checkpointer is closed; make a new one"),
    (lambda path: closed(path).restore({}), "INVALID: the Checkpointer is closed; make a new one"),
    (lambda path: API.save(path, {"a": memoryview(b"x")}), "state at 'a': .*give bytes"),
    (lambda path: API.save(path, {"a": __import__("io").BytesIO()}), "state at 'a': .*an open file; give its bytes"),
])
def test_what_a_user_reads(call: Callable[[Path], Any], words: str, tmp_path: Path) -> None:
    ckpt.save(tmp_path, {"n": 1}, step=1)
    with pytest.raises((TypeError, ValueError, ckpt.Error), match=words):
        call(tmp_path)


def test_a_value_that_is_only_deep_is_told_the_limit(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep, deep]
    with pytest.raises(ckpt.InvalidError, match="more than 200 levels"):
        ckpt.save(tmp_path, deep)
