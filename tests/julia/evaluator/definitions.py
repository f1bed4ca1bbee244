"""What defines something: functions and methods, structs, modules, imports."""

from julia_ast import Expr, Line, Quoted, Symbol
from .control import Return
from .scopes import Scope, assigned, targets_of
from .dispatch import REQUIRED, Function, Method, error
from .types import ANY, Family, TypeVar, Unsupported
from .values import Module, NamedTuple


class Parameters:
    """The parsed signature of a function: names, types, defaults, keywords, variables."""

    def __init__(self):
        self.names, self.types, self.defaults, self.rest = [], [], [], None
        self.keywords, self.keyword_rest, self.variables = [], None, []


class Definitions:
    def __init__(self, interpreter):
        self.interpreter, self.compiler = interpreter, interpreter.compiler

    # ---- functions ----

    def function(self, node, scope):
        """A named function, a short one, or an anonymous one; gives the function."""
        signature, body = node.args
        anonymous = node.head == "->"
        result, wheres = None, []
        while isinstance(signature, Expr) and signature.head in ("where", "::") and not anonymous:
            if signature.head == "where":
                wheres += signature.args[1:]
            else:
                result = signature.args[1]
            signature = signature.args[0]
        if anonymous:
            several = isinstance(signature, Expr) and signature.head == "tuple"
            target, nodes = None, list(signature.args) if several else [signature]
        else:
            target, nodes = signature.args[0], list(signature.args[1:])
        inner = Scope(scope.module, scope)
        parameters = self.parameters(nodes, wheres, inner)
        inner.names |= {n for n in assigned(body, set()) if scope.depth(n) is None}
        inner.names |= {name for name, _ in parameters.variables}
        code = self.compiler.compile(body, inner)
        make = self.method_maker(parameters, code, inner, result, f"{scope.module.name}:{node.line}")
        return self.attach(target, make, scope, node.line)

    def parameters(self, nodes, wheres, inner):
        """Reads a signature; all its names are names of `inner`."""
        out = Parameters()
        for where in wheres:
            name = where.args[0] if isinstance(where, Expr) else where
            upper = where.args[1] if isinstance(where, Expr) else None
            out.variables.append((name, upper))
        for node in nodes:
            if isinstance(node, Expr) and node.head == "parameters":
                self.keyword_parameters(node.args, out, inner)
            elif isinstance(node, Expr) and node.head == "kw":
                self.positional(node.args[0], out, inner)
                out.defaults.append(node.args[1])
            elif isinstance(node, Expr) and node.head == "...":
                name, kind = self.name_and_type(node.args[0])
                out.rest = (name, kind, None)
                inner.names.add(name)
            else:
                self.positional(node, out, inner)
        for name, upper in out.variables:
            inner.names.add(name)
        return out

    def keyword_parameters(self, nodes, out, inner):
        for node in nodes:
            if isinstance(node, Expr) and node.head == "...":
                out.keyword_rest = node.args[0]
                inner.names.add(node.args[0])
            elif isinstance(node, Expr) and node.head == "kw":
                name, _ = self.name_and_type(node.args[0])
                out.keywords.append((name, node.args[1]))
                inner.names.add(name)
            else:
                name, _ = self.name_and_type(node)
                out.keywords.append((name, REQUIRED))
                inner.names.add(name)

    def positional(self, node, out, inner):
        if isinstance(node, Expr) and node.head == "tuple":  # destructured
            out.names.append(node)
            out.types.append(None)
            inner.names |= targets_of(node)
            return
        name, kind = self.name_and_type(node)
        if isinstance(kind, Expr) and kind.head == "curly" and kind.args[0] == Symbol("Vararg"):
            out.rest = (name, kind.args[1], kind.args[2])
        else:
            out.names.append(name)
            out.types.append(kind)
        inner.names.add(name)

    @staticmethod
    def name_and_type(node):
        if isinstance(node, Expr) and node.head == "::":
            return (Symbol("#unused"), node.args[0]) if len(node.args) == 1 else (node.args[0], node.args[1])
        if isinstance(node, Symbol):
            return node, None
        raise Unsupported(f"line {node.line}: parameter {node!r:.60}")

    def method_maker(self, parameters, code, inner, result, where):
        """make(env) -> Method, closing over the environment."""
        compiler, interpreter = self.compiler, self.interpreter
        type_scope = Scope(inner.module, inner.parent, [name for name, _ in parameters.variables])
        uppers = [compiler.compile(u, type_scope) if u is not None else None for _, u in parameters.variables]
        types = [compiler.compile(t, type_scope) if t is not None else None for t in parameters.types]
        rest, count = None, None
        if parameters.rest:
            rest = compiler.compile(parameters.rest[1], type_scope) if parameters.rest[1] is not None else None
            count = compiler.compile(parameters.rest[2], type_scope) if parameters.rest[2] is not None else None
        defaults = [compiler.compile(d, inner) for d in parameters.defaults]
        keywords = [(n, d if d is REQUIRED else compiler.compile(d, inner)) for n, d in parameters.keywords]
        setters = [compiler.setter(n, inner) if isinstance(n, Expr) else None for n in parameters.names]
        kind = compiler.compile(result, type_scope) if result is not None else None

        def make(env):
            variables, table = {}, {}
            place = [table, env]
            for (name, _), upper in zip(parameters.variables, uppers):
                table[name] = variables[name] = TypeVar(name, interpreter.as_type(upper(place)) if upper else ANY)
            of = [interpreter.as_type(t(place)) if t else ANY for t in types]
            more = None
            if parameters.rest:
                more = (interpreter.as_type(rest(place)) if rest else ANY, count(place) if count else None)
            bind = self.binder(parameters, defaults, keywords, setters, variables, env, where)
            body = self.body(bind, code, kind, place)
            return Method(of, more, len(of) - len(defaults), keywords, parameters.keyword_rest, variables, body, where)

        return make

    def binder(self, parameters, defaults, keywords, setters, variables, env, where):
        """bind(arguments, keywords, bound) -> the environment of one call."""
        first = len(parameters.names) - len(defaults)

        def bind(arguments, given, bound):
            table = {name: bound.get(variable, variable) for name, variable in variables.items()}
            place = [table, env]
            for i, name in enumerate(parameters.names):
                value = arguments[i] if i < len(arguments) else defaults[i - first](place)
                if setters[i]:
                    setters[i](place, value)
                else:
                    table[name] = value
            if parameters.rest:
                table[parameters.rest[0]] = tuple(arguments[len(parameters.names):])
            given = dict(given)
            for name, default in keywords:
                if name in given:
                    table[name] = given.pop(name)
                elif default is REQUIRED:
                    raise error("UndefKeywordError", var=name)
                else:
                    table[name] = default(place)
            if parameters.keyword_rest:
                table[parameters.keyword_rest] = NamedTuple(given)
            elif given:
                raise error("MethodError", f=where, args=f"unsupported keyword {', '.join(given)}")
            return place

        return bind

    def body(self, bind, code, kind, types_env):
        interpreter = self.interpreter

        def run(arguments, keywords, bound):
            env = bind(arguments, keywords, bound)
            try:
                value = code(env)
            except Return as returned:
                value = returned.value
            return interpreter.convert(interpreter.as_type(kind(types_env)), value) if kind else value

        return run

    def attach(self, target, make, scope, line):
        """Adds the method to the function, type or module's function that it is of."""
        interpreter = self.interpreter
        if target is None:

            def anonymous(env):
                function = Function("#anonymous")
                function.add(make(env))
                return function

            return anonymous
        if isinstance(target, Expr) and target.head == ".":
            owner = self.compiler.compile(target.args[0], scope)
            name = target.args[1]
            name = name.value if isinstance(name, Quoted) else name.args[0]

            def qualified(env):
                function = interpreter.function_of(owner(env), name)
                function.add(make(env))
                return function

            return qualified
        if not isinstance(target, Symbol):
            raise Unsupported(f"line {line}: method of {target!r:.60}")
        if scope.parent is not None or scope.names:
            put = self.compiler.name_setter(target, scope)

            def local(env):
                function = Function(target)
                function.add(make(env))
                put(env, function)
                return function

            return local

        def named(env):
            function = interpreter.own_function(scope.module, target, line)
            function.add(make(env))
            return function

        return named

    # ---- the others ----

    def other(self, node, scope):
        if node.head in ("const", "global"):
            return self.compiler.compile(node.args[0], scope)
        if scope.parent is not None:
            raise Unsupported(f"line {node.line}: {node.head} inside a function")
        return getattr(self, {"import": "using"}.get(node.head, node.head))(node, scope)

    def struct(self, node, scope):
        mutable, spec, body = node.args
        parent = None
        if isinstance(spec, Expr) and spec.head == "<:":
            spec, parent = spec.args
        variables = []
        if isinstance(spec, Expr) and spec.head == "curly":
            spec, *variables = spec.args
        fields, inner = [], []
        for part in body.args:
            if isinstance(part, Line):
                continue
            if isinstance(part, Expr) and part.head == "macrocall" and part.args[0] == "@atomic":
                fields.append((part.args[-1].args[0], part.args[-1].args[1], True))
            elif part.head == "::":
                fields.append((part.args[0], part.args[1], False))
            else:
                inner.append(part)
        return lambda env: self.make_struct(mutable, str(spec), parent, variables, fields, inner, scope)

    def make_struct(self, mutable, name, parent, variables, fields, inner, scope):
        compiler, interpreter, module = self.compiler, self.interpreter, scope.module
        type_scope = Scope(module, scope, variables)

        def env_of(params):
            return [dict(zip(variables, params)), None]

        up = compiler.compile(parent, type_scope) if parent is not None else None
        family = Family(name, len(variables), ANY, "struct")
        if up:
            family.parent = lambda *params: interpreter.as_type(up(env_of(params)))
        family.mutable, family.inner = mutable, bool(inner)
        module.globals[Symbol(name)] = family if variables else family.of()
        types = [compiler.compile(t, type_scope) if t is not None else (lambda env: ANY) for _, t, _ in fields]
        family.fields = [str(n) for n, _, _ in fields]
        family.atomic = {str(n) for n, _, atomic in fields if atomic}
        family.field_types = lambda kind: [interpreter.as_type(t(env_of(kind.params))) for t in types]
        family.constructors = Function(name)
        family.constructors.family = family
        if not variables:
            family.field_types(family.of())  # names that are not there show here
        if inner:
            module.globals["#new"] = family
            for part in inner:
                compiler.compile(part, scope)(None)
        return None

    def abstract(self, node, scope):
        spec, parent = node.args[0], None
        if isinstance(spec, Expr) and spec.head == "<:":
            spec, parent = spec.args
        up = self.compiler.compile(parent, scope) if parent is not None else lambda env: ANY

        def run(env):
            scope.module.globals[spec] = Family(str(spec), 0, up(env)).of()

        return run

    def module(self, node, scope):
        name, body = node.args[1], node.args[2]

        def run(env):
            made = Module(str(name), scope.module)
            made.path = scope.module.path
            self.interpreter.give_include(made)
            scope.module.globals[name] = made
            self.interpreter.run_block(body, made)
            start = made.globals.get(Symbol("__init__"))
            if start:
                start()

        return run

    def using(self, node, scope):
        steps = []
        for part in node.args:
            if part.head == ":":
                steps.append((part.args[0].args, [p.args[0] for p in part.args[1:]]))
            else:
                steps.append((part.args, None if node.head == "using" else []))

        def run(env):
            for path, names in steps:
                found = self.interpreter.find_module(path, scope.module)
                scope.module.globals[path[-1]] = found
                if names is None:
                    scope.module.used.append(found)
                for name in names or []:
                    scope.module.globals[name] = self.interpreter.get_property(found, name)

        return run

    def export(self, node, scope):
        def run(env):
            scope.module.exports |= set(node.args)

        return run

    def macro(self, node, scope):
        call, body = node.args
        function = self.function(Expr("->", [Expr("tuple", call.args[1:]), body], node.line), scope)

        def run(env):
            scope.module.macros["@" + call.args[0]] = function(env)

        return run
