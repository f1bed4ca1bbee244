"""What ckpt raises: a class for each status, under a class for each group of ten statuses, under Error. And its
warnings."""

from __future__ import annotations

import builtins
import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence

from .enums import Status

__all__ = [  # of the package, too
    "Error", "CallError", "StoreError", "DataError", "RankError", "MachineError",
    # @class_names
    "LaterStepsWarning", "MissingWarning", "PassedOverWarning", "RanksWarning",
]

_MOST, _MOST_OF_WORD = 960, 160  # bytes: of a line, with the status before it 1 KiB; of a name in one that is too long

# What a terminal obeys, what turns text around or breaks it, what cannot be seen, and halves of characters:
# src/base/shown.h has the same.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
                     "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
                     "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]")


def _escaped(found: re.Match[str]) -> str:
    if found[0] in "\n\t":
        return "\\n" if found[0] == "\n" else "\\t"
    escape = "surrogateescape" if "\udc80" <= found[0] <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in found[0].encode("utf-8", escape))


def _without_middle(raw: bytes, most: int) -> bytes:
    if len(raw) <= most + 16:
        return raw
    return b"[...]".join(part.decode("utf-8", "ignore").encode() for part in (raw[:most * 2 // 3], raw[-(most // 3):]))


def line(text: str) -> str:
    """What an error or a warning shows of a text, as the engine's do: one line, with \\n, \\t and \\xNN for what a
    terminal obeys, turns around or hides, of at most 960 bytes: long names lose their middle first, then the text."""
    raw = _HIDDEN.sub(_escaped, text).encode()
    if len(raw) > _MOST:
        raw = b" ".join(_without_middle(word, _MOST_OF_WORD) for word in raw.split(b" "))
    return (raw if len(raw) <= _MOST else _without_middle(raw, _MOST - 5 - 16)).decode()


def type_error(text: str) -> TypeError:
    """Python's own error for a value of a wrong type."""
    return TypeError(line(text))


def value_error(text: str) -> ValueError:
    """Python's own error for a wrong value."""
    return ValueError(line(text))


class Error(Exception):
    """A call failed. `status` says how; `message` is one line: what, where, expected, found; `details` has its facts by
    key, those that apply: path, part, tensor, rank, ranks, offset, expected, found."""

    status: Status
    message: str
    details: dict[str, str]

    def __init__(self, status: int, message: str, details: Mapping[str, str] | None = None) -> None:
        self.status = Status(status)
        self.message = line(message)
        self.details = dict(details or {})
        Exception.__init__(self, status, self.message, details)  # OSError would give three a meaning of its own

    def __str__(self) -> str:
        return f"{self.status.name}: {self.message}"

    def _name_tensor(self, tensor: str) -> None:
        """Adds the name of the tensor, which was not known when the error was made."""
        self.details.setdefault("tensor", tensor)
        self._name_place(f"tensor '{tensor}'")

    def _name_place(self, place: str) -> None:
        self.message = line(f"{place}: {self.message}")
        self.args = (self.status, self.message, self.details)


class CallError(Error):
    """The call was wrong, or was cancelled."""


class StoreError(Error):
    """What the store holds is not what the call needs."""


class DataError(Error):
    """The bytes of a checkpoint or file are damaged or cannot be read."""


class RankError(Error):
    """Ranks, sessions or a request and the checkpoint disagree."""


class MachineError(Error):
    """The machine failed: disk or memory."""


# @classes
_GROUPS: dict[int, type[Error]] = {1: CallError, 2: StoreError, 3: DataError, 4: RankError, 5: MachineError}
_CLASSES: dict[int, type[Error]] = {
    # @class_of_status
}


_UNKNOWN_OPTION = 'unknown option "'


def _of_unknown_option(message: str) -> str:
    """The library's message with Python's words for where to look."""
    from . import _core, hints
    from .arguments import WORDS
    name = message.removeprefix(_UNKNOWN_OPTION).partition('"')[0]
    return f'{_UNKNOWN_OPTION}{name}"' + hints.unknown_option(
        name, (*(option.key for option in _core.options()), *WORDS))


_FENCED = ("; a later start of the run does that, and so do processes that save to one path without knowing of each "
           "other, each as the only rank: these need torch.distributed, jax.distributed, or rank= and world_size=")


def _why_fenced() -> str:
    """The likely cause."""
    from . import hints
    looks = hints.lookalike()
    return _FENCED + (f" ({looks})" if looks else "")


def error_of(status: int, message: str, details: Mapping[str, str] | None = None) -> Error:
    """The exception for a status; an unknown status has the class of its group."""
    if message.startswith(_UNKNOWN_OPTION):
        message = _of_unknown_option(message)
    if status == Status.FENCED and _FENCED not in message:
        message += _why_fenced()
    return _CLASSES.get(status, _GROUPS.get(status // 10, Error))(status, message, details)


class PassedOverWarning(UserWarning):
    """A reader opened an older checkpoint, since newer ones cannot be loaded: a trainer repeats steps."""


class LaterStepsWarning(UserWarning):
    """A run has checkpoints of later steps than the one that it goes on from, or begins anew beside older ones, or a
    training counts backwards."""


class RanksWarning(UserWarning):
    """A process that looks like one of several ranks saves as the only one, since nobody said which rank it is."""


class MissingWarning(UserWarning):
    """A load with strict="none" left arrays of `into` unchanged, since the checkpoint has no tensors for them."""

    missing: tuple[str, ...] = ()
    """Their paths."""


_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def warn(warning: Warning) -> None:
    """Warns at the line outside of this package that made the call."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warning.args = (line(str(warning)),)
    warnings.warn(warning, stacklevel=level)


def warn_of(text: str) -> None:
    """Warns of what is no class of its own: a cache that cannot be used, files that nobody reads."""
    warn(UserWarning(text))


def warn_passed_over(checkpoint: str, texts: Sequence[str]) -> None:
    """Warns of newer checkpoints that cannot be loaded."""
    warn(PassedOverWarning(f"the newest checkpoint that can be loaded is {checkpoint}; {'; '.join(texts)}"))
