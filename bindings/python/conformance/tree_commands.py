"""tree.*: state trees, built and read node by node, and as native values."""

import ckpt

from runner import Commands, Failure, Runner

KINDS = {kind.name.lower(): kind for kind in ckpt.NodeKind}
TEXTS = (ckpt.NodeKind.TEXT, ckpt.NodeKind.BIGINT, ckpt.NodeKind.TENSOR, ckpt.NodeKind.RECORD)


def tree_of(r: Runner) -> ckpt.Tree:
    return r.get(0, ckpt.Tree)


def tree_begin(r: Runner) -> None:
    if r.words[1] not in KINDS:
        raise Failure(f"expected a kind of node, found {r.words[1]}")
    tree_of(r).begin(KINDS[r.words[1]], r.key("class"))


def tree_node(r: Runner) -> None:
    node = tree_of(r).node(r.number(1))
    kind, value, key = node.kind, node.value, node.key
    if "bytes" in r.keys and not isinstance(value, bytes):
        raise Failure(f"expected bytes, found {kind.name}")
    links = {link: "-" if to is None else to for link in ("first_child", "next_sibling", "parent")
             for to in [getattr(node, link)]}
    r.expect_fields(node, key=key if isinstance(key, str) else "", key_int=key if isinstance(key, int) else 0,
                    bool=value is True, int=value if kind == ckpt.NodeKind.INT else 0, bytes=value,
                    float=value if isinstance(value, float) else 0.0, text=str(value) if kind in TEXTS else "", **links)


COMMANDS: Commands = {
    "tree.new": lambda r: r.put(0, ckpt.Tree()),
    "tree.parse": lambda r: r.put(0, ckpt.Tree.parse(r.octets(1))),
    "tree.json": lambda r: r.expect_words(1, [tree_of(r).json()]),
    "tree.key": lambda r: tree_of(r).key(r.words[1]),
    "tree.key_int": lambda r: tree_of(r).key(r.number(1)),
    "tree.null": lambda r: tree_of(r).add_null(),
    "tree.bool": lambda r: tree_of(r).add_bool(bool(r.number(1))),
    "tree.int": lambda r: tree_of(r).add_int(r.number(1)),
    "tree.bigint": lambda r: tree_of(r).add_bigint(r.words[1]),
    "tree.float": lambda r: tree_of(r).add_float(float(r.words[1])),
    "tree.text": lambda r: tree_of(r).add_text(r.words[1]),
    "tree.bytes": lambda r: tree_of(r).add_bytes(r.octets(1)),
    "tree.tensor": lambda r: r.expect("path", tree_of(r).add_tensor(r.key("name"))),
    "tree.begin": tree_begin,
    "tree.end": lambda r: tree_of(r).end(),
    "tree.count": lambda r: r.expect_words(1, [str(len(tree_of(r)))]),
    "tree.node": tree_node,
    "tree.find": lambda r: r.expect_words(3, [str(tree_of(r).find(r.number(1), r.words[2]))]),
    "tree.find_int": lambda r: r.expect_words(3, [str(tree_of(r).find(r.number(1), r.number(2)))]),
    "tree.native": lambda r: r.put(1, ckpt.from_native(ckpt.to_native(tree_of(r)))),
}
