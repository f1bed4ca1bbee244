#include "interop/src/map/view.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "tree/json_text.h"

namespace ckpt::interop {

namespace {

using Groups = Rearrange::Groups;

Status wrong_rearrange(std::string_view text, const std::string& what) {
  return Status(CKPT_INVALID, "rearrange " + shown(text) + ": " + what).with("found", std::string(text));
}

bool is_size_number(const std::string& word) { return word[0] >= '0' && word[0] <= '9'; }

bool is_size_word(std::string_view word) {
  const bool plain = std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
  const bool starts = !word.empty() && word[0] >= '0' && word[0] <= '9';
  return plain && !word.empty() && (!starts || (word.size() <= 9 && word.find_first_not_of("0123456789") == word.npos));
}

// Words, alone or in brackets.
Result<Groups> parse_side(std::string_view text, std::string_view all) {
  Groups groups;
  bool open = false;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == ' ' || c == '(' || c == ')') {
      if ((c == '(' && open) || (c == ')' && !open)) return wrong_rearrange(all, "brackets that do not fit");
      if (c == '(') groups.emplace_back();
      if (c != ' ') open = c == '(';
      i++;
      continue;
    }
    const size_t end = std::min(text.find_first_of(" ()", i), text.size());
    const std::string word(text.substr(i, end - i));
    if (!is_size_word(word) || word == "0")
      return wrong_rearrange(all, "expected a word or a number, found " + shown(word));
    if (!open) groups.emplace_back();
    groups.back().push_back(word);
    i = end;
  }
  if (open) return wrong_rearrange(all, "brackets that do not fit");
  if (groups.size() > static_cast<size_t>(kMaxNdim)) return wrong_rearrange(all, "too many dimensions");
  return groups;
}

std::vector<std::string> words_of(const Groups& groups) {
  std::vector<std::string> words;
  for (const auto& group : groups) words.insert(words.end(), group.begin(), group.end());
  std::sort(words.begin(), words.end());
  return words;
}

}  // namespace

Result<Rearrange> Rearrange::parse(std::string_view text) {
  const size_t arrow = text.find("->");
  if (arrow == text.npos) return wrong_rearrange(text, "expected LEFT -> RIGHT");
  Rearrange out;
  CKPT_ASSIGN(out.from, parse_side(text.substr(0, arrow), text));
  CKPT_ASSIGN(out.to, parse_side(text.substr(arrow + 2), text));
  const std::vector<std::string> words = words_of(out.from);
  if (words != words_of(out.to)) return wrong_rearrange(text, "expected the same words on both sides");
  for (size_t i = 1; i < words.size(); i++)
    if (words[i] == words[i - 1] && !is_size_number(words[i])) return wrong_rearrange(text, words[i] + " comes twice");
  return out;
}

// ---- loops ----

View View::of(const Shape& source) {
  View view;
  view.source_ = source;
  view.start_.ndim = source.ndim;
  for (int i = 0; i < source.ndim; i++) {
    Axis& axis = view.axes_.emplace_back();
    if (source[i] != 1) axis.push_back({source[i], i, 1});
  }
  return view;
}

uint64_t View::extent(int axis) const {
  uint64_t extent = 1;
  for (const Loop& loop : axes_[static_cast<size_t>(axis)]) extent *= loop.extent;  // at most the source's elements
  return extent;
}

Shape View::shape() const {
  Shape shape;
  shape.ndim = ndim();
  for (int i = 0; i < shape.ndim; i++) shape[i] = extent(i);
  return shape;
}

bool View::is_identity() const {
  if (ndim() != source_.ndim || start_ != Shape{source_.ndim, {}}) return false;
  for (int i = 0; i < ndim(); i++) {
    const Axis& axis = axes_[static_cast<size_t>(i)];
    const bool same = axis.empty() ? source_[i] == 1 : axis.size() == 1 && axis[0].dim == i && axis[0].step == 1;
    if (!same || extent(i) != source_[i]) return false;
  }
  return true;
}

