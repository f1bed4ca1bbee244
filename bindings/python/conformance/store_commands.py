"""store.* and session.*"""

import os
import time

import ckpt

from scenario import Failure, Line, Scenario, command, integer, name_of, unsigned


def expect_checkpoint(line: Line, info: ckpt.CheckpointInfo) -> None:
    for key in ("id", "label", "run"):
        line.expect(key, getattr(info, key))
    line.expect("step", info.step, integer)
    line.expect("state", info.state, name_of(ckpt.CheckpointState))
    line.expect("flags", int(info.flags), unsigned)
    for key in ("world_size", "part_count", "tensor_count", "object_count", "revision", "attempt", "token", "sequence",
                "bytes"):
        line.expect(key, getattr(info, key), unsigned)


@command("store.open", 2, "options")
def store_open(scenario: Scenario, line: Line) -> None:
    scenario.put(line.words[0], ckpt.Store(line.words[1], line.options))


@command("store.list", 1, "more")
def store_list(scenario: Scenario, line: Line) -> None:
    found = scenario.get(line.words[0], ckpt.Store).list()
    line.expect_words(1, [info.id for info in found if info.state == ckpt.CheckpointState.COMMITTED])


@command("store.states", 1, "more")
def store_states(scenario: Scenario, line: Line) -> None:
    found = scenario.get(line.words[0], ckpt.Store).list()
    line.expect_words(1, [f"{info.id}:{info.state.name}" for info in found])


@command("store.find", 2, "pairs options")
def store_find(scenario: Scenario, line: Line) -> None:
    expect_checkpoint(line, scenario.get(line.words[0], ckpt.Store).find(line.words[1], line.options))


@command("store.remove", 2)
def store_remove(scenario: Scenario, line: Line) -> None:
    scenario.get(line.words[0], ckpt.Store).remove(line.words[1])


@command("store.prune", 2, "options")
def store_prune(scenario: Scenario, line: Line) -> None:
    scenario.put(line.words[1], scenario.get(line.words[0], ckpt.Store).prune(line.options))


@command("store.repair", 3, "options")
def store_repair(scenario: Scenario, line: Line) -> None:
    scenario.put(line.words[2], scenario.get(line.words[0], ckpt.Store).repair(line.words[1], line.options))


@command("store.import", 4, "pairs options")
def store_import(scenario: Scenario, line: Line) -> None:
    store, step = scenario.get(line.words[0], ckpt.Store), integer(line.words[3])
    file = scenario.path(line.words[1])
    expect_checkpoint(line, store.import_file(file, line.words[2], step, line.options))


def string_in(file: str) -> str:
    """The file appears complete, so what is there is all of it."""
    end = time.monotonic() + 60
    while not os.path.exists(file):
        if time.monotonic() > end:
            raise Failure(f"expected a file {file} within 60 s, found none")
        time.sleep(0.01)
    with open(file, encoding="utf-8") as opened:
        return opened.read()


@command("session.open", 4, "pairs options")
def session_open(scenario: Scenario, line: Line) -> None:
    store = scenario.get(line.words[1], ckpt.Store)
    string: str | None = None
    if (other := line.pair("string")) is not None:
        string = scenario.get(other, ckpt.Session).string
    if (file := line.pair("file")) is not None:
        string = string_in(scenario.path(file))
    rank, world_size = unsigned(line.words[2]), unsigned(line.words[3])
    scenario.put(line.words[0], ckpt.Session(store, rank, world_size, string, line.options))


@command("session.string", 2)
def session_string(scenario: Scenario, line: Line) -> None:
    path = scenario.path(line.words[1])
    with open(path + ".aside", "w", encoding="utf-8") as file:
        file.write(scenario.get(line.words[0], ckpt.Session).string)
    os.rename(path + ".aside", path)
