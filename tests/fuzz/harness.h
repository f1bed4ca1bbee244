// Shared by the fuzzers: turns the fuzzer's bytes into files with right checksums, so that it gets past them.
#pragma once

#include <cstdlib>
#include <cstring>

#include "format/checksum.h"
#include "format/framing.h"
#include "format/index.h"
#include "maintain/verify.h"
#include "store/store.h"

namespace ckpt::fuzz {

inline Bytes input(const uint8_t* data, size_t size) { return std::as_bytes(std::span(data, size)); }
// A copy, aligned like a file in memory.
inline std::vector<std::byte> copy_of(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

// Aborts unless `holds`, which must be true for any input.
inline void must(bool holds) {
  if (!holds) std::abort();
}

// Aborts unless a file may get this refusal. Any other status is a bug of ours.
inline void must_blame_the_bytes(const Status& status) {
  switch (status.code()) {
    case CKPT_OK:
    case CKPT_CORRUPT:
    case CKPT_FORMAT:
    case CKPT_REVISION:
    case CKPT_UNSUPPORTED:
    case CKPT_INCOMPLETE:
    case CKPT_MISMATCH:
    case CKPT_ABORTED:
    case CKPT_EXISTS:
    case CKPT_NOMEM:
      return;
    default:
      std::abort();
  }
}

// Reads every text and region of an index that was accepted.
inline uint64_t walk(const format::Index& index) {
  uint64_t sum = 0;
  auto read = [&](const fb::Text& text) {
    for (char c : index.text(text)) sum += static_cast<unsigned char>(c);
  };
  for (const auto& tensor : index.tensors) {
    read(tensor.name());
    must(index.find_tensor(index.text(tensor.name())) == &tensor);
    for (const auto& segment : index.segments_of(tensor)) {
      sum += index.region_of(segment, tensor.ndim()).box.volume();
      for (const auto& chunk : index.chunks_of(segment)) sum += chunk.offset();
    }
  }
  for (const auto& alias : index.aliases) {
    read(alias.name());
    read(alias.target());
    must(index.find_alias(index.text(alias.name())) == &alias);
  }
  for (const auto& object : index.objects) {
    read(object.name());
    read(object.media_type());
    if (object.placement() == 0)
      for (std::byte byte : index.inline_data.subspan(object.inline_offset(), object.size()))
        sum += static_cast<uint64_t>(byte);
  }
  for (const auto& attr : index.attrs) {
    read(attr.owner());
    read(attr.key());
    read(attr.value());
    must(!index.attrs_of(index.text(attr.owner())).empty());
  }
  return sum;
}

}  // namespace ckpt::fuzz
