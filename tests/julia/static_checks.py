"""What Ckpt.jl's sources must be, as far as their ASTs show it: calls as the headers declare them, structs as a C
compiler lays them out, memory held while its address is used, a docstring for every exported name.

The headers are read here a second time, by regular expressions and not by libclang, so that a mistake of the generator
shows.
"""

import ctypes
import os
import re
import subprocess
import tempfile
from pathlib import Path

from julia_ast import Expr, Quoted, Symbol, is_signature, name_of, signature_name, walk

HEADERS = ("ckpt.h", "ckpt_maintain.h", "ckpt_table.h", "ckpt_tree.h", "ckpt_file.h")
MAX_FUNCTION = 70
SCALARS = {
    "int32_t": "Int32", "uint32_t": "UInt32", "int64_t": "Int64", "uint64_t": "UInt64", "size_t": "Csize_t",
    "double": "Float64", "void": "Cvoid", "ckpt_status": "ckpt_status",
}
# Calls that take the address of memory which no argument of theirs keeps alive -> the position of that argument.
BUFFERS = {
    "ckpt_save_add_tensor": 3, "ckpt_load_add_tensor": 3, "ckpt_save_add_object": 4, "ckpt_load_add_object": 3,
    "ckpt_tree_add_bytes": 1, "ckpt_save_add_table": 3, "ckpt_load_add_table": 3,
}
# Functions of Base that take or give an address.
RAW = {
    "pointer", "unsafe_load", "unsafe_store!", "unsafe_copyto!", "unsafe_string", "unsafe_convert", "unsafe_wrap",
    "pointer_from_objref",
}
# Functions that call their first argument with an address, and keep alive what it points into meanwhile.
HOLDERS = {"use", "use_tree", "call", "call_alone", "with_memory", "with_lists", "told"}
# Functions that read through an address without holding anything -> why the address is good there.
READERS = {
    "version": "static text of the library",
    "status_name": "static text of the library",
    "nameof": "static text of the library",
    "options": "static text of the library",
    "CkptError": "text of an error that is freed after the copy",
    "text": "called by constructors of infos, inside told",
    "counted": "called by Node, inside use_tree",
    "node_value": "called by Node, inside use_tree",
    "load_element": "called by getindex, which holds the tensor",
    "unsafe_convert": "is the conversion of a MappedTensor",
    "gc_safe_by_hand": "writes code that holds its arguments",
    "add_tensor!": "path borrowed from the tree, which is entered",
}


# ---- calls ----


def julia_types(text):
    """The Julia types that stand for a C type."""
    text = re.sub(r"\bconst\b", "", text).strip()
    stars, base = text.count("*"), text.replace("*", "").strip()
    if stars == 0:
        return {SCALARS[base]}
    if base == "char":
        return {"Cstring", "Ptr{UInt8}"} if stars == 1 else {"Ptr{Cstring}"}
    inner = SCALARS.get(base, base)
    for _ in range(stars):
        inner = f"Ptr{{{inner}}}"
    return {inner}


def read_headers(include):
    """name -> (types of the result, [types of each argument])."""
    found = {}
    for header in HEADERS:
        text = re.sub(r"/\*.*?\*/", " ", (Path(include) / header).read_text(), flags=re.S)
        for result, name, arguments in re.findall(r"CKPT_API\s+([\w\s*]+?)\s*\b(ckpt_\w+)\s*\(([^;]*?)\)\s*;", text):
            pieces = [] if arguments.strip() == "void" else arguments.split(",")
            types = [re.sub(r"\b\w+$", "", " ".join(piece.split())) for piece in pieces]
            found[name] = (julia_types(result), [julia_types(type) for type in types])
    return found


def spell(node):
    if isinstance(node, Expr) and node.head == "curly":
        return f"{spell(node.args[0])}{{{', '.join(map(spell, node.args[1:]))}}}"
    return str(node)


def foreign_calls(tree):
    """(name, result, [argument types], line) of each @ccall and @blocking of the library."""
    for expr in walk(tree):
        if expr.head == "macrocall" and expr.args[0] in ("@ccall", "@blocking"):
            call = expr.args[-1]
            if not (isinstance(call, Expr) and call.head == "::") or isinstance(call.args[0].args[0], Symbol):
                continue  # calls Julia's runtime, or stands in the definition of @blocking
            signature, result = call.args
            types = [spell(argument.args[1]) for argument in signature.args[1:]]
            yield name_of(signature.args[0]), spell(result), types, expr.line


