"""Save, Reader, Load and Job as ckpt.h has them."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest
from conftest import in_threads, load_one, python, sessions_of


def test_ranks_in_threads_save_at_once(store: ckpt.Store) -> None:
    arrays, sessions = [np.full(1000, rank, "i8") for rank in range(2)], sessions_of(store)

    def save_rank(rank: int) -> None:
        with ckpt.Save(sessions[rank], "a") as save:
            save.add_tensor("w", arrays[rank], shape=(2000,), offset=(1000 * rank,))
            save.run(interruptible=rank == 0)

    assert in_threads(2, save_rank) == [None, None]
    with ckpt.Reader(store) as reader:
        assert (load_one(reader, "w", np.empty(2000, "i8")) == np.concatenate(arrays)).all()


def test_raw_memory_says_itself_what_it_is(store: ckpt.Store, session: ckpt.Session) -> None:
    with ckpt.Save(session, "a") as save:
        save.add_tensor("packed", b"\x21\x43", dtype="i4", shape=(4,))
        save.add_tensor("strided", bytes(range(8)), dtype=ckpt.DType.U8, shape=(2, 2), strides=(4, 1))
        save.add_tensor("none", None, dtype="f32", shape=(0, 3))
        save.add_tensor("box", b"\7", dtype="u8", shape=(1, 1), offset=(0, 0), extent=(1, 1), replica=(3, 0, 1))
        save.run(interruptible=False)
    with ckpt.Reader(store) as reader:
        assert load_one(reader, "packed", bytearray(2), dtype="i4", shape=(4,)) == b"\x21\x43"
        assert load_one(reader, "strided", bytearray(4), dtype="u8", shape=(2, 2)) == bytes([0, 1, 4, 5])
        half = load_one(reader, "packed", bytearray(1), dtype="i4", shape=(4,), flat_offset=2, flat_size=2)
        assert half == b"\x43"


@pytest.mark.parametrize("arguments,reason", [
    ({"shape": (3,)}, "shape: expected"),
    ({"offset": (0,)}, "needs offset= and shape="),
    ({"flat_offset": 0}, "needs flat_offset= and shape="),
    ({"flat_offset": 0, "shape": (9,), "flat_size": 3}, "flat_size"),
    ({"offset": (0,), "flat_offset": 0, "shape": (2,)}, "not both"),
    ({"strides": (1,)}, "raw memory"),
    ({"dtype": "u8"}, "needs shape="),
    ({"dtype": "what", "shape": (2,)}, "not known"),
    ({"dtype": "u8", "shape": (3,)}, "reaches 3 bytes into memory of 2"),
])
def test_regions_that_contradict_are_invalid(session: ckpt.Session, arguments: Any, reason: str) -> None:
    with ckpt.Save(session, "a") as save, pytest.raises(ckpt.InvalidError, match=reason) as caught:
        save.add_tensor("w", b"ab", **arguments)
    assert caught.value.details["tensor"] == "w"


def test_a_checkpoint_tells_what_is_in_it(store: ckpt.Store, session: ckpt.Session) -> None:
    whole = np.arange(12, dtype="f4").reshape(3, 4)
    with ckpt.Save(session, "step-5", 5) as save:
        save.add_tensor("w", whole)
        save.add_alias("tied", "w")
        save.add_alias("row", "w", shape=(4,), strides=(1,), offset=4)
        save.add_object("o", memoryview(b"hello"), "text/plain")
        save.set_attr("color", "red")
        save.set_attr("unit", "m", tensor="w")
        assert save.id == "step-5.1.1"
        save.run()
    with ckpt.Reader(store, "step:5") as reader:
        assert [(t.name, t.alias_of, t.shape) for t in reader.tensors()] == [
            ("row", "w", (4,)), ("tied", "w", (3, 4)), ("w", None, (3, 4))]
        assert reader.alias("row") == ckpt.AliasInfo(ckpt.DType.F32, (4,), (1,), 4)
        assert reader.attrs() == {"color": "red"} and reader.attrs("w") == {"unit": "m"}
        assert reader.attr("color") == "red" and reader.attr("unit") is None and reader.attr("unit", "w") == "m"
        assert reader.object("o").media_type == "text/plain" and reader.object_count == 1
        segment = reader.segment("w", 0)
        assert (segment.offset, segment.extent, segment.codec) == ((0, 0), (3, 4), ckpt.Codec.RAW)
        assert reader.part(0).name == "PART_000"
        assert reader.info == store.find("step-5") == store.list()[0]
        assert load_one(reader, "row", np.empty(4, "f4")).tolist() == [4, 5, 6, 7]
        view = reader.map("w")
    assert (np.asarray(view) == whole).all() and not np.asarray(view).flags.writeable
    assert memoryview(view).format == "f" and view.shape == (3, 4) and view.nbytes == 48


def damage_newest(session: ckpt.Session, folder: Path) -> None:
    """Saves s1 and s2 with a state, and damages s2."""
    for step in (1, 2):
        with ckpt.Save(session, f"s{step}", step) as save:
            save.add_tensor("w", np.full(3, step, "f4"))
            save.run()
    manifest = folder / "s2.1.1" / "MANIFEST"
    data = bytearray(manifest.read_bytes())
    data[100] ^= 1
    manifest.write_bytes(data)


def test_newer_checkpoints_that_cannot_be_loaded_are_reported_with_a_warning(
        store: ckpt.Store, session: ckpt.Session, tmp_path: Path) -> None:
    damage_newest(session, tmp_path / "store")
    with pytest.warns(ckpt.PassedOverWarning, match=r"s1\.1\.1.*passed over s2\.1\.1: .*MANIFEST") as caught:
        reader = ckpt.Reader(store)
    assert caught[0].filename == __file__
    assert (reader.info.step, reader.info.passed_over, store.find().passed_over) == (1, 1, 1)
    [finding] = reader.report()
    assert (finding.kind, finding.name, finding.status) == (ckpt.FindingKind.PASSED_OVER, "s2.1.1", ckpt.Status.CORRUPT)
    reader.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ckpt.Reader(store, "s1.1.1") as reader:
            assert len(reader.report()) == 0 and reader.info.passed_over == 0
        with pytest.raises(ckpt.PassedOverWarning):
            ckpt.Reader(store)
    store.remove("s1.1.1")  # no reader is left


def test_a_kept_checkpoint_stays_until_it_is_released(store: ckpt.Store, session: ckpt.Session) -> None:
    kept = ckpt.save(session, {"w": 1}, step=1)
    store.keep(kept)
    assert store.find(kept).flags == ckpt.CheckpointFlags.KEPT
    ckpt.save(session, {"w": 2}, step=2, keep_last=1)
    with pytest.raises(ckpt.ConflictError, match="is kept"):
        store.remove(kept)
    store.keep(kept, False)
    store.remove(kept)
    assert [info.step for info in store.list()] == [2]


def test_a_name_moves_and_selects_the_checkpoint_that_has_it(store: ckpt.Store, session: ckpt.Session) -> None:
    first, second = (ckpt.save(session, {"w": step}, step=step) for step in (1, 2))
    store.name("best", first)
    store.name("best", second)
    assert ckpt.load(store, "name:best") == {"w": 2}
    assert [info.names for info in store.list()] == ["", "best"]
    store.name("best", None)
    with pytest.raises(ckpt.NotFoundError, match="none has a name"):
        store.find("name:best")


def test_load_warns_where_it_is_called_or_refuses(store: ckpt.Store, session: ckpt.Session, tmp_path: Path) -> None:
    damage_newest(session, tmp_path / "store")
    with pytest.warns(ckpt.PassedOverWarning) as caught:
        state = ckpt.load(store)
    assert caught[0].filename == __file__ and state["w"].tolist() == [1, 1, 1]
    with pytest.raises(ckpt.CorruptError):
        ckpt.load(store, on_damaged="error")


def test_an_exception_in_the_block_cancels_the_job(store: ckpt.Store) -> None:
    first, _ = sessions_of(store)
    with ckpt.Save(first, "a") as save, pytest.raises(KeyError):
        save.add_tensor("w", b"bytes")
        with save.start() as job:
            raise KeyError("mine")
    assert job.closed


def test_wait_of_another_thread_ends_when_the_job_is_closed(store: ckpt.Store) -> None:
    first, _ = sessions_of(store)
    save = ckpt.Save(first, "a")
    save.add_tensor("w", b"bytes")
    job, said = save.start(), []

    def wait() -> None:
        try:
            job.wait()
        except ckpt.Error as error:
            said.append(error.status)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        job.wait(timeout_ms=100)
    except ckpt.TimeoutError:
        pass
    with pytest.raises(ckpt.InvalidError, match="closed"):
        job.close()
        job.wait()
    thread.join()
    assert said in ([ckpt.Status.CANCELLED], [ckpt.Status.INVALID])


INTERRUPTED = """
import os, signal, sys, threading, ckpt
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell start without
store = ckpt.Store(sys.argv[1])
session = ckpt.Session(store, 0, 2)  # the other rank never comes
data = bytearray(1000)
try:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    if sys.argv[2] == "low":
        save = ckpt.Save(session, "a")
        save.add_tensor("w", data)
        save.run()
    else:
        ckpt.save(session, {"x": 1}, label="a")
except KeyboardInterrupt:
    data.append(1)  # a buffer that somebody holds cannot be resized
    print("interrupted", [info.state.name for info in store.list() if info.state == 1])
"""


@pytest.mark.parametrize("level", ["low", "high"])
def test_ctrl_c_cancels_a_save_and_lets_go_of_the_memory(tmp_path: Path, level: str) -> None:
    assert python(INTERRUPTED, str(tmp_path), level) == "interrupted []\n"


def test_a_running_job_that_is_lost_warns(store: ckpt.Store) -> None:
    first, _ = sessions_of(store)
    save = ckpt.Save(first, "a")
    save.add_tensor("w", b"bytes")
    with pytest.warns(ResourceWarning, match="cancelled"):
        save.start()
