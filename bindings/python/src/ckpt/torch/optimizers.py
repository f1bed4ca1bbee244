"""Optimizers as states: by parameter name, as torch's get_optimizer_state_dict() has it, so that a state fits another
layout. An optimizer whose model is not in the state keeps torch's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from ..adapt import parts_of, wrapper_class
from ..enums import Status
from ..errors import error_of
from ..hints import some
from ..regions import Regions
from ..stateful import OnlyThese, OtherShape, Parameter, Saved
from ..trees import Record, TensorName
from .flat import FlatSlice, is_flat, local_shard
from .modules import parameters_of, reshard_all


# What torch's optimizers have in a parameter's shape.
_OF_A_PARAMETER = {"exp_avg", "exp_avg_sq", "exp_inf", "max_exp_avg_sq", "max_exp_avg_sqs", "momentum_buffer",
                   "square_avg", "grad_avg", "acc_delta", "sum", "prev", "step_size", "ax"}


@dataclass(frozen=True)
class Named:
    """A parameter as an optimizer's state names it; `part` if it lies in a flat parameter of FSDP1."""

    name: str | int
    part: FlatSlice | None


class Naming:
    """The names of the parameters of all modules in a state. `called`: what the checkpoint calls some of them."""

    def __init__(self, objects: Sequence[tuple[tuple[str, ...], Any]],
                 called: Mapping[Parameter, Parameter] = MappingProxyType({})) -> None:
        self._called = called
        self._homes: dict[int, tuple[str, list[tuple[str, FlatSlice | None]]]] = {}
        self._paths: dict[str, tuple[str, ...]] = {}  # of modules, by the name for it
        for path, module in objects:
            if isinstance(module, torch.nn.Module):
                reshard_all(module)
                self._paths[".".join(path)] = path
                for parameter, names in parameters_of(module).items():
                    self._homes.setdefault(parameter, (".".join(path), names))

    def saved_shape(self, parameter: Any, place: int, saved: Saved) -> tuple[int, ...] | None:
        """The shape that a parameter, under its name number `place`, has in the checkpoint; None if it is not known."""
        path, names = self._homes.get(id(parameter), ("", ()))
        if not names:
            return None
        there, name = self._called.get((path, names[place][0]), (path, names[place][0]))
        node = saved.top()
        for key in self._paths.get(there, tuple(there.split("."))) if there else ():
            found = node.child(key) or (node.child(int(key)) if key.isdecimal() else None)
            if found is None:
                return None
            node = found
        found = node.child(name)
        return None if found is None else found.shape()

    def of(self, optimizer: torch.optim.Optimizer) -> list[list[Named]] | None:
        """For each parameter, in torch's order, its names; None if no module of the state has these parameters. With
        parameters of several modules the names begin with the module's path."""
        parameters = parameters_in(optimizer)
        homes = [self._homes.get(id(parameter)) for parameter in parameters]
        if all(home is None for home in homes):
            return None
        if None in homes:
            shape = tuple(parameters[homes.index(None)].shape)
            raise error_of(Status.INVALID, f"{type(optimizer).__name__}: parameter {homes.index(None)} of shape "
                           f"{shape} belongs to no module of the state: give all modules whose parameters it has", {})
        several = len({home[0] for home in homes if home}) > 1
        return [[self._named(path, name, part, several) for name, part in names]
                for path, names in (home for home in homes if home)]

    def _named(self, path: str, name: str, part: FlatSlice | None, several: bool) -> Named:
        path, name = self._called.get((path, name), (path, name))
        return Named(f"{path}.{name}" if several else name, part)


