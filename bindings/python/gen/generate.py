"""Writes what repeats the interface, from the api.json that libckpt installs; CMakeLists.txt runs it.

  generate.py API_JSON FOLDER

FOLDER gets enums.py, errors.py and records.py: the files of this folder, in which each line `# @NAME` becomes the
values of an enum, the fields of a struct (`without` some), or one of `lists`; and a header that turns a struct into
the arguments of its record.
Texts come first in a record, then the other fields in C's order.
"""
import builtins
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DIRECTIVE = re.compile(r"^ *# @(\w+)(?: without ([\w ]+))?\n", flags=re.M)
CLASS_OF_ENUM = re.compile(r"^class (\w+)\((?:(?!^class ).)*?^    # @(\w+)$", flags=re.M | re.S)

GROUPS = {1: "CallError", 2: "StoreError", 3: "DataError", 4: "RankError", 5: "MachineError"}  # a status's tens


def members(enum):
    for value in enum["values"]:
        comment = f"  # {value['text']}" if value["text"] else ""
        yield f"    {value['name'].removeprefix(enum['prefix'])} = {value['value']}{comment}\n"


def lists(api, statuses):
    """name -> lines: what numpy and torch call dtypes; the exceptions, and which is for which status."""
    made = {whose: [f'    DType.{row["name"]}: "{row[whose]}",' for row in api["dtypes"] if whose in row]
            for whose in ("numpy", "torch")}
    made |= {"classes": [], "class_of_status": [], "class_names": []}
    for value in statuses[1:]:  # all but OK
        status, text = value["name"].removeprefix("CKPT_"), value["text"]
        name = status.replace("NOMEM", "NO_MEMORY").title().replace("_", "") + "Error"
        bases, more = GROUPS.get(value["value"] // 10, "Error"), ""
        if name in dir(builtins):
            bases, more = f"{bases}, builtins.{name}", f" It is Python's {name} too."
        made["classes"].append(f'class {name}({bases}):\n    """{text[0].upper()}{text[1:]}.{more}"""\n\n')
        made["class_of_status"].append(f"    Status.{status}: {name},")
        made["class_names"].append(f'    "{name}",')
    return made


def fields_of(struct, without):
    """Those that a record has: not what C needs to describe the others."""
    names = {"struct_size", "reserved", "ndim", *without}
    fields = [f for f in struct["fields"] if f["name"] not in names and f["type"] != "const void*"]
    return sorted(fields, key=lambda f: "char" not in f["type"] or "nullable" in f)


def python_type(field, classes):
    if "enum" in field:
        return classes.get(field["enum"], "int")
    if "char" in field["type"]:
        return "str | None" if "nullable" in field else "str"
    if "count" in field:
        return "tuple[int, ...]"
    return "bool" if "bool" in field else "float" if field["type"] == "double" else "int"


def annotations(struct, without, classes):
    for field in fields_of(struct, without):
        comment = "" if re.match("CKPT_|borrowed|$", field["text"]) else f"  # {field['text']}"
        yield f"    {field['name']}: {python_type(field, classes)}{comment}\n"


def cpp_value(field, classes):
    value = f"info.{field['name']}"
    kind = python_type(field, classes)
    if field.get("enum") in classes:
        return f'enums("{kind}")({value})'
    wrapped = {"bool": f"{value} != 0", "tuple[int, ...]": f"extents({value}, info.ndim)"}
    return f"text_or_none({value})" if "str" in kind else wrapped.get(kind, value)


def cpp_fields(struct, without, classes):
    values = ", ".join(cpp_value(field, classes) for field in fields_of(struct, without))
    return f"static nb::tuple fields(const {struct['name']}& info) {{ return nb::make_tuple({values}); }}\n"


def main(api_json, folder):
    api = json.loads(Path(api_json).read_text())
    enums = {enum["name"]: enum for enum in api["enums"]}
    structs = {struct["name"]: struct for struct in api["structs"]}
    sources = {name: (HERE / name).read_text() for name in ("enums.py", "errors.py", "records.py")}
    classes = {enum: name for name, enum in CLASS_OF_ENUM.findall(sources["enums.py"])}
    others = lists(api, enums["status"]["values"])
    header = "// The arguments of ckpt.records' classes; generated.\n"

    def expand(found):
        nonlocal header
        name, without = found[1], (found[2] or "").split()
        if name in others:
            return "".join(f"{line}\n" for line in others[name])
        if name in enums:
            return "".join(members(enums[name]))
        header += cpp_fields(structs[name], without, classes)
        return "".join(annotations(structs[name], without, classes))

    made = {name: DIRECTIVE.sub(expand, text) for name, text in sources.items()}
    for name, text in {**made, "fields.h": header}.items():
        (Path(folder) / name).write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
