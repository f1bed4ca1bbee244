// JSON for --json. A value is kept as its text; only json.cpp includes the JSON library.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace cli {

class Json {
 public:
  struct Field;
  Json(std::nullptr_t) : text_("null") {}
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Json(T value) {
    if constexpr (std::is_same_v<T, bool>)
      text_ = value ? "true" : "false";
    else if constexpr (std::is_floating_point_v<T>)
      *this = real(value);
    else
      text_ = std::to_string(value);
  }
  Json(std::string_view text);  // broken UTF-8 is replaced
  Json(const std::string& text) : Json(std::string_view(text)) {}
  Json(const char* text) : text_(text == nullptr ? "null" : Json(std::string_view(text)).text_) {}
  Json(std::initializer_list<Field> fields);  // an object
  // An array of to_json(value) for each of `values`.
  template <typename Values, typename ToJson>
  static Json array(const Values& values, ToJson to_json) {
    std::vector<std::string> texts;
    for (const auto& value : values) texts.push_back(to_json(value).text_);
    return list(texts);
  }
  template <typename Values>
  static Json array(const Values& values) {
    return array(values, [](const auto& value) { return Json(value); });
  }
  static Json object() { return std::initializer_list<Field>(); }
  static Json parsed(std::string_view text);  // null if it is not JSON

  void add(std::string_view key, const Json& value);  // to an object
  std::string pretty() const;                         // over several lines
  const std::string& text() const { return text_; }   // in one

 private:
  Json() = default;
  static Json real(double value);  // null if it is not finite
  static Json list(const std::vector<std::string>& texts);
  std::string text_;
};

// JSON with escapes for what JSON allows unescaped, but a terminal obeys, turns around or hides.
std::string json_shown(std::string_view json);

// The texts of a JSON array of texts; none if it is something else.
std::vector<std::string> texts_of(std::string_view json);

// The elements of a JSON array, each as JSON; none if it is something else.
std::vector<std::string> items_of(std::string_view json);
// What a JSON object has under `key`: a text as it is, anything else as JSON; "" if that is null or there is none.
std::string value_of(std::string_view json, std::string_view key);

struct Json::Field {
  std::string_view key;
  Json value;
};

}  // namespace cli
