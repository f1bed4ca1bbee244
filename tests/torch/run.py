#!/usr/bin/env python3
"""ckpt against torch: files that two Python torches wrote, real ones, hostile ones, and what ckpt writes for them.

    run.py [options] LIBRARY TOOL WORK PYTHON…     e.g. build/release/libckpt.so build/release/ckpt build/torch-tests
                                                        /usr/bin/python3 build/torch-2.15/bin/python3
    --cache DIR      where chgnet's wheel is kept, so that it is fetched once (default: WORK/../cache)
    --only STEP      prepare, or a test of those below; "prepare" comes before all but hostile

Each PYTHON can `import torch` and numpy, older torch first; this script itself and the tests need neither. WORK is
emptied by "prepare". Tests: read, hfai, chgnet, export, hostile, dcp (from torch 2.6 on). The last line is "N passed,
N failed". Under a library with AddressSanitizer its runtime is loaded before Python.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time

import chgnet_files

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = ("hostile", "read", "hfai", "chgnet", "export", "dcp")


def sanitizer_of(library):
    """The runtime that `library` wants to find in the process, if it has one."""
    needed = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\S*/lib(?:clang_rt\.)?asan\S*) \(", needed)
    return found.group(1) if found else None


def environment(arguments):
    values = dict(
    os.environ, CKPT_LIBRARY=os.path.abspath(
        arguments.library), CKPT_TOOL=os.path.abspath(
            arguments.tool))
    runtime = sanitizer_of(arguments.library)
    if runtime:
        # Python keeps memory until its end, which is no leak of ours; allocators return null as everywhere.
        values.update(LD_PRELOAD=runtime, ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1",
                      UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")
    return values


def works_of(arguments):
    return [os.path.join(os.path.abspath(arguments.work), version_of(python)) for python in arguments.python]


def version_of(python):
    """"1.13" of an interpreter, without the seconds that importing torch takes."""
    code = "from importlib import util; s = util.find_spec('torch').origin; print(open(s[:-11] + 'version.py').read())"
    said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    return re.search(r"__version__ = '(\d+\.\d+)", said).group(1)


def together(commands, **settings):
    """Runs them at once; ends the program where one fails."""
    running = [subprocess.Popen(command, **settings) for command in commands]
    if any([process.wait() for process in running]):
        sys.exit("a step of the preparation failed: see above")


def prepare(arguments):
    shutil.rmtree(arguments.work, ignore_errors=True)
    works, side = works_of(arguments), os.path.join(HERE, "torch_side.py")
    for work in works:
        chgnet_files.fetch(arguments.cache or os.path.join(arguments.work, "..", "cache"), os.path.join(work, "chgnet"))
    together([[python, side, "write", work] for python, work in zip(arguments.python, works)])
    exports = os.path.join(os.path.abspath(arguments.work), "exports")
    together([[sys.executable, os.path.join(HERE, "exports.py"), exports, *works]], env=environment(arguments))
    together([[python, side, "check", work, exports, *works[:i]]
              for i, (python, work) in enumerate(zip(arguments.python, works))])


def commands(arguments):
    works = works_of(arguments)
    exports = os.path.join(os.path.abspath(arguments.work), "exports")
    distributed = [python for python in arguments.python
                   if tuple(int(part) for part in version_of(python).split(".")) >= (2, 6)]
    return {"hostile": [], "read": works, "hfai": works, "chgnet": works, "export": [exports, *works],
            "dcp": [os.path.join(os.path.abspath(arguments.work), "dcp"), *distributed]}


def run_test(name, words, arguments):
    """(passed, failed): claims, each of them over many files."""
    done = subprocess.run([sys.executable, os.path.join(HERE, f"{name}_test.py"), *words, "-v"],
                          env=environment(arguments),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout, end="")
    ran, bad = re.search(r"^Ran (\d+) tests?", done.stdout,
                         re.M), set(re.findall(r"^(?:FAIL|ERROR): (\S+)", done.stdout, re.M))
    if not ran or (done.returncode != 0 and not bad) or re.search(r"skipped=", done.stdout):
        return 0, 1
    return int(ran.group(1)) - len(bad), len(bad)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--cache")
    parser.add_argument("--only", choices=("prepare",) + TESTS)
    for name in ("library", "tool", "work"):
        parser.add_argument(name)
    parser.add_argument("python", nargs="+")
    arguments = parser.parse_args()
    passed = failed = 0
    if arguments.only in (None, "prepare"):
        started = time.monotonic()
        prepare(arguments)
        print(f"prepared in {time.monotonic() - started:.0f} s", flush=True)
    for name in TESTS:
        if arguments.only in (None, name):
            good, bad = run_test(name, commands(arguments)[name], arguments)
            passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
