"""One state has one set of names, whether ckpt.save saves it or torch.save does and ckpt imports the file; and what
both turn into records comes back as the same objects."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest

pytestmark = pytest.mark.torch


def imported(torch: Any, store: ckpt.Store, state: Any, folder: Path, label: str = "i") -> None:
    torch.save(state, folder / f"{label}.pt")
    store.import_file(folder / f"{label}.pt", label, run="import")


def names(store: ckpt.Store, label: str, run: str) -> list[str]:
    with ckpt.Reader(store, f"label:{label}", run=run) as reader:
        return sorted(tensor.name for tensor in reader.tensors())


def states(torch: Any) -> dict[str, Any]:
    """A tensor in each of the containers of STATE_TREE.md section 5."""
    one = torch.ones(2)
    weight = torch.nn.Parameter(torch.ones(2))
    weight.note = torch.ones(1)
    state_dict = torch.nn.Linear(2, 1).state_dict()
    state_dict.extra = {"t": one + 1}
    return {
        "defaultdict": collections.defaultdict(list, {"k": [one]}),
        "odd_defaultdict": collections.defaultdict(None, {(1, 2): one}),
        "counter": collections.Counter({"k": one}),
        "ordered": collections.OrderedDict([(0, one), ("0", one + 1)]),
        "odd_ordered": collections.OrderedDict([(None, one)]),
        "odd": {1.5: [one], None: one + 1},
        "state_dict": state_dict,
        "parameter": weight,
        "grad": torch.ones(2, requires_grad=True),
        "array": np.ones(3),
        "sparse": torch.eye(3).to_sparse(),
        "random": np.random.default_rng(5),
        "old_random": np.random.RandomState(5),
        "nested": {"data": one + 2, "items": [one + 3], "entries": {"k": one + 4}},
    }


def test_a_state_has_the_names_that_its_file_gets(store: ckpt.Store, tmp_path: Path, torch: Any) -> None:
    for label, value in states(torch).items():
        state = {"x": value}
        imported(torch, store, state, tmp_path, label)
        ckpt.save(store, state, label=label)
        assert names(store, label, "main") == names(store, label, "import"), label


def test_a_file_is_read_into_memory_that_its_tensors_share_as_they_do_in_the_file_only(tmp_path: Path,
                                                                                        torch: Any) -> None:
    x, y = torch.arange(6.0), np.full(6, -1.0, "f4")
    spread = np.lib.stride_tricks.as_strided(y, (4,), (0,), writeable=True)
    torch.save({"a": x[:4], "b": x[2:]}, tmp_path / "shared.pt")
    torch.save({"a": x[:4].clone(), "b": x[2:].clone()}, tmp_path / "apart.pt")
    for file, into, said in (("apart.pt", {"a": y[:4], "b": y[2:]}, "for 'b' overlaps that for 'a'"),
                             ("shared.pt", {"a": y[:4], "b": y[1:5]}, "for 'b' overlaps that for 'a'"),
                             ("apart.pt", {"a": spread, "b": np.zeros(4, "f4")}, "for 'a' overlaps itself")):
        with pytest.raises(ckpt.InvalidError, match=said):
            ckpt.load(tmp_path / file, into=into)
        assert (y == -1).all()
    ckpt.load(tmp_path / "shared.pt", into={"a": y[:4], "b": y[2:]})
    assert y.tolist() == x.tolist()


class Deque(collections.deque):  # type: ignore[type-arg]
    """Of a class that is unknown where it is loaded."""


def test_what_was_imported_is_saved_under_the_same_names(store: ckpt.Store, tmp_path: Path, torch: Any) -> None:
    one = torch.ones(2)
    kinds = {"deque": collections.deque([one]), "own": Deque([one, {"data": one + 1}]),
             "marked": one.as_subclass(Marked), "storage": one.storage(),
             "quantized": torch.quantize_per_tensor(one, 0.5, 1, torch.qint8)}
    for label, value in kinds.items():
        imported(torch, store, {"x": value}, tmp_path, label)
        state = ckpt.load(store, f"label:{label}", run="import", framework="torch")
        ckpt.save(store, state, label=label)
        assert names(store, label, "main") == names(store, label, "import"), label


@pytest.fixture(autouse=True)
def _marked(torch: Any) -> None:
    """A subclass of torch.Tensor, made once torch is there."""
    global Marked
    Marked = type("Marked", (torch.Tensor,), {"__module__": __name__})


Marked: Any = None


# ---- dtypes ----

ONLY_TORCH = "bits8 bits16 bits1x8 bits2x4 bits4x2 bcomplex32 float4_e2m1fn_x2".split()


def raw(torch: Any, tensor: Any) -> bytes:
    return bytes(tensor.contiguous().view(torch.uint8).numpy().tobytes()) if tensor.ndim else b""


def test_every_dtype_of_torch_is_saved_imported_and_given_back(store: ckpt.Store, tmp_path: Path, torch: Any) -> None:
    shells = {f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)}
    quantized = {"qint8", "quint8", "qint32", "quint4x2", "quint2x4"}
    found = {str(value)[6:]: value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    assert set(ONLY_TORCH) <= set(found) and shells <= set(found)
    for name, dtype in sorted(found.items()):
        if name in quantized:
            continue
        width = torch.empty(0, dtype=dtype).element_size()
        data = torch.arange(8 * width, dtype=torch.uint8).reshape(2, -1)
        state = {"x": (data % 2 == 0) if name == "bool" else data.view(dtype), "dtype": dtype}
        ckpt.save(store, state, label=name)
        if name not in shells:  # torch.save takes none
            imported(torch, store, state, tmp_path, name)
        for run in ("main",) if name in shells else ("main", "import"):
            back = ckpt.load(store, f"label:{name}", run=run, framework="torch")
            assert (back["x"].dtype, back["x"].shape, back["dtype"]) == (dtype, state["x"].shape, dtype), (name, run)
            assert raw(torch, back["x"]) == raw(torch, state["x"]), (name, run)
        assert name in shells or saved_dtype(store, name, "main") == saved_dtype(store, name, "import")


def saved_dtype(store: ckpt.Store, label: str, run: str) -> str:
    with ckpt.Reader(store, f"label:{label}", run=run) as reader:
        return str(reader.tensor("x").dtype)


def test_pairs_of_four_bits_are_elements(store: ckpt.Store, tmp_path: Path, torch: Any) -> None:
    pairs = torch.arange(6, dtype=torch.uint8).reshape(2, 3).view(torch.float4_e2m1fn_x2)
    for label, value in {"row": pairs, "column": pairs.T, "scalar": pairs[0, 0]}.items():
        imported(torch, store, {"x": value}, tmp_path, label)
        ckpt.save(store, {"x": value}, label=label)
        for run in ("main", "import"):
            with ckpt.Reader(store, f"label:{label}", run=run) as reader:
                info = reader.tensor("x")
                assert (str(info.dtype), info.shape) == {
                    "row": ("f4_e2m1fn", (2, 6)), "column": ("u8", (3, 2)), "scalar": ("u8", ())}[label]
            back = ckpt.load(store, f"label:{label}", run=run, framework="torch")["x"]
            assert back.dtype == pairs.dtype and torch.equal(back.view(torch.uint8), value.view(torch.uint8))


# ---- numpy's generators ----

GENERATORS = [np.random.Generator(kind(7)) for kind in (np.random.PCG64, np.random.MT19937, np.random.Philox,
                                                         np.random.SFC64, np.random.PCG64DXSM)]


def draws(generator: Any) -> list[Any]:
    """What comes next, of every kind of state that a generator keeps."""
    if isinstance(generator, np.random.BitGenerator):
        generator = np.random.Generator(generator)
    if isinstance(generator, np.random.RandomState):
        return [generator.randint(1 << 30), generator.standard_normal(), *generator.bytes(9)]
    return [*generator.integers(1 << 30, size=5, dtype=np.uint32), generator.random(), generator.standard_normal()]


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_generators_go_on_where_they_were(store: ckpt.Store, tmp_path: Path, torch: Any, framework: Any) -> None:
    old = np.random.RandomState(3)
    old.standard_normal()  # keeps the second of a pair
    state: dict[str, Any] = {"new": GENERATORS, "old": old, "bits": np.random.Philox(5),
                             "seed": np.random.SeedSequence([1, 2])}
    for generator in GENERATORS:
        generator.integers(9, dtype=np.uint32)  # keeps half of 64 bits
    imported(torch, store, state, tmp_path)
    ckpt.save(store, state, label="i")
    back = [ckpt.load(store, "label:i", run=run, framework=framework) for run in ("main", "import")]
    expected = [draws(generator) for generator in GENERATORS], draws(old), draws(state["bits"])
    for found in back:
        assert [type(generator.bit_generator) for generator in found["new"]] == [
            type(generator.bit_generator) for generator in GENERATORS]
        assert ([draws(generator) for generator in found["new"]], draws(found["old"]), draws(found["bits"])) == expected
        assert found["seed"].state == state["seed"].state


def test_a_generator_has_children_as_before(store: ckpt.Store) -> None:
    generator: Any = np.random.default_rng(9)
    generator.bit_generator.seed_seq.spawn(2)
    ckpt.save(store, generator, label="g")
    back = ckpt.load(store, "label:g")
    expected = generator.bit_generator.seed_seq.spawn(1)[0]
    assert back.bit_generator.seed_seq.spawn(1)[0].state == expected.state


def damaged(generator: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Its record with something else in the state of its bit generator."""
    kind, state = type(generator.bit_generator), dict(generator.bit_generator.state)
    state["state"] = dict(state["state"])
    inner = state
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    name = {"name": f"{kind.__module__}.{kind.__name__}"}
    bits = ckpt.Record("numpy.random._pickle.__bit_generator_ctor",
                       {"args": (ckpt.Record("builtins.type", name),), "state": state})
    return ckpt.Record("numpy.random._pickle.__generator_ctor", {"args": (bits,)})


