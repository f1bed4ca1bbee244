#!/usr/bin/env python3
"""Checks that the headers in include/, the maps of symbols and the built libraries agree.

  abi_test.py symbols    of libckpt and of libckpt_files headers, map and library have the same functions; SONAME
  abi_test.py dialects   each header compiles alone without a warning, C99 to C++20, included twice by two files
  abi_test.py hardened   the libraries have stack protector, fortified calls and full RELRO
  abi_test.py layout     sizes and offsets of every public struct, and all constants, are those in layout.txt; and what
                         api.json says of these and of prototypes is what the compiler says
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
sys.path.insert(0, str(ROOT / "cmake"))
from api import headers_of, read  # noqa: E402

HEADERS = headers_of(ROOT, of_layers=True)
API = read(ROOT / "src/base", *HEADERS)
LAYOUT = Path(__file__).with_name("layout.txt")
CC = os.environ.get("CC", "cc")
CXX = os.environ.get("CXX", "c++")
STRICT = ["-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]


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
    return (check_library({"ckpt_file.h"}, ROOT / "interop" / "ckpt_files.map", os.environ["CKPT_FILES_LIBRARY"],
                          "libckpt_files.so.0", 10) +
            check_library({header.name for header in HEADERS} - {"ckpt_file.h"}, ROOT / "src" / "ckpt.map",
                          os.environ["CKPT_LIBRARY"], "libckpt.so.0", 90))


def check_library(headers, symbols, library, soname, least):
    header = {function["name"] for function in API["functions"] if function["header"] in headers}
    problems = compare("the headers", header, symbols.name, map_functions(symbols))
    problems += compare("the headers", header, f"the exports of {soname}", library_functions(library))
    found = re.search(r"SONAME.*\[(.*)\]", run("readelf", "-d", library))
    if not found or found.group(1) != soname:
        problems.append(f"SONAME: expected {soname}, found {found and found.group(1)}")
    if len(header) < least:
        problems.append(f"only {len(header)} functions found in the headers of {soname}")
    return problems


def check_hardened():
    """Of libraries that were built with optimisation, by a compiler and libc that have all of these (GCC, glibc). A
    thread that was left behind may still work in one that a program closes."""
    asked = {"full RELRO": "BIND_NOW", "read-only relocations": "GNU_RELRO", "stack protector": "__stack_chk_fail",
             "fortified calls": r"__\w+_chk\b", "a mark that dlclose leaves it loaded": "NODELETE"}
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


def described():
    """What api.json says of structs and constants."""
    for struct in API["structs"]:
        yield f"struct {struct['name']} {struct['size']}"
        yield from (f"  {field['name']} {field['offset']} {field['size']}" for field in struct["fields"])
    constants = [value for enum in API["enums"] for value in enum["values"]]
    constants += [constant for constant in API["constants"] if isinstance(constant["value"], int)]
    for constant in constants:
        if not constant["name"].startswith("CKPT_VERSION"):
            yield f"{constant['name']} {constant['value']}"


def meanings():
    """What comments of fields say to the generators of bindings: another word there is another interface."""
    for struct in API["structs"]:
        for field in struct["fields"]:
            found = [f"{key}={field[key]}" for key in ("enum", "bool", "nullable", "none") if key in field]
            if found:
                yield " ".join([f"{struct['name']}.{field['name']}", *found])


def layout_program():
    """Prints the same from what the compiler knows; it does not compile if a prototype is another."""
    lines = ["#include <stdio.h>", "#include <stddef.h>"] + [f'#include "{header.name}"' for header in HEADERS]
    for function in API["functions"]:
        arguments = ", ".join(argument["type"] for argument in function["arguments"]) or "void"
        lines.append(f"{function['returns']} {function['name']}({arguments});")
    lines.append("int main(void) {")
    struct = ""
    for line in described():
        name = line.split()[-2 if line[0] != " " else 0]
        if line.startswith("struct"):
            struct = name
            lines.append(f'  printf("struct {name} %zu\\n", sizeof({name}));')
        elif line.startswith(" "):
            where, size = f"offsetof({struct}, {name})", f"sizeof((({struct} *)0)->{name})"
            lines.append(f'  printf("  {name} %zu %zu\\n", {where}, {size});')
        else:
            lines.append(f'  printf("{name} %llu\\n", (unsigned long long)({name}));')
    return "\n".join(lines + ["  return 0;", "}", ""])


def layout():
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "layout.c", Path(folder) / "layout"
        source.write_text(layout_program())
        run(CC, "-std=c99", f"-I{ROOT / 'include'}", source, "-o", program)
        return run(program)


def check_layout():
    recorded, found = LAYOUT.read_text().splitlines(), layout().splitlines()
    problems = list(difflib.unified_diff(list(described()), found, "api.json", "the compiler", lineterm=""))
    found += meanings()
    if recorded != found:
        problems += difflib.unified_diff(recorded, found, "layout.txt", "the headers", lineterm="")
        problems.append("meant? then run tests/abi/abi_test.py record")
    return problems


def main():
    command = sys.argv[1] if len(sys.argv) == 2 else ""
    if command == "record":
        LAYOUT.write_text(layout() + "".join(line + "\n" for line in meanings()))
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
