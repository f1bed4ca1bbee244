"""Proofs that the checks can fail: each error, planted in a copy of the package, must be found by the check that is
for it.
"""

import contextlib
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import conformance
import walk
from conformance import wrong_lines
from evaluate import PACKAGE

HERE = Path(__file__).resolve().parent

# (what, file, text, text instead, words of the problem that must be found)
STATIC = [
    (
        "a call with one argument less",
        "src/api.jl",
        "ckpt_job_cancel(job::Ptr{ckpt_job})",
        "ckpt_job_cancel()",
        "takes 1 arguments",
    ),
    (
        "a call with a wrong type",
        "src/api.jl",
        "label::Cstring, step::Int64",
        "label::Cstring, step::Int32",
        "argument",
    ),
    (
        "a call with a wrong result",
        "src/api.jl",
        "ckpt_list_count(list::Ptr{ckpt_list})::Csize_t",
        "ckpt_list_count(list::Ptr{ckpt_list})::Int32",
        "returns",
    ),
    (
        "a call of what is not there",
        "src/api.jl",
        "libckpt.ckpt_job_state(",
        "libckpt.ckpt_job_states(",
        "is in no header",
    ),
    (
        "an address that nothing holds",
        "src/options.jl",
        "# f(pointer) with",
        "peek(a) = unsafe_load(pointer(a))\n#",
        "nothing holds",
    ),
    (
        "a buffer from elsewhere",
        "src/saves.jl",
        "name, media_type, kind, data, size, err",
        "name, media_type, kind, bytes, size, err",
        "did not give",
    ),
    (
        "an export without a docstring",
        "src/Ckpt.jl",
        "export CkptError",
        "export checked, CkptError",
        "no docstring",
    ),
    (
        "a line of 121 columns",
        "src/options.jl",
        "# f(pointer) with",
        "#" + "x" * 120 + "\n# f(pointer) with",
        "121 columns",
    ),
]
NAMES = [
    (
        "a misspelt function",
        "src/jobs.jl",
        "        close(job)\n    end\n    return nothing",
        "        clsoe(job)\n    end\n    return nothing",
        "clsoe is defined nowhere",
    ),
    (
        "a call with too many arguments",
        "src/loads.jl",
        "        close(load)\n    end\n    return array",
        "        shut(load, 1)\n    end\n    return array",
        "no method of shut",
    ),
    (
        "a keyword that no method has",
        "src/states.jl",
        "save_state(save, state; order)",
        "save_state(save, state; ordr = order)",
        "no method of save_state",
    ),
    (
        "a field that no struct has",
        "src/states.jl",
        "described.shape : reverse(described.shape)",
        "described.shape : reverse(described.shapes)",
        "no struct has a field shapes",
    ),
]
TESTS = [
    (
        "a method that is written over another",
        "src/trees.jl",
        "# ---- build ----",
        "Tree(a, b) = Tree()",
        "is there already",
    ),
    (
        "methods that are ambiguous",
        "src/tree_values.jl",
        "# on_array(array, add)",
        "encode!(tree, value::AbstractVector, _) = add!(tree, 1)\nencode!(tree, value::AbstractArray{UInt8}, _) = 1\n#",
        "FAILED",
    ),
    (
        "a shape that is not reversed",
        "src/memory.jl",
        "turn = order === :same ? identity : reverse",
        "turn = identity",
        "FAILED",
    ),
    (
        "a box that begins one too late",
        "src/memory.jl",
        "range -> first(range) - 1",
        "range -> first(range)",
        "FAILED",
    ),
    ("use after close", "src/handles.jl", "iseven(state) && return nothing", "return nothing", "FAILED"),
    ("arrays that are never let go", "src/jobs.jl", "reached >= CKPT_JOB_STAGED && let_go(pointer)", "", "FAILED"),
    (
        "keys that lose their kind",
        "src/tree_values.jl",
        "tree_key(key::Integer) = Int64(key)",
        "tree_key(key::Integer) = string(key)",
        "FAILED",
    ),
    (
        "a status that is lost",
        "src/errors.jl",
        "status == CKPT_OK || throw",
        "status != CKPT_NOT_FOUND || throw",
        "FAILED",
    ),
]


