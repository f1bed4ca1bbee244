"""Runners, which RUNNERS_JSON names: {"c": ["/path/conformance_c"], "go": ["env", "GODEBUG=…", "/path/runner"]}.

A scenario is sent to a runner line by line, and each reply is compared with what the scenario expects.
"""
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import scenario
from scenario import unquoted

NAMES = {"kind", "key_kind", "scope", "state"}  # of constants: each language spells them in its own way
NAMED = {"reader.tensor", "reader.table", "reader.object"}  # what is found must have the name that was asked for


class Unexpected(Exception):
    """A reply, or a file, is not what the scenario expects."""


class Process:
    """A runner that carries out one scenario."""

    def __init__(self, command, timeout_s, environment):
        self.errors, self.ended = tempfile.TemporaryFile(), False
        try:
            self.process = subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=self.errors)
        except OSError as error:
            raise Unexpected(str(error)) from None
        self.timer = threading.Timer(timeout_s, self.process.kill)
        self.timer.start()

    def ask(self, request):
        """(seconds, status, fields) of the reply"""
        try:
            self.process.stdin.write(request.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:  # it has ended
            pass
        name, *reply = self.process.stdout.readline().decode("ascii", "replace").rstrip("\n").split(" ")
        if name != request.split(" ")[0] or len(reply) < 2:
            raise Unexpected(f"expected a reply, found '{name}'; {self.end()}")
        return float(reply[0]), reply[1], reply[2:]

    def end(self):
        """None if it frees all and ends well when there are no more lines, or if that was said before."""
        if self.ended:
            return None
        self.ended = True
        try:
            self.process.stdin.close()
        except OSError:  # it has ended
            pass
        rest, status = self.process.stdout.read().decode("utf-8", "replace"), self.process.wait()
        self.timer.cancel()
        self.process.stdout.close()
        self.errors.seek(0)
        said = (rest + self.errors.read().decode("utf-8", "replace")).strip()
        return f"exit status {status}: {said}" if status or said else None


def record(fields):
    """KEY=VALUE; in the languages whose names have capitals instead of _ the keys are spelled so."""
    pairs = [field.partition("=") for field in fields]
    return {key.replace("_", "").lower(): unquoted(value) for key, _, value in pairs}


def is_right(key, notation, sign, wanted, found):
    if found is None:
        return False
    if sign == ">":
        return int(found) >= int(wanted)
    if notation == "X":  # NaN is NaN, and 0 is not -0
        return repr(float(found)) == wanted
    return found == wanted or (key in NAMES and found.lower().replace("_", "-") == wanted.lower().replace("_", "-"))


# Commands of which the runner says no status.
DRIVEN = {"equal", "differ", "session.string", "flip", "truncate", "delete", "copy"}


class Conversation:
    """Carries out the lines of one scenario."""

    def __init__(self, process):
        self.process, self.timings = process, []

    def carry_out(self, line):
        own = getattr(self, "run_" + line.name.replace(".", "_"), None)
        if own:
            if line.status != "OK" and line.name in DRIVEN:
                raise Unexpected(f"{line.name} has no status, so expects none")
            return own(line)
        return self.check(line, line.request())

    def check(self, line, request):
        """Compares the reply with all that the line expects. Returns the fields of a call that was to succeed."""
        seconds, status, fields = self.process.ask(request)
        if line.timed:
            self.timings.append((line.name, seconds))
        if status != line.status:
            raise Unexpected(f"expected {line.status}, found {status}: {unquoted(' '.join(fields))}")
        found = record(fields)
        for key, sign, wanted in line.details:
            value = found.get(key.replace("_", ""), "")
            if not (value == wanted if sign == "=" else wanted in value):
                raise Unexpected(f"expected {key} {sign} '{wanted}', found '{value}'")
        if status != "OK":
            return None
        for key, (sign, wanted) in line.expected.items():
            value = found.get(key.replace("_", ""))
            if not is_right(key, line.command.keys[key], sign, wanted, value):
                raise Unexpected(f"expected {key}{sign.replace('>', '>=')}{wanted}, found {value}")
        if line.name in NAMED and found["name"] != line.words[1]:
            raise Unexpected(f"expected {line.words[1]}, found {found['name']}")
        if line.command.sent is not None:
            self.compare(line, line.words[line.command.sent:], list(map(unquoted, fields)))
        return found

    def compare(self, line, wanted, found):
        if line.name == "store.list":
            found = [word.removesuffix(":COMMITTED") for word in found if word.endswith(":COMMITTED")]
        if not (found == wanted or (line.name == "job.state" and found and set(found) <= set(wanted))):
            raise Unexpected(f"expected {wanted}, found {found}")

    # ---- commands of which a runner carries out a part, or nothing ----
    def run_version(self, line):
        found = self.check(line, line.request())
        number = int(found["number"])
        text = f"{number // 1000000}.{number // 1000 % 1000}.{number % 1000}"
        if found["text"] != text or number < int(found["header"]):
            raise Unexpected(f"expected a version that its number says, and no older than the header; found {found}")

    def run_constant(self, line, number, wanted, unknown):
        """`constants` are those of the binding that have the number; an unknown number has none."""
        found = self.check(line, line.request(words=[number]))
        known = wanted["name"] != unknown
        if found["constants"].upper().split() != [wanted["name"].upper()] * known or found | wanted != found:
            raise Unexpected(f"expected {wanted}, found {found}")

    def run_status(self, line):
        name, number = line.words
        self.run_constant(line, number, {"name": name}, "UNKNOWN")

    def run_dtype(self, line):
        name, number, bits = line.words
        found = number if name != "dtype" else "-1"
        self.run_constant(line, number, {"name": name, "bits": bits, "found": found}, "dtype")

    def run_equal(self, line, wanted="1"):
        seconds, status, fields = self.process.ask(line.request())
        self.timings.append((line.name, seconds))
        if (status, fields) != ("OK", [wanted]):
            raise Unexpected(f"expected OK {wanted}, found {status} {unquoted(' '.join(fields))}")

    def run_differ(self, line):
        self.run_equal(line, "0")

    def string_of(self, session):
        return unquoted(self.process.ask(f"session.string {scenario.quoted(session)}")[2][0])

    def run_session_string(self, line):
        aside = Path(line.words[1] + ".aside")
        aside.write_text(self.string_of(line.words[0]), encoding="utf-8")
        aside.rename(line.words[1])

    def run_session_open(self, line):
        keys, end = {}, time.monotonic() + 60
        if "string" in line.keys:
            keys["string"] = self.string_of(line.keys["string"])
        if "file" in line.keys:
            while not (path := Path(line.keys["file"])).exists():
                if time.monotonic() > end:
                    raise Unexpected(f"expected a file {path} within 60 s, found none")
                time.sleep(0.01)
            keys["string"] = path.read_text(encoding="utf-8")
        self.check(line, line.request(**keys))

    def run_flip(self, line):
        path, offset = line.words
        with open(path, "r+b") as file:
            at = file.seek(int(offset), os.SEEK_END if int(offset) < 0 else os.SEEK_SET)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1]))

    def run_truncate(self, line):
        os.truncate(line.words[0], int(line.words[1]))

    def run_delete(self, line):
        os.unlink(line.words[0])

    def run_copy(self, line):
        shutil.copyfile(*line.words)


