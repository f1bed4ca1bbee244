#include "session/session_plan.h"

#include <charconv>

#include "base/text.h"
#include "codec/checksum.h"
#include "format/names.h"

namespace ckpt::session {

// Without it, a string that was cut short on its way could pass with a smaller last number.
static std::string checksum_of(std::string_view fields) {
  return strformat("{:08x}", static_cast<uint32_t>(codec::xxh3_64(as_bytes(fields))));
}

std::string to_session_string(const SessionPlan& plan) {
  std::string fields = "ckpt1;" + plan.run + ";" + std::to_string(plan.token) + ";" + std::to_string(plan.world_size) +
                       ";" + to_hex(plan.session_id) + ";" + to_hex(plan.store_id) + ";" +
                       std::to_string(plan.chunk_bytes) + ";" + std::to_string(plan.large_tensor_bytes) + ";" +
                       std::to_string(plan.heartbeat_ms) + ";";
  return fields + checksum_of(fields);
}

static constexpr uint64_t kMostHeartbeatMs = 3600000;  // of the option

template <typename T>
static bool parse_number(std::string_view text, T* out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

Result<SessionPlan> parse_session_string(std::string_view text) {
  const std::vector<std::string_view> fields = split(text, ';');
  SessionPlan plan;
  auto session_id = fields.size() == 10 ? id_from_hex(fields[4]) : Result<Id>(Id{});
  auto store_id = fields.size() == 10 ? id_from_hex(fields[5]) : Result<Id>(Id{});
  if (fields.size() != 10 || fields[9] != checksum_of(text.substr(0, text.size() - fields[9].size())) ||
      fields[0] != "ckpt1" || !format::check_run(fields[1]).ok() || !parse_number(fields[2], &plan.token) ||
      !parse_number(fields[3], &plan.world_size) || !session_id.ok() || !store_id.ok() ||
      !parse_number(fields[6], &plan.chunk_bytes) || !parse_number(fields[7], &plan.large_tensor_bytes) ||
      !parse_number(fields[8], &plan.heartbeat_ms) || plan.world_size == 0 || plan.chunk_bytes == 0 ||
      plan.chunk_bytes % kAlign != 0 || plan.chunk_bytes > kMaxChunkBytes || plan.large_tensor_bytes == 0 ||
      plan.heartbeat_ms > kMostHeartbeatMs)
    return Status(CKPT_INVALID, "not a session string of protocol ckpt1: \"" + std::string(text.substr(0, 200)) + "\"");
  plan.run = fields[1];
  plan.session_id = *session_id;
  plan.store_id = *store_id;
  return plan;
}

}  // namespace ckpt::session
