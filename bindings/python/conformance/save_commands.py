"""save.*, load.*, job.* and report*: the work of one rank, and its reports."""

import ckpt

from runner import Commands, Failure, Runner

SCOPES = {"shared": ckpt.Scope.SHARED, "per-rank": ckpt.Scope.PER_RANK}  # those that a program may add


def save_of(r: Runner) -> ckpt.Save:
    return r.get(0, ckpt.Save)


def load_of(r: Runner) -> ckpt.Load:
    return r.get(0, ckpt.Load)


def job_of(r: Runner) -> ckpt.Job:
    return r.get(0, ckpt.Job)


def data_of(r: Runner, word: int) -> bytearray | None:
    return r.get(word, bytearray) if r.words[word] else None


def save_tensors(r: Runner) -> None:
    save, memory, tensor = save_of(r), ckpt.Memory.of(r.get(5, bytearray)), r.tensor(3)
    for i in range(r.number(1)):
        save.add_tensor(f"{r.words[2]}{i}", memory, **tensor)


def load_tensors(r: Runner) -> None:
    load, memory, tensor = load_of(r), ckpt.Memory.of(r.get(5, bytearray), writable=True), r.tensor(3)
    for i in range(r.number(1)):
        load.add_tensor(f"{r.words[2]}{i}", memory, **tensor)


def save_object(r: Runner) -> None:
    if r.words[3] not in SCOPES:
        raise Failure(f"expected shared or per-rank, found {r.words[3]}")
    save_of(r).add_object(r.words[1], r.get(4, bytearray), r.words[2], SCOPES[r.words[3]])


def save_alias(r: Runner) -> None:
    offset = r.numbers("offset")
    view = {"shape": r.numbers("shape"), "strides": r.numbers("strides"), "offset": offset and offset[0]}
    given = {key: value for key, value in view.items() if value is not None}
    save_of(r).add_alias(r.words[1], r.words[2], **given)  # type: ignore[arg-type]


def load_tensor(r: Runner) -> None:
    convert = r.numbers("convert") not in (None, (0,))
    load_of(r).add_tensor(r.words[1], data_of(r, 4), convert=convert, **r.tensor(2))


def job_state(r: Runner) -> None:
    if job_of(r).state.name not in r.words[1:]:
        raise Failure(f"expected {' or '.join(r.words[1:])}, found {job_of(r).state.name}")


def job_wait(r: Runner) -> None:
    if r.words[1] not in ckpt.JobState.__members__:
        raise Failure(f"expected a state, found {r.words[1]}")
    job_of(r).wait(ckpt.JobState[r.words[1]], int(r.key("timeout_ms") or "-1"))


def report(r: Runner) -> None:
    found = r.get(0, ckpt.Report)
    if len(found) != r.number(1):
        raise Failure(f"expected {r.words[1]} findings, found {len(found)}: {found[0].text if found else ''}")


COMMANDS: Commands = {
    "save.new": lambda r: r.put(0, ckpt.Save(r.get(1, ckpt.Session), r.words[2], r.number(3), r.options)),
    "save.tensor": lambda r: save_of(r).add_tensor(r.words[1], data_of(r, 4), **r.tensor(2)),
    "save.tensors": save_tensors,
    "save.object": save_object,
    "save.alias": save_alias,
    "save.attr": lambda r: save_of(r).set_attr(r.words[1], r.words[2], r.key("tensor")),
    "save.tree": lambda r: save_of(r).add_tree(r.get(1, ckpt.Tree), r.key("name")),
    "save.give_up": lambda r: save_of(r).give_up(r.words[1]),
    "save.id": lambda r: r.expect_words(1, [save_of(r).id]),
    "save.run": lambda r: save_of(r).run(),
    "save.start": lambda r: r.put(1, save_of(r).start()),
    "save.start_in_place": lambda r: r.put(1, save_of(r).start(in_place=True)),
    "save.report": lambda r: r.put(1, save_of(r).report()),
    "load.new": lambda r: r.put(0, ckpt.Load(r.get(1, ckpt.Reader), r.options)),
    "load.tensor": load_tensor,
    "load.tensors": load_tensors,
    "load.object": lambda r: load_of(r).add_object(r.words[1], r.get(3, bytearray), r.number(2)),
    "load.run": lambda r: load_of(r).run(),
    "load.start": lambda r: r.put(1, load_of(r).start()),
    "load.report": lambda r: r.put(1, load_of(r).report()),
    "job.new": lambda r: r.put(0, ckpt.Job()),
    "job.wait": job_wait,
    "job.state": job_state,
    "job.cancel": lambda r: job_of(r).cancel(),
    "job.stats": lambda r: r.expect_fields(job_of(r).stats),
    "job.report": lambda r: r.put(1, job_of(r).report()),
    "report": report,
    "report.at": lambda r: r.expect_fields(r.get(0, ckpt.Report)[r.number(1)]),
}
