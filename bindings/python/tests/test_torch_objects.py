"""What torch's modules, optimizers and other objects of a state take: tied weights, wrappers in any order, state that
changes its shape, tensors that wrap others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ckpt
import numpy as np
import pytest

pytestmark = pytest.mark.torch


# ---- tied weights ----


def language_model(torch: Any) -> Any:
    model = torch.nn.ModuleDict({"emb": torch.nn.Embedding(6, 4), "head": torch.nn.Linear(4, 6, bias=False)})
    model["head"].weight = model["emb"].weight
    return model


@pytest.mark.parametrize("names", [("emb.weight", "head.weight"), ("head.weight", "emb.weight"), ("emb.weight",),
                                   ("head.weight",)])
@pytest.mark.parametrize("file", [True, False])
@pytest.mark.parametrize("choice", [None, {}, {"strict": False}])
def test_tied_weights_are_taken_under_one_of_their_names_or_each(torch: Any, tmp_path: Path, names: tuple[str, ...],
                                                                 file: bool, choice: dict[str, Any] | None) -> None:
    weight = torch.randn(6, 4)
    saved = {"model": {name: weight.clone() for name in names}}
    model = language_model(torch)
    if choice is not None:
        ckpt.save(tmp_path / "s", saved, step=1)
        restored = ckpt.Checkpointer(tmp_path / "s", signals=()).restore({"model": model}, **choice)
        assert restored is not None and not restored.missing
    elif file:
        torch.save(saved, tmp_path / "x.pt")
        ckpt.load(tmp_path / "x.pt", into={"model": model})
    else:
        ckpt.save(tmp_path / "s", saved)
        ckpt.load(tmp_path / "s", into={"model": model}, strict="exact")
    assert torch.equal(model["head"].weight, weight) and model["head"].weight is model["emb"].weight


@pytest.mark.parametrize("file", [True, False])
def test_tied_weights_that_differ_are_refused_with_the_element(torch: Any, tmp_path: Path, file: bool) -> None:
    weight = torch.ones(6, 4)
    saved = {"emb.weight": weight, "head.weight": weight.clone()}
    saved["head.weight"][2, 1] = 5
    model = language_model(torch)
    before = model["emb"].weight.clone()
    if file:
        torch.save(saved, tmp_path / "x.pt")
    else:
        ckpt.save(tmp_path / "x.pt", saved)
    with pytest.raises(ckpt.MismatchError, match=r"'emb.weight' and 'head.weight' .*at element 9: .*1.* and .*5"):
        ckpt.load(tmp_path / "x.pt", into=model)
    assert torch.equal(model["emb"].weight, before)


def test_arrays_that_are_tied_are_no_less_than_modules(tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"a": np.ones(3), "b": np.ones(3)})
    tied = np.zeros(3)
    ckpt.load(tmp_path / "s", into={"a": tied, "b": tied, "c": {"d": tied}})
    assert tied.tolist() == [1, 1, 1]
    with pytest.raises(ckpt.NotFoundError, match="c/d"):
        ckpt.load(tmp_path / "s", into={"a": tied, "c": {"d": np.zeros(3)}})


# ---- wrappers ----

ORDERS = ["", "C", "A", "CA", "AC", "ACA", "CAC", "OC", "CO", "AO", "P", "CP", "PC", "PA", "AP"]


def wrapped(torch: Any, order: str) -> Any:
    """A model of which the inner part has these wrappers, the last one innermost."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper, offload_wrapper
    ways: dict[str, Callable[[Any], Any]] = {
        "C": lambda module: torch.compile(module, backend="eager"), "A": checkpoint_wrapper, "O": offload_wrapper,
        "P": torch.nn.DataParallel}
    part = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    part.add_module("module", torch.nn.Linear(3, 3))  # as wrappers call theirs
    for way in reversed(order):
        part = ways[way](part)
    return torch.nn.Sequential(torch.nn.Linear(3, 3), part)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("order", ORDERS)
