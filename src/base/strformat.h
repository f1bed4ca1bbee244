// Text for messages: strformat("rank {} of {}", rank, size). The syntax is a small part of std::format's: {} for text,
// characters, bools and numbers; {:x}, {:X}, {:04x}, {:3} for integers; {{ and }} for braces. The compiler counts the
// arguments.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace ckpt {

class FormatArg {
 public:
  template <std::integral T>
  FormatArg(T value)
      : kind_(std::is_signed_v<T> ? Kind::kSigned : Kind::kUnsigned), bits_(static_cast<uint64_t>(value)) {}
  FormatArg(char value) : kind_(Kind::kText), letter_(value), bits_(0) { text_ = {&letter_, 1}; }
  FormatArg(double value) : kind_(Kind::kReal), real_(value) {}
  FormatArg(std::string_view value) : kind_(Kind::kText), bits_(0), text_(value) {}
  FormatArg(const std::string& value) : FormatArg(std::string_view(value)) {}
  FormatArg(const char* value) : FormatArg(value ? std::string_view(value) : std::string_view("(null)")) {}
  FormatArg(const FormatArg&) = delete;

  // `spec`: the text between the colon and the closing brace.
  void append_to(std::string* out, std::string_view spec) const;

 private:
  enum class Kind : uint8_t { kSigned, kUnsigned, kReal, kText } kind_;
  char letter_ = 0;
  union {
    uint64_t bits_;
    double real_;
  };
  std::string_view text_;
};

template <typename... Args>
class FormatPattern {
 public:
  consteval FormatPattern(const char* text) : text_(text) {
    size_t fields = 0;
    for (size_t i = 0; i < text_.size(); i++) {
      if (text_[i] != '{' && text_[i] != '}') continue;
      if (i + 1 < text_.size() && text_[i + 1] == text_[i]) {
        i++;
        continue;
      }
      fields += text_[i] == '{';
    }
    if (fields != sizeof...(Args)) throw "as many {} as arguments are expected";
  }
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

[[gnu::cold]] std::string strformat_args(std::string_view pattern, const FormatArg* args);

template <typename... Args>
std::string strformat(FormatPattern<std::type_identity_t<Args>...> pattern, const Args&... args) {
  static_assert(sizeof...(Args) > 0, "text without arguments needs no strformat()");
  const FormatArg list[] = {FormatArg(args)...};
  return strformat_args(pattern.text(), list);
}

}  // namespace ckpt
