// The bytes become the `.metadata` of a directory of torch.distributed.checkpoint whose other files are sound (those of
// tests/interop/fixtures/dcp/fsdp2). Whatever is accepted is one state, in which no piece reaches beyond its bytes.

#include <filesystem>
#include <fstream>

#include "fuzz/harness.h"
#include "interop/dcp/format.h"

namespace ckpt::fuzz {
namespace {

namespace fs = std::filesystem;

struct ScratchOfDcp : Scratch {
  ScratchOfDcp() : Scratch("dcp_fuzz") {
    for (const auto& file : fs::directory_iterator(CKPT_FUZZ_DCP))
      if (file.path().extension() == ".distcp") fs::copy(file.path(), folder / file.path().filename());
  }
};

void read_pieces(interop::ForeignCheckpoint& state) {
  for (const interop::ForeignTensor& tensor : state.tensors)
    for (const interop::ForeignPiece& piece : tensor.pieces) {
      const auto bytes = state.files.bytes(piece.bytes);
      must(bytes.ok());
      uint64_t sum = 0;
      for (const std::byte byte : *bytes) sum += static_cast<uint64_t>(byte);
      must(sum <= 255 * bytes->size());
      if (piece.region.kind != RegionKind::kBox || piece.strides) continue;
      must((piece.region.box.volume() * static_cast<uint64_t>(dtype_bits(tensor.dtype)) + 7) / 8 == bytes->size());
    }
}

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
  fuzz::must(format::parse_tree_json(format::tree_json(*state->tree)).ok());
  const Status found = state->find_elements(options);
  fuzz::must_blame_the_bytes(found);
  if (found.ok()) fuzz::read_pieces(*state);
  return 0;
}
