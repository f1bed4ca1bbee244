"""Runs programs that are alive together and work in turns, so that other load on the machine affects all alike."""
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "conformance"))
import scenario as lines  # noqa: E402

# A pause takes tens of milliseconds in every language: long enough to stop the program in it.
PAUSE = "timed memory pause 33554432 1\n"
SAVE = """save.new save ses s{step} {step}
save.tensor save big u8 $BYTES big
timed save.run save
"""
AFTER = "free save\nstore.remove store s{last}.1.1\n"
BEGIN = "store.open store $DIR/store\nsession.open ses store 0 1\nmemory big $BYTES 1\n"
END = """reader.open reader store latest
memory got $BYTES 0
load.new load reader
load.tensor load big u8 $BYTES got
timed load.run load
equal got big
"""
WARM_UP = 4  # saves that are not timed: they make the files that later saves overwrite, and touch the memory


def scenario(turns):
    """The warm-up saves; for each turn a pause and a save; then a load of what was saved."""
    lines = [BEGIN]
    for step in range(1, WARM_UP + turns + 1):
        if step > WARM_UP:
            lines.append(PAUSE)
        lines += [SAVE.format(step=step), AFTER.format(last=step - 1) if step > 1 else "free save\n"]
    return "".join([*lines, PAUSE, END])


class Program:
    """One conformance runner with its scenario; it is stopped between turns."""

    def __init__(self, name, command, requests, environment):
        self.name = name
        self._pty, theirs = os.openpty()  # on a terminal every language flushes each line
        self._text = b""
        with open(requests, "rb") as file:
            self._process = subprocess.Popen(command, stdin=file, stdout=theirs, env={**os.environ, **environment})
        os.close(theirs)

    def _line(self):
        while b"\n" not in self._text:
            try:
                self._text += os.read(self._pty, 4096)
            except OSError:  # the other side of the terminal is closed
                raise SystemExit(f"{self.name}: ended early") from None
        line, self._text = self._text.split(b"\n", 1)
        return line.split()

    def _seconds(self, command):
        line = self._line()
        while line[0] != command:
            line = self._line()
        return float(line[1])

    def _stop(self):
        os.kill(self._process.pid, signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)
        os.set_blocking(self._pty, False)
        try:
            self._text += os.read(self._pty, 4096)
        except BlockingIOError:
            pass
        os.set_blocking(self._pty, True)
        if b"memory" in self._text:
            raise SystemExit(f"{self.name}: was not stopped before its next save")

    def warm_up(self):
        for _ in range(WARM_UP):
            self._seconds(b"save.run")
        self._stop()

    def turn(self):
        """Lets it save once; the seconds that took."""
        os.kill(self._process.pid, signal.SIGCONT)
        seconds = self._seconds(b"save.run")
        self._stop()
        return seconds

    def end(self):
        """Lets it load what it saved, and compare."""
        os.kill(self._process.pid, signal.SIGCONT)
        loaded = self._seconds(b"load.run") and self._line()[2:] == [b"OK", b"1"]  # the reply to "same"
        if not loaded or self._process.wait():
            raise SystemExit(f"{self.name}: expected to load what it saved")
        os.close(self._pty)

    def kill(self):
        self._process.kill()
        self._process.wait()


def build_inside(folder):
    """Compiles inside.c as a library for LD_PRELOAD."""
    library, here = folder / "inside.so", Path(__file__).resolve().parent
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-shared", "-fPIC", f"-I{here.parent}/include",
                    f"-I{here.parent}/tests/languages", str(here / "inside.c"), "-o", str(library), "-ldl", "-pthread"],
                   check=True)
    return library


def saves(runners, turns, folder, size):
    """language -> (seconds, seconds inside the library) of each save.

    Starts all programs in random order; then each round gives each a turn, again in random order.
    """
    folder.mkdir(parents=True)
    inside = str(build_inside(folder))
    programs, seconds = [], {language: [] for language in runners}
    try:
        for language in random.sample(sorted(runners), len(runners)):
            place = Path(folder, language)
            place.mkdir()
            script = place / "requests"
            made = lines.read_lines(scenario(turns), "turns", place, {"BYTES": str(size)})
            script.write_text("".join(line.request() + "\n" for _, line in made))
            environment = {"LD_PRELOAD": inside, "CKPT_INSIDE": str(place / "inside.txt")}
            programs.append(Program(language, runners[language].command, script, environment))
            programs[-1].warm_up()
        for _ in range(turns):
            for program in random.sample(programs, len(programs)):
                seconds[program.name].append(program.turn())
                time.sleep(0.05)  # let the disk finish
        for program in programs:
            program.end()
    finally:
        for program in programs:
            program.kill()
    return {language: list(zip(values, read_inside(folder / language / "inside.txt", turns), strict=True))
            for language, values in seconds.items()}


def read_inside(file, turns):
    values = [float(line) for line in file.read_text().splitlines()]
    if len(values) != WARM_UP + turns:
        raise SystemExit(f"{file}: expected {WARM_UP + turns} saves, found {len(values)}")
    return values[WARM_UP:]
