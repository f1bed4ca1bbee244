"""save.*: one rank's share of a checkpoint."""

from typing import Any

import ckpt

from scenario import Failure, Line, Scenario, command, divided, dtype, integer, region, shape, unsigned

SCOPES = {"shared": ckpt.Scope.SHARED, "per-rank": ckpt.Scope.PER_RANK}


@command("save.new", 4, "options")
def save_new(scenario: Scenario, line: Line) -> None:
    session = scenario.get(line.words[1], ckpt.Session)
    scenario.put(line.words[0], ckpt.Save(session, line.words[2], integer(line.words[3]), line.options))


@command("save.tensor", 5, "pairs")
def save_tensor(scenario: Scenario, line: Line) -> None:
    save = scenario.get(line.words[0], ckpt.Save)
    data = scenario.get(line.words[4], bytearray) if line.words[4] else None
    more: dict[str, Any] = region(line)
    if (text := line.pair("replica")) is not None:
        more["replica"] = tuple(map(unsigned, divided(text, 3)))
    save.add_tensor(line.words[1], data, dtype=dtype(line.words[2]), shape=shape(line.words[3]), **more)


@command("save.tensors", 6)
def save_tensors(scenario: Scenario, line: Line) -> None:
    save, data = scenario.get(line.words[0], ckpt.Save), scenario.get(line.words[5], bytearray)
    memory = ckpt.Memory.of(data)
    kind, extents, prefix = dtype(line.words[3]), shape(line.words[4]), line.words[2]
    for i in range(unsigned(line.words[1])):
        save.add_tensor(f"{prefix}{i}", memory, dtype=kind, shape=extents)


@command("save.object", 5)
def save_object(scenario: Scenario, line: Line) -> None:
    save, data = scenario.get(line.words[0], ckpt.Save), scenario.get(line.words[4], bytearray)
    if line.words[3] not in SCOPES:
        raise Failure(f"expected shared or per-rank, found {line.words[3]}")
    save.add_object(line.words[1], data, line.words[2], SCOPES[line.words[3]])


@command("save.alias", 3, "pairs")
def save_alias(scenario: Scenario, line: Line) -> None:
    save = scenario.get(line.words[0], ckpt.Save)
    view: dict[str, Any] = {}
    for key, parse in (("shape", shape), ("strides", shape), ("offset", integer)):
        if (text := line.pair(key)) is not None:
            view[key] = parse(text)
    save.add_alias(line.words[1], line.words[2], **view)


@command("save.attr", 3, "pairs")
def save_attr(scenario: Scenario, line: Line) -> None:
    scenario.get(line.words[0], ckpt.Save).set_attr(line.words[1], line.words[2], line.pair("tensor"))


@command("save.tree", 2, "pairs")
def save_tree(scenario: Scenario, line: Line) -> None:
    save, tree = scenario.get(line.words[0], ckpt.Save), scenario.get(line.words[1], ckpt.Tree)
    save.add_tree(tree, line.pair("name"))


@command("save.id", 2)
def save_id(scenario: Scenario, line: Line) -> None:
    line.expect_words(1, [scenario.get(line.words[0], ckpt.Save).id])


@command("save.run", 1)
def save_run(scenario: Scenario, line: Line) -> None:
    scenario.get(line.words[0], ckpt.Save).run()


@command("save.start", 2)
def save_start(scenario: Scenario, line: Line) -> None:
    scenario.put(line.words[1], scenario.get(line.words[0], ckpt.Save).start())


@command("save.start_in_place", 2)
def save_start_in_place(scenario: Scenario, line: Line) -> None:
    scenario.put(line.words[1], scenario.get(line.words[0], ckpt.Save).start(in_place=True))
