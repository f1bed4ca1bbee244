"""The conformance runner over the installed package; tests/conformance/README.md says what it reads and prints."""

import sys
import time
import warnings
from urllib.parse import quote_from_bytes

import ckpt

import commands
import keeper_commands
import table_commands
from runner import Failure, Runner, encoded

COMMANDS = {**commands.COMMANDS, **keeper_commands.COMMANDS, **table_commands.COMMANDS}
# The status that C gives where Python raises an exception of its own.
REFUSED = {TypeError: "INVALID", ValueError: "INVALID", OverflowError: "INVALID", IndexError: "NOT_FOUND"}


def carried_out(runner: Runner, command: str) -> tuple[str, object]:
    """(status, what the reply says)"""
    try:
        return "OK", COMMANDS[command](runner)
    except ckpt.Error as error:
        return error.status.name, {"message": error.message, **error.details}
    except tuple(REFUSED) as error:
        return next(status for kind, status in REFUSED.items() if isinstance(error, kind)), {"message": str(error)}
    except (Failure, OSError, KeyError) as failure:
        return "-", [str(failure)]


def main() -> None:
    warnings.simplefilter("ignore", ckpt.PassedOverWarning)  # stderr is for what fails
    runner = Runner()
    for line in sys.stdin:
        command, *fields = line.rstrip("\n").split(" ")
        runner.take(fields)
        start = time.monotonic()
        status, said = carried_out(runner, command)
        reply = [command, f"{time.monotonic() - start:.6f}", status]
        if isinstance(said, dict):
            reply += [f"{key}={quote_from_bytes(encoded(value))}" for key, value in said.items()]
        elif isinstance(said, list):
            reply += [quote_from_bytes(encoded(word)) for word in said]
        print(*reply, flush=True)
    runner.close()


if __name__ == "__main__":
    main()
