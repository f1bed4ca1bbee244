#!/usr/bin/env python3
"""bench/'s comparison of languages: who works when, and what is made of seconds; on made-up programs and numbers."""

import importlib
import os
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
languages, turns = map(importlib.import_module, "languages turns".split())

# Like a runner: a reply for each timed command, at once since it writes to a terminal. Its pauses outlast any stop.
RUNNER = """
import time
for step in range(turns_WARM_UP):
    print(f"save.run 0.{step + 1} OK")
for step in range(2):
    time.sleep(3)
    print("memory 3.0 OK")
    print(f"save.run 7.{step} OK")
time.sleep(3)
print("memory 3.0 OK")
print("load.run 2.0 OK")
print("same 0 OK 1")
""".replace("turns_WARM_UP", str(turns.WARM_UP))


def state_of(process):
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


class Turns(unittest.TestCase):
    def test_each_timed_save_and_the_load_come_after_a_pause_and_the_first_saves_do_not(self):
        lines = [line for line in turns.scenario(3).splitlines() if line.startswith("timed")]
        kinds = [line.split()[1] for line in lines]
        self.assertEqual(kinds, ["save.run"] * turns.WARM_UP + ["memory", "save.run"] * 3 + ["memory", "load.run"])

    def test_every_save_but_the_last_is_removed_so_that_its_files_are_written_again(self):
        lines = turns.scenario(2).splitlines()
        made = [line.split()[3] for line in lines if line.startswith("save.new")]
        removed = [line.split()[2].removesuffix(".1.1") for line in lines if line.startswith("store.remove")]
        self.assertEqual(removed, made[:-1])

    def test_a_program_rests_between_its_turns(self):
        program = turns.Program("made up", [sys.executable, "-c", RUNNER], os.devnull, {})
        try:
            program.warm_up()
            for expected in (7.0, 7.1):
                self.assertEqual(state_of(program._process), "T")
                self.assertEqual(program.turn(), expected)
            self.assertEqual(state_of(program._process), "T")
            program.end()
        finally:
            program.kill()

    def test_a_program_that_ends_early_is_told(self):
        program = turns.Program("made up", [sys.executable, "-c", "print('save.run 0.1 OK')"], os.devnull, {})
        with self.assertRaisesRegex(SystemExit, "made up: ended early"):
            program.warm_up()
        program.kill()

    def test_seconds_inside_the_library_are_those_of_the_timed_saves(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "inside.txt")
            file.write_text("".join(f"{i}.5\n" for i in range(turns.WARM_UP + 2)))
            self.assertEqual(turns.read_inside(file, 2), [turns.WARM_UP + 0.5, turns.WARM_UP + 1.5])
            with self.assertRaisesRegex(SystemExit, f"expected {turns.WARM_UP + 3} saves"):
                turns.read_inside(file, 3)


class Figures(unittest.TestCase):
    # Two launches in which the machine was fast and slow; the language is 10 % slower, 4 µs of it by itself.
    LAUNCHES = [{"c": [(t, t - 2e-6) for t in (1.0, 4.0, 2.0)],
                 "go": [(1.1 * t, 1.1 * t - 4e-6) for t in (1.0, 4.0, 2.0)]} for _ in range(2)]

    def test_what_the_machine_does_to_both_is_no_difference(self):
        for value in languages.over_c(self.LAUNCHES, "go"):
            self.assertAlmostEqual(value, 10)
        self.assertEqual(languages.over_c(self.LAUNCHES, "c"), (0, 0, 0))

    def test_the_table_tells_what_is_outside_the_library(self):
        *_, c, go = languages.save_table(self.LAUNCHES, 2**31)
        self.assertEqual(c, "| c | 2.00 s | +0.0 % | +0.0 … +0.0 % | 2 µs, 0.0001 % |")
        self.assertEqual(go, "| go | 2.20 s | +10.0 % | +10.0 … +10.0 % | 4 µs, 0.0002 % |")


if __name__ == "__main__":
    unittest.main()
