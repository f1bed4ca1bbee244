#!/usr/bin/env python3
"""Compares lists of options with src/base/options.def, and tables of dtypes and statuses with the enums of ckpt.h.

  lists_test.py options     the "Options:" lines of headers and bindings, documents, and whether each call uses what its
                            rows give it
  lists_test.py dtypes      the engine's table and FORMAT.md's
  lists_test.py statuses    the engine's table
  lists_test.py self-test   proves that a key or dtype that is missing, extra or wrong is found

Which call an "Options:" line is about: the first one after it in the file that takes options. Bindings name the call
in it as options.def does: "Options: those used by save". That a call reads no more than options.def says is proved by
the compiler (cmake/call_options.py).
"""
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cmake"))
from api import headers_of, of_sources, read  # noqa: E402

def differences(where, expected, found, what):
    """One line for each key that only one side has, or whose values differ."""
    for key in sorted(set(expected) | set(found)):
        if key not in found:
            yield f"{where}: {what} {key} is missing"
        elif key not in expected:
            yield f"{where}: {what} {key} is extra"
        elif expected[key] != found[key]:
            yield f"{where}: {what} {key} is {found[key]}, expected {expected[key]}"


# ---- options ----
def calls_of(api):
    """The C function that takes options of its own -> the options that it reads."""
    taken = {"name": "options", "type": "const ckpt_options*"}
    own = [function["name"] for function in api["functions"]
           if taken in function["arguments"] and "Options: as those of" not in function["text"]]
    return {name: {option["key"]: True for option in api["options"] if name in option["calls"]} for name in own}


def listed_options(text, calls):
    """(C function, keys or call) of every "Options:" line."""
    plain = re.sub(r"\n[ \t]*(?:\*|//[/!]?)[ \t]?", "\n", text)
    pattern = re.compile(r"\b(" + "|".join(calls) + r")\(")
    for match in re.finditer(r"\bOptions:(?=\s+[`a-z])(?! as those)(?!\s+those\s+of)", plain):
        sentence = re.sub(r"\([^()]*\)", "", plain[match.end():match.end() + 900]).split(".")[0]
        if call := pattern.search(plain, match.end()):
            yield call.group(1), re.findall(r"\w+", re.sub(r"^\s+those\s+used\s+by\s", "", sentence))


def check_lists(where, text, calls, complete):
    """`calls`: what the line of each has to say; `complete`: those that this file must have a line for."""
    seen = set()
    for call, keys in listed_options(text, calls):
        seen.add(call)
        yield from differences(where, calls[call], dict.fromkeys(keys, True), f"{call}: option")
    yield from (f"{where}: {call}: no \"Options:\" line" for call in sorted(set(complete) - seen))


def parts_of(root):
    """Functions and classes of the library, by tree: a part ends with a brace at the beginning of a line."""
    for tree in ("src", "interop/src"):
        for path in sorted((root / tree).rglob("*.[ch]*")):
            text = re.sub(r"//.*|^template .*;$", "", path.read_text(), flags=re.M)
            yield from ((tree, part) for part in re.split(r"^}", text, flags=re.M))


GENERIC = re.compile(r"\b(\w+)\((?:[^()]*, )?const (?:auto|CallOptions)& (\w+)")


def parts_with(struct, parts):
    """Those that have a struct of options: they name it or a class that holds one, or such parts call them with it."""
    trees, types = {tree for tree, part in parts if struct in part}, {struct}
    here = [part for tree, part in parts if tree in trees]
    while True:
        names = "|".join(types)
        found = [part for part in here if re.search(rf"\b(?:{names})\b", part)]
        holders = {name for part in found if re.search(rf"^ +(?:const )?(?:{names})&? \w+[;{{]", part, flags=re.M)
                   for name in re.findall(r"^(?:class|struct) (\w+)", part, flags=re.M)}
        if holders <= types:
            break
        types |= holders
    generic = [(match[1], part) for _, part in parts for match in GENERIC.finditer(part)]
    while called := [part for name, part in generic if part not in found
                     and any(re.search(rf"\b{name}\(", other) for other in found)]:
        found += called
    return found


def check_used(where, options, parts):
    """Each call must read the members of its struct, in whatever variable it has the struct."""
    keys = [option["key"] for option in options]
    yield from (f"{where}: option {key} has two rows" for key in sorted({key for key in keys if keys.count(key) > 1}))
    for call in sorted({call for option in options for call in option["used_by"].split()}):
        struct = f"{call.title()}Options"
        found, declared = parts_with(struct, parts), re.compile(rf"\b{struct}&? (\w+)")
        members, used = declared.findall("\n".join(found)), set()
        for part in found:
            names = declared.findall(part) + [name for _, name in GENERIC.findall(part)] or members
            used.update(re.findall(rf"\b(?:{'|'.join(names) or '-'})\.(\w+)\b(?! = )", part))
        for option in options:
            if call in option["used_by"].split() and option["key"] not in used:
                yield f"{where}: {call}: option {option['key']} is not used"


