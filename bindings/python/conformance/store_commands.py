"""store.* and session.*"""

import os
import time

import ckpt

from runner import Commands, Failure, Runner


def store_of(r: Runner) -> ckpt.Store:
    return r.get(0, ckpt.Store)


def store_list(r: Runner) -> None:
    r.expect_words(1, [info.id for info in store_of(r).list() if info.state == ckpt.CheckpointState.COMMITTED])


def store_runs(r: Runner) -> None:
    r.expect_words(1, [f"{run.name}:{run.token}:{run.checkpoint_count}:{run.newest_step}:{run.newest_id}:"
                       f"{run.newest_label}" for run in store_of(r).runs()])


def string_in(file: str) -> str:
    """Waits for the file, which is complete as soon as it appears."""
    end = time.monotonic() + 60
    while not os.path.exists(file):
        if time.monotonic() > end:
            raise Failure(f"expected a file {file} within 60 s, found none")
        time.sleep(0.01)
    with open(file, encoding="utf-8") as opened:
        return opened.read()


def session_open(r: Runner) -> None:
    string: str | None = None
    if (other := r.key("string")) is not None:
        string = r.named(other, ckpt.Session).string
    if (file := r.key("file")) is not None:
        string = string_in(file)
    r.put(0, ckpt.Session(r.get(1, ckpt.Store), r.number(2), r.number(3), string, r.options, job=r.call_job()))


def session_string(r: Runner) -> None:
    with open(r.words[1] + ".aside", "w", encoding="utf-8") as file:
        file.write(r.get(0, ckpt.Session).string)
    os.rename(r.words[1] + ".aside", r.words[1])


COMMANDS: Commands = {
    "store.open": lambda r: r.put(0, ckpt.Store(r.words[1], r.options)),
    "store.list": store_list,
    "store.states": lambda r: r.expect_words(1, [f"{info.id}:{info.state.name}" for info in store_of(r).list()]),
    "store.runs": store_runs,
    "store.find": lambda r: r.expect_fields(store_of(r).find(r.words[1], r.options)),
    "store.remove": lambda r: store_of(r).remove(r.words[1]),
    "store.prune": lambda r: r.put(1, store_of(r).prune(r.options, job=r.call_job())),
    "store.repair": lambda r: r.put(2, store_of(r).repair(r.words[1], r.options, job=r.call_job())),
    "store.import": lambda r: r.expect_fields(store_of(r).import_file(r.words[1], r.words[2], r.number(3), r.options,
                                                                         job=r.call_job())),
    "session.open": session_open,
    "session.mirror": lambda r: r.put(1, r.get(0, ckpt.Session).mirror()),
    "session.string": session_string,
}
