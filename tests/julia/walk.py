"""What the ASTs of src/ must be: calls as the headers declare them, memory held while its address is used, house rules.

The headers are read here a second time, by hand and not by libclang, so that a mistake of the generator shows.
"""

import ctypes
import re
from pathlib import Path

from julia_ast import Expr, Quoted, Symbol, walk

HEADERS = ("ckpt.h", "ckpt_tree.h", "ckpt_file.h")
SCALARS = {
    "int32_t": "Int32",
    "uint32_t": "UInt32",
    "int64_t": "Int64",
    "uint64_t": "UInt64",
    "size_t": "Csize_t",
    "double": "Float64",
    "void": "Cvoid",
    "ckpt_status": "ckpt_status",
}
# Calls that take the address of memory which is not passed as a Julia object, and the argument that is it.
BUFFERS = {
    "ckpt_save_add_tensor": 3,
    "ckpt_load_add_tensor": 3,
    "ckpt_save_add_object": 4,
    "ckpt_load_add_object": 3,
    "ckpt_tree_add_bytes": 1,
}
RAW = {
    "pointer",
    "unsafe_load",
    "unsafe_store!",
    "unsafe_copyto!",
    "unsafe_string",
    "unsafe_convert",
    "unsafe_wrap",
    "pointer_from_objref",
}
# Functions whose first argument is called while what it gets the address of is held.
HOLDERS = {"use", "use_tree", "call", "call_alone", "with_memory", "told"}
# Functions that read through an address, and why it is good there; those that hold it themselves are not listed.
READERS = {
    "version": "static text of the library",
    "status_name": "static text of the library",
    "nameof": "static text of the library",
    "options": "static text of the library",
    "CkptError": "text of an error that is freed after it was copied",
    "text": "called by Info constructors, inside told",
    "counted": "called by Node, inside use_tree",
    "node_value": "called by Node, inside use_tree",
    "load_element": "called by getindex, which holds the tensor",
    "unsafe_convert": "is the conversion of a MappedTensor",
    "gc_safe_by_hand": "writes code that holds its arguments",
    "add_tensor!": "path borrowed from the tree, which is entered",
}


def c_type(text):
    """Julia's types that a C type may be."""
    text = text.replace("const ", "").strip()
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
        for result, name, arguments in re.findall(
            r"CKPT_API\s+([\w\s*]+?)\s*\b(ckpt_\w+)\s*\(([^;]*?)\)\s*;", text
        ):
            pieces = [] if arguments.strip() == "void" else [" ".join(a.split()) for a in arguments.split(",")]
            types = [re.sub(r"\b\w+$", "", piece) for piece in pieces]
            found[name] = (c_type(result + (" " if "*" not in result else "")), [c_type(t) for t in types])
    return found


def spell(node):
    if isinstance(node, Expr) and node.head == "curly":
        return f"{spell(node.args[0])}{{{', '.join(map(spell, node.args[1:]))}}}"
    return str(node)


def foreign_calls(tree):
    """(name, result, [argument types], macro, line) of each @ccall and @blocking of the library."""
    for expr in walk(tree):
        if expr.head == "macrocall" and expr.args[0] in ("@ccall", "@blocking"):
            call = expr.args[-1]
            if not (isinstance(call, Expr) and call.head == "::") or isinstance(call.args[0].args[0], Symbol):
                continue  # of the runtime, or in the macro itself
            signature, result = call.args
            yield (
                str(signature.args[0].args[1].value),
                spell(result),
                [spell(a.args[1]) for a in signature.args[1:]],
                str(expr.args[0]),
                expr.line,
            )


def check_calls(trees, include, library):
    headers, exported, seen = read_headers(include), ctypes.CDLL(str(library)), set()
    if len(headers) < 90:
        yield f"only {len(headers)} functions were read from the headers"
    for path, tree in trees.items():
        for name, result, types, _, line in foreign_calls(tree):
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


# ---- memory ----


def named(expr):
    """The name of what a definition defines."""
    head = expr.args[0]
    while isinstance(head, Expr) and head.head in ("where", "::", "call"):
        head = head.args[0]
    if isinstance(head, Expr) and head.head == ".":
        head = head.args[1].value if isinstance(head.args[1], Quoted) else head.args[1]
    return str(head) if isinstance(head, Symbol) else None


def is_definition(node):
    if node.head == "function":
        return True
    target = node.args[0] if node.head == "=" else None
    while isinstance(target, Expr) and target.head in ("where", "::"):
        target = target.args[0]
    return isinstance(target, Expr) and target.head == "call"


def called(node):
    head = node.args[0]
    if isinstance(head, Expr) and head.head == "." and isinstance(head.args[1], Quoted):
        head = head.args[1].value
    return str(head) if isinstance(head, Symbol) else None


def check_memory(trees):
    for path, tree in trees.items():
        if Path(path).name == "api.jl":
            continue  # passes on what it gets
        yield from memory_of(tree, path, None, False, set())


def memory_of(node, path, function, held, given):
    """`held`: inside GC.@preserve or the function of a holder; `given`: addresses that with_memory gave."""
    if isinstance(node, Quoted):
        node = node.value
    if not isinstance(node, Expr):
        return
    if is_definition(node):
        function = named(node) or function
    if node.head == "macrocall" and repr(node.args[0]).startswith("(. :GC"):
        held = True
    name = called(node) if node.head == "call" else None
    if name in RAW and not held and function not in READERS:
        yield f"{path}:{node.line}: {name} in {function}, and nothing holds what it points into"
    if name in BUFFERS and str(node.args[1 + BUFFERS[name]]) not in given:
        yield f"{path}:{node.line}: {name} with an address that with_memory did not give"
    if node.head == "do" and called(node.args[0]) in HOLDERS:
        names = given | ({str(node.args[1].args[0].args[0])} if called(node.args[0]) == "with_memory" else set())
        yield from memory_of(node.args[0], path, function, held, given)
        yield from memory_of(node.args[1], path, function, True, names)
        return
    for i, part in enumerate(node.args):
        inside = held or name in HOLDERS and i == 1 and isinstance(part, Expr) and part.head == "->"
        yield from memory_of(part, path, function, inside, given)


# ---- house rules ----


def functions(text):
    """(line, length) of each function that is written over several lines."""
    lines = text.splitlines()
    for start, line in enumerate(lines):
        found = re.match(r"(\s*)(function|macro)\b", line)
        if found:
            end = next((i for i in range(start, len(lines)) if lines[i] == found.group(1) + "end"), start)
            yield start + 1, end - start + 1


def check_style(files):
    for path in files:
        text = Path(path).read_text()
        if Path(path).name != "api.jl" and len(text.splitlines()) > 600:
            yield f"{path}: {len(text.splitlines())} lines, at most 600"
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > 120:
                yield f"{path}:{number}: {len(line)} columns, at most 120"
            if line != line.rstrip() or "\t" in line:
                yield f"{path}:{number}: a tab, or blanks at the end"
            if re.search(r"\b(" + "TO" + r"DO|FIX" + r"ME)\b", line):
                yield f"{path}:{number}: leftover note"
        for number, length in functions(text):
            if length > 70:
                yield f"{path}:{number}: function of {length} lines, at most 70"


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
    while isinstance(node, Expr):
        if node.head == "struct":
            node = node.args[1]
        elif node.head == ".":
            node = node.args[1].value if isinstance(node.args[1], Quoted) else node.args[1]
        else:
            node = node.args[0]
    return str(node)
