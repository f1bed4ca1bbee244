#include "base/strformat.h"

#include <charconv>
#include <cstdio>

namespace ckpt {

void FormatArg::append_to(std::string* out, std::string_view spec) const {
  if (kind_ == Kind::kText) {
    out->append(text_);
    return;
  }
  char digits[32] = {};
  if (kind_ == Kind::kReal) {
    out->append(digits, static_cast<size_t>(std::snprintf(digits, sizeof digits, "%g", real_)));
    return;
  }
  const bool zeros = spec.starts_with('0'), upper = spec.ends_with('X'), hex = upper || spec.ends_with('x');
  size_t width = 0;
  std::from_chars(spec.data(), spec.data() + spec.size(), width);
  const int base = hex ? 16 : 10;
  const auto end = kind_ == Kind::kSigned
                       ? std::to_chars(digits, digits + sizeof digits, static_cast<int64_t>(bits_), base).ptr
                       : std::to_chars(digits, digits + sizeof digits, bits_, base).ptr;
  const auto size = static_cast<size_t>(end - digits);
  if (size < width) out->append(width - size, zeros ? '0' : ' ');
  for (size_t i = 0; i < size; i++)
    out->push_back(upper && digits[i] >= 'a' ? static_cast<char>(digits[i] - 'a' + 'A') : digits[i]);
}

std::string strformat_args(std::string_view pattern, const FormatArg* args) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); i++) {
    const char c = pattern[i];
    if ((c != '{' && c != '}') || (i + 1 < pattern.size() && pattern[i + 1] == c)) {
      out.push_back(c);
      i += c == '{' || c == '}';
      continue;
    }
    const size_t close = pattern.find('}', i);  // the compiler has checked the pattern
    std::string_view spec = pattern.substr(i + 1, close - i - 1);
    if (spec.starts_with(':')) spec.remove_prefix(1);
    args++->append_to(&out, spec);
    i = close;
  }
  return out;
}

}  // namespace ckpt
