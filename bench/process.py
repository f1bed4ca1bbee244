"""One measurement: a fresh process for each rank. It gets ready, prints READY, waits for GO, prints RESULT lines."""

import json
import subprocess
import tempfile
import threading

import host

TIMEOUT = 900
SUMMED = ("cpu_s", "peak_above_base", "read_bytes")


class Failed(Exception):
    pass


class Process:
    def __init__(self, argv):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        self.killer = threading.Timer(TIMEOUT, self.process.kill)
        self.killer.start()

    def wait_ready(self):
        for line in self.process.stdout:
            if line.startswith("READY"):
                return
        self.end()
        raise Failed("it ended before it was ready")

    def go(self):
        try:
            self.process.stdin.write("GO\n")
            self.process.stdin.flush()
        except OSError:
            self.end()

    def results(self):
        lines = [json.loads(line[7:]) for line in self.process.stdout if line.startswith("RESULT ")]
        self.end()
        if not lines:
            raise Failed("it printed no result")
        return {line.pop("row", ""): line for line in lines}

    def end(self):
        """Waits for the process; raises if it failed."""
        with self.process:
            code = self.process.wait()
        self.killer.cancel()
        error = self.last_error()
        self.errors.close()
        if code != 0:
            raise Failed(error or f"exit status {code}")

    def last_error(self):
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors.read().splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.killer.cancel()


def combine(results):
    """One sample from several ranks: the slowest time; the sums of memory and CPU."""
    rows = {}
    for row in results[0]:
        samples = [result[row] for result in results if row in result]
        rows[row] = dict(samples[0])
        for key in ("t_total", "t_return"):
            rows[row][key] = max(sample[key] for sample in samples)
        for key in SUMMED:
            rows[row][key] = sum(sample.get(key, 0) for sample in samples)
    return rows


def run(commands, need, cold):
    """Runs one measurement (a command for each rank); {row: sample}. `need`: bytes of free memory it will use."""
    processes = []
    try:
        processes = [Process(argv) for argv in commands]
        for process in processes:
            process.wait_ready()
        host.sync()
        if cold:
            host.drop_caches()
        host.touch_memory(need)
        for process in processes:
            process.go()
        return combine([process.results() for process in processes])
    finally:
        for process in processes:
            if process.process.poll() is None:
                process.kill()


def run_plain(argv):
    """Runs a command that does not use the protocol, to prepare files."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Failed(f"{argv[0]} {argv[1]}: {done.stdout.strip()[-300:]}")
