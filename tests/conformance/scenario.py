"""The lines of scenarios: checked against the table of commands in commands.md, and ready to be sent to a runner."""
import functools
import re
import sys
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "cmake"))
from api import of_sources  # noqa: E402

API = of_sources(ROOT)


def values_of(kind):
    """(name without its prefix, number) of an enum's values."""
    enum = next(enum for enum in API["enums"] if enum["name"] == kind)
    return [(value["name"].removeprefix(enum["prefix"]), value["value"]) for value in enum["values"]]


# Variables of all scenarios: the folder of PyTorch's files, the folder of tests, the longest valid name, and how many
# tensors there are with one for each dtype and 4 or 14 others.
VARIABLES = {"FILES": str(ROOT / "bindings" / "torch" / "tests" / "files"), "TESTS": str(HERE.parent),
             "LONG": "n" * 4096, **{f"DTYPES{more}": str(len(values_of("dtype")) + more) for more in (4, 14)}}
SENT = {"equal": "same", "differ": "same", "store.list": "store.states"}  # commands that ask a runner for another one
INTEGERS = set("N BITS BYTES COUNT INDEX NODE NUMBER OFFSET PARENT RANK SEED SIZE STEP WORLD".split())


class Mistake(Exception):
    """A line that is not a valid command; the message begins with FILE:LINE."""


@dataclass
class Command:
    """A row of the table: the notation of each word, of further words ("": there are none) and of each key."""
    words: list = field(default_factory=list)
    sent: int = None  # so many of the words are sent, and the reply must say the others; None: all are sent
    more: str = ""
    keys: dict = field(default_factory=dict)
    expected: set = field(default_factory=set)  # the keys that are expectations
    options: bool = False


def read_table(text):
    """name -> Command, from the table under "Commands"."""
    table = {}
    rows = re.findall(r"^\| (`.*?) \|(.*)\|$", text.split("## Commands", 1)[1], flags=re.M)
    for signatures, explained in rows:
        for name, *words in map(str.split, re.findall(r"`([^`]+)`", signatures)):
            table[name] = command = Command()
            command.sent = words.index("→") if "→" in words else None
            for word in words:
                if word == "EXPECT…":
                    listed = re.search(r"`([^`]+)`", explained)[1]
                    keys = table[listed].keys if listed in table else dict(map(key_of, listed.split()))
                    command.keys |= keys
                    command.expected |= set(keys)
                elif word == "@…":
                    command.options = True
                elif "=" in word:
                    key, notation = key_of(word.strip("[]"))
                    command.keys[key] = notation
                    command.expected |= {key} if notation == "EXPECT" else set()
                elif word.endswith("…"):
                    command.more = word
                elif word != "→":
                    command.words.append(word)
    return table


def key_of(text):
    key, _, notation = text.partition("=")
    return key, notation


TABLE = read_table((HERE / "commands.md").read_text(encoding="utf-8"))


# ---- values ----
def decoded(word, variables):
    """`text` with $NAME, then %XX replaced; bytes that are not UTF-8 are surrogates until they are sent."""
    def value(match):
        if match[1] not in variables:
            raise ValueError(f"expected a value of ${match[1]}, found none")
        return variables[match[1]]

    text = re.sub(r"\$(\w+)", value, word, flags=re.A)
    if text == "%":
        return ""
    if broken := re.search(r"%(?![0-9A-Fa-f]{2}).{0,2}", text):
        raise ValueError(f"expected two hexadecimal digits after %, found '{broken[0]}'")
    raw = re.sub(rb"%(..)", lambda match: bytes.fromhex(match[1].decode()), text.encode("utf-8", "surrogateescape"))
    return raw.decode("utf-8", "surrogateescape")


def integer(text):
    if not re.fullmatch(r"0|-?[1-9][0-9]*", text, flags=re.A) or not -2**63 <= int(text) < 2**64:
        raise ValueError(f"expected an integer of 64 bits, found '{text}'")
    return text


def plain(notation, text, folder):
    """A value in the form that runners read."""
    if ":" in notation:
        notations, pieces = notation.split(":"), text.split(":")
        if len(pieces) != len(notations):
            raise ValueError(f"expected {notation}, found '{text}'")
        return ":".join(plain(one, piece, folder) for one, piece in zip(notations, pieces))
    if notation in INTEGERS:
        return integer(text)
    if notation == "SHAPE":
        return " ".join(integer(extent) for extent in text.split("x")) if text != "-" else ""
    if notation == "FILE":
        return str(Path(folder, text))
    if notation == "HEX":
        return bytes.fromhex(text).decode("utf-8", "surrogateescape")
    if notation == "X":
        return repr(float(text))
    return text


def is_integer(text):
    return bool(re.fullmatch("-?[0-9]+", text, flags=re.A))


