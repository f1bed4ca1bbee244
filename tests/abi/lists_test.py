#!/usr/bin/env python3
"""Compares every list of options with src/base/options.def, and tables of dtypes and statuses with the enums of ckpt.h.

  lists_test.py options     the "Options:" lines of headers and bindings, documents, the conformance scenario
  lists_test.py dtypes      the engine's table, one table for each language
  lists_test.py statuses    the engine's table, Python's exceptions, the conformance scenario
  lists_test.py self-test   proves that a key or dtype that is missing, extra or wrong is found

Which call an "Options:" line is about: the first one after it in the file that takes options. That a call reads what
options.def says is proved by tests/options.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADERS = tuple(f"include/ckpt{name}.h" for name in ("", "_maintain", "_table", "_tree", "_file"))
SCENARIOS = "tests/conformance/scenarios"


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
def option_rows(text):
    """key -> the fields of its row in options.def, named as in the conformance scenario."""
    rows = {}
    for kind, arguments in re.findall(r"^CKPT_OPTION_(INT|STR)\((.*)\)$", text, flags=re.M):
        words = [quoted or plain for quoted, plain in re.findall(r'"((?:[^"\\]|\\.)*)"|([^",\s][^",]*)', arguments)]
        names = ("fallback", "min", "max", "used_by", "help") if kind == "INT" else \
            ("fallback", "choices", "used_by", "help")
        rows[words[0]] = {"kind": kind, "choices": ""} | dict(zip(names, words[1:], strict=True))
    return rows


def calls_with_options(header):
    """The C function that takes options -> the word for it in used_by: ckpt_save_new is "save"."""
    names = re.findall(r"\b(ckpt_\w+)\([^;]*const ckpt_options ?\* ?options[^;]*;", header)
    return {name: re.sub(r"_(open|new)$", "", name).split("_")[-1] for name in names}


def listed_options(text, rows, calls):
    """(C function, keys) of every "Options:" line, and of the keywords in signatures of Julia's documentation."""
    plain = re.sub(r"\n[ \t]*(?:\*|//[/!]?)[ \t]?", "\n", text)
    found = []
    for match in re.finditer(r"\bOptions:(?=\s+[`a-z])(?! as those)", plain):
        sentence = re.sub(r"\([^()]*\)", "", plain[match.end():match.end() + 900]).split(".")[0]
        found.append((match.end(), re.findall(r"\w+", sentence)))
    for match in re.finditer(r"^    [\w.]+\([^;()\n]*; ([^()\n]*)\)", plain, flags=re.M):
        found.append((match.end(), [key for key in re.findall(r"(\w+)(?: = [^,]+)?", match.group(1)) if key in rows]))
    pattern = re.compile(r"\b(" + "|".join(calls) + r")\(")
    for end, keys in found:
        call = pattern.search(plain, end)
        if call and keys:
            yield call.group(1), keys


def check_lists(where, text, rows, calls, complete):
    """`complete`: the calls that this file must have a list for."""
    seen = set()
    for call, keys in listed_options(text, rows, calls):
        expected = {key: True for key, row in rows.items() if calls[call] in row["used_by"].split()}
        seen.add(call)
        yield from differences(where, expected, dict.fromkeys(keys, True), f"{call}: option")
    yield from (f"{where}: {call}: no \"Options:\" line" for call in sorted(set(complete) - seen))


def check_scenario(where, text, rows):
    def word(value):
        return value.replace(" ", "%20") or "%"
    found = dict(re.findall(r"^option (\w+) (.*)$", text, flags=re.M))
    fields = ("kind", "min", "max", "fallback", "choices", "used_by")
    expected = {key: " ".join(f"{f}={word(row[f])}" for f in fields if f in row) for key, row in rows.items()}
    yield from differences(where, expected, found, "option")


