"""The conformance runner over the Python package: python bindings/python/conformance SCENARIO DIR [NAME=VALUE...] |
--commands. tests/conformance/README.md says what scenarios are; installed ckpt is what runs."""

import sys
import time
from pathlib import Path

import ckpt

import content_commands  # noqa: F401  registers its commands, as the others do
import file_commands  # noqa: F401
import job_commands  # noqa: F401
import library_commands  # noqa: F401
import load_commands  # noqa: F401
import memory_commands  # noqa: F401
import reader_commands  # noqa: F401
import save_commands  # noqa: F401
import store_commands  # noqa: F401
import tree_commands  # noqa: F401
from scenario import COMMANDS, Failure, Line, Scenario, parse

# Where Python's types refuse what C refuses at run time: what C says.
REFUSED = {TypeError: "INVALID", ValueError: "INVALID", OverflowError: "INVALID", IndexError: "NOT_FOUND"}


def carry_out(scenario: Scenario, line: Line) -> ckpt.Error | str | None:
    """The error, or the status of a refusal by type; None for success."""
    try:
        line.command.run(scenario, line)
        return None
    except ckpt.Error as error:
        return error
    except tuple(REFUSED) as error:
        scenario.refusal = f"{type(error).__name__}: {error}"
        return next(status for kind, status in REFUSED.items() if isinstance(error, kind))


def check_outcome(scenario: Scenario, line: Line, outcome: ckpt.Error | str | None) -> None:
    name = "OK" if outcome is None else outcome if isinstance(outcome, str) else outcome.status.name
    said = outcome.message if isinstance(outcome, ckpt.Error) else scenario.refusal if outcome else ""
    if name != (line.status or "OK"):
        raise Failure(f"expected {line.status or 'OK'}, found {name}: {said}")
    if line.status is None:
        unused = [key for key in line.pairs if key not in line.used]
        if unused:
            raise Failure(f"expected a key of this command, found {unused[0]}")
    details = outcome.details if isinstance(outcome, ckpt.Error) else {}
    for key, sign, wanted in line.details:
        found = said if key == "message" else details.get(key, "")
        if not (found == wanted if sign == "=" else wanted in found):
            raise Failure(f"expected {key}{sign}{wanted}, found '{found}'")


def run(scenario: Scenario, text: str) -> bool:
    """Whether the line held a command."""
    scenario.command = "line"
    line = parse(scenario, text)
    if line is None:
        return False
    start = time.monotonic()
    outcome = carry_out(scenario, line)
    if line.timed is not None:
        print(f"{time.monotonic() - start:.6f} {line.timed}")
    check_outcome(scenario, line, outcome)
    return True


def main(arguments: list[str]) -> int:
    if arguments == ["--commands"]:
        print("\n".join(sorted(COMMANDS)))
        return 0
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    path, folder, *given = arguments
    scenario = Scenario(folder, dict(word.split("=", 1) for word in given))
    number = count = 0
    try:
        for number, text in enumerate(Path(path).read_bytes().decode("utf-8", "surrogateescape").split("\n"), 1):
            count += run(scenario, text)
    except Failure as failure:
        message = f"{path}:{number}: {scenario.command}: {failure}"
        print(message.encode("utf-8", "replace").decode("utf-8"), file=sys.stderr)
        return 1
    finally:
        scenario.close()
    print(f"ok {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