def check_calls(trees, include, library):
    headers, exported, seen = read_headers(include), ctypes.CDLL(str(library)), set()
    if len(headers) < 90:
        yield f"only {len(headers)} functions were read from the headers"
    for path, tree in trees.items():
        for name, result, types, line in foreign_calls(tree):
            where = f"{path}:{line}: {name}"
            if name not in headers:
                yield f"{where} is in no header"
                continue
            seen.add(name)
            wanted_result, wanted = headers[name]
            if result not in wanted_result:
                yield f"{where} returns {wanted_result}, not {result}"
            if len(types) != len(wanted):
                yield f"{where} takes {len(wanted)} arguments, not {len(types)}"
            for i, (found, good) in enumerate(zip(types, wanted), 1):
                if found not in good:
                    yield f"{where}: argument {i} is {good}, not {found}"
            if not hasattr(exported, name):
                yield f"{where} is not exported by {library}"
    for name in sorted(set(headers) - seen):
        yield f"{name} is in the headers and has no call"


# ---- layouts ----


def layouts(tree):
    """What the table LAYOUTS of api.jl says: [(struct, size, [(field, offset, size)])]."""
    table = next(e for e in walk(tree) if e.head == "=" and e.args[0] == Symbol("LAYOUTS")).args[1]
    return [
        (str(name), size, [(str(field.value), offset, width) for field, offset, width in (f.args for f in fields.args)])
        for name, size, fields in (row.args for row in table.args)
    ]


def check_layouts(structs, include):
    """A C compiler prints sizeof and offsetof; `structs` are what api.jl says."""
    lines, wanted = ['#include "ckpt_file.h"', "#include <stdio.h>", "int main(void) {"], []
    for name, size, fields in structs:
        lines.append(f'  printf("{name} %zu\\n", sizeof({name}));')
        wanted.append(f"{name} {size}")
        for f, offset, width in fields:
            lines.append(f'  printf("{name}.{f} %zu %zu\\n", offsetof({name}, {f}), sizeof((({name} *)0)->{f}));')
            wanted.append(f"{name}.{f} {offset} {width}")
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "layout.c", Path(folder) / "layout"
        source.write_text("\n".join(lines) + "\n  return 0;\n}\n")
        for command in ([os.environ.get("CC", "cc"), "-std=c11", f"-I{include}", source, "-o", program], [program]):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode:
                return [done.stdout]
    found = done.stdout.splitlines()
    problems = [f"expected {w}, found {f}" for w, f in zip(wanted, found) if w != f]
    return problems + (["another number of fields"] if len(wanted) != len(found) else [])


# ---- memory ----


def is_definition(node):
    return node.head == "function" or node.head == "=" and is_signature(node.args[0])


def check_memory(trees):
    for path, tree in trees.items():
        if Path(path).name != "api.jl":  # passes on the addresses that it is given
            yield from memory_of(tree, path, None, False, set())


def memory_of(node, path, function, held, given):
    """`held`: inside GC.@preserve or the function of a holder; `given`: addresses that with_memory gave."""
    if isinstance(node, Quoted):
        node = node.value
    if not isinstance(node, Expr):
        return
    if is_definition(node):
        function = name_of(signature_name(node.args[0])) or function
    if node.head == "macrocall" and repr(node.args[0]).startswith("(. :GC"):
        held = True
    name = name_of(node.args[0]) if node.head == "call" else None
    if name in RAW and not held and function not in READERS:
        yield f"{path}:{node.line}: {name} in {function}, and nothing holds what it points into"
    if name in BUFFERS and str(node.args[1 + BUFFERS[name]]) not in given:
        yield f"{path}:{node.line}: {name} with an address that with_memory did not give"
    if node.head == "do" and name_of(node.args[0].args[0]) in HOLDERS:
        memory = name_of(node.args[0].args[0]) == "with_memory"
        names = given | ({str(node.args[1].args[0].args[0])} if memory else set())
        yield from memory_of(node.args[0], path, function, held, given)
        yield from memory_of(node.args[1], path, function, True, names)
        return
    for i, part in enumerate(node.args):
        inside = held or name in HOLDERS and i == 1 and isinstance(part, Expr) and part.head == "->"
        yield from memory_of(part, path, function, inside, given)


# ---- house rules ----


def check_functions(files):
    """The length of functions; tests/tidy.py checks files and lines."""
    for path in files:
        lines = Path(path).read_text().splitlines()
        for start, line in enumerate(lines):
            found = re.match(r"(\s*)(function|macro)\b", line)
            if found:
                end = next((i for i in range(start, len(lines)) if lines[i] == found.group(1) + "end"), start)
                if end - start + 1 > MAX_FUNCTION:
                    yield f"{path}:{start + 1}: function of {end - start + 1} lines, at most {MAX_FUNCTION}"


def check_docs(trees):
    """Every exported name has a docstring."""
    exported, documented = set(), set()
    for tree in trees.values():
        for expr in walk(tree):
            if expr.head == "export":
                exported |= set(map(str, expr.args))
            if expr.head == "macrocall" and repr(expr.args[0]) == "(globalref :@doc)":
                documented.add(documented_name(expr.args[-1]))
    for name in sorted(exported - documented):
        yield f"{name} is exported and has no docstring"


def documented_name(node):
    while isinstance(node, Expr) and node.head != ".":
        node = node.args[1] if node.head == "struct" else node.args[0]
    return name_of(node)
