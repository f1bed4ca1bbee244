#!/usr/bin/env python3
"""The house rules that a machine can check, over all tracked and untracked source files.

  includes    a file of src/<room> includes its own room and those that the table in src/README.md allows it, no other
  size        functions of at most 70 lines, files of at most 600, lines of at most 120 columns
  calls       none that cannot be used safely (strcpy, sprintf, …); no exit() in a library
  leftovers   no TODO, FIXME or XXX; no tabs, no blanks at the end of a line

  tidy.py [FOLDER]      checks a source tree
  tidy.py --self-test   proves that each rule catches what it forbids
"""
import re
import sys
import tempfile
from pathlib import Path

MAX_FUNCTION, MAX_FILE, MAX_COLUMNS = 70, 600, 120
TREES = ("include", "src", "tests", "bench", "examples", "tools", "bindings", "cmake")
CODE = {".c", ".h", ".cpp", ".def", ".inc"}
SCRIPTS = {".py", ".sh", ".cmake", ".txt", "", ".hpp", ".rs", ".go", ".jl"}
GENERATED = {"tests/abi/layout.txt", "bindings/rust/ckpt-sys/src/bindings.rs", "bindings/julia/src/api.jl"}
SKIPPED = {"corpus", "golden", "scenarios", "__pycache__"}
BANNED = "strcpy strcat sprintf vsprintf gets strtok rand srand system tmpnam mktemp alloca".split()
BANNED_IN_LIBRARY = "exit _exit quick_exit".split()
TABLE_HEADING = "## Who may include whom"
PUBLIC = {"ckpt.h", "ckpt_tree.h", "ckpt_file.h"}


