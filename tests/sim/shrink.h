// Makes a failing world smaller, until a person can read what went on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/schedule.h"

namespace sim {

// Takes as many events from a failing seed's world as it can, larger parts first, so that it still fails in the same
// words; delta debugging (Zeller, Hildebrandt: Simplifying and Isolating Failure-Inducing Input, 2002). `run` is called
// in processes of their own. Prints what is left, as read_smaller() reads it. False if the seed does not fail.
bool shrink(uint64_t seed, const std::function<void(const Smaller&)>& run);
Smaller read_smaller(const std::string& text);

}  // namespace sim
