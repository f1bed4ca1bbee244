#include "interop/src/map/pattern.h"

#include <algorithm>

#include "base/text.h"
#include "tree/json_text.h"

namespace ckpt::interop {

namespace {

constexpr size_t kMaxPattern = 4096, kMaxItems = 64;

bool ends_segment(char c) { return c == '.' || c == '/'; }

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

Status refuse_pattern(std::string_view pattern, const std::string& what) {
  return Status(CKPT_INVALID, "pattern " + shown(pattern) + ": " + what).with("found", std::string(pattern));
}

}  // namespace

Result<Pattern> Pattern::parse(std::string_view text) {
  if (text.empty() || text.size() > kMaxPattern) return refuse_pattern(text, "expected 1 to 4096 bytes");
  Pattern out;
  out.text_ = text;
  bool has_any = false;
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '{' || text.substr(i, 2) == "{{") {
      if (out.items_.empty() || out.items_.back().kind != Item::kLiteral) out.items_.push_back({{}, Item::kLiteral});
      out.items_.back().text += text[i];
      i += text[i] == '{' ? 2 : 1;
      continue;
    }
    const size_t end = text.find('}', i);
    if (end == text.npos) return refuse_pattern(text, "a placeholder without }; {{ is a brace");
    const bool any = text.substr(i + 1, 1) == "*";
    const std::string_view name = text.substr(i + 1 + any, end - i - 1 - any);
    if (!is_word(name)) return refuse_pattern(text, "expected letters, digits or _ between { and }");
    if (any && has_any) return refuse_pattern(text, "more than one {*…}");
    has_any |= any;
    const bool follows = !out.items_.empty() && out.items_.back().kind != Item::kLiteral;
    if (follows) return refuse_pattern(text, "two placeholders side by side");
    const bool ends = end + 1 == text.size() || ends_segment(text[end + 1]);
    if (!any && !ends)
      return refuse_pattern(text, "after {" + std::string(name) + "} comes neither '.', '/' nor the end");
    out.items_.push_back({std::string(name), any ? Item::kAny : Item::kSegment});
    out.placeholders_.emplace_back(name);
    i = end + 1;
  }
  for (const Item& item : out.items_) {
    if (item.kind == Item::kAny) out.segments_after_any_ = 0;
    if (item.kind == Item::kLiteral)
      out.segments_after_any_ += std::count_if(item.text.begin(), item.text.end(), ends_segment);
  }
  if (out.items_.size() > kMaxItems) return refuse_pattern(text, strformat("more than {} parts", kMaxItems));
  std::sort(out.placeholders_.begin(), out.placeholders_.end());
  const auto last = std::unique(out.placeholders_.begin(), out.placeholders_.end());
  out.placeholders_.erase(last, out.placeholders_.end());
  return out;
}

std::optional<Captures> Pattern::match(std::string_view name) const {
  Captures captures;
  if (!match_from(0, name, &captures)) return std::nullopt;
  return captures;
}

// A placeholder that comes twice has one value.
bool Pattern::take(const std::string& placeholder, std::string_view value, Captures* captures) const {
  const auto [at, is_new] = captures->try_emplace(placeholder, value);
  return is_new || at->second == value;
}

// Recursion is as deep as the pattern has items, and branches at its one {*…} only.
bool Pattern::match_from(size_t item, std::string_view rest, Captures* captures) const {
  if (item == items_.size()) return rest.empty();
  const Item& now = items_[item];
  if (now.kind == Item::kLiteral)
    return rest.starts_with(now.text) && match_from(item + 1, rest.substr(now.text.size()), captures);
  if (now.kind == Item::kSegment) {
    const std::string_view value = rest.substr(0, rest.find_first_of("./"));
    return !value.empty() && take(now.text, value, captures) &&
           match_from(item + 1, rest.substr(value.size()), captures);
  }
  // What follows has as many segments in the name as in the pattern, so there are few places where it may begin.
  auto left = std::count_if(rest.begin(), rest.end(), ends_segment);
  for (size_t size = 0; size <= rest.size(); size++) {
    if (size != 0 && ends_segment(rest[size - 1])) left--;
    if (left != segments_after_any_) continue;
    Captures tried = *captures;
    if (!take(now.text, rest.substr(0, size), &tried) || !match_from(item + 1, rest.substr(size), &tried)) continue;
    *captures = std::move(tried);
    return true;
  }
  return false;
}

std::string Pattern::expand(const Captures& captures) const {
  std::string name;
  for (const Item& item : items_) name += item.kind == Item::kLiteral ? item.text : captures.at(item.text);
  return name;
}

bool fits_place(std::string_view glob, std::string_view name) {
  if (glob.find_first_of("*?") == glob.npos)
    return name.starts_with(glob) && (name.size() == glob.size() || name[glob.size()] == '/');
  // Whether what was read fits the first g of the glob, for all g; so all places above the name are tried at once.
  std::vector<bool> fits(glob.size() + 1), next;
  const auto pass_stars = [&] {
    for (size_t g = 0; g < glob.size(); g++)
      if (fits[g] && glob[g] == '*') fits[g + 1] = true;
  };
  fits[0] = true;
  pass_stars();
  for (const char c : name) {
    if (c == '/' && fits[glob.size()]) return true;
    next.assign(fits.size(), false);
    for (size_t g = 0; g < glob.size(); g++) {
      if (!fits[g]) continue;
      if (glob[g] == '*')
        next[g] = true;
      else if (glob[g] == '?' || glob[g] == c)
        next[g + 1] = true;
    }
    fits.swap(next);
    pass_stars();
  }
  return fits[glob.size()];
}

}  // namespace ckpt::interop
