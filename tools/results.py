#!/usr/bin/env python3
"""Results of tests: how many passed, the names of those that failed, and how long each step took.

  results.py add KIND NAME LOG STATUS    adds the results in the log of a test command to the file $CKPT_RESULTS, and
                                         prints them; STATUS is the command's exit status. KIND: claims (lines "NAME ...
                                         ok", at the end "N passed, N failed"), ctest (its JUnit report), go, cargo,
                                         pytest
  results.py show                        prints the steps, the failed tests and, as the last line, "N passed, N failed"
  results.py --self-test

A test that was skipped, ignored or did not run counts as failed. So does a command that ran no test or failed.
The file has lines of words separated by tabs: "began TIME", "step SECONDS TITLE", "passed COUNT", "failed NAME",
"why LINE".
"""
import os
import re
import sys
import time
import xml.etree.ElementTree as xml
from pathlib import Path

SHOWN_LINES, WHY = 80, 8
SUMMARY = re.compile(r"(\d+) passed, (\d+) failed")


class Report:
    """`failed`: names. `more`: the number of failed tests without a name in the log. `shown`: the text to print.
    `outputs`: that text by program."""
    def __init__(self, passed, failed, more=0, shown="", outputs=None):
        self.passed, self.failed, self.more, self.shown = passed, list(failed), max(more, 0), shown
        self.outputs = outputs or [shown]

    def key(self):
        return self.passed, self.failed, self.more


def claims(text):
    names = re.findall(r"^(.+) \.\.\. (?:FAIL(?:ED)?|ERROR|skipped.*)$", text, re.M)
    last = SUMMARY.fullmatch((text.rstrip().splitlines() or [""])[-1])
    if not last:
        return Report(0, names, 1, shown=text)
    passed, failed = int(last[1]), int(last[2])
    return Report(passed, names[:failed], failed - len(names), re.sub(r"(?m)^.* \.\.\. ok\n", "", text))


def share(case):
    """How many tests of a case passed, and the names of the others. A share (tests/CMakeLists.txt) is many tests, and
    one of them may run the same program: what is told last counts."""
    name, good, text = case.get("name"), case.get("status") == "run", case.findtext("system-out") or ""
    if ".share_" not in name:
        inside = re.findall(r"^\[  FAILED  \] ([^\s,]+)(?:, .*)? \(\d+ ms\)$", text, re.M)
        return int(good), [] if good else [f"{name}: {test}" for test in inside if not name.endswith(test)] or [name]
    ran = re.findall(r"^\[==========\] (\d+) tests? from .* ran\.", text, re.M)
    passed = [0, *map(int, re.findall(r"^\[  PASSED  \] (\d+) tests?\.$", text, re.M))][-1]
    listed = re.findall(r"^\[  (?:FAILED |SKIPPED) \] ([^\s,]+)(?: \(\d+ ms\)|,.*)?$", text, re.M)
    failed = sorted({f"{name}: {test}" for test in listed})
    complete = bool(ran) and passed + len(failed) == int(ran[-1])
    return passed, failed if complete and good == ("[  FAILED  ]" not in text) else [*failed, name]


def ctest(text):
    cases = list(xml.fromstring(text).iter("testcase")) if text else []
    results = [(case, *share(case)) for case in cases]
    rooms = {case.get("name").split(".share_")[0]: 0 for case in cases if ".share_" in case.get("name")}
    for case, passed, failed in results:
        if ".share_" in case.get("name"):
            rooms[case.get("name").split(".share_")[0]] += passed + len(failed)
    empty = [f"{room}: no test ran" for room, count in rooms.items() if count == 0]
    outputs = [f"{case.get('name')}: {case.get('status')}\n{(case.findtext('system-out') or '').strip()}\n"
               f"{case.get('name')} ended after {case.get('time')} s" for case, _, failed in results if failed]
    return Report(sum(passed for _, passed, _ in results), empty + [name for *_, failed in results for name in failed],
                  0, "\n".join(outputs), outputs)


