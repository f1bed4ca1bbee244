"""reader.*: what is done with a committed checkpoint as a whole."""

import ckpt

from scenario import Line, Scenario, command
from store_commands import expect_checkpoint


@command("reader.open", 3, "options")
def reader_open(scenario: Scenario, line: Line) -> None:
    store = scenario.get(line.words[1], ckpt.Store)
    scenario.put(line.words[0], ckpt.Reader(store, line.words[2], line.options))


@command("reader.info", 1, "pairs")
def reader_info(scenario: Scenario, line: Line) -> None:
    expect_checkpoint(line, scenario.get(line.words[0], ckpt.Reader).info)


@command("reader.map", 3, "options")
def reader_map(scenario: Scenario, line: Line) -> None:
    view = scenario.get(line.words[0], ckpt.Reader).map(line.words[1], line.options)
    scenario.put(line.words[2], bytearray(memoryview(view).tobytes()))


@command("reader.verify", 2, "options")
def reader_verify(scenario: Scenario, line: Line) -> None:
    scenario.put(line.words[1], scenario.get(line.words[0], ckpt.Reader).verify(line.options))


@command("reader.diff", 3, "options")
def reader_diff(scenario: Scenario, line: Line) -> None:
    a, b = (scenario.get(name, ckpt.Reader) for name in line.words[:2])
    scenario.put(line.words[2], a.diff(b, line.options))


@command("reader.tree", 2, "pairs")
def reader_tree(scenario: Scenario, line: Line) -> None:
    scenario.put(line.words[1], scenario.get(line.words[0], ckpt.Reader).tree(line.pair("name")))


@command("reader.export", 2, "options")
def reader_export(scenario: Scenario, line: Line) -> None:
    scenario.get(line.words[0], ckpt.Reader).export(scenario.path(line.words[1]), line.options)
