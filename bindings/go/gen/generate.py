#!/usr/bin/env python3
"""Writes lists.go from the interface of the library: values of enums with their names, and records; and the names of
constants for the conformance runner. Needs gofmt.

  generate.py            writes these files
  generate.py --check    compares them with what would be written; exit 1 and the difference where they differ

CKPT_API names the api.json of an installed library; without it the headers of this repository are read.
"""
import itertools
import re
import subprocess
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "cmake"))
from api import interface, packed, write_or_check  # noqa: E402

# enum: Go's type, what its values begin with, how String shows a value: as C spells it ("UPPER"), in lower case, or a
# function that is written by hand (None).
ENUMS = {
    "status": ("Status", "Err", None), "dtype": ("DType", "", None), "device": ("DeviceType", "", None),
    "checkpoint": ("CheckpointState", "Checkpoint", "UPPER"), "checkpoint_flags": ("uint32", "Checkpoint", None),
    "job": ("JobState", "Job", "UPPER"), "finding": ("FindingKind", "Finding", "UPPER"),
    "option": ("OptionKind", "Option", "UPPER"), "io": ("IOEngine", "IO", None), "codec": ("Codec", "Codec", None),
    "filter": ("Filter", "Filter", None), "object": ("ObjectScope", "", "lower"),
    "region": ("RegionKind", "Region", "lower"), "node": ("NodeKind", "Node", "lower"),
    "key": ("KeyKind", "Key", "lower"), "keeper_go_on": ("Todo", "Todo", "UPPER"),
}
# What is not the words of C's name, each with a capital.
VALUES = {"CKPT_OK": "StatusOK", "CKPT_NOMEM": "ErrNoMem", "CKPT_IO_URING": "IOURing", "CKPT_NODE_BIGINT": "NodeBigInt",
          "CKPT_OBJECT_TREE": "TreeOfRanks", "CKPT_FILTER_SHUFFLE": "FilterByteShuffle"}
WORDS = {"id": "ID", "dtype": "DType", "io": "IO", "cpu": "CPU", "cuda": "CUDA", "lz4": "LZ4"}
# A field of a record with another name or type: (name, type, value).
FIELDS = {
    "created_unix_ms": ("Created", "time.Time", "time.UnixMilli(int64(from.created_unix_ms))"),
    "id_dtype": ("IDType", "DType", "DType(from.id_dtype)"),
    "ckpt_column_info.shape": ("Row", "[]int64", "numbers(&from.shape, from.ndim)"),
}
RECORDS = {
    "ckpt_checkpoint_info": "describes one checkpoint or attempt", "ckpt_run_info": "describes one run",
    "ckpt_tensor_info": "describes a tensor or alias of a checkpoint",
    "ckpt_object_info": "describes an object of a checkpoint", "ckpt_part_info": "describes one part of a checkpoint",
    "ckpt_table_info": "describes a sparse table of a checkpoint",
    "ckpt_column_info": "describes a column of a sparse table; Row is the shape of one row, empty for one element",
    "ckpt_job_stats": "has counts of a job's work. Times are to the microsecond",
    "ckpt_finding": "is one line of a report", "ckpt_option_info": "describes one option",
    "ckpt_file_tensor": "describes a tensor of a file",
}
NUMBERS = {"int32_t": "int32", "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64", "double": "float64"}


def capitals(name):
    return "".join(WORDS.get(word, word.capitalize()) for word in name.lower().split("_"))


def value_name(enum, value):
    rest = value["name"].removeprefix(enum["prefix"])
    if enum["name"] == "dtype" and rest != "BOOL":
        return rest.replace("_", "")
    return VALUES.get(value["name"], ENUMS[enum["name"]][1] + capitals(rest))


def go_words(text, names):
    """A comment of C in Go's words, without what only C needs."""
    text = re.sub(r"CKPT_\w+_\*|;? ?\b[Bb]orrowed\b.*|(?<!-)\b1 (?=where)|, …$| \| …$", "", text)
    text = re.sub(r"CKPT_\w+", lambda found: names.get(found[0], found[0]), text)
    return text.replace("NULL", '""').replace("ckpt_reader_open", "OpenReader").strip(" ;:")


def commented(code, text, names):
    """A line with its comment, which stands above it if it is long."""
    words = go_words(text, names)
    if len(words) > 76 or len(code) + len(words) > 104:
        return [*textwrap.wrap(words, 110, initial_indent="\t// ", subsequent_indent="\t// "), code]
    return [f"{code} // {words}" if words else code]


