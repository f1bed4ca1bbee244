#!/usr/bin/env python3
"""All checks of Ckpt.jl (bindings/julia) that are possible without a Julia.

  run.py --library LIBCKPT_SO [--include FOLDER] [--no-conformance]

  generated   src/api.jl is what gen/generate.py makes of the headers
  syntax      every file, and every program of the README, parses with Julia's own parser (julia_ast.py)
  sources     the ASTs: calls, structs, memory, docstrings (static_checks.py)
  evaluated   the tests, the examples and the conformance suite are carried out by an evaluator: evaluator/README.md
  planted     each check finds the mistake that it is for

One line per claim; the last line is "N passed, N failed". Needs the packages of requirements.txt (pip install
--no-deps) and a C compiler (CC, else cc). Without the package that has Julia's parser, tree-sitter-julia looks at the
syntax, nothing else is checked, and a line that begins with FALLBACK says so.
"""
import argparse
import os
import sys
from pathlib import Path

sys.setrecursionlimit(50_000)
sys.dont_write_bytecode = True

import evaluator.checks  # noqa: E402
import planted  # noqa: E402
import static_checks  # noqa: E402
from common import PACKAGE, ROOT, RUNNER, Claims, readme_blocks, run  # noqa: E402
from julia_ast import WHEEL, Missing, find_parser  # noqa: E402


def sources():
    folders = [*(PACKAGE / name for name in ("src", "ext", "test", "examples")), RUNNER]
    return sorted(path for folder in folders for path in folder.rglob("*.jl"))


def relative(path):
    return str(path.relative_to(ROOT))


def check_generated(claims, include):
    status, out, err = run(
        [sys.executable, PACKAGE / "gen" / "generate.py", "--check"],
        env={**os.environ, "CKPT_INCLUDE_DIR": str(include)},
    )
    problems = [out + err or "it differs"] if status else []
    claims.claim("src/api.jl is what gen/generate.py makes of the headers", problems)


def check_syntax(claims, parser):
    """path -> AST of each file."""
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
        f"FALLBACK: {WHEEL}: {why}. Syntax is checked by tree-sitter-julia; "
        "calls, memory, names, tests, examples and conformance are NOT checked.",
        flush=True,
    )
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_julia.language()))
    for path in sources():
        tree = parser.parse(path.read_bytes())
        problems = [str(tree.root_node)[:200]] if tree.root_node.has_error else []
        claims.claim(f"{relative(path)} parses with tree-sitter-julia", problems)


def check_sources(claims, trees, library, include):
    package = {relative(path): tree for path, tree in trees.items() if path.parent.name in ("src", "ext")}
    claims.claim(
        "every call is in the headers, exported, and has their number and types of arguments",
        static_checks.check_calls(package, include, library),
    )
    structs = static_checks.layouts(trees[PACKAGE / "src" / "api.jl"])
    claims.claim(
        f"all {len(structs)} structs are laid out as a C compiler lays them out",
        static_checks.check_layouts(structs, include),
    )
    claims.claim("memory is held wherever its address is used", static_checks.check_memory(package))
    claims.claim("every exported name has a docstring", static_checks.check_docs(package))
    claims.claim(
        f"no function has more than {static_checks.MAX_FUNCTION} lines", static_checks.check_functions(sources())
    )


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--library", required=True, type=Path)
    arguments.add_argument("--include", type=Path, default=ROOT / "include")
    arguments.add_argument("--no-conformance", action="store_true")
    given, claims = arguments.parse_args(), Claims()
    library, include = given.library.resolve(), given.include.resolve()
    check_generated(claims, include)
    try:
        parser = find_parser()
    except (Missing, OSError, AttributeError) as problem:
        parser = None
        check_syntax_fallback(claims, problem)
    if parser:
        trees = check_syntax(claims, parser)
        check_sources(claims, trees, library, include)
        planted.check(claims, parser, library, include)
        evaluator.checks.check(claims, parser, library, include, not given.no_conformance)
    print(f"{claims.passed} passed, {claims.failed} failed", flush=True)
    os._exit(claims.failed > 0)  # libjulia cannot be taken down in order


if __name__ == "__main__":
    main()
