"""The checks that need the evaluator; run.py calls them after its own."""

import re
import tempfile
from pathlib import Path

from common import PACKAGE, readme_blocks
from . import conformance, planted
from .conformance import evaluate
from .names import base_names, names_of

README = Path(__file__).resolve().parent / "readme.jl"
FINALISER = """
mutable struct Thing
    function Thing()
        thing = new()
        finalizer(t -> lock(() -> println("ended"), GUARD), thing)
        return thing
    end
end
const GUARD = Threads.SpinLock()
function drop()
    thing = Thing()
    lock(GUARD) do
        thing = nothing
        GC.gc()
        println("inside")
    end
end
drop()
"""


def check_names(claims, parser, library):
    found = names_of(parser, library)
    for number, block in enumerate(readme_blocks(), 1):
        found.check_program(PACKAGE / "README.md", block, f"README.md block {number}")
    claims.claim("every name is defined here or one of Base's, and every call fits a method", found.problems)
    claims.claim("base_names.txt has no name that nothing uses", sorted(base_names() - found.used))


def check_tests(claims, library):
    for version in ("1.13", "1.10"):
        status, out, err = evaluate(library, PACKAGE / "test" / "runtests.jl", julia=version)
        last = out.strip().splitlines()[-1] if out.strip() else ""
        good = re.fullmatch(r"([1-9]\d*) passed, 0 failed", last) and status == 0
        said = [line for line in (out + err).splitlines() if not line.endswith(" ... ok")]
        claims.claim(f"evaluated as Julia {version}: test/runtests.jl, {last}", [] if good else said)


def check_finalisers(claims, library):
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "finaliser.jl"
        program.write_text(FINALISER)
        done = evaluate(library, program)
    problems = [] if done == (0, "inside\nended\n", "") else [done]
    claims.claim("the evaluator runs no finaliser in a task that holds a SpinLock", problems)


def check_programs(claims, library):
    with tempfile.TemporaryDirectory() as folder:
        for number, block in enumerate(readme_blocks(), 1):
            (Path(folder) / f"{number}.jl").write_text(block)
        status, out, err = evaluate(library, README, f"{folder}/store", folder, number)
        good = status == 0 and out.endswith("all programs of README.md do what it says\n")
        claims.claim("evaluated: the programs of README.md do what it says", [] if good else [out + err])
        trainer = PACKAGE / "examples" / "trainer.jl"
        first, second = (evaluate(library, trainer, f"{folder}/trainer", steps) for steps in (100, 200))
        good = first[0] == second[0] == 0 and "starting at step 100" in second[1] and "step-200" in second[1]
        claims.claim("evaluated: examples/trainer.jl goes on where it was", [] if good else [first, second])


def check(claims, parser, library, include, with_conformance):
    check_names(claims, parser, library)
    check_tests(claims, library)
    check_finalisers(claims, library)
    check_programs(claims, library)
    if with_conformance:
        conformance.check(claims, library, include)
    planted.check(claims, parser, library)
