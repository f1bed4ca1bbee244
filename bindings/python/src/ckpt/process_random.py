"""The random states of a process as a part of a state."""

from __future__ import annotations

import array
import importlib
import random
from collections.abc import Mapping
from typing import Any

from ._core import Tree
from .errors import NotFoundError
from .frameworks import is_installed, loaded
from .regions import PerRank
from .stateful import PlainObject

__all__ = ["random_states"]


def random_states() -> PerRank:
    """The random states of this process, as a part of a state that each rank has for itself: those of Python's random,
    of numpy.random's functions, and of torch on the CPU and on each GPU, as far as these are imported.

        state = {"model": model, "random": ckpt.random_states()}

    A load into it sets them, also if the program imports numpy or torch only later. A rank that saved none, since there
    are more ranks now, gets streams of its own: seeded by a BLAKE2b digest of rank 0's states and the number of the
    rank, so that they are the same each time, and no rank's are another's. numpy's Generators are values of their own
    and stand in the state themselves."""
    return PerRank(_RandomStates())


class _RandomStates:
    def state_dict(self) -> dict[str, Any]:
        version, words, gauss = random.getstate()
        states: dict[str, Any] = {
            "python": {"version": version, "words": array.array("I", words).tobytes(), "gauss": gauss}}
        numpy, torch = loaded("numpy.random"), loaded("torch")
        if numpy is not None:
            _, key, position, has_gauss, gauss = numpy.get_state()  # of MT19937, which these functions draw from
            states["numpy"] = {"key": key.astype("<u4").tobytes(), "position": position, "has_gauss": has_gauss,
                               "gauss": gauss}
        if torch is not None:
            states["torch"] = bytes(torch.get_rng_state().tolist())
            if torch.cuda.is_available() and torch.cuda.is_initialized():
                gpus = enumerate(torch.cuda.get_rng_state_all())
                states["torch.cuda"] = {str(number): bytes(state.tolist()) for number, state in gpus}
        return states

    def load_state_dict(self, states: Mapping[str, Any]) -> None:
        python = states["python"]
        words = array.array("I", python["words"])
        random.setstate((python["version"], tuple(words), python["gauss"]))
        numpy, torch = _drawn_from("numpy", states), _drawn_from("torch", states)
        if numpy is not None:
            kept = states["numpy"]
            key = array.array("I", kept["key"])
            numpy.set_state(("MT19937", key, kept["position"], kept["has_gauss"], kept["gauss"]))
        if torch is not None:
            torch.set_rng_state(torch.tensor(list(states["torch"]), dtype=torch.uint8, device="cpu"))
            for number, state in states.get("torch.cuda", {}).items():
                if int(number) < torch.cuda.device_count():
                    torch.cuda.set_rng_state(torch.tensor(list(state), dtype=torch.uint8, device="cpu"), int(number))

    def __repr__(self) -> str:
        return "<random states of this process>"


def _drawn_from(name: str, states: Mapping[str, Any]) -> Any:
    """The module that goes on from its state among these; None if they have none of it, or it is not installed. A
    program may import it only after the load, and must then draw as before."""
    if name not in states or not is_installed(name):
        return None
    return importlib.import_module("numpy.random" if name == "numpy" else name)


def are_at(tree: Tree, node: int) -> bool:
    """Whether a checkpoint has random states at this node."""
    try:
        return tree.find(tree.find(node, "python"), "words") is not None
    except NotFoundError:
        return False


def of_new_rank(states: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """The states of a rank that saved none, made of rank 0's."""
    import hashlib  # not before it is needed
    import json

    def seed(name: str, size: int) -> int:
        text = json.dumps([rank, name, states], sort_keys=True, default=bytes.hex)
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest(), "little")

    version, words, gauss = random.Random(seed("python", 32)).getstate()
    out: dict[str, Any] = {"python": {"version": version, "words": array.array("I", words).tobytes(), "gauss": gauss}}
    numpy, torch = _drawn_from("numpy", states), _drawn_from("torch", states)
    if numpy is not None:
        seeds = [seed("numpy", 32) >> shift & 0xFFFFFFFF for shift in range(0, 256, 32)]
        _, key, position, has_gauss, gauss = numpy.RandomState(seeds).get_state()
        out["numpy"] = {"key": key.astype("<u4").tobytes(), "position": position, "has_gauss": has_gauss,
                        "gauss": gauss}
    if torch is not None:
        def drawn(name: str, device: str) -> bytes:
            generator = torch.Generator(device).manual_seed(seed(name, 8) >> 1)
            return bytes(generator.get_state().tolist())
        out["torch"] = drawn("torch", "cpu")
        gpus = range(min(len(states.get("torch.cuda", {})), torch.cuda.device_count()))
        out["torch.cuda"] = {str(gpu): drawn(f"torch.cuda.{gpu}", f"cuda:{gpu}") for gpu in gpus}
    return out


class OfNewRank(PlainObject):
    """An object that takes them."""

    def __init__(self, value: Any, rank: int) -> None:
        super().__init__(value)
        self._rank = rank

    def apply(self, state: Any) -> None:
        super().apply(of_new_rank(state, self._rank))
