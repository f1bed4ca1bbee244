#include "cli/error.h"

#include <cctype>

#include "base/address.h"
#include "cli/text.h"

namespace cli {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Whole words only: "in 4096 bytes" does not say "4".
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

std::string error_text(const ckpt::Error& error) {
  const std::string said = escaped(ckpt::without_secrets(*error.what() == '\0' ? error.status_name() : error.what()));
  std::string text = ckpt::cut_line(said);
  for (const auto& [key, fact] : error.details()) {
    const std::string value = escaped(ckpt::without_secrets(fact));
    if (!value.empty() && !says(said, value)) text += "\n" + ckpt::cut_line(strformat("  {}: {}", key, value));
  }
  return text;
}

Json error_json(const ckpt::Error& error) {
  Json details = Json::object();
  for (const auto& [key, fact] : error.details()) details.add(key, ckpt::without_secrets(fact));
  return {{"status", error.status_name()}, {"message", ckpt::without_secrets(error.what())}, {"details", details}};
}

}  // namespace cli
