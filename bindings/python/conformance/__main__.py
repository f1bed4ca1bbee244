"""The conformance runner over the Python package: python bindings/python/conformance TOKENS | --commands.
It runs the installed ckpt; tests/conformance/README.md explains tokens."""

import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import ckpt

import library_commands
import memory_commands
import reader_commands
import save_commands
import store_commands
import table_commands
import tree_commands
from runner import Commands, Failure, Runner

COMMANDS: Commands = {**library_commands.COMMANDS, **memory_commands.COMMANDS, **store_commands.COMMANDS,
                      **save_commands.COMMANDS, **reader_commands.COMMANDS, **tree_commands.COMMANDS,
                      **table_commands.COMMANDS}
# The status that C gives where Python raises an exception of its own.
REFUSED = {TypeError: "INVALID", ValueError: "INVALID", OverflowError: "INVALID", IndexError: "NOT_FOUND"}
RAISED: tuple[type[Exception], ...] = (ckpt.Error, *REFUSED)


def tokens(data: bytes) -> Iterator[tuple[str, str]]:
    """(kind, text) of each token; bytes that are not UTF-8 become surrogates, which ckpt refuses."""
    at = 0
    while at < len(data):
        blank = data.index(b" ", at)
        end = blank + 1 + int(data[at + 1:blank])
        yield chr(data[at]), data[blank + 1:end].decode("utf-8", "surrogateescape")
        at = end + 1


def check_outcome(runner: Runner, error: Exception | None) -> None:
    found, message, details = "OK", str(error), {}
    if isinstance(error, ckpt.Error):
        found, message, details = error.status.name, error.message, error.details
    elif error is not None:
        found = next(status for kind, status in REFUSED.items() if isinstance(error, kind))
    if found != runner.status:
        raise Failure(f"expected {runner.status}, found {found}: {message}")
    for kind, key, wanted in runner.details:
        value = message if key == "message" else details.get(key, "")
        if not (value == wanted if kind == "e" else wanted in value):
            raise Failure(f"expected {key} {kind} '{wanted}', found '{value}'")


def carry_out(runner: Runner) -> None:
    start, raised = time.monotonic(), None
    try:
        COMMANDS[runner.command](runner)
    except RAISED as error:
        raised = error
    except OSError as error:
        raise Failure(f"expected no error, found {error}") from error
    if runner.timed:
        print(f"{time.monotonic() - start:.6f} {runner.command}")
    check_outcome(runner, raised)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    if arguments == ["--commands"]:
        print("\n".join(sorted(COMMANDS)))
        return 0
    warnings.simplefilter("ignore", ckpt.PassedOverWarning)  # stderr is for what fails
    runner, count = Runner(), 0
    try:
        for kind, text in tokens(Path(arguments[0]).read_bytes()):
            if kind == ".":
                carry_out(runner)
                count += 1
            else:
                runner.take(kind, text)
    except Failure as failure:
        print(f"{runner.where}: {failure}".encode("utf-8", "replace").decode("utf-8"), file=sys.stderr)
        return 1
    finally:
        runner.close()
    print(f"ok {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
