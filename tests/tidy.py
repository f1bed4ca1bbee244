#!/usr/bin/env python3
"""The house rules that a machine can check, over all tracked and untracked source files.

  includes    a file of src/<room>, or of interop/src and contrib/<name>/files, which are rooms too, includes its own
              room and those that the table in src/README.md allows it, no other
  size        functions of at most 70 lines, files of at most 600, lines of at most 120 columns
  calls       none that cannot be used safely (strcpy, sprintf, …); no exit() in a library
  leftovers   no TODO, FIXME or XXX; no tabs, no blanks at the end of a line
  names       comments and documents name files that exist
  headers     a file of src defines what is declared in a header of its own: of its name (save.h and save_plan.h for
              save.cpp and save_plan.cpp), in one that names the file, or, where a header has no .cpp, in the first
              that it includes

  tidy.py [FOLDER]      checks a source tree
  tidy.py --self-test   proves that each rule catches what it forbids
"""
import os
import re
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path

MAX_FUNCTION, MAX_FILE, MAX_COLUMNS = 70, 600, 120
TREES = ("include", "src", "interop", "contrib", "tests", "bench", "examples", "tools", "bindings", "cmake", "packaging")
CODE = {".c", ".h", ".cpp", ".def", ".inc"}
SCRIPTS = {".py", ".sh", ".cmake", ".txt", "", ".hpp", ".rs", ".go", ".jl"}
GENERATED = {"tests/abi/layout.txt", "bindings/go/lists.go", "bindings/go/internal/conformance/constants.go",
             "bindings/julia/src/api.jl", "bindings/julia/src/records.jl"}
SKIPPED = {"corpus", "fixtures", "golden", "scenarios", "__pycache__"}
BANNED = "strcpy strcat sprintf vsprintf gets strtok rand srand system tmpnam mktemp alloca".split()
BANNED_IN_LIBRARY = "exit _exit quick_exit".split()
TABLE_HEADING = "## Who may include whom"
PUBLIC = {"ckpt.h", "ckpt_maintain.h", "ckpt_table.h", "ckpt_tree.h", "ckpt_keeper.h", "ckpt_file.h", "ckpt_layer.h",
          "ckpt_backend.h"}


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
            table[names[0]] = set(re.findall(r"[\w./]+", allowed))
    return table


def room_of(path):
    """None outside of rooms."""
    if path.parts[:2] == ("interop", "src") or (path.parts[0] == "contrib" and path.parts[2] == "files"):
        return path.parts[0]
    return path.parts[1] if path.parts[0] == "src" and len(path.parts) > 2 else None


def check_includes(path, text, table):
    """Quoted includes name a room first; the generated schema belongs to room format."""
    room = room_of(path)
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
        elif target == "ckpt.hpp":
            wanted = target
        elif target == "ckpt_generated.h" or target.startswith("flatbuffers/"):
            wanted = "format"
        elif found.group(1) == '"':
            wanted = target.split("/")[0]
        else:
            continue
        if wanted != room and not {wanted, target} & set(table[room]):
            yield number, f"room {room} may not include {target}"


# ---- functions ----
# What stands before the brace of a function: its parameters, then qualifiers, a return type, a constructor's initialisers.
CLOSERS = re.compile(r"\)\s*(?:const\b|noexcept\b|override\b|final\b|mutable\b|&&?|\s|->[\w:<>,*&\s]+)*"
                     r"(?::\s[^;{}]*(?:\{[^{}]*\}[^;{}]*)*(?<=[)}])\s*)?$")
SCOPES = re.compile(r"^\s*(?:inline\s+)?namespace\b|\bextern\s+$|^[^()=]*\b(?:class|struct|union|enum)\b[^()=]*$")


def statements(code):
    """(first line, last line, head, scopes, is a body) of functions' bodies and of what ends with ';' outside them."""
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group()), code, flags=re.M | re.S)
    stack, head_start, line = [], 0, 1

    def scopes():
        return [code[start:end] for kind, _, start, end in stack]

    for at, char in enumerate(code):
        if char == "\n":
            line += 1
        elif char == "{":
            head = code[head_start:at]
            inside = any(kind == "function" for kind, *_ in stack)
            kind = "scope" if SCOPES.search(head) else "function" if not inside and CLOSERS.search(head) else "block"
            first = line - head.lstrip().count("\n")
            stack.append((kind, first, head_start, at))
            head_start = at + 1
        elif char == "}":
            if stack:
                kind, first, start, end = stack.pop()
                if kind == "function":
                    yield first, line, code[start:end], scopes(), True
                if kind == "block" and all(outer == "scope" for outer, *_ in stack):
                    head_start = start  # an initialiser is part of the head that it stands in
                    continue
            head_start = at + 1
        elif char == ";":
            if all(kind == "scope" for kind, *_ in stack):
                yield line, line, code[head_start:at], scopes(), False
            head_start = at + 1


def functions(code):
    """(first line, last line, head) of every function body that is not inside another one."""
    return [(first, last, " ".join(head.split())) for first, last, head, _, body in statements(code) if body]


