#!/usr/bin/env python3
"""Writes a struct for each call that takes options, with the options whose rows in options.def name the call, and the
function that fills it.

  call_options.py OPTIONS_DEF HEADER

A call gets its struct and not the bag, so it cannot read what its rows do not say. The build runs this.
"""
import sys
from pathlib import Path

from api import options_of

HEADER = """// Made of options.def by cmake/call_options.py.
#pragma once

#include "base/options.h"
#include "base/types.h"

namespace ckpt {{

{structs}
}}  // namespace ckpt
"""
STRUCT = """struct {name}Options {{
  ByName by_name{{}};
{members}
  struct {{
    bool {keys};
  }} is_set{{}};  // by the caller
}};
inline {name}Options {call}_options(const Options& bag) {{
  {name}Options options;
{reads}
  return options;
}}
"""


def member(option):
    """0 and 1 alone: a bool."""
    if option["kind"] == "STR":
        return f'  std::string {option["key"]} = "{option["fallback"]}";'
    if (option["min"], option["max"]) == (0, 1):
        return f'  bool {option["key"]} = {"true" if option["fallback"] else "false"};'
    return f'  int64_t {option["key"]} = {option["fallback"]};'


def struct_of(call, options):
    keys = [option["key"] for option in options]
    reads = [f'  options.is_set.{key} = bag.take("{key}", &options.{key});' for key in keys]
    return STRUCT.format(name=call.title(), call=call, members="\n".join(map(member, options)),
                         keys=", ".join(f"{key} = false" for key in keys), reads="\n".join(reads))


def main(options_def, out):
    options = list(options_of(Path(options_def).read_text(), ()))
    calls = sorted({call for option in options for call in option["used_by"].split()})
    structs = (struct_of(call, [option for option in options if call in option["used_by"].split()]) for call in calls)
    Path(out).parent.mkdir(exist_ok=True)
    Path(out).write_text(HEADER.format(structs="\n".join(structs)))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
