#!/usr/bin/env python3
"""Each block of Python and C on the site's pages runs: whole programs in readme_test.py, fragments here, in a frame
that makes what the page takes for granted. A block without a frame is a failure, and so is a frame without its block.

  fragments_test.py PREFIX WORK      by a Python that has ckpt, torch and jax

What does not run here: Julia (no registry has it; tests/julia parses its blocks, .github/workflows runs its package).
Fragments of C++, LibTorch, Go, Rust and RecIS are not compiled: only the first program of each README is.
"""
import functools
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from claims import Claims, run

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "cmake"))
import api  # noqa: E402
import frames  # noqa: E402

PLACES = re.compile(r"(?:/data|/nvme|s3://bucket|s3://backup)/\w+")


def blocks(language):
    """page#number -> text, of all pages that the site has."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=REPOSITORY, check=True, capture_output=True, text=True)
    found = {}
    for page in listed.stdout.split():
        texts = re.findall(rf"^```{language}\n(.*?)^```", (REPOSITORY / page).read_text(), re.M | re.S)
        found |= {f"{page}#{number}": text for number, text in enumerate(texts, 1)}
    return found


class Names(dict):
    """The names of a fragment. One that another rank makes is waited for."""

    def __missing__(self, name):
        if name != "from_rank_0":
            raise KeyError(name)
        for _ in range(3000):
            if "session" in self["rank_0"]:
                return self["rank_0"]["session"].string
            time.sleep(0.01)
        raise KeyError("rank 0 has no session")


def run_python(text, before, after, work):
    """A page's addresses become folders below `work`. A frame that sets `ranks` lets so many threads run it."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    os.chdir(work)  # some write there
    text = PLACES.sub(lambda place: str(work / re.sub(r"\W+", "-", place[0].strip("/"))), text)
    text = text.replace("sftp://host", f"file://{work}")
    made = {"work": work}
    exec(frames.COMMON + before, made)  # noqa: S102
    all_names = [Names(made) for _ in range(made.get("ranks", 1))]
    failures = []

    def one(rank, names):
        names.update(rank=rank, rank_0=all_names[0])
        try:
            exec(compile(text, "the fragment", "exec"), names)  # noqa: S102
        except Exception as error:
            failures.append(f"rank {rank}: {type(error).__name__}: {error}")

    others = [threading.Thread(target=one, args=item) for item in list(enumerate(all_names))[1:]]
    for thread in others:
        thread.start()
    one(0, all_names[0])
    for thread in others:
        thread.join()
    assert not failures, failures
    exec(after, all_names[0])  # noqa: S102


def run_c(prefix, text, before, after, work):
    """Every call must return CKPT_OK, unless the fragment itself looks at a status."""
    work.mkdir(parents=True, exist_ok=True)
    failing = "ckpt_status" in text.split()
    calls = {item["name"] for item in api.of_sources(REPOSITORY)["functions"] if item["returns"] == "ckpt_status"}
    must = "".join(f"#define {name}(...) must({name}(__VA_ARGS__), #__VA_ARGS__)\n"
                   for name in sorted(set(re.findall(r"\w+(?=\()", text)) & calls) if not failing)
    program = f"{frames.C_COMMON}{must}int main(void) {{\n{frames.C_MADE}{before}\n{text}\n{after}\nreturn 0;\n}}\n"
    (work / "main.c").write_text(program)
    flags = run(["pkg-config", "--cflags", "--libs", "ckpt"],
                env={**os.environ, "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"}).split()
    run(["cc", "-std=c11", "-Werror=incompatible-pointer-types", "-Werror=implicit-function-declaration", "main.c",
         *flags, "-o", "main"], cwd=work)
    if before != frames.NO_GPU:
        run(["./main"], cwd=work, env={**os.environ, "LD_LIBRARY_PATH": f"{prefix}/lib"})


def check_all(claims, language, framed, runs, work):
    found = blocks(language)
    left = sorted(set(found) ^ (set(framed) | frames.WHOLE & set(found)))
    claims.claim(f"{language}: each block has a frame, or is a program of readme_test.py", "\n".join(left) or None)
    for name in sorted(set(found) & set(framed)):
        claims.check(f"{name} ({language})", runs, found[name], *framed[name],
                     work / language / re.sub(r"\W+", "-", name))


def main(prefix, work):
    claims = Claims()
    prefix, work = Path(prefix).resolve(), Path(work).resolve()
    check_all(claims, "c", frames.C, functools.partial(run_c, prefix), work)
    check_all(claims, "python", frames.PYTHON, run_python, work)
    return claims.end()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