def check_functions(code):
    for first, last, head in functions(code):
        if last - first + 1 > MAX_FUNCTION:
            yield first, f"function of {last - first + 1} lines, at most {MAX_FUNCTION}: {head[:60]}"


# ---- headers ----
NAME = re.compile(r"((?:\w+::)*~?\w+)\s*\(")
NOT_DECLARED = re.compile(r"^\s*(?:using|typedef|friend|static_assert|static\s.*\bconstexpr)\b|=\s*(?:default|delete|0)\s*$")


def function_names(code, bodies):
    """(line, name with its classes) of the functions that other files can call: those with bodies, or those without."""
    for line, _, head, scopes, body in statements(code):
        head = re.sub(r"\b(?:public|private|protected):|\[\[.*?\]\]|^\s*template\s*<[^;{]*?>(?=\s*\w)", " ", head)
        found = NAME.search(head)
        local = any(re.search(r"namespace\s*$", scope) for scope in scopes) or re.match(r"\s*static\b", head)
        if body != bodies or not found or NOT_DECLARED.search(head) or "=" in head[:found.start()] or (body and local):
            continue
        classes = [re.search(r"\b(?:class|struct|union)\s+(\w+)", scope) for scope in scopes]
        yield line, "::".join([found.group(1) for found in classes if found] + [found.group(1)])


def is_own(header, header_text, path, text):
    """Whether functions that `header` declares may be defined in `path`: two files of one room."""
    one, other = sorted((header.stem, path.stem), key=len)
    if header.parent == path.parent and (one == other or other.startswith(one + "_")):
        return True
    if any(fnmatch(path.name, name) for name in re.findall(r"[\w*]+\.cpp", header_text)):
        return True
    first = re.search(r'#include "(?:\w+/)*(\w+\.h)"', text)
    return not header.with_suffix(".cpp").exists() and first and first.group(1) == header.name


def check_headers(root):
    """Functions of a room against the headers of that room."""
    rooms = [*root.glob("src/*"), root / "interop" / "src", *root.glob("contrib/*/files")]
    for room in sorted(path for path in rooms if path.is_dir()):
        texts = {path: path.read_text() for path in sorted(room.rglob("*.*")) if path.suffix in {".h", ".cpp"}}
        codes = {path: without_comments_and_strings(text) for path, text in texts.items()}
        declared = {}
        for header in (path for path in texts if path.suffix == ".h"):
            for _, name in function_names(codes[header], bodies=False):
                declared.setdefault(name, set()).add(header)
        for path in (path for path in texts if path.suffix == ".cpp"):
            for line, name in function_names(codes[path], bodies=True):
                headers = declared.get(name, ())
                if headers and not any(is_own(header, texts[header], path, texts[path]) for header in headers):
                    others = ", ".join(str(header.relative_to(room.parent)) for header in sorted(headers))
                    yield path.relative_to(root), line, f"{name}() is declared in another file's header: {others}"
                    break  # one of each file will do


# ---- names of files ----
FILE_NAME = re.compile(r"(?<![\w.%$*{}<>/~-])((?:[\w.-]+/)*[A-Za-z_][\w.-]*\.(?:c|h|cpp|hpp|inc|def|py|sh|rs|go|jl|md|cmake|fbs))\b"
                       r"(?![\w*({/-])")
FOREIGN_NAMES = {  # of other projects, of installed files, examples
    "BFloat16s.jl", "CUDA.jl", "base/boot.jl", "base/exports.jl", "Lib/_compat_pickle.py",
    "share/ckpt/torch/ckpt_torch.cpp", "FILE.md", "FOLDER/trace.c", "PROGRAM.jl", "a.b.c", "zero_to_fp32.py"}
UNSEEN = {".git", "build", "target", "venv", "__pycache__", "node_modules"}


def known_names(root):
    """Every file of the tree by its path and by each end of it: src/save/save.h, save/save.h, save.h."""
    names = set(FOREIGN_NAMES)
    for folder, below, files in os.walk(root):
        below[:] = [name for name in below if name not in UNSEEN]
        for file in files:
            parts = (Path(folder).relative_to(root) / file).parts
            names.update("/".join(parts[at:]) for at in range(len(parts)))
    return names


def comments(path, text):
    """The text with all but comments blanked; of a document, all of it."""
    if path.suffix == ".md":
        return re.sub(r"```.*?```", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)
    pattern = r'"(?:\\.|[^"\\\n])*"|(?P<c>//[^\n]*|/\*.*?\*/)' if path.suffix in CODE | {".hpp", ".rs", ".go"} else \
        r'(?P<c>(?<!\S)#[^\n]*|"""(?:[^"]|"(?!""))*""")'
    kept, end = [], 0
    for match in re.finditer(pattern, text, flags=re.S):
        kept += [re.sub(r"[^\n]", " ", text[end:match.start("c")]), match["c"]] if match["c"] else []
        end = match.end() if match["c"] else end
    return "".join(kept)


def check_names(path, text, known):
    for number, line in enumerate(comments(path, text).splitlines(), 1):
        for name in FILE_NAME.findall(line):
            if re.sub(r"^(?:\.{1,2}/)+", "", name) not in known:
                yield number, f"names {name}, which does not exist"


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


