// The bytes become the pickles of a directory of DeepSpeed of two ranks; the first byte says which: ZeRO 1 and 2, ZeRO
// 3, or a universal one, whose other files are those of interop/tests/fixtures/deepspeed. Whatever is accepted is one
// state, in which no piece reaches beyond its bytes.
#include "interop/fuzz/pt_files.h"
#include "interop/src/deepspeed/format.h"

namespace ckpt::fuzz {
namespace {

namespace fs = std::filesystem;

const std::vector<const char*> kFiles[] = {
    {"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
     "zero_pp_rank_1_mp_rank_00_optim_states.pt"},
    {"zero_pp_rank_0_mp_rank_00_model_states.pt", "zero_pp_rank_1_mp_rank_00_model_states.pt",
     "zero_pp_rank_0_mp_rank_00_optim_states.pt", "zero_pp_rank_1_mp_rank_00_optim_states.pt"},
    {"mp_rank_00_model_states.pt", "zero/optimizer_state.pt", "zero/hidden.weight/fp32.pt",
     "zero/hidden.weight/exp_avg.pt"}};
constexpr size_t kUniversal = 2;

struct Folders {
  Scratch scratch{"deepspeed_fuzz"};
  std::vector<fs::path> kinds;
  Folders() {
    for (size_t i = 0; i < std::size(kFiles); i++) {
      kinds.push_back(scratch.folder / std::to_string(i));
      fs::create_directories(kinds.back());
    }
    fs::copy(CKPT_FUZZ_FIXTURES "/deepspeed/universal/global_step3_universal", kinds[kUniversal],
             fs::copy_options::recursive);
  }
};

}  // namespace
}  // namespace ckpt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ckpt;
  static const fuzz::Folders folders;
  const Bytes bytes = fuzz::input(data, size);
  if (bytes.empty()) return 0;
  const size_t kind = std::to_integer<size_t>(bytes[0]) % std::size(fuzz::kFiles);
  const std::vector<const char*>& files = fuzz::kFiles[kind];
  const std::vector<Bytes> pickles = fuzz::cut(bytes.subspan(1), files.size());
  for (size_t i = 0; i < files.size(); i++) fuzz::write_pt(folders.kinds[kind] / files[i], pickles[i]);
  auto state = interop::read_deepspeed(folders.kinds[kind], {false, 1});
  fuzz::must_blame_the_bytes(state.status());
  if (state.ok()) fuzz::read_pieces(*state);
  return 0;
}
