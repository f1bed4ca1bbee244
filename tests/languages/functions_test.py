#!/usr/bin/env python3
"""Every function of the headers is called by every binding, or listed with a reason; and no handle is left alive.

  functions_test.py RUNNERS_JSON INCLUDE SCENARIOS WORK

Runs every conformance scenario with every runner under the trace (tracer.py). A binding's list of functions that it
does not wrap is bindings/LANGUAGE/unwrapped.txt: `ckpt_function  reason`. One on the list that is called is wrong too.
"""
import json
import os
import shutil
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(1, str(REPOSITORY / "tests" / "conformance"))

import run as suite  # noqa: E402
import tracer  # noqa: E402
from claims import Claims, run  # noqa: E402


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


class Traced:
    """A runner under the trace: the counts of each scenario."""

    def __init__(self, language, runner, include, library, work):
        self.language, self.include, self.library = language, include, library
        self.command = runner["command"] if isinstance(runner, dict) else runner
        self.environment = runner.get("env", {}) if isinstance(runner, dict) else {}
        self.work = work / language
        self.called = set()

    def run(self, scenario):
        """No handle is alive after it, and none was freed that nobody had made."""
        place = self.work / scenario.stem
        shutil.rmtree(place, ignore_errors=True)
        (place / "dir").mkdir(parents=True)
        file = place / "counts"
        preload = " ".join(filter(None, [self.environment.get("LD_PRELOAD", ""), str(self.library)]))
        environment = {**os.environ, **self.environment, "LD_PRELOAD": preload, "CKPT_TRACE": str(file)}
        run([*self.command, scenario, place / "dir", *suite.VARIABLES], env=environment)
        counts = tracer.Counts(self.include, file)
        called = {name for name, calls in counts.calls.items() if calls}
        assert called, "no call was seen: the trace was not loaded"
        self.called |= called
        left = {kind: n for kind, n in counts.alive.items() if n}
        strange = {kind: n for kind, n in counts.strange.items() if n}
        assert not left and not strange, f"alive: {left}; freed but not made: {strange}"
        shutil.rmtree(place, ignore_errors=True)

    def every_function(self):
        names = {f.name for f in tracer.functions(self.include)}
        listed = unwrapped(self.language)
        assert set(listed) <= names, f"listed, but not in the headers: {sorted(set(listed) - names)}"
        missing = sorted(names - self.called - set(listed))
        assert not missing, f"neither called by any scenario nor listed: {missing}"
        both = sorted(self.called & set(listed))
        assert not both, f"listed as not wrapped, but called: {both}"


def main(runners_json, include, scenarios, work):
    work = Path(work)
    library = tracer.make(include, work)
    claims = Claims()
    for language, runner in json.loads(Path(runners_json).read_text()).items():
        traced = Traced(language, runner, include, library, work)
        for scenario in sorted(Path(scenarios).glob("*.txt")):
            claims.check(f"{language}: no handle is left after {scenario.stem}", traced.run, scenario)
        claims.check(f"{language}: every function is called or listed with a reason", traced.every_function)
    return claims.end()


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
