"""Proofs that the evaluator's checks can fail: each error, planted in a copy of the package or of the conformance
runner, must be found by the check that is for it.
"""


from common import PACKAGE, RUNNER, planted
from . import conformance
from .names import names_of

# (what, file, text, text instead, words of the problem that must be found)
NAMES = [
    ("a misspelt function", "src/jobs.jl", "? close(job) :", "? clsoe(job) :", "clsoe is defined nowhere"),
    ("a call with too many arguments", "src/loads.jl", "        close(load)\n    end\n    return array",
     "        shut(load, 1)\n    end\n    return array", "no method of shut"),
    ("a keyword that no method has", "src/states.jl", "save_state(save, state; order)",
     "save_state(save, state; ordr = order)", "no method of save_state"),
    ("a field that no struct has", "src/states.jl", "described.shape : reverse(described.shape)",
     "described.shape : reverse(described.shapes)", "no struct has a field shapes"),
]
# The same, with the file of test/ whose tests are run, and what they must print.
TESTS = [
    ("a method that is written over another", "src/trees.jl", "# ---- build ----", "Tree(a, b) = Tree()",
     "trees.jl", "is there already"),
    ("methods that are ambiguous", "src/tree_values.jl", "encode!(tree, value::AbstractVector{UInt8}, _)",
     "encode!(tree, value::AbstractVector, _) = 1\nencode!(tree, value::AbstractArray{UInt8}, _)",
     "trees.jl", "is ambiguous"),
    ("a shape that is not reversed", "src/memory.jl", "turn = order === :same ? identity : reverse",
     "turn = identity", "arrays.jl", "the shape is the size reversed, and the memory is as it was ... FAILED"),
    ("a box that begins one too late", "src/memory.jl", "range -> first(range) - 1", "range -> first(range)",
     "arrays.jl", "a box is ranges of the whole, in the array's own order ... FAILED"),
    ("use after close", "src/handles.jl", "iseven(state) && return nothing", "return nothing",
     "handles.jl", "use after close is an error, close twice is not ... FAILED"),
    ("arrays that are never let go", "src/jobs.jl", "reached >= CKPT_JOB_STAGED && let_go(pointer)", "",
     "jobs.jl", "an array may change once the save is staged, and is held until then ... FAILED"),
    ("keys that lose their kind", "src/tree_values.jl", "tree_key(key::Integer) = Int64(key)",
     "tree_key(key::Integer) = string(key)", "trees.jl",
     "text and integer keys are apart, and the order is kept ... FAILED"),
    ("a status that is lost", "src/errors.jl", "status == CKPT_OK || throw", "status != CKPT_NOT_FOUND || throw",
     "errors.jl", "an error has status, message and details ... FAILED"),
]
BLIND = ("expect.jl", "matches(value, wanted) = wanted in spellings(value)", "matches(value, wanted) = true")


def tested(package, library, file):
    """What one file of the package's tests prints."""
    for path in (package / "test").glob("*.jl"):
        if path.name not in ("runtests.jl", file):
            path.write_text("")
    status, out, err = conformance.evaluate(library, package / "test" / "runtests.jl", package=package)
    return [out + err] if status else []


def check_suite(claims, library):
    """A runner whose expectations all hold, and a list of functions that is wrong."""
    lines = conformance.wrong_lines.self_lines(conformance.SUITE)[1]
    lines = [line for line in lines if line.startswith("reader.info ")]
    with planted(RUNNER, *BLIND) as runner:
        missed = conformance.missed_lines(library, lines, runner)
    claims.found("a conformance runner that compares nothing", "reader.info reader id=two.1.1", missed)
    found = list(conformance.function_problems({"a": 0, "b": 0, "c": 0}, {"a"}, {"a": "why", "b": "", "d": "why"}))
    for wanted in ("a is listed, but called", "b is listed without", "c is neither", "d is listed, but in no header"):
        claims.found(f"in the list of functions: {wanted}", wanted, found)


def check(claims, parser, library):
    check_suite(claims, library)
    for what, file, before, after, wanted in NAMES:
        with planted(PACKAGE, file, before, after) as package:
            claims.found(what, wanted, names_of(parser, library, package).problems)
    for what, file, before, after, tests, wanted in TESTS:
        with planted(PACKAGE, file, before, after) as package:
            claims.found(what, wanted, tested(package, library, tests))
