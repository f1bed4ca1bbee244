"""Proofs that the checks can fail: each error, planted in a copy of the package, must be found by the check that is
for it. evaluator/planted.py has those of the evaluator.
"""

import os
import sys

import static_checks
from common import PACKAGE, planted, run

OPTIONS = ("src/options.jl", "# f(pointer) with")  # a place between two functions
# (what, file, text, text instead, words of the problem that must be found)
ERRORS = [
    ("a call with one argument less", "src/api.jl", "ckpt_job_cancel(job::Ptr{ckpt_job})", "ckpt_job_cancel()",
     "takes 1 arguments"),
    ("a call with a wrong type", "src/api.jl", "label::Cstring, step::Int64", "label::Cstring, step::Int32",
     "argument"),
    ("a call with a wrong result", "src/api.jl", "ckpt_list_count(list::Ptr{ckpt_list})::Csize_t",
     "ckpt_list_count(list::Ptr{ckpt_list})::Int32", "returns"),
    ("a call of what is not there", "src/api.jl", "libckpt.ckpt_job_state(", "libckpt.ckpt_job_states(",
     "is in no header"),
    ("an address that nothing holds", *OPTIONS, "peek(a) = unsafe_load(pointer(a))\n#", "nothing holds"),
    ("a buffer from elsewhere", "src/saves.jl", "name, media_type, kind, data, size, err",
     "name, media_type, kind, bytes, size, err", "did not give"),
    ("an export without a docstring", "src/Ckpt.jl", "export CkptError", "export checked, CkptError",
     "no docstring"),
    ("a function of 71 lines", *OPTIONS, "function long()\n" + "    1\n" * 69 + "end\n\n# f(pointer) with",
     "71 lines"),
]


def problems_of(parser, package, library, include):
    files = sorted((package / "src").glob("*.jl"))
    trees = {f"src/{path.name}": parser.parse(path.read_text(), path.name)[0] for path in files}
    return [
        *static_checks.check_calls(trees, include, library),
        *static_checks.check_memory(trees),
        *static_checks.check_docs(trees),
        *static_checks.check_functions(files),
    ]


def check(claims, parser, library, include):
    _, problem = parser.parse("function f()\n    g(\nend\n", "planted")
    claims.found("a syntax error", "", [problem] if problem else [])
    with planted(PACKAGE, "src/api.jl", "CKPT_IO = Int32(50)", "CKPT_IO = Int32(51)") as package:
        generate = [sys.executable, package / "gen" / "generate.py", "--check"]
        _, out, _ = run(generate, env={**os.environ, "CKPT_INCLUDE_DIR": str(include)})
    claims.found("a number that was changed in api.jl", "CKPT_IO = Int32(51)", [out])
    structs = [("ckpt_part_info", 88, [("struct_size", 0, 4), ("rank", 8, 4)])]
    found = static_checks.check_layouts(structs, include)
    claims.found("a field at another offset", "expected ckpt_part_info.rank 8 4", found)
    for what, file, before, after, wanted in ERRORS:
        with planted(PACKAGE, file, before, after) as package:
            claims.found(what, wanted, problems_of(parser, package, library, include))
