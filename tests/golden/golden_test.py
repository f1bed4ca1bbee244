#!/usr/bin/env python3
"""Runs the reference reader over golden checkpoints, and over what today's library writes.

    golden_test.py committed          tests/golden/r*/NAME hold what NAME.json says; those of r0, which nobody reads any
                                      more, and tests/golden/bad/* are refused
    golden_test.py fresh MAKE_GOLDEN  the same for a store that MAKE_GOLDEN writes; `--check-all` must find it sound
"""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import reference_reader  # noqa: E402  (found by the path above)

IDENTITY = ("label", "run", "step", "world_size")


def canonical(values):
    return json.dumps(values, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def compare(directory):
    """Returns the names of the checkpoints in `directory` that do not hold what their .json says."""
    names = sorted(name[:-5] for name in os.listdir(directory) if name.endswith(".json"))
    assert names, f"{directory}: no goldens"
    wrong = []
    for name in names:
        found = reference_reader.read_checkpoint(os.path.join(directory, name)).dump()
        found["identity"] = {field: found["identity"][field] for field in IDENTITY}
        with open(os.path.join(directory, name + ".json"), encoding="utf-8") as file:
            same = file.read() == canonical(found)
        print(f"{'ok' if same else 'DIFFERS'}  {name}")
        if not same:
            sys.stdout.write(canonical(found))
            wrong.append(name)
    return wrong


# The exception of the reference reader for each status of the library.
ERRORS = {"CORRUPT": reference_reader.CorruptError, "FORMAT": reference_reader.FormatError,
          "REVISION": reference_reader.RevisionError, "UNSUPPORTED": reference_reader.UnsupportedError,
          "INCOMPLETE": reference_reader.CorruptError, "MISMATCH": reference_reader.MismatchError,
          "ABORTED": reference_reader.NotCommittedError}


def refuse(directory, status=None):
    """Every checkpoint must be refused with that status; of hostile ones STATUS-what the name says which."""
    wrong = []
    for name in sorted(name for name in os.listdir(directory) if not name.endswith(".json")):
        expected = ERRORS[status or name.split("-")[0]]
        try:
            reference_reader.read_checkpoint(os.path.join(directory, name)).dump()
            found = "accepted"
        except reference_reader.CheckpointError as error:
            found = None if isinstance(error, expected) else f"{type(error).__name__}: {error}"
        print(f"{found or 'ok'}  {name}")
        if found:
            wrong.append(name)
    return wrong


def committed():
    wrong = []
    for revision in sorted(name for name in os.listdir(HERE) if name.startswith("r")):
        directory = os.path.join(HERE, revision)
        wrong += compare(directory)
    return wrong + refuse(os.path.join(HERE, "bad"))


def fresh(make_golden):
    with tempfile.TemporaryDirectory() as store:
        subprocess.run([make_golden, store], check=True)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            damaged = reference_reader.check_all(store)
        print(output.getvalue(), end="")
        return compare(store) + ["--check-all"] * bool(damaged)


if __name__ == "__main__":
    sys.exit(1 if (committed() if sys.argv[1] == "committed" else fresh(sys.argv[2])) else 0)
