#!/usr/bin/env python3
"""The interface as data: functions, structs, enums, constants, options, dtypes, from the headers, options.def and
dtypes.def.

  api.py api.json FOLDER HEADER...        FOLDER has options.def and dtypes.def

The build makes api.json and installs it as share/ckpt/api.json. The bindings generate their raw layers and lists from
it; tests/abi compares it with what the compiler says. C is read as the headers of ckpt are written: a comment belongs
to what follows it without an empty line, or to what stands before it on its line.

Types are spelt as in C. What a field's comment says by convention is a key of its own: `enum`, whose values it takes,
if the comment begins with a constant or CKPT_PREFIX_*; `bool` for "1 where"; `nullable` for text that may be NULL;
`none` for "-1 for none" or "-1 where none". `group` of a value is the comment above it, which is about those that
follow, too.
"""
import difflib
import json
import os
import re
import sys
from pathlib import Path

SIZES = {"char": 1, "int32_t": 4, "uint32_t": 4, "int64_t": 8, "uint64_t": 8, "size_t": 8, "double": 8,
         "ckpt_status": 4}
COMMENT = r"/\*(?:[^*]|\*(?!/))*\*/"
ITEM = re.compile(rf"""
    (?P<comment>{COMMENT})
  | \#define[ ](?P<constant>CKPT_\w+)[ ]+(?P<value>"[^"]*"|\d+|UINT64_MAX)(?=\s)
  | (?P<skip>\#(?:include|if|ifdef|ifndef|else|endif)\b[^\n]*|\#define[ ]\w+_H(?=\n)|\#define[ ]CKPT_API\b[^\n]*
      |\#define[ ]CKPT_DTYPE\([^\n]*|extern[ ]"C"[ ]\{{|\}}|typedef[ ]int32_t[ ]ckpt_status;)
  | typedef[ ](?P<callback>[\w ]+?[ *]*\(\*(?P<called>\w+)\)\([^()]*\));
  | typedef[ ]struct[ ](?P<handle>\w+)[ ]\w+;
  | typedef[ ]struct[ ](?P<struct>\w+)[ ]\{{(?P<fields>(?:{COMMENT}|[^}}])*)\}}[ ]\w+;
  | enum[ ]\{{(?P<values>(?:{COMMENT}|[^}}])*)\}};
  | CKPT_API[ ](?P<returns>[\w ]+?[ *]+)(?P<function>ckpt_\w+)\((?P<arguments>(?:[^()]|\([^()]*\))*)\);
""", re.X)


def plain(comment):
    """The text of a comment, one line for each of it."""
    return "\n".join(re.sub(r"^\s*\* ?", "", line).rstrip() for line in comment[2:-2].strip().split("\n"))


def line(comments):
    return " ".join(" ".join(plain(comment).split()) for comment in re.findall(COMMENT, comments))


def ctype(words):
    """`const char * const*` as `const char* const*`."""
    return re.sub(r"\s*\*\s*", "* ", " ".join(words.split())).replace("* *", "**").strip()


def declared(words):
    """An argument; of a callback the name stands in its type."""
    if "(*" in words:
        return {"name": re.search(r"\(\*(\w+)", words)[1], "type": re.sub(r"\(\*\w+", "(*", " ".join(words.split()))}
    kind, name = re.fullmatch(r"(.*?[\s*])(\w+)", words.strip(), re.S).groups()
    return {"name": name, "type": ctype(kind)}


def rows_of(body, end):
    """(text before, code, text after) of each field (`end` is ;) or value (,); what follows on its line is its own."""
    body = re.sub(rf"{end}([ \t]*{COMMENT})", rf"\1{end}", body)
    for row in re.findall(rf"(?:{COMMENT}|[^{end}/])+", body):
        before, code, after = re.fullmatch(rf"((?:\s|{COMMENT})*)([^/]*)(.*)", row, re.S).groups()
        if code:
            yield line(before), " ".join(code.split()), line(after)


def enum_of(header, doc, body):
    values = []
    for group, code, text in rows_of(body, ","):
        name, number = code.split(" = ")
        values.append({"name": name, "value": int(number, 0), "text": text, **({"group": group} if group else {})})
    names = [value["name"] for value in values]
    prefix = "CKPT_" if names[0] == "CKPT_OK" else re.match(r"CKPT_[A-Z]+_", names[0])[0]
    kind = "status" if prefix == "CKPT_" else prefix[5:-1].lower()
    if values[0]["text"].startswith("flag: "):
        kind += "_flags"
        for value in values:
            value["text"] = value["text"].removeprefix("flag: ")
    return {"name": kind, "prefix": prefix, "header": header, "text": doc, "values": values}


