// Pickles as text: what the tests of the pickle machine compare.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "interop/src/pickle/pickle.h"

namespace ckpt::interop {

using namespace std::string_literals;
using namespace std::string_view_literals;

inline std::string render(const PickleDocument& document, PickleRef ref, int depth = 0);

inline std::string render_items(const PickleDocument& document, std::span<const PickleRef> items, int depth) {
  std::string text;
  for (PickleRef item : items) text += (text.empty() ? "" : " ") + render(document, item, depth + 1);
  return text;
}

inline std::string hex(std::string_view bytes) {
  std::string text;
  for (char c : bytes) text += strformat("{:02x}", static_cast<unsigned char>(c));
  return text;
}

// builtins.complex(1 2), with the rest that it has: k={kwargs} s=state [items] {entries}
inline std::string render_object(const PickleDocument& document, const PickleValue& value, int depth) {
  std::string name(document[value.callee()].text);
  name[name.find(' ')] = '.';
  std::string text = name + "(" + render_items(document, document[value.args()].items, depth) + ")";
  if (value.kwargs() != kNoValue) text += " k=" + render(document, value.kwargs(), depth + 1);
  if (value.state() != kNoValue) text += " s=" + render(document, value.state(), depth + 1);
  if (!value.items.empty()) text += "[" + render_items(document, value.items, depth) + "]";
  if (!value.entries().empty()) text += "{" + render_items(document, value.entries(), depth) + "}";
  return text;
}

inline std::string render(const PickleDocument& document, PickleRef ref, int depth) {
  if (depth > 9) return "...";
  const PickleValue& value = document[ref];
  auto items = [&] { return render_items(document, value.items, depth); };
  switch (value.kind) {
    case PickleKind::kNone:
      return "None";
    case PickleKind::kBool:
      return value.integer ? "True" : "False";
    case PickleKind::kInt:
      return std::to_string(value.integer);
    case PickleKind::kBigInt:
      return std::string(value.text) + "L";
    case PickleKind::kFloat: {
      char digits[32];
      std::snprintf(digits, sizeof digits, "%.17gf", value.real);
      return digits;
    }
    case PickleKind::kText:
      return "'" + std::string(value.text) + "'";
    case PickleKind::kSurrogates:
      return "surrogates:" + hex(value.text);
    case PickleKind::kBytes:
      return "b" + hex(value.text);
    case PickleKind::kByteArray:
      return "a" + hex(value.text);
    case PickleKind::kList:
      return "[" + items() + "]";
    case PickleKind::kTuple:
      return "(" + items() + ")";
    case PickleKind::kSet:
      return "set<" + items() + ">";
    case PickleKind::kFrozenSet:
      return "frozenset<" + items() + ">";
    case PickleKind::kDict:
      return "{" + items() + "}";
    case PickleKind::kName:
      return "<" + std::string(value.text) + ">";
    case PickleKind::kPersistent:
      return "persistent:" + items();
    case PickleKind::kObject:
      return render_object(document, value, depth);
  }
  return "?";
}

// The value that `pickle` holds, or the error.
inline std::string read(std::string_view pickle) {
  const Result<PickleDocument> document = parse_pickle(as_bytes(pickle), "x.pt");
  if (document.ok()) return render(*document, document->root());
  return status_name(document.status().code()) + (": " + document.status().message());
}

inline std::string fact(std::string_view pickle, std::string_view key) {
  const Result<PickleDocument> document = parse_pickle(as_bytes(pickle), "x.pt");
  const std::string* found = document.status().detail(key);
  return found ? *found : "none";
}

}  // namespace ckpt::interop
