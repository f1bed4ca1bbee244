#!/usr/bin/env python3
"""Every binding calls every function of the headers, or lists it with a reason; and every handle is freed.

  functions_test.py RUNNERS_JSON INCLUDE SCENARIOS WORK
  functions_test.py --tests LANGUAGE PROGRAM INCLUDE WORK      instead of a runner, the tests of a language

Runs every conformance scenario with every runner under the trace (tracer.py). A binding's list of functions that it
does not wrap is bindings/LANGUAGE/unwrapped.txt: `ckpt_function  reason`. A listed function must not be called.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(1, str(REPOSITORY / "tests" / "conformance"))

import tracer  # noqa: E402
from claims import Claims  # noqa: E402
from runner import load_runners  # noqa: E402


def unwrapped(language):
    """name -> reason, from the binding's list."""
    path = REPOSITORY / "bindings" / language / "unwrapped.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    listed = {}
    for line in lines:
        name, _, reason = line.partition(" ")
        if name and not name.startswith("#"):
            assert reason.strip(), f"{path}: {name} without a reason"
            listed[name] = reason.strip()
    return listed


class Program:
    """The tests of a language, as one program."""

    def __init__(self, name, path):
        self.name, self.path = name, path

    def run(self, **environment):
        environment = {**os.environ, **environment}
        done = subprocess.run([self.path], env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr


class Traced:
    """A runner under the trace, with the counts of each scenario."""

    def __init__(self, runner, include, library, work):
        self.runner, self.include = runner, include
        self.preload = " ".join(filter(None, [os.environ.get("LD_PRELOAD", ""), str(library)]))
        self.work = work / runner.name
        self.called = set()

    def run(self, scenario):
        """After the scenario no handle is alive, and every freed handle had been made."""
        place = self.work / scenario.stem
        shutil.rmtree(place, ignore_errors=True)
        (place / "dir").mkdir(parents=True)
        file = place / "counts"
        problem = self.runner.problem(scenario, place / "dir", LD_PRELOAD=self.preload, CKPT_TRACE=str(file))
        assert problem is None, problem
        self.read(file)
        shutil.rmtree(place, ignore_errors=True)

    def run_tests(self):
        file = self.work / "counts"
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        status, out, err = self.runner.run(LD_PRELOAD=self.preload, CKPT_TRACE=str(file))
        assert status == 0, (out + err)[-4000:]
        self.read(file)

    def read(self, file):
        counts = tracer.Counts(self.include, file)
        called = {name for name, calls in counts.calls.items() if calls}
        assert called, "no call was seen: the trace was not loaded"
        self.called |= called
        assert not counts.left(), f"alive: {counts.left()}"

    def every_function(self):
        names = {f.name for f in tracer.functions(self.include)}
        listed = unwrapped(self.runner.name)
        assert set(listed) <= names, f"listed, but not in the headers: {sorted(set(listed) - names)}"
        missing = sorted(names - self.called - set(listed))
        assert not missing, f"neither called by any scenario nor listed: {missing}"
        both = sorted(self.called & set(listed))
        assert not both, f"listed as not wrapped, but called: {both}"


def main(runners_json, include, scenarios, work):
    work = Path(work)
    library = tracer.make(include, work)
    claims = Claims()
    for runner in load_runners(runners_json):
        traced = Traced(runner, include, library, work)
        for scenario in sorted(Path(scenarios).glob("*.txt")):
            claims.check(f"{runner.name}: no handle is left after {scenario.stem}", traced.run, scenario)
        claims.check(f"{runner.name}: every function is called or listed with a reason", traced.every_function)
    return claims.end()


def main_tests(language, program, include, work):
    claims, work = Claims(), Path(work)
    traced = Traced(Program(language, program), include, tracer.make(include, work), work)
    claims.check(f"{language}: no handle is left after the tests", traced.run_tests)
    claims.check(f"{language}: every function is called or listed with a reason", traced.every_function)
    return claims.end()


if __name__ == "__main__":
    if len(sys.argv) == 6 and sys.argv[1] == "--tests":
        sys.exit(main_tests(*sys.argv[2:]))
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
