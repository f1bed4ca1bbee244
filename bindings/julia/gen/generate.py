#!/usr/bin/env python3
"""Writes from the interface of the library src/api.jl: constants, structs, calls, and a table of layouts; and
src/records.jl: what calls tell, in Julia's own types.

  generate.py            writes these files
  generate.py --check    compares them with what would be written; exit 1 and the difference where they differ

CKPT_API names the api.json of an installed library; without it the headers of this repository are read.
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "cmake"))
from api import interface, packed, write_or_check  # noqa: E402
SOURCES = HERE.parent / "src"

# The one table of types: what a C type is in Julia. Handles and structs have their own names.
SCALARS = {
    "int32_t": "Int32",
    "uint32_t": "UInt32",
    "int64_t": "Int64",
    "uint64_t": "UInt64",
    "size_t": "Csize_t",
    "double": "Float64",
    "char": "UInt8",
    "void": "Cvoid",
}

# Calls that neither wait nor touch a disk: plain ccalls. All others let the garbage collector run meanwhile.
QUICK = re.compile(
    r"ckpt_(version_|status_|error_|dtype_|option_|options_|(list|runs)_(count|at)|session_string|save_id|"
    r"reader_(?!open|free|map|verify|diff|copy|tree|segment_at)|job_(new|state|cancel|stats_get)|report_(?!free)|"
    r"tree_(?!parse|json|free)|file_(?!open|free|read))"
)

# The tables of the names of an enum's values, where they are not called after the enum: node -> NODES.
TABLES = {
    "status": "STATUSES",
    "job": "JOB_STATES",
    "node": "NODE_KINDS",
    "key": "KEY_KINDS",
    "finding": "FINDING_KINDS",
    "io": "IO_ENGINES",
    "object": "OBJECT_SCOPES",
    "option": "OPTION_KINDS",
    "region": "REGION_KINDS",
    "share": "SHARE_KINDS",
    "tensor": "TENSOR_FLAGS",
    "checkpoint": "CHECKPOINT_STATES",
    "checkpoint_flags": "CHECKPOINT_FLAGS",
}

RECORDS = ("checkpoint_info", "run_info", "tensor_info", "object_info", "part_info", "table_info", "column_info",
           "job_stats", "option_info", "file_tensor")
# Fields whose type or value is not what record_field makes of C's: (type, value).
FIELDS = {
    "newest_id": ("Union{String,Nothing}", "raw.newest_id[1] == 0 ? nothing : text(raw.newest_id)"),
    "newest_label": ("Union{String,Nothing}", "raw.newest_id[1] == 0 ? nothing : text(raw.newest_label)"),
    "object_info.rank": ("Union{Int,Nothing}", "raw.scope == CKPT_OBJECT_SHARED ? nothing : Int(raw.rank)"),
    "row_bytes": ("Int", "Int(raw.row_bytes)"),
}


def julia_type(ctype, counted=False):
    """`counted`: text with a size beside it, which may hold NULs and is no Cstring."""
    base, *stars = ctype.replace("const", "").replace(" ", "").partition("*")
    stars = "".join(stars)
    if base == "char" and stars:
        base, stars = ("Ptr{UInt8}" if counted and stars == "*" else "Cstring"), stars[1:]
    kind = SCALARS.get(base, base)
    for _ in stars:
        kind = f"Ptr{{{kind}}}"
    return kind


def typed(members):
    """(name, Julia's type) of arguments or fields."""
    for one, following in zip(members, [*members[1:], {"name": ""}]):
        kind = julia_type(one["type"], following["name"] in ("size", one["name"] + "_size"))
        yield one["name"], f"NTuple{{{one['count']}, {kind}}}" if "count" in one else kind


def constant_lines(api):
    for value in [*api["constants"], *(value for enum in api["enums"] for value in enum["values"])]:
        number = value["value"]
        shown = f'"{number}"' if isinstance(number, str) else "typemax(UInt64)" if number == 2**64 - 1 else \
            f"Int32({number})"
        yield f"const {value['name']} = {shown}"


def group_lines(api):
    """Names of statuses, states and kinds, without their prefix, for messages and for symbols in the interface."""
    for enum in api["enums"]:
        yield f"const {TABLES.get(enum['name'], enum['name'].upper() + 'S')} = Pair{{Symbol,Int32}}["
        yield from (f"    :{v['name'].removeprefix(enum['prefix'])} => {v['name']}," for v in enum["values"])
        yield "]"


def struct_lines(api):
    for handle in api["handles"]:
        yield f"abstract type {handle['name']} end"
    for struct in api["structs"]:
        yield ""
        yield f"struct {struct['name']}"
        yield from (f"    {name}::{kind}" for name, kind in typed(struct["fields"]))
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


def function_lines(api):
    for function in api["functions"]:
        name, arguments = function["name"], list(typed(function["arguments"]))
        head = "@ccall " if QUICK.match(name) else "@blocking "
        yield f"function {name}({', '.join(a for a, _ in arguments)})"
        lines = wrapped_signature(name, arguments, julia_type(function["returns"]))
        yield "    " + head + lines[0]
        yield from lines[1:]
        yield "end"


def record_field(record, field):
    """(type, value) in a record."""
    name, kind, enum = field["name"], field["type"], field.get("enum")
    value, count = f"raw.{name}", name.endswith("_count") or name == "passed_over"
    if other := FIELDS.get(f"{record}.{name}") or FIELDS.get(name):
        return other
    if enum:
        table = TABLES.get(enum)
        return ("DType", f"DType({value})") if enum == "dtype" else \
            ("Vector{Symbol}", f"names_of({table}, {value})") if enum.endswith("_flags") else \
            ("Union{Symbol,Int}", f"name_of({table}, {value})")
    if "char" in kind:
        return "Union{String,Nothing}" if "nullable" in field else "String", f"text({value})"
    if "count" in field:
        return "Vector{Int}", f"extents({value}, raw.ndim)"
    if "none" in field:
        return "Union{Int64,Nothing}", f"{value} < 0 ? nothing : {value}"
    if "bool" in field:
        return "Bool", f"{value} != 0"
    if kind in ("int32_t", "uint32_t") or count:
        return "Int", f"Int({value})"
    return julia_type(kind), value


def record_lines(api):
    for record in RECORDS:
        struct = next(struct for struct in api["structs"] if struct["name"] == f"ckpt_{record}")
        fields = [(field["name"], *record_field(record, field)) for field in struct["fields"]
                  if field["name"] not in ("struct_size", "reserved", "ndim")]
        fields.sort(key=lambda field: field[1] != "String")
        name = record.title().replace("_", "")
        yield f"struct {name}"
        yield from packed((f"{name}::{kind}" for name, kind, _ in fields), "    ", "; ")
        yield "end"
        yield f"{name}(raw::ckpt_{record}) = {name}("
        yield from packed((value for _, _, value in fields), "    ")
        yield ")\n"


def layout_lines(api):
    """sizeof, then offset and size of each field, which test/ compares with Julia's."""
    yield "const LAYOUTS = ["
    for struct in api["structs"]:
        yield f"    ({struct['name']}, {struct['size']}, ["
        yield from (f"        (:{field['name']}, {field['offset']}, {field['size']})," for field in struct["fields"])
        yield "    ]),"
    yield "]"


def generate():
    """(file, what it has to hold)"""
    api = interface()
    head = f"# Generated by gen/generate.py from {', '.join(api['headers'])} of ckpt {api['version']}. Do not edit."
    sections = [
        [head, "# What each call does, its options, statuses and thread class: the header, at the same name."],
        ["# ---- constants ----", "const ckpt_status = Int32"],
        constant_lines(api),
        group_lines(api),
        ["# ---- handles and structs ----"],
        struct_lines(api),
        ["# ---- calls ----"],
        function_lines(api),
        ["# ---- layouts: size; offset and size of each field ----"],
        layout_lines(api),
    ]
    yield SOURCES / "api.jl", "\n\n".join("\n".join(section) for section in sections) + "\n"
    yield SOURCES / "records.jl", "\n".join([head, "# Documented in infos.jl, tables.jl, files.jl and options.jl.\n",
                                            *record_lines(api)])


if __name__ == "__main__":
    write_or_check(generate())
