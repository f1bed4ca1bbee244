"""Scopes: which names a block of Julia makes its own."""

from julia_ast import Expr, Symbol, is_signature, signature_name

SCOPED = {
    "function", "->", "do", "for", "while", "try", "comprehension", "typed_comprehension", "generator", "macro",
    "struct", "module", "quote", "abstract",
}
UPDATES = {
    "+=": "+", "-=": "-", "*=": "*", "/=": "/", "÷=": "÷", "%=": "%", "|=": "|", "&=": "&", "<<=": "<<", ">>=": ">>",
    "⊻=": "xor",
}


class Scope:
    """Names of one block of locals; `parent` None: the block stands at the top of `module`."""

    def __init__(self, module, parent=None, names=()):
        self.module, self.parent, self.names = module, parent, set(names)

    def depth(self, name):
        at, depth = self, 0
        while at is not None:
            if name in at.names:
                return depth
            at, depth = at.parent, depth + 1
        return None


def assigned(node, out):
    """Names that a block assigns itself, not inside a scope of its own."""
    if not isinstance(node, Expr):
        return out
    if node.head == "=" or node.head in UPDATES:
        target = node.args[0]
        if node.head == "=" and is_signature(target):
            return targets(signature_name(target), out)
        targets(target, out)
        for part in node.args[1:]:
            assigned(part, out)
        return out
    if node.head == "function" and is_signature(node.args[0]):
        targets(signature_name(node.args[0]), out)
    if node.head in SCOPED or node.head == "macrocall" and node.args[0] in ("@ccall", "@blocking"):
        if node.head == "do":
            assigned(node.args[0], out)
        return out
    for part in node.args:
        if not (node.head in ("tuple", "parameters") and isinstance(part, Expr) and part.head == "="):
            assigned(part, out)
    return out


def targets(node, out):
    if isinstance(node, Symbol):
        out.add(node)
    elif isinstance(node, Expr) and node.head in ("tuple", "parameters"):
        for part in node.args:
            targets(part, out)
    return out


def contains(node, name):
    if isinstance(node, Expr):
        return node.head != "ref" and any(contains(a, name) for a in node.args)
    return node == name and isinstance(node, Symbol)


def keyword_names(nodes):
    """The keywords of a call; None where a splat may bring any."""
    names = []
    for node in nodes:
        if isinstance(node, Expr) and node.head == "...":
            return None
        names.append(
            str(node) if isinstance(node, Symbol) else str(node.args[1].value if node.head == "." else node.args[0]))
    return names


def targets_of(node):
    return targets(node, set())
