"""Lines of a scenario, its objects by name, and the notation of values."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import ckpt

T = TypeVar("T")


class Failure(Exception):
    """The scenario does not hold."""


@dataclass
class Line:
    command: "Command"
    timed: str | None = None
    words: list[str] = field(default_factory=list)
    pairs: dict[str, str] = field(default_factory=dict)
    options: dict[str, int | str] = field(default_factory=dict)
    status: str | None = None
    details: list[tuple[str, str, str]] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def pair(self, key: str) -> str | None:
        self.used.add(key)
        return self.pairs.get(key)

    def expect(self, key: str, found: Any, parse: Callable[[str], Any] = str) -> None:
        """Where the line names the key, `found` must be what it says."""
        wanted = self.pair(key)
        if wanted is not None and parse(wanted) != found:
            raise Failure(f"expected {key}={wanted}, found {found}")

    def expect_words(self, first: int, found: list[str]) -> None:
        """The words from `first` on must be these, in this order."""
        wanted = self.words[first:]
        if wanted != found:
            raise Failure(f"expected {wanted}, found {found}")


@dataclass(frozen=True)
class Command:
    name: str
    run: Callable[["Scenario", Line], None]
    words: int
    takes: str  # "more" words, "pairs", "options"


COMMANDS: dict[str, Command] = {}


def command(name: str, words: int, takes: str = "") -> Callable[[Callable[["Scenario", Line], None]], Any]:
    def register(run: Callable[["Scenario", Line], None]) -> Callable[["Scenario", Line], None]:
        COMMANDS[name] = Command(name, run, words, takes)
        return run

    return register


@command("timed", 0, "more")
def _timed(scenario: "Scenario", line: Line) -> None:
    raise Failure("expected a command, found timed again")


class Scenario:
    def __init__(self, folder: str, variables: dict[str, str]) -> None:
        self.variables = variables | {"DIR": folder}
        self.folder = Path(folder)
        self.command = "scenario"
        self.refusal = ""
        self._objects: dict[str, Any] = {}
        self._lent: dict[str, Any] = {}  # trees by the file they are of

    def get(self, name: str, kind: type[T]) -> T:
        found = self._objects.get(name)
        if not isinstance(found, kind):
            raise Failure(f"expected a {kind.__name__} {name}, found {type(found).__name__ if found else 'none'}")
        return found

    def put(self, name: str, value: Any, lent_by: Any = None) -> None:
        if name in self._objects:
            self.free(name)
        self._objects[name] = value
        if lent_by is not None:
            self._lent[name] = lent_by

    def free(self, name: str) -> None:
        if name not in self._objects:
            raise Failure(f"expected an object {name}, found none")
        gone = self._objects.pop(name)
        self._lent.pop(name, None)
        for tree in [tree for tree, owner in self._lent.items() if owner is gone]:
            self.free(tree)
        if hasattr(gone, "close"):
            gone.close()

    def close(self) -> None:
        for kind in (ckpt.Job, object):  # until jobs have ended, memory is the engine's
            for name in [name for name, value in self._objects.items() if isinstance(value, kind)]:
                if name in self._objects:
                    self.free(name)

    def path(self, file: str) -> str:
        return str(self.folder / file)


# ---- lines ----


def _decoded(scenario: Scenario, token: str) -> str:
    """$NAME, then %XX, which are bytes; what is not UTF-8 becomes surrogates, which ckpt refuses."""
    def value(match: re.Match[str]) -> str:
        if match[1] not in scenario.variables:
            raise Failure(f"expected a value of ${match[1]} on the command line, found none")
        return scenario.variables[match[1]]

    text = re.sub(r"\$([A-Za-z0-9_]+)", value, token)
    if text == "%":
        return ""
    raw = text.encode("utf-8", "surrogateescape")
    if broken := re.search(rb"%(?![0-9A-Fa-f]{2})", raw):
        raise Failure(f"expected two hexadecimal digits behind %, found {raw[broken.start():][:3]!r}")
    whole = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), raw)
    return whole.decode("utf-8", "surrogateescape")


def _pair(scenario: Scenario, token: str, signs: str) -> tuple[str, str, str]:
    match = re.match(rf"([^{signs}]*)([{signs}])(.*)$", token, re.DOTALL)
    if match is None:
        raise Failure(f"expected KEY=VALUE, found '{token}'")
    return _decoded(scenario, match[1]), match[2], _decoded(scenario, match[3])


def _option(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else text.removeprefix('"')


def _take(scenario: Scenario, line: Line, token: str) -> None:
    takes = line.command.takes
    if line.status is not None:
        line.details.append(_pair(scenario, token, "=~"))
    elif len(line.words) < line.command.words or "more" in takes:
        line.words.append(_decoded(scenario, token))
    elif token.startswith("@"):
        if "options" not in takes:
            raise Failure(f"expected no options, found '{token}'")
        key, _, value = _pair(scenario, token[1:], "=")
        line.options[key] = _option(value)
    elif "pairs" in takes:
        key, _, value = _pair(scenario, token, "=")
        line.pairs[key] = value
    else:
        raise Failure(f"expected no more words, found '{token}'")


def _find(scenario: Scenario, name: str) -> Command:
    if name not in COMMANDS:
        raise Failure(f"expected a command, found '{name}'")
    scenario.command = name
    return COMMANDS[name]


def parse(scenario: Scenario, text: str) -> Line | None:
    tokens: list[str] = []
    for token in text.split():
        if token.startswith("#"):
            break
        tokens.append(token)
    if not tokens:
        return None
    line = Line(_find(scenario, tokens.pop(0)))
    if line.command.name == "timed":
        if not tokens:
            raise Failure("expected a command to time, found none")
        line.timed = " ".join(tokens)
        line.command = _find(scenario, tokens.pop(0))
    while tokens:
        token = tokens.pop(0)
        if line.status is None and token == "->":
            if not tokens:
                raise Failure("expected a status behind '->', found none")
            line.status = _decoded(scenario, tokens.pop(0))
        else:
            _take(scenario, line, token)
    if len(line.words) < line.command.words:
        raise Failure(f"expected {line.command.words} words, found {len(line.words)}")
    return line


# ---- notation ----


def integer(text: str) -> int:
    if not re.fullmatch(r"[-+]?[0-9]+", text):
        raise Failure(f"expected a number, found '{text}'")
    return int(text)


def unsigned(text: str) -> int:
    if not re.fullmatch(r"[0-9]+", text):
        raise Failure(f"expected a number >= 0, found '{text}'")
    return int(text)


def number(text: str) -> str:
    """As text that tells all floats apart and NaN the same as NaN."""
    try:
        return repr(float.fromhex(text) if "0x" in text.lower() else float(text))
    except ValueError as error:
        raise Failure(f"expected a number, found '{text}'") from error


def shape(text: str) -> tuple[int, ...]:
    return () if text == "-" else tuple(integer(extent) for extent in text.split("x"))


def shape_text(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents)) or "-"


def dtype(text: str) -> int:
    if text[:1].isdigit():
        return integer(text)
    try:
        return ckpt.DType.find(text)
    except ValueError as error:
        raise Failure(f"expected a dtype, found '{text}'") from error


def hexadecimal(text: str) -> bytes:
    if not re.fullmatch(r"([0-9A-Fa-f]{2})*", text):
        raise Failure(f"expected pairs of hexadecimal digits, found '{text[:40]}'")
    return bytes.fromhex(text)


def name_of(names: type[ckpt.Status] | Any) -> Callable[[str], Any]:
    """Parses the name of an enum's member."""
    def parse_name(text: str) -> Any:
        if text not in names.__members__:
            raise Failure(f"expected a name such as '{next(iter(names)).name}', found '{text}'")
        return names[text]

    return parse_name


def divided(text: str, pieces: int = 2) -> list[str]:
    out = text.split(":", pieces - 1)
    if len(out) != pieces:
        raise Failure(f"expected A:B, found '{text}'")
    return out


def region(line: Line) -> dict[str, Any]:
    """The keyword arguments of add_tensor that the line's keys say."""
    out: dict[str, Any] = {}
    if (text := line.pair("box")) is not None:
        out["offset"], out["extent"] = map(shape, divided(text))
    if (text := line.pair("flat")) is not None:
        out["flat_offset"], out["flat_size"] = map(integer, divided(text))
    if (text := line.pair("strides")) is not None:
        out["strides"] = shape(text)
    if (text := line.pair("device")) is not None:
        out["device"] = tuple(map(integer, divided(text)))
    return out
