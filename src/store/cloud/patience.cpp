#include "store/cloud/patience.h"

#include <time.h>

#include <algorithm>
#include <charconv>

namespace ckpt::store::cloud {

static constexpr int64_t kFirstPauseMs = 100, kMostPauseMs = 5000;
static constexpr int64_t kLateMs = 60000;  // a process that was stopped for so long beyond its patience gives up

// Goes on while the machine sleeps.
static int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

bool is_passing_status(long status) {
  return status == 500 || status == 502 || status == 503 || status == 504 || status == 408 || status == 429;
}

Status with_last_try(const Status& over, const Status& last) {
  Status status(over.code(), over.message() + "; the last try: " + last.message());
  for (const auto& [key, value] : over.details()) status = std::move(status).with(key, value);
  return status;
}

// Not all of them at the same moment.
void Patience::wait_for_calm(const CallContext& context) const {
  const int64_t left = calm_from_ - now_ms();
  if (left <= 0) return;
  const int64_t chance = static_cast<int64_t>(random_id().lo % static_cast<uint64_t>(left / 4 + 1));
  (void)context.pause(left + chance);
}

void Patience::slow_down(int64_t ms) {
  const int64_t until = now_ms() + ms;
  int64_t known = calm_from_;
  while (known < until && !calm_from_.compare_exchange_weak(known, until)) {
  }
}

// Half to all of a time that doubles.
static int64_t pause_after(int failures) {
  const int64_t longest = std::min(kMostPauseMs, kFirstPauseMs << std::min(failures, 10));
  return longest / 2 + static_cast<int64_t>(random_id().lo % static_cast<uint64_t>(longest / 2 + 1));
}

// "120" seconds; 0 if it says nothing or a date.
static int64_t retry_after_ms(const HttpReply& reply) {
  const std::string* text = reply.header("retry-after");
  int64_t seconds = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), seconds);
  return std::clamp<int64_t>(seconds, 0, 60) * 1000;
}

void Patience::failed(Try* tries) {
  if (tries->first_failed == 0) tries->first_failed = now_ms();
}

// The last try comes when patience ends, however long the server wants to wait.
bool Patience::wait_to_try_again(const HttpReply& reply, bool busy, const Try& tries, const CallContext& context) {
  const int64_t patience = answered_ ? timing_.retry_ms : timing_.first_ms, end = tries.first_failed + patience,
                left = end - now_ms();
  if (left <= 0) return false;
  const int64_t pause = std::min(left, std::max(pause_after(tries.count), retry_after_ms(reply)));
  if (busy) slow_down(pause);
  if (!context.pause(pause).ok()) return false;
  // A request that comes much later may meet what was removed since.
  return now_ms() < end + kLateMs;
}

}  // namespace ckpt::store::cloud