class Runner:
    timeout_s = 600

    def __init__(self, name, command):
        self.name, self.command = name, command

    def carry_out(self, text, name, folder, **environment):
        """(None, or what went wrong, beginning with FILE:LINE if it is a line's; the seconds of the timed commands)"""
        try:
            lines = list(scenario.read_lines(text, name, folder))
            process = Process(self.command, self.timeout_s, environment)
        except (scenario.Mistake, Unexpected) as mistake:
            return str(mistake), []
        conversation, problem = Conversation(process), None
        try:
            for number, line in lines:
                try:
                    conversation.carry_out(line)
                except (Unexpected, OSError, LookupError, ValueError) as why:
                    problem = f"{name}:{number}: {line.name}: {why!r}" if isinstance(why, (LookupError, ValueError)) \
                        else f"{name}:{number}: {line.name}: {why}"
                    break
        finally:
            ended = process.end()
        return "\n".join(filter(None, (problem, ended))) or None, conversation.timings

    def problem(self, path, folder, text=None, **environment):
        """None if the runner carried out every command as the scenario says; else what went wrong."""
        return self.carry_out(text or scenario.read_scenario(path), path, folder, **environment)[0]


def load_runners(path, kind=Runner):
    return [kind(name, command) for name, command in json.loads(Path(path).read_text(encoding="utf-8")).items()]
