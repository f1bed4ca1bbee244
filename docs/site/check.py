#!/usr/bin/env python3
"""Checks a built site: each link of a page leads to a file of it and, after #, to a place there; an address of another
site has a form that a browser takes; and no page fetches anything from elsewhere.

  check.py SITE
  check.py --self-test   proves that each of these is found

Pages that rustdoc made are left to rustdoc; that they exist where links lead is checked.
"""
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHES = {"script", "img", "source", "iframe", "video", "audio"}


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.places, self.links = set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.places |= {found.get("id"), found.get("name") if tag == "a" else None} - {None}
        target = found.get("href", found.get("src"))
        if target is not None:
            fetched = tag in FETCHES or tag == "link" and found.get("rel") not in ("canonical", "prev", "next", "edit")
            self.links.append((target, fetched))


def problems(site):
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if "reference/rust" not in str(path)}
    for path, page in pages.items():
        for target, fetched in page.links:
            what = problem(path, target, fetched, pages)
            if what:
                yield f"{path.relative_to(site)}: {target}: {what}"


def problem(path, target, fetched, pages):
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        if fetched:
            return "is fetched from elsewhere"
        return None if parts.scheme in ("https", "mailto") and "." in parts.netloc + parts.path else "is no address"
    other = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not other.is_file():
        return "leads nowhere"
    if parts.fragment and other in pages and unquote(parts.fragment) not in pages[other].places:
        return "has no such place"
    return None


CASES = {  # what is found: the text of a page
    "": '<a href="b.html#x">b</a><a href="https://a.org/x">c</a><h1 id="y"><a href="#y"></a><img src="p.png">',
    "leads nowhere": '<a href="c.html">', "has no such place": '<a href="b.html#z">',
    "is fetched from elsewhere": '<link rel="stylesheet" href="https://fonts.org/a.css">', "is no address": '<a href="http:x">',
}


def self_test():
    for expected, text in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder).resolve()
            (site / "a.html").write_text(text)
            (site / "b.html").write_text('<p id="x">')
            (site / "p.png").touch()
            found = list(problems(site))
            if len(found) != bool(expected) or not all(one.endswith(expected) for one in found):
                yield f"expected '{expected}', found {found}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    wrong = list(self_test() if sys.argv[1] == "--self-test" else problems(Path(sys.argv[1]).resolve()))
    print("\n".join(wrong) or "nothing found")
    sys.exit(bool(wrong))
