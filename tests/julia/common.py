"""What the checks of Ckpt.jl share: places, claims, and copies of the package with a planted error."""

import contextlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings" / "julia"
SUITE = ROOT / "tests" / "conformance"
RUNNER = SUITE / "runner_julia"


class Claims:
    def __init__(self):
        self.passed, self.failed = 0, 0

    def claim(self, name, problems):
        """`problems`: texts; none where the claim holds."""
        problems = list(problems)
        print(f"{name} ... {'FAILED' if problems else 'ok'}", flush=True)
        for problem in problems[:40]:
            print("    " + str(problem).replace("\n", "\n    "), flush=True)
        self.passed += not problems
        self.failed += bool(problems)

    def found(self, what, wanted, problems):
        """The claim that a check found an error that was planted for it: `wanted` is part of one of its problems."""
        good = any(wanted in str(problem) for problem in problems)
        self.claim(f"planted and found: {what}", [] if good else [f"expected '{wanted}', found {problems[:5]}"])


@contextlib.contextmanager
def planted(folder, file, before, after):
    """A copy of a folder in which one text, which must be there, stands for another."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
        text = (copy / file).read_text()
        if before not in text:
            raise RuntimeError(f"{file} has no {before!r}: this proof is out of date")
        (copy / file).write_text(text.replace(before, after, 1))
        yield copy


def readme_blocks():
    """The Julia programs of the package's README."""
    return re.findall(r"^```julia\n(.*?)^```", (PACKAGE / "README.md").read_text(), flags=re.M | re.S)


def run(command, **settings):
    """(exit status, stdout, stderr)."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, errors="replace", timeout=1200, **settings
    )
    return done.returncode, done.stdout, done.stderr
