"""Names: everything that the Julia sources use is defined in them or stands in base_names.txt; calls of their own
functions have a number of arguments and keywords that some method takes; fields exist.

Scopes are those of the evaluator, which has compiled every function body when a file was loaded.
"""

from pathlib import Path

from julia_ast import Expr, Symbol, walk

HERE = Path(__file__).resolve().parent
OTHER_FIELDS = {"first", "second", "args", "head", "major", "minor", "patch"}  # of Pair, Expr, VersionNumber


def base_names():
    lines = (HERE / "base_names.txt").read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


class Names:
    def __init__(self, interpreter, allowed):
        self.interpreter, self.allowed = interpreter, allowed
        self.used, self.problems = set(), []
        self.defined = set()  # at the top of programs that are only compiled

    def load(self, path):
        """Runs a file that only defines: the package, the runner."""
        compiler = self.interpreter.compiler
        compiler.notes = []
        self.interpreter.run_file(path, self.interpreter.main)
        notes, compiler.notes = compiler.notes, None
        return notes

    def compile(self, path, text=None):
        """The notes of a program that is compiled and not run, with the files that it includes."""
        from evaluator.scopes import Scope, assigned

        compiler, main = self.interpreter.compiler, self.interpreter.main
        source = Path(path).read_text() if text is None else text
        tree, problem = self.interpreter.parser.parse(source, str(path))
        if problem:
            self.problems.append(f"{path}:{problem[0]}: {problem[1]}")
            return []
        compiler.notes = notes = []
        main.path = Path(path)
        for node in tree.args:
            if isinstance(node, Expr):
                self.defined |= set(assigned(node, set())) | defined_by(node)
                compiler.compile(node, Scope(main))
        compiler.notes = None
        for expr in walk(tree):
            if expr.head == "call" and expr.args[0] == Symbol("include") and isinstance(expr.args[1], str):
                notes = notes + self.compile(Path(path).parent / expr.args[1])
        return notes

    # ---- what was written down ----

    def check(self, notes, where):
        for note in notes:
            getattr(self, note[0])(where, *note[1:])

    def value(self, module, name):
        return self.interpreter.lookup(module, Symbol(name))

    def say(self, where, line, what):
        self.problems.append(f"{where}: near line {line}: {what}")

    def is_own(self, module, name):
        key = Symbol(name)
        if key in module.globals and module is not self.interpreter.base_module:
            return True
        return any(key in used.exports for used in module.used)

    def name(self, where, module, name, line):
        if name in self.defined or self.is_own(module, name) or name.startswith("#"):
            return
        if name in self.allowed:
            self.used.add(name)
        else:
            self.say(where, line, f"{name} is defined nowhere")

    def module_of(self, node, scope):
        """The module that an expression like Base or Ckpt names."""
        from evaluator.values import Module

        if isinstance(node, Symbol) and scope.depth(node) is None:
            try:
                found = self.value(scope.module, node)
            except Exception:
                return None
            return found if isinstance(found, Module) else None
        if isinstance(node, Expr) and node.head == ".":
            outer = self.module_of(node.args[0], scope)
            found = outer.globals.get(node.args[1].value) if outer and hasattr(node.args[1], "value") else None
            return found if isinstance(found, Module) else None
        return None

    def property(self, where, owner, name, scope, line):
        module = self.module_of(owner, scope)
        if module is None:
            if name not in self.fields():
                self.say(where, line, f"no struct has a field {name}")
        elif module.name in ("Ckpt", "Conformance"):
            if Symbol(name) not in module.globals:
                self.say(where, line, f"{module.name}.{name} is not there")
        elif f"{module.name}.{name}" in self.allowed:
            self.used.add(f"{module.name}.{name}")
        else:
            self.say(where, line, f"{module.name}.{name} is not in base_names.txt")

    def fields(self):
        from evaluator.types import Family, Type

        out = set(OTHER_FIELDS)
        modules = [
            self.interpreter.main,
            *(m for m in self.interpreter.main.globals.values() if hasattr(m, "globals")),
        ]
        for module in modules:
            for value in module.globals.values():
                family = value.family if isinstance(value, Type) else value
                if isinstance(family, Family):
                    out |= set(family.fields)
        for fields in self.struct_fields.values():
            out |= fields
        return out

    struct_fields = {}

    def call(self, where, head, scope, count, keywords, line):
        from evaluator.dispatch import Function
        from evaluator.types import Family, Type

        found = None
        if isinstance(head, Symbol):
            if scope.depth(head) is None and self.is_own(scope.module, head):
                found = self.value(scope.module, head)
        elif isinstance(head, Expr) and head.head == "." and hasattr(head.args[1], "value"):
            module = self.module_of(head.args[0], scope)
            if module is not None and module.name in ("Ckpt", "Conformance"):
                found = module.globals.get(head.args[1].value)
        if isinstance(found, Type):
            found = found.family
        if isinstance(found, Family):
            if found.kind == "abstract" or found.constructors is None:
                return
            fits = not found.inner and not keywords and (count is None or count == len(found.fields))
            methods, name = found.constructors.methods, found.name
        elif isinstance(found, Function) and found.builtin is None:
            fits, methods, name = False, found.methods, found.name
        else:
            return
        if not fits and not any(takes(method, count, keywords) for method in methods):
            self.say(where, line, f"no method of {name} takes {count} arguments and the keywords {keywords}")


def takes(method, count, keywords):
    known = {str(name) for name, _ in method.keywords}
    if keywords and not method.takes_any and not set(keywords) <= known:
        return False
    return count is None or method.needed <= count and (method.rest is not None or count <= len(method.types))


def defined_by(node):
    """Names that a definition at the top gives."""
    if node.head == "macrocall" and len(node.args) > 2:
        return set().union(*(defined_by(a) for a in node.args if isinstance(a, Expr)), set())
    if node.head == "const":
        return defined_by(node.args[0])
    if node.head == "=" and isinstance(node.args[0], Symbol):
        return {str(node.args[0])}
    if node.head == "struct":
        name = node.args[1]
        Names.struct_fields[str(name)] = {
            str(f.args[0]) for f in node.args[2].args if isinstance(f, Expr) and f.head == "::"
        }
        return {str(name)}
    if node.head in ("=", "function") and isinstance(node.args[0], Expr):
        from evaluator.scopes import signature_name

        return {str(signature_name(node.args[0]))}
    return set()
