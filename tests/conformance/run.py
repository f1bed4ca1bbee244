#!/usr/bin/env python3
"""Runs the conformance suite with the runners of all languages; README.md describes runners.

  run.py RUNNERS_JSON WORK               RUNNERS_JSON: {"c": ["/path/runner"], "go": ["env", "A=B", "/path/runner"]}
  run.py --short RUNNERS_JSON WORK       the same without the wrong lines, each of which is a process
  run.py --only NAME RUNNERS_JSON WORK   one scenario
  run.py --self-test RUNNERS_JSON WORK   proves with the first runner that the suite finds what is wrong

WORK is a folder for scratch data; it is made if missing. Prints one line per claim, then "N passed, N failed".
"""
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True  # nothing is written into the source tree
sys.path.append(str(HERE.parent / "languages"))

import scenario  # noqa: E402
import wrong_lines  # noqa: E402
from claims import Claims  # noqa: E402
from runner import load_runners  # noqa: E402


class Suite(Claims):
    def __init__(self, folder, runners, work):
        super().__init__()
        self.folder, self.runners, self.work = folder, runners, work
        self.scenarios = sorted((folder / "scenarios").glob("*.txt"))
        self.table = scenario.read_table((folder / "commands.md").read_text())

    def fresh(self, name):
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    # ---- the lists ----
    def check_lists(self):
        listed, used, expecting, wrong = set(self.table), set(), set(), set()
        for path in (self.folder / "scenarios").rglob("*.txt"):
            for line in path.read_text().split("\n"):
                name, expected, _ = wrong_lines.expectations(line)
                (wrong if path.name == "wrong.txt" else expecting).update({name} if expected else ())
                used |= {name} if name and path.name != "wrong.txt" else set()
        self.claim(f"every one of {len(listed)} commands of the table is used", differing(used, listed))
        problem = f"no wrong line for: {sorted(expecting - wrong)}" if expecting - wrong else None
        self.claim("every command that some scenario expects something of has a wrong line", problem)

    # ---- scenarios ----
    def check_scenarios(self):
        for runner in self.runners:
            for path in self.scenarios:
                folder = self.fresh(f"{runner.name}/{path.stem}")
                self.claim(f"{runner.name}: {path.stem}", runner.problem(path, folder))
                shutil.rmtree(folder, ignore_errors=True)

    def check_wrong_lines(self):
        """Each line of self/wrong.txt, put after self/prelude.txt, must fail. What compares is the same for all
        runners, so one is enough."""
        runner, (prelude, lines) = self.runners[0], wrong_lines.self_lines(self.folder)
        right = prelude + wrong_lines.right_lines(lines)
        problem = runner.problem("right.txt", self.fresh("self"), right)
        self.claim("self/prelude is right, and so are the wrong lines without their expectations", problem)
        missed = []
        for line in lines:
            problem = runner.problem("wrong.txt", self.fresh("self"), f"{prelude}{line}\n")
            missed += wrong_lines.missed(line, prelude, problem)
        self.claim(f"each of {len(lines)} wrong lines fails", "\n".join(missed) or None)

    # ---- the matrix ----
    def check_matrix(self):
        """Every runner loads what every runner saved, bit for bit."""
        folder = self.folder / "scenarios" / "matrix"
        for saver in self.runners:
            data = self.fresh(f"matrix-{saver.name}")
            problem = saver.problem(folder / "save.txt", data)
            self.claim(f"matrix: {saver.name} saves", problem)
            for loader in self.runners:
                problem = loader.problem(folder / "load.txt", data)
                self.claim(f"matrix: {saver.name} saves, {loader.name} loads", problem)
            shutil.rmtree(data)

    def check_all(self, short=False):
        self.check_lists()
        self.check_scenarios()
        if not short:
            self.check_wrong_lines()
        self.check_matrix()
        return self.end() == 0


def differing(found, wanted):
    return f"only in one of them: {sorted(found ^ wanted)}" if found != wanted else None


def main(arguments):
    option = arguments.pop(0) if arguments[:1] in (["--self-test"], ["--short"], ["--only"]) else ""
    only = arguments.pop(0) if option == "--only" and arguments else None
    if len(arguments) != 2:
        sys.exit(__doc__)
    runners, work = load_runners(arguments[0]), Path(arguments[1]).resolve()
    work.mkdir(parents=True, exist_ok=True)
    if option == "--self-test":
        import self_test as proofs
        return proofs.run(HERE, runners[0], work)
    suite = Suite(HERE, runners, work)
    if only:
        suite.scenarios = [path for path in suite.scenarios if path.stem == only]
        suite.check_scenarios()
        return suite.end() == 0
    return suite.check_all(short=option == "--short")


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