def enum_lines(enum, names):
    kind, _, shown = ENUMS[enum["name"]]
    yield f"// The values of {kind}." if kind != "uint32" else "// The flags of a checkpoint."
    yield "const ("
    for value in enum["values"]:
        yield from commented(f"\t{value_name(enum, value)} {kind} = C.{value['name']}", value["text"], names)
    yield ")"
    if not shown:
        return
    words = [value["name"].removeprefix(enum["prefix"]) for value in enum["values"]]
    if shown == "lower":
        words = [word.lower().replace("_", "-") for word in words]
    yield f"// String returns the name{' as ckpt.h spells it' if shown == 'UPPER' else ''}, \"{words[0]}\"."
    yield f"func (v {kind}) String() string {{"
    yield f"\treturn nameOf(\"{kind}\", int32(v), map[int32]string{{"
    yield from packed((f'C.{value["name"]}: "{word}"' for value, word in zip(enum["values"], words)), "\t\t")
    yield "\t})\n}"


def field_of(struct, field):
    """(name, type, value) in a record."""
    name, kind = field["name"], field["type"]
    value = f"from.{name}"
    if other := FIELDS.get(f"{struct['name']}.{name}") or FIELDS.get(name):
        return other
    if field.get("enum") in ENUMS:
        kind = ENUMS[field["enum"]][0]
    elif "char" in kind:
        return capitals(name), "string", f"C.GoString({value if '*' in kind else f'&{value}[0]'})"
    elif "count" in field:
        return capitals(name), "[]int64", f"numbers(&{value}, from.ndim)"
    elif "bool" in field:
        return capitals(name), "bool", f"{value} != 0"
    elif name.endswith("_us"):
        name, kind, value = name[:-3] + "_time", "time.Duration", f"{value} * 1000"
    else:
        kind = NUMBERS[kind]
    return capitals(name), kind, f"{kind}({value})"


def record_lines(struct, names):
    kind = capitals(struct["name"][5:])
    skipped = ("struct_size", "reserved", "ndim", "data")
    fields = [(*field_of(struct, field), field["text"]) for field in struct["fields"] if field["name"] not in skipped]
    fields.sort(key=lambda field: field[1] != "string" or field[0] == "AliasOf")
    yield f"// {kind} {RECORDS[struct['name']]}."
    yield f"type {kind} struct {{"
    for (of, text), same in itertools.groupby(fields, lambda field: (field[1], field[3])):
        yield from commented(f"\t{', '.join(field[0] for field in same)} {of}", text, names)
    yield f"}}\n\nfunc make{kind}(from *C.{struct['name']}) {kind} {{"
    yield f"\treturn {kind}{{"
    yield from packed((f"{name}: {value}" for name, _, value, _ in fields), "\t\t")
    yield "\t}\n}"


def constant_lines(enum, kind):
    names = [(value["name"].removeprefix(enum["prefix"]), value_name(enum, value)) for value in enum["values"]]
    yield f"var {enum['name']}Constants = map[string]ckpt.{kind}{{"
    yield from packed((f'"{name}": ckpt.{constant}' for name, constant in names), "\t")
    yield "}"


def generate():
    """(file, what it has to hold)"""
    api = interface()
    structs = {struct["name"]: struct for struct in api["structs"]}
    enums = {enum["name"]: enum for enum in api["enums"] if enum["name"] in ENUMS}
    names = {value["name"]: value_name(enum, value) for enum in enums.values() for value in enum["values"]}
    lists = ["package ckpt", "", '// #include "ckpt_go.h"', 'import "C"', "", 'import "time"', ""]
    for enum in enums.values():
        lists += [*enum_lines(enum, names), ""]
    for name in RECORDS:
        lists += [*record_lines(structs[name], names), ""]
    constants = ["package conformance", "", 'import ckpt "github.com/ckpt-engine/ckpt/bindings/go"', ""]
    for name in ("status", "dtype"):
        constants += [*constant_lines(enums[name], ENUMS[name][0]), ""]
    for name, lines in (("lists.go", lists), ("internal/conformance/constants.go", constants)):
        text = "\n".join(["// Code generated by gen/generate.py from the headers of ckpt. DO NOT EDIT.", "", *lines])
        yield HERE.parent / name, subprocess.run(["gofmt"], input=text, text=True, capture_output=True,
                                                 check=True).stdout


if __name__ == "__main__":
    write_or_check(generate())
