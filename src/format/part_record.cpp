#include "format/part_record.h"

#include <cstring>

#include "format/fault.h"
#include "format/framing.h"
#include "format/index_root.h"
#include "format/names.h"

namespace ckpt::format {

std::string file_name(const fb::Part& part) {
  return part.kind() == kBase ? base_name(id_of(part.save_id()), part.rank()) : part_name(part.rank());
}

fb::Part as_base(const fb::Part& part) {
  return fb::Part(part.size(), part.index_offset(), part.index_size(), 0, part.root_digest(), part.save_id(),
                  part.root_size(), part.rank(), uint8_t{kBase}, uint8_t{0}, uint16_t{0}, 0u);
}

bool same_file(const fb::Part& a, const fb::Part& b) {
  const fb::Part first = as_base(a), second = as_base(b);
  return std::memcmp(&first, &second, sizeof first) == 0;  // a struct of the schema has no gaps
}

bool fits(const fb::Part& part) {
  uint64_t end;
  return part.size() % kAlign == 0 && part.index_offset() >= kAlign && part.index_offset() % kPageAlign == 0 &&
         part.root_size() != 0 && part.root_size() <= part.index_size() &&
         !add_overflows(part.index_offset(), part.index_size(), &end) && end <= part.size();
}

Status check_base(const fb::Part& base, const Id& own, const fb::Part* before) {
  if (base.kind() != kBase || base.copy_offset() != 0 || base.pad() != 0 || base.pad2() != 0 || base.pad3() != 0 ||
      !fits(base))
    return bad("a base is not described well");
  if (id_of(base.save_id()) == own) return bad("a checkpoint is a base of itself");
  if (before && identity_of(*before) >= identity_of(base)) return bad("bases are out of order");
  return Ok();
}

}  // namespace ckpt::format