def parameters_in(optimizer: torch.optim.Optimizer) -> list[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _by_group(optimizer: torch.optim.Optimizer, names: Sequence[Sequence[Named]]) -> list[list[str]]:
    rest = iter(names)
    return [[str(named.name) for _ in group["params"] for named in next(rest)] for group in optimizer.param_groups]


def names_in_groups(objects: Sequence[tuple[tuple[str, ...], Any]], naming: Naming,
                    team: Any) -> dict[tuple[str, ...], list[list[str]]]:
    """By the path of an optimizer, the names of the parameters in each of its groups. Pipeline stages have different
    ones: each rank writes those of all, so that the groups are equal everywhere."""
    mine = {}
    for path, value in objects:
        if isinstance(value, torch.optim.Optimizer) and (names := naming.of(value)) is not None:
            mine[path] = _by_group(value, names)
    if team is None:
        return mine
    said = team.exchange("optimizers", sorted(mine.items()))
    out: dict[tuple[str, ...], list[list[str]]] = {}
    for rank, pairs in enumerate(said):
        for path, groups in pairs:
            known = out.setdefault(path, [[] for _ in groups])
            if len(known) != len(groups):
                raise error_of(Status.MISMATCH, f"optimizer '{'/'.join(path)}': {len(groups)} parameter groups on rank "
                               f"{rank}, {len(known)} on a rank before it; give it the same groups on all ranks (they "
                               "may be empty)", {"rank": str(rank), "expected": str(len(known)),
                                                 "found": str(len(groups))})
            for members, more in zip(known, groups):
                members += [name for name in more if name not in set(members)]
    return out


def optimizer_state(optimizer: torch.optim.Optimizer, naming: Naming, groups: list[list[str]] | None) -> Any:
    """What is saved of an optimizer; `groups` from names_in_groups."""
    numbered, names = optimizer.state_dict(), naming.of(optimizer)
    if names is None or groups is None:
        return numbered
    parameters, state = parameters_in(optimizer), {}
    for key, entry in numbered["state"].items():
        if not isinstance(key, int):
            state[key] = entry
            continue
        for named in names[key]:
            state[named.name] = {what: _part(value, named, parameters[key], len(names[key]) > 1)
                                 for what, value in entry.items()}
    return {**numbered, "state": state, "param_groups": [{**_settings(group), "params": members}
                                                         for group, members in zip(numbered["param_groups"], groups)]}


def _settings(group: Mapping[str, Any]) -> dict[str, Any]:
    """What a group says beside its parameters and their names."""
    return {key: value for key, value in group.items() if key not in ("params", "param_names")}


def _check_sizes(optimizer: torch.optim.Optimizer, saved: Sequence[Mapping[str, Any]]) -> None:
    """By number, parameters can only be found in groups of the same sizes."""
    sizes, expected = [len(group["params"]) for group in saved], [len(group["params"]) for group in
                                                                  optimizer.param_groups]
    if sizes != expected:
        raise error_of(Status.MISMATCH, f"{type(optimizer).__name__}: groups of {expected} parameters, saved by number "
                       f"in groups of {sizes}", {"expected": str(expected), "found": str(sizes)})


def _told_numbers(optimizer: torch.optim.Optimizer, names: Sequence[Sequence[Named]],
                  groups: Sequence[Mapping[str, Any]]) -> list[int] | None:
    """The numbers under which the state of each parameter was saved, where the groups tell their names beside the
    numbers ("param_names", as torch and LibTorch do); None if they tell none of these."""
    told = {name: number for group in groups for name, number in zip(group.get("param_names", ()), group["params"])}
    mine = [several[0].name for several in names if len(several) == 1]
    if not told.keys() & set(mine) or len(told) != len(names):
        return None
    if told.keys() != set(mine) or len(mine) != len(names):
        raise error_of(Status.MISMATCH, f"{type(optimizer).__name__}: its parameters are {some(map(str, mine))}, and "
                       f"the checkpoint has {some(told)}: rename them, or load it without its model, by their places",
                       {"expected": str(list(told)), "found": str(mine)})
    numbers = [told[str(name)] for name in mine]
    if isinstance(optimizer, torch.optim.LBFGS):
        _check_order(mine, list(told))
    return numbers


def _check_order(mine: Sequence[str | int], saved: Sequence[str | int]) -> None:
    """LBFGS has one state for all parameters, vectors of all in their order."""
    if list(mine) != list(saved):
        raise error_of(Status.MISMATCH, f"LBFGS: its parameters are {some(map(str, mine))}, and the checkpoint, whose "
                       f"state is vectors of all of them, has {some(map(str, saved))}: give it these in this order",
                       {"expected": str(list(saved)), "found": str(list(mine))})


def _keep_identity(groups: list[dict[str, Any]], optimizer: torch.optim.Optimizer) -> None:
    """Puts what the optimizer has loaded into the groups that it had: others may refer to them, and a compiled step to
    a learning rate that is a tensor."""
    for mine, new in zip(groups, optimizer.param_groups):
        for key, value in new.items():
            old = mine.get(key)
            if isinstance(old, torch.Tensor) and isinstance(value, torch.Tensor) and old.shape == value.shape:
                old.detach().copy_(value)
            else:
                mine[key] = value
    optimizer.param_groups = groups


def _part(value: Any, named: Named, parameter: Any, one_of_several: bool) -> Any:
    """What belongs to one of the names of a parameter."""
    if named.part is not None and named.part.fits(value, parameter):
        return named.part.regions(value, parameter)
    if one_of_several and isinstance(value, torch.Tensor):
        return value.clone()  # a counter: each name has its own, or a load would make them views of one
    return value


def _check_can_be_made(saved: Any, what: str) -> None:
    """Refuses tensors that wrap others (8-bit optimizers): only an optimizer that has such state can say how."""
    if isinstance(saved, Record) and not saved.class_name.startswith(("torch.sparse_", "torch.QTensor", "numpy.")):
        can = "context" in saved.items and wrapper_class(saved.class_name) is not None
        if not can and any(isinstance(item, (TensorName, Record)) for item in saved.items.values()):
            raise error_of(Status.UNSUPPORTED, f"{what} was saved as a {saved.class_name}, which cannot be made here: "
                           "import its class, or make a step with the optimizer first, and its state is filled",
                           {"found": saved.class_name})


def _zeros_like(parameter: Any, part: FlatSlice | None, dtype: Any) -> torch.Tensor:
    """State for a parameter that has none: sharded and placed as the parameter is."""
    if part is None:
        return torch.zeros_like(parameter, dtype=dtype, requires_grad=False)
    size = local_shard(parameter).numel() if is_flat(parameter) else part.size
    return torch.zeros(size, dtype=dtype, device=parameter.device)


def _loads_its_own_way(optimizer: torch.optim.Optimizer) -> bool:
    """Whether it changes what it is given, which need not look like its state: one that is packed, say."""
    taken = getattr(optimizer.load_state_dict, "__func__", None)
    return taken is not torch.optim.Optimizer.load_state_dict or bool(optimizer._optimizer_load_state_dict_pre_hooks)


def _differ(one: Any, other: Any) -> bool:
    """Whether these are tensors of two dtypes."""
    return isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.dtype != other.dtype


class OptimizerObject:
    """An optimizer in `into`."""

    strict = False

    def __init__(self, optimizer: torch.optim.Optimizer, naming: Naming) -> None:
        self.object = optimizer
        self._naming = naming
        self._names: list[list[Named]] = []
        self._dropped: set[int] = set()  # parameters of another shape than was saved
        self._by_place = False  # parameters are those of the same places
        self._made: dict[tuple[int, str | int], Any] = {}  # by parameter and key: memory for missing state

    def template(self, saved: Saved) -> Any:
        optimizer = self.object
        found = saved.child("param_groups")
        groups = found.value() if found else ()
        by_name = any(isinstance(name, str) for group in groups for name in group["params"])
        names = self._naming.of(optimizer)
        if by_name and names is None:
            raise error_of(Status.INVALID, f"{type(optimizer).__name__} was saved by the names of its parameters: give "
                           "its model in `into`, too", {})
        if by_name and names is not None and isinstance(optimizer, torch.optim.LBFGS):
            _check_order([named.name for several in names for named in several],
                         [name for group in groups for name in group["params"]])
        if names is None or not by_name:
            numbers = None if names is None else _told_numbers(optimizer, names, groups)
            self._by_place = numbers is None
            if numbers is None:
                _check_sizes(optimizer, groups)
                numbers = list(range(len(parameters_in(optimizer))))
            names = [[Named(number, names[place][0].part if names and len(names[place]) == 1 else None)]
                     for place, number in enumerate(numbers)]
        self._names, self._dropped = names, set()
        state = {named.name: self._like(number, named, entry) for number, several in enumerate(names)
                 for named in several if (entry := saved.child("state", named.name)) is not None
                 and not (named.part is not None and named.part.size == 0 and len(several) == 1)}
        self._drop_other_shapes(state, saved)
        return OnlyThese(state=OnlyThese(state), param_groups=None)

    def _drop_other_shapes(self, state: dict[str | int, Any], saved: Saved) -> None:
        """State of a parameter that has another shape in the checkpoint is of no use, whatever the optimizer keeps.
        LBFGS has one state, of all parameters together, under the first."""
        together = isinstance(self.object, torch.optim.LBFGS) and bool(state)
        other: OtherShape | None = None
        for number, several in enumerate(self._names):
            parameter = parameters_in(self.object)[number]
            for place, named in enumerate(several):
                shape = tuple(parameter.shape) if named.part is None else named.part.shape
                found = self._naming.saved_shape(parameter, place, saved)
                if (named.name in state or together) and found is not None and found != shape:
                    other = OtherShape(shape, found)
                    state |= {named.name: other} if named.name in state else {}
                    self._dropped.add(number)
        if together and other is None and (found := self._flat_shape(saved)) is not None:
            own = sum(parameter.numel() for parameter in parameters_in(self.object)),
            other = OtherShape(own, found) if found != own else None
        if together and other is not None:
            state.update(dict.fromkeys(state, other))
            self._dropped = set(range(len(self._names)))

    def _flat_shape(self, saved: Saved) -> tuple[int, ...] | None:
        """How many elements the parameters of a saved LBFGS had together; None if that is not known."""
        if any(named.part is not None for several in self._names for named in several):
            return None
        found = (saved.child("state", named.name, "prev_flat_grad") for several in self._names for named in several)
        return next((one.shape() for one in found if one is not None), None)

    def _like(self, number: int, named: Named, entry: Saved) -> dict[str | int, Any]:
        """The template of one parameter's state: its own tensors; new ones, sharded as the parameter is, where it has
        none and the saved one has the parameter's shape."""
        parameter, out = parameters_in(self.object)[number], {}
        shape = tuple(parameter.shape) if named.part is None else named.part.shape
        own_way = _loads_its_own_way(self.object)
        for key in entry.keys():
            found, mine = entry.child(key), self.object.state.get(parameter, {}).get(key)
            if own_way and found is not None and found.shape() is not None and not found.fits(mine):
                mine = None
            if found is not None and mine is not None and parts_of(mine) is not None:
                out[key] = mine
            if found is None or found.shape() is None:
                if mine is None and found is not None:
                    _check_can_be_made(found.value(), f"{type(self.object).__name__}: '{key}' of '{named.name}'")
                continue
            made = found.shape() == shape or (not own_way and self._fits_only(key))
            if not isinstance(mine, torch.Tensor) and key != "step" and made:
                mine = self._made.setdefault((number, key), _zeros_like(parameter, named.part, found.dtype()))
            if named.part is not None:
                mine = named.part.regions(mine, parameter) if named.part.fits(mine, parameter) else None
            out[key] = mine
        return out

    def _fits_only(self, key: str | int) -> bool:
        """Whether it has the parameter's shape: known of torch's own optimizers."""
        return key in _OF_A_PARAMETER and type(self.object).__module__.startswith("torch.optim.")

    def apply(self, loaded: Mapping[str, Any]) -> None:
        optimizer = self.object
        state: dict[Any, Any] = {}
        for number, several in enumerate(self._names):
            entries = {named: loaded["state"][named.name] for named in several if named.name in loaded["state"]}
            own = optimizer.state.get(parameters_in(optimizer)[number])
            if number in self._dropped:
                state |= {number: dict(own)} if own else {}
            elif entries:
                state[number] = self._joined(entries, several)
        numbers, before = iter(range(len(self._names))), optimizer.param_groups
        groups = [{**_settings(group), **self._saved_group(index, group, loaded["param_groups"]),
                   "params": [next(numbers) for _ in group["params"]]} for index, group in enumerate(before)]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
        _keep_identity(before, optimizer)
        self._undo_casts(state)

    def _undo_casts(self, given: Mapping[Any, Mapping[str, Any]]) -> None:
        """torch casts state to its parameter's dtype. Whoever unpacks what he is given, packs it again as it was."""
        optimizer, again = self.object, None
        for number, parameter in enumerate(parameters_in(optimizer)):
            for key, value in given.get(number, {}).items():
                mine = optimizer.state[parameter].get(key)
                if not _differ(value, mine):
                    continue
                again = optimizer.state_dict()["state"] if again is None else again
                if _differ(value, again.get(number, {}).get(key)):
                    optimizer.state[parameter][key] = value.to(mine.device)

    def _joined(self, entries: Mapping[Named, Mapping[str, Any]], names: Sequence[Named]) -> dict[str, Any]:
        """The state of one parameter: the memory that was filled. Of a flat parameter's counters, which are equal, one;
        zeros for those of its parameters that have no saved state."""
        out: dict[str, Any] = {}
        for named, entry in entries.items():
            for key, value in entry.items():
                value = value.tensor if isinstance(value, Regions) else value
                first = out.setdefault(key, value)
                same = value is first or (
                    torch.equal(value, first) if isinstance(first, torch.Tensor) else value == first)
                if not same:
                    raise error_of(Status.MISMATCH, f"'{key}' of '{named.name}' is {value}, that of '{names[0].name}' "
                                   f"is {first}, but both are in one flat parameter; use use_orig_params=True",
                                   {"expected": str(first), "found": str(value)})
        for named in names:
            if named.part is not None and named not in entries:
                for value in out.values():
                    if named.part.fits(value, named.part.flat):
                        value[named.part.first:named.part.first + named.part.size].zero_()
        return out

    def _saved_group(self, index: int, group: Mapping[str, Any], saved: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The settings that were saved for a group: by the names of its parameters, else by its place."""
        before = sum(len(other["params"]) for other in self.object.param_groups[:index])
        mine = {named.name for several in self._names[before:before + len(group["params"])] for named in several}
        homes = [other for other in saved if mine & set(other["params"])]
        if not mine or self._by_place:
            homes = [saved[index]] if index < len(saved) else []
        if not homes:
            raise error_of(Status.NOT_FOUND, f"{type(self.object).__name__}: no parameter of group {index} is in the "
                           f"saved groups; one is '{next(iter(mine), '')}'", {})
        settings = [_settings(home) for home in homes]
        for other in settings[1:]:
            if other != settings[0]:
                raise error_of(Status.MISMATCH, f"{type(self.object).__name__}: group {index} has parameters that were "
                               "saved in groups with other settings", {"expected": str(settings[0]),
                                                                        "found": str(other)})
        return settings[0]
