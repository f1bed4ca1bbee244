#!/usr/bin/env python3
"""copy_pages.py FOLDER PAGE…: copies pages of this tree there, as they lie in it. A link to what stays behind becomes
its text. For Python's package index (bindings/python/pyproject.toml) every other page stays behind."""
import re
import sys
from pathlib import Path

LINK = re.compile(r"\[[^\]\n]*\]\(([^()\s]+)\)")


def prose(text):
    """The text without code, line by line as it was."""
    text = re.sub(r"^```.*?^```", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S | re.M)
    return re.sub(r"`[^`\n]+`(?!\]|[^\[\n]*\]\()", lambda m: " " * len(m.group()), text)


def copied(page, pages):
    text = page.read_text()
    for link in reversed(list(LINK.finditer(prose(text)))):
        target = link[1].partition("#")[0]
        if target and ":" not in target and (page.parent / target).resolve() not in pages:
            text = text[:link.start()] + text[link.start() + 1:link.start(1) - 2] + text[link.end():]
    return text


def dynamic_metadata(settings, project):
    return {"readme": {"content-type": "text/markdown", "text": copied(Path("README.md"), ())}}


if __name__ == "__main__":
    pages = [Path(page) for page in sys.argv[2:]]
    there = {page.resolve() for page in pages}
    for page in pages:
        to = Path(sys.argv[1], page)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(copied(page, there))
