#include "keeper/numbers.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/strformat.h"
#include "base/text.h"
#include "tree/json_text.h"

namespace ckpt::keeper {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
struct NotFinite {
  std::string_view name;
  double value;
};
constexpr NotFinite kNotFinite[] = {
    {"-Infinity", -kInfinity}, {"Infinity", kInfinity}, {"NaN", std::numeric_limits<double>::quiet_NaN()}};

const NotFinite* named_at(std::string_view text) {
  for (const NotFinite& one : kNotFinite)
    if (text.starts_with(one.name)) return &one;
  return nullptr;
}

// With quotes around what is not JSON.
std::string quoted_where_needed(std::string_view json) {
  std::string out;
  bool in_string = false;
  for (size_t at = 0; at < json.size(); at++) {
    const NotFinite* const named = in_string ? nullptr : named_at(json.substr(at));
    if (named) {
      out.append("\"").append(named->name).append("\"");
      at += named->name.size() - 1;
      continue;
    }
    if (json[at] == '"') in_string = !in_string;
    if (in_string && json[at] == '\\' && at + 1 < json.size()) out += json[at++];
    out += json[at];
  }
  return out;
}

class NumbersReader : public tree::JsonEvents {
 public:
  Status begin_object() override { return depth_++ == 0 ? Ok() : unexpected("an object"); }
  Status key(std::string name) override { return key_ = std::move(name), Ok(); }
  Status number(uint64_t value) override { return add(static_cast<double>(value)); }
  Status negative(int64_t value) override { return add(static_cast<double>(value)); }
  Status big_integer(std::string_view digits) override { return add(std::stod(std::string(digits))); }
  Status real(double value, std::string_view) override { return add(value); }
  Status string(std::string text) override {
    for (const NotFinite& one : kNotFinite)
      if (text == one.name) return add(one.value);
    return unexpected("a string");
  }
  Numbers numbers;

 private:
  Status add(double value) {
    if (depth_ == 0) return unexpected("a number");
    numbers[key_] = value;
    return Ok();
  }
  int depth_ = 0;
  std::string key_;
};

}  // namespace

std::string text_of(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  if (number == std::floor(number) && std::abs(number) < 9e15) return std::to_string(static_cast<int64_t>(number));
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, number);
  return {digits, end.ptr};
}

std::string json_of(const Numbers& numbers) {
  std::string out;
  for (const auto& [name, value] : numbers) {
    out += out.empty() ? "{" : ", ";
    append_json_quoted(name, &out);
    out += ": " + text_of(value);
  }
  return out.empty() ? "{}" : out + "}";
}

Result<Numbers> parse_numbers(std::string_view json) {
  NumbersReader reader;
  CKPT_TRY(tree::parse_json(quoted_where_needed(json), reader));
  return std::move(reader.numbers);
}

}  // namespace ckpt::keeper
