"""version, status, dtype, option: the library's own lists."""

import ckpt
from ckpt import _core

from runner import Commands, Failure, Runner


def version(r: Runner) -> None:
    number = ckpt.version_number()
    text = f"{number // 1000000}.{number // 1000 % 1000}.{number % 1000}"
    if text != ckpt.version():
        raise Failure(f"expected {text}, found {ckpt.version()}")
    if number < _core.HEADER_VERSION_NUMBER:
        raise Failure(f"expected at least {_core.HEADER_VERSION_NUMBER}, found {number}")


def status(r: Runner) -> None:
    name, number = r.words[0], r.number(1)
    found = ckpt.Status(number)
    known = number in list(ckpt.Status)
    if found != number or found.name != name or ckpt.status_name(number) != name or known != (name != "UNKNOWN"):
        raise Failure(f"expected {name} for {number}, found {found.name}")
    if known and ckpt.Status[name] != number:
        raise Failure(f"expected {name} to be {number}, found {ckpt.Status[name]:d}")


def dtype(r: Runner) -> None:
    name, number, bits = r.words[0], r.number(1), r.number(2)
    found = ckpt.DType(number)
    if (str(found), found.bits) != (name, bits):
        raise Failure(f"expected {name} of {bits} bits for {number}, found {found} of {found.bits}")
    known = name != "dtype"
    if ckpt.dtype_find(name) != (number if known else -1) or (name.upper() in ckpt.DType.__members__) != known:
        raise Failure(f"expected {name} to be found as {number}, found {ckpt.dtype_find(name)}")
    if known and ckpt.DType[name.upper()] != number:
        raise Failure(f"expected {name} to be {number}, found {ckpt.DType[name.upper()]:d}")


def option(r: Runner) -> None:
    found = next((info for info in ckpt.options() if info.key == r.words[0]), None)
    if found is None:
        raise Failure(f"expected an option {r.words[0]}, found none")
    r.expect_fields(found)


COMMANDS: Commands = {"version": version, "status": status, "dtype": dtype, "option": option}
