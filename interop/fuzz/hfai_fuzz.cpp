// The bytes become the pickles of the two parts of an hfai directory whose storages are sound. Whatever is accepted is
// one state, in which no tensor and no piece reaches beyond its bytes.

#include "interop/fuzz/pt_files.h"
#include "interop/src/hfai/format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ckpt;
  static const fuzz::Scratch scratch("hfai_fuzz");
  const std::vector<Bytes> pickles = fuzz::cut(fuzz::input(data, size), 2);
  for (size_t i = 0; i < pickles.size(); i++)
    fuzz::write_pt(scratch.folder / ("PART_00" + std::to_string(i) + ".pt"), pickles[i]);
  auto state = interop::read_hfai(scratch.folder, {false, 1});
  fuzz::must_blame_the_bytes(state.status());
  if (state.ok()) fuzz::read_pieces(*state);
  return 0;
}
