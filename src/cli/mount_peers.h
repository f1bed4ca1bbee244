// What several machines see of each other's names, removals and locks in one folder. They meet in it, and have no other
// way to talk: what one says is a file, which the others find by listing. One thread.
#pragma once

#include "cli/mount_probe.h"

namespace cli {

// From what one did until another saw it, in ms, sorted; `missed` were not seen in the time that they had.
struct Delays {
  std::vector<double> ms;
  size_t missed = 0;
  double median() const { return ms.empty() ? -1 : ms[ms.size() / 2]; }
  double worst() const { return ms.empty() ? -1 : ms.back(); }
};
inline constexpr const char* kViews[] = {"lookup", "opened", "listing"};  // by View

struct Peers {
  bool first = false;                     // who is to report
  std::vector<std::string> ids, about;    // "nodeA-4711"; what each says about itself
  Delays names[3], removals[3], unlocks;  // by View
  size_t locks_seen = 0, locks_unseen = 0;
  size_t races = 0, fair_races = 0;  // for a name; those that exactly one has won
  double clock_error = 0;            // ms
};

// Throws Refused, with who is missing.
Peers meet_peers(const std::string& directory, size_t count, Ms timeout, const std::string& about, Watch& watch);

}  // namespace cli
