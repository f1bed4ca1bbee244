"""ckpt.ls, ckpt.open and what ckpt.load takes; errors that say what there is."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import ckpt
import ml_dtypes
import numpy as np
import pytest
from conftest import bits

STATE: Any = {"model": {"w": np.arange(120, dtype="f4").reshape(4, 5, 6), "b": np.arange(3).astype(ml_dtypes.bfloat16)},
         "scalar": np.array(7), "empty": np.zeros((0, 3)), "step": 5}
PARTS = [2, -1, slice(None), slice(1, 3), slice(None, None, 2), slice(None, None, -1), slice(3, 0, -2), slice(2, 2),
         slice(-2, None), slice(0, 100, 3)]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    ckpt.save(tmp_path / "s", STATE, step=5, attrs={"note": "hello"})
    return tmp_path / "s"


@pytest.fixture
def safetensors(saved: Path, tmp_path: Path) -> Path:
    with ckpt.Reader(ckpt.Store(saved)) as reader:
        reader.export(tmp_path / "x.safetensors")
    return tmp_path / "x.safetensors"


# ---- lazy tensors ----


def test_an_open_checkpoint_is_a_mapping_of_lazy_tensors(saved: Path) -> None:
    with ckpt.open(saved) as found:
        assert list(found) == ["empty", "model/b", "model/w", "scalar"] and len(found) == 4
        w = found["model/w"]
        assert (w.shape, w.dtype, w.nbytes, w.ndim, len(w)) == ((4, 5, 6), ckpt.DType.F32, 480, 3, 4)
        assert found.info is not None and found.info.step == 5 and found.attrs == {"note": "hello"}
        assert found.state["model"]["w"].name == "model/w" and found.state["step"] == 5
        assert ckpt.to_native(found.tree)["step"] == 5
        assert (np.asarray(w) == STATE["model"]["w"]).all() and np.asarray(w, "f8").dtype == "f8"
        with pytest.raises(KeyError, match="did you mean 'model/w'"):
            found["model/ww"]
    assert found.closed
    with pytest.raises(ckpt.InvalidError, match="closed"):
        w[0]


@pytest.mark.parametrize("kind", ["store", "file"])
def test_every_index_gives_what_numpy_gives(saved: Path, safetensors: Path, kind: str) -> None:
    whole = STATE["model"]["w"]
    with ckpt.open(saved if kind == "store" else safetensors) as found:
        w = found["model/w"]
        indices: list[Any] = [*PARTS, ..., (), *itertools.product(PARTS[::2], PARTS[1::2]), (..., 1),
                              (0, ..., slice(2)), (1, 2, 3), (..., 1, 2, 3), np.int64(1),
                              (slice(1, 3), ..., slice(None, None, -2))]
        for index in indices:
            got, wanted = w[index], whole[index]
            assert np.shape(got) == np.shape(wanted) and np.array_equal(got, wanted), index
        assert [row.tolist() for row in w] == whole.tolist()
        assert found["model/b"][1:].dtype == ml_dtypes.bfloat16 and found["model/b"][2] == 2
        assert found["scalar"][()] == 7 and found["scalar"][...] == 7 and found["empty"][:, 1].shape == (0,)
        for index, error in ((4, IndexError), (-5, IndexError), ((0,) * 4, IndexError), ((..., ...), IndexError),
                             ("a", TypeError), ([1], TypeError), (None, TypeError), (1.0, TypeError)):
            with pytest.raises(error):
                w[index]


def test_a_slice_reads_only_its_bytes(session: ckpt.Session, store: ckpt.Store, tmp_path: Path) -> None:
    with ckpt.Session(store, run="small", chunk_bytes=4096) as small:
        identifier = ckpt.save(small, {"w": np.arange(100_000)}, label="a")
    part = tmp_path / "store" / identifier / "PART_000"
    with ckpt.Reader(store, identifier, run="small") as reader:
        offset = reader.segment("w", 0).part_offset
    data = bytearray(part.read_bytes())
    data[offset + 400_000] ^= 1  # in the middle of the tensor
    part.write_bytes(data)
    with ckpt.open(store, run="small") as found:
        assert found["w"][10:20].tolist() == list(range(10, 20))
        assert found["w"][-3:].tolist() == [99_997, 99_998, 99_999]
        with pytest.raises(ckpt.CorruptError):
            found["w"][49_990:50_010]


@pytest.mark.torch
def test_tensors_are_torchs_where_asked(saved: Path, safetensors: Path, torch: Any) -> None:
    for source in (saved, safetensors):
        with ckpt.open(source, framework="torch") as found:
            w, whole = found["model/w"], torch.from_numpy(STATE["model"]["w"])
            assert torch.equal(w[1:3, ::2, -1], whole[1:3, ::2, -1])
            assert torch.equal(w[::-1, 0], whole.flip([0])[:, 0])
            assert torch.equal(w[::-2], whole.flip([0])[::2])
            assert torch.equal(found["model/b"].torch(), torch.arange(3).bfloat16())
            assert found["model/b"].numpy().dtype == ml_dtypes.bfloat16


# ---- sources ----


def test_a_checkpoints_own_directory_is_loaded(saved: Path) -> None:
    first = ckpt.load(saved / "step-5.1.1")
    other = ckpt.save(saved, {"n": 2}, step=6, run="other")
    assert first["step"] == 5 and ckpt.load(f"{saved}/{other}/") == {"n": 2}
    with pytest.raises(ValueError, match="one checkpoint"):
        ckpt.load(saved / "step-5.1.1", "step:6")


def test_a_safetensors_file_is_loaded_like_a_checkpoint(safetensors: Path) -> None:
    back = ckpt.load(safetensors)
    assert bits(back["model/w"]) == bits(STATE["model"]["w"])
    assert back["model/b"].dtype == ml_dtypes.bfloat16 and back["empty"].shape == (0, 3)
    mine = {"model/w": np.zeros((6, 5, 4), "f4").T, "model/b": np.zeros(3, "f4")}
    with pytest.raises(ckpt.MismatchError, match="'model/b': dtype"):
        ckpt.load(safetensors, into=mine)
    assert not mine["model/w"].any()
    assert ckpt.load(safetensors, into=mine, convert=True)["model/w"] is mine["model/w"]
    assert (mine["model/w"] == STATE["model"]["w"]).all() and mine["model/b"].tolist() == [0, 1, 2]
    rows = np.zeros((2, 5, 6), "f4")
    ckpt.load(safetensors, into={"model/w": ckpt.Shard(rows, (4, 5, 6), (1, 0, 0))})
    assert (rows == STATE["model"]["w"][1:3]).all()
    flat = np.zeros(10, "f4")
    ckpt.load(safetensors, into={"model/w": ckpt.Shard(flat, (4, 5, 6), flat_offset=30)})
    assert flat.tolist() == list(range(30, 40))
    for wrong in (np.zeros(3, "f4"), ckpt.Shard(rows, (4, 5, 6), (3, 0, 0)), ckpt.Shard(rows, (4, 5, 7), (0, 0, 0))):
        with pytest.raises(ckpt.MismatchError, match="model/w"):
            ckpt.load(safetensors, into={"model/w": wrong})
    with pytest.raises(ckpt.NotFoundError, match="absent"):
        ckpt.load(safetensors, into={"absent": rows})


@pytest.mark.torch
def test_a_pt_file_is_loaded_like_a_checkpoint(tmp_path: Path, torch: Any) -> None:
    net = torch.nn.Linear(3, 2)
    base = torch.arange(12.0)
    state = {"model": net.state_dict(), "tied": base, "view": base[3:7], "columns": base.reshape(3, 4)[:, 1:3],
             "half": torch.ones(2, dtype=torch.bfloat16), "c": torch.ones(2, dtype=torch.complex64),
             "f8": torch.ones(3).to(torch.float8_e4m3fn), "n": 7}
    torch.save(state, tmp_path / "x.pt")
    back = ckpt.load(tmp_path / "x.pt", framework="torch")
    assert back["n"] == 7 and torch.equal(back["model"]["weight"], net.weight)
    for key in ("tied", "view", "columns", "half", "c"):
        assert torch.equal(back[key], state[key]), key
    assert back["f8"].dtype == torch.float8_e4m3fn
    back["tied"].zero_()
    assert not back["view"].any() and not back["columns"].any()
    other = torch.nn.Linear(3, 2)
    ckpt.load(tmp_path / "x.pt", into={"model": other.state_dict()})
    assert torch.equal(other.weight, net.weight)
    with ckpt.open(tmp_path / "x.pt", framework="torch") as found:
        assert torch.equal(found["columns"][1:, 0], base.reshape(3, 4)[1:, 1]) and found.info is None
        assert "x.pt" in repr(found)


# ---- listings and reprs ----


FIXTURES = Path(__file__).parents[3] / "interop/tests/fixtures"


@pytest.mark.torch
@pytest.mark.parametrize("layout", ["dcp/fsdp2", "accelerate/fsdp", "deepspeed/zero2", "hf_trainer", "olmo_pt",
                                    "megatron/0.16.1", "ranks/dtensor", "ranks/torch_legacy"])
def test_a_directory_of_another_program_is_loaded_where_it_lies(layout: str, tmp_path: Path, torch: Any) -> None:
    ckpt.Store(tmp_path / "imported").import_file(FIXTURES / layout, "x")
    for rank in (0, 1):
        for name, source in ("ours", FIXTURES / layout), ("theirs", tmp_path / "imported"):
            ckpt.save(tmp_path / name, ckpt.load(source, framework="torch", rank=rank))
        with ckpt.open(tmp_path / "ours") as ours, ckpt.open(tmp_path / "theirs") as theirs:
            assert list(ours) == list(theirs) != []
            assert all(bits(ours[name].numpy()) == bits(theirs[name].numpy()) for name in theirs)


def test_parts_of_a_tensor_in_pieces_are_read(tmp_path: Path) -> None:
    with ckpt.open(FIXTURES / "dcp/fsdp2") as found, ckpt.File(FIXTURES / "dcp/fsdp2") as file:
        tensors = {tensor.name: place for place, tensor in enumerate(file.tensors())}
        name = max((name for name in found if len(found[name].shape) == 2), key=lambda name: found[name].nbytes)
        whole, place = found[name].numpy(), tensors[name]
        assert file.tensor(place).data_bytes == 0
        assert bits(found[name][1:5:2, ::-1]) == bits(whole[1:5:2, ::-1])
        rows = np.empty((3, whole.shape[1]), whole.dtype)
        file.read(place, rows, shape=whole.shape, offset=(2, 0))
        assert bits(rows) == bits(whole[2:5])
        flat = np.empty(7, whole.dtype)
        file.read(place, flat, shape=whole.shape, flat_offset=5)
        assert bits(flat) == bits(whole.reshape(-1)[5:12])
        for wrong in np.empty(whole.shape, "i2"), np.empty((1, *whole.shape), whole.dtype):
            with pytest.raises(ckpt.MismatchError):
                file.read(place, wrong)
        with pytest.raises(ValueError, match="File.read"):
            file.data(place)
    mapping = tmp_path / "to.json"
    mapping.write_text(json.dumps({"unmatched": "drop", "rules": [{"match": name, "to": "w", "ops": ["a b -> b a"]}]}))
    turned = ckpt.load(FIXTURES / "dcp/fsdp2", map=str(mapping))
    assert bits(turned["w"]) == bits(whole.T)


def test_a_directory_of_no_known_format_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("step 1")
    for selector in ("latest", "step:1"):
        with pytest.raises(ckpt.NotFoundError, match="no store"):
            ckpt.load(tmp_path, selector)


def test_a_listing_is_a_table(saved: Path) -> None:
    ckpt.save(saved, {"n": 2}, label="<best>".strip("<>"), run="other")
    listing = ckpt.ls(saved)
    assert [info.label for info in listing] == ["step-5", "best"] and len(listing[1:]) == 1
    assert [info.label for info in ckpt.ls(saved, "other")] == ["best"]
    text = repr(listing)
    assert text.splitlines()[0].endswith("s: 2 checkpoints") and "step-5" in text and "main" in text
    assert "<td>best</td>" in listing._repr_html_()
    with pytest.raises(ckpt.NotFoundError, match="no such file or directory"):
        ckpt.ls(saved / "absent")
    with pytest.raises(ckpt.NotFoundError, match="no store of ckpt, but has some: 's'"):
        ckpt.ls(saved.parent)


def test_everything_says_what_it_is(saved: Path, session: ckpt.Session) -> None:
    store = ckpt.Store(saved)
    with ckpt.Reader(store) as reader, ckpt.open(saved) as found, ckpt.Save(session, "a") as save:
        assert f"{store!r}" == f"<ckpt.Store '{saved}'>" and repr(reader) == "<ckpt.Reader step-5.1.1: 4 tensors>"
        assert repr(session) == "<ckpt.Session rank 0 of 1, run 'main'>"
        assert repr(reader.info).startswith(
            "<ckpt.CheckpointInfo step-5.1.1: step 5, run 'main', committed, 4 tensors,")
        assert repr(reader.tensor("model/w")) == "<ckpt.TensorInfo 'model/w': f32, 4 × 5 × 6, 480 B>"
        assert repr(found["scalar"]) == "<ckpt.LazyTensor 'scalar': i64, scalar, 8 B>"
        assert "model/w" in repr(found) and "<td>model/w</td>" in found._repr_html_()
        assert repr(reader.diff(reader)) == "<ckpt.Report: 0 findings>"
        assert repr(reader.tree()) == "<ckpt.Tree: 7 nodes>" and repr(save) == "<ckpt.Save a.1.1>"
        assert repr(ckpt.Memory.of(np.ones((2, 3)))) == "<ckpt.Memory f64, 2 × 3, 48 B>"
        assert repr(reader.map("model/w")) == "<ckpt.View f32, 4 × 5 × 6, 480 B>"
        assert repr(ckpt.Load(reader)) == "<ckpt.Load>" and repr(ckpt.Job()) == "<ckpt.Job new>"
    assert repr(reader) == "<ckpt.Reader, closed>" and repr(save) == "<ckpt.Save, closed>"
    with ckpt.save_async(session, 1, label="b") as handle:
        handle.result()
    assert repr(handle) == "<ckpt.SaveHandle b.1.1: committed>"


def test_a_long_table_is_shortened(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {f"<{i}>": np.ones(1) for i in range(200)})
    with ckpt.open(tmp_path / "s") as found:
        assert "… 140 more …" in repr(found) and len(repr(found).splitlines()) == 63
        assert "&lt;0&gt;" in found._repr_html_() and "<0>" not in found._repr_html_()


# ---- errors ----


@pytest.mark.parametrize("call", [lambda path, *a, **k: ckpt.load(path, *a, **k), lambda path, *a, **k: ckpt.open(
    path, *a, **k), lambda path, *a, **k: ckpt.Store(path).find(*a, **k),
    lambda path, *a, **k: ckpt.Reader(ckpt.Store(path), *a, **k)])
def test_what_is_not_found_is_told_with_what_there_is(saved: Path, tmp_path: Path, call: Any) -> None:
    for arguments, options, said in (
            (["stepp-5"], {}, "it has 'step-5'; did you mean 'step-5'"), (["label:step5"], {}, "did you mean 'step-5'"),
            (["step:6"], {}, "it has 'step-5'"),
            ([], {"run": "mian"}, "no checkpoint of that run.*'main'; give run='main'")):
        with pytest.raises(ckpt.NotFoundError, match=said) as caught:
            call(saved, *arguments, **options)
        assert caught.value.details["path"].endswith("s")
    for path, said in ((tmp_path / "absent", "no such file or directory"),
                       (tmp_path, "no store of ckpt, but has some: 's'")):
        with pytest.raises(ckpt.NotFoundError, match=said):
            call(path)
    ckpt.Session(ckpt.Store(tmp_path / "new")).close()
    with pytest.raises(ckpt.NotFoundError, match="the store is empty"):
        call(tmp_path / "new")
    (saved / "step-5.1.1" / "MANIFEST").unlink()
    with pytest.raises(ckpt.NotFoundError, match=r"not committed: 'step-5\.1\.1 \(open\)'"):
        call(saved)


def test_what_was_imported_is_found_by_the_error(safetensors: Path, tmp_path: Path) -> None:
    with ckpt.Store(tmp_path / "i") as store:
        store.import_file(safetensors, "base", run="import")
        with pytest.raises(ckpt.NotFoundError, match="give run='import'"):
            ckpt.load(store)


def test_an_option_that_is_misspelt_is_told_in_pythons_words(tmp_path: Path) -> None:
    with pytest.raises(ckpt.InvalidError, match="did you mean 'keep_last'"):
        ckpt.save(tmp_path / "s", 1, keep_lst=2)
    with pytest.raises(ckpt.InvalidError, match=r"ckpt\.options\(\)"):
        ckpt.save(tmp_path / "s", 1, zzz=2)


def test_only_a_path_is_looked_at_on_this_machine(tmp_path: Path) -> None:
    for uri, path in (("mem:x", None), ("s3://b/c", None), ("HTTPS://h/x", None), ("file:///a%20b", "/a b"),
                      ("file://localhost/x", "/x"), ("/a://b", "/a://b"), ("a/b", "a/b"), ("x", "x")):
        assert ckpt.hints.local_path(uri) == path
    ckpt.Session(ckpt.Store(tmp_path / "a b" / "s")).close()
    with pytest.raises(ckpt.NotFoundError, match="no store of ckpt, but has some: 's'"):
        ckpt.load((tmp_path / "a b").as_uri())