def without_comments_and_strings(text):
    """The same text with comments and the insides of literals blanked; lines and columns stay."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'
                         r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'", re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


# ---- includes ----
def include_table(root):
    """room -> rooms it may include, from src/README.md; None where there is no such table yet."""
    readme = root / "src" / "README.md"
    text = readme.read_text() if readme.exists() else ""
    if TABLE_HEADING not in text:
        return None
    section = re.split(r"^## ", text.split(TABLE_HEADING, 1)[1], flags=re.M)[0]
    rows = re.findall(r"^\|([^|\n]*)\|([^|\n]*)\|", section, flags=re.M)
    table = {}
    for room, allowed in rows:
        names = room.replace("`", "").split()
        if len(names) == 1 and names[0] != "room" and not names[0].startswith(("-", ":")):
            table[names[0]] = set(re.findall(r"[\w.]+", allowed))
    return table


def check_includes(path, text, table):
    """Quoted includes name a room first; the generated schema belongs to room format."""
    room = path.parts[1]
    if room not in table:
        yield 1, f"room {room} has no row in the table of src/README.md"
        return
    mentions_public = any("ckpt.h" in allowed for allowed in table.values())
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if not found:
            continue
        target = found.group(2)
        if target in PUBLIC:
            wanted = "ckpt.h" if mentions_public else room
        elif target == "ckpt_generated.h" or target.startswith("flatbuffers/"):
            wanted = "format"
        elif found.group(1) == '"':
            wanted = target.split("/")[0]
        else:
            continue
        if wanted != room and wanted not in table[room]:
            yield number, f"room {room} may not include {target}"


# ---- functions ----
# What stands before the brace of a function: its parameters, then qualifiers, a return type, a constructor's initialisers.
CLOSERS = re.compile(r"\)\s*(?:const\b|noexcept\b|override\b|final\b|mutable\b|&&?|\s|->[\w:<>,*&\s]+)*"
                     r"(?::\s[^;{}]*(?:\{[^{}]*\}[^;{}]*)*(?<=[)}])\s*)?$")
SCOPES = re.compile(r"^\s*(?:inline\s+)?namespace\b|\bextern\s+$|^[^()=]*\b(?:class|struct|union|enum)\b[^()=]*$")


def functions(code):
    """(first line, last line, head) of every function body that is not inside another one."""
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group()), code, flags=re.M | re.S)
    stack, head_start, line = [], 0, 1
    for at, char in enumerate(code):
        if char == "\n":
            line += 1
        elif char == "{":
            head = code[head_start:at]
            inside = any(kind == "function" for kind, *_ in stack)
            kind = "scope" if SCOPES.search(head) else "function" if not inside and CLOSERS.search(head) else "block"
            first = line - head.lstrip().count("\n")
            stack.append((kind, first, head_start))
            head_start = at + 1
        elif char == "}":
            if stack:
                kind, first, start = stack.pop()
                if kind == "function":
                    yield first, line, " ".join(code[start:at].split())
                if kind == "block" and all(outer == "scope" for outer, *_ in stack):
                    head_start = start  # an initialiser is part of the head that it stands in
                    continue
            head_start = at + 1
        elif char == ";":
            head_start = at + 1


def check_functions(code):
    for first, last, head in functions(code):
        if last - first + 1 > MAX_FUNCTION:
            yield first, f"function of {last - first + 1} lines, at most {MAX_FUNCTION}: {head[:60]}"


# ---- lines ----
def check_lines(text, tabs=False):
    lines = text.splitlines()
    if len(lines) > MAX_FILE:
        yield 1, f"file of {len(lines)} lines, at most {MAX_FILE}"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            yield number, f"line of {len(line)} columns, at most {MAX_COLUMNS}"
        if line != line.rstrip() or "\t" in line.lstrip("\t" if tabs else ""):
            yield number, "a tab, or blanks at the end of the line"
        if re.search(r"\b(?:TODO|FIXME|XXX)\b", line):
            yield number, "leftover note: do it, or open an issue"


def check_calls(code, in_library):
    banned = BANNED + (BANNED_IN_LIBRARY if in_library else [])
    for number, line in enumerate(code.splitlines(), 1):
        for name in re.findall(r"(?<![\w.>])(?:std::|::)?(\w+)\s*\(", line):
            if name in banned:
                yield number, f"{name}() is not used here"


# ---- the tree ----
def sources(root):
    for tree in TREES:
        for path in sorted((root / tree).rglob("*")):
            relative = path.relative_to(root)
            skip = SKIPPED & set(relative.parts) or str(relative) in GENERATED
            if path.is_file() and not skip and (path.suffix in CODE or path.suffix in SCRIPTS):
                yield path, relative


def check_file(path, relative, table):
    text = path.read_text()
    in_src = relative.parts[0] == "src"
    room = relative.parts[1] if in_src and len(relative.parts) > 2 else None
    if relative.name == "tidy.py":  # names what it forbids
        return
    text_to_read = text if path.suffix != ".def" else re.sub(r"[^\n]{121,}", "", text)
    yield from check_lines(text_to_read, tabs=path.suffix == ".go")  # gofmt indents by tabs
    if path.suffix not in CODE:
        return
    code = without_comments_and_strings(text)
    yield from check_functions(code)
    yield from check_calls(code, in_library=room is not None and room != "cli")
    if room and table is not None:
        yield from check_includes(relative, text, table)


def check_tree(root):
    table = include_table(root)
    problems = [] if table is not None else [f"src/README.md: no table under '{TABLE_HEADING}'"]
    count = 0
    for path, relative in sources(root):
        count += 1
        problems += [f"{relative}:{number}: {what}" for number, what in check_file(path, relative, table)]
    return problems, count


# ---- self-test ----
GOOD = """#include "base/status.h"
namespace ckpt {
struct Box { int a = 0; };
int f(int a) {
  auto g = [](int b) { return b; };  // rand() in a comment
  return g(a) + "exit(1)"[0];
}
}
"""
LONG_BODY = "  int a;\n" * 70
BAD = {
    "may not include": '#include "save/save.h"\n',
    "function of": "Foo::Foo(int a) : a_(a), b_{1} {\n" + LONG_BODY + "}\n",
    "file of": "int a;\n" * 601,
    "columns": "int " + "a" * 120 + ";\n",
    "blanks": "int a; \n",
    "leftover": "// TO" + "DO: later\n",
    "strcpy": "void f(char* a) { strcpy(a, a); }\n",
    "exit": "void f() { std::exit(1); }\n",
    "no row": None,
}


def self_test():
    failures = []
    for expected, text in [("", GOOD)] + list(BAD.items()):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            room = "plan" if text is not None else "attic"
            (root / "src" / room).mkdir(parents=True)
            (root / "src" / "README.md").write_text(
                f"{TABLE_HEADING}\n\n| room | may include |\n|---|---|\n| `base` | |\n| `plan` | base |\n\n## Next\n")
            (root / "src" / room / "file.cpp").write_text(text or "int a;\n")
            problems, _ = check_tree(root)
            if len(problems) != bool(expected) or not all(expected in problem for problem in problems):
                failures.append(f"expected '{expected}', found {problems}")
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        problems, count = self_test(), len(BAD) + 1
    else:
        problems, count = check_tree(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).resolve().parents[1])
    print("\n".join(problems) or f"{count} checked, nothing found")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
