#!/usr/bin/env python3
"""One rank of a training whose state is sparse tables: of users and of films, rows that appear when an id does.

  train.py run --data RATINGS --store STORE --meet SOCKET --rank R --world W --end STEP
               [--save-at STEP]... [--die-at STEP]   at that step's save this rank kills itself, the part half written
               [--timeout MS]                        of a save, for the other ranks
  train.py compare STORE LABEL OTHER LABEL           every row of every table, bit for bit

Stars are predicted from a user's and a film's embedding, in one pass over the ratings in order of time.
A rank holds the rows whose bucket is in its slice, as a load by ckpt.Rowset.slice gives them. For each batch the ranks
send each other the rows that it needs; each computes the same gradient and applies it to its own rows (Adam). So any
number of ranks computes the same, to the bit. A run goes on from the newest checkpoint of the store.
"""
import argparse
import os
import signal
import sys
import time
import zlib
from multiprocessing.connection import Client, Listener

import ckpt
import numpy as np

WIDTH, BATCH, BUCKETS = 16, 500, 65536  # as many buckets as RecIS has
SPREAD = 2654435769  # an id is a user's or film's number times this: so all buckets have as many ids
RATE, BETA1, BETA2, EPSILON = 0.05, 0.9, 0.999, 1e-8
MEAN_STARS = 3.5
# By step. A power of an array may depend on its length (vector instructions and the rest); the rest of Adam does not.
CORRECTIONS = [np.array([1 - beta ** step for step in range(1001)], "f4") for beta in (BETA1, BETA2)]
TABLES = ("users", "films")
COLUMNS = {  # of both tables: dtype and shape of a row
    "embedding": ("f4", (WIDTH,)), "adam/exp_avg": ("f4", (WIDTH,)), "adam/exp_avg_sq": ("f4", (WIDTH,)),
    "adam/step": ("i4", ()), "last_seen": ("i8", ())}


class Rows:
    """This rank's rows of a table. They lie in arrays that grow; the last ones are not used yet."""

    def __init__(self, name, rank, world, table=None):
        self.name, self.rank, self.world = name, rank, world
        self.size = len(table) if table else 0
        self.ids = np.array(table.ids) if table else np.empty(0, "i8")
        self.columns = {column: np.array(table.columns[column]) if table else np.empty((0, *shape), dtype)
                        for column, (dtype, shape) in COLUMNS.items()}
        self.places = {id: place for place, id in enumerate(self.ids.tolist())}

    def is_mine(self, ids):
        """By slices of buckets, the first ones one longer, as ckpt and RecIS cut them."""
        each, longer = divmod(BUCKETS, self.world)
        bucket = ids.view("u8") % BUCKETS
        first, end = (each * rank + min(rank, longer) for rank in (self.rank, self.rank + 1))
        return (first <= bucket) & (bucket < end)

    def grow(self):
        more = max(64, len(self.ids))
        self.ids = np.concatenate([self.ids, np.zeros(more, "i8")])
        self.columns = {name: np.concatenate([values, np.zeros((more, *values.shape[1:]), values.dtype)])
                        for name, values in self.columns.items()}

    def places_of(self, ids):
        """Of ids that are this rank's. A new one gets a row, whose first values depend on the id alone."""
        for id in ids.tolist():
            if id in self.places:
                continue
            if self.size == len(self.ids):
                self.grow()
            seed = [zlib.crc32(self.name.encode()), id]
            self.ids[self.size], self.places[id] = id, self.size
            self.columns["embedding"][self.size] = np.random.default_rng(seed).normal(0, 0.1, WIDTH)
            self.size += 1
        return np.array([self.places[id] for id in ids.tolist()], "i8")

    def apply(self, places, gradient, seen):
        """Adam, each row with its own number of steps."""
        c = self.columns
        c["adam/step"][places] += 1
        corrected = [CORRECTIONS[which][c["adam/step"][places]][:, None] for which in (0, 1)]
        average = c["adam/exp_avg"][places] * np.float32(BETA1) + gradient * np.float32(1 - BETA1)
        square = c["adam/exp_avg_sq"][places] * np.float32(BETA2) + gradient * gradient * np.float32(1 - BETA2)
        c["adam/exp_avg"][places], c["adam/exp_avg_sq"][places] = average, square
        scale = np.sqrt(square / corrected[1]) + np.float32(EPSILON)
        c["embedding"][places] -= np.float32(RATE) * (average / corrected[0]) / scale
        c["last_seen"][places] = seen

    def table(self):
        return ckpt.Table(self.ids[:self.size], {name: values[:self.size] for name, values in self.columns.items()},
                          bucket_count=BUCKETS)


class Ranks:
    """All ranks of this run, by way of rank 0."""

    def __init__(self, socket, rank, world):
        self.rank, self.others, self.first = rank, [], None
        if rank == 0:
            with Listener(socket, "AF_UNIX") as listener:
                self.others = sorted((listener.accept() for _ in range(1, world)), key=lambda other: other.recv())
            return
        while self.first is None:
            try:
                self.first = Client(socket, "AF_UNIX")
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(0.02)
        self.first.send(rank)

    def gather(self, rows):
        """What each rank has, in order of ranks."""
        if self.rank:
            self.first.send(rows)
            return self.first.recv()
        all_rows = [rows] + [other.recv() for other in self.others]
        for other in self.others:
            other.send(all_rows)
        return all_rows


