#!/usr/bin/env python3
"""Runs the conformance suite with the runners of all languages: README.md says what a runner is.

  run.py RUNNERS_JSON WORK               RUNNERS_JSON: {"c": ["/path/conformance_c"],
                                                        "go": {"command": ["/path/runner"], "env": {"GODEBUG": "…"}}}
  run.py --self-test RUNNERS_JSON WORK   proves with the first runner that lazy runners and broken scenarios are caught

WORK is a folder for scratch data, made where it is not there. One line per claim, then "N passed, N failed".
"""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What scenarios are given: the folder of PyTorch's files, and a name as long as names may be.
VARIABLES = [f"FILES={HERE.parent.parent / 'bindings' / 'torch' / 'tests' / 'files'}", f"LONG={'n' * 4096}"]
TIMEOUT_S = 600


class Runner:
    def __init__(self, name, given):
        given = given if isinstance(given, dict) else {"command": given}
        self.name, self.command, self.env = name, given["command"], {**os.environ, **given.get("env", {})}

    def run(self, *arguments):
        """(exit status, stdout, stderr); a runner that hangs or cannot be started is a failure like others."""
        try:
            done = subprocess.run([*self.command, *map(str, arguments)], env=self.env, capture_output=True,
                                  text=True, errors="replace", timeout=TIMEOUT_S)
            return done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            return -1, "", f"still running after {TIMEOUT_S} s"
        except OSError as error:
            return -1, "", str(error)

    def scenario(self, path, folder):
        """None where the runner says that all holds and did every command; else what went wrong."""
        status, out, err = self.run(path, folder, *VARIABLES)
        want = f"ok {len(commands_in(path.read_text()))}"
        said = out.strip().splitlines()[-1] if out.strip() else ""
        if status == 0 and said == want and not err.strip():
            return None
        return err.strip() or f"exit status {status}; expected '{want}' on stdout, found '{said}'"