# ---- lines ----
class Line:
    """One command of a scenario, checked, with its values as README.md says that runners get them."""

    def __init__(self, words, folder, variables):
        self.folder, self.variables, self.name = folder, {**variables, "DIR": str(folder)}, words[0]
        # Keys that say what to do; keys that expect, with "=" or ">"; details of the error, with "=" or "~".
        self.words, self.keys, self.expected, self.options = [], {}, {}, {}
        self.status, self.details, self.timed = "OK", [], words[0] == "timed"
        if self.timed:
            words = words[1:]
            self.name = words[0] if words else "timed"
        if self.name not in TABLE:
            raise ValueError(f"expected a command, found '{self.name}'")
        self.command = TABLE[self.name]
        at = words.index("->") if "->" in words else len(words)
        self.take_words(words[1:at])
        if at < len(words):
            self.take_status(words[at + 1:])

    def value(self, notation, word):
        return plain(notation, decoded(word, self.variables), self.folder)

    def take_words(self, words):
        fixed, command, given = len(self.command.words), self.command, set()
        if len(words) < fixed:
            raise ValueError(f"expected {fixed} words, found {len(words)}")
        self.words = [self.value(notation, word) for notation, word in zip(command.words, words)]
        for word in words[fixed:]:
            key, sign, value = word.partition("=")
            name = key.removesuffix(">")
            if command.more:
                self.words.append(decoded(word, self.variables))
            elif word[0] == "@" and command.options and sign:
                value = decoded(value, self.variables)
                self.options[key[1:]] = int(value) if is_integer(value) else value.removeprefix('"')
            elif sign and name not in given and name in (command.keys if name == key else command.expected):
                given.add(name)
                self.take_key(name, ">" if key != name else "=", value)
            else:
                raise ValueError(f"expected what {self.name} takes, once; found '{word}'")

    def take_key(self, key, sign, value):
        notation = "N" if sign == ">" else self.command.keys[key]
        value = "" if value == "%" and sign == "=" else self.value(notation, value)
        if key in self.command.expected:
            self.expected[key] = sign, value
        else:
            self.keys[key] = value

    def take_status(self, words):
        if not words:
            raise ValueError("expected a status after '->', found none")
        self.status = words[0]
        for word in words[1:]:
            key, sign, value = re.fullmatch(r"(\w+)([=~])(.*)|.*", word).groups()
            if not sign:
                raise ValueError(f"expected KEY=VALUE or KEY~VALUE, found '{word}'")
            self.details.append((key, sign, decoded(value, self.variables)))

    def request(self, words=None, **keys):
        """What is sent; other words, and further keys, if they are given."""
        fields = self.words[:self.command.sent] if words is None else words
        options = [("@" if isinstance(value, int) else "$", key, value) for key, value in self.options.items()]
        named = [*(("=", key, value) for key, value in {**self.keys, **keys}.items()), *options]
        return " ".join([SENT.get(self.name, self.name), *map(quoted, fields),
                         *(f"{sign}{key}={quoted(str(value))}" for sign, key, value in named)])


def quoted(text):
    return urllib.parse.quote_from_bytes(text.encode("utf-8", "surrogateescape"), safe="/:,")


def unquoted(text):
    return urllib.parse.unquote_to_bytes(text).decode("utf-8", "surrogateescape")


def words_of(source):
    """The words of a line, without a comment."""
    words = re.findall(r"[^ \t\r]+", source)
    return next((words[:at] for at, word in enumerate(words) if word[0] == "#"), words)


@functools.lru_cache(maxsize=1024)  # most lines are used several times: before each wrong line, and for each runner
def read_line(source, folder, variables):
    """The Line, or None if it has no command; `variables` are pairs."""
    words = words_of(source)
    return Line(words, folder, dict(variables)) if words else None


def seven_elements(number):
    """Their bytes, as hexadecimal digits. Packed ones end in the middle of a byte, whose other bits are 0."""
    bits = 7 * (number % 256)
    value = sum((number + 89 * at) % 256 << 8 * at for at in range(-(-bits // 8))) % 2**bits
    return value.to_bytes(-(-bits // 8), "little").hex()


@functools.lru_cache
def lists():
    """What `each` goes through: its name, then the variables of each turn."""
    return {
        "dtype": [{"D": name.lower(), "CODE": str(number), "BITS": str(number % 256), "SEVEN": seven_elements(number),
                   **{f"BYTES{count}": str(-(-count * (number % 256) // 8)) for count in (7, 64)}}
                  for name, number in values_of("dtype")],
        "status": [{"NAME": name, "NUMBER": str(number)} for name, number in values_of("status")],
        **{kind: [{key.upper(): str(value) for key, value in option.items()} for option in API["options"]
                  if option["kind"] == kind] for kind in ("INT", "STR")},
    }


def without_each(words):
    """The words of the line that `each` repeats, or all."""
    return words[2:] if words[:1] == ["each"] else words


def turns_of(source):
    """(the line without `each`, the variables that it adds) for each turn"""
    words = words_of(source)
    if words[:1] != ["each"]:
        return [(source, {})]
    if len(words) < 3 or words[1] not in lists():
        raise ValueError(f"expected each {' or '.join(lists())}, and a line; found '{source.strip()}'")
    return [(" ".join(words[2:]), turn) for turn in lists()[words[1]]]


def read_lines(text, name, folder, variables=VARIABLES):
    """(line number, Line) of every line that has a command."""
    for number, source in enumerate(text.split("\n"), 1):
        try:
            for repeated, turn in turns_of(source):
                if line := read_line(repeated, str(folder), tuple((variables | turn).items())):
                    yield number, line
        except ValueError as why:
            raise Mistake(f"{name}:{number}: {words_of(source)[0]}: {why}") from None


def read_scenario(path):
    return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
