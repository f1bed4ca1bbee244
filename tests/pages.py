#!/usr/bin/env python3
"""The rules of documents that a machine can check, over all pages (*.md) that git knows.

  links    a relative link names a file that exists and, after #, a heading of that page
  length   a page has at most the words that LIMITS gives it: a reader can finish it

  pages.py [FOLDER]      checks a tree
  pages.py --self-test   proves that each rule catches what it forbids
"""
import os
import re
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cmake"))
from copy_pages import LINK, prose

# The first pattern that fits counts. tools/weight shows and checks the same limits.
LIMITS = [
    ("README.md", 900),                      # the front page: two minutes
    ("bindings/*/README.md", 1500),          # the front page of a language
    ("schemas/*", 6400),                     # specifications
    ("tests/conformance/commands.md", 2000),  # a table that a program reads
    ("bench/RESULTS.md", 3000),              # measurements, which tools/bench writes
    ("bench/*", 1500),
    ("docs/formats.md", 1500),               # a table of layouts, and what the demos print
    ("docs/demo.md", 1500),
    ("*", 1200),
]
UNSEEN = {".git", "build", "target", "venv", "__pycache__", "node_modules", "corpus", "fixtures"}


def pages(root):
    for folder, below, files in os.walk(root):
        below[:] = sorted(name for name in below if name not in UNSEEN)
        yield from (Path(folder, file) for file in sorted(files) if file.endswith(".md"))


def limit_of(page):
    """`page`: its path from the root."""
    return next(words for pattern, words in LIMITS if fnmatch(page, pattern))


def too_long(words_by_page):
    return [f"{page}: {words} words, at most {limit_of(page)}" for page, words in sorted(words_by_page.items())
            if words > limit_of(page)]


def anchors(text):
    """The names that GitHub gives to headings."""
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), flags=re.M):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return found


def check_links(page, text):
    for number, line in enumerate(prose(text).splitlines(), 1):
        for target in LINK.findall(line):
            name, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", name):
                continue
            other = page.parent / name if name else page
            if not other.exists():
                yield number, f"links to {target}, which does not exist"
            elif anchor and anchor not in anchors(other.read_text() if name else text):
                yield number, f"links to {target}, which has no such heading"


def check_tree(root):
    problems, words = [], {}
    for path in pages(root):
        name, text = str(path.relative_to(root)), path.read_text()
        words[name] = len(text.split())
        problems += [f"{name}:{number}: {what}" for number, what in check_links(path, text)]
    return problems + too_long(words), len(words)


CASES = {  # what is expected: pages
    "": {"README.md": "[a](docs/a.md#two-words-more) `[x](y.md)` [web](https://host/x.md) [`b`](docs/a.md)\n",
         "docs/a.md": "## Two words, more\n```\n[c](nowhere.md)\n```\n[above](#two-words-more)\n"},
    "links to b.md, which does not exist": {"a.md": "[b](b.md)\n"},
    "links to c.md#d, which has no such heading": {"a.md": "see [`b`](c.md#d)\n", "c.md": "# D e\n```\n# d\n```\n"},
    "links to #d, which has no such heading": {"README.md": "# e\n[b](#d)\n"},
    "901 words": {"README.md": "word " * 901},
    "1201 words": {"src/plan/README.md": "word " * 1201},
}


def self_test():
    failures = []
    for expected, files in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            problems, _ = check_tree(Path(folder))
            if len(problems) != bool(expected) or not all(expected in problem for problem in problems):
                failures.append(f"expected '{expected}', found {problems}")
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        problems, count = self_test(), len(CASES)
    else:
        problems, count = check_tree(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).resolve().parents[1])
    print("\n".join(problems) or f"{count} checked, nothing found")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
