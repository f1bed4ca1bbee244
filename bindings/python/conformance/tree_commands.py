"""tree.*: state trees, built and read node by node, and as native values."""

import ckpt

from scenario import Failure, Line, Scenario, command, hexadecimal, integer, name_of, number, unsigned

KINDS = {kind.name.lower(): kind for kind in ckpt.NodeKind}
TEXTS = (ckpt.NodeKind.TEXT, ckpt.NodeKind.BIGINT, ckpt.NodeKind.TENSOR, ckpt.NodeKind.RECORD)


def tree_of(scenario: Scenario, line: Line) -> ckpt.Tree:
    return scenario.get(line.words[0], ckpt.Tree)


def kind_of(text: str) -> ckpt.NodeKind:
    return name_of(ckpt.NodeKind)(text.upper() if text.islower() else "?")  # type: ignore[no-any-return]


@command("tree.new", 1)
def tree_new(scenario: Scenario, line: Line) -> None:
    scenario.put(line.words[0], ckpt.Tree())


@command("tree.parse", 2)
def tree_parse(scenario: Scenario, line: Line) -> None:
    scenario.put(line.words[0], ckpt.Tree.parse(line.words[1].encode("utf-8", "surrogateescape")))


@command("tree.json", 2)
def tree_json(scenario: Scenario, line: Line) -> None:
    line.expect_words(1, [tree_of(scenario, line).json()])


@command("tree.key", 2)
def tree_key(scenario: Scenario, line: Line) -> None:
    tree_of(scenario, line).key(line.words[1])


@command("tree.key_int", 2)
def tree_key_int(scenario: Scenario, line: Line) -> None:
    tree_of(scenario, line).key(integer(line.words[1]))


@command("tree.null", 1)
def tree_null(scenario: Scenario, line: Line) -> None:
    tree_of(scenario, line).add_null()


@command("tree.bool", 2)
def tree_bool(scenario: Scenario, line: Line) -> None:
    tree_of(scenario, line).add_bool(bool(integer(line.words[1])))


@command("tree.int", 2)
def tree_int(scenario: Scenario, line: Line) -> None:
    tree_of(scenario, line).add_int(integer(line.words[1]))


@command("tree.bigint", 2)
def tree_bigint(scenario: Scenario, line: Line) -> None:
    tree_of(scenario, line).add_bigint(line.words[1])


@command("tree.float", 2)
def tree_float(scenario: Scenario, line: Line) -> None:
    tree_of(scenario, line).add_float(float(number(line.words[1])))


@command("tree.text", 2)
def tree_text(scenario: Scenario, line: Line) -> None:
    tree_of(scenario, line).add_text(line.words[1])


@command("tree.bytes", 2)
def tree_bytes(scenario: Scenario, line: Line) -> None:
    tree_of(scenario, line).add_bytes(hexadecimal(line.words[1]))


@command("tree.tensor", 1, "pairs")
def tree_tensor(scenario: Scenario, line: Line) -> None:
    line.expect("path", tree_of(scenario, line).add_tensor(line.pair("name")))


@command("tree.begin", 2, "pairs")
def tree_begin(scenario: Scenario, line: Line) -> None:
    tree_of(scenario, line).begin(kind_of(line.words[1]), line.pair("class"))


@command("tree.end", 1)
def tree_end(scenario: Scenario, line: Line) -> None:
    tree_of(scenario, line).end()


@command("tree.count", 2)
def tree_count(scenario: Scenario, line: Line) -> None:
    found = len(tree_of(scenario, line))
    if found != unsigned(line.words[1]):
        raise Failure(f"expected {line.words[1]} nodes, found {found}")


@command("tree.node", 2, "pairs")
def tree_node(scenario: Scenario, line: Line) -> None:
    node = tree_of(scenario, line).node(unsigned(line.words[1]))
    kind, value, key = node.kind, node.value, node.key
    line.expect("kind", kind, kind_of)
    line.expect("key_kind", node.key_kind.name.lower())
    line.expect("key", key if isinstance(key, str) else "")
    line.expect("key_int", key if isinstance(key, int) else 0, integer)
    line.expect("bool", int(value is True), integer)
    line.expect("int", value if kind == ckpt.NodeKind.INT else 0, integer)
    line.expect("float", repr(value) if isinstance(value, float) else "0.0", number)
    line.expect("text", str(value) if kind in TEXTS else "")
    if line.pair("bytes") is not None and not isinstance(value, bytes):
        raise Failure(f"expected bytes, found {kind.name}")
    line.expect("bytes", value, hexadecimal)
    line.expect("child_count", node.child_count, unsigned)
    for link in ("first_child", "next_sibling", "parent"):
        line.expect(link, getattr(node, link), lambda text: None if text == "-" else unsigned(text))


def expect_node(line: Line, found: int) -> None:
    if found != unsigned(line.words[3]):
        raise Failure(f"expected node {line.words[3]}, found {found}")


@command("tree.find", 4)
def tree_find(scenario: Scenario, line: Line) -> None:
    expect_node(line, tree_of(scenario, line).find(unsigned(line.words[1]), line.words[2]))


@command("tree.find_int", 4)
def tree_find_int(scenario: Scenario, line: Line) -> None:
    expect_node(line, tree_of(scenario, line).find(unsigned(line.words[1]), integer(line.words[2])))


@command("tree.native", 2)
def tree_native(scenario: Scenario, line: Line) -> None:
    scenario.put(line.words[1], ckpt.from_native(ckpt.to_native(tree_of(scenario, line))))