// Takes the innermost `size` off an axis; false where its loops have no border there.
static bool take_inner(View::Axis& axis, uint64_t size, View::Axis* inner) {
  while (size != 1) {
    if (axis.empty()) return false;
    View::Loop& last = axis.back();
    if (last.extent == 0 || size == 0) {
      // Of no elements: whatever loops do.
      inner->insert(inner->begin(), {size, last.dim, last.step});
      return true;
    }
    if (size % last.extent == 0) {
      size /= last.extent;
      inner->insert(inner->begin(), last);
      axis.pop_back();
    } else if (last.extent % size == 0) {
      inner->insert(inner->begin(), {size, last.dim, last.step});
      last.extent /= size;
      last.step *= size;
      return true;
    } else {
      return false;
    }
  }
  return true;
}

// "2 x 3": what an operation before this put together.
static std::string parts_of(const View::Axis& axis) {
  std::string text;
  for (const View::Loop& loop : axis) text += (text.empty() ? "" : " x ") + std::to_string(loop.extent);
  return text;
}

static Status misfit(int axis, uint64_t extent, const std::string& what) {
  return Status(CKPT_MISMATCH, strformat("dimension {} has {} elements; ", axis, extent) + what);
}

// The sizes of a group's words; of the one that nobody knows, what remains.
static Result<std::vector<uint64_t>> sizes_of(const std::vector<std::string>& group, int axis, uint64_t extent,
                                              const View::SizeOf& size_of) {
  std::vector<uint64_t> sizes;
  uint64_t known = 1;
  size_t open = group.size();
  for (const std::string& word : group) {
    CKPT_ASSIGN(const uint64_t size, is_size_number(word) ? Result<uint64_t>(std::stoull(word)) : size_of(word));
    if (size == 0 && open != group.size())
      return Status(CKPT_INVALID, "neither " + group[open] + " nor " + word + " is a number or a variable");
    if (size == 0) open = sizes.size();
    if (mul_overflows(known, std::max<uint64_t>(size, 1), &known)) return misfit(axis, extent, "sizes overflow");
    sizes.push_back(size);
  }
  if (open != group.size()) {
    if (extent % known != 0) return misfit(axis, extent, strformat("{} does not divide that", known));
    sizes[open] = extent / known;
  } else if (known != extent) {
    return misfit(axis, extent, strformat("expected {}", known));
  }
  return sizes;
}

Status View::rearrange(const Rearrange& how, const SizeOf& size_of) {
  if (how.from.size() != axes_.size())
    return Status(CKPT_MISMATCH, strformat("{} dimensions, expected {}", axes_.size(), how.from.size()));
  std::multimap<std::string, Axis> parts;
  for (size_t i = 0; i < axes_.size(); i++) {
    const int axis = static_cast<int>(i);
    const auto& group = how.from[i];
    CKPT_ASSIGN(const std::vector<uint64_t> sizes, sizes_of(group, axis, extent(axis), size_of));
    std::vector<Axis> taken(group.size());
    Axis rest = axes_[i];
    for (size_t k = group.size(); k-- > 0;)
      if (!take_inner(rest, sizes[k], &taken[k]))
        return misfit(
            axis, extent(axis),
            strformat("an operation before put it together of {}, so it cannot be cut into pieces of {} there",
                      parts_of(axes_[i]), sizes[k]));
    for (size_t k = 0; k < group.size(); k++) parts.emplace(group[k], std::move(taken[k]));
  }
  axes_.clear();
  for (const auto& group : how.to) {
    Axis& axis = axes_.emplace_back();
    for (const std::string& word : group) {
      const auto part = parts.find(word);  // of equal numbers the first
      axis.insert(axis.end(), part->second.begin(), part->second.end());
      parts.erase(part);
    }
  }
  return Ok();
}

Status View::narrow(int axis, uint64_t begin, uint64_t size) {
  if (axis < 0 || axis >= ndim()) return Status(CKPT_MISMATCH, strformat("no dimension {} of {}", axis, ndim()));
  const uint64_t all = extent(axis);
  if (begin > all || size > all - begin) return misfit(axis, all, strformat("expected {} or more", begin + size));
  if (size == all) return Ok();
  Axis& loops = axes_[static_cast<size_t>(axis)];
  const uint64_t inner = loops[0].extent == 0 ? 1 : all / loops[0].extent;
  if (begin % inner != 0 || size % inner != 0)
    return misfit(axis, all, strformat("after it was rearranged it can be cut at multiples of {} only", inner));
  Loop& outer = loops[0];
  start_[outer.dim] += begin / inner * outer.step;
  outer.extent = size / inner;
  return Ok();
}

}  // namespace ckpt::interop
