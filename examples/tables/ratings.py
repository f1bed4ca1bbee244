#!/usr/bin/env python3
"""The trainer's data: 100,000 ratings of films, as four little-endian int64 each (user, film, stars, time), by time.

  ratings.py extract WHEEL OUT   takes MovieLens 100K out of RecBole's wheel; nothing of the wheel is run
  ratings.py make-up OUT         made-up ratings of the same number; users and films follow a Zipf law

MovieLens 100K is GroupLens' (University of Minnesota), for research. Only Python's own library is used.
"""
import itertools
import os
import random
import struct
import sys
import zipfile

COUNT = 100_000
USERS, FILMS = 943, 1682  # of both


def write(out, ratings):
    if len(ratings) != COUNT:
        sys.exit(f"expected {COUNT} ratings, found {len(ratings)}")
    with open(out + ".part", "wb") as file:
        for rating in sorted(ratings, key=lambda rating: rating[3]):
            file.write(struct.pack("<4q", *rating))
    os.replace(out + ".part", out)
    users, films = (len({rating[at] for rating in ratings}) for at in (0, 1))
    return f"{len(ratings)} ratings of {films} films by {users} users"


def extract(wheel, out):
    with zipfile.ZipFile(wheel) as archive:
        lines = archive.read("recbole/dataset_example/ml-100k/ml-100k.inter").decode().splitlines()[1:]
    return write(out, [tuple(int(float(field)) for field in line.split("\t")) for line in lines])


def make_up(out):
    rng = random.Random(1)

    def zipf(count):
        return list(itertools.accumulate(1 / rank for rank in range(1, count + 1)))

    users = rng.choices(range(1, USERS + 1), cum_weights=zipf(USERS), k=COUNT)
    films = rng.choices(range(1, FILMS + 1), cum_weights=zipf(FILMS), k=COUNT)
    taste = [[rng.gauss(0, 1) for _ in range(max(USERS, FILMS) + 1)] for _ in range(2)]
    stars = [min(5, max(1, round(3.5 + taste[0][user] * taste[1][film]))) for user, film in zip(users, films)]
    return write(out, list(zip(users, films, stars, range(COUNT)))) + ", MADE UP by a Zipf law"


def main():
    commands = {"extract": extract, "make-up": make_up}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    print(commands[sys.argv[1]](*sys.argv[2:]))


if __name__ == "__main__":
    main()
