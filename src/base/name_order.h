// Sorts very many names. It compares words of eight bytes, so most comparisons read two numbers that lie side by side,
// and a prefix that all names share is read once.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "base/types.h"

namespace ckpt {

// Where a name comes from: record `at` of list `list`. `word` is scratch space of the sort.
struct NameRef {
  uint64_t word = 0;
  uint32_t list = 0, at = 0;
};

// The eight bytes of a name from `depth` on, padded with zeros, as a number with the same order.
inline uint64_t name_word(std::string_view name, size_t depth) {
  uint64_t word = 0;
  if (depth < name.size()) std::memcpy(&word, name.data() + depth, std::min<size_t>(name.size() - depth, sizeof word));
  return __builtin_bswap64(word);  // types.cpp asserts that the machine is little-endian
}

inline bool from_earlier(const NameRef& a, const NameRef& b) {
  return a.list != b.list ? a.list < b.list : a.at < b.at;
}

template <typename Name>
std::pair<size_t, size_t> sizes_of(std::span<const NameRef> refs, Name&& name) {
  std::pair<size_t, size_t> range(SIZE_MAX, 0);
  for (const NameRef& ref : refs) {
    size_t size = name(ref).size();
    range = {std::min(range.first, size), std::max(range.second, size)};
  }
  return range;
}

// Sorts by the bytes of the names; equal names by list, then by place in it. All `refs` must share their first `depth`
// bytes and come in the order of list and place. `name(ref)` must give the same text throughout. Names may hold any
// bytes.
template <typename Name>
void sort_by_name(std::span<NameRef> refs, Name&& name, size_t depth = 0) {
  while (refs.size() > 1) {
    bool sorted = true;
    for (size_t i = 0; i < refs.size(); i++) {
      refs[i].word = name_word(name(refs[i]), depth);
      sorted &= i == 0 || refs[i - 1].word <= refs[i].word;
    }
    depth += sizeof(uint64_t);
    if (!sorted)
      std::sort(refs.begin(), refs.end(), [](const NameRef& a, const NameRef& b) {
        return a.word != b.word ? a.word < b.word : from_earlier(a, b);
      });
    if (refs.front().word == refs.back().word) {
      auto [shortest, longest] = sizes_of(refs, name);
      if (shortest > depth) continue;
      // All words are equal and one name ends here: the names are equal, unless some end in zero bytes.
      if (shortest != longest)
        std::stable_sort(refs.begin(), refs.end(),
                         [&](const NameRef& a, const NameRef& b) { return name(a) < name(b); });
      return;
    }
    for (size_t first = 0, end; first < refs.size(); first = end) {
      for (end = first + 1; end < refs.size() && refs[end].word == refs[first].word; end++) {
      }
      sort_by_name(refs.subspan(first, end - first), name, depth);
    }
    return;
  }
}

}  // namespace ckpt
