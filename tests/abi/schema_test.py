#!/usr/bin/env python3
"""Checkpoints outlive the schema that wrote them, so schemas/ckpt.fbs must keep everything of earlier schemas.

The schema of format 1.0 is frozen: its digest is known here. Earlier schemas are tests/golden/schema/*.fbs (a copy for
each release, never edited) and, in a git checkout, the one committed last. `flatc --conform` guards tables, but does
not notice structs that grow: their fields are compared here.
Environment: FLATC.
"""
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "schemas" / "ckpt.fbs"
FROZEN = "3ca6cc6e21d859a4b499409ca05788c0f4eb70c5d928c074f5a40e85c6a365df"


def earlier_schemas(folder):
    found = sorted((ROOT / "tests" / "golden" / "schema").glob("*.fbs"))
    git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT)]
    committed = subprocess.run(git + ["show", "HEAD:schemas/ckpt.fbs"], capture_output=True)
    if committed.returncode == 0:
        path = Path(folder) / "HEAD.fbs"
        path.write_bytes(committed.stdout)
        found.append(path)
    return found


def frozen():
    """What of the schema differs from format 1.0. Comments and spaces do not count."""
    words = re.sub(r"\s+", " ", re.sub(r"//[^\n]*", "", SCHEMA.read_text())).strip()
    found = hashlib.sha256(words.encode()).hexdigest()
    if found == FROZEN:
        return []
    return [f"{SCHEMA.name} is not that of format 1.0: digest {found}, expected {FROZEN}. Only fields at the end of "
            "tables may be added, for what a reader may pass over or a bit of required_features tells (FORMAT.md §9): "
            "if that is so, say in FORMAT.md since which version, and put the new digest here"]


def structs(path):
    """name -> fields in order, as written without comments and spaces."""
    text = re.sub(r"//[^\n]*", "", path.read_text())
    found = re.findall(r"\bstruct\s+(\w+)\s*(?:\([^)]*\))?\s*\{(.*?)\}", text, flags=re.S)
    return {name: [re.sub(r"\s+", "", field) for field in body.split(";") if field.strip()] for name, body in found}


def check(earlier):
    flatc = os.environ.get("FLATC", "flatc")
    done = subprocess.run([flatc, "--conform", str(earlier), str(SCHEMA)], capture_output=True, text=True)
    problems = [done.stdout + done.stderr] if done.returncode else []
    now = structs(SCHEMA)
    for name, fields in structs(earlier).items():
        if now.get(name) != fields:
            problems.append(f"struct {name}: expected {fields}, found {now.get(name)}")
    return [f"{earlier.name}: {problem}" for problem in problems]


def main():
    with tempfile.TemporaryDirectory() as folder:
        earlier = earlier_schemas(folder)
        problems = [problem for path in earlier for problem in check(path)]
    problems += frozen()
    if not earlier:
        problems.append("no earlier schema found: tests/golden/schema/ is empty")
    print("\n".join(problems) or f"conforms to {', '.join(path.name for path in earlier)}")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
