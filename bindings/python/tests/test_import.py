"""What `import ckpt` brings with it, which a short program waits for; and what works where numpy is not installed."""

from __future__ import annotations

import ast
from pathlib import Path

import ckpt
import numpy as np
import pytest
from conftest import python

EAGER = ["_clash", "_core", "_end", "enums", "errors"]
HEAVY = ["numpy", "torch", "jax", "ml_dtypes", "asyncio", "concurrent.futures", "contextlib", "ctypes", "dataclasses",
         "datetime", "email", "hashlib", "html", "importlib.metadata", "importlib.util", "inspect", "json", "logging",
         "multiprocessing", "pathlib", "pickle", "platform", "random", "signal", "socket", "subprocess", "tempfile",
         "threading", "typing", "uuid"]


def test_importing_ckpt_imports_only_what_every_call_needs() -> None:
    code = ("import sys; before = set(sys.modules); import ckpt; new = set(sys.modules) - before\n"
            "print(sorted(name for name in new if name.startswith('ckpt.')), sorted(new & set(sys.argv[1:])))")
    assert python(code, *HEAVY) == f"{[f'ckpt.{name}' for name in EAGER]} []\n"


def test_each_public_name_is_there_at_its_first_use() -> None:
    code = ("import ckpt, sys\n"
            "for name in sys.argv[1:]: assert name in dir(ckpt) and getattr(ckpt, name) is vars(ckpt)[name], name\n"
            "from ckpt import *\n"
            "print(set(ckpt.__all__) - set(globals()))")
    for name in ("load", "random_states", "Checkpointer"):  # each with others after it
        assert python(code, name, *ckpt.__all__, "open") == "set()\n"


def test_modules_are_there_as_if_they_were_imported_and_frameworks_own_are_not() -> None:
    code = ("import ckpt, sys; print(ckpt.show.size(5), [name for name in ('torch', 'jaxes', 'lightning', 'hf', 'dcp', "
            "'recis', 'lod') if hasattr(ckpt, name)], 'ckpt.saving' in sys.modules)")
    assert python(code) == "5 B [] False\n"


def test_types_see_the_names_where_they_come_from() -> None:
    module = ast.parse(Path(ckpt.__file__).read_text())
    branch = next(node for node in module.body if isinstance(node, ast.If))
    found = {alias.name: node.module for node in branch.body if isinstance(node, ast.ImportFrom)
             for alias in node.names}
    assert found == ckpt._MODULE_OF
    assert not found.keys() & ckpt._LATER.keys()  # the module would take the place of what has its name


def test_a_handler_of_the_end_that_came_before_the_first_call_may_still_save() -> None:
    code = ("import atexit, ckpt\n"
            "atexit.register(lambda: (ckpt.save(store, {'step': 2}, label='b'), print(ckpt.load(store))))\n"
            "store = ckpt.fsspec_store('memory://at-the-end')\n"
            "ckpt.save(store, {'step': 1}, label='a')")
    assert python(code) == "{'step': 2}\n"


NO_ARRAYS = '''
import sys
sys.modules.update(numpy=None, torch=None, jax=None, ml_dtypes=None)  # as if they were not installed
import ckpt
folder = sys.argv[1]
state = {"step": 3, "names": ["a", None, 1.5], "seen": {1, 2}, "random": ckpt.random_states()}
ckpt.save(f"{folder}/plain", state)
print(ckpt.load(f"{folder}/plain", into=state)["names"], ckpt.load(f"{folder}/plain")["seen"])
print(ckpt.load(f"{folder}/arrays", at=("step",)), ckpt.load(f"{folder}/torch", at=("step",)))
print(len(ckpt.ls(f"{folder}/arrays")), len(ckpt.ls(f"{folder}/arrays")._repr_html_()) > 100)
with ckpt.Store(f"{folder}/arrays") as store, ckpt.Reader(store) as reader:
    print(store.list()[0].tensor_count, reader.verify().wait(), ckpt.to_native(reader.tree())["step"])
    numbers = memoryview(bytearray(32)).cast("d")
    with ckpt.Load(reader) as load:
        load.add_tensor("w", numbers)
        load.run()
    print(numbers.tolist())
    numbers[0] = 5
    ckpt.load(reader, into={"w": ckpt.Shard(numbers, (4,), (0,))})
    print(numbers.tolist())
for name in ("arrays", "x.safetensors"):
    with ckpt.open(f"{folder}/{name}") as found:
        print(found["w"], found.info and found.info.step, "w" in repr(found), found.attrs)
for step in (1, 2):
    with ckpt.Checkpointer(f"{folder}/kept", every=1) as keeper:
        print(keeper.restore(kept := {"step": 0}), kept)
        keeper.step(step, {"step": step})
'''

ARRAYS = '''
import sys
sys.modules.update(numpy=None, torch=None, jax=None, ml_dtypes=None)
import ckpt
try:
    print(eval(sys.argv[1], {"ckpt": ckpt, "folder": sys.argv[2]}))
except ImportError as error:
    print(error.name, "|", error)
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With checkpoints of arrays, and a file of another program."""
    for name, saved_as in (("arrays", "numpy"), ("torch", "torch")):
        with ckpt.Store(tmp_path / name) as store, ckpt.Session(store) as session, ckpt.Save(
                session, "a", 7, {}) as save:
            save.add_tensor("w", np.arange(4.0))
            save.add_tree(ckpt.from_native({"w": ckpt.TensorName("w"), "step": 3}))
            save.set_attr("ckpt.framework", saved_as)
            save.run()
    with ckpt.Store(tmp_path / "arrays") as store, ckpt.Reader(store) as reader:
        reader.export(str(tmp_path / "x.safetensors"))
    return tmp_path


def test_what_has_no_arrays_needs_no_numpy(folder: Path) -> None:
    assert python(NO_ARRAYS, str(folder)).splitlines() == [
        "['a', None, 1.5] {1, 2}", "3 3", "1 True", "1 None 3", "[0.0, 1.0, 2.0, 3.0]", "[0.0, 1.0, 2.0, 3.0]",
        "<ckpt.LazyTensor 'w': f64, 4, 32 B> 7 True {'ckpt.framework': 'numpy'}",
        "<ckpt.LazyTensor 'w': f64, 4, 32 B> None True {}",
        "None {'step': 0}", "<ckpt.Restored step-1.1.1: step 1> {'step': 1}"]


@pytest.mark.parametrize("call", ["ckpt.load(f'{folder}/arrays')", "ckpt.load(f'{folder}/torch')",
                                  "ckpt.load(f'{folder}/x.safetensors')", "ckpt.open(f'{folder}/arrays')['w'][:2]",
                                  "ckpt.open(f'{folder}/x.safetensors')['w'][:2]"])
def test_arrays_without_numpy_say_what_to_install(folder: Path, call: str) -> None:
    assert python(ARRAYS, call, str(folder)) == (
        "numpy | these arrays need numpy, which is not installed: pip install numpy, or choose another framework "
        "(framework=)\n")
