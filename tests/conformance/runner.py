"""The runners that RUNNERS_JSON names: {"c": ["/path/conformance_c"], "go": ["env", "GODEBUG=…", "/path/runner"]}."""
import json
import os
import subprocess
from pathlib import Path

import tokens


class Runner:
    timeout_s = 600

    def __init__(self, name, command):
        self.name, self.command = name, command

    def run(self, *arguments, **environment):
        """(exit status, stdout, stderr); if the runner hangs or cannot be started, the exit status is -1."""
        try:
            done = subprocess.run([*self.command, *map(str, arguments)], env={**os.environ, **environment},
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                                  timeout=self.timeout_s, check=False)
            return done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            return -1, "", f"still running after {self.timeout_s} s"
        except OSError as error:
            return -1, "", str(error)

    def run_text(self, text, name, folder, **environment):
        """(exit status, stdout, stderr, number of commands) of a scenario. The tokens are in a file beside `folder`."""
        made, count = tokens.tokenised(text, name, folder)
        file = Path(f"{folder}.tokens")
        file.write_bytes(made)
        done = self.run(file, **environment)
        file.unlink()
        return *done, count

    def problem(self, path, folder, text=None, **environment):
        """None if the runner carried out every command and reports success; else what went wrong."""
        try:
            status, out, err, count = self.run_text(text or tokens.read_scenario(path), path, folder, **environment)
        except tokens.Mistake as mistake:
            return str(mistake)
        said = out.strip().splitlines()[-1] if out.strip() else ""
        if status == 0 and said == f"ok {count}" and not err.strip():
            return None
        return err.strip() or f"exit status {status}; expected 'ok {count}' on stdout, found '{said}'"


def load_runners(path, kind=Runner):
    return [kind(name, command) for name, command in json.loads(Path(path).read_text(encoding="utf-8")).items()]
