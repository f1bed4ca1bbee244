"""Proves that run.py catches what it is there to catch: runners that lie or do not look, and scenarios that are wrong.

Each proof runs the suite with a runner, or a copy of the scenarios, that is wrong in one way, and names the claims that
must fail then, and no others.
"""
import contextlib
import io
import re
import shutil
import sys
from pathlib import Path

# Does nothing and says that all is well, with the right number of commands.
LIAR = r'''
import re, sys
if sys.argv[1] == "--commands":
    print("\n".join(sorted(COMMANDS)))
else:
    lines = [line.split() for line in open(sys.argv[1])]
    print("ok", sum(bool(words) and not words[0].startswith("#") for words in lines))
'''
LISTS, SCENARIO, WRONG, MATRIX = "knows the commands", "shapes", "fails at each of", "matrix:"


class Proofs:
    def __init__(self, suite, folder, real, work):
        self.suite, self.real, self.work = suite, real, work
        self.folder = work / "suite"
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(folder, self.folder, ignore=shutil.ignore_patterns("runner_*", "__pycache__"))
        # Few scenarios are enough here; what is to be used by some scenario stays used.
        for path in (self.folder / "scenarios").glob("*.txt"):
            if path.stem != SCENARIO:
                path.rename(self.fold(path))
        self.passed = self.failed = 0

    def fold(self, path):
        (path.parent / "apart").mkdir(exist_ok=True)
        return path.parent / "apart" / path.name

    def script(self, name, text, *arguments):
        path = self.work / f"{name}.py"
        path.write_text(text)
        return [sys.executable, str(path), *arguments]

    def edited(self, pattern, replacement):
        """A runner that carries out another scenario than it is given, and speaks as if it were the given one."""
        edited = self.work / "edited.txt"

        class Edited(self.suite.Runner):
            def run(self, *arguments):
                if arguments[0] == "--commands":
                    return super().run(*arguments)
                given = Path(arguments[0])
                edited.write_text(re.sub(pattern, replacement, given.read_text(), flags=re.M))
                status, out, err = super().run(edited, *arguments[1:])
                return status, out, err.replace(str(edited), str(given))

        return Edited

    def prove(self, what, runners, *must_fail):
        """Of the claims of a run with these runners exactly those must fail that hold one of the words given."""
        kinds = [given if isinstance(given, type) else self.suite.Runner for given in runners]
        commands = [self.real.command if isinstance(given, type) else given for given in runners]
        runners = [kind(f"r{i}", {"command": commands[i], "env": self.real.env}) for i, kind in enumerate(kinds)]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            run = self.suite.Suite(self.folder, runners, self.work / "scratch")
            good = run.check_all()
        claims = re.findall(r"^(.*) \.\.\. (ok|FAILED)$", printed.getvalue(), flags=re.M)
        wrong = [f"{claim}: {outcome}" for claim, outcome in claims
                 if any(word in claim for word in must_fail) != (outcome == "FAILED")]
        missing = [word for word in must_fail if not any(word in claim for claim, _ in claims)]
        held = not wrong and not missing and good == (not must_fail)
        print(f"{what} ... {'ok' if held else 'FAILED'}", flush=True)
        if held:
            self.passed += 1
        else:
            self.failed += 1
            print("    " + "\n    ".join(wrong + missing))

    @contextlib.contextmanager
    def changed(self, name, pattern, replacement):
        """A file of the suite, for a while, with another text."""
        path = self.folder / name
        text = path.read_text()
        other = re.sub(pattern, replacement, text, count=1, flags=re.M)
        assert other != text, f"{name}: nothing to change"
        path.write_text(other)
        yield
        path.write_text(text)

    # ---- what is proved ----
    def wrong_runners(self):
        real, all_of_it = self.real.command, (LISTS, ": shapes", "self/prelude", WRONG, MATRIX)
        commands = sorted(self.suite.commands_in_readme((self.folder / "README.md").read_text()))
        self.prove("the real runner passes", [real])
        self.prove("one that does nothing and ends with 0 is caught", [["/bin/true"]], *all_of_it)
        self.prove("one that is not there is caught", [["/nowhere/runner"]], *all_of_it)
        liar = self.script("liar", f"COMMANDS = {commands}\n" + LIAR)
        self.prove("one that says 'ok' to everything is caught by the wrong lines", [liar], WRONG)
        shell = '"$@" || true'
        self.prove("one that ends with 0 whatever happens is caught", [["/bin/sh", "-c", shell, "x", *real]], WRONG)
        quiet = '"$@" >/dev/null'
        self.prove("one that does not count is caught", [["/bin/sh", "-c", quiet, "x", *real]],
                   LISTS, ": shapes", "self/prelude", MATRIX)
        self.prove("one that counts lines wrongly is caught", [self.edited(r"\A", "\n")], WRONG)

    def blind_runners(self):
        """Runners that do everything but look."""
        for what, pattern, left in (("what a call must fail with", r" -> .*", ""),
                                    ("the details of an error", r"( -> \S+) .*", r"\1"),
                                    ("shapes", r"(^reader\.(?:tensor|alias) .*) shape=\S+", r"\1"),
                                    ("bytes", r"^(?:equal|differ) .*", "version"),
                                    ("the order of names", r"^reader\.tensors .*", "version"),
                                    ("findings", r"^(report\.at \w+ \d+) .*", r"\1"),
                                    ("nodes of a tree", r"^(tree\.node \w+ \d+) .*", r"\1"),
                                    ("the JSON of a tree", r"^tree\.json .*", "version"),
                                    ("what a load asks for", r"^(load\.tensor load2) .*", r"\1 w f32 2x2 got"),
                                    ("the numbers of a job", r"^(job\.stats \w+) .*", r"\1"),
                                    ("what an import gave", r"^(store\.import( [^ =\n]+){4}) \w+=.*", r"\1"),
                                    ("the tensors of a file", r"^(file\.tensor \w+ \d+) .*", r"\1"),
                                    ("the format of a file", r"^file\.format .*", "version")):
            fails = [WRONG]
            if what == "what a call must fail with":  # then the calls that fail are failures
                fails.append(": shapes")
            self.prove(f"a runner that does not look at {what} is caught", [self.edited(pattern, left)], *fails)

    def wrong_scenarios(self):
        real = self.real.command
        with self.changed("scenarios/shapes.txt", r"^equal got\.rows rows", "equal got.rows deep"):
            self.prove("a scenario that expects other bytes is caught", [real], ": shapes")
        with self.changed("scenarios/shapes.txt", r"-> NOT_FOUND", "-> CORRUPT"):
            self.prove("a scenario that expects another status is caught", [real], ": shapes")
        with self.changed("scenarios/self/wrong.txt", r"^equal a b$", "differ a b"):
            self.prove("a wrong line that is right is caught", [real], WRONG)
        with self.changed("scenarios/self/wrong.txt", r"^reader\.info reader world_size=2$", "equal a b"):
            self.prove("a key that no wrong line is about is caught", [real], "has a wrong line")
        with self.changed("scenarios/self/wrong.txt", r"^reader\.info reader label", "reader.info nobody label"):
            self.prove("a wrong line that is wrong otherwise is caught", [real], "self/prelude")
        with self.changed("scenarios/self/prelude.txt", r"^save\.run save$", "save.run nobody"):
            self.prove("a prelude that fails by itself is caught", [real], "self/prelude", WRONG)
        with self.changed("README.md", r"^\| `version` \|", "| `new.command X` | |\n| `version` |"):
            self.prove("a command that no runner has is caught", [real], "README.md is used", LISTS)
        with self.changed("scenarios/apart/session.txt", r"^session\.string .*", "version"):
            self.prove("a command that no scenario uses is caught", [real], "README.md is used")

    def wrong_matrix(self):
        """The second runner saves or loads other bytes; only its pairs with the first fail."""
        real = self.real.command
        other = self.edited(r"^memory rows 24 1$", "memory rows 24 2")
        self.prove("a runner that saves and loads other bytes is caught by the others", [real, other],
                   "r0 saves, r1 loads", "r1 saves, r0 loads")


def run(folder, real, work):
    import run as suite
    proofs = Proofs(suite, Path(folder), real, work)
    proofs.wrong_runners()
    proofs.blind_runners()
    proofs.wrong_scenarios()
    proofs.wrong_matrix()
    print(f"{proofs.passed} passed, {proofs.failed} failed")
    return proofs.failed == 0
