"""torch tensors: saved without a copy, loaded bit for bit, into the caller's own memory if asked."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest
from conftest import load_one

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.*(beta|experimental|deprecated)")]
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
          "float32", "float64", "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e4m3fnuz",
          "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"]


def raw(torch: Any, tensor: Any) -> Any:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist() if tensor.numel() else []


def sample(torch: Any, name: str) -> Any:
    dtype = getattr(torch, name)
    size = 1 if name == "float4_e2m1fn_x2" else torch.empty(0, dtype=dtype).element_size()
    data = torch.arange(24 * size, dtype=torch.uint8) * 37
    return ((data & 1) if name == "bool" else data).view(dtype).reshape(4, 6)


@pytest.mark.parametrize("name", DTYPES)
def test_every_torch_dtype_comes_back_bit_for_bit(torch: Any, tmp_path: Path, name: str) -> None:
    saved = sample(torch, name)
    state = {"w": saved, "tail": saved[2:], "empty": saved[:0]}
    if name != "float4_e2m1fn_x2":  # packed: its rows must be contiguous
        state["t"] = saved.clone().t()
    ckpt.save(tmp_path / "s", state)
    back = ckpt.load(tmp_path / "s", framework="torch")
    into = {key: torch.empty_like(value) for key, value in state.items()}
    addresses = {key: value.data_ptr() for key, value in into.items()}
    ckpt.load(tmp_path / "s", into=into)
    for key, value in state.items():
        for found in (back[key], into[key]):
            assert (found.dtype, found.shape) == (value.dtype, value.shape)
            assert raw(torch, found) == raw(torch, value), key
        assert into[key].data_ptr() == addresses[key]


def test_the_memory_format_of_tensors_comes_back(torch: Any, tmp_path: Path) -> None:
    last = torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)
    volume = torch.arange(240.0).reshape(2, 3, 4, 5, 2).to(memory_format=torch.channels_last_3d)
    plain = torch.arange(120.0).reshape(2, 4, 5, 3)
    conv = torch.nn.Conv2d(3, 4, 2).to(memory_format=torch.channels_last)
    state = {"view": plain.permute(0, 3, 1, 2), "plain": plain, "tied": last, "last": last, "volume": volume,
             "grad": last.clone().requires_grad_(), "conv": conv.state_dict(), "parameter": conv.weight}
    ckpt.save(tmp_path / "s", state)
    with ckpt.Reader(ckpt.Store(tmp_path / "s")) as reader:
        assert [tensor.name for tensor in reader.tensors()] == [
            "conv/bias", "conv/weight", "grad", "last", "parameter", "plain", "tied", "view", "volume"]
    back = ckpt.load(tmp_path / "s", framework="torch")
    for key, value in [*state.items(), ("conv", conv.weight)]:
        found = back[key]["weight"] if key == "conv" else back[key]
        wanted = conv.weight if key == "conv" else value
        assert torch.equal(found, wanted) and found.stride() == wanted.stride(), key
    for one, other in (("tied", "last"), ("view", "plain")):  # they share memory again
        back[one].zero_()
        assert not back[other].any(), one
    assert back["parameter"].data_ptr() == back["conv"]["weight"].data_ptr() and back["grad"].requires_grad
    assert type(ckpt.load(tmp_path / "s", framework="numpy")["last"]) is np.ndarray  # which has no memory formats
    into = {"last": torch.zeros(2, 3, 4, 5), "plain": torch.zeros_like(plain)}
    assert ckpt.load(tmp_path / "s", into=into)["last"] is into["last"] and into["last"].is_contiguous()
    assert torch.equal(into["last"], last)


def test_a_checkpoint_of_overlapping_and_channels_last_tensors_is_exported(torch: Any, tmp_path: Path) -> None:
    base, last = torch.arange(10.0), torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)
    ckpt.save(tmp_path / "s", {"a": base[:6], "b": base[4:], "last": last})
    with ckpt.Reader(ckpt.Store(tmp_path / "s")) as reader:
        reader.export(tmp_path / "s.pt")
    back = torch.load(tmp_path / "s.pt", weights_only=True)
    assert set(back) == {"a", "b", "last"} and torch.equal(back["b"], base[4:]) and torch.equal(back["last"], last)
    back["a"][5] = 100
    assert back["b"][1] == 100


def test_memory_is_the_tensors_own(torch: Any) -> None:
    tensor = torch.arange(12.0, requires_grad=True).reshape(3, 4)
    memory = ckpt.Memory.of(tensor[1:, ::2])
    assert (memory.address, memory.shape, memory.strides) == (tensor[1:].data_ptr(), (2, 2), (4, 2))


def trained(torch: Any, seed: int) -> tuple[Any, Any]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Embedding(10, 8), torch.nn.Linear(8, 8), torch.nn.LayerNorm(8),
                                torch.nn.Linear(8, 10, bias=False))
    model[3].weight = model[0].weight  # tied
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randint(10, (4,))).square().sum().backward()
        optimizer.step()
    return model, optimizer


def test_a_model_and_its_optimizer_go_on_bit_for_bit(torch: Any, tmp_path: Path) -> None:
    model, optimizer = trained(torch, 1)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state(), "epoch": 2}
    ckpt.save(tmp_path / "s", state, step=2)
    other, other_optimizer = trained(torch, 2)
    addresses = [parameter.data_ptr() for parameter in other.parameters()]
    loaded = ckpt.load(tmp_path / "s", into={"model": other.state_dict()})
    assert type(loaded["model"]) is type(model.state_dict()) and loaded["epoch"] == 2
    assert loaded["model"]._metadata == model.state_dict()._metadata
    other_optimizer.load_state_dict(loaded["optimizer"])
    assert [parameter.data_ptr() for parameter in other.parameters()] == addresses
    losses = []
    for net, tuner in ((model, optimizer), (other, other_optimizer)):
        torch.set_rng_state(loaded["rng"])
        loss = net(torch.randint(10, (4,))).square().sum()
        tuner.zero_grad()
        loss.backward()
        tuner.step()
        losses.append(loss.item())
    assert losses[0] == losses[1]
    for a, b in zip(model.state_dict().values(), other.state_dict().values()):
        assert torch.equal(a, b)


def test_tied_weights_are_saved_once_and_tied_again(torch: Any, tmp_path: Path) -> None:
    model, _ = trained(torch, 1)
    ckpt.save(tmp_path / "s", model.state_dict())
    with ckpt.Reader(ckpt.Store(tmp_path / "s")) as reader:
        assert reader.tensor("3.weight").alias_of == "0.weight" and reader.tensor("3.weight").stored_bytes == 0
    back = ckpt.load(tmp_path / "s", framework="torch")
    assert back["3.weight"].data_ptr() == back["0.weight"].data_ptr()


def test_torch_objects_come_back_as_they_were(torch: Any, tmp_path: Path) -> None:
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    parameter.kind = "bias"
    state = {"size": torch.Size([2, 3]), "dtype": torch.bfloat16, "layout": torch.strided,
             "device": torch.device("cuda", 1), "cpu": torch.device("cpu"), "parameter": parameter,
             "grad": torch.ones(3, requires_grad=True), "conj": torch.tensor([1 + 2j]).conj(),
             "neg": torch.tensor([1 + 2j]).conj().imag}
    ckpt.save(tmp_path / "s", state)
    back = ckpt.load(tmp_path / "s", framework="torch")
    for key in ("size", "dtype", "layout", "device", "cpu"):
        assert back[key] == state[key] and type(back[key]) is type(state[key])
    assert type(back["parameter"]) is torch.nn.Parameter and not back["parameter"].requires_grad
    assert back["parameter"].kind == "bias" and back["grad"].requires_grad
    assert back["conj"].is_conj() and back["neg"].is_neg()
    assert torch.equal(back["conj"], state["conj"]) and torch.equal(back["neg"], state["neg"])
    plain = ckpt.load(tmp_path / "s", framework="numpy")  # which has no such objects
    assert plain["size"] == ckpt.Record("torch.Size", {"items": (2, 3)})
    assert plain["parameter"].class_name == "torch.nn.parameter.Parameter"


MARKED = {
    "conj": lambda torch: torch.tensor([1 + 2j, 3 - 4j]).conj(),
    "neg": lambda torch: torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
    "both": lambda torch: torch._neg_view(torch.tensor([1 + 2j, 3 - 4j]).conj()),
    "half": lambda torch: torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex32).conj(),
}


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("mark", MARKED)
def test_into_holds_the_values_of_marked_tensors_whatever_its_own_marks(torch: Any, tmp_path: Path, mark: str) -> None:
    saved = MARKED[mark](torch)
    values = saved.resolve_conj().resolve_neg()
    ckpt.save(tmp_path / "s", {"w": saved, "tied": saved, "tail": saved[1:], "plain": values})
    for mine in (torch.zeros_like(values), torch.empty_like(saved), torch._neg_view(torch.zeros_like(values))):
        # What is strided was saved as tensors of their own, which must not share memory here.
        tail = torch.empty_like(mine[1:]) if mark == "neg" else mine[1:]
        into = {"w": mine, "tied": mine, "tail": tail, "plain": torch.empty_like(mine)}
        back = ckpt.load(tmp_path / "s", into=into)
        for key, wanted in (("w", values), ("tied", values), ("tail", values[1:]), ("plain", values)):
            assert back[key] is into[key], key
            assert raw(torch, into[key].resolve_conj().resolve_neg()) == raw(torch, wanted), key
    array = np.zeros(2, np.float32 if mark == "neg" else np.complex64)
    if mark != "half":
        tail = np.zeros(1, array.dtype) if mark == "neg" else array[1:]
        back = ckpt.load(tmp_path / "s", into={"w": array, "tail": tail})
        assert back["w"] is array and (array == values.numpy()).all()
    again = ckpt.load(tmp_path / "s", framework="torch", at=("w",))
    assert raw(torch, again.resolve_conj().resolve_neg()) == raw(torch, values)


def test_into_reads_marked_parts_and_changes_no_tensor_of_the_caller(torch: Any, tmp_path: Path) -> None:
    values = torch.tensor([[1 + 2j], [3 - 4j]])
    ckpt.save(tmp_path / "s", {"w": values.conj(), "grad": values.clone().requires_grad_()})
    rows, mine = torch.zeros(1, 1, dtype=torch.complex64), torch.zeros_like(values)
    ckpt.load(tmp_path / "s", into={"w": ckpt.Shard(rows, (2, 1), (1, 0)), "grad": mine})
    assert torch.equal(rows, values[1:].conj().resolve_conj()) and torch.equal(mine, values)
    assert not mine.requires_grad
    parameter = torch.nn.Parameter(torch.zeros_like(values))
    back = ckpt.load(tmp_path / "s", into={"w": parameter})
    assert back["w"] is parameter and torch.equal(parameter.detach(), values.conj())


def test_marked_tensors_that_do_not_fit_into_change_nothing(torch: Any, tmp_path: Path) -> None:
    saved = torch.tensor([1 + 2j, 3 - 4j])
    ckpt.save(tmp_path / "s", {"first": torch.ones(2), "w": saved.conj(), "x": saved.clone()})
    shared = torch.zeros(2, dtype=torch.complex64)
    for wrong in ({"w": torch.zeros(3, dtype=torch.complex64)}, {"w": torch.zeros(2)}, {"w": shared, "x": shared},
                  {"w": torch.zeros(2, dtype=torch.complex64, device="meta")}):
        first = torch.zeros(2)
        with pytest.raises((ckpt.MismatchError, ckpt.UnsupportedError)):
            ckpt.load(tmp_path / "s", into={"first": first, **wrong})
        assert not first.any() and not shared.any()


def test_the_state_of_a_scheduler_with_a_counter_goes_on(torch: Any, tmp_path: Path) -> None:
    def scheduler() -> Any:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
        return torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 2, 5])

    first, second = scheduler(), scheduler()
    ckpt.save(tmp_path / "s", first.state_dict())
    second.load_state_dict(ckpt.load(tmp_path / "s", into=second.state_dict()))
    assert type(second.milestones) is type(first.milestones) and second.milestones == first.milestones
    with ckpt.Store(tmp_path / "s") as store, ckpt.Reader(store) as reader:
        reader.export(tmp_path / "s.pt")
        assert torch.load(tmp_path / "s.pt", weights_only=True)["milestones"] == first.milestones


def test_containers_are_called_as_an_import_calls_them(torch: Any, tmp_path: Path) -> None:
    state = {"d": collections.defaultdict(list, {"a": [1], 2: "b"}), "none": collections.defaultdict(None, x=1),
             "empty": collections.defaultdict(dict), "c": collections.Counter({3: 2, "x": 1})}
    torch.save(state, tmp_path / "a.pt")
    with ckpt.Store(tmp_path / "s") as store:
        info = store.import_file(tmp_path / "a.pt", "a")
        with ckpt.Reader(store, info.id) as reader:
            imported, tree = ckpt.load(reader), reader.tree().json()
        ckpt.save(store, state, label="b")
        with ckpt.Reader(store, "b") as reader:
            assert reader.tree().json() == tree
    assert imported == state and imported["d"].default_factory is list and type(imported["c"]) is collections.Counter


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_sparse_tensors_come_back(torch: Any, tmp_path: Path, layout: str) -> None:
    dense = torch.tensor([[0.0, 1, 0, 0], [2, 0, 0, 3], [0, 0, 0, 0], [4, 0, 0, 0]])
    arguments = ((2, 2),) if layout.startswith("bs") else ()
    sparse = dense.to_sparse() if layout == "coo" else getattr(dense, f"to_sparse_{layout}")(*arguments)
    ckpt.save(tmp_path / "s", {"x": sparse})
    back = ckpt.load(tmp_path / "s", framework="torch")["x"]
    assert back.layout == sparse.layout and torch.equal(back.to_dense(), dense)


def test_sparse_indices_out_of_range_are_not_believed(torch: Any, tmp_path: Path) -> None:
    record = ckpt.Record("torch.sparse_coo", {"indices": torch.tensor([[7]]), "values": torch.ones(1), "size": (2,)})
    ckpt.save(tmp_path / "s", {"x": record})
    back = ckpt.load(tmp_path / "s", framework="torch")["x"]
    assert type(back) is ckpt.Record and back.items["indices"].tolist() == [[7]]


@pytest.mark.parametrize("channels", [False, True])
def test_quantized_tensors_are_kept(torch: Any, tmp_path: Path, channels: bool) -> None:
    def made(low: float) -> Any:
        values = torch.arange(6.0).reshape(2, 3) + low
        if channels:
            return torch.quantize_per_channel(values, torch.tensor([0.1, 0.5]), torch.tensor([0, 3]), 0, torch.qint8)
        return torch.quantize_per_tensor(values, 0.1, 2, torch.quint8)

    saved, mine = made(0), made(1)
    ckpt.save(tmp_path / "s", {"w": saved})
    back = ckpt.load(tmp_path / "s", framework="torch")["w"]
    assert ckpt.load(tmp_path / "s", into={"w": mine})["w"] is mine
    for found in (back, mine):
        assert found.is_quantized and found.qscheme() == saved.qscheme() and found.dtype == saved.dtype
        assert torch.equal(found.int_repr(), saved.int_repr()) and torch.equal(found.dequantize(), saved.dequantize())


def test_tensors_that_wrap_others_come_back_and_are_filled_in_place(torch: Any, tmp_path: Path) -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    ckpt.save(tmp_path / "s", {"w": TwoTensor(torch.ones(2), torch.zeros(2))})
    back = ckpt.load(tmp_path / "s", framework="torch")["w"]
    assert type(back) is TwoTensor and back.a.tolist() == [1, 1]
    assert ckpt.load(tmp_path / "s", framework="numpy")["w"].class_name.endswith(".TwoTensor")
    mine = TwoTensor(torch.zeros(2), torch.ones(2))
    assert ckpt.load(tmp_path / "s", into={"w": mine})["w"] is mine
    assert mine.a.tolist() == [1, 1] and mine.b.tolist() == [0, 0]
    with pytest.raises(ckpt.MismatchError, match="into at 'w' has a tensor.*TwoTensor of a, b.*object of that class"):
        ckpt.load(tmp_path / "s", into={"w": torch.zeros(2)})


def test_what_torch_holds_otherwise_is_refused(torch: Any, tmp_path: Path) -> None:
    class Odd(torch.Tensor):  # type: ignore[misc]
        pass

    for value, error in ((torch.ones(2).as_subclass(Odd), TypeError),
                         (torch.ones(2, device="meta"), ckpt.UnsupportedError)):
        with pytest.raises(error, match="state at 'x'|'x'"):
            ckpt.save(tmp_path / "s", {"x": value})
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with pytest.raises(ckpt.UnsupportedError, match="'a/x': a nested tensor: give its parts"):
        ckpt.save(tmp_path / "s", {"a": {"x": nested}})
    with pytest.raises(ckpt.UnsupportedError, match="'x': a tensor inside of torch.func .* do it outside"):
        torch.func.vmap(lambda x: ckpt.save(tmp_path / "s", {"x": x}))(torch.ones(2, 2))
    with ckpt.Store(tmp_path / "s") as store, ckpt.Session(store) as session, ckpt.Save(session, "a") as save:
        with pytest.raises(ckpt.UnsupportedError, match="conjugate"):
            save.add_tensor("x", torch.tensor([1j]).conj())
        with pytest.raises(ckpt.UnsupportedError, match="negation"):
            save.add_tensor("x", torch.tensor([1j]).conj().imag)


def test_torch_and_numpy_read_each_others_checkpoints(torch: Any, tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"t": torch.arange(3.0), "n": np.arange(3.0), "b": torch.ones(2, dtype=torch.bfloat16)})
    as_torch, as_numpy = (ckpt.load(tmp_path / "s", framework=name) for name in ("torch", "numpy"))
    assert torch.equal(as_torch["t"], torch.arange(3.0))
    assert torch.equal(as_torch["n"], torch.arange(3.0, dtype=torch.float64))
    assert as_numpy["t"].tolist() == [0, 1, 2] and as_numpy["b"].dtype.name == "bfloat16"


def test_what_torch_saved_comes_back_as_torch_and_the_rest_as_numpy(torch: Any, tmp_path: Path) -> None:
    state = {"t": torch.arange(3.0), "p": torch.nn.Parameter(torch.ones(2)), "tail": torch.arange(3)[1:]}
    ckpt.save(tmp_path / "s", state, label="torch")
    ckpt.save(tmp_path / "s", {**state, "n": np.arange(3)}, label="mixed")
    for label in ("torch", "mixed"):
        back = ckpt.load(tmp_path / "s", label)
        assert {key: type(value) for key, value in back.items() if key != "n"} == {
            "t": torch.Tensor, "p": torch.nn.Parameter, "tail": torch.Tensor}
    assert type(back["n"]) is np.ndarray
    assert type(ckpt.load(tmp_path / "s", "mixed", into={"n": np.zeros(3, int)})["t"]) is np.ndarray


def test_dtypes_that_a_framework_lacks_are_named(torch: Any, session: ckpt.Session, store: ckpt.Store) -> None:
    with ckpt.Save(session, "a") as save:
        save.add_tensor("w", b"\1\2\3", dtype="f6_e2m3fn", shape=(4,))
        save.run()
    for framework in ("numpy", "torch"):
        with pytest.raises(ckpt.UnsupportedError, match="f6_e2m3fn") as caught:
            ckpt.load(store, framework=framework)  # type: ignore[arg-type]
        assert caught.value.details["tensor"] == "w"


def test_a_pt_file_is_imported_and_exported_without_pickle(torch: Any, tmp_path: Path) -> None:
    model, optimizer = trained(torch, 1)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 5, "size": torch.Size([3])}
    torch.save(state, tmp_path / "a.pt")
    with ckpt.Store(tmp_path / "s") as store:
        info = store.import_file(tmp_path / "a.pt", "a", 5)
        assert (info.label, info.step, info.run) == ("a", 5, "main")
        with ckpt.Reader(store, info.id) as reader:
            back = ckpt.load(reader, framework="torch")
            reader.export(tmp_path / "b.pt")
    again = torch.load(tmp_path / "b.pt", weights_only=True)
    for found in (back, again):
        assert found["epoch"] == 5 and found["size"] == torch.Size([3])
        assert found["optimizer"]["param_groups"] == state["optimizer"]["param_groups"]
        assert all(torch.equal(a, b) for a, b in zip(found["model"].values(), state["model"].values()))
    with ckpt.File(tmp_path / "a.pt") as file:
        tensor = next(t for t in file.tensors() if t.name == "model/1.weight")
        data = file.data([t.name for t in file.tensors()].index("model/1.weight"))
        assert file.format == "pt" and ckpt.to_native(file.tree())["epoch"] == 5
    assert (np.asarray(data) == model[1].weight.detach().numpy()).all() and tensor.shape == (8, 8)


def test_a_view_that_is_not_contiguous_is_given_as_such_only(torch: Any, tmp_path: Path) -> None:
    import ctypes

    torch.save({"w": torch.arange(6.0)[::2]}, tmp_path / "a.pt")
    get, fortran, strided = ctypes.pythonapi.PyObject_GetBuffer, 0x40 | 0x18, 0x18
    get.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    with ckpt.File(tmp_path / "a.pt") as file:
        data = file.data(0)
    assert data.shape == (3,) and np.asarray(data).tolist() == [0, 2, 4]
    buffer = ctypes.create_string_buffer(256)
    with pytest.raises(BufferError, match="not"):
        get(data, buffer, fortran)
    assert get(data, buffer, strided) == 0
    ctypes.pythonapi.PyBuffer_Release(buffer)


def test_a_tensor_is_held_and_let_go(torch: Any, reader_of: Any) -> None:
    import weakref

    tensor = torch.ones(100)
    storage = weakref.ref(tensor)
    reader = reader_of({"w": tensor})
    into = torch.zeros(100)
    assert load_one(reader, "w", into) is into and torch.equal(into, tensor)
    del tensor
    assert storage() is None
