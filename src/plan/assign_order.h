// The order of a replica group's regions, shared by assign and declaration_list. Pure.
#pragma once

#include <compare>

#include "plan/assign.h"

namespace ckpt::plan {

std::strong_ordering compare_entries(const ReplicaRegion& a, const ReplicaRegion& b);

}  // namespace ckpt::plan
