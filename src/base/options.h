// The options bag: string keys with typed values, checked against options.def when they are set. A call reads its own
// struct alone (SaveOptions, …), which save_options() and its kin fill: made of options.def by cmake/call_options.py.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"

namespace ckpt {

class Job;

class Options {
 public:
  Status set_str(std::string_view key, std::string_view value);
  Status set_int(std::string_view key, int64_t value);

  // For save_options() and its kin: whether it was set, and `to` is that.
  bool take(std::string_view key, std::string* to) const { return take_as<std::string>(key, to); }
  bool take(std::string_view key, int64_t* to) const { return take_as<int64_t>(key, to); }
  bool take(std::string_view key, bool* to) const { return take_as<int64_t>(key, to); }
  // For ckpt_call_new (ckpt_layer.h), whose other options are another library's.
  int64_t timeout_ms() const;
  // What was set; null where nothing was, or something of the other kind.
  const int64_t* set_integer(std::string_view key) const { return value_of<int64_t>(key); }
  const std::string* set_text(std::string_view key) const { return value_of<std::string>(key); }

 private:
  template <typename T>
  const T* value_of(std::string_view key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : std::get_if<T>(&found->second);
  }
  template <typename T, typename To>
  bool take_as(std::string_view key, To* to) const {
    const T* const found = value_of<T>(key);
    if (found) *to = static_cast<To>(*found);
    return found != nullptr;
  }

  std::map<std::string, std::variant<int64_t, std::string>, std::less<>> values_;
};

struct OptionRow {
  const char* key;
  bool is_int;
  int64_t fallback_int, min, max;
  const char* fallback_text;
  const char* choices;
  const char* used_by;  // the calls that read it, as words: "save load"
  const char* help;
};
std::span<const OptionRow> option_rows();

// The bag behind a handle. A null handle gives the defaults.
const Options& options_of(const ckpt_options* handle);

}  // namespace ckpt

struct ckpt_options {
  ckpt::Options bag;
  std::shared_ptr<ckpt::Job> job;  // under which the call works; null for none
};
