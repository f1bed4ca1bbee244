"""Errors carry all that the library says; unknown numbers are kept."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import ckpt
import pytest
from ckpt import errors


def test_an_error_has_status_message_and_details(store: ckpt.Store, session: ckpt.Session) -> None:
    with ckpt.Save(session, "a") as save, pytest.raises(ckpt.Error) as caught:
        save.add_tensor("w", b"12", dtype="u8", shape=(3,))
    error = caught.value
    assert type(error) is ckpt.InvalidError and isinstance(error, ckpt.CallError)
    assert error.status is ckpt.Status.INVALID and error.status == 10
    assert error.details["tensor"] == "w" and (error.details["expected"], error.details["found"]) == ("3", "2")
    assert str(error) == f"INVALID: {error.message}" and "\n" not in error.message
    again = copy.copy(error)
    assert (again.status, again.message, again.details) == (error.status, error.message, error.details)


def test_every_status_has_a_class_in_its_group() -> None:
    groups = {1: ckpt.CallError, 2: ckpt.StoreError, 3: ckpt.DataError, 4: ckpt.RankError, 5: ckpt.MachineError,
              6: ckpt.InternalError}
    classes = set()
    for status in ckpt.Status:
        if status != ckpt.Status.OK:
            made = errors.error_of(status, "text")
            assert isinstance(made, groups[status // 10]) and made.status is status
            assert type(made).__name__.removesuffix("Error").upper() == {
                "NOMEM": "NOMEMORY"}.get(status.name, status.name.replace("_", ""))
            classes.add(type(made))
    assert len(classes) == len(ckpt.Status) - 1


def test_numbers_that_nobody_knows_are_kept() -> None:
    error = errors.error_of(39, "from a newer library", {"found": "x"})
    assert type(error) is ckpt.DataError and error.status == 39 and error.status.name == "UNKNOWN"
    assert str(error) == "UNKNOWN: from a newer library"
    assert ckpt.JobState(99) == 99 and ckpt.JobState(99).name == "UNKNOWN"
    assert copy.copy(ckpt.Status(39)) == 39
    vast = ckpt.DType(0x2210)
    assert (vast.bits, str(vast)) == (16, "dtype")
    with pytest.raises(ValueError):
        ckpt.DType("bf16")
    with pytest.raises(ValueError):
        ckpt.DType.find("bf17")


def test_options_are_listed_and_checked(store: ckpt.Store, tmp_path: Path) -> None:
    known = {option.key: option for option in ckpt.options()}
    assert known["strict"].choices == "none|missing|exact" and known["threads"].max == 256
    for wrong in ({"colour": 1}, {"threads": -1}, {"threads": "many"}, {"compression": "zip"}, {"threads": 2**70}):
        with pytest.raises(ckpt.InvalidError, match=next(iter(wrong))):
            ckpt.Store(tmp_path, wrong)  # type: ignore[arg-type]
    with pytest.raises(ckpt.InvalidError, match="threads"):
        ckpt.Store(tmp_path, {"threads": 1}, threads=999)  # keywords win
    with pytest.raises(TypeError):
        ckpt.Store(tmp_path, threads=1.5)  # type: ignore[arg-type]
    ckpt.Store(tmp_path, {"threads": 3}, compression="lz4", verify=True)


@pytest.mark.parametrize("call", [
    lambda store: store.find("a\0b"),
    lambda store: store.find("\ud800"),
    lambda store: store.remove("a\0"),
])
def test_text_that_c_cannot_take_is_invalid(store: ckpt.Store, call: Any) -> None:
    with pytest.raises(ckpt.InvalidError):
        call(store)


def test_wrong_types_are_type_errors(store: ckpt.Store) -> None:
    for call in (lambda: ckpt.Store(3), lambda: store.find(3), lambda: ckpt.Session("x"),  # type: ignore[arg-type]
                 lambda: ckpt.Session(store, -1)):
        with pytest.raises((TypeError, ValueError)):
            call()


def test_paths_may_be_any_path(tmp_path: Path) -> None:
    odd = tmp_path / "ü \udcff"
    ckpt.save(odd, {"a": 1})
    assert ckpt.load(odd) == {"a": 1} and ckpt.load(str(odd)) == {"a": 1}


def test_an_error_may_name_a_path_that_is_no_utf8(tmp_path: Path) -> None:
    with pytest.raises(ckpt.NotFoundError) as caught:
        ckpt.load(tmp_path / "\udcff")
    assert caught.value.message
    with pytest.raises(ckpt.Error) as caught:
        ckpt.File(tmp_path / "\udcff.pt")
    assert ".pt" in caught.value.message


def test_a_timeout_is_pythons_timeout_too() -> None:
    error = errors.error_of(ckpt.Status.TIMEOUT, "text", {"ranks": "1"})
    assert isinstance(error, TimeoutError) and isinstance(error, ckpt.RankError)
    again = copy.copy(error)
    for each in (error, again):
        assert (each.status, each.message, each.details, str(each)) == (
            ckpt.Status.TIMEOUT, "text", {"ranks": "1"}, "TIMEOUT: text")
        assert each.errno is None and each.filename is None
