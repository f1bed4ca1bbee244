#!/usr/bin/env python3
"""Counts the tests in the output of other languages' test commands.

  test_counts.py go|cargo|pytest LOG      prints "N passed, N failed"; a test that was skipped or ignored failed
  test_counts.py --self-test

A log without any result is one failure: the command did not come to its tests.
"""
import re
import sys
from pathlib import Path


def go(text):
    """`go test -v`: tests of the top level, skips at any depth, and packages that did not build or ended early."""
    passed = len(re.findall(r"^--- PASS:", text, re.M))
    failed = len(re.findall(r"^--- FAIL:|^\s*--- SKIP:", text, re.M))
    packages = len(re.findall(r"^FAIL\t", text, re.M))
    return passed, failed or packages


def cargo(text):
    results = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", text, re.M)
    unbuilt = len(re.findall(r"^error: (?:could not compile|test failed)", text, re.M))
    failed = sum(int(bad) + int(ignored) for _, bad, ignored in results)
    return sum(int(good) for good, _, _ in results), failed or unbuilt


def pytest(text):
    """The summary line of `pytest -q`."""
    lines = re.findall(r"^.*\b\d+ \w+.* in [\d.]+s.*$", text, re.M)
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", lines[-1])} if lines else {}
    passed = counts.pop("passed", 0)
    return passed, sum(counts.get(word, 0) for word in ("failed", "error", "errors", "skipped", "xfailed", "xpassed"))


KNOWN = (
    (go, "--- PASS: TestA (0.00s)\n    --- PASS: TestA/x (0.00s)\nok  \tckpt\t0.1s\n", (1, 0)),
    (go, "--- PASS: TestA (0.00s)\n    --- SKIP: TestA/x (0.00s)\n--- SKIP: TestB (0.00s)\n", (1, 2)),
    (go, "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/x (0.00s)\nFAIL\tckpt\t0.1s\n", (0, 1)),
    (go, "FAIL\tckpt [build failed]\n", (0, 1)),
    (cargo, "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n", (3, 1)),
    (cargo, "error: could not compile `ckpt`\n", (0, 1)),
    (pytest, "7 passed, 1 skipped, 2 warnings in 1.20s\n", (7, 1)),
    (pytest, "", (0, 0)),
)


def self_test():
    for kind, text, expected in KNOWN:
        assert kind(text) == expected, f"{kind.__name__}: expected {expected}, found {kind(text)} in\n{text}"
    print(f"{len(KNOWN)} passed, 0 failed")


def main(kind, log):
    passed, failed = {"go": go, "cargo": cargo, "pytest": pytest}[kind](Path(log).read_text(errors="replace"))
    print(f"{passed} passed, {failed if passed or failed else 1} failed")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    elif len(sys.argv) == 3:
        main(*sys.argv[1:])
    else:
        sys.exit(__doc__)
