// The names of a cache's files.
// Pure.
#pragma once

#include <string>
#include <string_view>

namespace ckpt::store {

// 32 hexadecimal digits: XXH3-128 of what the file is of. Two that meet in one name are told apart by what is in the
// file.
std::string cache_name(std::string_view identity);
bool is_cache_name(std::string_view name);

}  // namespace ckpt::store
