// The options bag: string keys with typed values, checked against options.def when they are set.
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

  // The value, or the fallback from options.def. A key that options.def lacks is a bug of the engine.
  std::string str(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  bool is_set(std::string_view key) const { return values_.find(key) != values_.end(); }
  // What was set; null where nothing was, or something of the other kind.
  const int64_t* set_integer(std::string_view key) const { return value_of<int64_t>(key); }
  const std::string* set_text(std::string_view key) const { return value_of<std::string>(key); }

 private:
  template <typename T>
  const T* value_of(std::string_view key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : std::get_if<T>(&found->second);
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

  bool is_for(std::string_view call) const;
};
std::span<const OptionRow> option_rows();

// The bag behind a handle. A null handle gives the defaults.
const Options& options_of(const ckpt_options* handle);

}  // namespace ckpt

struct ckpt_options {
  ckpt::Options bag;
  std::shared_ptr<ckpt::Job> job;  // under which the call works; null for none
};