def test_names_are_without_wrappers_in_whatever_order(torch: Any, tmp_path: Path, order: str) -> None:
    model = wrapped(torch, order)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    ckpt.save(tmp_path / "s", {"model": model, "optimizer": optimizer})
    with ckpt.open(tmp_path / "s") as found:
        names = set(found)
    assert {name.removeprefix("model/") for name in names if name.startswith("model")} == set(
        wrapped(torch, "").state_dict())
    for other in ("", order, "CA"):
        mine = wrapped(torch, other)
        ckpt.load(tmp_path / "s", into={"model": mine, "optimizer": torch.optim.SGD(mine.parameters(), 0.1)},
                  strict="exact")
        assert all(map(torch.equal, mine.parameters(), model.parameters()))


# ---- state that changes its shape ----


def layer(torch: Any, extra: Any) -> Any:
    class Layer(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.w, self.extra = torch.nn.Parameter(torch.ones(2)), extra

        def get_extra_state(self) -> Any:
            return self.extra

        def set_extra_state(self, value: Any) -> None:
            self.extra = value
    return Layer()


class Sampler:
    def __init__(self, order: Any) -> None:
        self.order = order

    def state_dict(self) -> dict[str, Any]:
        return {"order": self.order}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.order = state["order"]


class Keyed(Sampler):
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.order = state["none"]


@pytest.mark.parametrize("how", ["load", "restore", "skip"])
@pytest.mark.parametrize("saved,fresh", [
    (5, 0), (5, 9), (None, 4), (4, None), (3, 3), ("numpy", 2), ([1, 2], 1), (2, [1])])
def test_what_an_object_takes_itself_is_handed_over_as_it_was_saved(torch: Any, tmp_path: Path, how: str, saved: Any,
                                                                    fresh: Any) -> None:
    def value(size: Any) -> Any:
        if isinstance(size, list):
            return [torch.arange(n) for n in size]
        return np.arange(7) if size == "numpy" else None if size is None else torch.arange(size, dtype=torch.uint8)

    state = {"net": layer(torch, value(saved)), "sampler": Sampler(value(saved))}
    mine = {"net": layer(torch, value(fresh)), "sampler": Sampler(value(fresh))}
    ckpt.save(tmp_path / "s", state, step=1)
    if how == "load":
        ckpt.load(tmp_path / "s", into=mine)
    else:
        keeper = ckpt.Checkpointer(tmp_path / "s", signals=())
        keeper.restore(mine, **({"on_shape_mismatch": "skip"} if how == "skip" else {}))
    for got, wanted in ((mine["net"].extra, state["net"].extra), (mine["sampler"].order, state["sampler"].order)):
        assert type(got) is type(wanted) and str(got) == str(wanted)


def test_an_object_that_is_not_there_is_told_with_what_is(torch: Any, tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"net": torch.nn.Linear(2, 2), "w": torch.ones(1)})
    with pytest.raises(ckpt.NotFoundError, match=r"nothing \(it has 'net', 'w'\): model"):
        ckpt.load(tmp_path / "s", into={"model": torch.nn.Linear(2, 2)})
    ckpt.save(tmp_path / "v", {"epoch": 3, "a": {"n": 4}})
    for into, place in (({"epoch": torch.nn.Linear(2, 2)}, "epoch"), ({"a": {"n": torch.nn.Linear(2, 2)}}, "a/n")):
        with pytest.raises(ckpt.NotFoundError, match=f"where the checkpoint has another value: {place}; strict"):
            ckpt.load(tmp_path / "v", into=into)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "_fsdp_wrapped_module.", "module._orig_mod."])
