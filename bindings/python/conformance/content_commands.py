"""reader.*: the tensors, objects, parts and attributes of a checkpoint."""

import ckpt

from scenario import Failure, Line, Scenario, command, dtype, integer, shape_text, unsigned
from save_commands import SCOPES


def reader_of(scenario: Scenario, line: Line) -> ckpt.Reader:
    return scenario.get(line.words[0], ckpt.Reader)


@command("reader.tensors", 1, "more")
def reader_tensors(scenario: Scenario, line: Line) -> None:
    reader = reader_of(scenario, line)
    found = reader.tensors()
    if found != [reader.tensor_at(i) for i in range(reader.tensor_count)]:
        raise Failure("expected the same tensors one by one, found others")
    line.expect_words(1, [info.name for info in found])


@command("reader.tensor", 2, "pairs")
def reader_tensor(scenario: Scenario, line: Line) -> None:
    info = reader_of(scenario, line).tensor(line.words[1])
    if info.name != line.words[1]:
        raise Failure(f"expected {line.words[1]}, found {info.name}")
    line.expect("dtype", info.dtype, dtype)
    line.expect("shape", shape_text(info.shape))
    line.expect("alias_of", info.alias_of or "")
    for key in ("bytes", "stored_bytes", "segment_count"):
        line.expect(key, getattr(info, key), unsigned)


@command("reader.alias", 2, "pairs")
def reader_alias(scenario: Scenario, line: Line) -> None:
    view = reader_of(scenario, line).alias(line.words[1])
    line.expect("shape", shape_text(view.shape))
    line.expect("strides", shape_text(view.strides))
    line.expect("offset", view.offset, integer)
    line.expect("dtype", view.dtype, dtype)


@command("reader.segment", 3, "pairs")
def reader_segment(scenario: Scenario, line: Line) -> None:
    info = reader_of(scenario, line).segment(line.words[1], unsigned(line.words[2]))
    box = f"{shape_text(info.offset)}:{shape_text(info.extent or ())}" if info.offset is not None else ""
    line.expect("box", box)
    line.expect("flat", "" if box else f"{info.flat_offset}:{info.flat_size}")
    for key in ("part", "codec", "filter", "chunk_count", "stored_bytes"):
        line.expect(key, int(getattr(info, key)), unsigned)


@command("reader.objects", 1, "more")
def reader_objects(scenario: Scenario, line: Line) -> None:
    reader = reader_of(scenario, line)
    found = reader.objects()
    if found != [reader.object_at(i) for i in range(reader.object_count)]:
        raise Failure("expected the same objects one by one, found others")
    line.expect_words(1, [f"{info.name}:{'-' if info.scope == ckpt.Scope.SHARED else info.rank}" for info in found])


@command("reader.object", 3, "pairs")
def reader_object(scenario: Scenario, line: Line) -> None:
    info = reader_of(scenario, line).object(line.words[1], unsigned(line.words[2]))
    line.expect("scope", info.scope, SCOPES.get)
    line.expect("media_type", info.media_type)
    for key in ("rank", "size"):
        line.expect(key, getattr(info, key), unsigned)


@command("reader.part", 2, "pairs")
def reader_part(scenario: Scenario, line: Line) -> None:
    info = reader_of(scenario, line).part(unsigned(line.words[1]))
    line.expect("name", info.name)
    line.expect("rank", info.rank, unsigned)


@command("reader.attrs", 1, "more")
def reader_attrs(scenario: Scenario, line: Line) -> None:
    reader, first, tensor = reader_of(scenario, line), 1, None
    if len(line.words) > 1 and line.words[1].startswith("tensor:"):
        tensor, first = line.words[1].removeprefix("tensor:"), 2
    line.expect_words(first, [f"{key}={value}" for key, value in reader.attrs(tensor).items()])


@command("reader.attr", 3, "pairs")
def reader_attr(scenario: Scenario, line: Line) -> None:
    found = reader_of(scenario, line).attr(line.words[1], line.pair("tensor")) or ""
    line.expect_words(2, [found])
