"""The suite of tests/conformance, carried out by the evaluator: the commands, the scenarios, the wrong lines, and which
functions of the library all of it calls.
"""

import importlib.util
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import PACKAGE, RUNNER, SUITE, run
from static_checks import read_headers

EVALUATE = Path(__file__).resolve().parent / "evaluate.py"

# The wrong lines in one process, since the evaluator takes longer to start than such a scenario.
MANY = """
include("RUNNER")
for number in 1:parse(Int, ARGS[2])
    place = string(ARGS[1], "/", number)
    println(stderr, "exit ", Conformance.main([string(place, ".txt"), place, ARGS[3:end]...]))
end
"""


def load_suite():
    """tests/conformance/run.py, which knows what scenarios and wrong lines are."""
    found = importlib.util.spec_from_file_location("conformance_suite", SUITE / "run.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def evaluate(library, program, *arguments, **options):
    """(exit status, stdout, stderr) of a program; an option is one of evaluate.py's."""
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return run([sys.executable, EVALUATE, "--library", library, *words, program, *arguments])


def check_commands(claims, suite, library):
    listed = sorted(suite.commands_in_readme((SUITE / "README.md").read_text()))
    status, out, err = evaluate(library, RUNNER / "runner.jl", "--commands")
    differ = sorted(set(out.split()) ^ set(listed)) or "the order"
    good = status == 0 and out.split() == listed
    claims.claim("evaluated: the runner knows the commands, sorted", [] if good else [f"{differ}\n{err}"])


def check_scenarios(claims, suite, library, calls):
    with tempfile.TemporaryDirectory() as folder:
        prelude, lines = suite.self_lines(SUITE)
        expecting = suite.expecting_in_readme((SUITE / "README.md").read_text())
        right = Path(folder) / "prelude.txt"
        right.write_text(prelude + suite.right_lines(lines, expecting))
        for scenario in [*sorted((SUITE / "scenarios").glob("*.txt")), right]:
            with tempfile.TemporaryDirectory() as place:
                words = (RUNNER / "runner.jl", scenario, place, *suite.VARIABLES)
                status, out, err = evaluate(library, *words, calls=calls)
            wanted = f"ok {len(suite.commands_in(scenario.read_text()))}"
            good = status == 0 and out.strip().splitlines()[-1:] == [wanted] and not err.strip()
            claims.claim(f"evaluated: conformance scenario {scenario.stem}", [] if good else [(out + err)[-2000:]])


def missed_lines(suite, library, lines, runner=RUNNER):
    """What the runner did at each of these wrong lines at which it did not fail."""
    prelude, missed = suite.self_lines(SUITE)[0], []
    with tempfile.TemporaryDirectory() as folder:
        for number, line in enumerate(lines, 1):
            (Path(folder) / str(number)).mkdir()
            apart = prelude.replace("mem:self", f"mem:self{number}")  # one process, so one such store for each
            (Path(folder) / f"{number}.txt").write_text(f"{apart}{line}\n")
        program = Path(folder) / "many.jl"
        program.write_text(MANY.replace("RUNNER", str(runner / "runner.jl")))
        _, out, err = evaluate(library, program, folder, len(lines), *suite.VARIABLES)
        said, at = [], len(prelude.splitlines()) + 1
        for line in err.splitlines():
            if line.startswith("exit "):
                begin = f"{folder}/{len(missed) + 1}.txt:{at}: "
                missed.append(suite.missed_line(lines[len(missed)], begin, int(line[5:]), "", "\n".join(said)))
                said = []
            else:
                said.append(line)
    problems = [problem for found in missed for problem in found]
    if len(missed) != len(lines):
        problems.append(f"ended after {len(missed)} of {len(lines)} lines\n" + "\n".join(said)[-2000:])
    return problems


def check_wrong_lines(claims, suite, library):
    """Half of them in each of two processes."""
    lines = suite.self_lines(SUITE)[1]
    with ThreadPoolExecutor(2) as pool:
        halves = pool.map(lambda first: missed_lines(suite, library, lines[first::2]), (0, 1))
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
    suite = load_suite()
    check_commands(claims, suite, library)
    with tempfile.TemporaryDirectory() as folder:
        calls = Path(folder) / "calls"
        check_scenarios(claims, suite, library, calls)
        called = set(calls.read_text().split()) if calls.exists() else set()
    claims.claim(
        "every function of the headers is called in the suite or listed in unwrapped.txt with a reason, none is both",
        function_problems(read_headers(include), called, unwrapped()),
    )
    check_wrong_lines(claims, suite, library)
