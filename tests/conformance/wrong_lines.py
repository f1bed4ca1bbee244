"""scenarios/self: prelude.txt, and the lines of wrong.txt, each of which is wrong after the prelude."""
import re

import scenario


def self_lines(suite):
    """(the text of self/prelude.txt, the lines of self/wrong.txt)"""
    folder = suite / "scenarios" / "self"
    lines = [line for line in (folder / "wrong.txt").read_text().splitlines() if line and not line.startswith("#")]
    return (folder / "prelude.txt").read_text(), lines


def expectations(line):
    """(the command, or "" if the line has none; its expectations; the line without them)."""
    words = scenario.without_each(scenario.words_of(line))
    words = words[words[:1] == ["timed"]:]
    command = scenario.TABLE.get(words[0] if words else "", scenario.Command())
    end = words.index("->") if "->" in words else len(words)
    expected = [word for word in words[1 + len(command.words):end] if re.split(">?=", word)[0] in command.expected]
    keys = [word.split("=")[0] for word in expected]
    return words[0] if words else "", keys, " ".join(word for word in words if word not in expected)


def right_lines(lines):
    """The wrong lines without their expectations. These must pass: then only the expectations make the lines fail."""
    found = map(expectations, lines)
    return "".join(dict.fromkeys(f"{rest}\n" for _, keys, rest in found if keys))


def missed(line, prelude, problem):
    """Empty if this wrong line after the prelude is what failed, and nothing else; else the line and what failed."""
    at = len(prelude.splitlines()) + 1
    if problem and problem.startswith(f"wrong.txt:{at}: ") and "exit status" not in problem:
        return []
    return [f"{line}\n        {problem}"]
