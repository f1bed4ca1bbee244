#include "base/text.h"

#include "base/strformat.h"

namespace ckpt {

std::string list_some(const std::vector<std::string>& texts, size_t most, std::string_view between) {
  std::string text;
  for (size_t i = 0; i < std::min(texts.size(), most); i++) (i > 0 ? text += between : text) += texts[i];
  if (texts.size() > most) text += " and " + std::to_string(texts.size() - most) + " more";
  return text;
}

std::string list_ranks(const std::vector<uint32_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size() && i < 20; i++) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return ranks.size() > 20 ? text + strformat(" and {} more", ranks.size() - 20) : text;
}

}  // namespace ckpt
