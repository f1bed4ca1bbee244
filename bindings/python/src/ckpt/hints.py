"""What an error adds for people: the names that exist, and the one that was probably meant."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .enums import CheckpointState, Status
from .errors import Error, NotFoundError
from .looks import look

if TYPE_CHECKING:
    from ._core import Store

_SHOWN = 10
# As the library knows them; whatever it opens there, it opens as a store.
_AZURE = r"https://[^./]+\.blob\.core\.(windows\.net|usgovcloudapi\.net|chinacloudapi\.cn)/"
_BUCKET = re.compile(r"(s3|gs|az|abfss?)://[^/]+|" + _AZURE + r"[^/?]+(?=[^?]*$)")


def bucket_of(path: str) -> str:
    """What an address of an object store begins with, up to its bucket; else ""."""
    found = _BUCKET.match(path)
    return found.group() if found else ""


def near(name: str, names: Iterable[str]) -> str:
    """'; did you mean "x"?', or nothing if no name is near."""
    import difflib  # not before it is needed
    found = difflib.get_close_matches(name, [one for one in dict.fromkeys(names) if one != name], n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


def some(names: Iterable[str]) -> str:
    """The last few of the names, for a message."""
    all_names = list(names)
    shown = ", ".join(map(repr, all_names[-_SHOWN:]))
    return shown if len(all_names) <= _SHOWN else f"{shown} and {len(all_names) - _SHOWN} more"


def not_found(error: NotFoundError, store: Store, selector: str, options: Mapping[str, Any]) -> Error:
    """The error of a selector that names nothing, with what the store has."""
    run = str(options.get("run", "main"))
    if selector.startswith("name:"):
        return error  # which says what names there are
    try:
        message = error.message + _what_there_is(store, selector, run, options)
    except Error:
        return error  # the store cannot be listed: the first error is the one that matters
    return type(error)(Status.NOT_FOUND, message, error.details)


def _what_there_is(store: Store, selector: str, run: str, options: Mapping[str, Any]) -> str:
    if why := what_lies_at(store, options):
        return f"; {why}"
    every = store.list()
    committed = [info for info in every if info.state == CheckpointState.COMMITTED]
    labels = [info.label for info in committed if info.run == run]
    if labels:
        wanted = selector.removeprefix("label:")
        return f"; it has {some(labels)}{near(wanted, labels)}"
    runs = sorted({info.run for info in committed})
    if runs:
        only = f"; give run={runs[0]!r}" if len(runs) == 1 else near(run, runs)
        return f"; the store has no checkpoint of that run, but of {some(runs)}{only}"
    if every:
        return f"; what it has is not committed: {some(f'{info.id} ({info.state.name.lower()})' for info in every)}"
    return ""  # the error says that there is none


def shown(address: str) -> str:
    """An address without user, password, query and fragment, which are often secrets; a path as it is."""
    scheme, found, rest = address.partition("://")
    if not found or "/" in scheme or scheme.lower() == "file":
        return address
    host, slash, path = rest.partition("?")[0].partition("#")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def local_path(uri: str) -> str | None:
    """The directory that a store's URI names; None if it is not on this machine's file systems."""
    if uri.startswith("file://"):
        from urllib.parse import unquote, urlsplit  # not before it is needed
        return unquote(urlsplit(uri).path)
    return None if uri.startswith("mem:") or uri.partition("/")[0].endswith(":") and "://" in uri else uri


def what_lies_at(store: Store, options: Mapping[str, Any] = {}) -> str:
    """Why there is no checkpoint: what is at the store's path, if it is no store; else nothing."""
    path = local_path(getattr(store, "uri", ""))
    if not path or getattr(store, "mirror", "") != "":
        return ""  # a mirror may hold what a path that is lost held
    return look(path, {**getattr(store, "limit", {}), **options}, lambda: _what_lies_at(path))


def _what_lies_at(path: str) -> str:
    if not os.path.exists(path):
        return "there is no such file or directory"
    if not os.path.isdir(path):
        return "it is a file, not a store"
    if os.path.isdir(os.path.join(path, ".ckpt")):
        return ""
    inside = [name for name in sorted(os.listdir(path)) if os.path.isdir(os.path.join(path, name, ".ckpt"))]
    return "the directory is no store of ckpt" + (f", but has some: {some(inside)}" if inside else "")


# How launchers tell a process its rank: who, and the variables with the rank and the number of ranks.
_LAUNCHERS = (("torchrun", "RANK", "WORLD_SIZE"), ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
              ("Slurm", "SLURM_PROCID", "SLURM_NTASKS"), ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
              ("MPI", "PMI_RANK", "PMI_SIZE"), ("MPI", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
              ("jax", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES"), ("Horovod", "HOROVOD_RANK", "HOROVOD_SIZE"),
              ("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"), ("PALS", "PALS_RANKID", "PALS_SIZE"))


def lookalike() -> str:
    """By what the environment makes this process look like one of several ranks; "" if it does not."""
    for who, rank, size in _LAUNCHERS:
        if rank in os.environ and size in os.environ:
            number, count = os.environ[rank], os.environ[size]
            if count.isdecimal() and int(count) > 1:
                return f"{rank} and {size} ({who}) make it look like rank {number} of {count}"
            return ""
    here = os.environ.get("LOCAL_WORLD_SIZE", "")
    return f"LOCAL_WORLD_SIZE makes it look like one of {here} ranks" if here.isdecimal() and int(here) > 1 else ""


def unknown_option(name: str, names: Iterable[str]) -> str:
    """What follows the name of an unknown option."""
    if name in (names := list(names)):
        return ", but an argument of another call: this one does not take it"
    return near(name, names) or "; ckpt.options() lists them"
