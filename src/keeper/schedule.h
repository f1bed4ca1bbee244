// When a training saves: every so many steps, epochs or seconds. No state of its own; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keeper/numbers.h"

namespace ckpt::keeper {

// Where a training is.
struct Moment {
  int64_t step = -1;
  Numbers counters{}, metrics{};
  // A counter; nothing if it was not told. "batch" is the step unless it was told.
  std::optional<double> count(std::string_view name) const;
};

class Schedule {
 public:
  // "500 steps, 10 min"; "" is never. INVALID
  static Result<Schedule> parse(std::string_view text);
  // By the counters, which are the same on all ranks. `last`: the moment before. INVALID if a counter was not told.
  Result<bool> due_by_counters(const Moment& now, const std::optional<Moment>& last) const;
  // By the clock, `seconds` after the save before.
  bool due_by_clock(double seconds) const;
  bool has_clock() const { return !seconds_.empty(); }

 private:
  std::vector<std::pair<std::string_view, double>> counts_;  // static names, and every how many
  std::vector<double> seconds_;
};

// "90", "90 s" or "1.5 h". INVALID
Result<double> parse_seconds(std::string_view option, std::string_view text);

}  // namespace ckpt::keeper