def check_options():
    rows = option_rows((ROOT / "src/base/options.def").read_text())
    headers = {name: calls_with_options((ROOT / name).read_text()) for name in HEADERS}
    calls = {function: word for found in headers.values() for function, word in found.items()}
    used = {word: True for row in rows.values() for word in row["used_by"].split()}
    yield from differences("src/base/options.def", {word: True for word in calls.values()}, used, "call")
    for name, complete in headers.items():
        yield from check_lists(name, (ROOT / name).read_text(), rows, calls, complete)
    languages = {".go", ".rs", ".jl", ".hpp", ".h", ".cpp", ".py"}
    for path in sorted((ROOT / "bindings").rglob("*")):
        if path.suffix in languages and not {"tests", "test", "target"} & set(path.parts):
            text = path.read_text()
            # Go, Rust and Julia list the keys of each call; C++ and Python refer to the header.
            complete = re.findall(rf"(?:\bC\.|\bsys::|-> )({'|'.join(calls)})\(", text)
            yield from check_lists(path.relative_to(ROOT), text, rows, calls, complete)
    for path in [ROOT / "README.md", *ROOT.glob("*/*.md"), *ROOT.glob("*/*/*.md")]:
        for key in re.findall(r"\boptions? `(\w+)", path.read_text()):
            if key not in rows:
                yield f"{path.relative_to(ROOT)}: option {key} is extra"
    scenario = f"{SCENARIOS}/options.txt"
    yield from check_scenario(scenario, (ROOT / scenario).read_text(), rows)


# ---- dtypes and statuses ----
# Where each language has its table, and what its rows look like: the name of the constant, then its number or the C
# constant that it stands for.
DTYPE_TABLES = {
    "src/base/types.cpp": r'\{CKPT_DTYPE_(?P<number>\w+), "(?P<name>\w+)"\}',
    "bindings/go/dtype.go": r"(?P<name>\w+) +DType = C\.CKPT_DTYPE_(?P<number>\w+)",
    "bindings/rust/ckpt-sys/src/bindings.rs": r"CKPT_DTYPE_(?P<name>\w+): i32 = (?P<number>\d+);",
    "bindings/rust/ckpt/src/dtype.rs": r"(?P<name>\w+) = CKPT_DTYPE_(?P<number>\w+);",
    "bindings/julia/src/api.jl": r"const CKPT_DTYPE_(?P<name>\w+) = Int32\((?P<number>\d+)\)",
    "bindings/python/src/ckpt/enums.py": r"^class DType\b|^    (?P<name>[A-Z]\w*) = (?P<number>0x\w{4})$",
}


def dtypes_of_header(text):
    return {name: int(number, 16) for name, number in re.findall(r"CKPT_DTYPE_(\w+) = (0x\w+)", text)}


# The conformance scenario compares the constants of each language with its lines.
STATUS_TABLES = {
    "src/base/status.cpp": r"CKPT_NAME\((?P<name>(?P<number>[A-Z_]+))\)",
    "bindings/python/src/ckpt/errors.py": r"^    Status\.(?P<name>(?P<number>\w+)): \w+,$",
    f"{SCENARIOS}/status.txt": r"^status (?P<name>(?!UNKNOWN)\w+) (?P<number>\d+)$",
}


def statuses_of_header(text):
    body = re.search(r"typedef int32_t ckpt_status;\s*enum \{(.*?)\};", text, flags=re.S).group(1)
    return {name: int(number) for name, number in re.findall(r"CKPT_(\w+) = (\d+)", body)}


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
    dtypes = dtypes_of_header((ROOT / HEADERS[0]).read_text())
    for where, pattern in DTYPE_TABLES.items():
        yield from check_table(where, (ROOT / where).read_text(), pattern, dtypes)


def check_statuses():
    statuses = statuses_of_header((ROOT / HEADERS[0]).read_text())
    for where, pattern in STATUS_TABLES.items():
        # No exception is for OK.
        expected = {name: number for name, number in statuses.items() if name != "OK" or not where.endswith(".py")}
        yield from check_table(where, (ROOT / where).read_text(), pattern, expected, "status")


