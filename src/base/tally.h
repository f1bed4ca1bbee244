// What the work of a job asks of servers, by the kinds that providers bill; and whether it was cancelled.
// All members may be used from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace ckpt {

enum class RequestKind { kGet, kPut, kList, kDelete };

struct Tally : std::enable_shared_from_this<Tally> {
  std::atomic<uint64_t> gets{0}, puts{0}, lists{0}, deletes{0};
  std::atomic<uint64_t> retries{0};  // of all these
  std::atomic<uint64_t> bytes_sent{0}, bytes_received{0};
  std::atomic<bool> cancelled{false};
  std::shared_ptr<Tally> outer;  // of the job that this one is a part of; set before the work begins

  void add(const Tally& other);
  // Becomes what `now` has more than `before`.
  void become(const Tally& now, const Tally& before);
};

}  // namespace ckpt