def struct_of(header, name, doc, body, constants, callbacks):
    def refuse(what):
        raise SystemExit(f"{header}: struct {name}: this is not understood: {what}")
    fields, at, widest = [], 0, 1
    for before, code, after in rows_of(body, ";"):
        first, *others = code.split(", ")
        kind = declared(re.sub(r"\[.*", "", first))["type"]
        for declarator in [first, *others]:
            found = re.fullmatch(r"(?:[\w *]*[ *])?(\w+)(?:\[(\w+)\])?", declarator) or refuse(declarator)
            field, array = found.groups()
            if kind not in SIZES and not kind.endswith("*") and kind not in callbacks:
                refuse(declarator)
            width = SIZES.get(kind, 8)  # pointers and callbacks
            if array and not array.isdigit() and array not in constants:
                refuse(declarator)
            count = array and (int(array) if array.isdigit() else constants[array])
            at = -(-at // width) * width
            fields.append({"name": field, "type": kind, **({"count": count} if count else {}), "offset": at,
                           "size": width * (count or 1), "text": before or after})
            at, widest = at + width * (count or 1), max(widest, width)
    return {"name": name, "header": header, "text": doc, "size": -(-at // widest) * widest, "fields": fields}


def function_of(header, found, doc):
    arguments = [] if found["arguments"] == "void" else found["arguments"].split(",")
    return {"name": found["function"], "header": header, "returns": ctype(found["returns"]),
            "arguments": [declared(one) for one in arguments], "text": doc}


def name_meanings(api):
    """What comments of fields say by convention."""
    enums = {value["name"]: enum["name"] for enum in api["enums"] for value in enum["values"]}
    enums.update((enum["prefix"] + "*", enum["name"]) for enum in reversed(api["enums"]))
    for field in (field for struct in api["structs"] for field in struct["fields"]):
        named = re.match(r"CKPT_\w+\*?", field["text"])
        if field["type"] == "ckpt_status" or named and named[0] in enums:
            field["enum"] = enums[named[0]] if named else "status"
        if re.search(r"(?<!-)\b1 where\b", field["text"]):
            field["bool"] = True
        if field["type"] == "const char*" and "NULL" in field["text"]:
            field["nullable"] = True
        if re.search("-1 (for|where) none", field["text"]):
            field["none"] = -1


def read_header(path, api):
    header, text = path.name, path.read_text()
    doc, section, end = "", None, 0
    for found in ITEM.finditer(text):
        if rest := text[end:found.start()].strip():
            raise SystemExit(f"{path}: this is not understood: {rest[:200]}")
        end = found.end()
        if found["comment"]:
            on_its_line = text[text.rfind("\n", 0, found.start()):found.start()].strip()
            if on_its_line and section:
                api[section][-1]["text"] = api[section][-1]["text"] or plain(found["comment"])
            doc = "" if on_its_line or text[end:end + 2] == "\n\n" else plain(found["comment"])
            continue
        if found["constant"]:
            value = found["value"]
            value = int(value) if value.isdigit() else 2**64 - 1 if value == "UINT64_MAX" else value[1:-1]
            section, made = "constants", {"name": found["constant"], "value": value, "header": header, "text": doc}
        elif found["handle"]:
            section, made = "handles", {"name": found["handle"], "header": header, "text": doc}
        elif found["struct"]:
            constants = {constant["name"]: constant["value"] for constant in api["constants"]}
            callbacks = {callback["name"] for callback in api["callbacks"]}
            section, made = "structs", struct_of(header, found["struct"], doc, found["fields"], constants, callbacks)
        elif found["values"]:
            section, made = "enums", enum_of(header, doc, found["values"])
            if any(enum["name"] == made["name"] for enum in api["enums"]):  # the second with its prefix
                made["name"] += made["values"][0]["name"].removeprefix(made["prefix"][:-1]).lower()
        elif found["called"]:
            made = {"name": found["called"], "header": header, "type": found["callback"], "text": doc}
            section = "callbacks"
        elif found["function"]:
            section, made = "functions", function_of(header, found, doc)
        else:
            section, made = None, None
        if made:
            api[section].append(made)
        doc = ""
    if rest := text[end:].strip():
        raise SystemExit(f"{path}: this is not understood: {rest[:200]}")


def options_of(text, functions):
    """The rows of options.def. `used_by` names calls: "save" is ckpt_save_new, "find" ckpt_store_find."""
    words = {}
    for function in functions:
        if any(argument == {"name": "options", "type": "const ckpt_options*"} for argument in function["arguments"]):
            words[re.sub(r"_(open|new)$", "", function["name"]).split("_")[-1]] = function["name"]
    for kind, row in re.findall(r"^CKPT_OPTION_(INT|STR)\((.*)\)$", text, flags=re.M):
        cells = [quoted or bare for quoted, bare in re.findall(r'"((?:[^"\\]|\\.)*)"|([^",\s][^",]*)', row)]
        names = ("key", "fallback", "min", "max", "used_by", "help") if kind == "INT" else \
            ("key", "fallback", "choices", "used_by", "help")
        option = {"kind": kind, **dict(zip(names, cells, strict=True))}
        option.update((name, int(option[name])) for name in ("fallback", "min", "max") if kind == "INT")
        option["calls"] = [words.get(word, word) for word in option["used_by"].split()]
        yield option


def dtypes_of(text):
    """The rows of dtypes.def: each dtype's names by who calls it so."""
    for row in re.findall(r"^CKPT_DTYPE_ROW\((.*?)\)", text, flags=re.M):
        constant, *_, torch, storage, safetensors, numpy = (cell.strip('"') for cell in row.split(", "))
        names = {"torch": torch, "storage": storage, "safetensors": safetensors, "numpy": numpy}
        yield {"name": constant, **{whose: name for whose, name in names.items() if name}}


def read(folder, *headers):
    """All of it as one dict, as api.json has it."""
    sections = ("constants", "enums", "handles", "callbacks", "structs", "functions")
    api = {"version": "", "headers": [path.name for path in headers], **{section: [] for section in sections}}
    for path in headers:
        read_header(path, api)
    structs = {struct["name"] for struct in api["structs"]}
    api["handles"] = [handle for handle in api["handles"] if handle["name"] not in structs]
    number = {constant["name"]: constant["value"] for constant in api["constants"]}
    api["version"] = ".".join(str(number[f"CKPT_VERSION_{part}"]) for part in ("MAJOR", "MINOR", "PATCH"))
    name_meanings(api)
    api["options"] = list(options_of((folder / "options.def").read_text(), api["functions"]))
    api["dtypes"] = list(dtypes_of((folder / "dtypes.def").read_text()))
    return api


def headers_of(root, of_layers=False):
    """The headers in a tree of sources by name, so that ckpt.h, which the others include, is the first. ckpt_layer.h is
    for libraries above ckpt and ckpt_backend.h for those below, not for bindings."""
    return [path for path in sorted(root.glob("include/*.h"), key=lambda path: path.name)
            if of_layers or path.name not in ("ckpt_layer.h", "ckpt_backend.h")]


def of_sources(root):
    """What api.json of a tree of sources has."""
    return read(root / "src/base", *headers_of(root))


def interface():
    """For the generators: the api.json that CKPT_API names, or that of this tree."""
    named = os.environ.get("CKPT_API")
    return json.loads(Path(named).read_text()) if named else of_sources(Path(__file__).resolve().parents[1])


def packed(items, indent, between=", "):
    """Lines with as many items as fit."""
    line = indent
    for item in items:
        if len(line) + len(item) > 112:
            yield line.rstrip()
            line = indent
        line += item + between
    yield line.rstrip()


def write_or_check(files):
    """What a generator does with its (path, text): `--check` shows how the files differ, and exits with 1 if so."""
    wrong = False
    for path, text in files:
        before = path.read_text() if path.exists() else ""
        if sys.argv[1:] != ["--check"]:
            path.write_text(text)
        elif before != text:
            wrong = True
            lines = before.splitlines(True), text.splitlines(True)
            sys.stdout.writelines(difflib.unified_diff(*lines, path.name, "from the headers", n=1))
    sys.exit(wrong)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    made = read(*(Path(name) for name in sys.argv[2:]))
    Path(sys.argv[1]).write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