def go(text):
    """`go test -v`: top-level tests, skips at any depth, and packages that did not build or ended early."""
    names = re.findall(r"^(?:--- FAIL:|\s*--- SKIP:) (\S+)", text, re.M)
    packages = re.findall(r"^FAIL\t(.+)", text, re.M)
    return Report(len(re.findall(r"^--- PASS:", text, re.M)), names or packages, shown=text)


def cargo(text):
    results = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", text, re.M)
    names = re.findall(r"^test (.+?) \.\.\. (?:FAILED|ignored)", text, re.M)
    failed = sum(int(bad) + int(ignored) for _, bad, ignored in results)
    unbuilt = re.findall(r"^error: (could not compile.*|test failed.*)", text, re.M)
    return Report(sum(int(good) for good, _, _ in results), names or unbuilt, failed - len(names), text)


def pytest(text):
    """`pytest -q -rfEsxX`: the list and the summary at its end."""
    lines = re.findall(r"^.*\b\d+ \w+.* in [\d.]+s.*$", text, re.M)
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", lines[-1])} if lines else {}
    failed = sum(counts.get(word, 0) for word in ("failed", "error", "errors", "skipped", "xfailed", "xpassed"))
    names = re.findall(r"^(?:FAILED|ERROR|SKIPPED|XFAIL|XPASS) (.+?)(?: - .*)?$", text, re.M)
    return Report(counts.get("passed", 0), names[:failed], failed - len(names), text)


KINDS = {"claims": claims, "ctest": ctest, "go": go, "cargo": cargo, "pytest": pytest}


def read(kind, text, status):
    report = KINDS[kind](text)
    if not report.failed and not report.more and (status != 0 or not report.passed):
        report.failed = [f"exit status {status}, {report.passed} passed"]
        report.shown, report.outputs = text, [text]
    return report


def add(kind, name, log, status):
    text = Path(log).read_text(errors="replace") if Path(log).exists() else ""
    report = read(kind, text, status)
    failed = [f"{name}: {test}" for test in report.failed]
    failed += [f"{name}: a test without a name in {log}"] * report.more
    if failed:
        print("\n".join("      " + line for line in report.shown.splitlines()[-SHOWN_LINES:]))
        print(f"      (all of it: {log})")
    print(f"   {name}: {report.passed} passed, {len(failed)} failed", flush=True)
    with open(os.environ["CKPT_RESULTS"], "a") as results:
        results.write(f"passed\t{report.passed}\n" + "".join(f"failed\t{test}\n" for test in failed))
        results.write("".join(f"why\t{line}\n" for output in report.outputs[:WHY] if failed for line in why(output)))


def why(text):
    """What is told at the very end, which may be all that is seen of a run: the first assertions of GoogleTest that
    failed, what a sanitizer found, or the last lines, which tell of a death."""
    asserts = re.findall(r"^(?:\S+:\d+: Failure\n(?:.+\n?){1,5}|.*(?:ERROR|SUMMARY): \w+Sanitizer.*\n?)", text, re.M)
    return "".join(asserts[:2]).splitlines() or text.splitlines()[-5:]


def show():
    lines = [line.split("\t") for line in Path(os.environ["CKPT_RESULTS"]).read_text().splitlines()]
    began = next(float(line[1]) for line in lines if line[0] == "began")
    steps = [(float(line[1]), line[2]) for line in lines if line[0] == "step"]
    failed = [line[1] for line in lines if line[0] == "failed"]
    passed = sum(int(line[1]) for line in lines if line[0] == "passed")
    print("\n  seconds  step")
    for seconds, title in steps:
        print(f"{seconds:9.1f}  {title}")
    print(f"{time.time() - began:9.1f}  all of them, some side by side\n")
    for line in lines:
        if line[0] in ("why", "failed"):
            print({"why": "    ", "failed": "FAILED "}[line[0]] + "\t".join(line[1:]))
    print(f"{passed} passed, {len(failed)} failed", flush=True)
    return 1 if failed or not passed else 0