BLIND = "matches(value, wanted) = wanted in spellings(value)"


def copied(folder, file, before, after):
    """A copy of the package in which one text stands for another; it must be there."""
    target = Path(folder) / "bindings" / "julia"
    shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("__pycache__"))
    path = target / file
    text = path.read_text()
    if text.count(before) < 1:
        raise RuntimeError(f"{file} has no {before!r}: this proof is out of date")
    path.write_text(text.replace(before, after, 1))
    return target


def trees_of(parser, package):
    return {
        str(path.relative_to(package)): parser.parse(path.read_text(), path.name)[0]
        for path in sorted((package / "src").glob("*.jl"))
    }


def static_problems(parser, package, library, include):
    trees = trees_of(parser, package)
    return [
        *walk.check_calls(trees, include, library),
        *walk.check_memory(trees),
        *walk.check_docs(trees),
        *walk.check_style(sorted((package / "src").glob("*.jl"))),
    ]


def proof(claims, what, wanted, problems):
    good = any(wanted in str(problem) for problem in problems)
    claims.claim(f"planted and found: {what}", [] if good else [f"expected '{wanted}', found {problems[:5]}"])


def check_syntax(claims, parser):
    _, problem = parser.parse("function f()\n    g(\nend\n", "planted")
    claims.claim("planted and found: a syntax error", [] if problem else ["nothing was found"])


def check_generated(claims):
    with tempfile.TemporaryDirectory() as folder:
        package = copied(folder, "src/api.jl", "CKPT_IO = Int32(50)", "CKPT_IO = Int32(51)")
        shutil.copytree(PACKAGE.parents[1] / "include", Path(folder) / "include")
        done = subprocess.run(
            [sys.executable, package / "gen" / "generate.py", "--check"], capture_output=True, text=True
        )
        proof(claims, "a number that was changed in api.jl", "CKPT_IO = Int32(51)", [done.stdout])


def check_layout(claims, include):
    import run

    made = run.Claims()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        run.check_layouts(made, [("ckpt_part_info", 88, [("struct_size", 0, 4), ("rank", 8, 4)])], include)
    proof(claims, "a field at another offset", "expected ckpt_part_info.rank 8 4", [said.getvalue()])


def evaluated(package, library):
    (package / "test" / "big.jl").write_text("")  # says nothing about these and takes memory
    done = subprocess.run(
        [sys.executable, package / "check" / "evaluate.py", "--library", library, package / "test" / "runtests.jl"],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
    )
    return [done.stdout + done.stderr] if done.returncode else []


def check_suite(claims, library):
    """A runner whose expectations all hold, and a list of functions that is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        package = copied(folder, "conformance/expect.jl", BLIND, "matches(value, wanted) = true")
        lines = [line for line in wrong_lines.self_lines(conformance.SUITE)[1] if line.startswith("reader.info ")]
        missed = conformance.missed_lines(library, lines, package)
        proof(claims, "a conformance runner that compares nothing", "reader.info reader id=two.1.1", missed)
    found = list(conformance.function_problems({"a": 0, "b": 0, "c": 0}, {"a"}, {"a": "why", "b": "", "d": "why"}))
    for wanted in ("a is listed, but called", "b is listed without", "c is neither", "d is listed, but in no header"):
        proof(claims, f"in the list of functions: {wanted}", wanted, found)


def check(claims, parser, library, include):
    import run

    check_syntax(claims, parser)
    check_generated(claims)
    check_layout(claims, include)
    check_suite(claims, library)
    for what, file, before, after, wanted in STATIC:
        with tempfile.TemporaryDirectory() as folder:
            package = copied(folder, file, before, after)
            proof(claims, what, wanted, static_problems(parser, package, library, include))
    for what, file, before, after, wanted in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            package = copied(folder, file, before, after)
            found, _ = run.load_names(parser, library, run.name_checks.base_names(), package)
            proof(claims, what, wanted, found.problems)
    for what, file, before, after, wanted in TESTS:
        with tempfile.TemporaryDirectory() as folder:
            package = copied(folder, file, before, after)
            proof(claims, what, wanted, evaluated(package, library))
