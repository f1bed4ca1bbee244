// The names of tree/json_text.h that this room uses everywhere.
#pragma once

#include "base/text.h"
#include "tree/json_text.h"

namespace ckpt::interop {

using tree::add_key;
using tree::find_duplicate;
using tree::json_of;
using tree::json_quote_ascii;
using tree::JsonEvents;
using tree::parse_json;
using tree::parse_string_list;
using tree::parse_string_map;
using tree::StringMap;

}  // namespace ckpt::interop
