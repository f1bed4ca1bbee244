#!/usr/bin/env python3
"""Counts the tests in the output of other languages' test commands.

  test_counts.py go|cargo|pytest LOG      prints "N passed, N failed"; a test that was skipped or ignored failed

A log without any result is one failure: the command did not come to its tests.
"""
import re
import sys
from pathlib import Path


def go(text):
    """`go test -v`: tests of the top level, and packages that did not build or ended early."""
    passed = len(re.findall(r"^--- PASS:", text, re.M))
    failed = len(re.findall(r"^--- (?:FAIL|SKIP):", text, re.M))
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


def main(kind, log):
    passed, failed = {"go": go, "cargo": cargo, "pytest": pytest}[kind](Path(log).read_text(errors="replace"))
    print(f"{passed} passed, {failed if passed or failed else 1} failed")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
