"""Proves that the suite finds runners and scenarios that are wrong.

Most proofs run the suite with a runner, or a copy of the scenarios, that is wrong in one way. Exactly the named claims
must fail then.
"""
import contextlib
import io
import re
import shutil
from pathlib import Path

import runner
import scenario
from claims import Claims

MISTAKES = {
    "frobnicate a": "expected a command, found 'frobnicate'", "timed": "expected a command", "timed timed": "a command",
    "memory c 16": "expected 3 words, found 2", "equal a b c": "found 'c'", "version colour=red": "found 'colour=red'",
    "reader.info r colour=red": "found 'colour=red'", "tree.node t 0 >=1": "found '>=1'", "save.run s a=1": "'a=1'",
    "reader.info r step=1 step>=1": "once", "free a @threads=1": "found '@threads=1'", "store.open s x @threads": "'@t",
    "memory c $NOBODY 1": "a value of $NOBODY", "memory c %ZZ 1": "after %, found '%ZZ'", "free a%2": "found '%2'",
    "job.wait j DONE timeout_ms>=1": "once; found 'timeout_ms>=1'",
    "memory c 1x 1": "an integer of 64 bits, found '1x'", "memory c 18446744073709551616 1": "an integer of 64 bits",
    "memory c -9223372036854775809 1": "an integer", "memory c 007 1": "an integer", "job.stats j threads>=x": "'x'",
    "memory.hex c 0": "hex", "memory.hex c 0g": "hex", "tree.float t 1.5.": "1.5.", "load.tensors l 1 w u8 2y m": "2y",
    "save.tensor s w u8 4 m box=4": "expected SHAPE:SHAPE, found '4'", "save.tensor s w u8 4 m flat=1:-": "an integer",
    "each colour free a": "each dtype or status or INT or STR", "each dtype": "and a line; found 'each dtype'",
    "free a ->": "a status", "free a -> GONE tensor": "found 'tensor'",
}
SCENARIO_TEXT = """# $A has a blank, $B is decoded where it stands
timed save.tensor save%0A $A%FF f32 2x3 % strides=1x2 flat=0:-1 -> INVALID tensor=% message~a%3Db  # the end
 memory.hex\ta$$B 00ff41

file.open f a.txt @threads=-3 @run=%224 @protect=x
reader.segment r - 0 box=0x0:2x1 flat=%  #
"""
REQUESTS = [(2, "save.tensor save%0A x%20y%FF f32 2%203  =strides=1%202 =flat=0:-1"),
            (3, "memory.hex a%24A %00%FFA"),
            (5, "file.open f /dir/a.txt @threads=-3 $run=4 $protect=x"),
            (6, "reader.segment r - 0")]
# Blocks that lie one after the other are the same rows as one block; the bindings' own tests have them apart.
UNSEEN = {("table.new", "rows_per_block")}
SCENARIO, RIGHT, WRONG, MATRIX = "shapes", "self/prelude", "wrong lines fails", "matrix:"


