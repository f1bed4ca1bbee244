"""A training of torch on a device, as its users write it. CKPT_TORCH_DEVICE says on which: tools/gpu-check sets "cuda";
elsewhere it is the CPU, where the same lines must hold."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import ckpt
import pytest

DEVICE = os.environ.get("CKPT_TORCH_DEVICE", "cpu")
pytestmark = pytest.mark.torch


def training(torch: Any) -> tuple[Any, Any]:
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(288, 4)).to(DEVICE)
    model = model.to(memory_format=torch.channels_last)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def take_step(torch: Any, model: Any, optimizer: Any, number: int) -> None:
    x = torch.linspace(-1, 1, 2 * 3 * 8 * 8, device=DEVICE).reshape(2, 3, 8, 8) * number
    optimizer.zero_grad()
    model(x).square().sum().backward()
    optimizer.step()


def values(model: Any, optimizer: Any) -> list[Any]:
    moments = [value for state in optimizer.state.values() for value in state.values()]
    return [value.detach().cpu().clone() for value in [*model.parameters(), *moments]]


def same(torch: Any, one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))


def side_stream(torch: Any) -> Any:
    """Another stream than the default one, as the current one; the CPU has none."""
    return contextlib.nullcontext() if DEVICE == "cpu" else torch.cuda.stream(torch.cuda.Stream())


def made_late(torch: Any, number: int) -> Any:
    """A tensor of that number everywhere, on which the current stream still works."""
    tensor = torch.zeros(1 << 20, device=DEVICE)
    for _ in range(number):
        tensor += 1
    return tensor


@pytest.fixture
def no_copy_by_torch(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on torch copies nothing for ckpt."""
    def refused(name: str) -> Any:
        def method(*_: Any, **__: Any) -> Any:
            raise AssertionError(f"Tensor.{name} was called")
        return method

    for name in ("cpu", "to", "clone", "contiguous", "copy_", "tolist", "pin_memory"):
        monkeypatch.setattr(torch.Tensor, name, refused(name))


def test_a_background_save_holds_the_step_at_which_it_was_started(torch: Any, tmp_path: Path) -> None:
    model, optimizer = training(torch)
    state = {"model": model, "optimizer": optimizer, "random": ckpt.random_states()}
    wanted = []
    with ckpt.Checkpointer(tmp_path / "s", every=1) as keeper:
        for number in range(1, 6):
            take_step(torch, model, optimizer, number)
            wanted.append(values(model, optimizer))
            keeper.step(number, state)  # the next step changes all of it while this is being written
    for number in range(1, 6):
        other, other_optimizer = training(torch)
        take_step(torch, other, other_optimizer, 9)  # makes the moments
        into = {"model": other, "optimizer": other_optimizer, "random": ckpt.random_states()}
        places = [parameter.data_ptr() for parameter in other.parameters()]
        ckpt.load(tmp_path / "s", f"step:{number}", into=into)
        assert same(torch, values(other, other_optimizer), wanted[number - 1]), number
        assert [parameter.data_ptr() for parameter in other.parameters()] == places
        assert all(parameter.device.type == DEVICE for parameter in other.parameters())


def test_random_numbers_of_the_device_go_on(torch: Any, tmp_path: Path) -> None:
    torch.rand(10, device=DEVICE)
    ckpt.save(tmp_path / "s", {"random": ckpt.random_states()})
    wanted = torch.rand(10, device=DEVICE)
    torch.rand(1000, device=DEVICE)
    ckpt.load(tmp_path / "s", into={"random": ckpt.random_states()})
    assert torch.equal(torch.rand(10, device=DEVICE), wanted)


def test_the_binding_tells_the_devices_memory_and_the_current_stream(torch: Any) -> None:
    with side_stream(torch):
        tensor = torch.ones(30, 20, dtype=torch.bfloat16, device=DEVICE).t()
        memory = ckpt.Memory.of(tensor)
        assert (memory.address, memory.shape, memory.strides) == (tensor.data_ptr(), (20, 30), (1, 20))
        assert str(memory.dtype) == "bf16"
        if DEVICE == "cpu":
            assert memory.device == (1, 0)
        else:
            assert memory.device == (2, tensor.device.index)
            assert memory.stream == torch.cuda.current_stream().cuda_stream != 0


