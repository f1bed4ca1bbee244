#!/usr/bin/env python3
"""Prints what failed in a ctest report to stdout, and "passed failed" to descriptor 3.

A test that was skipped, disabled or not run counts as failed.
"""
import os
import sys
import xml.etree.ElementTree as xml

SHOWN_LINES = 40


def main():
    cases = list(xml.parse(sys.argv[1]).getroot().iter("testcase"))
    bad = [case for case in cases if case.get("status") != "run"]
    for case in bad:
        print(f"   FAILED {case.get('name')} ({case.get('status')})")
        output = (case.findtext("system-out") or "").strip().splitlines()
        print("\n".join("      " + line for line in output[-SHOWN_LINES:]))
    os.write(3, f"{len(cases) - len(bad)} {len(bad)}\n".encode())


if __name__ == "__main__":
    main()