def test_a_name_of_a_file_that_only_a_wrapper_makes_another_is_told_with_the_option(torch: Any, tmp_path: Path,
                                                                                    prefix: str) -> None:
    file, mine = tmp_path / "a.pt", torch.nn.Linear(2, 2)
    torch.save({"net": {prefix + name: value for name, value in torch.nn.Linear(2, 2).state_dict().items()}}, file)
    with pytest.raises(ckpt.NotFoundError, match=f"has it as 'net/{prefix}weight': prefixes=\"auto\"") as told:
        ckpt.load(file, into={"net": mine})
    assert "did you mean" not in str(told.value)
    ckpt.load(file, into={"net": mine}, prefixes="auto")


def test_what_an_object_does_not_take_is_told_with_its_place(torch: Any, tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"a": {"sampler": Sampler(1)}})
    with pytest.raises(ckpt.MismatchError, match="'a/sampler'.*Keyed.load_state_dict.*KeyError.*none"):
        ckpt.load(tmp_path / "s", into={"a": {"sampler": Keyed(0)}})


@pytest.mark.parametrize("choice", [{}, {"strict": False}])
def test_what_a_load_has_changed_before_an_object_refuses_is_told(torch: Any, tmp_path: Path, choice: Any) -> None:
    class Refuses(Sampler):
        def load_state_dict(self, state: Any) -> None:
            raise ZeroDivisionError("boom")

    state = {"net": torch.nn.Linear(2, 2), "first": Sampler(1), "z": Sampler(1), "later": Sampler(1)}
    ckpt.save(tmp_path / "s", state, step=1)
    mine = {"net": torch.nn.Linear(2, 2), "first": Sampler(0), "z": Refuses(0), "later": Sampler(0)}
    with pytest.raises(ckpt.MismatchError, match="'z': .*ZeroDivisionError: boom; by then the load had changed 'net', "
                       "'first': load them again") as told:
        ckpt.Checkpointer(tmp_path / "s", signals=()).restore(mine, **choice)
    assert torch.equal(mine["net"].weight, state["net"].weight) and isinstance(told.value.__cause__, ZeroDivisionError)


def test_lazy_modules_and_those_with_a_way_of_their_own_take_other_shapes(torch: Any, tmp_path: Path) -> None:
    made = torch.nn.Sequential(torch.nn.LazyLinear(2))
    made(torch.ones(1, 3))
    ckpt.save(tmp_path / "lazy", {"m": made})
    mine = torch.nn.Sequential(torch.nn.LazyLinear(2))
    ckpt.load(tmp_path / "lazy", into={"m": mine})
    assert torch.equal(mine[0].weight, made[0].weight)
    observer = torch.ao.quantization.PerChannelMinMaxObserver()
    observer(torch.randn(4, 3))
    ckpt.save(tmp_path / "observer", {"m": observer})
    fresh = torch.ao.quantization.PerChannelMinMaxObserver()
    ckpt.load(tmp_path / "observer", into={"m": fresh})
    assert torch.equal(fresh.min_val, observer.min_val)
    with pytest.raises(ckpt.MismatchError, match="m/0.weight|weight"):
        ckpt.load(tmp_path / "lazy", into={"m": torch.nn.Sequential(torch.nn.Linear(5, 2))})


# ---- optimizers ----


@pytest.mark.parametrize("by", ["names", "numbers"])
def test_the_state_of_lbfgs_is_dropped_when_any_parameter_has_another_shape(torch: Any, tmp_path: Path,
                                                                             by: str) -> None:
    def made(width: int) -> tuple[Any, Any]:
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, width))
        optimizer = torch.optim.LBFGS(model.parameters())
        return {"m": model, "o": optimizer} if by == "names" else {"o": optimizer}, model

    def step(state: Any, model: Any) -> None:
        def loss() -> Any:
            state["o"].zero_grad()
            value = model(torch.ones(1, 4)).square().sum()
            value.backward()
            return value
        state["o"].step(loss)

    old, new = made(3), made(5)
    step(*old)
    ckpt.save(tmp_path / "s", old[0], step=1)
    with pytest.raises(ckpt.MismatchError):
        ckpt.load(tmp_path / "s", into=made(5)[0])
    found = ckpt.Checkpointer(tmp_path / "s", signals=()).restore(new[0], on_shape_mismatch="skip")
    assert found is not None and any(text.startswith("o/") for text in found.other_shape) and not new[0]["o"].state
    step(*new)


