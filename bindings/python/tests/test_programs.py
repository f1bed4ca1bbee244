"""The README's first program and the example, run as a user would; types as mypy and the stub generator see them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import ckpt
import pytest
from conftest import run_at_once

FOLDER = Path(__file__).resolve().parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, cwd=cwd, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.torch
def test_the_first_program_of_the_readme_goes_on_bit_for_bit(tmp_path: Path) -> None:
    first = re.search(r"^```python\n(.*?)^```", (FOLDER / "README.md").read_text(), re.M | re.S)
    assert first is not None
    (tmp_path / "loop.py").write_text(first[1])
    (tmp_path / "longer.py").write_text(first[1].replace("done + 101", "done + 201"))
    loop, longer = tmp_path / "loop.py", tmp_path / "longer.py"
    (whole, _), (begun, _) = run_at_once(tmp_path, [longer, tmp_path / "whole"], [loop, tmp_path / "cut"])
    ((again, _),) = run_at_once(tmp_path, [loop, tmp_path / "cut"])
    assert begun.startswith("step 100, loss") and whole.startswith("step 200, loss")
    assert again == whole
    assert [info.step for info in ckpt.ls(tmp_path / "cut")] == [160, 180, 200]


def test_the_trainer_goes_on_bit_for_bit(tmp_path: Path) -> None:
    trainer = FOLDER / "examples" / "trainer.py"
    whole = run(trainer, tmp_path / "whole", "30", cwd=tmp_path).splitlines()
    first = run(trainer, tmp_path / "cut", "13", cwd=tmp_path).splitlines()
    second = run(trainer, tmp_path / "cut", "30", cwd=tmp_path).splitlines()
    assert (whole[0], first[0], second[0]) == ("starts", "starts", "goes on from step 13")
    assert whole[-1] == second[-1] != first[-1] and whole[-1].startswith("step 30")
    assert len(ckpt.Store(tmp_path / "cut").list()) == 2


USAGE = '''
import os
import ckpt

def use(path: "os.PathLike[str]") -> str:
    with ckpt.Store(path, threads=2) as store, ckpt.Session(store, options={"chunk_bytes": 4096}) as session:
        with ckpt.Save(session, "a", 1) as save:
            save.add_tensor("w", b"x", shape=(2,), offset=(0,))
            save.set_attr("k", "v")
            with save.start() as job:
                job.wait(ckpt.JobState.STAGED, timeout_ms=5)
        reader: ckpt.Reader = ckpt.Reader(store)
        names: list[str] = [tensor.name for tensor in reader.tensors()]
        status: ckpt.Status = reader.diff(reader)[0].status
        kind: ckpt.DType = reader.tensor("w").dtype
        bytes(reader.map("w"))
    handle: ckpt.SaveHandle = ckpt.save_async(store, {"a": 1}, step=1)
    with ckpt.open(path) as opened:
        shape: tuple[int, ...] = opened["w"].shape
        ckpt.ls(store)[0].step + shape[0]
    ckpt.load(store, into={}, framework="torch", progress=lambda done, total: None)
    return names[0] + status.name + str(kind) + handle.result()
'''
WRONG = '''
import ckpt
ckpt.Store(1)
ckpt.Reader("x")
ckpt.load("x", framework="tf")
ckpt.Store("x").find("a").stepp
'''


Mypy: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def mypy(tmp_path_factory: Any) -> Mypy:
    """Runs it; what one run has read of Python's and ckpt's types the next ones know."""
    cache = tmp_path_factory.mktemp("mypy")

    def call(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mypy", "--config-file", FOLDER / "pyproject.toml", "--cache-dir", cache]
        return subprocess.run([*map(str, command), *map(str, arguments)], capture_output=True, text=True, cwd=cwd)

    return call


def test_the_package_its_runner_and_its_users_pass_mypy_strict(tmp_path: Path, mypy: Mypy) -> None:
    (tmp_path / "usage.py").write_text(USAGE)
    for what in (["-p", "ckpt"], ["usage.py"], [FOLDER / "examples" / "trainer.py"],
                 sorted((FOLDER / "conformance").glob("*.py"))):
        done = mypy(*what, cwd=tmp_path)
        assert done.returncode == 0, done.stdout


def test_mypy_sees_wrong_use(tmp_path: Path, mypy: Mypy) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    done = mypy("wrong.py", cwd=tmp_path)
    assert [int(line) for line in re.findall(r"wrong.py:(\d+): error", done.stdout)] == [3, 4, 5, 6], done.stdout


def undocumented(path: Path) -> list[str]:
    """Public classes, functions and methods without a docstring."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            members = [node, *(member for member in node.body if isinstance(member, ast.FunctionDef))]
            found += [f"{path.name}: {node.name}.{member.name}" for member in members
                      if not member.name.startswith("_") and not ast.get_docstring(member)]
    module = ast.parse(path.read_text())
    found += [f"{path.name}: {node.name}" for node in module.body
              if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not ast.get_docstring(node)]
    return found if ast.get_docstring(module) else [*found, path.name]


def test_all_public_things_are_documented() -> None:
    package = Path(ckpt.__file__).parent
    public = ["__init__.py", "_core.pyi", "enums.py", "errors.py", "records.py", "trees.py", "saving.py", "choosing.py",
              "adapt.py", "frameworks.py", "progress.py", "sharing.py", "background.py", "handles.py",
              "hints.py", "objects.py", "opening.py", "regions.py", "saved.py", "stateful.py", "reprs.py", "show.py",
              "sources.py", "jaxes.py"]
    missing = [line for name in public for line in undocumented(package / name)]
    methods_of_visitors = re.compile(r"TreeWriter\.|TreeReader\.|StateReader\.|SegmentInfo|Numpy\.|Torch\.|Jax\.")
    assert [line for line in missing if not methods_of_visitors.search(line)] == []


def test_only_our_library_is_linked_and_found() -> None:
    module = next(Path(ckpt.__file__).parent.glob("_core*.so"))
    said = subprocess.run(["ldd", str(module)], capture_output=True, text=True, check=True).stdout
    assert "not found" not in said and "libpython" not in said
