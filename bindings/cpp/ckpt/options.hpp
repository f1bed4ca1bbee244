// ckpt/options.hpp - options of a call: {{"threads", 4}, {"compression", "auto"}}. Include <ckpt.hpp>.
#ifndef CKPT_OPTIONS_HPP
#define CKPT_OPTIONS_HPP

#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "error.hpp"

namespace CKPT_HPP_NAMESPACE {
inline namespace CKPT_HPP_MODE {

class Job;
namespace detail {
class Call;
}

// The call that gets the options reports a wrong key or value; so does check().
class Options {
 public:
  struct Value {
    // Any integer or unscoped enumeration.
    template <class I, class = std::enable_if_t<std::is_integral_v<I> ||
                                                (std::is_enum_v<I> && std::is_convertible_v<I, int64_t>)>>
    Value(I value) : integer(static_cast<int64_t>(value)) {
      if (value > I{} && static_cast<uint64_t>(value) > uint64_t{INT64_MAX})
        wrong =
            "at most " + std::to_string(INT64_MAX) + " expected, found " + std::to_string(static_cast<uint64_t>(value));
    }
    Value(const char* value) {
      if (value)
        text = value;
      else
        wrong = "text expected, found a null pointer";
    }
    Value(std::string value) : text(std::move(value)) {}
    std::optional<std::string> text;
    int64_t integer = 0;
    std::string wrong;  // why this cannot be a value; empty if it can
  };
  Options() = default;
  Options(std::initializer_list<std::pair<const char*, Value>> values) {
    for (const auto& [key, value] : values) set(key ? key : "", value);
  }
  // Of several values of a key the last counts.
  Options& set(const std::string& key, const Value& value) {
    values_.emplace_back(key, value);
    return *this;
  }
  // The call works under the job, which must outlive it: another thread can watch and cancel it. See Job::create.
  Options& set_job(const Job& job);
  Result<void> check() const;

 private:
  friend class detail::Call;
  std::vector<std::pair<std::string, Value>> values_;
  const ckpt_job* job_ = nullptr;
};

}  // namespace CKPT_HPP_MODE
}  // namespace CKPT_HPP_NAMESPACE
#endif  // CKPT_OPTIONS_HPP
