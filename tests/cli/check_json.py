#!/usr/bin/env python3
"""Whether what `ckpt COMMAND --json` printed is as schemas/tool-output.json says. Knows of JSON Schema what that uses.

  check_json.py COMMAND FILE       prints what is wrong
  check_json.py --self-test        proves that it finds what the schema forbids
"""
import json
import re
import sys
from pathlib import Path

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "schemas/tool-output.json").read_text())
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
         "null": type(None)}


def is_of(value, name):
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def parts_of(value, schema):
    """Each member or item of the value, with the schemas that are for it."""
    if isinstance(value, list):
        yield from ((str(i), one, [schema["items"]]) for i, one in enumerate(value) if "items" in schema)
    if not isinstance(value, dict):
        return
    for key, one in value.items():
        found = [schema["properties"][key]] if key in schema.get("properties", {}) else []
        found += [each for pattern, each in schema.get("patternProperties", {}).items() if re.search(pattern, key)]
        yield key, one, found or [schema.get("additionalProperties", True)]


def wrong(value, schema, where="it"):
    if isinstance(schema, bool):
        return [] if schema else [f"{where}: a name that $defs/fields lacks"]
    types = schema.get("type", [])
    found = [f"{where}: lacks {key}" for key in schema.get("required", []) if key not in value]
    if types and not any(is_of(value, name) for name in ([types] if isinstance(types, str) else types)):
        found.append(f"{where}: expected {types}, found {json.dumps(value)[:60]}")
    if value not in schema.get("enum", [value]) or (is_of(value, "number") and value < schema.get("minimum", value)):
        found.append(f"{where}: found {json.dumps(value)}")
    if "anyOf" in schema and all(wrong(value, one) for one in schema["anyOf"]):
        found.append(f"{where}: none of {json.dumps(schema['anyOf'])}")
    if "$ref" in schema:
        found += wrong(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], where)
    for key, one, schemas in parts_of(value, schema):
        found += [fault for each in schemas for fault in wrong(one, each, f"{where}.{key}")]
    return found


def self_test():
    good = {"store": "s", "checkpoints": [{"id": "a", "step": None, "bytes": 1, "latest": True}]}
    assert not wrong(good, SCHEMA["$defs"]["ls"])
    for bad in ({"store": "s"}, {**good, "more": 1}, {**good, "store": 1}, {**good, "checkpoints": [{"step": 1}]},
                *({**good, "checkpoints": [{"id": "a", **one}]} for one in (
                    {"step": "1"}, {"bytes": -1}, {"bytes": True}, {"latest": 1}, {"state": "fine"}))):
        assert wrong(bad, SCHEMA["$defs"]["ls"]), bad
    assert wrong({"bytes": 1}, SCHEMA["$defs"]["du"])


if sys.argv[1] == "--self-test":
    self_test()
else:
    printed = json.loads(Path(sys.argv[2]).read_text())
    faults = wrong(printed, SCHEMA["$defs"]["failure" if printed.keys() == {"error"} else sys.argv[1]])
    sys.exit("\n".join(faults[:20]) or 0)
