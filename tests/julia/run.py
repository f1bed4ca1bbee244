#!/usr/bin/env python3
"""All checks of Ckpt.jl that are possible without a Julia; README.md says what each proves.

  run.py --library LIBCKPT_SO [--include FOLDER] [--no-conformance]

One line per claim; the last line is "N passed, N failed". Needs the packages of requirements.txt (pip install
--no-deps) and a C compiler (CC, else cc). Where ace-jax-coupling cannot be had, syntax is checked by tree-sitter-
julia instead, what needs Julia's own AST is not done, and a line that begins with FALLBACK names it.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.setrecursionlimit(50_000)
sys.dont_write_bytecode = True

import conformance  # noqa: E402
import names as name_checks  # noqa: E402
import planted  # noqa: E402
import walk  # noqa: E402
from evaluate import PACKAGE, Tests, find_parser, make_interpreter  # noqa: E402
from julia_ast import PACKAGE as PARSER_PACKAGE, Missing  # noqa: E402

ROOT = PACKAGE.parents[1]
HERE = Path(__file__).resolve().parent


class Claims:
    def __init__(self):
        self.passed, self.failed = 0, 0

    def claim(self, name, problems):
        """`problems`: texts; none where the claim holds."""
        problems = list(problems)
        print(f"{name} ... {'FAILED' if problems else 'ok'}", flush=True)
        for problem in problems[:40]:
            print("    " + str(problem).replace("\n", "\n    "), flush=True)
        self.passed += not problems
        self.failed += bool(problems)


def relative(path):
    return str(Path(path).relative_to(PACKAGE))


def sources():
    return sorted(
        path
        for folder in ("src", "ext", "test", "conformance", "examples")
        for path in (PACKAGE / folder).rglob("*.jl")
    )


def readme_blocks():
    return re.findall(r"^```julia\n(.*?)^```", (PACKAGE / "README.md").read_text(), flags=re.M | re.S)


def run(command, **settings):
    """(exit status, what was printed)."""
    done = subprocess.run(
        [str(c) for c in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=1200,
        **settings,
    )
    return done.returncode, done.stdout


# ---- 1: generated code and layouts ----


def check_generated(claims, include):
    status, out = run(
        [sys.executable, PACKAGE / "gen" / "generate.py", "--check"],
        env={**os.environ, "CKPT_INCLUDE_DIR": str(include)},
    )
    claims.claim("src/api.jl is what gen/generate.py makes of the headers", [out or "it differs"] if status else [])


def check_layouts(claims, layouts, include):
    """A C compiler tells sizeof and offsetof; `layouts` is what api.jl says."""
    lines = ['#include "ckpt_file.h"', "#include <stdio.h>", "int main(void) {"]
    for name, _, fields in layouts:
        lines.append(f'  printf("{name} %zu\\n", sizeof({name}));')
        lines += [
            f'  printf("{name}.{f} %zu %zu\\n", offsetof({name}, {f}), sizeof((({name} *)0)->{f}));'
            for f, _, _ in fields
        ]
    wanted = [
        line
        for name, size, fields in layouts
        for line in [f"{name} {size}", *(f"{name}.{f} {offset} {width}" for f, offset, width in fields)]
    ]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "layout.c"
        source.write_text("\n".join(lines) + "\n  return 0;\n}\n")
        status, out = run(
            [os.environ.get("CC", "cc"), "-std=c11", f"-I{include}", source, "-o", f"{folder}/layout"]
        )
        if status == 0:
            status, out = run([f"{folder}/layout"])
    found = out.splitlines()
    claims.claim(
        f"all {len(layouts)} structs are laid out as a C compiler lays them out",
        (
            [out]
            if status
            else [f"expected {w}, found {f}" for w, f in zip(wanted, found) if w != f]
            + ([] if len(wanted) == len(found) else ["another number of fields"])
        ),
    )


# ---- 2: syntax ----


def check_syntax(claims, parser):
    trees = {}
    for path in sources():
        tree, problem = parser.parse(path.read_text(), relative(path))
        trees[path] = tree
        claims.claim(
            f"{relative(path)} parses with the parser of Julia {parser.version}",
            [f"line {problem[0]}: {problem[1]}"] if problem else [],
        )
    problems = []
    for number, block in enumerate(readme_blocks(), 1):
        _, problem = parser.parse(block, f"README.md block {number}")
        problems += [f"block {number}, line {problem[0]}: {problem[1]}"] if problem else []
    claims.claim(f"the {len(readme_blocks())} Julia blocks of README.md parse", problems)
    return trees


def check_syntax_fallback(claims, why):
    import tree_sitter
    import tree_sitter_julia

    print(
        f"FALLBACK: {PARSER_PACKAGE}: {why}. Syntax is checked by tree-sitter-julia 0.23.1; "
        "calls, memory, names, tests, examples and conformance are NOT checked.",
        flush=True,
    )
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_julia.language()))
    for path in sources():
        tree = parser.parse(path.read_bytes())
        claims.claim(
            f"{relative(path)} parses with tree-sitter-julia",
            [str(tree.root_node)[:200]] if tree.root_node.has_error else [],
        )


# ---- 3: the ASTs ----


def load_names(parser, library, allowed, package=PACKAGE):
    """(Names after all files were looked at, the interpreter)."""
    interpreter = make_interpreter(parser, library, Tests())
    interpreter.packages = {"Ckpt": package / "src" / "Ckpt.jl"}
    found = name_checks.Names(interpreter, allowed)
    found.check(found.load(package / "src" / "Ckpt.jl"), "src")
    interpreter.loaded["Ckpt"] = interpreter.main.globals["Ckpt"]
    interpreter.main.used.append(interpreter.loaded["Ckpt"])
    found.check(found.load(package / "conformance" / "runner.jl"), "conformance")
    for name in ("test/runtests.jl", "examples/trainer.jl"):
        found.defined = {"ARGS"}
        notes = found.compile(package / name)
        found.check(notes, name)
    return found, interpreter


def check_asts(claims, parser, trees, library, include):
    package = {path: tree for path, tree in trees.items() if path.parent.name in ("src", "ext")}
    shown = {relative(path): tree for path, tree in package.items()}
    claims.claim(
        "every call is in the headers, exported, and has their number and types of arguments",
        walk.check_calls(shown, include, library),
    )
    claims.claim("memory is held wherever its address is used", walk.check_memory(shown))
    claims.claim("every exported name has a docstring", walk.check_docs(shown))
    claims.claim("files, functions and lines keep the house rules", walk.check_style(sources()))
    allowed = name_checks.base_names()
    found, interpreter = load_names(parser, library, allowed)
    for number, block in enumerate(readme_blocks(), 1):
        found.defined = {"ARGS"}
        found.check(found.compile(PACKAGE / "README.md", block), f"README.md block {number}")
    claims.claim("every name is defined here or one of Base's, and every call fits a method", found.problems)
    claims.claim("base_names.txt has no name that nothing uses", sorted(allowed - found.used))
    rows = interpreter.loaded["Ckpt"].globals["LAYOUTS"]
    layouts = [
        (row[0].family.name, row[1], [(str(f[0]), f[1], f[2]) for f in interpreter.iterate(row[2])])
        for row in interpreter.iterate(rows)
    ]
    check_layouts(claims, layouts, include)
    return interpreter


# ---- 4: carried out by the evaluator ----


def evaluate(library, program, *arguments, version="1.13"):
    settings = ["--library", library, "--julia", version]
    return run([sys.executable, HERE / "evaluate.py", *settings, program, *arguments])


def check_tests(claims, library):
    for version in ("1.13", "1.10"):
        status, out = evaluate(library, PACKAGE / "test" / "runtests.jl", version=version)
        last = out.strip().splitlines()[-1] if out.strip() else ""
        good = re.fullmatch(r"([1-9]\d*) passed, 0 failed", last)
        claims.claim(
            f"evaluated as Julia {version}: test/runtests.jl, {last}", [] if good and status == 0 else [out[-3000:]]
        )


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


def check_evaluator(claims, library):
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "finaliser.jl"
        program.write_text(FINALISER)
        status, out = evaluate(library, program)
    good = status == 0 and out == "inside\nended\n"
    claims.claim("the evaluator runs no finaliser in a task that holds a SpinLock", [] if good else [out])


def check_programs(claims, library):
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "readme.jl"
        program.write_text(readme_blocks()[0])
        status, out = evaluate(library, program, f"{folder}/store")
        claims.claim("evaluated: the first program of README.md saves and loads", [out] if status else [])
        status, first = evaluate(library, PACKAGE / "examples" / "trainer.jl", f"{folder}/trainer", 100)
        again, second = evaluate(library, PACKAGE / "examples" / "trainer.jl", f"{folder}/trainer", 200)
        claims.claim(
            "evaluated: examples/trainer.jl goes on where it was",
            (
                []
                if status == again == 0 and "starting at step 100" in second and "step-200" in second
                else [first + second]
            ),
        )


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--library", required=True, type=Path)
    arguments.add_argument("--include", type=Path, default=ROOT / "include")
    arguments.add_argument("--no-conformance", action="store_true")
    given, claims = arguments.parse_args(), Claims()
    library = given.library.resolve()
    check_generated(claims, given.include)
    try:
        parser = find_parser()
    except (Missing, OSError, AttributeError) as problem:
        parser = None
        check_syntax_fallback(claims, problem)
    if parser:
        trees = check_syntax(claims, parser)
        check_asts(claims, parser, trees, library, given.include)
        check_tests(claims, library)
        check_evaluator(claims, library)
        check_programs(claims, library)
        if not given.no_conformance:
            conformance.check(claims, library, given.include)
        planted.check(claims, parser, library, given.include)
    print(f"{claims.passed} passed, {claims.failed} failed", flush=True)
    os._exit(claims.failed > 0)  # libjulia is not taken down in order


if __name__ == "__main__":
    main()
