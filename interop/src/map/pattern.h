// A name with placeholders, "layers.{i}.attn.{which}_proj.weight": it matches names, and makes one of what another
// pattern took from a name. {x} is one or more characters but '.' and '/'; {*x} is any text, also none, and stands once
// in a pattern at most; "{{" is a brace. Patterns and not regular expressions, because a pattern runs in both
// directions, and because names come from files: a match takes at most the product of both lengths. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ckpt::interop {

using Captures = std::map<std::string, std::string>;

class Pattern {
 public:
  // INVALID
  static Result<Pattern> parse(std::string_view text);

  std::optional<Captures> match(std::string_view name) const;
  // `captures` has all placeholders of this pattern.
  std::string expand(const Captures& captures) const;
  // Each once, in the order of their names.
  const std::vector<std::string>& placeholders() const { return placeholders_; }
  const std::string& text() const { return text_; }

 private:
  struct Item {
    std::string text;  // as it is, or the placeholder's name
    enum Kind { kLiteral, kSegment, kAny } kind;
  };
  bool match_from(size_t item, std::string_view rest, Captures* captures) const;
  bool take(const std::string& placeholder, std::string_view value, Captures* captures) const;

  std::string text_;
  std::vector<Item> items_;
  std::vector<std::string> placeholders_;
  std::ptrdiff_t segments_after_any_ = 0;  // how many '.' and '/' stand behind {*x}
};

// Whether `name`, or a place above it ("optimizer" of "optimizer/state/0"), fits a glob: * is any text, ? one
// character. Takes at most the product of both lengths.
bool fits_place(std::string_view glob, std::string_view name);

}  // namespace ckpt::interop
