"""Claims that a script checks one by one. Each prints a line, and a reason if it failed; the last line counts them."""
import subprocess
import traceback


class Claims:
    def __init__(self):
        self.passed = self.failed = 0

    def claim(self, name, problem):
        """`problem`: None, or why the claim does not hold."""
        print(f"{name} ... {'ok' if problem is None else 'FAILED'}", flush=True)
        self.passed += problem is None
        self.failed += problem is not None
        print("".join(f"    {line}\n" for line in (problem or "").splitlines()), end="", flush=True)

    def check(self, name, function, *arguments):
        """Runs function(*arguments); an exception disproves the claim."""
        problem = None
        try:
            function(*arguments)
        except Exception as error:
            problem = str(error) if isinstance(error, AssertionError) and str(error) else traceback.format_exc()
        self.claim(name, problem)

    def end(self):
        """Prints the last line; returns the exit status."""
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0


def run(command, timeout=600, **more):
    """Runs a command and returns its output; if it fails, the output is the reason."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False, **more)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-6000:]}"
    return done.stdout
