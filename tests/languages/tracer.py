#!/usr/bin/env python3
"""Records which functions of ckpt a program in any language calls, and which handles it leaves alive.

  tracer.py make HEADER_FOLDER FOLDER     writes FOLDER/trace.c and builds FOLDER/libckpt_trace.so from it
  tracer.py self-test HEADER_FOLDER PREFIX WORK

With LD_PRELOAD=libckpt_trace.so and CKPT_TRACE=FILE a program calls a wrapper of each function. FILE holds the counts
and is mapped, so that they are right however the program ends (a Go program does not run C's destructors).
"""
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.append(str(REPOSITORY / "cmake"))
from api import of_sources  # noqa: E402

SAVES = ("ckpt_save_run", "ckpt_save_start", "ckpt_save_start_in_place")


class Function:
    """One prototype. `made`: its outputs that are owned handles, as (handle, argument)."""

    def __init__(self, returns, name, parameters):
        self.returns, self.name, self.parameters = returns.strip(), name, parameters
        pieces = [p.strip() for p in parameters.split(",") if p.strip()]
        self.arguments = [re.search(r"(\w+)(\[\w*\])?$", p).group(1) for p in pieces]
        outputs = [(re.fullmatch(r"ckpt_(\w+) ?\*\* ?(\w+)", p), p) for p in pieces]
        self.made = [(found.group(1), found.group(2)) for found, _ in outputs if found]
        if allocated := re.fullmatch(r"ckpt_(\w+)_alloc", name):
            self.made.append((allocated.group(1), "out"))
        freed = re.fullmatch(r"ckpt_(\w+)_free", name)
        self.freed = freed.group(1) if freed else None


def functions(folder):
    """All functions of the public headers in FOLDER, which are installed or those of the sources, in their order."""
    installed = Path(folder).parent / "share/ckpt/api.json"
    api = json.loads(installed.read_text()) if installed.exists() else of_sources(REPOSITORY)
    return [Function(one["returns"], one["name"], ", ".join(f"{a['type']} {a['name']}" for a in one["arguments"]))
            for one in api["functions"]]


def kinds(all_functions):
    return [f.freed for f in all_functions if f.freed]


PRELUDE = r"""// Made by tracer.py; see there.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "ckpt_file.h"
#include "ckpt_keeper.h"
#include "interpose.h"

// The file: for each function the number of calls; then for each kind of handle the number alive, and the number freed
// that were never made (or freed twice). All are 64-bit. Several processes may share the file and the lock below is of
// one process, so counting is atomic.
typedef struct { uint64_t called[FUNCTIONS]; int64_t alive[KINDS], strange[KINDS]; } Counts;
static Counts nowhere, *counts = &nowhere;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
enum { SLOTS = 1 << 20 };
static void *live[SLOTS];

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CKPT_TRACE");
  if (!path) return;
  const int file = open(path, O_RDWR | O_CREAT, 0644);
  if (file < 0 || ftruncate(file, sizeof(Counts))) abort();
  void *mapped = mmap(NULL, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) abort();
  counts = mapped;
}

// A hash set of pointers; one that was removed leaves TOMB, so that those behind it are found.
#define TOMB ((void *)1)
static size_t slot_of(void *p) { return ((uintptr_t)p >> 4) * 0x9E3779B97F4A7C15u >> 44; }
// An import is a save: what libckpt_files calls is none of the program's calls, and its handles are its own.
static int by_files(void *caller) {
  Dl_info from;
  return dladdr(caller, &from) && from.dli_fname && strstr(from.dli_fname, "libckpt_files");
}
// Nor is what the library calls of its own.
static void called(int function, void *real, void *caller) {
  Dl_info library, from;
  if (dladdr(real, &library) && dladdr(caller, &from) && library.dli_fbase == from.dli_fbase) return;
  __atomic_add_fetch(&counts->called[function], 1, __ATOMIC_RELAXED);
}
// Of a call that calls another (ckpt_save_add_tensors), both make the same error: it counts once.
static void made(int kind, void *handle) {
  if (!handle) return;
  pthread_mutex_lock(&lock);
  size_t at = slot_of(handle), looked = 0, place = SIZE_MAX;
  for (; live[at % SLOTS] && live[at % SLOTS] != handle && looked++ < SLOTS; at++)
    if (place == SIZE_MAX && live[at % SLOTS] == TOMB) place = at;
  if (live[at % SLOTS] != handle) {
    live[(place == SIZE_MAX ? at : place) % SLOTS] = handle;
    __atomic_add_fetch(&counts->alive[kind], 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&lock);
}
static void freed(int kind, void *handle) {
  if (!handle) return;
  pthread_mutex_lock(&lock);
  size_t at = slot_of(handle), looked = 0;
  while (live[at % SLOTS] && live[at % SLOTS] != handle && looked++ < SLOTS) at++;
  if (live[at % SLOTS] == handle) {
    live[at % SLOTS] = TOMB;
    __atomic_sub_fetch(&counts->alive[kind], 1, __ATOMIC_RELAXED);
  } else {
    __atomic_add_fetch(&counts->strange[kind], 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&lock);
}
"""


