"""file.*: other people's files, opened in place."""

import ctypes

import ckpt

from scenario import Line, Scenario, command, dtype, integer, shape_text, unsigned


def file_of(scenario: Scenario, line: Line) -> ckpt.File:
    return scenario.get(line.words[0], ckpt.File)


@command("file.open", 2, "options")
def file_open(scenario: Scenario, line: Line) -> None:
    scenario.put(line.words[0], ckpt.File(scenario.path(line.words[1]), line.options))


@command("file.format", 2)
def file_format(scenario: Scenario, line: Line) -> None:
    line.expect_words(1, [file_of(scenario, line).format])


@command("file.tensors", 1, "more")
def file_tensors(scenario: Scenario, line: Line) -> None:
    line.expect_words(1, [tensor.name for tensor in file_of(scenario, line).tensors()])


@command("file.tensor", 2, "pairs")
def file_tensor(scenario: Scenario, line: Line) -> None:
    found = file_of(scenario, line).tensor(unsigned(line.words[1]))
    line.expect("name", found.name)
    line.expect("dtype", found.dtype, dtype)
    line.expect("shape", shape_text(found.shape))
    line.expect("strides", shape_text(found.strides))
    line.expect("alias_of", found.alias_of or "")
    line.expect("alias_offset", found.alias_offset, integer)
    for key in ("bytes", "data_bytes"):
        line.expect(key, getattr(found, key), unsigned)


@command("file.read", 3)
def file_read(scenario: Scenario, line: Line) -> None:
    memory = ckpt.Memory.of(file_of(scenario, line).data(unsigned(line.words[1])))
    data = ctypes.string_at(memory.address, memory.nbytes)  # from the first element to the last, gaps included
    scenario.put(line.words[2], bytearray(data))


@command("file.tree", 2)
def file_tree(scenario: Scenario, line: Line) -> None:
    file = file_of(scenario, line)
    scenario.put(line.words[1], file.tree(), lent_by=file)
