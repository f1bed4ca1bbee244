#include "base/text.h"

#include "base/strformat.h"

namespace ckpt {

std::string list_ranks(const std::vector<uint32_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size() && i < 20; i++) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return ranks.size() > 20 ? text + strformat(" and {} more", ranks.size() - 20) : text;
}

}  // namespace ckpt
