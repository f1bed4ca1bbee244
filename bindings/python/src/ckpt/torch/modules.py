"""Modules as states: the names and tensors of state_dict(), without the prefixes that wrappers add, and without an
all-gather."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch

from ..frameworks import loaded
from ..regions import Regions, Shard
from ..stateful import OnlyThese, Saved, handed_over
from .dtensor import memory_of, regions_of
from .flat import FlatSlice, Slices, is_flat, local_shard, reshard, slices_in

_WRAPPERS = {  # the class of a wrapper, and the name in it of what it wraps
    ("torch.nn.parallel.distributed", "DistributedDataParallel"): "module",
    ("torch.nn.parallel.data_parallel", "DataParallel"): "module",
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel"): "_fsdp_wrapped_module",
    ("torch.distributed.algorithms._checkpoint.checkpoint_wrapper", "ActivationWrapper"): "_checkpoint_wrapped_module",
    ("torch._dynamo.eval_frame", "OptimizedModule"): "_orig_mod",
}


class Names:
    """The names of a module's parts as they are without wrappers: DDP, FSDP1, torch.compile, activation checkpoints, in
    whatever order these stand."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._kinds = [(kind, inner) for (home, name), inner in _WRAPPERS.items()
                       if (kind := getattr(loaded(home), name, None)) is not None]
        self._inner = {type(child): inner for child in module.modules() for kind, inner in self._kinds
                       if isinstance(child, kind)}

    def clean(self, name: str) -> str:
        """A name of state_dict() or of a part. Some wrappers have left out their own part of it already: so it is
        followed through the modules."""
        if not self._inner:
            return name
        out, rest, at = [], name.split(".") if name else [], self._module
        while rest:
            inner = self._inner.get(type(at))
            if inner is not None and (wrapped := at._modules.get(inner)) is not None:
                rest, at = rest[rest[0] == inner:], wrapped
                continue
            child = at._modules.get(rest[0])
            if child is None:
                break
            out.append(rest.pop(0))
            at = child
        return ".".join(out + rest)


def state_of(module: torch.nn.Module) -> OrderedDict[str, Any]:
    """What is saved of a module, and what a load fills: its own memory."""
    names, slices = Names(module), slices_in(module)
    if slices:
        return _state_with_flat(module, names, slices)
    state = module.state_dict()
    out = OrderedDict((names.clean(name), value) for name, value in state.items())
    if hasattr(state, "_metadata"):
        metadata = {names.clean(name): value for name, value in state._metadata.items()}
        out._metadata = OrderedDict(metadata)  # type: ignore[attr-defined]
    return out


def saved_state_of(module: torch.nn.Module) -> OrderedDict[str, Any]:
    """What is saved of a module. DDP's buffers (BatchNorm's averages) differ between ranks, and before each step DDP
    overwrites them with those of its first rank: only that one gives them."""
    state, names = state_of(module), Names(module)
    ddp = getattr(loaded("torch.nn.parallel.distributed"), "DistributedDataParallel", ())
    for path, child in module.named_modules():
        if not isinstance(child, ddp) or not child.will_sync_module_buffers():
            continue
        first = torch.distributed.get_rank(child.process_group) == 0
        for name, tensor in child.module.named_buffers(f"{path}.module".lstrip(".")):
            name = names.clean(name)
            if type(state.get(name)) is torch.Tensor:
                whole = Shard(tensor.detach(), tuple(tensor.shape), (0,) * tensor.dim())
                state[name] = Regions((whole,) if first else (), tensor, memory_of(tensor), True)
    return state


def _state_with_flat(module: torch.nn.Module, names: Names, slices: Slices) -> OrderedDict[str, Any]:
    """FSDP1's own state_dict() gathers; this walks as torch's does and takes the shards."""
    out: OrderedDict[str, Any] = OrderedDict()
    for path, child in module.named_modules(remove_duplicate=False):
        prefix = names.clean(path) + "." if names.clean(path) else ""
        mine = slices.get(id(child), {})
        for name, (_, part) in mine.items():
            out[prefix + name] = part.regions(local_shard(part.flat), part.flat)
        for name, tensor in (*child._parameters.items(), *child._buffers.items()):
            if tensor is None or name in mine or is_flat(tensor):
                continue
            if name not in child._non_persistent_buffers_set:
                out[prefix + name] = tensor.detach()
        if type(child).get_extra_state is not torch.nn.Module.get_extra_state:
            out[prefix + "_extra_state"] = child.get_extra_state()
    return out


