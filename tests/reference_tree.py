"""Trees of several ranks as one: what STATE_TREE.md §6 says, over parsed JSON."""
import json
import re

from reference_grammar import CheckpointError, require

PER_RANK = "ckpt.PerRank"


class MismatchError(CheckpointError):
    """Two sound things contradict each other: trees of two ranks, rows of two parts, rows and their count."""


def kind_of(value):
    """What must be the same for values to be merged item by item; None for a leaf."""
    if isinstance(value, list):
        return "list", len(value)
    if not isinstance(value, dict):
        return None
    tag = value.get("$", "dict")
    if tag in ("tuple", "set"):
        return tag, len(value["items"])
    if tag == "record":
        return tag, value["class"], None if value["class"] == PER_RANK else tuple(value["items"])
    return tag if tag == "dict" else None


def items_of(value):
    """(key, value) of a container."""
    inside = value["items"] if isinstance(value, dict) and "$" in value else value
    if isinstance(inside, dict):
        return list(inside.items())
    return inside if kind_of(value) == "dict" else list(enumerate(inside))


def with_items(value, items):
    """The same container with other items, written as §3 says."""
    if isinstance(value, list):
        return [item for _, item in items]
    if kind_of(value) == "dict":
        plain = all(isinstance(key, str) and key != "$" for key, _ in items)
        return dict(items) if plain else {"$": "dict", "items": [[key, item] for key, item in items]}
    return {**value, "items": dict(items) if value["$"] == "record" else [item for _, item in items]}


def merge(values, where=""):
    kinds = {kind_of(value) for value in values}
    same = len(kinds) == 1 and (kinds != {None} or all(json.dumps(value) == json.dumps(values[0]) for value in values))
    require(same, f"at {where or 'the root'}: ranks have different values", MismatchError)
    if kinds == {None}:
        return values[0]
    held = {}
    for value in values:
        for key, item in items_of(value):
            held.setdefault((type(key), key), []).append(item)
    return with_items(values[0], [(key, merge(found, f"{where}/{key}")) for (_, key), found in held.items()])


def segment(key):
    """§4"""
    if isinstance(key, int):
        return str(key)
    if key in ("", ".", ".."):
        return {"": "~e", ".": "~d", "..": "~d~d"}[key]
    escaped = key.replace("~", "~0").replace("/", "~1")
    escaped = re.sub("[\0-\x1f\x7f]", lambda found: f"~x{ord(found[0]):02X}", escaped)
    return ("~s" if re.fullmatch("0|-?[1-9][0-9]*", key) else "") + escaped


def put_back(value, own, path=""):
    """What each rank has of its own, into the records that lack it. `own`: by rank, by path."""
    if kind_of(value) is None:
        return value
    items = items_of(value)
    if kind_of(value) == ("record", PER_RANK, None) and not items:
        return with_items(value, [(f"rank{rank}", found[path]) for rank, found in own.items() if path in found])
    inside = [(key, put_back(item, own, f"{path}/{segment(key)}".lstrip("/"))) for key, item in items]
    return with_items(value, inside)
