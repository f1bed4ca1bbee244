#!/usr/bin/env python3
"""The checks of Ckpt.jl (bindings/julia) that need no Julia. A Julia runs its tests in .github/workflows/ci.yml.

  run.py --library LIBCKPT_SO

One line per claim; the last line is "N passed, N failed". Needs the packages of requirements.txt.
"""
import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import tree_sitter
import tree_sitter_julia

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings" / "julia"
MAX_FUNCTION = 70
sys.path.insert(0, str(ROOT / "cmake"))
from api import of_sources  # noqa: E402

API = of_sources(ROOT)


def sources(*names):
    return sorted(path for name in names for path in (ROOT / name).rglob("*.jl"))


def generated(package):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(API, file)
        file.flush()
        done = subprocess.run([sys.executable, package / "gen" / "generate.py", "--check"], text=True,
                              capture_output=True, env={**os.environ, "CKPT_API": file.name})
    return [done.stdout + done.stderr or "it differs"] if done.returncode else []


def unparsed(texts):
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_julia.language()))
    return [name for name, text in texts.items() if parser.parse(text.encode()).root_node.has_error]


def uncalled(package, library):
    """Functions that the headers and the library have and api.jl does not call, or the other way round."""
    declared = {function["name"] for function in API["functions"]}
    called = set(re.findall(r"libckpt(?:_files)?\.(ckpt_\w+)|\b(ckpt_\w+)\(", (package / "src" / "api.jl").read_text()))
    called = {name for pair in called for name in pair if name}
    exported = [ctypes.CDLL(str(Path(library).with_name(name))) for name in ("libckpt.so", "libckpt_files.so")]
    lacking = [name for name in sorted(called & declared) if not any(hasattr(one, name) for one in exported)]
    return ([f"{name} is in the headers and has no call" for name in sorted(declared - called)] +
            [f"{name} is called and not exported" for name in lacking])


def defined_twice(package):
    """Types and constants; a second definition of one ends the loading of the package."""
    text = "\n".join(path.read_text() for path in sorted((package / "src").glob("*.jl")))
    kinds = "mutable struct|struct|abstract type|primitive type|const"
    return [name for name, count in Counter(re.findall(rf"^(?:{kinds}) +(\w+)", text, flags=re.M)).items() if count > 1]


def undocumented(package):
    text = "\n".join(path.read_text() for path in sorted((package / "src").glob("*.jl")))
    exported = {name for names in re.findall(r"^export ((?:[^\n]*,\n\s*)*[^\n]*)", text, flags=re.M)
                for name in re.findall(r"@?[\w!]+", names)}
    kinds = r"(?:mutable struct |struct |function |const |abstract type |macro |module |primitive type )?"
    return [name for name in sorted(exported)
            if not re.search(rf'"\n(?:@\w+ )*{kinds}(?:\w+\.)?{re.escape(name.lstrip("@"))}(?![\w!])', text)]


def long_functions(paths):
    for path in paths:
        lines = path.read_text().splitlines()
        for start, line in enumerate(lines):
            if found := re.match(r"(\s*)(?:function|macro)\b", line):
                end = next((i for i in range(start, len(lines)) if lines[i] == found.group(1) + "end"), start)
                if end - start >= MAX_FUNCTION:
                    yield f"{path}:{start + 1}: function of {end - start + 1} lines, at most {MAX_FUNCTION}"


def claims(package, library):
    paths = [*package.rglob("*.jl"), *sources("tests/conformance/runner_julia")]
    files = {str(path): path.read_text() for path in paths}
    for page in [package / "README.md", *sorted(package.glob("docs/*.md"))]:
        blocks = re.findall(r"^```julia\n(.*?)^```", page.read_text(), flags=re.M | re.S)
        files.update({f"{page.name} block {i}": block for i, block in enumerate(blocks, 1)})
    yield "api.jl and records.jl are what gen/generate.py makes of the headers", generated(package)
    yield f"{len(files)} files and blocks of the pages parse", unparsed(files)
    yield "every function of the headers is called, and exported", uncalled(package, library)
    yield "no type or constant is defined twice", defined_twice(package)
    yield "every exported name has a docstring", undocumented(package)
    yield f"no function has more than {MAX_FUNCTION} lines", list(long_functions(package.rglob("*.jl")))


def planted(library):
    """Each check finds the mistake that it is for: (file, what stands there, what is put in its place)."""
    mistakes = (("src/api.jl", "ckpt_version_string", "ckpt_version_text"), ("src/stores.jl", "end\n", "\n"),
                ("src/records.jl", "threads::Int", "threads::UInt32"),
                ("src/mapped.jl", "mutable struct Use", "mutable struct Keeper"),
                ("src/jobs.jl", "const SLICE_MS", "const IN_USE"),
                ("src/stores.jl", '"""\nstruct Session', '"""\n\nstruct Session'),
                ("src/stores.jl", "struct Session", "function f()\n" + "\n" * MAX_FUNCTION + "end\nstruct Session"))
    for file, before, after in mistakes:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "julia"
            subprocess.run(["cp", "-r", PACKAGE, copy], check=True)
            text = (copy / file).read_text()
            (copy / file).write_text(text.replace(before, after, 1))
            found = before in text and any(problems for _, problems in claims(copy, library))
            yield found, f"{after!r} in {file}"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--library", required=True, type=Path)
    library = arguments.parse_args().library.resolve()
    results = list(claims(PACKAGE, library))
    missed = [what for found, what in planted(library) if not found]
    results.append(("each check finds the mistake that it is for", missed))
    for name, problems in results:
        print(f"{name} ... {'FAILED' if problems else 'ok'}")
        for problem in problems[:40]:
            print("    " + str(problem).replace("\n", "\n    "))
    failed = sum(bool(problems) for _, problems in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
