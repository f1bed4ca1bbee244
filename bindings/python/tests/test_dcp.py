"""ckpt.dcp: torch.distributed.checkpoint saves into and loads from stores of ckpt."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path
from typing import Any

import ckpt
import pytest
from conftest import forking
from test_torch_sharded import differences

pytestmark = pytest.mark.torch
SIZES = {"none": 1, "ddp": 2, "fsdp2": 3, "hsdp": 4, "tp": 2, "tp_fsdp": 4}


@pytest.fixture(autouse=True)
def one_process() -> Any:
    """torch warns that it saves in one process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def dcp() -> Any:
    import ckpt.dcp
    import torch.distributed.checkpoint
    return torch.distributed.checkpoint


def writer(path: object, **options: Any) -> Any:
    dcp()
    return ckpt.dcp.Writer(str(path), **options)


def reader(path: object, *selector: str, **options: Any) -> Any:
    dcp()
    return ckpt.dcp.Reader(str(path), *selector, **options)


def planner(cached: bool = True) -> Any:
    from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
    return DefaultSavePlanner(enable_plan_caching=cached)


def rows(values: Any) -> Any:
    """A tensor of which each rank has some rows."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    return distribute_tensor(values, init_device_mesh("cpu", (ranks_here(),)), [Shard(0)])


def ranks_here() -> int:
    import torch.distributed as dist
    return dist.get_world_size()


def rank() -> int:
    import torch.distributed as dist
    return dist.get_rank()


def failure(call: Any) -> dict[int, str]:
    """What each rank says of a save or load that fails."""
    from torch.distributed.checkpoint.api import CheckpointException
    with pytest.raises(CheckpointException) as caught:
        call()
    return {number: str(error) for number, (error, _) in caught.value.failures.items()}


def two(function: Any, folder: Path) -> list[int]:
    """How two processes that may have children or die end."""
    processes = [forking().Process(target=function, args=(number, str(folder / "group"), str(folder / "s")))
                 for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)  # torch alone takes long to import where much else runs
        process.kill()
    return [process.exitcode for process in processes]


# ---- layouts ----


def states(made: Any) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import get_state_dict
    model, optimizer = get_state_dict(made.model, made.optimizer)
    return {"model": model, "optimizer": optimizer, "scheduler": made.scheduler.state_dict()}


def save_layout(layout: str, path: str) -> Any:
    import sharded_layouts as layouts
    made = layouts.trainer(layout, layouts.Net, 0, steps=2)
    dcp().save(states(made), storage_writer=writer(path, step=2))
    return layouts.gathered(made)


def load_layout(layout: str, path: str) -> Any:
    import sharded_layouts as layouts
    from torch.distributed.checkpoint.state_dict import set_state_dict
    made = layouts.trainer(layout, layouts.Net, 1, steps=1)
    state = states(made)
    dcp().load(state, storage_reader=reader(path))
    set_state_dict(made.model, made.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    made.scheduler.load_state_dict(state["scheduler"])
    return layouts.gathered(made)


@pytest.mark.parametrize("layout", SIZES)
def test_what_a_layout_saves_comes_back_under_others_as_torch_gathers_it(ranks: Any, tmp_path: Path,
                                                                         layout: str) -> None:
    path, names = str(tmp_path / "s"), list(SIZES)
    saved = ranks(SIZES[layout], save_layout, layout, path)[0]
    for other in {layout, names[names.index(layout) - 1], names[names.index(layout) - 3]}:
        assert not differences(ranks(SIZES[other], load_layout, other, path)[0], saved), other


def save_and_load_sharded_tensors(path: str) -> None:
    """Of FSDP1's model alone: torch itself does not find the state of its optimizer again."""
    import sharded_layouts as layouts
    import torch
    from torch.distributed.checkpoint.state_dict import get_model_state_dict
    found = get_model_state_dict(layouts.trainer("fsdp1", layouts.Net, 0).model)
    done = dcp().async_save(found, storage_writer=writer(path))
    wanted = {name: [part.tensor.clone() for part in value.local_shards()] for name, value in found.items()
              if hasattr(value, "local_shards")}
    for parts in wanted:
        for part in found[parts].local_shards():
            part.tensor.zero_()
    done.result()
    dcp().load(found, storage_reader=reader(path))
    assert wanted and all(torch.equal(mine, part.tensor) for name, parts in wanted.items()
                          for mine, part in zip(parts, found[name].local_shards(), strict=True))


