#include "cli/handle.h"

#include <cctype>
#include <string_view>

#include "cli/text.h"

namespace cli {
namespace {

constexpr const char* kDetails[] = {"path", "part", "tensor", "rank", "ranks", "offset", "expected", "found"};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// "4" is not said by "in 4096 bytes".
bool says(std::string_view message, std::string_view value) {
  for (size_t at = message.find(value); at != std::string_view::npos; at = message.find(value, at + 1)) {
    size_t end = at + value.size();
    bool starts = at == 0 || !is_word(message[at - 1]) || !is_word(value.front());
    bool ends = end == message.size() || !is_word(message[end]) || !is_word(value.back());
    if (starts && ends) return true;
  }
  return false;
}

}  // namespace

std::string Error::message() const {
  if (!message_.empty()) return message_;
  std::string message = error_ ? ckpt_error_message(error_.get()) : "";
  return message.empty() ? ckpt_status_name(status_) : message;
}

std::string Error::text() const {
  std::string text = escaped(message());
  if (!error_) return text;
  std::string said = text;
  for (const char* key : kDetails) {
    const char* value = ckpt_error_detail(error_.get(), key);
    if (value == nullptr || *value == '\0' || says(said, escaped(value))) continue;
    text += std::string("\n  ") + key + ": " + escaped(value);
  }
  return text;
}

}  // namespace cli