def check_options():
    api = of_sources(ROOT)
    calls, keys = calls_of(api), {option["key"] for option in api["options"]}
    read = {call: True for option in api["options"] for call in option["calls"]}
    yield from differences("src/base/options.def", dict.fromkeys(calls, True), read, "call")
    for header in headers_of(ROOT):
        complete = {f["name"] for f in api["functions"] if f["header"] == header.name} & set(calls)
        yield from check_lists(header.relative_to(ROOT), header.read_text(), calls, complete)
    words = {call: {word: True} for option in api["options"]
             for word, call in zip(option["used_by"].split(), option["calls"])}
    for path in sorted((ROOT / "bindings").rglob("*")):
        if path.suffix in {".go", ".rs", ".jl"} and not {"tests", "test", "target"} & set(path.parts):
            text = path.read_text()
            complete = re.findall(rf"(?:\bC\.|\bsys::|-> )({'|'.join(calls)})\(", text)
            yield from check_lists(path.relative_to(ROOT), text, words, complete)
    for path in [ROOT / "README.md", *ROOT.glob("*/*.md"), *ROOT.glob("*/*/*.md")]:
        for key in re.findall(r"\boptions? `(\w+)", path.read_text()):
            if key not in keys:
                yield f"{path.relative_to(ROOT)}: option {key} is extra"
    yield from check_used("src/base/options.def", api["options"], list(parts_of(ROOT)))


# ---- dtypes and statuses ----
# Where each table is, and what its rows look like: the name, then the number or the constant that it stands for.
DTYPES_DEF = r'^CKPT_DTYPE_ROW\((?P<number>\w+), "(?P<name>\w+)"'
STATUS_NAMES = r"CKPT_NAME\((?P<name>(?P<number>[A-Z_]+))\)"


def constants_of(api, kind):
    """The values of an enum by their names without prefix."""
    enum = next(enum for enum in api["enums"] if enum["name"] == kind)
    return {value["name"].removeprefix(enum["prefix"]): value["value"] for value in enum["values"]}


def check_format(where, text, dtypes):
    """The table of FORMAT.md: codes with the widths that they have, two in a row."""
    table = text.partition("| code | bits | dtype |")[2].partition("\n\n")[0]
    found = {int(code) * 256 + int(bits): True for code, widths in re.findall(r"\| (\d+) \| ([\d ]+?) \|", table)
             for bits in widths.split()}
    yield from differences(where, dict.fromkeys(dtypes.values(), True), found, "dtype")


def plain_name(name):
    return name.upper().replace("_", "")


def check_table(where, text, pattern, constants, what="dtype"):
    expected = {plain_name(name): number for name, number in constants.items()}
    found = {}
    for row in re.finditer(pattern, text, flags=re.M):
        if not row["name"]:
            continue
        name, number = plain_name(row["name"]), row["number"]
        if name in found:
            yield f"{where}: {what} {name} is there twice"
        found[name] = int(number, 0) if number[0].isdigit() else expected.get(plain_name(number))
    yield from differences(where, expected, found, what)


def check_dtypes():
    dtypes = constants_of(of_sources(ROOT), "dtype")
    where, page = "src/base/dtypes.def", "schemas/FORMAT.md"
    yield from check_table(where, (ROOT / where).read_text(), DTYPES_DEF, dtypes)
    yield from check_format(page, (ROOT / page).read_text(), dtypes)


def check_statuses():
    statuses = constants_of(of_sources(ROOT), "status")
    where = "src/base/status.cpp"
    yield from check_table(where, (ROOT / where).read_text(), STATUS_NAMES, statuses, "status")


# ---- self-test ----
DEF = """CKPT_OPTION_INT(wait, 1, 0, 1, "save", "0: do not wait, or (so it is) hardly.")
CKPT_OPTION_STR(run, "main", "", "save find", "The run.")
"""
VERSION = "".join(f"#define CKPT_VERSION_{part} 0\n" for part in ("MAJOR", "MINOR", "PATCH"))
HEADER = """/* Makes one. Options: run, wait (1: yes. 0: no). Statuses: IO. */
CKPT_API ckpt_status ckpt_save_new(ckpt_save **out, const ckpt_options *options, ckpt_error **err);
CKPT_API ckpt_status ckpt_save_run(ckpt_save *save);
/* Finds one.
 * Options:
 * run. */
CKPT_API ckpt_status ckpt_store_find(const ckpt_options *options);
"""
JULIA = '"""\nFinds one. Options: those used\nby `find`. Throws IO.\n"""\nf() = ckpt_store_find(1)\n'
FORMAT = "| code | bits | dtype | code | bits | dtype |\n| 0 | 4 | integer | 12 | 8 | float |\n\n| 1 | 8 |\n"
HELD = """struct Request {
  SaveOptions options;
};
int run(const auto& options) {
  return options.run;
}
int all(Request& r) { return r.options.wait + run(r.options); }
"""
PARTS = [("src", "FindOptions given = find_options(bag);\nreturn from(given.run);")] + [
    ("src", part) for part in HELD.split("\n}")]
