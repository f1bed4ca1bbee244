// The bytes become the `.metadata` of a directory of torch.distributed.checkpoint whose other files are sound (those of
// interop/tests/fixtures/dcp/fsdp2). Whatever is accepted is one state, in which no piece reaches beyond its bytes.
#include "interop/fuzz/pt_files.h"
#include "interop/src/dcp/format.h"

namespace ckpt::fuzz {
namespace {

namespace fs = std::filesystem;

struct ScratchOfDcp : Scratch {
  ScratchOfDcp() : Scratch("dcp_fuzz") {
    for (const auto& file : fs::directory_iterator(CKPT_FUZZ_FIXTURES "/dcp/fsdp2"))
      if (file.path().extension() == ".distcp") fs::copy(file.path(), folder / file.path().filename());
  }
};

}  // namespace
}  // namespace ckpt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ckpt;
  static const fuzz::ScratchOfDcp scratch;
  const std::filesystem::path& folder = scratch.folder;
  std::ofstream(folder / ".metadata", std::ios::binary).write(reinterpret_cast<const char*>(data), ssize_t(size));
  const interop::ReadOptions options{false, 1};
  auto state = interop::read_dcp(folder, options);
  fuzz::must_blame_the_bytes(state.status());
  if (!state.ok()) return 0;
  const Status found = state->find_elements(options);
  fuzz::must_blame_the_bytes(found);
  if (found.ok()) fuzz::read_pieces(*state);
  return 0;
}
