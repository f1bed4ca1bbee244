"""Names: everything that the Julia sources use is defined in them or stands in base_names.txt; calls of their own
functions have a number of arguments and keywords that some method takes; fields exist.

The scopes are the compiler's: it compiles every function body when a file is loaded, and notes what the body uses.
"""

from pathlib import Path

from common import PACKAGE, RUNNER
from julia_ast import Expr, Quoted, Symbol, walk
from .dispatch import Function
from .interpreter import Interpreter
from .scopes import Scope, assigned
from .types import Family, Type
from .values import Module

OWN_MODULES = ("Ckpt", "Conformance")
OTHER_FIELDS = {"first", "second", "args", "head", "major", "minor", "patch"}  # of Pair, Expr, VersionNumber


def base_names():
    lines = (Path(__file__).resolve().parent / "base_names.txt").read_text().splitlines()
    return {word for line in lines if not line.startswith("# ") for word in line.split()}


def names_of(parser, library, package=PACKAGE):
    """Names after the package, its tests, the example and the conformance runner were looked at."""
    interpreter = Interpreter(parser, library, package)
    names, main = Names(interpreter), interpreter.main
    names.check_definitions(package / "src" / "Ckpt.jl", "src")
    interpreter.loaded["Ckpt"] = main.globals["Ckpt"]
    main.used.append(main.globals["Ckpt"])  # the programs begin with using Ckpt
    names.check_definitions(RUNNER / "runner.jl", "runner")
    for path in (package / "test" / "runtests.jl", package / "examples" / "trainer.jl"):
        names.check_program(path, path.read_text(), path.name)
    return names


class Names:
    def __init__(self, interpreter):
        self.interpreter, self.allowed = interpreter, base_names()
        self.used, self.problems = set(), []
        self.defined = set()  # at the top of the program that is being looked at
        self.program_fields = set()

    def check_definitions(self, path, where):
        """Of a file that is run, since it only defines: the package, the runner."""
        compiler = self.interpreter.compiler
        compiler.notes = notes = []
        self.interpreter.run_file(path, self.interpreter.main)
        compiler.notes = None
        self.check(notes, where)

    def check_program(self, path, text, where):
        """Of a program that is compiled and not run."""
        self.defined = set()
        self.check(self.compile(path, text), where)

    def compile(self, path, text):
        """The notes of a program and of the files that it includes."""
        compiler, main = self.interpreter.compiler, self.interpreter.main
        tree, problem = self.interpreter.parser.parse(text, str(path))
        if problem:
            self.problems.append(f"{path}:{problem[0]}: {problem[1]}")
            return []
        compiler.notes = notes = []
        main.path = path
        for node in tree.args:
            if isinstance(node, Expr):
                self.defined |= assigned(node, set())
                compiler.compile(node, Scope(main))
        compiler.notes = None
        for expr in walk(tree):
            if expr.head == "struct":
                self.defined.add(expr.args[1])
                fields = (part for part in expr.args[2].args if isinstance(part, Expr) and part.head == "::")
                self.program_fields |= {str(field.args[0]) for field in fields}
            if expr.head == "call" and expr.args[0] == Symbol("include") and isinstance(expr.args[1], str):
                included = path.parent / expr.args[1]
                notes = notes + self.compile(included, included.read_text())
        return notes

    # ---- what was noted: (the method here that checks it, its arguments) ----

    def check(self, notes, where):
        for note in notes:
            getattr(self, note[0])(where, *note[1:])

    def say(self, where, line, what):
        self.problems.append(f"{where}: near line {line}: {what}")

    def is_own(self, module, name):
        if name in module.globals and module is not self.interpreter.base_module:
            return True
        return any(name in used.exports for used in module.used)

    def name(self, where, module, name, line):
        if name in self.defined or self.is_own(module, name) or name.startswith("#"):
            return
        if name in self.allowed:
            self.used.add(name)
        else:
            self.say(where, line, f"{name} is defined nowhere")

    def module_of(self, node, scope):
        """The module that an expression like Base or Base.Libc names."""
        found = None
        if isinstance(node, Symbol) and scope.depth(node) is None:
            try:
                found = self.interpreter.lookup(scope.module, node)
            except Exception:  # it is no name of a module then
                return None
        elif isinstance(node, Expr) and node.head == ".":
            outer = self.module_of(node.args[0], scope)
            found = outer.globals.get(node.args[1].value) if outer and isinstance(node.args[1], Quoted) else None
        return found if isinstance(found, Module) else None

    def property(self, where, owner, name, scope, line):
        module = self.module_of(owner, scope)
        if module is None:
            if name not in self.fields():
                self.say(where, line, f"no struct has a field {name}")
        elif module.name in OWN_MODULES:
            if name not in module.globals:
                self.say(where, line, f"{module.name}.{name} is not there")
        elif f"{module.name}.{name}" in self.allowed:
            self.used.add(f"{module.name}.{name}")
        else:
            self.say(where, line, f"{module.name}.{name} is not in base_names.txt")

    def fields(self):
        found, main = OTHER_FIELDS | self.program_fields, self.interpreter.main
        for module in (main, *(value for value in main.globals.values() if isinstance(value, Module))):
            for value in module.globals.values():
                family = value.family if isinstance(value, Type) else value
                if isinstance(family, Family):
                    found |= set(family.fields)
        return found

    def call(self, where, head, scope, count, keywords, line):
        found = None
        if isinstance(head, Symbol):
            if scope.depth(head) is None and self.is_own(scope.module, head):
                found = self.interpreter.lookup(scope.module, head)
        elif isinstance(head, Expr) and head.head == "." and isinstance(head.args[1], Quoted):
            module = self.module_of(head.args[0], scope)
            if module is not None and module.name in OWN_MODULES:
                found = module.globals.get(head.args[1].value)
        found = found.family if isinstance(found, Type) else found
        if isinstance(found, Family):
            if found.kind == "abstract" or found.constructors is None:
                return
            fits = not found.inner and not keywords and (count is None or count == len(found.fields))
            methods = found.constructors.methods
        elif isinstance(found, Function) and found.builtin is None:
            fits, methods = False, found.methods
        else:
            return
        if not fits and not any(takes(method, count, keywords) for method in methods):
            self.say(where, line, f"no method of {found.name} takes {count} arguments and the keywords {keywords}")


def takes(method, count, keywords):
    known = {str(name) for name, _ in method.keywords}
    if keywords and not method.takes_any and not set(keywords) <= known:
        return False
    return count is None or method.needed <= count and (method.rest is not None or count <= len(method.types))
