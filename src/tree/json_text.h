// Reads JSON from untrusted bytes as a stream of events, and writes JSON text. It builds nothing that the reader of the
// events did not ask for, so a hostile document costs no more memory than its own size. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ckpt::tree {

// The events of a document, in order. An event that the reader does not override is refused.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual Status begin_object() { return unexpected("an object"); }
  virtual Status end_object() { return Ok(); }
  virtual Status begin_array() { return unexpected("an array"); }
  virtual Status end_array() { return Ok(); }
  virtual Status key(std::string) { return Ok(); }
  virtual Status string(std::string) { return unexpected("a string"); }
  virtual Status number(uint64_t) { return unexpected("a number"); }
  // Any other value, as written. A reader that wants it as a value overrides one of the five below.
  virtual Status other(std::string_view text) { return unexpected(text); }
  virtual Status null() { return other("null"); }
  virtual Status boolean(bool value) { return other(value ? "true" : "false"); }
  virtual Status negative(int64_t value) { return other(std::to_string(value)); }
  virtual Status big_integer(std::string_view digits) { return other(digits); }  // fits neither uint64_t nor int64_t
  virtual Status real(double, std::string_view text) { return other(text); }     // finite

 protected:
  // FORMAT. A reader that knows its position overrides this to add it.
  virtual Status unexpected(std::string_view what) const;
};

inline constexpr int kMaxJsonDepth = 32;

// FORMAT if `text` is not one JSON document or nests more than `max_depth` containers; otherwise the first error that
// the reader of events returned.
Status parse_json(std::string_view text, JsonEvents& events, int max_depth = kMaxJsonDepth);
// Whether it is one document of at most kMaxJsonDepth levels; comments may be taken. To be asked before a library makes
// a value of it: whatever copies a deep one recurses. FORMAT
Status check_json(std::string_view text, bool comments = false);

// What json_quote returns, in ASCII, as Python writes it by default.
std::string json_quote_ascii(std::string_view text);

// {"key": "value"} in the order of the document; a duplicate key is FORMAT.
inline constexpr size_t kMaxMapEntries = 1 << 20;  // an entry takes 6 bytes of JSON and 64 of memory
using StringMap = std::vector<std::pair<std::string, std::string>>;
Result<StringMap> parse_string_map(std::string_view text);
std::string json_of(const StringMap& map);

// ["a", "b"]
Result<std::vector<std::string>> parse_string_list(std::string_view text);
std::string json_of(const std::vector<std::string>& list);

// Appends an entry without a value; FORMAT past kMaxMapEntries.
Status add_key(StringMap& map, std::string key);

// The first duplicate key, or null.
const std::string* find_duplicate(const StringMap& map);

}  // namespace ckpt::tree
