// The order of a replica group's regions, shared by dealing and by the declaration list. Pure.
#pragma once

#include <compare>

#include "plan/deal.h"

namespace ckpt::plan {

std::strong_ordering compare_entries(const DealEntry& a, const DealEntry& b);

}  // namespace ckpt::plan