@pytest.mark.parametrize(("kind", "path", "value"), [
    ("MT19937", ("state", "pos"), 100000), ("MT19937", ("state", "pos"), -1),
    ("MT19937", ("state", "key"), np.zeros(3, np.uint32)), ("Philox", ("buffer_pos",), -5),
    ("Philox", ("buffer",), np.zeros(2, np.uint64)), ("Philox", ("state", "counter"), np.zeros(4)),
    ("PCG64", ("state", "state"), 1 << 128), ("PCG64", ("has_uint32",), 7), ("PCG64", ("bit_generator",), "SFC64"),
    ("SFC64", ("uinteger",), -1),
])
def test_a_state_that_no_generator_has_stays_a_record(store: ckpt.Store, kind: str, path: tuple[str, ...],
                                                      value: Any) -> None:
    generator = np.random.Generator(getattr(np.random, kind)(1))
    ckpt.save(store, {"good": damaged(generator, ("has_uint32",), 0) if kind == "PCG64" else generator,
                      "bad": damaged(generator, path, value)}, label="g")
    back = ckpt.load(store, "label:g")
    assert isinstance(back["good"], np.random.Generator)
    assert isinstance(back["bad"], ckpt.Record)


def test_only_the_generators_of_numpy_are_made(store: ckpt.Store) -> None:
    for name in ("os.system", "numpy.random._pcg64.BitGenerator", "numpy.random.bit_generator.SeedSequence"):
        bits = ckpt.Record("numpy.random._pickle.__bit_generator_ctor",
                           {"args": (ckpt.Record("builtins.type", {"name": name}),), "state": {}})
        ckpt.save(store, bits, label=name)
        assert isinstance(ckpt.load(store, f"label:{name}"), ckpt.Record)
