// What a store promises, tried on it: for whoever writes one, and before a training relies on one.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "store/store.h"

namespace ckpt::maintain {

struct Promise {
  enum State { kHolds, kWithout, kBroken };  // kWithout: it is not promised, and ckpt does without it
  std::string name;                          // "exclusive_put"
  State state = kHolds;
  std::string found{};

  Status holds(std::string text) { return found = std::move(text), Ok(); }
  Status lacks(std::string text) { return state = kWithout, found = std::move(text), Ok(); }
};

// Works in a directory of its own and removes it. Fails only where nothing can be said.
Result<std::vector<Promise>> check_store(store::Store& store);

}  // namespace ckpt::maintain
