"""The suite of tests/conformance, carried out by the evaluator: the commands, the scenarios, the wrong lines, and which
functions of the library all of it calls.
"""

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import PACKAGE, RUNNER, SUITE
from static_checks import read_headers

sys.path.append(str(SUITE))

import tokens  # noqa: E402
import wrong_lines  # noqa: E402
from runner import Runner  # noqa: E402

EVALUATE = Path(__file__).resolve().parent / "evaluate.py"

# The wrong lines in one process, since the evaluator takes longer to start than such a scenario.
MANY = """
include("RUNNER")
for number in 1:parse(Int, ARGS[2])
    println(stderr, "exit ", Conformance.main([string(ARGS[1], "/", number, ".tokens")]))
end
"""


class Evaluated(Runner):
    """A program that the evaluator carries out; an option is one of evaluate.py's."""

    timeout_s = 1200

    def __init__(self, library, program, **options):
        words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
        super().__init__("julia", [sys.executable, str(EVALUATE), "--library", str(library), *words, str(program)])


def evaluate(library, program, *arguments, **options):
    """(exit status, stdout, stderr) of a program; an option is one of evaluate.py's."""
    return Evaluated(library, program, **options).run(*arguments)


def check_commands(claims, library):
    listed = sorted(tokens.TABLE)
    status, out, err = evaluate(library, RUNNER / "runner.jl", "--commands")
    differ = sorted(set(out.split()) ^ set(listed)) or "the order"
    good = status == 0 and out.split() == listed
    claims.claim("evaluated: the runner has the commands, sorted", [] if good else [f"{differ}\n{err}"])


def check_scenarios(claims, library, calls):
    runner = Evaluated(library, RUNNER / "runner.jl", calls=calls)
    prelude, lines = wrong_lines.self_lines(SUITE)
    texts = {path.stem: tokens.read_scenario(path) for path in sorted((SUITE / "scenarios").glob("*.txt"))}
    for name, text in {**texts, "prelude": prelude + wrong_lines.right_lines(lines)}.items():
        with tempfile.TemporaryDirectory() as place:
            problem = runner.problem(f"{name}.txt", place, text)
        claims.claim(f"evaluated: conformance scenario {name}", [problem[-2000:]] if problem else [])


def missed_lines(library, lines, runner=RUNNER):
    """What the runner did at each of these wrong lines at which it did not fail."""
    prelude, missed = wrong_lines.self_lines(SUITE)[0], []
    with tempfile.TemporaryDirectory() as folder:
        for number, line in enumerate(lines, 1):
            place = Path(folder) / str(number)
            place.mkdir()
            apart = prelude.replace("mem:self", f"mem:self{number}")  # one process, so one such store for each
            place.with_suffix(".tokens").write_bytes(tokens.tokenised(f"{apart}{line}\n", "wrong.txt", place)[0])
        program = Path(folder) / "many.jl"
        program.write_text(MANY.replace("RUNNER", str(runner / "runner.jl")))
        _, _, err = evaluate(library, program, folder, len(lines))
        said = []
        for line in err.splitlines():
            if line.startswith("exit "):
                missed.append(wrong_lines.missed(lines[len(missed)], prelude, int(line[5:]), "", "\n".join(said)))
                said = []
            else:
                said.append(line)
    problems = [problem for found in missed for problem in found]
    if len(missed) != len(lines):
        problems.append(f"ended after {len(missed)} of {len(lines)} lines\n" + "\n".join(said)[-2000:])
    return problems


def check_wrong_lines(claims, library):
    """Half of them in each of two processes."""
    lines = wrong_lines.self_lines(SUITE)[1]
    with ThreadPoolExecutor(2) as pool:
        halves = pool.map(lambda first: missed_lines(library, lines[first::2]), (0, 1))
        problems = [problem for found in halves for problem in found]
    claims.claim(f"evaluated: the runner fails at each of {len(lines)} wrong lines", problems)


def unwrapped():
    """name -> reason, from the package's list."""
    lines = (PACKAGE / "unwrapped.txt").read_text().splitlines()
    pairs = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return {name: reason.strip() for name, _, reason in pairs}


def function_problems(headers, called, listed):
    yield from (f"{name} is listed, but in no header" for name in sorted(set(listed) - set(headers)))
    yield from (f"{name} is listed without a reason" for name, reason in sorted(listed.items()) if not reason)
    yield from (f"{name} is neither called nor listed" for name in sorted(set(headers) - called - set(listed)))
    yield from (f"{name} is listed, but called" for name in sorted(called & set(listed)))


def check(claims, library, include):
    check_commands(claims, library)
    with tempfile.TemporaryDirectory() as folder:
        calls = Path(folder) / "calls"
        check_scenarios(claims, library, calls)
        called = set(calls.read_text().split()) if calls.exists() else set()
    claims.claim(
        "every function of the headers is called in the suite or listed in unwrapped.txt with a reason, none is both",
        function_problems(read_headers(include), called, unwrapped()),
    )
    check_wrong_lines(claims, library)