def commands_in(text):
    """(line number, command) of every line that holds one."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words and not words[0].startswith("#"):
            found.append((number, words[0]))
    return found


def commands_used(text):
    used = {command for _, command in commands_in(text)}
    return used | set(re.findall(r"^\s*timed\s+(\S+)", text, flags=re.M))


def commands_in_readme(text):
    """The first column of the table under "Commands"; several commands in one row are divided by commas or slashes."""
    section = text.split("## Commands", 1)[1]
    names = set()
    for row in re.findall(r"^\|((?:\\\||[^|\n])*)\|", section, flags=re.M):
        for code in re.findall(r"`([^`]+)`", row):
            names.add(code.split()[0])
    return names


def expecting_in_readme(text):
    """command -> the keys that it expects something of (KEY=EXPECT in the table), or None: all that it is given."""
    section, found = text.split("## Commands", 1)[1], {}
    for code in re.findall(r"`([^`\n]*EXPECT[^`\n]*)`", section):
        found[code.split()[0]] = set(re.findall(r"(\w+)=EXPECT", code)) or None
    return found


def expectations(line, expecting):
    """(the command, its keys that something is expected of, the line without these)."""
    words = line.split(" -> ")[0].split()
    words = words[words[:1] == ["timed"]:]
    if not words or words[0] not in expecting:
        return "", [], line
    wanted = expecting[words[0]]
    pairs = [word for word in words[1:] if "=" in word and word[0] not in "@#"]
    pairs = [pair for pair in pairs if wanted is None or pair.split("=")[0] in wanted]
    return words[0], [pair.split("=")[0] for pair in pairs], " ".join(word for word in words if word not in pairs)


def self_lines(folder):
    """(the text of self/prelude.txt, the lines of self/wrong.txt)"""
    folder = folder / "scenarios" / "self"
    lines = [line for line in (folder / "wrong.txt").read_text().splitlines() if line and not line.startswith("#")]
    return (folder / "prelude.txt").read_text(), lines


def right_lines(lines, expecting):
    """What is left of wrong lines without their expectations is right: so it is these that they fail by."""
    found = [expectations(line, expecting) for line in lines]
    return "".join(dict.fromkeys(f"{rest}\n" for _, keys, rest in found if keys))


def missed_line(line, begin, status, out, err):
    """Nothing where the runner failed at this wrong line, with a message that begins so; else what it did instead."""
    last = err.strip().splitlines()[-1] if err.strip() else ""
    if status == 1 and last.startswith(begin) and not re.search(r"^ok\b", out, flags=re.M):
        return []
    return [f"{line}\n        exit status {status}: {last or out.strip()}"]


class Suite:
    def __init__(self, folder, runners, work):
        self.folder, self.runners, self.work = folder, runners, work
        self.passed, self.failures = 0, []
        self.scenarios = sorted((folder / "scenarios").glob("*.txt"))
        self.expecting = expecting_in_readme((folder / "README.md").read_text())

    def claim(self, name, problem):
        """`problem`: None, or the text that says why the claim does not hold."""
        print(f"{name} ... {'ok' if problem is None else 'FAILED'}", flush=True)
        if problem is None:
            self.passed += 1
            return
        self.failures.append(name)
        print("".join(f"    {line}\n" for line in problem.splitlines()), end="", flush=True)

    def fresh(self, name):
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    # ---- the lists ----
    def check_lists(self):
        listed = commands_in_readme((self.folder / "README.md").read_text())
        used = set()
        for path in (self.folder / "scenarios").rglob("*.txt"):
            if path.name != "wrong.txt":
                used |= commands_used(path.read_text())
        if used != listed:
            self.claim("every command of README.md is used", f"only in one of them: {sorted(used ^ listed)}")
        else:
            self.claim(f"every one of {len(listed)} commands of README.md is used", None)
        self.check_expectations()
        for runner in self.runners:
            status, out, err = runner.run("--commands")
            known, problem = out.split(), None
            if status != 0 or known != sorted(listed):
                differ = f"only in one of them: {sorted(set(known) ^ listed)}" if set(known) != listed else "not sorted"
                problem = f"exit status {status}; {differ}\n{err}"
            self.claim(f"{runner.name}: knows the commands of README.md, sorted", problem)

    def check_expectations(self):
        used, wrong = set(), set()
        for path in (self.folder / "scenarios").rglob("*.txt"):
            for line in path.read_text().splitlines():
                command, keys, _ = expectations(line, self.expecting)
                (wrong if path.name == "wrong.txt" else used).update(f"{command} {key}=" for key in keys)
        problem = f"no wrong line for: {sorted(used - wrong)}" if used - wrong else None
        self.claim("every key that some scenario expects something of has a wrong line", problem)

    # ---- scenarios ----
    def check_scenarios(self):
        for runner in self.runners:
            for path in self.scenarios:
                folder = self.fresh(f"{runner.name}/{path.stem}")
                self.claim(f"{runner.name}: {path.stem}", runner.scenario(path, folder))
                shutil.rmtree(folder, ignore_errors=True)

    def check_wrong_lines(self):
        """Each line of self/wrong.txt, put behind self/prelude.txt, must make the runner fail at that very line."""
        prelude, lines = self_lines(self.folder)
        for runner in self.runners:
            right = self.fresh(f"{runner.name}/self") / "right.txt"
            right.write_text(prelude + right_lines(lines, self.expecting))
            problem = runner.scenario(right, self.fresh("self"))
            self.claim(f"{runner.name}: self/prelude, and the wrong lines without their expectations", problem)
            missed, scenario = [], right.with_name("wrong.txt")
            for line in lines:
                scenario.write_text(prelude + line + "\n")
                status, out, err = runner.run(scenario, self.fresh("self"), *VARIABLES)
                missed += missed_line(line, f"{scenario}:{len(prelude.splitlines()) + 1}: ", status, out, err)
            self.claim(f"{runner.name}: fails at each of {len(lines)} wrong lines", "\n".join(missed) or None)

    # ---- the matrix ----
    def check_matrix(self):
        """What each runner saves, each loads and finds bit for bit."""
        folder = self.folder / "scenarios" / "matrix"
        for saver in self.runners:
            data = self.fresh(f"matrix-{saver.name}")
            problem = saver.scenario(folder / "save.txt", data)
            self.claim(f"matrix: {saver.name} saves", problem)
            for loader in self.runners:
                problem = loader.scenario(folder / "load.txt", data)
                self.claim(f"matrix: {saver.name} saves, {loader.name} loads", problem)
            shutil.rmtree(data)

    def check_all(self):
        self.check_lists()
        self.check_scenarios()
        self.check_wrong_lines()
        self.check_matrix()
        print(f"{self.passed} passed, {len(self.failures)} failed")
        return not self.failures


def load_runners(path):
    return [Runner(name, given) for name, given in json.loads(Path(path).read_text()).items()]


def main(arguments):
    self_test = arguments[:1] == ["--self-test"]
    if self_test:
        arguments = arguments[1:]
    if len(arguments) != 2:
        sys.exit(__doc__)
    runners, work = load_runners(arguments[0]), Path(arguments[1]).resolve()
    work.mkdir(parents=True, exist_ok=True)
    if self_test:
        sys.dont_write_bytecode = True  # nothing is written into the source tree
        import self_test as proofs
        return proofs.run(HERE, runners[0], work)
    return Suite(HERE, runners, work).check_all()


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
