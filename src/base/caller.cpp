#include "base/caller.h"

namespace ckpt {

Status get_struct(const void* from, void* to, size_t least, size_t size) {
  if (!from) return null_status("desc");
  uint32_t given;
  std::memcpy(&given, from, sizeof given);
  if (given < least) return Status(CKPT_INVALID, strformat("desc.struct_size: expected {}, found {}", size, given));
  std::memcpy(to, from, std::min<size_t>(given, size));
  for (size_t i = size; i < given; i++)
    if (static_cast<const unsigned char*>(from)[i] != 0)
      return Status(CKPT_UNSUPPORTED, "the descriptor uses fields that this library does not know");
  return Ok();
}

Status get_desc(const ckpt_tensor_desc* desc, ckpt_tensor_desc* full) {
  *full = {};
  CKPT_TRY(get_struct(desc, full, offsetof(ckpt_tensor_desc, shape), sizeof *full));
  return check_reserved(full->reserved);
}

Status check_reserved(uint32_t reserved) {
  if (reserved == 0) return Ok();
  return Status(CKPT_UNSUPPORTED, strformat("the descriptor's field `reserved`: expected 0, found {}", reserved))
      .with("expected", "0")
      .with("found", uint64_t{reserved});
}

}  // namespace ckpt
