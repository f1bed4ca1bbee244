// The names of format/json_text.h that this room uses everywhere.
#pragma once

#include "format/json_text.h"

namespace ckpt::interop {

using format::add_key;
using format::find_duplicate;
using format::json_of;
using format::json_quote;
using format::json_quote_ascii;
using format::JsonEvents;
using format::parse_json;
using format::parse_string_list;
using format::parse_string_map;
using format::shown;
using format::StringMap;

}  // namespace ckpt::interop