class Proofs(Claims):
    def __init__(self, suite, folder, real, work):
        super().__init__()
        self.suite, self.real, self.work = suite, real, work
        self.folder = work / "suite"
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(folder, self.folder, ignore=shutil.ignore_patterns("runner_*", "__pycache__"))
        # A few scenarios are enough here; together they still use every command.
        for path in (self.folder / "scenarios").glob("*.txt"):
            if path.stem != SCENARIO:
                path.rename(self.fold(path))

    def fold(self, path):
        (path.parent / "apart").mkdir(exist_ok=True)
        return path.parent / "apart" / path.name

    def edited(self, pattern, replacement):
        """A runner that carries out another scenario than the given one, and pretends that it is the given one."""
        class Edited(runner.Runner):
            def carry_out(self, text, *arguments, **environment):
                return super().carry_out(re.sub(pattern, replacement, text, flags=re.M), *arguments, **environment)

        return Edited

    def prove(self, what, runners, *must_fail):
        """In a run with these runners exactly the claims that contain one of the given words must fail."""
        runners = [given(f"r{i}", self.real.command) if isinstance(given, type) else runner.Runner(f"r{i}", given)
                   for i, given in enumerate(runners)]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            good = self.suite.Suite(self.folder, runners, self.work / "scratch").check_all()
        claims = re.findall(r"^(.*) \.\.\. (ok|FAILED)$", printed.getvalue(), flags=re.M)
        wrong = [f"{claim}: {outcome}" for claim, outcome in claims
                 if any(word in claim for word in must_fail) != (outcome == "FAILED")]
        wrong += [word for word in must_fail if not any(word in claim for claim, _ in claims)]
        self.claim(what, "\n".join(wrong) or (f"passed: {good}" if good == bool(must_fail) else None))

    @contextlib.contextmanager
    def changed(self, name, pattern, replacement):
        """Replaces the text of a file of the suite for a while."""
        path = self.folder / name
        text = path.read_text()
        other = re.sub(pattern, replacement, text, count=1, flags=re.M)
        assert other != text, f"{name}: nothing to change"
        path.write_text(other)
        yield
        path.write_text(text)

    # ---- what is proved ----
    def wrong_runners(self):
        real, all_of_it = self.real.command, (": shapes", RIGHT, WRONG, MATRIX)
        self.prove("the real runner passes", [real])
        self.prove("one that does nothing and ends with 0 is caught", [["/bin/true"]], *all_of_it)
        self.prove("one that is not there is caught", [["/nowhere/runner"]], *all_of_it)
        self.prove("one that says OK to everything is caught",
                   [["/bin/sed", "-u", r"s/\([^ ]*\).*/\1 0 OK/"]], *all_of_it)
        leaves = '"$@"; exit 1'
        self.prove("one that ends badly is caught", [["/bin/sh", "-c", leaves, "x", *real]], *all_of_it)
        says = '"$@"; echo left >&2'
        self.prove("one that complains at its end is caught", [["/bin/sh", "-c", says, "x", *real]], *all_of_it)

    def blind_to_keys(self):
        """A runner that ignores a key which tells a command what to do fails some scenario."""
        scenarios = [*self.folder.glob("scenarios/apart/*.txt"), *self.folder.glob("scenarios/*.txt")]
        for name, command in scenario.TABLE.items():
            for key in sorted(set(command.keys) - command.expected):
                if (name, key) in UNSEEN:
                    continue
                blind = self.edited(rf"^({re.escape(name)} .*) {key}=\S+", r"\1")("r0", self.real.command)
                blind.timeout_s = 10  # without its timeout a wait may take longer
                using = [path for path in scenarios if re.search(rf"^{name} .* {key}=", path.read_text(), flags=re.M)]
                found = any(blind.problem(path, self.fresh()) for path in using)
                self.claim(f"a runner that ignores {key}= of {name} is caught", None if found else "no scenario fails")

    def fresh(self):
        folder = self.work / "scratch" / "one"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def mistakes(self):
        """Mistakes are found before a runner sees them, and what runners see is as README.md says."""
        for line, why in MISTAKES.items():
            try:
                found = f"nothing: {list(scenario.read_lines(line, 'a.txt', '/dir'))}"
            except scenario.Mistake as mistake:
                found = str(mistake)
            self.claim(f"a mistake is found: {line}", None if found.startswith("a.txt:1: ") and why in found else found)
        lines = scenario.read_lines(SCENARIO_TEXT, "a.txt", "/dir", {"A": "x y", "B": "%41"})
        made = [(number, line.request()) for number, line in lines]
        self.claim("requests are what README.md says", None if made == REQUESTS else str(made))

    def wrong_scenarios(self):
        real = self.real.command
        with self.changed("scenarios/shapes.txt", r"^equal got\.rows rows", "equal got.rows deep"):
            self.prove("a scenario that expects other bytes is caught", [real], ": shapes")
        with self.changed("scenarios/shapes.txt", r"-> NOT_FOUND", "-> CORRUPT"):
            self.prove("a scenario that expects another status is caught", [real], ": shapes")
        with self.changed("scenarios/self/wrong.txt", r"^equal a b$", "differ a b"):
            self.prove("a wrong line that is right is caught", [real], WRONG)
        with self.changed("scenarios/self/wrong.txt", r"(^reader\.part reader 0 .*\n)+", ""):
            self.prove("a command that no wrong line is about is caught", [real], "has a wrong line")
        with self.changed("scenarios/self/wrong.txt", r"^reader\.info reader id", "reader.info nobody id"):
            self.prove("a wrong line that is wrong otherwise is caught", [real], RIGHT)
        with self.changed("scenarios/self/prelude.txt", r"^save\.run save$", "save.run nobody"):
            self.prove("a prelude that fails by itself is caught", [real], RIGHT, WRONG)
        with self.changed("scenarios/apart/session.txt", r"^session\.string .*", "version"):
            self.prove("a command that no scenario uses is caught", [real], "of the table is used")

    def wrong_matrix(self):
        """If the second runner saves or loads other bytes, only its pairs with the first fail."""
        real = self.real.command
        other = self.edited(r"^memory rows 24 1$", "memory rows 24 2")
        self.prove("a runner that saves and loads other bytes is caught by the others", [real, other],
                   "r0 saves, r1 loads", "r1 saves, r0 loads")


def run(folder, real, work):
    import run as suite
    proofs = Proofs(suite, Path(folder), real, work)
    proofs.wrong_runners()
    proofs.blind_to_keys()
    proofs.mistakes()
    proofs.wrong_scenarios()
    proofs.wrong_matrix()
    return proofs.end() == 0
