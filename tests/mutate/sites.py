"""Where a line of C++ can be wrong in a small way: the mutants of a source file, found by its text.

The house's sources are formatted, so a binary operator has spaces around it and an argument of a template has none: no
parser is needed. A mutant that does not compile is left out by run.py.

kinds: `false` and `true` (a condition, or an operand of && and ||), `bound` (< for <=), `sign` (+ for -), `gone` (a
statement that is left out: a call, an assignment, break).
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterator

OPEN, CLOSE = "([{", ")]}"
OTHER = {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > "}
RELATION = re.compile(r" (?:<|>|<=|>=|==|!=) ")
WEAKER = (";", ",", ")", "}", "]", " { ", " + ", " - ", " << ", " >> ", " < ", " > ", " <= ", " >= ", " == ", " != ",
          " & ", " | ", " ^ ", " && ", " || ", " ? ", " : ")  # what ends a summand
CONDITION = re.compile(r"\b(if|while|for) \(")
VALUE = re.compile(r"\breturn |[^=!<>+\-*/|&]= ")
DECLARES = re.compile(r"(const )?[\w:<>, ]+[&*]* [&*]*(\w+|\[[\w, ]+\]) = ")
WORDS = "return|if|for|while|switch|do|else|case|default|throw|using|delete|goto"
STATEMENT = re.compile(rf"(?:\(void\))?\*?(?!(?:{WORDS})\b)[A-Za-z_][\w:]*(?:<[\w:, *]+>)?"
                       r"(?:\[[^;]*?\]|(?:\.|->)\w+|\((?:[^;()]|\([^;()]*\))*\)(?=\.|->))*"
                       r"(?:\(| = | [+\-|&^*]= |\+\+;|--;)|(?:\+\+|--)[\w.\->\[\]]+;|break;|continue;")
BLANK = re.compile(r"//[^\n]*|/\*.*?\*/|" r'"(?:\\.|[^"\\\n])*"|' r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'|"
                   r"^#(?:[^\n]*\\\n)*[^\n]*", re.S | re.M)
NOT_ALONE = re.compile(r"CKPT_ASSIGN|CKPT_(?!TRY)|static_assert|assert\(")


@dataclass
class Mutant:
    kind: str
    start: int  # of what it changes
    end: int
    before: str  # the code that goes before it and after it; @ is the mutant's number
    after: str


def masked(text: str) -> str:
    """The text with comments, literals and lines of the preprocessor blank, each at its place."""
    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", "_" if found[0][0] in "\"'" else " ", found[0])
    return BLANK.sub(blank, text)


class Finder:
    def __init__(self, text: str) -> None:
        self.text, self.code, self.found = text, masked(text), list[Mutant]()
        self.line = self.code.replace("\n", " ")

    def close(self, at: int) -> int:
        """Where the bracket at `at` ends."""
        depth = 0
        for place in range(at, len(self.code)):
            depth += (self.code[place] in OPEN) - (self.code[place] in CLOSE)
            if depth == 0:
                return place
        return len(self.code)

    def split(self, start: int, end: int, words: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
        """The pieces between `words` that stand in no bracket, each with the word after it."""
        at = begin = start
        while at < end:
            if self.code[at] in OPEN:
                at = self.close(at) + 1
                continue
            word = next((word for word in words if self.line.startswith(word, at)), None)
            if word:
                yield begin, at, word
                begin = at = at + len(word)
            else:
                at += 1
        yield begin, end, ""

    def plain(self, start: int, end: int) -> str:
        return " ".join(("".join(a if b != " " or a.isspace() else " " for a, b in
                                 zip(self.text[start:end], self.code[start:end]))).split())

    def add(self, kind: str, start: int, end: int, before: str, after: str) -> None:
        self.found.append(Mutant(kind, start, end, before, after))

    def logical(self, start: int, end: int) -> None:
        """A condition, down to the operands of its && and ||."""
        start += len(self.code[start:end]) - len(self.code[start:end].lstrip())
        end -= len(self.code[start:end]) - len(self.code[start:end].rstrip())
        if end <= start:
            return
        for word in (" ? ", " || ", " && "):
            parts = list(self.split(start, end, (word,)))
            if len(parts) > 1:
                for part in parts[:1] if word == " ? " else parts:
                    self.logical(*part[:2])
                return
        if self.code[start] == "!" and self.code[start + 1] == "(" and self.close(start + 1) == end - 1:
            return self.logical(start + 2, end - 1)
        if self.code[start] == "(" and self.close(start) == end - 1:
            return self.logical(start + 1, end - 1)
        self.add("true", start, end, "(CKPT_MUTANT(@) || (", "))")
        self.add("false", start, end, "(!CKPT_MUTANT(@) && (", "))")
        sides = list(self.split(start, end, tuple(OTHER)))
        if len(sides) == 2:
            changed = self.plain(*sides[0][:2]) + OTHER[sides[0][2]] + self.plain(*sides[1][:2])
            self.add("bound", start, end, f"(CKPT_MUTANT(@) ? ({changed}) : (", "))")

    def conditions(self) -> None:
        for found in CONDITION.finditer(self.code):
            start, end = found.end(), self.close(found.end() - 1)
            parts = list(self.split(start, end, (";",)))
            if found[1] == "for" and len(parts) != 3:
                continue
            part = parts[1] if found[1] == "for" else parts[-1]
            if not DECLARES.match(self.code[part[0]:part[1]].strip()):
                self.logical(*part[:2])

    def values(self) -> None:
        """What is returned or assigned, if it is a condition."""
        for found in VALUE.finditer(self.code):
            start = found.end()
            end = next(iter(self.split(start, len(self.code), (";", ",", ")", "}", "]"))))[1]
            parts = [self.code[a:b] for a, b, _ in self.split(start, end, (" && ", " || "))]
            if len(parts) > 1 or (RELATION.search(self.flat(start, end)) and " << " not in parts[0]):
                self.logical(start, end)

    def flat(self, start: int, end: int) -> str:
        """The code without what stands in brackets."""
        made, at = "", start
        while at < end:
            if self.code[at] in OPEN:
                at = self.close(at)
            made += self.code[at]
            at += 1
        return made

    def signs(self) -> None:
        stop = re.compile(r"[(,;{}\[?=|&^]$|\breturn$|(?<!:):$| [<>]$|[<>!]=$|<<$|>>$|\bcase$")
        for found in re.finditer(r" ([+-]) (?=\S)", self.code):
            start, depth = found.start(), 0
            while start > 0 and not (depth == 0 and (self.code[start - 1] in OPEN or stop.search(
                    self.code[max(0, start - 8):start]))):
                depth += (self.code[start - 1] in CLOSE) - (self.code[start - 1] in OPEN)
                start -= 1
            start += len(self.code[start:found.start()]) - len(self.code[start:found.start()].lstrip())
            end = next(iter(self.split(found.end(), len(self.code), WEAKER)))[1]
            left, right = self.plain(start, found.start()), self.plain(found.end(), end)
            if left and right and '"' not in left + right and "{" not in left + right:
                other = "-" if found[1] == "+" else "+"
                self.add("sign", start, end, f"(CKPT_MUTANT(@) ? ({left}) {other} ({right}) : (", "))")

    def statements(self) -> None:
        for line in re.finditer(r"^ +(?=\S)|(?<=\) )(?=[\w(*])|(?<=else )|(?<=: )(?=break)", self.code, re.M):
            start = line.end()
            found = STATEMENT.match(self.code, start)
            before = self.code[:start].rstrip()
            if not found or not (before[-1:] in tuple(";{})") or before.endswith("else")):
                continue
            end = next(iter(self.split(start, len(self.code), (";", "}"))))
            if end[2] == ";" and not NOT_ALONE.match(self.code, start):
                self.add("gone", start, end[1] + 1, "{ if (!CKPT_MUTANT(@)) ", " }")

    def all(self) -> list[Mutant]:
        for look in (self.conditions, self.values, self.signs, self.statements):
            look()
        unique = {(one.kind, one.start, one.end): one for one in self.found}
        return sorted(unique.values(), key=lambda one: (one.start, -one.end, one.kind))


def rewrite(text: str, mutants: list[tuple[int, Mutant]]) -> str:
    """The text with all of them, each with its number. They lie within one another or apart."""
    edits = list[tuple[tuple[int, int, int, int], str]]()
    for order, (number, one) in enumerate(mutants):
        length = one.end - one.start
        edits.append(((one.start, 1, -length, order), one.before.replace("(@)", f"({number})")))
        edits.append(((one.end, 0, length, -order), one.after))
    made, at = list[str](), 0
    for (place, *_), words in sorted(edits):
        made += [text[at:place], words]
        at = place
    return "".join(made) + text[at:]
