// The bytes become the pickles of the two parts of an hfai directory whose storages are sound. Whatever is accepted is
// one state, in which no tensor and no piece reaches beyond its bytes.

#include <filesystem>
#include <fstream>

#include "fuzz/harness.h"
#include "interop/hfai/format.h"
#include "interop/zip_fixture.h"

namespace ckpt::fuzz {
namespace {

namespace fs = std::filesystem;

void write_part(const fs::path& folder, int number, Bytes pickle) {
  std::vector<interop::ZipItem> items = {{"m/data.pkl", std::string(as_text(pickle))}};
  for (int key = 0; key < 12; key++) items.push_back({"m/data/" + std::to_string(key), std::string(96, 's')});
  const interop::Zip zip = interop::make_zip(items);
  std::ofstream(folder / ("PART_00" + std::to_string(number) + ".pt"), std::ios::binary) << zip.bytes;
}

uint64_t sum_of(Bytes bytes) {
  uint64_t sum = 0;
  for (const std::byte byte : bytes) sum += static_cast<uint64_t>(byte);
  return sum;
}

void read_state(interop::ForeignCheckpoint& state) {
  for (const interop::ForeignTensor& tensor : state.tensors)
    for (const interop::ForeignPiece& piece : tensor.pieces) {
      const auto bytes = state.files.bytes(piece.bytes);
      must(bytes.ok() && piece.rank < state.ranks);
      sum_of(*bytes);
      if (piece.region.kind != RegionKind::kFlat) continue;
      const uint64_t elements = tensor.elements(), begin = piece.region.flat_offset, size = piece.region.flat_size;
      must(begin <= elements && size <= elements - begin);
      must((size * static_cast<uint64_t>(dtype_bits(tensor.dtype)) + 7) / 8 == bytes->size());
    }
  must(format::parse_tree_json(format::tree_json(*state.tree)).ok());
}

}  // namespace
}  // namespace ckpt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ckpt;
  static const fuzz::Scratch scratch("hfai_fuzz");
  const std::filesystem::path& folder = scratch.folder;
  const Bytes bytes = fuzz::input(data, size);
  if (bytes.size() < 2) return 0;
  const size_t first =
      std::min<size_t>(std::to_integer<size_t>(bytes[0]) | std::to_integer<size_t>(bytes[1]) << 8, bytes.size() - 2);
  fuzz::write_part(folder, 0, bytes.subspan(2, first));
  fuzz::write_part(folder, 1, bytes.subspan(2 + first));
  auto state = interop::read_hfai(folder, {false, 1});
  fuzz::must_blame_the_bytes(state.status());
  if (state.ok()) fuzz::read_state(*state);
  return 0;
}
