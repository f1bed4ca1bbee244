#!/usr/bin/env python3
"""Writes src/api.jl from the headers: constants, structs, calls, and a table of layouts.

  generate.py            writes src/api.jl
  generate.py --check    compares it with what would be written; exit 1 and the difference where they differ

Needs libclang 18.1.1 from PyPI. CKPT_INCLUDE_DIR names another folder with the headers.
"""
import difflib
import os
import re
import sys
from pathlib import Path

from clang import cindex

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "src" / "api.jl"
INCLUDE = Path(os.environ.get("CKPT_INCLUDE_DIR", HERE.parents[2] / "include"))
HEADERS = ("ckpt.h", "ckpt_maintain.h", "ckpt_table.h", "ckpt_tree.h", "ckpt_file.h")

# The one table of types: what a C type is in Julia. Handles and structs are added from the headers.
SCALARS = {
    "int": "Cint",
    "int32_t": "Int32",
    "uint32_t": "UInt32",
    "int64_t": "Int64",
    "uint64_t": "UInt64",
    "size_t": "Csize_t",
    "double": "Float64",
    "char": "UInt8",
    "void": "Cvoid",
    "ckpt_status": "ckpt_status",
}

# Calls that neither wait nor touch a disk: plain ccalls. All others let the garbage collector run meanwhile.
QUICK = re.compile(
    r"ckpt_(version_|status_|error_|dtype_|option_|options_|(list|runs)_(count|at)|session_string|save_id|"
    r"reader_(?!open|free|map|verify|diff|copy|tree|segment_at)|job_(new|state|cancel|stats_get)|report_(?!free)|"
    r"tree_(?!parse|json|free)|file_(?!open|free|read))"
)

# Enums whose members become a table of names: prefix -> name of the table.
GROUPS = {
    "CKPT_DTYPE_": "DTYPES",
    "CKPT_DEVICE_": "DEVICES",
    "CKPT_JOB_": "JOB_STATES",
    "CKPT_NODE_": "NODE_KINDS",
    "CKPT_KEY_": "KEY_KINDS",
    "CKPT_FINDING_": "FINDING_KINDS",
    "CKPT_IO_": "IO_ENGINES",
    "CKPT_OBJECT_": "OBJECT_SCOPES",
    "CKPT_OPTION_": "OPTION_KINDS",
    "CKPT_REGION_": "REGION_KINDS",
    "CKPT_SHARE_": "SHARE_KINDS",
    "CKPT_TENSOR_": "TENSOR_FLAGS",
}


