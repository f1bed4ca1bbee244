// What a C call gets from its caller: handles that a forked child must not use, and structs that may be older (shorter)
// or newer (longer) than ours. For api, and for libraries above the ABI.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "base/process.h"
#include "base/status.h"

namespace ckpt {

// What every handle starts with: the process that made it, to which it belongs.
struct Owned {
  pid_t pid = current_process();
  bool forked() const { return pid != current_process(); }
};

inline Status forked_status() {
  return Status(CKPT_FORKED, "this object was made before fork(); the child can only free it");
}
inline Status null_status(const char* what) { return Status(CKPT_INVALID, std::string(what) + " is NULL"); }

// INVALID for a handle that is NULL, FORKED for one of the parent process.
template <typename Handle>
Status usable(const Handle* handle, const char* what) {
  if (!handle) return null_status(what);
  return handle->forked() ? forked_status() : Ok();
}

// Copies an info record to a caller.
template <typename Info>
Status put_info(const Info& info, Info* out) {
  if (!out) return null_status("out");
  if (out->struct_size < sizeof(uint32_t)) return Status(CKPT_INVALID, "struct_size is not set");
  uint32_t size = out->struct_size;
  std::memcpy(out, &info, std::min<size_t>(size, sizeof info));
  out->struct_size = size;
  return Ok();
}

// Reads a struct of a caller that has `least` bytes at least; ours has `size`. UNSUPPORTED if a longer one sets fields
// that we do not know.
Status get_struct(const void* from, void* to, size_t least, size_t size);
Status get_desc(const ckpt_tensor_desc* desc, ckpt_tensor_desc* full);
// UNSUPPORTED unless the field `reserved` of a descriptor is 0: a newer program may mean something by it.
Status check_reserved(uint32_t reserved);

}  // namespace ckpt
