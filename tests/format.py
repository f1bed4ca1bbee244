#!/usr/bin/env python3
"""C and C++ are formatted as clang-format 19 does it with .clang-format.

  format.py              names the files that are not
  format.py --fix        formats them
  format.py --self-test  proves that a file that is not formatted is found

tools/test installs clang-format from PyPI into build/venv, the same version on every system; else the one of the system
is taken if its version fits. Without any the test is skipped, which tools/test counts as failed.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tidy

ROOT = Path(__file__).resolve().parents[1]
VERSION = "19"
SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".inc"}
SKIP = 77


def clang_format():
    """The program, or None."""
    for folder in (Path(sys.executable).parent, ROOT / "build/venv/bin"):
        if (folder / "clang-format").exists():
            return str(folder / "clang-format")
    for name in (f"clang-format-{VERSION}", "clang-format"):
        program = shutil.which(name)
        if program:
            said = subprocess.run([program, "--version"], text=True, stdout=subprocess.PIPE, check=True).stdout
            if re.search(rf"version {VERSION}\.", said):
                return program
    return None


def unformatted(program, files):
    done = subprocess.run([program, "--dry-run", "-Werror", *map(str, files)], text=True, stderr=subprocess.PIPE,
                          check=False)
    found = sorted(set(re.findall(r"^(.+?):\d+:\d+: error:", done.stderr, flags=re.M)))
    if bool(found) != bool(done.returncode):
        sys.exit(done.stderr)
    return found


def self_test(program):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / ".clang-format", folder)
        good, bad = Path(folder) / "good.cpp", Path(folder) / "bad.cpp"
        good.write_text("int* a;\n")
        bad.write_text("int *a;\n")
        found = unformatted(program, [good, bad])
        return [] if found == [str(bad)] else [f"expected {bad}, found {found}"]


def main(arguments):
    program = clang_format()
    if not program:
        print(f"SKIPPED: no clang-format {VERSION} (pip install clang-format=={VERSION}.1.7)")
        return SKIP
    if arguments == ["--self-test"]:
        problems = self_test(program)
    else:
        files = [path for path, _ in tidy.sources(ROOT) if path.suffix in SUFFIXES]
        problems = unformatted(program, files)
        if arguments == ["--fix"] and problems:
            subprocess.run([program, "-i", *problems], check=True)
        elif arguments not in ([], ["--fix"]):
            sys.exit(__doc__)
    print("\n".join(problems) or "nothing found")
    return bool(problems) and arguments != ["--fix"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
