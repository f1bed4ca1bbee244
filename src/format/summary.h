// Who and what a checkpoint is: FORMAT §4, summary, as plain values. Stateless.
#pragma once

#include <string>
#include <vector>

#include "base/types.h"
#include "ckpt_generated.h"

namespace ckpt::format {

// Bits of required_features: older readers must refuse. Exactly indexes with bases, and with tables in runs, have them.
inline constexpr uint64_t kHasBases = 1, kHasRuns = 2;

struct Summary {
  uint32_t revision = CKPT_FORMAT_REVISION;
  uint64_t required_features = 0;
  Id store_id, session_id, save_id;
  std::string run, label, writer;
  uint64_t token = 0, attempt = 0, sequence = 0;
  int64_t step = -1;
  uint32_t world_size = 0;
  uint64_t created_unix_ms = 0;
  uint32_t part_count = 0;
  uint64_t tensor_count = 0, object_count = 0, part_bytes = 0;
  bool rebuilt = false;
  uint32_t base_count = 0;
  uint64_t base_bytes = 0, used_bytes = 0;
  // The greater of two of a run is the later one.
  std::pair<uint64_t, uint64_t> when() const { return {token, sequence}; }
  bool operator==(const Summary&) const = default;
};

inline Id id_of(const fb::Digest& digest) { return {digest.lo(), digest.hi()}; }
inline fb::Digest digest_of(const Id& id) { return fb::Digest(id.lo, id.hi); }

std::vector<std::byte> encode_summary(const Summary& summary);
Result<Summary> decode_summary(Bytes bytes);  // FORMAT, REVISION

// ---- inside a root ----
flatbuffers::Offset<fb::Summary> put_summary(flatbuffers::FlatBufferBuilder& builder, const Summary& summary);
Result<Summary> read_summary(const fb::Summary* summary);  // FORMAT, REVISION

}  // namespace ckpt::format
