#!/usr/bin/env python3
"""Carries out a Julia program without a Julia: Julia's own parser, this folder for the language and the part of Base
that Ckpt.jl uses, and the real libckpt through ctypes. It is not Julia: README.md says what that proves and what not.

  evaluate.py --library LIBCKPT_SO [--package FOLDER] [--julia 1.10] [--calls FILE] PROGRAM.jl [ARGUMENT…]

--package is the folder of Ckpt.jl, bindings/julia where it is not given. --calls adds the names of the library's
functions that were called to FILE, one a line. A program with tests prints each claim, then "N passed, N failed".
"""
import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # types.py here is not Python's own

import argparse  # noqa: E402
import gc  # noqa: E402
import threading  # noqa: E402
from pathlib import Path  # noqa: E402

from common import PACKAGE  # noqa: E402
from evaluator.interpreter import Interpreter  # noqa: E402
from evaluator.types import STRING, TYPES, Family, JuliaError, Unsupported, matches  # noqa: E402
from evaluator.values import Array, type_of  # noqa: E402
from julia_ast import Symbol, find_parser  # noqa: E402


class Tests:
    """@testset, @test and @test_throws: a claim is the innermost testset."""

    def __init__(self):
        self.passed, self.failed, self.stack = 0, 0, []
        self.logged = None  # levels, inside of @test_logs

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
        try:
            code()
        except JuliaError as raised:
            kind = wanted.of() if isinstance(wanted, Family) else wanted
            good = matches(type_of(raised.value), kind, {}) if isinstance(kind, TYPES) else raised.value == kind
            self.note(line, shown, None if good else f"threw {raised.value!r:.200}")
        else:
            self.note(line, shown, "threw nothing")

    def log(self, level, message):
        if self.logged is None:
            print(f"{level}: {message}", file=sys.stderr)
        else:
            self.logged.append(Symbol(level))

    def logs(self, line, shown, patterns, code):
        """Patterns are tuples of one level."""
        self.logged = []
        try:
            value = code()
        finally:
            found, self.logged = self.logged, None
        good = found == [level for (level,) in patterns]
        self.note(line, shown, None if good else f"logged {found}")
        return value


def carry_out(given):
    """The exit status of the program."""
    tests = Tests()
    version = tuple(map(int, given.julia.split(".")))
    interpreter = Interpreter(find_parser(), given.library, given.package, tests, version)
    table = interpreter.base_module.globals
    table[Symbol("ARGS")] = Array(STRING, (len(given.arguments),), given.arguments)
    table[Symbol("PROGRAM_FILE")] = given.program
    status = 0
    try:
        interpreter.run_file(Path(given.program).resolve(), interpreter.main)
    except SystemExit as ended:
        status = int(ended.code or 0)
    except (JuliaError, Unsupported, SyntaxError, RuntimeError) as problem:
        show = interpreter.text(problem.value) if isinstance(problem, JuliaError) else problem
        print(f"{given.program}: {type(problem).__name__}: {show}", file=sys.stderr)
        status = 1
    interpreter.main.globals.clear()
    gc.collect()  # finalisers run at the end of a Julia too
    if given.calls:
        with open(given.calls, "a", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in interpreter.foreign.calls)
    if tests.passed or tests.failed:
        print(f"{tests.passed} passed, {tests.failed} failed")
        status = status or int(tests.failed > 0)
    return status


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--library", required=True)
    arguments.add_argument("--package", type=Path, default=PACKAGE)
    arguments.add_argument("--julia", default="1.13")
    arguments.add_argument("--calls")
    arguments.add_argument("program")
    arguments.add_argument("arguments", nargs=argparse.REMAINDER)
    given, status = arguments.parse_args(), []
    sys.setrecursionlimit(50_000)
    threading.stack_size(512 << 20)
    worker = threading.Thread(target=lambda: status.append(carry_out(given)))
    worker.start()
    worker.join()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status[0] if status else 1)  # what Python tears down after this is not Julia's


if __name__ == "__main__":
    main()
