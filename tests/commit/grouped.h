// Merges of drafted parts: directly, and by way of groups of ranks.
#pragma once

#include "checkpoint/drafted.h"
#include "codec/checksum.h"

namespace ckpt::commit {

// What a merge gives: the digest of MANIFEST, or the error.
inline std::string outcome_of(const Result<Merged>& merged) {
  if (!merged.ok()) return std::string(status_name(merged.status().code())) + ": " + merged.status().message();
  return to_hex(codec::xxh3_128(merged->file));
}

inline Result<std::vector<checkpoint::PartFile>> open_parts(const checkpoint::Drafted& drafted) {
  std::vector<checkpoint::PartFile> parts;
  for (uint32_t rank = 0; rank < drafted.indexes.size(); rank++) {
    CKPT_ASSIGN(checkpoint::PartFile part, checkpoint::open_part(*drafted.inner, "c", rank));
    parts.push_back(std::move(part));
  }
  return parts;
}

// Merges as rank 0 does if ranks form groups of `size`.
inline Result<Merged> merge_in_groups(const checkpoint::Drafted& drafted, std::span<const checkpoint::PartFile> parts,
                                      size_t size) {
  std::vector<Gathered> groups;
  for (size_t first = size; first < parts.size(); first += size) {
    const size_t count = std::min(size, parts.size() - first);
    CKPT_ASSIGN(const Gathered gathered, gather_parts(parts.subspan(first, count)));
    const format::Buffer file = gathered.encode();
    CKPT_ASSIGN(Gathered decoded, Gathered::decode(Bytes(file), gathered.summary.save_id, static_cast<uint32_t>(first),
                                                   static_cast<uint32_t>(count)));
    groups.push_back(std::move(decoded));
  }
  return merge_parts(parts.first(std::min(size, parts.size())), groups, *drafted.inner, "c", false);
}

}  // namespace ckpt::commit
