"""The commands of keepers."""

import ckpt
from ckpt._core import Keeper

from runner import Commands, Runner

WHAT = ("go_on", "save", "save_and_stop")


def keeper_of(r: Runner) -> Keeper:
    return r.get(0, Keeper)


def tell(r: Runner) -> None:
    keeper = keeper_of(r)
    say = keeper.tell_counter if r.words[1] == "counter" else keeper.tell_metric
    say(r.words[2], float(r.words[3]))


def begin(r: Runner) -> list[str]:
    source = r.key("from")
    keeper = r.get(1, Keeper)
    plan = (keeper if source is None else r.named(source, Keeper)).plan(r.words[3] or None)
    save = ckpt.Save.by_plan(keeper, r.get(2, ckpt.Session), plan, r.options)
    if save is not None:
        r.put(0, save)
    return [str(int(save is not None))]


def number(r: Runner) -> dict[str, str]:
    keeper = keeper_of(r)
    told = list((keeper.counters if r.words[1] == "counter" else keeper.metrics).items())
    name, value = told[r.number(2)] if r.number(2) < len(told) else ("", 0.0)
    return {"name": name, "value": str(value)}


COMMANDS: Commands = {
    "keeper.new": lambda r: r.put(0, Keeper(r.get(1, ckpt.Store), r.number(2), r.number(3), r.options)),
    "keeper.tell": tell,
    "keeper.step": lambda r: list(map(str, keeper_of(r).step(r.number(1), r.number(2) != 0))),
    "keeper.note": lambda r: keeper_of(r).at_step(r.number(1)),
    "keeper.decide": lambda r: [WHAT[keeper_of(r).decide([int(word) for word in r.words[1:6]])]],
    "keeper.decide_alone": lambda r: [WHAT[keeper_of(r).decide()]],
    "keeper.needs_votes": lambda r: [str(int(keeper_of(r).needs_votes))],
    "keeper.stop": lambda r: keeper_of(r).stop(r.number(1)),
    "keeper.catch": lambda r: keeper_of(r).catch_signal(r.number(1)),
    "keeper.stopping": lambda r: [keeper_of(r).stopping or ""],
    "keeper.warning": lambda r: [keeper_of(r).warning or ""],
    "keeper.begin": begin,
    "keeper.saved": lambda r: [keeper_of(r).saved or ""],
    "keeper.find": lambda r: [keeper_of(r).find(r.words[1]) or ""],
    "keeper.pass_over": lambda r: keeper_of(r).pass_over(ckpt.Status[r.words[1]], "damaged"),
    "keeper.restored": lambda r: keeper_of(r).restored(r.get(1, ckpt.Reader)),
    "keeper.number": number,
}