def test_work_of_a_side_stream_is_saved_and_loads_follow_it_without_a_copy_by_torch(
        torch: Any, tmp_path: Path, no_copy_by_torch: None) -> None:
    with side_stream(torch):
        w = made_late(torch, 200)
        ckpt.save(tmp_path / "s", {"w": w})
        back = made_late(torch, 50)
        ckpt.load(tmp_path / "s", into={"w": back})
        assert bool((back == 200).all())
        assert (back.data_ptr() != w.data_ptr()) and back.device == w.device


def test_tensors_of_several_streams_are_each_saved_behind_their_own(torch: Any, tmp_path: Path) -> None:
    with ckpt.Session(ckpt.Store(tmp_path / "s")) as session, ckpt.Save(session, "a") as save:
        kept = []
        for number in (100, 200, 300):
            with side_stream(torch):
                kept.append(made_late(torch, number))
                save.add_tensor(f"w{number}", kept[-1])
        save.run()
    found = ckpt.load(tmp_path / "s", framework="torch")
    for number in (100, 200, 300):
        assert bool((found[f"w{number}"] == number).all())


@pytest.mark.parametrize("layout", ["transposed", "permuted", "every_second", "channels_last", "repeated", "view"])
def test_a_tensor_of_any_strides_comes_back(torch: Any, tmp_path: Path, layout: str) -> None:
    base = torch.arange(24 * 1000, dtype=torch.float32, device=DEVICE)
    tensor = {"transposed": lambda: base.reshape(240, 100).t(), "every_second": lambda: base.reshape(240, 100)[:, ::2],
              "permuted": lambda: base.reshape(8, 30, 100).permute(2, 0, 1),
              "channels_last": lambda: base.reshape(8, 30, 10, 10).to(memory_format=torch.channels_last),
              "repeated": lambda: base[:100].expand(50, 100), "view": lambda: base[1000:2000]}[layout]()
    half = tensor.to(torch.bfloat16)
    ckpt.save(tmp_path / "s", {"half": half, "w": tensor})
    found = ckpt.load(tmp_path / "s", framework="torch")
    assert torch.equal(found["w"], tensor.cpu()) and found["w"].device.type == "cpu"
    assert torch.equal(found["half"], half.cpu())
    into = torch.zeros_like(tensor.contiguous()) if layout == "repeated" else torch.empty_strided(
        tensor.shape, tensor.stride(), device=DEVICE).zero_()
    into_half = torch.zeros(tensor.shape, dtype=torch.bfloat16, device=DEVICE)
    ckpt.load(tmp_path / "s", into={"w": into, "half": into_half})
    assert torch.equal(into, tensor) and torch.equal(into_half, half)
    ckpt.load(tmp_path / "s", into={"half": into, "w": into_half}, convert=True)
    assert torch.equal(into, half.float()) and torch.equal(into_half, half)


def test_what_lies_between_the_elements_stays(torch: Any, tmp_path: Path) -> None:
    ckpt.save(tmp_path / "s", {"w": torch.ones(60, 50)})
    target = torch.zeros(60, 100, device=DEVICE)
    ckpt.load(tmp_path / "s", into={"w": target[:, ::2]})
    assert bool((target[:, ::2] == 1).all()) and not bool(target[:, 1::2].any())


def test_memory_on_another_device_than_is_said_is_refused_by_name(torch: Any, tmp_path: Path) -> None:
    tensor, host = torch.zeros(4, device=DEVICE), torch.zeros(4)
    count = 0 if DEVICE == "cpu" else torch.cuda.device_count()
    wrong: type[ckpt.Error] = ckpt.UnsupportedError if DEVICE == "cpu" else ckpt.InvalidError  # where CUDA is not
    with ckpt.Session(ckpt.Store(tmp_path / "s")) as session, ckpt.Save(session, "a") as save:
        for place, device in ((host, 0), (host, count), *((tensor, other) for other in range(1, count))):
            raw = ckpt.Memory.of(place)
            with pytest.raises(wrong, match="cuda|CUDA") as caught:
                save.add_tensor("w", raw, dtype="u8", shape=(16,), device=(2, device))
            assert caught.value.details["tensor"] == "w"
