#!/usr/bin/env python3
"""Checks that the headers in include/, the maps of symbols and the built libraries agree.

  abi_test.py symbols    of libckpt and of libckpt_files headers, map and library have the same functions; SONAME
  abi_test.py dialects   each header compiles alone without a warning, C99 to C++20, included twice by two files
  abi_test.py hardened   the libraries have stack protector, fortified calls and full RELRO
  abi_test.py layout     sizes and offsets of every public struct, and all constants, are those in layout.txt
  abi_test.py record     writes layout.txt (read the diff: fields may only be appended)

Environment: CKPT_LIBRARY, CKPT_FILES_LIBRARY, CC, CXX.
"""
import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADERS = [ROOT / "include" / f"ckpt{name}.h" for name in ("", "_maintain", "_table", "_tree", "_file", "_layer")]
LAYOUT = Path(__file__).with_name("layout.txt")
CC = os.environ.get("CC", "cc")
CXX = os.environ.get("CXX", "c++")
STRICT = ["-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]


def header_text(headers=HEADERS):
    text = "\n".join(header.read_text() for header in headers)
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def header_functions(headers):
    return set(re.findall(r"CKPT_API[^;()]*?\b(ckpt_\w+)\s*\(", header_text(headers)))


def map_functions(path):
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.S)
    exported = "".join(re.findall(r"global:(.*?)(?:local:|\})", text, flags=re.S))
    return set(re.findall(r"[^;\s]+(?=;)", exported))


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True, **options)
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def library_functions(library):
    exported = set()
    for line in run("nm", "-D", "--defined-only", library).splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":  # the version node itself
            exported.add(name.split("@")[0])
    return exported


def compare(what_a, a, what_b, b):
    lines = [f"only in {what_a}: {name}" for name in sorted(a - b)]
    return lines + [f"only in {what_b}: {name}" for name in sorted(b - a)]


def check_symbols():
    unlisted = {path.name for path in (ROOT / "include").glob("*.h")} ^ {header.name for header in HEADERS}
    if unlisted:
        sys.exit(f"headers that are not checked, or not there: {sorted(unlisted)}")
    files = [header for header in HEADERS if header.name == "ckpt_file.h"]
    core = [header for header in HEADERS if header not in files]
    return (check_library(core, ROOT / "src" / "ckpt.map", os.environ["CKPT_LIBRARY"], "libckpt.so.0", 90) +
            check_library(files, ROOT / "interop" / "ckpt_files.map", os.environ["CKPT_FILES_LIBRARY"],
                          "libckpt_files.so.0", 10))


def check_library(headers, symbols, library, soname, least):
    header = header_functions(headers)
    problems = compare("the headers", header, symbols.name, map_functions(symbols))
    problems += compare("the headers", header, f"the exports of {soname}", library_functions(library))
    found = re.search(r"SONAME.*\[(.*)\]", run("readelf", "-d", library))
    if not found or found.group(1) != soname:
        problems.append(f"SONAME: expected {soname}, found {found and found.group(1)}")
    if len(header) < least:
        problems.append(f"only {len(header)} functions found in the headers of {soname}")
    return problems


def check_hardened():
    """Of libraries that were built with optimisation, by a compiler and libc that have all of these (GCC, glibc)."""
    asked = {"full RELRO": "BIND_NOW", "read-only relocations": "GNU_RELRO", "stack protector": "__stack_chk_fail",
             "fortified calls": r"__mem\w+_chk"}
    libraries = [os.environ[name] for name in ("CKPT_LIBRARY", "CKPT_FILES_LIBRARY")]
    found = {library: run("readelf", "-W", "-d", "-l", "--dyn-syms", library) for library in libraries}
    return [f"{library} lacks {what}: nothing in it matches {sign}" for library in libraries
            for what, sign in asked.items() if not re.search(sign, found[library])]


def check_dialects():
    dialects = [(CC, "c", s) for s in ("c99", "c11", "c17")]
    dialects += [(CXX, "c++", s) for s in ("c++11", "c++14", "c++17", "c++20")]
    with tempfile.TemporaryDirectory() as folder:
        for header in HEADERS:
            for compiler, language, standard in dialects:
                compile_twice(Path(folder), header.name, compiler, language, standard)
    return []


def compile_twice(folder, header, compiler, language, standard):
    """Links two files that each include the header twice: no definition in it may collide."""
    flags = STRICT + [f"-std={standard}"]
    if language == "c":
        flags.append("-Wstrict-prototypes")
    text = f'#include "{header}"\n#include "{header}"\n'
    objects = []
    for name, body in (("one", "int one(void);\nint one(void) { return CKPT_OK; }\n"),
                       ("two", "int main(void) { return (int)sizeof(ckpt_finding) == 0; }\n")):
        source = folder / f"{name}.{'c' if language == 'c' else 'cpp'}"
        source.write_text(text + body)
        objects.append(folder / f"{name}.o")
        run(compiler, *flags, "-c", source, "-o", objects[-1])
    run(compiler, *objects, "-o", folder / "program")


def declarators(declaration):
    """The field names of one declaration: `int64_t a, b[4]` gives a and b."""
    return [re.search(r"(\w+)\s*(?:\[[^\]]*\])*\s*$", part).group(1) for part in declaration.split(",")]


def layout_program():
    text = header_text()
    lines = ["#include <stdio.h>", "#include <stddef.h>"]
    lines += [f'#include "{header.name}"' for header in HEADERS] + ["int main(void) {"]
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\}", text, flags=re.S):
        lines.append(f'  printf("struct {name} %zu\\n", sizeof({name}));')
        for declaration in filter(str.strip, body.split(";")):
            for field in declarators(declaration):
                where, size = f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"
                lines.append(f'  printf("  {field} %zu %zu\\n", {where}, {size});')
    for body in re.findall(r"\benum \{(.*?)\}", text, flags=re.S):
        for constant in re.findall(r"\b(CKPT_\w+)\s*=", body):
            lines.append(f'  printf("{constant} %ld\\n", (long)({constant}));')
    for constant in re.findall(r"#define (CKPT_\w+) \d", text):
        if not constant.startswith("CKPT_VERSION"):
            lines.append(f'  printf("{constant} %ld\\n", (long)({constant}));')
    return "\n".join(lines + ["  return 0;", "}", ""])


def layout():
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "layout.c", Path(folder) / "layout"
        source.write_text(layout_program())
        run(CC, "-std=c99", f"-I{ROOT / 'include'}", source, "-o", program)
        return run(program)


def check_layout():
    recorded, found = LAYOUT.read_text().splitlines(), layout().splitlines()
    problems = list(difflib.unified_diff(recorded, found, "layout.txt", "the headers", lineterm=""))
    return problems + ["meant? then run tests/abi/abi_test.py record"] if problems else []


def main():
    command = sys.argv[1] if len(sys.argv) == 2 else ""
    if command == "record":
        LAYOUT.write_text(layout())
        return
    checks = {"symbols": check_symbols, "dialects": check_dialects, "layout": check_layout,
              "hardened": check_hardened}
    if command not in checks:
        sys.exit(__doc__)
    problems = checks[command]()
    print("\n".join(problems))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
