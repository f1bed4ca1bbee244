"""What `import ckpt` brings with it, which a short program waits for."""

from __future__ import annotations

import ast
from pathlib import Path

import ckpt
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


def test_a_handler_of_the_end_that_came_before_the_first_call_may_still_save() -> None:
    code = ("import atexit, ckpt\n"
            "atexit.register(lambda: (ckpt.save(store, {'step': 2}, label='b'), print(ckpt.load(store))))\n"
            "store = ckpt.fsspec_store('memory://at-the-end')\n"
            "ckpt.save(store, {'step': 1}, label='a')")
    assert python(code) == "{'step': 2}\n"
