#include "tree/json_text.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace ckpt::tree {

Status JsonEvents::unexpected(std::string_view what) const {
  return Status(CKPT_FORMAT, "unexpected " + std::string(what));
}

namespace {

// Hands the parser's events on. A function that returns false stops the parser, which throws nothing itself.
class Adapter final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Adapter(JsonEvents& events, int max_depth) : events_(events), max_depth_(max_depth) {}
  Status take() { return std::move(status_); }

  bool null() override { return pass(events_.null()); }
  bool boolean(bool value) override { return pass(events_.boolean(value)); }
  bool number_integer(number_integer_t value) override { return pass(events_.negative(value)); }
  bool number_unsigned(number_unsigned_t value) override { return pass(events_.number(value)); }
  // Integers beyond 64 bits come this way too.
  bool number_float(number_float_t value, const string_t& text) override {
    const bool integer = text.find_first_not_of("-0123456789") == std::string::npos;
    return pass(integer ? events_.big_integer(text) : events_.real(value, text));
  }
  bool string(string_t& value) override { return pass(events_.string(std::move(value))); }
  bool binary(binary_t&) override { return pass(Status(CKPT_FORMAT, "unexpected binary value")); }
  bool start_object(size_t) override { return enter() && pass(events_.begin_object()); }
  bool key(string_t& value) override { return pass(events_.key(std::move(value))); }
  bool end_object() override { return leave() && pass(events_.end_object()); }
  bool start_array(size_t) override { return enter() && pass(events_.begin_array()); }
  bool end_array() override { return leave() && pass(events_.end_array()); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return pass(Status(CKPT_FORMAT, strformat("not JSON at byte {}", position)).with("offset", position));
  }

 private:
  bool pass(Status status) {
    status_ = std::move(status);
    return status_.ok();
  }
  bool enter() {
    return ++depth_ <= max_depth_ || pass(Status(CKPT_FORMAT, strformat("JSON deeper than {} levels", max_depth_)));
  }
  bool leave() {
    depth_--;
    return true;
  }

  JsonEvents& events_;
  Status status_;
  int max_depth_, depth_ = 0;
};

class AnyEvents final : public JsonEvents {
 public:
  Status begin_object() override { return Ok(); }
  Status begin_array() override { return Ok(); }
  Status string(std::string) override { return Ok(); }
  Status number(uint64_t) override { return Ok(); }
  Status other(std::string_view) override { return Ok(); }
};

class StringMapEvents final : public JsonEvents {
 public:
  StringMap map;
  Status begin_object() override { return depth_++ == 0 ? Ok() : unexpected("an object"); }
  Status key(std::string text) override { return add_key(map, std::move(text)); }
  Status string(std::string text) override {
    if (depth_ == 0) return unexpected("a string");
    map.back().second = std::move(text);
    return Ok();
  }

 private:
  int depth_ = 0;
};

class StringListEvents final : public JsonEvents {
 public:
  std::vector<std::string> list;
  Status begin_array() override { return depth_++ == 0 ? Ok() : unexpected("an array"); }
  Status string(std::string text) override {
    if (depth_ == 0) return unexpected("a string");
    list.push_back(std::move(text));
    return Ok();
  }

 private:
  int depth_ = 0;
};

}  // namespace

static Status parse_json(std::string_view text, JsonEvents& events, int max_depth, bool comments) {
  // nlohmann takes a NUL for the end of the text and skips a byte order mark. JSON allows neither.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos)
    return Status(CKPT_FORMAT, strformat("not JSON at byte {}: a NUL", nul)).with("offset", nul);
  if (text.starts_with("\xef\xbb\xbf")) return Status(CKPT_FORMAT, "not JSON at byte 0: a byte order mark");
  constexpr auto kText = nlohmann::json::input_format_t::json;
  Adapter adapter(events, max_depth);
  const bool good = nlohmann::json::sax_parse(text.begin(), text.end(), &adapter, kText, true, comments);
  Status status = adapter.take();
  if (!good && status.ok()) return Status(CKPT_FORMAT, "not JSON");
  return status;
}

Status parse_json(std::string_view text, JsonEvents& events, int max_depth) {
  return parse_json(text, events, max_depth, false);
}

Status check_json(std::string_view text, bool comments) {
  AnyEvents events;
  return parse_json(text, events, kMaxJsonDepth, comments);
}

std::string json_quote_ascii(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

Status add_key(StringMap& map, std::string key) {
  if (map.size() == kMaxMapEntries) return Status(CKPT_FORMAT, strformat("more than {} entries", kMaxMapEntries));
  map.emplace_back(std::move(key), std::string());
  return Ok();
}

const std::string* find_duplicate(const StringMap& map) {
  std::vector<const std::string*> keys;
  keys.reserve(map.size());
  for (const auto& [key, value] : map) keys.push_back(&key);
  std::sort(keys.begin(), keys.end(), [](auto* a, auto* b) { return *a < *b; });
  const auto twice = std::adjacent_find(keys.begin(), keys.end(), [](auto* a, auto* b) { return *a == *b; });
  return twice == keys.end() ? nullptr : *twice;
}

Result<StringMap> parse_string_map(std::string_view text) {
  StringMapEvents events;
  CKPT_TRY(parse_json(text, events));
  if (const std::string* key = find_duplicate(events.map))
    return Status(CKPT_FORMAT, "key " + shown(*key) + " comes twice");
  return std::move(events.map);
}

std::string json_of(const StringMap& map) {
  std::string text = "{";
  for (const auto& [key, value] : map) {
    if (text.size() > 1) text += ',';
    text += json_quote(key) + ':' + json_quote(value);
  }
  return text + '}';
}

Result<std::vector<std::string>> parse_string_list(std::string_view text) {
  StringListEvents events;
  CKPT_TRY(parse_json(text, events));
  return std::move(events.list);
}

std::string json_of(const std::vector<std::string>& list) {
  std::string text = "[";
  for (const std::string& item : list) {
    if (text.size() > 1) text += ',';
    text += json_quote(item);
  }
  return text + ']';
}

}  // namespace ckpt::tree