def lion(torch: Any) -> Callable[[Any], Any]:
    class Lion(torch.optim.Optimizer):  # type: ignore[misc,name-defined]
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 0.1})

        @torch.no_grad()  # type: ignore[untyped-decorator]
        def step(self) -> None:
            for p in self.param_groups[0]["params"]:
                state = self.state[p]
                if not state:
                    state["moment"] = torch.zeros_like(p)
                p.sub_(state["moment"].lerp_(p.grad, 0.1).sign() * 0.1)
    return Lion


@pytest.mark.parametrize("stepped", [False, True])
@pytest.mark.parametrize("rows", [10, 1])
@pytest.mark.parametrize("name", ["AdamW", "SGD", "Muon", "Adafactor", "Adagrad", "NAdam", "LBFGS", "Lion"])
def test_state_of_a_parameter_of_another_shape_is_dropped_of_every_optimizer(torch: Any, tmp_path: Path, name: str,
                                                                             rows: int, stepped: bool) -> None:
    kinds: dict[str, Callable[[Any], Any]] = {
        "Lion": lion(torch), "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
        "Muon": lambda p: torch.optim.Muon([x for x in p if x.dim() == 2])}

    def trainer(rows: int) -> dict[str, Any]:
        model = torch.nn.ModuleDict({"emb": torch.nn.Embedding(rows, 4), "lin": torch.nn.Linear(4, 4)})
        make = kinds.get(name) or getattr(torch.optim, name)
        return {"optimizer": make(model.parameters()), "model": model}

    def step(state: dict[str, Any]) -> None:
        model, optimizer = state["model"], state["optimizer"]
        optimizer.zero_grad()

        def loss() -> Any:
            value = model["emb"].weight.sum() + model["lin"](torch.ones(1, 4)).sum()
            value.backward()
            return value
        optimizer.step(loss) if name == "LBFGS" else (loss(), optimizer.step())

    saved, mine = trainer(rows), trainer(12)
    step(saved)
    if stepped:
        step(mine)
    ckpt.save(tmp_path, saved, step=1)
    before = mine["model"]["emb"].weight.clone()
    restored = ckpt.Checkpointer(tmp_path, signals=()).restore(mine, on_shape_mismatch="skip")
    assert torch.equal(mine["model"]["emb"].weight, before)
    assert torch.equal(mine["model"]["lin"].weight, saved["model"]["lin"].weight)
    dropped = [text for text in restored.other_shape if text.startswith("optimizer/state/emb.weight/")]
    state = saved["optimizer"].state[saved["model"]["emb"].weight]
    assert len(dropped) == sum(isinstance(value, torch.Tensor) and value.dim() > 0 for value in state.values())
    assert "model/emb.weight: (12, 4)" in str(restored.other_shape)
    if name != "LBFGS":
        kept, wanted = (state["optimizer"].state[state["model"]["lin"].weight] for state in (mine, saved))
        assert all(torch.equal(kept[key], wanted[key]) for key in wanted if isinstance(wanted[key], torch.Tensor))
    step(mine)


