#!/usr/bin/env python3
"""Modules of a binding that need each other: a reader of one would have to read all of them.

  circles.py               fails if some of Rust's or Python's do
  circles.py --self-test

Of Rust it reads `crate::NAME`, of Python every relative import, also in functions; what only types need, under
TYPE_CHECKING, does not count.
"""
import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINDINGS = ROOT / "bindings"


def rust(sources):
    needs = {}
    for name, text in sources.items():
        code = re.sub(r"//[^\n]*", "", text)
        heads = re.findall(r"\bcrate::(\w+)", code)
        for group in re.findall(r"\bcrate::\{(.*?)\};", code, re.S):
            heads += re.findall(r"(?:^|,)\s*(\w+)", group)
        needs[name] = {head for head in heads if head in sources and head != name}
    needs.pop("lib", None)  # names all, and nobody names it
    return needs


def imports_of(tree):
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node
        yield from imports_of(node)


def python(sources):
    """`sources` by dotted name; that of a package ends with ".__init__", or is that."""
    needs = {}
    for name, text in sources.items():
        if name == "__init__":  # names all
            continue
        package = name.split(".")[:-1]
        found = set()
        for node in imports_of(ast.parse(text)):
            base = package[:len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                for full in ([*base, alias.name], base, [*base, "__init__"]):
                    if ".".join(full) in sources:
                        found.add(".".join(full))
                        break
        needs[name] = found - {name, "__init__"}
    return needs


def circles(needs):
    """Lists of names each of which needs all others of its list."""
    reach = {}
    for start in needs:
        seen, ahead = set(), [start]
        while ahead:
            for name in needs.get(ahead.pop(), ()):
                if name not in seen:
                    seen.add(name)
                    ahead.append(name)
        reach[start] = seen
    return sorted({tuple(sorted(other for other in seen if start in reach.get(other, ())))
                   for start, seen in reach.items() if start in seen})


def sources_below(folder, ending):
    return {str(path.relative_to(folder))[:-len(ending)].replace("/", "."): path.read_text()
            for path in sorted(folder.rglob("*" + ending))}


def self_test():
    found = circles(rust({"a": "use crate::b::B;", "b": "use crate::{c, d::D};", "c": "// crate::a\ncrate::a::f();",
                          "d": "", "lib": "use crate::a;"}))
    assert found == [("a", "b", "c")], found
    found = circles(python({"__init__": "from .a import x", "a": "def f():\n  from .p import q", "p.__init__":
                            "from ..b import y", "b": "from . import a", "c": "from .c2 import z", "c2":
                            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  from .c import z"}))
    assert found == [("a", "b", "p.__init__")], found


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    checked = {"Rust": rust(sources_below(BINDINGS / "rust/ckpt/src", ".rs")),
               "Python": python(sources_below(BINDINGS / "python/src/ckpt", ".py"))}
    assert all(len(needs) > 20 for needs in checked.values()), "the bindings lie elsewhere"
    found = [f"{language}: {', '.join(circle)} need each other" for language, needs in checked.items()
             for circle in circles(needs)]
    print("\n".join(found) or "nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
