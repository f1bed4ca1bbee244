// What all ranks of a session agree on, and the string that carries it. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/types.h"

namespace ckpt::session {

struct SessionPlan {
  std::string run;
  uint64_t token = 0;
  uint32_t world_size = 1;
  Id session_id, store_id;
  uint64_t chunk_bytes = 0, large_tensor_bytes = 0, heartbeat_ms = 0;
  bool is_import = false;  // rank 0's, for its records; not in the string
};

// "ckpt1;run;token;world size;session id;store id;chunk bytes;large tensor bytes;heartbeat ms;checksum"
std::string to_session_string(const SessionPlan& plan);
Result<SessionPlan> parse_session_string(std::string_view text);  // INVALID

}  // namespace ckpt::session