def test_sharded_tensors_are_copied_saved_and_loaded(ranks: Any, tmp_path: Path) -> None:
    ranks(3, save_and_load_sharded_tensors, str(tmp_path / "s"))


# ---- what a state may hold ----


def values(torch: Any) -> dict[str, Any]:
    return {"step": 7, "lr": 0.1, "note": "hi", "raw": b"\0\1", "none": None, "pair": (1, "a"), "plain": [1, 2],
            "mixed": [torch.ones(2), {"x": 1, "y": [torch.zeros(1), 2]}], "number": torch.tensor(3.5),
            "empty": torch.empty(0, 3), "sparse": torch.eye(3).to_sparse(), "conj": torch.tensor([1 + 2j]).conj(),
            "last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), "dtype": torch.bfloat16,
            "byte": torch.tensor([1, 2], dtype=torch.float8_e4m3fn), "deep": {"a.b": {"0": torch.arange(3)}}}


def blank(value: Any, torch: Any) -> Any:
    """The same form, with other numbers."""
    if isinstance(value, dict):
        return {key: blank(below, torch) for key, below in value.items()}
    if isinstance(value, list):
        return [blank(below, torch) for below in value]
    return torch.zeros_like(value.resolve_conj()) if isinstance(value, torch.Tensor) else None


def flat(value: Any, torch: Any) -> Any:
    from torch.distributed.checkpoint._nested_dict import flatten_state_dict
    dense = {name: found.to_dense() if isinstance(found, torch.Tensor) and found.is_sparse else found
             for name, found in flatten_state_dict(value)[0].items()}
    return {name: found.float() if "byte" in name else found for name, found in dense.items()}


def test_values_and_tensors_of_all_kinds_come_back_in_torch_and_in_ckpt(torch: Any, tmp_path: Path) -> None:
    state = values(torch)
    saver = writer(tmp_path / "s", step=7)
    dcp().save(state, storage_writer=saver)
    back = blank(state, torch)
    dcp().load(back, storage_reader=reader(tmp_path / "s"))
    assert not differences(flat(back, torch), flat(state, torch))
    assert not differences(flat(ckpt.load(tmp_path / "s"), torch), flat(state, torch))
    with ckpt.Reader(ckpt.Store(tmp_path / "s"), saver.id) as opened:
        assert [found.name for found in opened.objects()] == ["state"]  # no pickle
        assert opened.tensor("deep/a.b/~s0").shape == (3,)


