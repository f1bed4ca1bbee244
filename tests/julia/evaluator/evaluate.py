#!/usr/bin/env python3
"""Carries out a Julia program without a Julia: Julia's own parser, evaluator/ for the language and the part of Base
that Ckpt.jl uses, and the real libckpt through ctypes. It is not Julia: README.md says what that proves and what
not.

  evaluate.py --library LIBCKPT_SO [--julia 1.10] [--calls FILE] PROGRAM.jl [ARGUMENT…]

--calls adds the names of the library's functions that were called to FILE, one a line.
A program with tests prints each claim, then "N passed, N failed". CKPT_JULIA_PARSER names the folder that has
ace_jax_coupling, where that is not installed beside this Python.
"""
import gc
import importlib.util
import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from julia_ast import Missing, Parser, Symbol  # noqa: E402

PACKAGE = Path(__file__).resolve().parents[1]


def find_parser():
    """The parser, or Missing."""
    given = os.environ.get("CKPT_JULIA_PARSER")
    if given:
        return Parser(given)
    found = importlib.util.find_spec("ace_jax_coupling")
    if found is None or not found.origin:
        raise Missing("the package ace-jax-coupling is not installed")
    return Parser(Path(found.origin).parents[1])


class Tests:
    """@testset, @test and @test_throws: a claim is the innermost testset."""

    def __init__(self):
        self.passed, self.failed, self.stack = 0, 0, []

    def testset(self, name, body):
        self.stack.append([name, [], 0, False])
        if len(self.stack) > 1:
            self.stack[-2][3] = True
        try:
            body()
        except SystemExit:
            raise
        except BaseException as problem:  # an error fails the claim, the others go on
            self.stack[-1][1].append(f"{type(problem).__name__}: {problem}")
        name, problems, checks, outer = self.stack.pop()
        if outer and not problems:
            return
        if not problems and not checks:
            problems.append("nothing was tested")
        self.passed += not problems
        self.failed += bool(problems)
        print(f"{name} ... {'FAILED' if problems else 'ok'}", *(f"    {p}" for p in problems), sep="\n", flush=True)

    def note(self, line, shown, problem):
        self.stack[-1][2] += 1
        if problem:
            self.stack[-1][1].append(f"line {line}: {shown:.150}: {problem}")

    def check(self, line, shown, condition):
        found = condition()
        self.note(line, shown, None if found is True else f"gave {found!r:.100}")

    def throws(self, line, shown, wanted, code):
        from evaluator.types import TYPES, Family, JuliaError, matches
        from evaluator.values import type_of

        try:
            code()
        except JuliaError as raised:
            kind = wanted.of() if isinstance(wanted, Family) else wanted
            good = matches(type_of(raised.value), kind, {}) if isinstance(kind, TYPES) else raised.value == kind
            self.note(line, shown, None if good else f"threw {raised.value!r:.200}")
        else:
            self.note(line, shown, "threw nothing")


def make_interpreter(parser, library, tests, version=(1, 13), environment=None):
    from evaluator.interpreter import Interpreter

    made = Interpreter(parser, library, tests, version, {"JULIA_CKPT_LIBRARY": str(library), **(environment or {})})
    made.packages = {"Ckpt": PACKAGE / "src" / "Ckpt.jl"}
    return made


def carry_out(program, arguments, library, version, calls=None):
    """The exit status of the program."""
    from evaluator.types import STRING, JuliaError, Unsupported
    from evaluator.values import Array

    tests = Tests()
    interpreter = make_interpreter(find_parser(), library, tests, version)
    table = interpreter.base_module.globals
    table[Symbol("ARGS")] = Array(STRING, (len(arguments),), arguments)
    table[Symbol("PROGRAM_FILE")] = str(program)
    status = 0
    try:
        interpreter.run_file(Path(program).resolve(), interpreter.main)
    except SystemExit as ended:
        status = int(ended.code or 0)
    except (JuliaError, Unsupported, SyntaxError, RuntimeError) as problem:
        show = interpreter.text(problem.value) if isinstance(problem, JuliaError) else problem
        print(f"{program}: {type(problem).__name__}: {show}", file=sys.stderr)
        status = 1
    interpreter.main.globals.clear()
    gc.collect()  # finalisers run at the end of a Julia too
    if calls:
        with open(calls, "a", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in interpreter.foreign.calls)
    if tests.passed or tests.failed:
        print(f"{tests.passed} passed, {tests.failed} failed")
        status = status or int(tests.failed > 0)
    return status


def main():
    arguments, library, version, calls = sys.argv[1:], None, (1, 13), None
    while arguments[:1] and arguments[0].startswith("--"):
        name, value, *arguments = arguments
        if name == "--library":
            library = value
        elif name == "--julia":
            version = tuple(map(int, value.split(".")))
        elif name == "--calls":
            calls = value
        else:
            sys.exit(__doc__)
    if not arguments or not library:
        sys.exit(__doc__)
    result = []
    sys.setrecursionlimit(50_000)
    threading.stack_size(512 << 20)
    worker = threading.Thread(
        target=lambda: result.append(carry_out(arguments[0], arguments[1:], library, version, calls))
    )
    worker.start()
    worker.join()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(result[0] if result else 1)  # what Python tears down after this is not Julia's


if __name__ == "__main__":
    main()
