#!/usr/bin/env python3
"""The first program of each README, and of each path of docs/start.md, runs unchanged: it saves, loads, and takes its
store as argument. That of who looks after a store, or writes a reader, reads one.

Each program exits with a status other than 0 if it loads other data than it saved; the trace shows that it loads.

  readme_test.py PREFIX PYTHON WORK LANGUAGE…      LANGUAGE: cpp rust go python jax; c, front (of the front page);
                                                   operator reader
"""
import os
import re
import shutil
import sys
from pathlib import Path

import tracer
from claims import Claims, run

REPOSITORY = Path(__file__).resolve().parents[2]
BINDINGS = REPOSITORY / "bindings"
FIRST_SCREEN = 60  # lines of a README in which its programs have to begin
LOADS = ("ckpt_load_run", "ckpt_load_start")


def first_program(readme, fence):
    """The first block fenced as ```FENCE; it must begin on the first screen."""
    text = readme.read_text()
    match = re.search(rf"^```{fence}\n(.*?)^```", text, re.M | re.S)
    assert match, f"{readme}: no block ```{fence}"
    line = text[:match.start()].count("\n") + 1
    assert line <= FIRST_SCREEN, f"{readme}: the program begins in line {line}"
    return match.group(1)


class Readmes:
    def __init__(self, prefix, python, work):
        self.prefix, self.interpreter, self.work = Path(prefix), python, Path(work)
        self.environment = {**os.environ, "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig",
                            "LD_LIBRARY_PATH": f"{prefix}/lib"}
        self.trace = tracer.make(self.prefix / "include", self.work)

    def flags(self):
        return run(["pkg-config", "--cflags", "--libs", "ckpt"], env=self.environment).split()

    def check(self, language):
        """Builds and runs the program in its own folder: it saves and loads, and its checkpoint is sound."""
        folder = self.work / language
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        command = getattr(self, language)(folder)
        traced = {"LD_PRELOAD": str(self.trace.resolve()), "CKPT_TRACE": str(folder / "counts")}
        # A training loop loads when it is started again.
        for _ in range(2 if language in ("python", "jax", "front") else 1):
            output = run([*command, folder / "store"], env={**self.environment, **traced}, cwd=folder)
        calls = tracer.Counts(self.prefix / "include", folder / "counts").calls
        assert any(calls[name] for name in tracer.SAVES), f"it saves nothing: {output}"
        assert any(calls[name] for name in LOADS), f"it loads nothing: {output}"
        listed = run([f"{self.prefix}/bin/ckpt", "ls", folder / "store"])
        assert "committed" in listed and "latest" in listed, (output, listed)
        run([f"{self.prefix}/bin/ckpt", "verify", f"{folder}/store@latest"])

    def c(self, folder):
        (folder / "main.c").write_text(first_program(REPOSITORY / "README.md", "c"))
        run(["cc", "-std=c99", "-Wall", "-Werror", "main.c", *self.flags(), "-o", "main"], cwd=folder)
        return ["./main"]

    def cpp(self, folder):
        (folder / "main.cpp").write_text(first_program(BINDINGS / "cpp" / "README.md", "cpp"))
        run(["c++", "-std=c++17", "-Wall", "-Werror", "main.cpp", *self.flags(), "-o", "main"], cwd=folder)
        return ["./main"]

    def rust(self, folder):
        """A user's crate, which depends on ckpt only."""
        (folder / "src").mkdir()
        (folder / "src" / "main.rs").write_text(first_program(BINDINGS / "rust" / "README.md", "rust"))
        (folder / "Cargo.toml").write_text('[package]\nname = "first"\nversion = "0.1.0"\nedition = "2021"\n'
                                           f'[dependencies]\nckpt = {{ path = "{BINDINGS}/rust/ckpt" }}\n[workspace]\n')
        shutil.copy(BINDINGS / "rust" / "Cargo.lock", folder / "Cargo.lock")
        self.environment["CARGO_TARGET_DIR"] = str(self.work / "target")
        run(["cargo", "build", "--quiet"], cwd=folder, env=self.environment)
        return [self.work / "target" / "debug" / "first"]

    def go(self, folder):
        """A user's module."""
        (folder / "main.go").write_text(first_program(BINDINGS / "go" / "README.md", "go"))
        module = re.search(r"^module (\S+)", (BINDINGS / "go" / "go.mod").read_text(), re.M).group(1)
        (folder / "go.mod").write_text(f"module first\n\ngo 1.26\n\nrequire {module} v0.0.0\n\n"
                                       f"replace {module} => {BINDINGS}/go\n")
        run(["go", "build", "-o", "main", "."], cwd=folder, env=self.environment)
        return ["./main"]

    def python(self, folder):
        """A training loop of torch, which `python` must have."""
        (folder / "main.py").write_text(first_program(BINDINGS / "python" / "README.md", "python"))
        return [self.interpreter, "main.py"]

    def jax(self, folder):
        """A training loop of jax."""
        (folder / "main.py").write_text(first_program(BINDINGS / "python" / "docs" / "jax.md", "python"))
        return [self.interpreter, "main.py"]

    def operator(self):
        """On the store that the program in C makes."""
        folder = self.work / "operator"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        run([*self.c(folder), folder / "store"], env=self.environment, cwd=folder)
        path = {**self.environment, "PATH": f"{self.prefix}/bin:{os.environ['PATH']}"}
        output = run(["bash", "-euc", first_program(REPOSITORY / "docs" / "operate.md", "sh"), "sh", folder / "store"],
                     env=path, cwd=folder)
        assert "latest step-100" in output and "call somebody" not in output, output
        assert (folder / "store.html").stat().st_size and "last_sound" in (folder / "verify.json").read_text()

    def reader(self):
        """In its own folder; the program is made elsewhere."""
        folder = REPOSITORY / "examples" / "readers" / "go"
        program = first_program(folder / "README.md", "sh").replace("ckptread", f"{self.work.resolve()}/ckptread", 1)
        output = run(["bash", "-euc", program.replace("./ckptread", f"{self.work.resolve()}/ckptread")], cwd=folder)
        assert '"tensors"' in output, output

    def front(self, folder):
        """The Python program of the front page, a training loop of torch."""
        (folder / "main.py").write_text(first_program(REPOSITORY / "README.md", "python"))
        return [self.interpreter, "main.py"]


def main(prefix, python, work, *languages):
    readmes, claims = Readmes(prefix, python, work), Claims()
    for path in ("operator", "reader"):
        if path in languages:
            claims.check(f"{path}: the first program of its path runs", getattr(readmes, path))
    for language in [name for name in languages if name not in ("operator", "reader")]:
        claims.check(f"{language}: the README's first program saves and loads", readmes.check, language)
    return claims.end()


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