class Training:
    def __init__(self, a, state):
        self.ranks = Ranks(a.meet, a.rank, a.world)
        self.tables = [Rows(name, a.rank, a.world, state and state["tables"][name]) for name in TABLES]
        self.step = state["extra"]["step"] if state else 0
        self.losses = list(state["extra"]["losses"]) if state else []

    def state(self):
        """Tables are of each rank its own rows, the rest is equal on all. The names are those that RecIS has."""
        return {"tables": {rows.name: rows.table() for rows in self.tables},
                "extra": {"step": self.step, "losses": self.losses}}

    def train(self, ratings):
        """One batch."""
        stars = ratings[:, 2].astype("f4") - np.float32(MEAN_STARS)
        wanted = [np.unique(ratings[:, at] * SPREAD, return_inverse=True) for at in (0, 1)]
        mine = [rows.is_mine(ids) for rows, (ids, _) in zip(self.tables, wanted)]
        places = [rows.places_of(ids[own]) for rows, (ids, _), own in zip(self.tables, wanted, mine)]
        sent = [rows.columns["embedding"][at] for rows, at in zip(self.tables, places)]
        values = [np.empty((len(ids), WIDTH), "f4") for ids, _ in wanted]
        for own, given in self.ranks.gather((mine, sent)):
            for table in (0, 1):
                values[table][own[table]] = given[table]
        user, film = (value[inverse] for value, (_, inverse) in zip(values, wanted))
        # The first number of an embedding is what the user or film adds to all stars.
        error = user[:, 0] + film[:, 0] + (user[:, 1:] * film[:, 1:]).sum(axis=1) - stars
        for rows, value, of, other, own, at in zip(self.tables, values, wanted, (film, user), mine, places):
            gradient = np.zeros_like(value)
            other[:, 0] = 1
            np.add.at(gradient, of[1], error[:, None] * other)
            seen = np.zeros(len(value), "i8")
            np.maximum.at(seen, of[1], ratings[:, 3])
            rows.apply(at, gradient[own], seen[own])
        self.losses.append(float((error * error).mean()))
        self.step += 1


def die_while_writing(handle):
    """Ends this process as the kernel or a lost machine would."""
    while not handle.done() and handle.stats.bytes_written == 0 and handle.stats.bytes_done == 0:
        pass
    os.kill(os.getpid(), signal.SIGKILL)


def run(a):
    state = None
    with ckpt.Store(a.store) as store:
        try:
            share = {name: ckpt.Rowset.slice(a.rank, a.world) for name in TABLES}
            state = ckpt.load(store, into={"tables": share})
        except ckpt.NotFoundError:
            pass  # the run begins
        training = Training(a, state)
        rows = " and ".join(f"{rows.size} of {rows.name}" for rows in training.tables)
        print(f"rank {a.rank} of {a.world}: begins after step {training.step} with {rows}", flush=True)
        ratings = np.fromfile(a.data, "<i8").reshape(-1, 4)
        with ckpt.Session(store, a.rank, a.world, rendezvous=1, timeout_ms=60000) as session:
            while training.step < a.end:
                training.train(ratings[training.step * BATCH:(training.step + 1) * BATCH])
                if training.step == a.die_at:
                    die_while_writing(ckpt.save_async(session, training.state(), step=training.step, in_place=True))
                if training.step in a.save_at:
                    ckpt.save(session, training.state(), step=training.step, timeout_ms=a.timeout)
    rows = " and ".join(f"{rows.size} of {rows.name}" for rows in training.tables)
    last = np.mean(training.losses[-20:])
    print(f"rank {a.rank} of {a.world}: ends after step {training.step} with {rows}; loss {last:.4f}")


def compare(first, label, second, other):
    states = [ckpt.load(first, label), ckpt.load(second, other)]
    for name in TABLES:
        tables = [state["tables"][name] for state in states]
        order = [table.ids.argsort() for table in tables]
        for column in ("id", *COLUMNS):
            bits = [(table.ids if column == "id" else table.columns[column])[at].tobytes()
                    for table, at in zip(tables, order)]
            if bits[0] != bits[1]:
                sys.exit(f"{name}: {column} differs")
        print(f"{name}: {len(tables[0])} rows, each with {len(COLUMNS)} columns, are equal to the bit")
    losses = [state["extra"]["losses"] for state in states]
    if losses[0] != losses[1]:
        sys.exit("the losses differ")
    print(f"{len(losses[0])} losses are equal")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run")
    for name in ("data", "store", "meet"):
        one.add_argument("--" + name, required=True)
    for name, default in dict(rank=0, world=1, end=200, die_at=0, timeout=60000).items():
        one.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    one.add_argument("--save-at", type=int, action="append", default=[])
    two = commands.add_parser("compare")
    for name in ("first", "label", "second", "other"):
        two.add_argument(name)
    a = parser.parse_args()
    if a.command == "compare":
        return compare(a.first, a.label, a.second, a.other)
    try:
        run(a)
    except (ckpt.Error, EOFError, ConnectionError) as error:
        sys.exit(f"rank {a.rank} of {a.world}: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
