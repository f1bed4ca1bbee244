// When a training saves: every so many steps, epochs or seconds. No state of its own; any thread.
#pragma once

#include <map>
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

// Which counters have passed another multiple.
struct Due {
  bool by_step = false;  // the step: the same on all ranks
  size_t by_count = 0;   // 1 + the place of another one, which each rank may count for itself; 0: none
  explicit operator bool() const { return by_step || by_count > 0; }
};

class Schedule {
 public:
  // "500 steps, 10 min", "idle"; "" is never. INVALID
  static Result<Schedule> parse(std::string_view text);
  // By the counters. `last`: the moment before. `saved`: by place, the multiples that other ranks' counters have passed
  // in this one's place. INVALID if a counter was not told.
  using Multiples = std::map<size_t, double>;
  Result<Due> due_by_counters(const Moment& now, const std::optional<Moment>& last, const Multiples& saved = {}) const;
  // Another rank's counter at this place has passed a multiple, and all have saved: this rank's next one is saved, too.
  void count_as_saved(size_t place, const Moment& now, Multiples* saved) const;
  // Whether it has counters other than the step: each rank tells its own, so they may differ.
  bool counts_more_than_steps() const;
  // By the clock, `seconds` after the save before. `saving`: that one still runs.
  bool due_by_clock(double seconds, bool saving) const;
  bool has_clock() const { return !seconds_.empty() || idle_; }

 private:
  std::vector<std::pair<std::string_view, double>> counts_;  // static names, and every how many
  std::vector<double> seconds_;
  std::optional<double> idle_;  // of "idle 30 s" the seconds, of "idle" 0
};

// "90", "90 s" or "1.5 h". INVALID
Result<double> parse_seconds(std::string_view option, std::string_view text);

}  // namespace ckpt::keeper
