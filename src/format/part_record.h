// Records of parts, and of bases: parts of earlier checkpoints, in which chunks of this one lie (FORMAT §4). Pure.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"
#include "format/summary.h"

namespace ckpt::format {

enum PartKind : uint8_t { kPart = 0, kBase = 1 };

// Which file it is, whatever checkpoint it lies in. Bases are in this order.
inline std::pair<Id, uint32_t> identity_of(const fb::Part& part) { return {id_of(part.save_id()), part.rank()}; }

// "PART_003", "BASE_<32 hexadecimal digits>_003"
std::string file_name(const fb::Part& part);

// The same file as a base of another checkpoint.
fb::Part as_base(const fb::Part& part);

// Whether two records describe one file in the same way, as part or as base.
bool same_file(const fb::Part& a, const fb::Part& b);

// Whether sizes and the place of the index fit each other.
bool fits(const fb::Part& part);

// FORMAT unless it is a base of a checkpoint other than its own, and follows the one before, which may be null.
Status check_base(const fb::Part& base, const Id& own, const fb::Part* before);

}  // namespace ckpt::format
