#include "interop/shards/format.h"
namespace ckpt::interop {
Result<std::vector<StatePart>> read_olmo_local(const std::string&, const ReadOptions&) {
  return Status(CKPT_UNSUPPORTED, "OLMo type local or olmo_core 0.1 is not read yet");
}
}  // namespace ckpt::interop
