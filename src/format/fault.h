// What the readers of untrusted FlatBuffers share: errors for broken rules, and the first look at a buffer.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "base/types.h"
#include "ckpt_generated.h"

namespace ckpt::format {

// The error for a broken rule. Cold: kept out of the code that checks good records.
[[gnu::cold, gnu::noinline]] inline Status bad(std::string what) { return Status(CKPT_FORMAT, std::move(what)); }

inline bool range_ok(uint64_t first, uint64_t count, size_t size) { return first <= size && count <= size - first; }

// FORMAT unless `bytes` are a sound FlatBuffer of this type, aligned to 8 (numbers of the file say where it is).
template <typename Root>
Result<const Root*> open_flatbuffer(Bytes bytes, const char* identifier, const char* what) {
  // Vectors of structs need very few tables, so no legitimate buffer meets these limits.
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), 8, 16);
  if (reinterpret_cast<uintptr_t>(bytes.data()) % 8 != 0 || !verifier.VerifyBuffer<Root>(identifier))
    return bad(strformat("{} is no FlatBuffer \"{}\"", what, identifier));
  return flatbuffers::GetRoot<Root>(bytes.data());
}

// A column of structs. FlatBuffers' verifier checks where a vector starts, not whether its structs are aligned.
template <typename T>
Status get_column(const flatbuffers::Vector<const T*>* vector, std::span<const T>* out) {
  *out = {};
  if (!vector || vector->size() == 0) return Ok();
  auto* data = reinterpret_cast<const T*>(vector->Data());
  if (reinterpret_cast<uintptr_t>(data) % alignof(T) != 0) return bad("a vector of structs is not aligned");
  *out = {data, vector->size()};
  return Ok();
}
template <typename Number>
Status get_column(const flatbuffers::Vector<Number>* vector, std::span<const Number>* out) {
  *out = {};
  if (!vector || vector->size() == 0) return Ok();
  if (reinterpret_cast<uintptr_t>(vector->data()) % alignof(Number) != 0) return bad("the numbers are not aligned");
  *out = {vector->data(), vector->size()};
  return Ok();
}

// Whether programs that count in signed numbers can hold extents, offsets and strides.
inline bool numbers_ok(std::span<const uint64_t> numbers) {
  uint64_t all = 0;
  for (const uint64_t number : numbers) all |= number;
  return all >> 63 == 0;
}

// Whether a text lies inside `names` and ends with a zero byte there.
inline bool text_ok(std::string_view names, const fb::Text& text) {
  const uint64_t end = uint64_t{text.offset()} + text.size();
  return end < names.size() && names[end] == '\0';
}

}  // namespace ckpt::format
