// Selectors: "latest", "step:N", "label:L", "name:N", or bare text, which is an id or else a label. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"
#include "format/slot.h"

namespace ckpt::checkpoint {

struct Selector {
  bool latest = false;
  std::optional<int64_t> step;
  std::string_view name{};  // that was given later (given_names.h)
  std::string_view label;   // if none of the others
  bool matches(const format::Summary& summary) const {
    return latest || (step ? summary.step == *step : summary.label == label);
  }
};

// INVALID for a step that is no number, or a name that nothing can have.
Result<Selector> parse_selector(std::string_view selector);

// Whether it may be the name of a directory in the store.
bool can_be_id(std::string_view selector);

}  // namespace ckpt::checkpoint