# What api.py would have to guess.
UNREADABLE = ("#define CKPT_X 0xff\n", "#define CKPT_X (1 << 3)\n", "int32_t ckpt_x;\n",
              "typedef struct ckpt_x {\n  int16_t a;\n} ckpt_x;\n",
              "typedef struct ckpt_x {\n  int32_t a[CKPT_NONE];\n} ckpt_x;\n",
              "typedef struct ckpt_x {\n  int32_t a : 3;\n} ckpt_x;\n")
DTYPES = {"I4": 0x0004, "F8_E5M2": 0x0c08}
STATUSES = {"OK": 0, "IO": 50}
STATUS_ROWS = "    CKPT_NAME(OK);\n    CKPT_NAME(IO);\n"
ROWS = 'CKPT_DTYPE_ROW(I4, "i4", 0)\nCKPT_DTYPE_ROW(F8_E5M2, "f8_e5m2", 0)\n'


def api_of(options, header):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "options.def").write_text(options)
        (Path(folder) / "dtypes.def").write_text("")
        (Path(folder) / "ckpt.h").write_text(header)
        return read(Path(folder), Path(folder) / "ckpt.h")


def self_test():
    def problems(options=DEF, header=HEADER, julia=JULIA, table=ROWS, page=FORMAT, statuses=STATUS_ROWS, parts=PARTS):
        api = api_of(options, VERSION + HEADER)
        calls = calls_of(api)
        return [*check_lists("header", header, calls, calls),
                *check_lists("julia", julia, {"ckpt_store_find": {"find": True}}, {"ckpt_store_find"}),
                *check_table("table", table, DTYPES_DEF, DTYPES), *check_format("page", page, DTYPES),
                *check_table("statuses", statuses, STATUS_NAMES, STATUSES, "status"),
                *check_used("def", api["options"], parts)]

    def changed(old, new):
        return {"parts": [(tree, part.replace(old, new)) for tree, part in PARTS]}
    cases = [
        ({}, []),
        ({"options": DEF + 'CKPT_OPTION_INT(more, 1, 0, 1, "find", "")\n'},
         ["header: ckpt_store_find: option more is missing", "def: find: option more is not used"]),
        ({"options": DEF + DEF.split("\n")[1] + "\n"}, ["def: option run has two rows"]),
        (changed("r.options.wait", "Other{.wait = 1}"), ["def: save: option wait is not used"]),
        (changed("r.options.wait", "given.wait"), ["def: save: option wait is not used"]),
        (changed(" + run(", " + pass("), ["def: save: option run is not used"]),
        (changed("from(given.run)", "from(other.run)"), ["def: find: option run is not used"]),
        ({"header": HEADER.replace("run, wait", "wait, what")},
         ["header: ckpt_save_new: option run is missing", "header: ckpt_save_new: option what is extra"]),
        ({"header": HEADER.replace("Options:\n", "Options are many\n")},
         ['header: ckpt_store_find: no "Options:" line']),
        ({"julia": JULIA.replace("find`", "save`")},
         ["julia: ckpt_store_find: option find is missing", "julia: ckpt_store_find: option save is extra"]),
        ({"julia": JULIA.replace("Options:", "Options")}, ['julia: ckpt_store_find: no "Options:" line']),
        ({"page": FORMAT.replace("| 4 |", "| 4 16 |")}, ["page: dtype 16 is extra"]),
        ({"page": FORMAT.replace("| 12 |", "| 13 |")}, ["page: dtype 3080 is missing", "page: dtype 3336 is extra"]),
        ({"table": ROWS.replace("(I4", "(I8")}, ["table: dtype I4 is None, expected 4"]),
        ({"table": ROWS * 2}, ["table: dtype I4 is there twice", "table: dtype F8E5M2 is there twice"]),
        ({"table": ROWS.replace("I4", "U4").replace("i4", "u4")},
         ["table: dtype I4 is missing", "table: dtype U4 is extra"]),
        ({"statuses": STATUS_ROWS.replace("IO", "INPUT")},
         ["statuses: status INPUT is extra", "statuses: status IO is missing"]),
    ]
    for text in UNREADABLE:
        try:
            made = api_of(DEF, VERSION + HEADER + text)
            yield f"api.py took {text!r} for {made['constants'][3:]} {made['structs']}"
        except SystemExit as refusal:
            if "this is not understood" not in str(refusal):
                yield f"{text!r} is refused without a reason: {refusal}"
    for change, expected in cases:
        if (found := problems(**change)) != expected:
            yield f"{change}: expected {expected}, found {found}"


def main():
    checks = {"options": check_options, "dtypes": check_dtypes, "statuses": check_statuses, "self-test": self_test}
    if len(sys.argv) != 2 or sys.argv[1] not in checks:
        sys.exit(__doc__)
    problems = list(checks[sys.argv[1]]())
    print("\n".join(problems))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
