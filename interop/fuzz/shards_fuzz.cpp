// The bytes become the pickles of what two ranks wrote, each by itself: files with ShardedTensor or DTensor, or, if the
// first byte is odd, OLMo's `local` with flat parameters. Whatever is accepted is one state, in which no piece reaches
// beyond its bytes.
#include "interop/fuzz/pt_files.h"
#include "interop/src/shards/format.h"

namespace ckpt::fuzz {
namespace {

namespace fs = std::filesystem;

// Folders of both kinds, in which the same files are written again and again.
struct Ranks {
  Scratch scratch{"shards_fuzz"};
  fs::path plain = scratch.folder / "plain", olmo = scratch.folder / "olmo";
  Ranks() {
    fs::create_directories(plain);
    for (const char* part : {"model", "optim"}) fs::create_directories(olmo / part);
    std::ofstream(olmo / "config.yaml") << "run_name: r\n";
    std::ofstream(olmo / "metadata.yaml") << "world_size: 2\n";
  }
};

}  // namespace
}  // namespace ckpt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ckpt;
  static const fuzz::Ranks ranks;
  const Bytes bytes = fuzz::input(data, size);
  if (bytes.empty()) return 0;
  const bool local = (std::to_integer<int>(bytes[0]) & 1) != 0;
  const std::vector<Bytes> pickles = fuzz::cut(bytes.subspan(1), local ? 4 : 2);
  for (size_t i = 0; i < pickles.size(); i++) {
    const std::string name = "rank" + std::to_string(i % 2) + ".pt";
    fuzz::write_pt(local ? ranks.olmo / (i < 2 ? "model" : "optim") / name : ranks.plain / name, pickles[i]);
  }
  const interop::ReadOptions options{false, 1};
  auto state = local ? interop::read_olmo_sharded(ranks.olmo, options) : interop::read_rank_files(ranks.plain, options);
  fuzz::must_blame_the_bytes(state.status());
  if (state.ok()) fuzz::read_pieces(*state);
  return 0;
}