def parse_headers():
    """The translation unit of all headers; an error in it ends the program."""
    source = "".join(f'#include "{INCLUDE / name}"\n' for name in HEADERS)
    options = cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD
    builtin = HERE / "clang"  # stddef.h and stdint.h: PyPI's libclang brings none
    unit = cindex.Index.create().parse(
        "all.c",
        args=["-std=c99", "-nostdinc", f"-I{builtin}", f"-I{INCLUDE}"],
        unsaved_files=[("all.c", source)],
        options=options,
    )
    problems = [str(d) for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if problems:
        sys.exit("\n".join(problems))
    return unit


def ours(cursor):
    return cursor.location.file and Path(cursor.location.file.name).name in HEADERS


def julia_type(ctype, counted=False):
    """`counted`: text with a size beside it, which may hold NULs and is no Cstring."""
    kind = ctype.kind
    if kind == cindex.TypeKind.POINTER:
        target = ctype.get_pointee()
        spelling = target.spelling.replace("const ", "").replace(" const", "").strip()
        if spelling == "char":
            return "Ptr{UInt8}" if counted else "Cstring"
        return f"Ptr{{{julia_type(target)}}}"
    if kind == cindex.TypeKind.CONSTANTARRAY:
        return f"NTuple{{{ctype.element_count}, {julia_type(ctype.element_type)}}}"
    name = ctype.spelling.replace("const ", "").replace("struct ", "").strip()
    return SCALARS.get(name, name)


def is_counted(members, index):
    """Whether member `index` is text whose size is the next member."""
    following = members[index + 1].spelling if index + 1 < len(members) else ""
    return following in ("size", members[index].spelling + "_size")


class Headers:
    """What the headers declare, in their order."""

    def __init__(self):
        self.constants, self.enums, self.structs, self.opaque, self.functions = {}, [], {}, [], []
        unit = parse_headers()
        for cursor in unit.cursor.get_children():
            if ours(cursor):
                self.take(cursor)
        self.opaque = [name for name in self.opaque if name not in self.structs]

    def take(self, cursor):
        kinds = cindex.CursorKind
        if cursor.kind == kinds.MACRO_DEFINITION:
            self.take_macro(cursor)
        elif cursor.kind == kinds.ENUM_DECL:
            members = {member.spelling: member.enum_value for member in cursor.get_children()}
            self.constants.update(members)
            self.enums.append(members)
        elif cursor.kind == kinds.STRUCT_DECL:
            self.take_struct(cursor)
        elif cursor.kind == kinds.FUNCTION_DECL:
            arguments = list(cursor.get_arguments())
            self.functions.append(
                (
                    cursor.spelling,
                    julia_type(cursor.result_type),
                    [(a.spelling, julia_type(a.type, is_counted(arguments, i))) for i, a in enumerate(arguments)],
                )
            )

    def take_macro(self, cursor):
        tokens = [token.spelling for token in cursor.get_tokens()][1:]
        if len(tokens) == 1 and tokens[0].startswith('"'):
            self.constants[cursor.spelling] = tokens[0]
        elif len(tokens) == 1 and re.fullmatch(r"\d+", tokens[0]):
            self.constants[cursor.spelling] = int(tokens[0])
        elif tokens == ["UINT64_MAX"]:
            self.constants[cursor.spelling] = "typemax(UInt64)"

    def take_struct(self, cursor):
        fields = [field for field in cursor.get_children() if field.kind == cindex.CursorKind.FIELD_DECL]
        if not fields:
            if cursor.spelling not in self.opaque:
                self.opaque.append(cursor.spelling)
            return
        ctype = cursor.type
        self.structs[cursor.spelling] = (
            ctype.get_size(),
            [
                (
                    field.spelling,
                    julia_type(field.type, is_counted(fields, i)),
                    ctype.get_offset(field.spelling) // 8,
                    field.type.get_size(),
                )
                for i, field in enumerate(fields)
            ],
        )


def constant_lines(headers):
    for name, value in headers.constants.items():
        yield f"const {name} = {value}" if isinstance(value, str) else f"const {name} = Int32({value})"


def group_lines(headers):
    """Names of statuses, states and kinds, without their prefix, for messages and for symbols in the interface."""
    for members in headers.enums:
        first = next(iter(members))
        prefix = next((p for p in GROUPS if first.startswith(p)), None)
        table = "STATUSES" if first == "CKPT_OK" else GROUPS.get(prefix)
        if first.startswith("CKPT_CHECKPOINT_"):
            table, prefix = (
                "CHECKPOINT_STATES" if "CKPT_CHECKPOINT_OPEN" in members else "CHECKPOINT_FLAGS",
                "CKPT_CHECKPOINT_",
            )
        if table is None:
            sys.exit(f"no name for the enum of {first}: add it to GROUPS")
        cut = len(prefix) if table != "STATUSES" else len("CKPT_")
        yield f"const {table} = Pair{{Symbol,Int32}}["
        yield from (f"    :{name[cut:]} => {name}," for name in members)
        yield "]"


def struct_lines(headers):
    for name in headers.opaque:
        yield f"abstract type {name} end"
    for name, (_, fields) in headers.structs.items():
        yield ""
        yield f"struct {name}"
        yield from (f"    {field}::{kind}" for field, kind, _, _ in fields)
        yield "end"


def wrapped_signature(name, arguments, result):
    """The call in lines of at most 112 columns, the first of which has no indent."""
    words = [f"{a}::{t}" for a, t in arguments]
    library = "libckpt_files" if re.match(r"ckpt_(import$|export$|file_)", name) else "libckpt"
    lines, line = [], f"{library}.{name}("
    for i, word in enumerate(words):
        word += ", " if i + 1 < len(words) else ""
        if len(line) + len(word) > 96:
            lines.append(line.rstrip())
            line = "        "
        line += word
    if len(line) + len(result) > 100 and len(lines) + len(arguments) > 1 and ", " in line:
        line, last = line.rsplit(", ", 1)
        lines += [line + ",", "        " + last + f")::{result}"]
    else:
        lines.append(f"{line})::{result}")
    return lines


def function_lines(headers):
    for name, result, arguments in headers.functions:
        head = "@ccall " if QUICK.match(name) else "@blocking "
        yield f"function {name}({', '.join(a for a, _ in arguments)})"
        lines = wrapped_signature(name, arguments, result)
        yield "    " + head + lines[0]
        yield from lines[1:]
        yield "end"


def layout_lines(headers):
    """sizeof, then offset and size of each field: test/ compares Julia with it, tests/julia compares C with it."""
    yield "const LAYOUTS = ["
    for name, (size, fields) in headers.structs.items():
        yield f"    ({name}, {size}, ["
        yield from (f"        (:{field}, {offset}, {width})," for field, _, offset, width in fields)
        yield "    ]),"
    yield "]"


def generate():
    headers = Headers()
    version = ".".join(str(headers.constants[f"CKPT_VERSION_{part}"]) for part in ("MAJOR", "MINOR", "PATCH"))
    sections = [
        [
            f"# Generated by gen/generate.py from {', '.join(HEADERS)} of ckpt {version}. Do not edit.",
            "# What each call does, its options, statuses and thread class: the header, at the same name.",
        ],
        ["# ---- constants ----", "const ckpt_status = Int32"],
        constant_lines(headers),
        group_lines(headers),
        ["# ---- handles and structs ----"],
        struct_lines(headers),
        ["# ---- calls ----"],
        function_lines(headers),
        ["# ---- layouts: size; offset and size of each field ----"],
        layout_lines(headers),
    ]
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def main():
    text = generate()
    if sys.argv[1:] == ["--check"]:
        before = OUTPUT.read_text() if OUTPUT.exists() else ""
        sys.stdout.writelines(
            difflib.unified_diff(
                before.splitlines(True), text.splitlines(True), "src/api.jl", "from the headers", n=1
            )
        )
        sys.exit(before != text)
    OUTPUT.write_text(text)


if __name__ == "__main__":
    main()
