"""ckpt.stats: its numbers are those of `ckpt report`, for every dtype, however the elements are read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ckpt
import ml_dtypes
import numpy as np
import pytest

FLOATS = ["f2", "f4", "f8", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e3m4,
          ml_dtypes.float8_e8m0fnu, ml_dtypes.float8_e4m3b11fnuz, "c8", "c16"]
RAW = {"i4": 4, "u4": 4, "f4_e2m1fn": 4, "f6_e2m3fn": 6, "f6_e3m2fn": 6, "c32": 32, 0x0707: 7}  # numpy has none of them
COUNT = 1001  # odd, so that packed elements end inside a byte
ONE = ("min", "max", "mean", "norm", "zeros", "nans", "infinities")
TWO = ("differ", "odd", "norm", "norm_a", "norm_b", "change", "cosine", "largest")


def save(session: ckpt.Session, step: int) -> None:
    random = np.random.default_rng(step)
    values = random.normal(size=COUNT) * 3
    values[random.integers(0, COUNT, 9)] = [np.nan, np.nan, np.inf, -np.inf, 0, 0, 0, -0.0, 1e300]
    with ckpt.Save(session, f"step-{step}", step) as request, np.errstate(all="ignore"):
        for dtype in FLOATS:
            request.add_tensor(f"float/{np.dtype(dtype)}", values.astype(dtype))
        request.add_tensor("u64", random.integers(0, 2**64, COUNT, dtype="u8"))
        request.add_tensor("i8", random.integers(-128, 128, (7, 143), dtype="i1"))
        request.add_tensor("close", np.array([2**60 + step, 2**63 - step]))
        request.add_tensor("bool", random.integers(0, 2, COUNT).astype(bool))
        request.add_tensor("none", np.zeros((0, 3)))
        request.add_tensor("scalar", np.array(4.5))
        request.add_tensor("nan", np.full(3, np.nan))
        request.add_tensor(f"only-{step}", np.ones(2))
        request.add_tensor("reshaped", np.ones((2, step)))
        request.add_alias("alias", "scalar")
        for name, bits in RAW.items():
            raw = random.integers(0, 256, (COUNT * bits + 7) // 8, dtype="u1")
            raw[-1] &= (1 << (COUNT * bits - 1) % 8 + 1) - 1
            request.add_tensor(f"raw/{name}", raw, dtype=name, shape=(COUNT,))
        request.run()


@pytest.fixture
def saved(session: ckpt.Session, store: ckpt.Store) -> ckpt.Store:
    for step in (1, 2):
        save(session, step)
    return store


def report(*arguments: object) -> Any:
    """What the tool says."""
    prefix = subprocess.run(["pkg-config", "--variable=prefix", "ckpt"], capture_output=True, text=True, check=True)
    return json.loads(subprocess.run([f"{prefix.stdout.strip()}/bin/ckpt", "report", "--json", *map(str, arguments)],
                                     capture_output=True, check=True).stdout)


def same(mine: Any, tools: Any) -> bool:
    """The tool gives six digits, and adds in another order."""
    return (mine is None and tools is None) or bool(mine == pytest.approx(tools, rel=1e-5))


@pytest.fixture(params=["at once", "in pieces"])
def pieces(request: Any, monkeypatch: Any) -> None:
    if request.param == "in pieces":
        monkeypatch.setattr(ckpt.figures, "_BATCH_BYTES", 1000)
        monkeypatch.setattr(ckpt.figures, "_RUN", 64)


@pytest.mark.usefixtures("pieces")
def test_of_one_checkpoint_the_numbers_are_those_of_the_tool(saved: ckpt.Store) -> None:
    told = report(f"{saved.uri}@step:1", "--stats")
    rows = ckpt.stats(ckpt.open(saved, "step:1")).to_pylist()
    assert [row["name"] for row in rows] == told["tensors"]["name"]
    for place, row in enumerate(rows):
        figures = dict(zip(told["names"], told["figures"][place] or []))
        for key in ONE:
            assert same(row[key], figures.get(key)), (row, key, figures)
        assert (row["shape"], row["bytes"], row["stored_bytes"], row["alias_of"]) == tuple(
            told["tensors"][key][place] for key in ("shape", "bytes", "stored_bytes", "alias_of"))


@pytest.mark.usefixtures("pieces")
def test_of_two_checkpoints_the_numbers_are_those_of_the_tool(saved: ckpt.Store) -> None:
    told = report(f"{saved.uri}@step:1", f"{saved.uri}@step:2")
    rows = ckpt.stats(ckpt.open(saved, "step:1"), ckpt.open(saved, "step:2")).to_pylist()
    figures = {row["name"]: [row[key] for key in TWO] for row in rows if row["note"] is None}
    assert sorted(figures) == told["tensors"]["name"]
    for name, change in zip(told["tensors"]["name"], told["figures"]):
        for mine, tools in zip(figures[name], change[1:]):
            assert same(mine, tools), (name, figures[name], change)
    assert {row["name"]: row["note"] for row in rows if row["note"]} == {
        "alias": "alias of scalar", "only-1": "only in the first", "only-2": "only in the second",
        "raw/1799": "no numbers that ckpt can read", "reshaped": "f64 [2, 1] against f64 [2, 2]"}
    odd = [bool(row["odd"]) for row in rows]
    assert odd == sorted(odd, reverse=True) and odd[0]
    rest = [row["change"] for row in rows if row["change"] is not None and not row["odd"]]
    assert rest == sorted(rest, reverse=True)


def test_what_a_load_takes_has_figures(saved: ckpt.Store, session: ckpt.Session, tmp_path: Path) -> None:
    table = ckpt.Table(np.arange(500), {"x": np.arange(1000, dtype="f4").reshape(500, 2)})
    ckpt.save(session, {"t": table, "w": np.arange(6.0).reshape(2, 3)}, label="table")
    column = {row["name"]: row for row in ckpt.stats(saved.uri).to_pylist()}["t/x"]  # the latest
    assert (column["max"], column["mean"], column["zeros"]) == (999, 499.5, 1)
    with ckpt.Reader(saved, "table") as reader:
        assert ckpt.stats(reader).num_rows == ckpt.stats(saved).num_rows and not reader.closed
    ckpt.save(tmp_path / "one", {"w": np.arange(6.0).reshape(2, 3)})
    ckpt.Reader(ckpt.Store(tmp_path / "one")).export(tmp_path / "x.safetensors")
    assert ckpt.stats(tmp_path / "x.safetensors").to_pylist()[0]["norm"] == pytest.approx(55**0.5)
    assert ckpt.stats(tmp_path / "one", tmp_path / "x.safetensors").to_pylist()[0]["change"] == 0


def test_without_pyarrow_the_error_says_what_to_install(saved: ckpt.Store, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"^ckpt\.stats needs the package pyarrow: pip install pyarrow$"):
        ckpt.stats(saved)
