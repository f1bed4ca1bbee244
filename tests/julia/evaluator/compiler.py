"""From Julia's AST to Python closures: scopes, calls, control flow. definitions.py has what defines something."""

from julia_ast import Expr, Line, Number, Quoted, Symbol, is_signature
from .scopes import UPDATES, Scope, assigned, contains, keyword_names
from .control import Control
from .dispatch import Function, error
from .types import FLOATS, INTS, Type, TypeVar, Unsupported, Family
from .values import NamedTuple, Num, Struct


class Compiler(Control):
    def __init__(self, interpreter):
        self.interpreter = interpreter
        self.notes, self.line = None, 0  # a list: every global name, call and field is noted in it for names.py

    def note(self, *what):
        if self.notes is not None:
            self.notes.append((*what, self.line))

    def compile(self, node, scope):
        if isinstance(node, Expr):
            self.line = node.line or self.line
            handler = getattr(self, HEADS.get(node.head, ""), None)
            if handler is None:
                raise Unsupported(f"line {node.line}: syntax {node.head} {node!r:.80}")
            return handler(node, scope)
        if isinstance(node, Symbol):
            return self.variable(node, scope)
        value = self.constant(node)
        return lambda env: value

    def constant(self, node):
        if isinstance(node, Quoted):
            return node.value
        if isinstance(node, Number):
            kind = INTS.get(node.type) or FLOATS.get(node.type)
            return Num(kind, node.value)
        return node

    # ---- names ----

    def variable(self, name, scope):
        depth = scope.depth(name)
        if depth is None:
            return self.global_variable(name, scope.module)

        def get(env):
            for _ in range(depth):
                env = env[1]
            try:
                return env[0][name]
            except KeyError:
                raise error("UndefVarError", var=name) from None

        return get

    def global_variable(self, name, module):
        look, known = self.interpreter.lookup, []
        self.note("name", module, str(name))

        def get(env):
            if known:
                return known[0]
            value = look(module, name)
            if isinstance(value, (Function, Family, Type)):  # these are constants
                known.append(value)
            return value

        return get

    def setter(self, target, scope):
        """set(env, value) for the left side of an assignment."""
        if isinstance(target, Symbol):
            return self.name_setter(target, scope)
        if target.head == "tuple":
            setters = [self.setter(part, scope) for part in target.args]
            iterate = self.interpreter.iterate

            def destructure(env, value):
                items = iterate(value)
                for put in setters:
                    try:
                        put(env, next(items))
                    except StopIteration:
                        raise error("BoundsError", a=value, i=len(setters)) from None

            return destructure
        if target.head == "ref":
            return self.index_setter(target, scope)
        if target.head == ".":
            owner, name = self.compile(target.args[0], scope), target.args[1].value
            put = self.interpreter.set_property
            self.note("property", target.args[0], str(name), scope)
            return lambda env, value: put(owner(env), name, value)
        raise Unsupported(f"line {target.line}: assignment to {target.head}")

    def name_setter(self, name, scope):
        depth = scope.depth(name)
        if depth is None:
            if scope.parent is not None:  # in Julia it is a local: tasks that run the same code must not share it
                raise RuntimeError(f"{scope.module.name}: {name} is assigned in a function and none of its locals")
            table = scope.module.globals

            def put_global(env, value):
                table[name] = value

            return put_global

        def put(env, value):
            for _ in range(depth):
                env = env[1]
            env[0][name] = value

        return put

    def index_setter(self, target, scope):
        owner, indices = self.indices(target, scope)
        call = self.interpreter.base("setindex!")

        def put(env, value):
            array = owner(env)
            call(array, value, *indices(env, array))

        return put

    def indices(self, node, scope):
        """The indexed expression and indices(env, array), in which `end` is the last one."""
        owner = self.compile(node.args[0], scope)
        last, size = self.interpreter.base("lastindex"), self.interpreter.base("size")
        parts = []
        for place, part in enumerate(node.args[1:], 1):
            if contains(part, "end") or part == Symbol("end"):
                inner = self.compile(part, Scope(scope.module, scope, [Symbol("end")]))
                one = len(node.args) == 2

                def ended(env, array, inner=inner, place=place, one=one):
                    value = last(array) if one else size(array, place)
                    return inner([{Symbol("end"): value}, env])

                parts.append(ended)
            else:
                inner = self.compile(part, scope)
                parts.append(lambda env, array, inner=inner: inner(env))
        return owner, lambda env, array: [part(env, array) for part in parts]

    # ---- blocks ----

    def block(self, node, scope):
        steps = [self.compile(part, scope) for part in node.args if not isinstance(part, Line)]
        if not steps:
            return lambda env: None
        if len(steps) == 1:
            return steps[0]
        first, last = steps[:-1], steps[-1]

        def run(env):
            for step in first:
                step(env)
            return last(env)

        return run

    def inner_block(self, node, scope, names=()):
        """A block with locals of its own: (closure over the new env, its scope)."""
        fresh = {name for name in assigned(node, set()) if scope.depth(name) is None} | set(names)
        inner = Scope(scope.module, scope, fresh)
        return self.compile(node, inner), inner

    def assign(self, node, scope):
        target, value = node.args
        if is_signature(target):
            return self.define_function(Expr("function", [target, value], node.line), scope)
        put, get = self.setter(target, scope), self.compile(value, scope)

        def run(env):
            found = get(env)
            put(env, found)
            return found

        return run

    def update(self, node, scope):
        target, value = node.args
        operator = Symbol(UPDATES[node.head])
        return self.assign(Expr("=", [target, Expr("call", [operator, target, value], node.line)], node.line), scope)

    def tuple(self, node, scope):
        if len(node.args) == 1 and isinstance(node.args[0], Expr) and node.args[0].head == "parameters":
            keywords = self.keywords(node.args[0].args, scope)
            return lambda env: NamedTuple(keywords(env))
        if node.args and all(isinstance(part, Expr) and part.head == "=" for part in node.args):
            named = self.keywords(node.args, scope)
            return lambda env: NamedTuple(named(env))
        arguments = self.arguments(node.args, scope)
        return lambda env: tuple(arguments(env))

    def arguments(self, nodes, scope):
        """arguments(env) -> list, splats spread."""
        parts, splats = [], False
        for node in nodes:
            splat = isinstance(node, Expr) and node.head == "..."
            splats = splats or splat
            parts.append((splat, self.compile(node.args[0] if splat else node, scope)))
        if not splats:
            plain = [part for _, part in parts]
            return lambda env: [part(env) for part in plain]

        def spread(env):
            out = []
            for splat, part in parts:
                if splat:
                    out.extend(self.interpreter.iterate(part(env)))
                else:
                    out.append(part(env))
            return out

        return spread

    def keywords(self, nodes, scope):
        parts = []
        for node in nodes:
            if isinstance(node, Symbol):
                parts.append((node, self.compile(node, scope)))
            elif node.head in ("kw", "="):
                parts.append((node.args[0], self.compile(node.args[1], scope)))
            elif node.head == "...":
                parts.append((None, self.compile(node.args[0], scope)))
            else:
                raise Unsupported(f"line {node.line}: keyword {node.head}")

        def build(env):
            out = {}
            for name, part in parts:
                if name is None:
                    out.update((str(k), v) for k, v in self.interpreter.pairs(part(env)))
                else:
                    out[str(name)] = part(env)
            return out

        return build

    def call(self, node, scope, extra=None):
        """`extra`: the function of a do block, which comes first."""
        head, rest, named = node.args[0], list(node.args[1:]), []
        if rest and isinstance(rest[0], Expr) and rest[0].head == "parameters":
            named += rest.pop(0).args
        named += [part for part in rest if isinstance(part, Expr) and part.head == "kw"]
        rest = [part for part in rest if not (isinstance(part, Expr) and part.head == "kw")]
        if (head.args[0] if isinstance(head, Expr) and head.head == "curly" else head) == Symbol("new"):
            return self.new(head, rest, scope)
        function = self.compile(head, scope)
        splat = any(isinstance(part, Expr) and part.head == "..." for part in rest)
        self.note("call", head, scope, None if splat else len(rest) + (extra is not None), keyword_names(named))
        arguments = self.arguments(rest, scope)
        keywords = self.keywords(named, scope) if named else None
        invoke = self.interpreter.invoke
        if extra is None and keywords is None:

            def plain(env):
                called = function(env)
                values = arguments(env)
                return called(*values) if type(called) is Function else invoke(called, values, {})

            return plain

        def run(env):
            called = function(env)
            values = arguments(env)
            if extra is not None:
                values.insert(0, extra(env))
            return invoke(called, values, keywords(env) if keywords else {})

        return run

    def do(self, node, scope):
        call, function = node.args
        if call.head == "macrocall":
            raise Unsupported(f"line {node.line}: macro with do")
        return self.call(call, scope, self.compile(function, scope))

    def new(self, head, nodes, scope):
        arguments = self.arguments(nodes, scope)
        given = [self.compile(p, scope) for p in head.args[1:]] if isinstance(head, Expr) else []
        family, interpreter = scope.module.globals["#new"], self.interpreter

        def make(env):
            kind = family.of(*(p(env) for p in given))
            values = arguments(env)
            types = family.field_types(kind)
            fields = {n: interpreter.convert(t, v) for n, t, v in zip(family.fields, types, values)}
            return Struct(kind, fields)

        return make

    # ---- values ----

    def index(self, node, scope):
        owner, indices = self.indices(node, scope)
        get = self.interpreter.base("getindex")

        def run(env):
            array = owner(env)
            return get(array, *indices(env, array))

        return run

    def property(self, node, scope):
        owner, name = self.compile(node.args[0], scope), node.args[1]
        if not isinstance(name, Quoted):
            raise Unsupported(f"line {node.line}: broadcast or computed property {node!r:.80}")
        get = self.interpreter.get_property
        self.note("property", node.args[0], str(name.value), scope)
        return lambda env: get(owner(env), name.value)

    def text(self, node, scope):
        parts = [self.compile(part, scope) for part in node.args]
        show = self.interpreter.text
        return lambda env: "".join(show(part(env)) for part in parts)

    def vector(self, node, scope):
        arguments, interpreter = self.arguments(node.args, scope), self.interpreter
        return lambda env: interpreter.vector(arguments(env))

    def curly(self, node, scope):
        base, interpreter = self.compile(node.args[0], scope), self.interpreter
        parts = []
        for part in node.args[1:]:
            if isinstance(part, Expr) and part.head == "<:" and len(part.args) == 1:
                upper = self.compile(part.args[0], scope)
                parts.append(lambda env, upper=upper: TypeVar("_", upper(env)))
            else:
                parts.append(self.compile(part, scope))
        return lambda env: interpreter.apply_type(base(env), [part(env) for part in parts])

    def subtype(self, node, scope):
        return self.call(Expr("call", [Symbol("<:"), *node.args], node.line), scope)

    def quote(self, node, scope):
        return self.interpreter.macros.quote(node.args[0], scope)

    def macrocall(self, node, scope):
        return self.interpreter.macros.expand(node, scope)

    def define_function(self, node, scope):
        return self.interpreter.definitions.function(node, scope)

    def define(self, node, scope):
        return self.interpreter.definitions.other(node, scope)


HEADS = {
    "block": "block", "toplevel": "block", "=": "assign", "tuple": "tuple", "call": "call", "do": "do",
    "&&": "logical_and", "||": "logical_or", "if": "condition", "elseif": "condition", "comparison": "comparison",
    "for": "for_loop", "while": "while_loop", "generator": "generator", "comprehension": "comprehension",
    "typed_comprehension": "typed_comprehension", "try": "try_catch", "return": "returns", "break": "breaks",
    "continue": "continues", "ref": "index", ".": "property", "string": "text", "vect": "vector", "curly": "curly",
    "<:": "subtype", "quote": "quote", "macrocall": "macrocall", "function": "define_function",
    "->": "define_function", "struct": "define", "abstract": "define", "module": "define", "using": "define",
    "import": "define", "export": "define", "const": "define", "global": "define", "macro": "define",
}
HEADS.update({head: "update" for head in UPDATES})
