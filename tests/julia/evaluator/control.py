"""Control flow: conditions, loops, comprehensions, exceptions. Part of the compiler."""
from julia_ast import Expr, Symbol
from .dispatch import error
from .scopes import Scope, targets_of
from .types import JuliaError
from .values import Array, Generator


class Return(Exception):
    def __init__(self, value):
        self.value = value


class Break(Exception):
    pass


class Continue(Exception):
    pass


class Control:
    # ---- control ----

    def logical_and(self, node, scope):
        left, right = (self.compile(part, scope) for part in node.args)
        return lambda env: right(env) if self.truth(left(env)) else False

    def logical_or(self, node, scope):
        left, right = (self.compile(part, scope) for part in node.args)
        return lambda env: True if self.truth(left(env)) else right(env)

    @staticmethod
    def truth(value):
        if value is True or value is False:
            return value
        raise error("TypeError", msg=f"non-boolean {value!r} used in boolean context")

    def condition(self, node, scope):
        test, yes = self.compile(node.args[0], scope), self.compile(node.args[1], scope)
        no = self.compile(node.args[2], scope) if len(node.args) > 2 else lambda env: None
        return lambda env: yes(env) if self.truth(test(env)) else no(env)

    def comparison(self, node, scope):
        parts = [self.compile(part, scope) for part in node.args[0::2]]
        operators = [self.compile(part, scope) for part in node.args[1::2]]

        def run(env):
            left = parts[0](env)
            for operator, part in zip(operators, parts[1:]):
                right = part(env)
                if not self.interpreter.invoke(operator(env), [left, right], {}):
                    return False
                left = right
            return True

        return run

    def loops(self, specs, scope):
        """Nested iteration: each(env) yields the inner environments."""
        chain = []
        for spec in specs:
            items = self.compile(spec.args[1], scope)
            names = targets_of(spec.args[0])
            scope = Scope(scope.module, scope, names)
            chain.append((items, self.setter(spec.args[0], scope)))

        def each(env, level=0):
            if level == len(chain):
                yield env
                return
            items, put = chain[level]
            for item in self.interpreter.iterate(items(env)):
                inner = [{}, env]
                put(inner, item)
                yield from each(inner, level + 1)

        return each, scope

    def for_loop(self, node, scope):
        spec = node.args[0]
        specs = [s for s in spec.args if isinstance(s, Expr)] if spec.head == "block" else [spec]
        each, inner = self.loops(specs, scope)
        body, _ = self.inner_block(node.args[1], inner)

        def run(env):
            for place in each(env):
                try:
                    body([{}, place])
                except Continue:
                    continue
                except Break:
                    break

        return run

    def while_loop(self, node, scope):
        test = self.compile(node.args[0], scope)
        body, _ = self.inner_block(node.args[1], scope)

        def run(env):
            while self.truth(test(env)):
                try:
                    body([{}, env])
                except Continue:
                    continue
                except Break:
                    break

        return run

    def generator(self, node, scope):
        specs, condition = list(node.args[1:]), None
        if specs[0].head == "filter":
            condition, *specs = specs[0].args
        each, inner = self.loops(specs, scope)
        test = self.compile(condition, inner) if condition is not None else None
        body, _ = self.inner_block(node.args[0], inner)

        def items(env):
            for place in each(env):
                if test is None or self.truth(test(place)):
                    yield body([{}, place])

        return lambda env: Generator(items(env))

    def comprehension(self, node, scope):
        items, interpreter = self.generator(node.args[0], scope), self.interpreter
        return lambda env: interpreter.vector(list(items(env).items))

    def typed_comprehension(self, node, scope):
        kind, items = self.compile(node.args[0], scope), self.generator(node.args[1], scope)
        convert = self.interpreter.convert

        def run(env):
            element = kind(env)
            values = [convert(element, item) for item in items(env).items]
            return Array(element, (len(values),), values)

        return run

    def try_catch(self, node, scope):
        body, _ = self.inner_block(node.args[0], scope)
        name, handler, last = node.args[1], None, None
        if isinstance(node.args[2], Expr):
            names = [name] if isinstance(name, Symbol) else []
            inner = Scope(scope.module, scope, names)
            handler, _ = self.inner_block(node.args[2], inner)
        if len(node.args) > 3 and isinstance(node.args[3], Expr):
            last, _ = self.inner_block(node.args[3], scope)

        def run(env):
            try:
                if handler is None:
                    return body([{}, env])
                try:
                    return body([{}, env])
                except JuliaError as raised:
                    place = {name: raised.value} if isinstance(name, Symbol) else {}
                    self.interpreter.caught.append(raised)
                    try:
                        return handler([{}, [place, env]])
                    finally:
                        self.interpreter.caught.pop()
            finally:
                if last is not None:
                    last([{}, env])

        return run

    def returns(self, node, scope):
        value = self.compile(node.args[0], scope) if node.args else lambda env: None

        def run(env):
            raise Return(value(env))

        return run

    def breaks(self, node, scope):
        def run(env):
            raise Break

        return run

    def continues(self, node, scope):
        def run(env):
            raise Continue

        return run
