#!/usr/bin/env python3
"""What a compiler must refuse of ckpt.hpp's users, each for the reason that is named. memory_test.cpp asks about what
has no overload at all, such as pointers for elements.

  refused.py        environment: CXX
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILE = [os.environ.get("CXX", "c++"), "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++",
           f"-I{ROOT}/bindings/cpp", f"-I{ROOT}/include", "-"]

PROGRAM = """
%s
#include <ckpt.hpp>
std::vector<float> made();
void use(ckpt::Save& save, ckpt::Load& load, const ckpt::Tensor& tensor, std::vector<float>& w) {
  (void)save, (void)load, (void)tensor, (void)w;
  %s
}
"""
RETURNED = "#define CKPT_HPP_EXPECTED"

# Of each: what it shows, what comes before the include, a statement, what the compiler says; None: it compiles.
CASES = [
    ("the others are refused for what they say", "", 'save.add_tensor("w", tensor, w); load.add_tensor("w", tensor, w);'
     ' save.add_tensor("w", tensor, {w.data(), 4}); save.add_tensor("w", {4}, w);'
     ' ckpt::Job job = save.start(); save.start();', None),
    ("a job in place that is dropped", "", "save.start_in_place();", "nodiscard"),
    ("a load's job that is dropped", "", "load.start();", "nodiscard"),
    ("an error of a start that is dropped", RETURNED, "save.start();", "nodiscard"),
    ("an error that is dropped", RETURNED, "save.run();", "nodiscard"),
    ("a temporary container to save", "", 'save.add_tensor("w", tensor, made());', "deleted"),
    ("a temporary container to save, by its shape", "", 'save.add_tensor("w", {4}, made());', "deleted"),
    ("the tensors of a temporary reader", "", 'for (auto info : ckpt::Reader(nullptr).tensors()) (void)info;',
     "deleted"),
    ("a container that is moved from", "", 'save.add_tensor("w", tensor, std::move(w));', "deleted"),
]


def wrong(head, statement, reason):
    """What is wrong with the compiler's answer; nothing: None."""
    done = subprocess.run(COMPILE, input=PROGRAM % (head, statement), capture_output=True, text=True)
    if reason is None:
        return done.stderr if done.returncode else None
    if not done.returncode:
        return "it compiles"
    if any(reason in line for line in done.stderr.splitlines() if "error:" in line):
        return None
    return f"expected an error about '{reason}', found\n{done.stderr}"


def main():
    failed = 0
    for name, head, statement, reason in CASES:
        found = wrong(head, statement, reason)
        print(f"{'FAILED' if found else 'ok'}: {name}" + (f": {found}" if found else ""))
        failed += bool(found)
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