# ---- what runs elsewhere ----
def check_actions(root):
    """Somebody else can move a tag of his repository to other code; nobody can move a hash."""
    for path in sorted(root.glob(".github/workflows/*.yml")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"uses: (?!.*@[0-9a-f]{40}\b)", line):
                yield f"{path.relative_to(root)}:{number}: an action that is not pinned by a hash"


# ---- the tree ----
def sources(root):
    for tree in TREES:
        for path in sorted((root / tree).rglob("*")):
            relative = path.relative_to(root)
            skip = SKIPPED & set(relative.parts) or str(relative) in GENERATED
            if path.is_file() and not skip and (path.suffix in CODE or path.suffix in SCRIPTS):
                yield path, relative


def check_file(path, relative, table, known):
    text = path.read_text()
    room = room_of(relative)
    if relative.name == "tidy.py":  # names what it forbids
        return
    text_to_read = text if path.suffix != ".def" else re.sub(r"[^\n]{121,}", "", text)
    yield from check_lines(text_to_read, tabs=path.suffix == ".go")  # gofmt indents by tabs
    yield from check_names(relative, text, known)
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
    count, known = 0, known_names(root)
    for path, relative in sources(root):
        count += 1
        problems += [f"{relative}:{number}: {what}" for number, what in check_file(path, relative, table, known)]
    for path in [*root.glob("*.md"), *(path for tree in TREES + ("docs", "schemas") for path in (root / tree).rglob("*.md"))]:
        if not UNSEEN & set(path.parts):
            problems += [f"{path.relative_to(root)}:{n}: {what}" for n, what in check_names(path, path.read_text(), known)]
    problems += [f"{path}:{number}: {what}" for path, number, what in check_headers(root)]
    problems += check_actions(root)
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
F = "int f(int a) { return a; }\n"
GOOD_FILES = [
    {"file.cpp": GOOD},
    {"file.cpp": "// See plan/file.cpp, ./file.cpp.\n" + F},
    {"file.h": "int f(int a);\n", "file_more.cpp": F},
    {"file_more.h": "struct A {\n  A();\n  int f(int a);\n};\n", "file.cpp": "A::A() {}\nint A::f(int a) { return a; }\n"},
    {"other.h": "// In file.cpp.\nint f(int a);\n", "file.cpp": F},
    {"other.h": "int f(int a);\n", "file.cpp": '#include "plan/other.h"\n' + F},
    {"other.h": "int f(int a);\n", "file.cpp": "static " + F + "namespace {\n" + F + "}\n"},
]
LONG_BODY = "  int a;\n" * 70
BAD = {
    "may not include": '#include "save/save.h"\n',
    "may not include base/types.h": '#include "base/shown.h"\n#include "base/types.h"\n',
    "function of": "Foo::Foo(int a) : a_(a), b_{1} {\n" + LONG_BODY + "}\n",
    "file of": "int a;\n" * 601,
    "columns": "int " + "a" * 120 + ";\n",
    "blanks": "int a; \n",
    "leftover": "// TO" + "DO: later\n",
    "strcpy": "void f(char* a) { strcpy(a, a); }\n",
    "exit": "void f() { std::exit(1); }\n",
    "no row": None,
    "not pinned": {"file.cpp": F, "../../.github/workflows/ci.yml": "- uses: actions/checkout@v4\n"},
    "names plan/nowhere.cpp": "/* As in\n * plan/nowhere.cpp. */\n",
    "f() is declared": {"other.h": "int f(int a);\n", "file.cpp": F},
    "A::f() is declared": {"other.h": "namespace b {\nclass A {\n public:\n  int f(int a);\n};\n}\n", "other.cpp": "",
                           "file.cpp": '#include "plan/other.h"\nint A::f(int a) { return a; }\n'},
}


def self_test():
    failures = []
    for expected, text in [("", files) for files in GOOD_FILES] + list(BAD.items()):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            room = "plan" if text is not None else "attic"
            (root / "src" / room).mkdir(parents=True)
            (root / "src" / "base").mkdir()
            for name in ("shown.h", "status.h"):
                (root / "src" / "base" / name).write_text("int a;\n")
            (root / "src" / "README.md").write_text(
                f"{TABLE_HEADING}\n\n| room | may include |\n|---|---|\n| `base` | |\n| `plan` | base/shown.h base/status.h |\n\n## Next\n")
            for name, content in (text if isinstance(text, dict) else {"file.cpp": text or "int a;\n"}).items():
                path = root / "src" / room / name
                path.parent.resolve().mkdir(parents=True, exist_ok=True)
                path.resolve().write_text(content)
            problems, _ = check_tree(root)
            if len(problems) != bool(expected) or not all(expected in problem for problem in problems):
                failures.append(f"expected '{expected}', found {problems}")
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        problems, count = self_test(), len(BAD) + len(GOOD_FILES)
    else:
        problems, count = check_tree(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).resolve().parents[1])
    print("\n".join(problems) or f"{count} checked, nothing found")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
