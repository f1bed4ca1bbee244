#include "base/tally.h"

namespace ckpt {

static constexpr std::atomic<uint64_t> Tally::* kCounts[] = {&Tally::gets,          &Tally::puts,    &Tally::lists,
                                                             &Tally::deletes,       &Tally::retries, &Tally::bytes_sent,
                                                             &Tally::bytes_received};

void Tally::add(const Tally& other) {
  for (const auto count : kCounts) this->*count += other.*count;
}

void Tally::become(const Tally& now, const Tally& before) {
  for (const auto count : kCounts) this->*count = now.*count - before.*count;
}

}  // namespace ckpt