def wrapper(index, function, kind_of):
    """The C text of one wrapper. It counts what the call makes if it succeeds, and its error if it fails."""
    arguments = ", ".join(function.arguments)
    lines = [f"{function.returns} {function.name}({function.parameters}) {{",
             f"  static __typeof__(&{function.name}) real;",
             f'  if (!real) real = (__typeof__(real))next("{function.name}");',
             "  if (by_files(__builtin_return_address(0))) " +
             (f"{{ real({arguments}); return; }}" if function.returns == "void" else f"return real({arguments});"),
             f"  called({index}, (void *)real, __builtin_return_address(0));"]
    if function.freed:
        handle = arguments.split(",")[0]
        lines += [f"  freed({kind_of[function.freed]}, {handle});", f"  real({arguments});"]
    elif function.returns == "void":
        lines += [f"  real({arguments});"]
    else:
        lines += [f"  {function.returns} result = real({arguments});"]
        for kind, argument in function.made:
            good = "result != CKPT_OK" if kind == "error" else "result == CKPT_OK"
            lines += [f"  if ({good} && {argument}) made({kind_of[kind]}, *{argument});"]
        lines += ["  return result;"]
    return "\n".join(lines + ["}"])


def make(header_folder, folder):
    """Builds the library; returns its path."""
    all_functions, folder = functions(header_folder), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    kind_of = {kind: i for i, kind in enumerate(kinds(all_functions))}
    body = [wrapper(i, f, kind_of) for i, f in enumerate(all_functions)]
    sizes = f"#define FUNCTIONS {len(all_functions)}\n#define KINDS {len(kind_of)}\n"
    (folder / "trace.c").write_text(sizes + PRELUDE + "\n".join(body) + "\n")
    library = folder / "libckpt_trace.so"
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
                    f"-I{header_folder}", f"-I{Path(__file__).resolve().parent}", str(folder / "trace.c"),
                    "-o", str(library), "-ldl", "-pthread"], check=True)
    return library


class Counts:
    """What is in a trace file: calls by function, alive and strange by kind of handle."""

    def __init__(self, header_folder, path):
        all_functions = functions(header_folder)
        names, handles = [f.name for f in all_functions], kinds(all_functions)
        data = Path(path).read_bytes() if Path(path).exists() else b""
        words = len(names) + 2 * len(handles)
        values = struct.unpack(f"<{words}q", data) if data else (0,) * words
        self.calls = dict(zip(names, values))
        self.alive = dict(zip(handles, values[len(names):]))
        self.strange = dict(zip(handles, values[len(names) + len(handles):]))

    def left(self):
        """kind -> number of handles alive, and "freed KIND" -> number of freed handles that were never made."""
        both = {**self.alive, **{f"freed {kind}": n for kind, n in self.strange.items()}}
        return {what: n for what, n in both.items() if n}


LEAKY = r"""#include <ckpt.h>
int main(int argc, char **argv) {
  ckpt_error *err = NULL;
  ckpt_options *options;
  ckpt_options_new(&options, &err);
  ckpt_options_set_int(options, "no such", 1, &err);
  if (argc > 1 && *argv[1] == 'e') { ckpt_options_free(options); return 0; }
  ckpt_error_free(err);
  if (argc > 1 && *argv[1] == 'o') _Exit(0);
  ckpt_options_free(options);
}
"""


def self_test(header_folder, prefix, work):
    """A program that leaves an error, one that leaves options, one that leaves nothing; their calls are counted."""
    work = Path(work)
    library = make(header_folder, work)
    (work / "leaky.c").write_text("#include <stdlib.h>\n" + LEAKY)
    subprocess.run(["cc", str(work / "leaky.c"), f"-I{prefix}/include", f"-L{prefix}/lib", "-lckpt",
                    f"-Wl,-rpath,{prefix}/lib", "-o", str(work / "leaky")], check=True)
    assert {f.name for f in functions(header_folder)} >= {"ckpt_store_open", "ckpt_tree_new", "ckpt_file_open"}
    for argument, expected in (("error", {"error": 1}), ("options", {"options": 1}), ("none", {})):
        file = work / f"counts-{argument}"
        file.unlink(missing_ok=True)
        environment = dict(os.environ, LD_PRELOAD=str(library), CKPT_TRACE=str(file))
        subprocess.run([str(work / "leaky"), argument], check=True, env=environment)
        counts = Counts(header_folder, file)
        assert counts.left() == expected, (argument, counts.left())
        assert counts.calls["ckpt_options_new"] == 1 and counts.calls["ckpt_store_open"] == 0
    print("the trace sees what is called and what is left")


if __name__ == "__main__":
    command, *rest = sys.argv[1:] or ["help"]
    if command == "make" and len(rest) == 2:
        print(make(*rest))
    elif command == "self-test" and len(rest) == 3:
        self_test(*rest)
    else:
        sys.exit(__doc__)
