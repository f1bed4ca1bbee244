// Metrics and counters, and how attributes of a checkpoint hold them. Pure; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ckpt::keeper {

using Numbers = std::map<std::string, double, std::less<>>;

// A number as short as it can be read back; whole ones without a point.
std::string text_of(double number);
// As JSON, but for NaN, Infinity and -Infinity, which Python's json writes and reads. FORMAT
std::string json_of(const Numbers& numbers);
Result<Numbers> parse_numbers(std::string_view json);

}  // namespace ckpt::keeper
