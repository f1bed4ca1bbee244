#!/usr/bin/env python3
"""Lays out what the site is made of: the pages that git knows, as they are, and the references.

  stage.py FOLDER CKPT      CKPT: the tool; go and cargo are found on the PATH

A link to a source becomes one to its reference, or to a page that shows it; a picture becomes part of its page, so that
it is dark where the page is.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "docs/site")]
import pages  # noqa: E402
import reference  # noqa: E402

REFERENCES = {
    "bindings/python/src/ckpt/__init__.py": "reference/python.md", "bindings/go/doc.go": "reference/go.md",
    "bindings/julia/src/Ckpt.jl": "reference/julia.md", "bindings/rust/ckpt/src/lib.rs": "reference/rust/ckpt/index.html",
    "src/cli/command_line.cpp": "reference/tool.md", "src/base/options.def": "reference/options.md",
    **{f"include/{header}": f"reference/c/{header}.md" for header in reference.HEADERS},
}
LANGUAGES = {".h": "c", ".c": "c", ".hpp": "cpp", ".cpp": "cpp", ".py": "python", ".go": "go", ".fbs": "c"}


def source_page(path):
    """A page with one file, for links that lead to it; of a folder, its main file."""
    file = path / "main.go" if path.is_dir() else path
    name = str(file.relative_to(REPOSITORY))
    return name + ".md", f"# {name}\n\n````{LANGUAGES[file.suffix]}\n{file.read_text()}````\n"


def picture(match, page):
    svg = (page.parent / match[2]).read_text()
    return f'<figure class="picture" aria-label="{match[1]}">{" ".join(svg.split())}</figure>'


def staged(page, extra):
    """The text of a page; adds to `extra` the pages of sources that it links to."""
    def link(match):
        target, _, anchor = match[1].partition("#")
        path = (page.parent / target).resolve()
        if not target or re.match(r"[a-z]+:", target) or not path.exists() or path.suffix in (".md", ".svg"):
            return match[0]
        name = REFERENCES.get(str(path.relative_to(REPOSITORY)))
        if name is None and (path / "README.md").exists():
            name = str((path / "README.md").relative_to(REPOSITORY))
        if name is None:
            name, text = source_page(path)
            extra[name] = text
        return match[0].replace(match[1], os.path.relpath(REPOSITORY / name, page.parent))

    text = pages.LINK.sub(link, page.read_text())
    text = re.sub(r"^!\[([^\]]*)\]\((pictures/[\w-]+\.svg)\)$", lambda match: picture(match, page), text, flags=re.M)
    return text.replace("```rust,ignore", "```rust")


def main(folder, tool):
    listed = subprocess.run(["git", "ls-files", "-z", "*.md", "bench/*.svg"], cwd=REPOSITORY, check=True,
                            capture_output=True, text=True).stdout.split("\0")
    extra = {}
    files = {name: staged(REPOSITORY / name, extra) if name.endswith(".md") else (REPOSITORY / name).read_text()
             for name in listed if name}
    files |= extra | reference.all_of(REPOSITORY, tool)
    for name, text in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