CASES = '<testsuite><testcase name="A" status="run"/><testcase name="B" status="fail"/></testsuite>'
SHARE = '<testsuite><testcase name="a.share_1_of_2" status="{}"><system-out>{}</system-out></testcase></testsuite>'
RAN = "[==========] {} tests from 2 test suites ran. (4 ms total)\n[  PASSED  ] {} tests.\n"
FAILED = "[  FAILED  ] S.T (1 ms)\n" + RAN.format(7, 6) + "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] S.T\n"
SKIPPED = RAN.format(7, 6) + "[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] S.T\n"
KNOWN = (
    (claims, "a: b ... ok\nc ... FAILED\n  why\n1 passed, 1 failed\n", (1, ["c"], 0)),
    (claims, "t (m.C.t) ... ok\nu (m.C.u) ... ERROR\nv ... skipped 'x'\n1 passed, 3 failed\n",
     (1, ["u (m.C.u)", "v"], 1)),
    (claims, "c ... FAILED\nTraceback\n", (0, ["c"], 1)),
    (ctest, CASES, (1, ["B"], 0)),
    (ctest, SHARE.format("fail", FAILED).replace(".share_1_of_2", ""), (0, ["a: S.T"], 0)),
    (ctest, SHARE.format("run", RAN.format(7, 7)), (7, [], 0)),
    (ctest, SHARE.format("run", RAN.format(72, 72) + RAN.format(7, 7)), (7, [], 0)),
    (ctest, SHARE.format("fail", FAILED), (6, ["a.share_1_of_2: S.T"], 0)),
    (ctest, SHARE.format("run", SKIPPED), (6, ["a.share_1_of_2: S.T"], 0)),
    (ctest, SHARE.format("fail", RAN.format(7, 7) + "LeakSanitizer\n"), (7, ["a.share_1_of_2"], 0)),
    (ctest, SHARE.format("fail", "[ RUN      ] S.T\nAddressSanitizer\n"), (0, ["a.share_1_of_2"], 0)),
    (ctest, SHARE.format("run", RAN.format(7, 6)), (6, ["a.share_1_of_2"], 0)),
    (ctest, SHARE.format("run", RAN.format(0, 0)), (0, ["a: no test ran"], 0)),
    (ctest, SHARE.format("run", ""), (0, ["a.share_1_of_2"], 0)),
    (go, "--- PASS: TestA (0.00s)\n    --- PASS: TestA/x (0.00s)\nok  \tckpt\t0.1s\n", (1, [], 0)),
    (go, "--- PASS: TestA (0.00s)\n    --- SKIP: TestA/x (0.00s)\n--- SKIP: TestB (0.00s)\n",
     (1, ["TestA/x", "TestB"], 0)),
    (go, "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/x (0.00s)\nFAIL\tckpt\t0.1s\n", (0, ["TestA"], 0)),
    (go, "FAIL\tckpt [build failed]\n", (0, ["ckpt [build failed]"], 0)),
    (cargo, "test a::b ... ok\ntest c ... ignored\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n",
     (3, ["c"], 0)),
    (cargo, "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured\n", (3, [], 1)),
    (cargo, "error: could not compile `ckpt`\n", (0, ["could not compile `ckpt`"], 0)),
    (pytest, "FAILED a.py::t[1 - 2] - assert 1\nSKIPPED [1] a.py:3: why\n7 passed, 1 failed, 1 skipped in 1.20s\n",
     (7, ["a.py::t[1", "[1] a.py:3: why"], 0)),
    (pytest, "7 passed, 1 skipped, 2 warnings in 1.20s\n", (7, [], 1)),
    (pytest, "", (0, [], 0)),
)


def self_test():
    for kind, text, expected in KNOWN:
        found = kind(text).key()
        assert found == expected, f"{kind.__name__}: expected {expected}, found {found} in\n{text}"
    for status, text in ((1, "7 passed in 1.20s\n"), (0, "")):
        assert len(read("pytest", text, status).failed) == 1, text
    # A share that ends with a leak names no test, so its end must say why.
    leak = "==1==ERROR: LeakSanitizer: detected memory leaks\n"
    assert ctest(SHARE.format("fail", RAN.format(7, 7) + leak)).outputs[0].count(leak) == len(why(leak)) == 1
    print(f"{len(KNOWN) + 3} passed, 0 failed")


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if arguments == ["show"]:
        return show()
    if len(arguments) == 5 and arguments[0] == "add":
        return add(*arguments[1:4], int(arguments[4]))
    return __doc__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