def test_a_state_that_ckpt_saved_is_loaded_by_its_names_in_torch(torch: Any, tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    ckpt.save(tmp_path / "s", {"model": model, "epoch": 3}, step=1)
    back = {"model": {key: torch.zeros_like(value) for key, value in model.state_dict().items()}, "epoch": 0}
    dcp().load(back, storage_reader=reader(tmp_path / "s", "step:1"))
    assert not differences(back["model"], model.state_dict()) and back["epoch"] == 3


def test_a_load_converts_fills_views_and_one_memory_under_two_names(torch: Any, tmp_path: Path) -> None:
    state = {"a": torch.arange(12.).reshape(3, 4), "b": torch.arange(12.).reshape(3, 4)}
    dcp().save(state, storage_writer=writer(tmp_path / "s"))
    shared, wide = torch.zeros(3, 4, dtype=torch.float64), torch.zeros(3, 9)
    dcp().load(one := {"a": shared, "b": shared}, storage_reader=reader(tmp_path / "s"))
    dcp().load({"a": wide[:, ::2][:, :4], "b": torch.zeros(4, 3).t()}, storage_reader=reader(tmp_path / "s"))
    assert torch.equal(one["b"], state["b"].double()) and torch.equal(wide[:, ::2][:, :4], state["a"])


def test_torch_builds_a_state_of_what_it_finds(torch: Any, tmp_path: Path) -> None:
    from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
    from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
    dcp().save({"model": {"w": torch.ones(2)}, "step": 7}, storage_writer=writer(tmp_path / "s"))
    state: dict[str, Any] = {}
    _load_state_dict(state, reader(tmp_path / "s"), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    assert state["step"] == 7 and torch.equal(state["model"]["w"], torch.ones(2))


# ---- names ----


@pytest.mark.parametrize("given,label,step", [("step-10", "step-10", 10), ("global_step7", "global_step7", 7),
                                              ("iter_0000012", "iter_0000012", 12), ("best", "best", None),
                                              ("llama-7b-v2", "llama-7b-v2", None), ("30", "30", 30)])
def test_a_checkpoint_id_is_a_label_in_the_store(torch: Any, tmp_path: Path, given: str, label: str,
                                                 step: int | None) -> None:
    for name in (given, str(tmp_path / "s" / given)):  # the second replaces the first
        dcp().save({"name": name}, checkpoint_id=name, storage_writer=writer(tmp_path / "s"))
    (found,) = ckpt.Store(tmp_path / "s").list()
    assert (found.label, found.step) == (label, -1 if step is None else step)
    dcp().load(back := {"name": ""}, checkpoint_id=given, storage_reader=reader(tmp_path / "s"))
    assert back["name"] == name


def test_a_label_that_is_taken_is_refused_if_so_told(torch: Any, tmp_path: Path) -> None:
    for old in (True, False):
        def save() -> None:
            dcp().save({"old": old}, storage_writer=writer(tmp_path / "s", label="best", on_existing="error"))
        assert "best" in failure(save)[0] if not old else save() is None
    assert ckpt.load(tmp_path / "s") == {"old": True}


# ---- plans ----


def save_cached(path: str) -> None:
    import torch
    weight = rows(torch.arange(8.))
    state = {"w": weight, "step": 1, "groups": [{"lr": 0.1, "names": ["a"]}, torch.ones(3), rank()], "where": rank(),
             f"of{rank()}": [{"x": torch.full((2,), rank())}], "own": ckpt.PerRank(rank())}
    for step in (1, 2, 3, 4):
        state["step"] = step
        if step == 3 and rank() == 0:
            del state["where"]
        if step == 4:
            path += "-other"
        with torch.no_grad():
            weight.add_(1)
        dcp().save(state, storage_writer=writer(path, step=step), planner=planner())


def test_cached_plans_save_what_the_state_is_now_where_the_writer_says(ranks: Any, tmp_path: Path) -> None:
    ranks(3, save_cached, str(tmp_path / "s"))
    for step in (1, 2, 3, 4):
        back = ckpt.load(str(tmp_path / "s") + "-other" * (step == 4), f"step:{step}", rank=1)
        assert back["w"].tolist() == [value + step for value in range(8)] and back["step"] == step
        assert back["groups"][::2] == [{"lr": 0.1, "names": ["a"]}, 0] and back["own"] == 1
        assert back["where"] == 0 if step < 3 else back["where"] in (1, 2)
        assert [back[f"of{number}"][0]["x"].tolist() for number in range(3)] == [[0, 0], [1, 1], [2, 2]]


def refuse_plans_of_others(path: str) -> Any:
    import torch
    state = {"w": rows(torch.arange(8.))}

    class Mine(type(planner())):  # type: ignore[misc]
        pass

    dcp().save(state, checkpoint_id=f"{path}-torch", planner=Mine(enable_plan_caching=True))
    return failure(lambda: dcp().save(state, storage_writer=writer(path), planner=Mine(enable_plan_caching=True)))


def test_plans_that_were_cached_for_another_writer_are_refused(ranks: Any, tmp_path: Path) -> None:
    for cached in ranks(2, refuse_plans_of_others, str(tmp_path / "s")):
        assert all("Mine has cached plans of another StorageWriter" in text for text in cached.values()) and cached


def save_alone(path: str) -> None:
    if rank() == 1:
        dcp().save({"rank": rank()}, storage_writer=writer(path, step=1), no_dist=True)
        dcp().load(back := {"rank": 0}, storage_reader=reader(path), no_dist=True)
        assert back["rank"] == 1


def test_one_rank_saves_and_loads_alone(ranks: Any, tmp_path: Path) -> None:
    ranks(2, save_alone, str(tmp_path / "s"))
    with pytest.raises(ckpt.UnsupportedError, match="use_collectives=False"):
        dcp().save({"a": 1}, storage_writer=writer(tmp_path / "s"), use_collectives=False)


def load_while_another_save_commits(path: str) -> Any:
    import torch
    old = reader(path, "step:1") if rank() else reader(path, "step:2")
    state = {"w": rows(torch.zeros(8)), "step": 0}
    dcp().load(state, storage_reader=old)
    return state["step"], state["w"].to_local().tolist()


def test_all_ranks_load_what_rank_0_found(ranks: Any, tmp_path: Path) -> None:
    ranks(3, save_cached, str(tmp_path / "s"))
    assert ranks(2, load_while_another_save_commits, str(tmp_path / "s")) == [(2, [2, 3, 4, 5]), (2, [6, 7, 8, 9])]


# ---- in the background ----


def save_in_the_background(path: str, kind: str) -> None:
    import torch
    from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
    values = torch.arange(1000.)
    state, saver = {"w": rows(values), "plain": values, "lists": [[1]], "one": torch.tensor(5)}, writer(path)
    for step in (1, 2, 3):
        done = dcp().async_save(state, checkpoint_id=f"step-{step}", storage_writer=saver,
                                async_checkpointer_type=AsyncCheckpointerType(kind))
        state["w"].to_local().add_(1)
        values.mul_(2)
        state["lists"][0][0] += 1
        done.result()


def in_a_process(number: int, file: str, path: str) -> None:
    from sharded_layouts import process_group
    with process_group(number, 2, file):
        save_in_the_background(path, "process")
    os._exit(0)


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_async_save_saves_the_state_as_it_was_when_it_was_called(ranks: Any, tmp_path: Path, kind: str) -> None:
    if kind == "thread":
        ranks(2, save_in_the_background, str(tmp_path / "s"), kind)
    else:
        assert two(in_a_process, tmp_path) == [0, 0]
    for step in (1, 2, 3):
        back = ckpt.load(tmp_path / "s", f"step:{step}")
        assert back["w"].tolist() == [value + step - 1 for value in range(1000)]
        assert back["plain"].tolist() == [value * 2 ** (step - 1) for value in range(1000)]
        assert back["lists"] == [[step]] and back["one"] == 5


def test_copies_of_saves_in_flight_do_not_share_memory(torch: Any) -> None:
    saver = writer("unused")
    first = saver.stage({"w": torch.ones(8)})
    second = saver.stage({"w": torch.zeros(8)})
    assert first["w"].tolist() == [1] * 8 and second["w"].tolist() == [0] * 8


# ---- failures ----


def fail_on_one_rank(path: str) -> dict[int, str]:
    import torch
    state: dict[str, Any] = {"w": rows(torch.arange(8.)), "step": 1}
    dcp().save(state, storage_writer=writer(path, step=1))

    class Failing(type(planner())):  # type: ignore[misc]
        def resolve_data(self, item: Any) -> Any:
            if rank() == 1:
                raise OSError("no memory")
            return super().resolve_data(item)

    said = failure(lambda: dcp().save(state, storage_writer=writer(path, step=2), planner=Failing()))
    state["step"] = 3
    dcp().save(state, storage_writer=writer(path, step=3))
    return said


def test_a_save_that_fails_on_one_rank_commits_nothing_and_the_next_one_does(ranks: Any, tmp_path: Path) -> None:
    for said in ranks(3, fail_on_one_rank, str(tmp_path / "s")):
        assert sorted(said) == [0, 1, 2] and all("no memory" in text for text in said.values())
    found = [(one.step, one.state) for one in ckpt.Store(tmp_path / "s").list()]
    assert [step for step, state in found if state == ckpt.CheckpointState.COMMITTED] == [1, 3]


def die_in_a_save(number: int, file: str, path: str) -> None:
    import torch
    from sharded_layouts import process_group
    warnings.simplefilter("ignore")
    with process_group(number, 2, file):
        state = {"w": rows(torch.arange(8.)), "step": 1}
        dcp().save(state, storage_writer=writer(path, step=1))

        class Dying(type(planner())):  # type: ignore[misc]
            def resolve_data(self, item: Any) -> Any:
                if number == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().resolve_data(item)

        try:
            dcp().save(state, storage_writer=writer(path, step=2, timeout_ms=60000), planner=Dying())
        except BaseException:
            os._exit(7)
    os._exit(0)


def test_a_rank_that_is_killed_in_a_save_loses_nothing(tmp_path: Path) -> None:
    assert two(die_in_a_save, tmp_path) == [7, -signal.SIGKILL]
    assert ckpt.load(tmp_path / "s")["step"] == 1
