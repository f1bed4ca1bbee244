"""Quotes, and the macros: Julia's own that Ckpt.jl uses, and those that it defines."""

import threading

from julia_ast import Expr, Line, Quoted, Symbol
from .dispatch import error
from .scopes import assigned
from .types import Unsupported
from .values import Task, key_of

ATOMIC = threading.RLock()


class Macros:
    def __init__(self, interpreter):
        self.interpreter, self.compiler = interpreter, interpreter.compiler

    # ---- quotes ----

    def quote(self, node, scope):
        """A closure that builds the expression, with $… filled in."""
        if isinstance(node, Expr) and node.head == "$":
            return self.compiler.compile(node.args[0], scope)
        if isinstance(node, Quoted) or not isinstance(node, Expr):
            return lambda env: node
        parts = []
        for part in node.args:
            if (isinstance(part, Expr) and part.head == "$" and isinstance(part.args[0], Expr)
                    and part.args[0].head == "..."):
                parts.append((True, self.compiler.compile(part.args[0].args[0], scope)))
            else:
                parts.append((False, self.quote(part, scope)))

        def build(env):
            args = []
            for spread, part in parts:
                value = part(env)
                args.extend(self.interpreter.iterate(value)) if spread else args.append(value)
            return Expr(node.head, args, node.line)

        return build

    # ---- macros ----

    def expand(self, node, scope):
        name = node.args[0]
        if isinstance(name, Expr) and name.head == ".":
            name = Symbol(f"{name.args[0]}.{name.args[1].value}")
        if isinstance(name, Expr) and name.head == "globalref":
            name = name.args[0]
        arguments = [a for a in node.args[1:] if not isinstance(a, Line)]
        own = next((m.macros[name] for m in self.modules(scope.module) if name in m.macros), None)
        if own is not None:
            made = own(*arguments)
            if not (isinstance(made, Expr) and made.head == "escape"):
                raise Unsupported(f"line {node.line}: {name} gives an expression that is not escaped")
            if scope.parent is not None:  # what the expansion assigns are locals of the block it stands in
                scope.names |= {n for n in assigned(made.args[0], set()) if scope.depth(n) is None}
            return self.compiler.compile(made.args[0], scope)
        handler = getattr(self, HANDLERS.get(name, ""), None)
        if handler is None:
            raise Unsupported(f"line {node.line}: macro {name}")
        return handler(arguments, scope, node)

    @staticmethod
    def modules(module):
        while module is not None:
            yield module
            module = module.parent

    def doc(self, arguments, scope, node):
        return self.compiler.compile(arguments[1], scope)

    def version_literal(self, arguments, scope, node):
        value = self.interpreter.version(arguments[0])
        return lambda env: value

    def last(self, arguments, scope, node):
        return self.compiler.compile(arguments[-1], scope)

    def preserve(self, arguments, scope, node):
        kept = [self.compiler.compile(a, scope) for a in arguments[:-1]]
        body = self.compiler.compile(arguments[-1], scope)

        def run(env):
            held = [k(env) for k in kept]
            try:
                return body(env)
            finally:
                held.clear()

        return run

    def file(self, arguments, scope, node):
        return lambda env: str(scope.module.path)

    def folder(self, arguments, scope, node):
        return lambda env: str(scope.module.path.parent)

    # ---- @ccall ----

    def ccall(self, arguments, scope, node):
        call = arguments[-1]
        for setting in arguments[:-1]:
            if not (isinstance(setting, Expr) and setting.head == "=" and setting.args == [Symbol("gc_safe"), True]):
                raise Unsupported(f"line {node.line}: @ccall with {setting!r}")
            if self.interpreter.julia_version < (1, 12):
                raise Unsupported("@ccall gc_safe before Julia 1.12")
        signature, result = call.args
        target = signature.args[0]
        library = self.compiler.compile(target.args[0], scope) if isinstance(target, Expr) else None
        name = target.args[1].value if isinstance(target, Expr) else target
        values = [self.compiler.compile(a.args[0], scope) for a in signature.args[1:]]
        types = [self.compiler.compile(a.args[1], scope) for a in signature.args[1:]]
        kind, foreign = self.compiler.compile(result, scope), self.interpreter.foreign

        def run(env):
            where = library(env) if library else None
            return foreign.call(where, name, kind(env), [t(env) for t in types], [v(env) for v in values])

        return run

    # ---- atomics ----

    def atomic(self, arguments, scope, node):
        target = arguments[0]
        if isinstance(target, Expr) and target.head in ("+=", "-=", "="):
            owner, field = self.field(target.args[0], scope)
            value = self.compiler.compile(target.args[1], scope)
            change = {"+=": "+", "-=": "-"}.get(target.head)
            operator = self.interpreter.base(change) if change else None

            def update(env):
                with ATOMIC:
                    place = self.checked(owner(env), field)
                    new = value(env)
                    place[field] = operator(place[field], new) if operator else new
                    return place[field]

            return update
        owner, field = self.field(target, scope)
        return lambda env: self.checked(owner(env), field)[field]

    def atomic_swap(self, arguments, scope, node):
        owner, field = self.field(arguments[0].args[0], scope)
        value = self.compiler.compile(arguments[0].args[1], scope)

        def run(env):
            with ATOMIC:
                place = self.checked(owner(env), field)
                old, place[field] = place[field], value(env)
                return old

        return run

    def atomic_replace(self, arguments, scope, node):
        owner, field = self.field(arguments[0], scope)
        pair = self.compiler.compile(arguments[1], scope)

        def run(env):
            wanted = pair(env)
            with ATOMIC:
                place = self.checked(owner(env), field)
                old = place[field]
                done = key_of(old) == key_of(wanted.first)
                if done:
                    place[field] = wanted.second
                return (old, done)

        return run

    def field(self, node, scope):
        return self.compiler.compile(node.args[0], scope), str(node.args[1].value)

    @staticmethod
    def checked(owner, field):
        if field not in owner.type.family.atomic:
            raise error("ConcurrencyViolationError", msg=f"{field} is no atomic field")
        return owner.fields

    # ---- tasks ----

    def spawn(self, arguments, scope, node):
        body, _ = self.compiler.inner_block(arguments[-1], scope)
        return lambda env: Task(lambda: body([{}, env]))

    # ---- logging ----

    def warn(self, arguments, scope, node):
        if len(arguments) != 1:
            raise Unsupported(f"line {node.line}: @warn with {len(arguments)} arguments")
        message, tests = self.compiler.compile(arguments[0], scope), self.interpreter.tests
        return lambda env: None if self.interpreter.quiet else tests.log("warn", message(env))

    # ---- tests ----

    def test_logs(self, arguments, scope, node):
        *patterns, code = (self.compiler.compile(a, scope) for a in arguments)
        tests, shown = self.interpreter.tests, repr(arguments[-1])
        return lambda env: tests.logs(node.line, shown, [p(env) for p in patterns], lambda: code(env))

    def testset(self, arguments, scope, node):
        name = self.compiler.compile(arguments[0], scope)
        body, _ = self.compiler.inner_block(arguments[-1], scope)
        return lambda env: self.interpreter.tests.testset(name(env), lambda: body([{}, env]))

    def test(self, arguments, scope, node):
        condition, tests = self.compiler.compile(arguments[0], scope), self.interpreter.tests
        shown = repr(arguments[0])
        return lambda env: tests.check(node.line, shown, lambda: condition(env))

    def test_throws(self, arguments, scope, node):
        wanted, code = (self.compiler.compile(a, scope) for a in arguments)
        shown = repr(arguments[1])
        return lambda env: self.interpreter.tests.throws(node.line, shown, wanted(env), lambda: code(env))


HANDLERS = {
    "@doc": "doc", "@v_str": "version_literal", "@noinline": "last", "GC.@preserve": "preserve", "@__FILE__": "file",
    "@__DIR__": "folder", "@ccall": "ccall", "@atomic": "atomic", "@atomicswap": "atomic_swap",
    "@atomicreplace": "atomic_replace", "Threads.@spawn": "spawn", "@testset": "testset", "@test": "test",
    "@test_throws": "test_throws", "@test_logs": "test_logs", "@warn": "warn",
}