def of_state(state: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """A state of an optimizer with its tensors changed."""
    return {**state, "state": {number: {key: change(value) for key, value in entry.items()}
                               for number, entry in state["state"].items()}}


@pytest.mark.parametrize("by", ["class", "object", "hooks"])
@pytest.mark.parametrize("width", [2, 1])  # of the packed state; with 1 it has another shape
@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("choice", [None, {}, {"strict": False}])
def test_an_optimizer_that_packs_its_state_gets_what_was_saved(torch: Any, tmp_path: Path, by: str, width: int,
                                                               steps: int, choice: dict[str, Any] | None) -> None:
    def pack(state: dict[str, Any]) -> dict[str, Any]:
        return of_state(state, lambda value: (value[:, :width] * 10).to(torch.int8))

    def unpack(state: dict[str, Any]) -> dict[str, Any]:
        return of_state(state, lambda value: (value.float() / 10).expand(2, 2).clone())

    class Packed(torch.optim.SGD):  # type: ignore[misc,name-defined]
        def state_dict(self) -> dict[str, Any]:
            return pack(super().state_dict())

        def load_state_dict(self, state: dict[str, Any]) -> None:
            super().load_state_dict(unpack(state))

    def trainer(steps: int, scale: float = 1.0) -> dict[str, Any]:
        model = torch.nn.Linear(2, 2, bias=False)
        optimizer = (Packed if by == "class" else torch.optim.SGD)(model.parameters(), lr=0.1, momentum=0.9)
        if by == "object":
            give, take = optimizer.state_dict, optimizer.load_state_dict
            optimizer.state_dict, optimizer.load_state_dict = lambda: pack(give()), lambda state: take(unpack(state))
        elif by == "hooks":
            optimizer.register_state_dict_post_hook(lambda _, state: pack(state))
            optimizer.register_load_state_dict_pre_hook(lambda _, state: unpack(state))
        for _ in range(steps):
            model(torch.full((1, 2), scale)).sum().backward()
            optimizer.step()
        return {"model": model, "optimizer": optimizer}

    ckpt.save(tmp_path, trainer(1), step=1)
    mine = trainer(steps, 3.0)
    if choice is None:
        ckpt.load(tmp_path, into=mine)
    else:
        ckpt.Checkpointer(tmp_path, signals=()).restore(mine, **choice)
    found = mine["optimizer"].state[mine["model"].weight]["momentum_buffer"]
    assert found.dtype == torch.float32 and found.tolist() == [[1, 1], [1, 1]]


# ---- dtypes, and tensors that wrap others ----


@pytest.mark.parametrize("name", ["uint1", "uint4", "uint7", "int1", "int4", "int7", "bits8", "float4_e2m1fn_x2"])
def test_a_dtype_of_few_bits_stays_what_it_is(torch: Any, tmp_path: Path, name: str) -> None:
    dtype = getattr(torch, name)
    saved = torch.tensor([1, 0, 1, 1], dtype=torch.uint8).view(dtype)
    ckpt.save(tmp_path / "s", {"x": saved})
    mine = torch.zeros(4, dtype=torch.uint8).view(dtype)
    back = ckpt.load(tmp_path / "s", into={"x": mine})["x"]
    assert back is mine
    for found in (back, ckpt.load(tmp_path / "s", framework="torch")["x"]):
        assert found.dtype is dtype and torch.equal(found.view(torch.uint8), saved.view(torch.uint8))
    ckpt.save(tmp_path / "plain", {"x": torch.zeros(4, dtype=torch.uint8)})
    said = "shape|dtype" if name.startswith("float4") else name  # two elements of four bits are one of torch's
    for source, dtypes in ((tmp_path / "s", (torch.uint8, torch.int8, torch.uint3)), (tmp_path / "plain", (dtype,))):
        for other in dtypes:
            with pytest.raises(ckpt.MismatchError, match=said):
                ckpt.load(source, into={"x": torch.zeros(4, dtype=torch.uint8).view(other)})


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
@pytest.mark.parametrize("kind", ["tensor", "parameter", "module"])
@pytest.mark.parametrize("choice", [None, {}, {"strict": False}])
def test_a_sparse_tensor_is_filled(torch: Any, tmp_path: Path, layout: str, kind: str,
                                   choice: dict[str, Any] | None) -> None:
    def state(dense: Any) -> dict[str, Any]:
        block = (2, 2) if layout[0] == "b" else None
        sparse = dense.to_sparse(layout=getattr(torch, f"sparse_{layout}"), blocksize=block)
        made = torch.nn.Parameter(sparse) if kind == "parameter" else sparse
        if kind == "module":
            made = torch.nn.Linear(2, 2)
            made.register_buffer("adjacent", sparse)
        return {"first": np.zeros(1), "x": made}

    wanted = torch.eye(4) * 3  # torch gives a module only what has as many elements
    mine, other = state(torch.eye(4) if kind == "module" else torch.ones(4, 4)), state(torch.eye(6))
    ckpt.save(tmp_path, state(wanted), step=1)
    held = mine["x"]
    if choice is None:
        assert ckpt.load(tmp_path, into=mine)["x"] is held
    else:
        ckpt.Checkpointer(tmp_path, signals=()).restore(mine, **choice)
    found = held.adjacent if kind == "module" else held
    assert mine["x"] is held and torch.equal(found.detach().to_dense(), wanted) and found.layout == getattr(
        torch, f"sparse_{layout}")
    before = other["first"].copy()
    with pytest.raises(ckpt.MismatchError, match=r"sparse_.*\(6, 6\).*sparse_.*\(4, 4\)"):
        ckpt.load(tmp_path, into=other)
    assert (other["first"] == before).all()


def wrapping(torch: Any) -> tuple[Any, Any]:
    """A tensor that wraps two others, as torchao's do, and an optimizer whose state is such tensors."""
    class Wrapped(torch.Tensor):  # type: ignore[misc,name-defined]
        @staticmethod
        def __new__(cls, codes: Any, scale: Any, signed: bool) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=torch.float32, device=codes.device)

        def __init__(self, codes: Any, scale: Any, signed: bool) -> None:
            self.codes, self.scale, self.signed = codes, scale, signed

        def __tensor_flatten__(self) -> tuple[list[str], list[Any]]:
            return ["codes", "scale"], [self.signed]

        @classmethod
        def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, stride: Any) -> Any:
            return cls(inner["codes"], inner["scale"], *context)

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops.aten.detach.default:
                return cls(args[0].codes, args[0].scale, args[0].signed)
            raise NotImplementedError(str(func))

    class Small(torch.optim.Optimizer):  # type: ignore[misc,name-defined]
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 0.1})

        def step(self) -> None:
            for p in self.param_groups[0]["params"]:
                if not self.state[p]:
                    self.state[p] = {"step": torch.tensor(0.0), "moment": Wrapped(
                        torch.zeros(p.shape, dtype=torch.uint8), torch.zeros(1), True)}
                self.state[p]["step"] += 1
                self.state[p]["moment"].codes += 7
    return Wrapped, Small