def parameters_of(module: torch.nn.Module) -> dict[int, list[tuple[str, FlatSlice | None]]]:
    """By the id of the object that an optimizer knows a parameter by: the names that it has, and where each lies in it.
    Several names: a flat parameter. A tied one has the first of its names."""
    names, slices = Names(module), slices_in(module)
    out: dict[int, list[tuple[str, FlatSlice | None]]] = {}
    done = set()
    for path, child in module.named_modules(remove_duplicate=False):
        prefix = names.clean(path) + "." if names.clean(path) else ""
        mine = slices.get(id(child), {})
        for name, (parameter, part) in mine.items():
            if id(part) not in done:
                done.add(id(part))
                out.setdefault(id(parameter), []).append((prefix + name, part))
        for name, parameter in child._parameters.items():
            if parameter is not None and name not in mine and id(parameter) not in done:
                done.add(id(parameter))
                if not is_flat(parameter):
                    out[id(parameter)] = [(prefix + name, None)]
    return out


def reshard_all(module: torch.nn.Module) -> None:
    """Gives up parameters that FSDP2 has gathered (a forward in evaluation leaves them): modules have these in place of
    the shards, which optimizers know. state_dict() does it, too. No communication."""
    found = loaded("torch.distributed.fsdp")
    for child in module.modules() if found is not None else ():
        if isinstance(child, found.FSDPModule):
            child.reshard()


def materialize(module: torch.nn.Module) -> None:
    """Gives memory to parameters and persistent buffers on the meta device. The objects stay the same, so that
    optimizers and ties keep them. Sharded ones get memory for their shards."""
    done = set()
    for child in module.modules():
        tensors = {**child._parameters, **child._buffers}
        for name, tensor in tensors.items():
            if tensor is None or not tensor.is_meta or id(tensor) in done or name in child._non_persistent_buffers_set:
                continue
            done.add(id(tensor))
            made = torch.empty_like(tensor, device=_device_of(tensor), requires_grad=False)
            if name in child._parameters:
                made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
                for key, value in vars(tensor).items():
                    vars(made).setdefault(key, value)
            torch.utils.swap_tensors(tensor, made)
    found = loaded("torch.distributed.fsdp")
    for child in module.modules() if done and found is not None else ():
        if isinstance(child, found.FSDPModule):
            child._apply(lambda tensor: tensor, recurse=False)  # FSDP2 looks up where its shards are now


def _device_of(tensor: Any) -> torch.device:
    """Where a tensor that is on the meta device belongs."""
    mesh = getattr(tensor, "device_mesh", None)
    return torch.device(mesh.device_type) if mesh is not None else torch.get_default_device()


class ModuleObject:
    """A module in `into`: its own memory is filled; what else it has goes through load_state_dict."""

    strict = True

    def __init__(self, module: torch.nn.Module) -> None:
        self.object = module
        materialize(module)
        reshard(module)
        self._state = state_of(module)

    def template(self, saved: Saved) -> Any:
        """Its own memory; what the module takes by a method of its own, it is given as it was saved."""
        out, own = OnlyThese(self._state), own_ways(self.object)
        for name, value in self._state.items():
            path, _, last = name.rpartition(".")
            if (last == "_extra_state" or path in own) and (found := saved.child(name)) is not None:
                out[name] = handed_over(value, found)
        return out

    def apply(self, state: Mapping[str, Any]) -> None:
        module = self.object
        own = {tensor.data_ptr() for tensor in (*module.parameters(), *module.buffers())
               if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided}
        rest = {name: value for name, value in state.items() if not _is_filled(value, own)}
        if not rest:
            return
        names = Names(module)
        if not slices_in(module):
            raw = ((name, names.clean(name)) for name in module.state_dict())
            module.load_state_dict({name: state[clean] for name, clean in raw if clean in state}, strict=False)
            return
        for path, child in module.named_modules():
            name = f"{names.clean(path)}._extra_state".lstrip(".")
            if name in rest:
                child.set_extra_state(rest[name])


def own_ways(module: torch.nn.Module) -> set[str]:
    """The paths of its parts that take their tensors by a method of their own, which may take other shapes: observers
    of quantization, metrics. And of lazy ones, which have no shapes yet."""
    names, out = Names(module), set()
    for path, child in module.named_modules(remove_duplicate=False):
        way = type(child)._load_from_state_dict
        lazy = any(torch.nn.parameter.is_lazy(tensor) for tensor in child._parameters.values())
        if lazy or (way is not torch.nn.Module._load_from_state_dict and not way.__module__.startswith(_OF_TORCH)):
            out.add(names.clean(path))
    return out


_OF_TORCH = "torch.nn.modules."  # whose ways of their own end with torch's


def _is_filled(value: Any, own: set[int]) -> bool:
    """Whether a value of a state dict is memory of the module (by address), and not made by its state_dict()."""
    if type(value) is torch.Tensor:
        return value.layout == torch.strided and value.data_ptr() in own
    return isinstance(value, Regions) or regions_of(value) is not None
