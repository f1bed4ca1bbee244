"""load.*: requests that are planned and read together."""

import ckpt

from scenario import Line, Scenario, command, dtype, integer, region, shape, unsigned


@command("load.new", 2, "options")
def load_new(scenario: Scenario, line: Line) -> None:
    scenario.put(line.words[0], ckpt.Load(scenario.get(line.words[1], ckpt.Reader), line.options))


@command("load.tensor", 5, "pairs")
def load_tensor(scenario: Scenario, line: Line) -> None:
    load = scenario.get(line.words[0], ckpt.Load)
    data = scenario.get(line.words[4], bytearray) if line.words[4] else None
    convert = bool(integer(line.pair("convert") or "0"))
    load.add_tensor(line.words[1], data, dtype=dtype(line.words[2]), shape=shape(line.words[3]), convert=convert,
                    **region(line))


@command("load.tensors", 6)
def load_tensors(scenario: Scenario, line: Line) -> None:
    load, data = scenario.get(line.words[0], ckpt.Load), scenario.get(line.words[5], bytearray)
    memory = ckpt.Memory.of(data, writable=True)
    kind, extents, prefix = dtype(line.words[3]), shape(line.words[4]), line.words[2]
    for i in range(unsigned(line.words[1])):
        load.add_tensor(f"{prefix}{i}", memory, dtype=kind, shape=extents)


@command("load.object", 4)
def load_object(scenario: Scenario, line: Line) -> None:
    load, rank = scenario.get(line.words[0], ckpt.Load), unsigned(line.words[2])
    load.add_object(line.words[1], scenario.get(line.words[3], bytearray), rank)


@command("load.run", 1)
def load_run(scenario: Scenario, line: Line) -> None:
    scenario.get(line.words[0], ckpt.Load).run()


@command("load.start", 2)
def load_start(scenario: Scenario, line: Line) -> None:
    scenario.put(line.words[1], scenario.get(line.words[0], ckpt.Load).start())


@command("load.report", 2)
def load_report(scenario: Scenario, line: Line) -> None:
    scenario.put(line.words[1], scenario.get(line.words[0], ckpt.Load).report())