@pytest.mark.parametrize("stepped", [False, True])
def test_an_optimizer_whose_state_wraps_tensors_is_restored_afresh(torch: Any, tmp_path: Path, stepped: bool) -> None:
    wrapped, small = wrapping(torch)

    def made(steps: int) -> dict[str, Any]:
        model = torch.nn.Linear(2, 2)
        optimizer = small(model.parameters())
        for _ in range(steps):
            optimizer.step()
        return {"model": model, "optimizer": optimizer}

    saved, mine = made(3), made(int(stepped))
    ckpt.save(tmp_path / "s", saved)
    ckpt.load(tmp_path / "s", into=mine)
    state = mine["optimizer"].state[mine["model"].weight]
    assert type(state["moment"]) is wrapped and state["moment"].codes.tolist() == [[21, 21]] * 2
    assert state["moment"].signed and state["step"] == 3
    mine["optimizer"].step()
    assert state["moment"].codes[0, 0] == 28
    assert type(ckpt.load(tmp_path / "s", framework="torch")["optimizer"]["state"]["weight"]["moment"]) is wrapped
    plain = {"optimizer": {"state": {"weight": {"moment": torch.zeros(2, 2)}}}}
    with pytest.raises(ckpt.MismatchError, match="optimizer/state/weight/moment.*Wrapped"):
        ckpt.load(tmp_path / "s", into=plain)