# ---- self-test ----
DEF = """CKPT_OPTION_INT(wait, 1, 0, 1, "save", "0: do not wait, or (so it is) hardly.")
CKPT_OPTION_STR(run, "main", "", "save find", "The run.")
"""
HEADER = """/* Makes one. Options: run, wait (1: yes. 0: no). Statuses: IO. */
ckpt_status ckpt_save_new(ckpt_save **out, const ckpt_options *options, ckpt_error **err);
ckpt_status ckpt_save_run(ckpt_save *save);
/* Finds one.
 * Options:
 * run. */
ckpt_status ckpt_store_find(const ckpt_options *options);
"""
SCENARIO = """option wait kind=INT min=0 max=1 fallback=1 choices=% used_by=save
option run kind=STR fallback=main choices=% used_by=save%20find
"""
JULIA = '"""\n    find_it(store, selector = "latest"; run = "main")\n"""\nf() = ckpt_store_find(1)\n'
DTYPES = "CKPT_DTYPE_I4 = 0x0004,\n  CKPT_DTYPE_F8_E5M2 = 0x0c08"
STATUSES = "typedef int32_t ckpt_status;\nenum {\n  CKPT_OK = 0,\n  CKPT_IO = 50 /* a */\n};\nenum { CKPT_X = 1 };"
STATUS_ROWS = "status OK 0\nstatus IO 50\nstatus UNKNOWN 1\n"
ROWS = "    I4 = 0x0004\n    F8_E5M2 = 0x0c08\n"


def self_test():
    def problems(options=DEF, header=HEADER, scenario=SCENARIO, julia=JULIA, table=ROWS, statuses=STATUS_ROWS):
        rows, calls = option_rows(options), calls_with_options(HEADER)
        pattern = DTYPE_TABLES["bindings/python/src/ckpt/enums.py"]
        return [*check_lists("header", header, rows, calls, calls), *check_lists("julia", julia, rows, calls, ()),
                *check_scenario("scenario", scenario, rows),
                *check_table("table", table, pattern, dtypes_of_header(DTYPES)),
                *check_table("statuses", statuses, STATUS_TABLES[f"{SCENARIOS}/status.txt"],
                             statuses_of_header(STATUSES), "status")]
    cases = [
        ({}, []),
        ({"options": DEF + 'CKPT_OPTION_INT(more, 1, 0, 1, "find", "")\n'},
         ["header: ckpt_store_find: option more is missing", "julia: ckpt_store_find: option more is missing",
          "scenario: option more is missing"]),
        ({"header": HEADER.replace("run, wait", "wait, what")},
         ["header: ckpt_save_new: option run is missing", "header: ckpt_save_new: option what is extra"]),
        ({"header": HEADER.replace("Options:\n", "Options are many\n")},
         ['header: ckpt_store_find: no "Options:" line']),
        ({"julia": JULIA.replace("; run", "; run, wait")}, ["julia: ckpt_store_find: option wait is extra"]),
        ({"scenario": SCENARIO.replace("min=0", "min=2")},
         ["scenario: option wait is kind=INT min=2 max=1 fallback=1 choices=% used_by=save, "
          "expected kind=INT min=0 max=1 fallback=1 choices=% used_by=save"]),
        ({"table": ROWS.replace("0c08", "0c09")}, ["table: dtype F8E5M2 is 3081, expected 3080"]),
        ({"table": ROWS + "    I4 = 0x0004\n"}, ["table: dtype I4 is there twice"]),
        ({"table": ROWS.replace("I4 = 0x0004", "U4 = 0x0104")},
         ["table: dtype I4 is missing", "table: dtype U4 is extra"]),
        ({"statuses": STATUS_ROWS.replace("IO 50", "INPUT 51")},
         ["statuses: status INPUT is extra", "statuses: status IO is missing"]),
    ]
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
