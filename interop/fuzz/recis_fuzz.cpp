// The bytes become index, tensorkey.json and the safetensors file of a RecIS directory, with a NUL between them.
// Whatever is accepted is tables whose pieces fit together and lie in the file.

#include <filesystem>
#include <fstream>

#include "fuzz/harness.h"
#include "interop/src/recis/format.h"
#include "interop/src/recis/layout.h"

namespace ckpt::fuzz {
namespace {

namespace fs = std::filesystem;

void read_tables(interop::ForeignCheckpoint& state) {
  const auto tables = state.tables();
  must(tables.ok());
  for (const interop::ForeignTable& table : *tables) {
    const interop::ForeignTensor& ids = state.tensors[table.ids];
    for (size_t column : table.columns) must(state.tensors[column].pieces.size() == ids.pieces.size());
  }
  for (const interop::ForeignTensor& tensor : state.tensors) {
    uint64_t bytes = 0;
    for (const interop::ForeignPiece& piece : tensor.pieces) {
      const auto found = state.files.bytes(piece.bytes);
      must(found.ok() && piece.rank < state.ranks);
      bytes += found->size();
    }
    must(bytes == tensor.bytes());
  }
  must(tree::parse_tree_json(tree::tree_json(*state.tree)).ok());
}

}  // namespace
}  // namespace ckpt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ckpt;
  static const fuzz::Scratch scratch("recis_fuzz");
  const std::filesystem::path& folder = scratch.folder;
  std::string_view rest = as_text(fuzz::input(data, size));
  for (const char* name : {interop::kRecisIndex, interop::kRecisKeys, "m.safetensors"}) {
    const size_t end =
        std::string_view(name).ends_with("safetensors") ? rest.size() : std::min(rest.find('\0'), rest.size());
    std::ofstream(folder / name, std::ios::binary) << rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const interop::ReadOptions options{.verify = false};
  auto state = interop::read_recis(folder, options);
  fuzz::must_blame_the_bytes(state.status());
  if (!state.ok()) return 0;
  const Status ids = state->find_elements(options);
  fuzz::must_blame_the_bytes(ids);
  fuzz::read_tables(*state);
  return 0;
}
