#include "base/options.h"

#include <algorithm>

#include "base/text.h"

namespace ckpt {

#define CKPT_OPTION_STR(key, fallback, choices, used_by, help) {#key, false, 0, 0, 0, fallback, choices, used_by, help},
#define CKPT_OPTION_INT(key, fallback, min, max, used_by, help) \
  {#key, true, fallback, min, max, #fallback, "", used_by, help},
static constexpr OptionRow kRows[] = {
#include "base/options.def"
};
#undef CKPT_OPTION_STR
#undef CKPT_OPTION_INT

std::span<const OptionRow> option_rows() { return kRows; }

static const OptionRow* find_row(std::string_view key) {
  for (const auto& row : kRows)
    if (row.key == key) return &row;
  return nullptr;
}

static Status unknown(std::string_view key) {
  return Status(CKPT_INVALID, "unknown option \"" + std::string(key) + "\"; ckpt_option_at lists them")
      .with("found", std::string(key));
}

static bool is_among(std::string_view value, const std::vector<std::string_view>& words) {
  return std::find(words.begin(), words.end(), value) != words.end();
}

Status Options::set_str(std::string_view key, std::string_view value) {
  const OptionRow* row = find_row(key);
  if (!row) return unknown(key);
  if (row->is_int)
    return Status(CKPT_INVALID, strformat("option {} takes a number, found text \"{}\"", row->key, value));
  if (*row->choices && !is_among(value, split(row->choices, '|')))
    return Status(CKPT_INVALID, strformat("option {}: expected one of {}, found \"{}\"", row->key, row->choices, value))
        .with("expected", row->choices)
        .with("found", std::string(value));
  values_.insert_or_assign(std::string(key), std::string(value));
  return Ok();
}

Status Options::set_int(std::string_view key, int64_t value) {
  const OptionRow* row = find_row(key);
  if (!row) return unknown(key);
  if (!row->is_int) return Status(CKPT_INVALID, strformat("option {} takes text, found a number", row->key));
  if (value < row->min || value > row->max)
    return Status(CKPT_INVALID,
                  strformat("option {}: expected {} to {}, found {}", row->key, row->min, row->max, value))
        .with("found", std::to_string(value));
  if (key == "chunk_bytes" && value % 4096)
    return Status(CKPT_INVALID, strformat("option chunk_bytes: expected a multiple of 4096, found {}", value));
  values_.insert_or_assign(std::string(key), value);
  return Ok();
}

int64_t Options::timeout_ms() const {
  const int64_t* const set = set_integer("timeout_ms");
  return set ? *set : find_row("timeout_ms")->fallback_int;
}

const Options& options_of(const ckpt_options* handle) {
  static const Options defaults;
  return handle ? handle->bag : defaults;
}

}  // namespace ckpt
