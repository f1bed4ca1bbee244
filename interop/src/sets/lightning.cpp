// What Lightning's FSDP and ModelParallel strategies save: a directory of DCP with the model and its optimizers, and
// meta.pt, which has the rest of the same dict: epoch, loops, callbacks, schedulers.
#include "interop/src/dcp/format.h"
#include "interop/src/pt/format.h"
#include "interop/src/sets/combine.h"
#include "interop/src/sets/format.h"

namespace ckpt::interop {

static constexpr const char* kMetaFile = "/meta.pt";

bool is_lightning(const Candidate& candidate) {
  return candidate.is_directory && is_file(candidate.path + kMetaFile, candidate.folder) && is_dcp(candidate);
}

// Whether the entries of both stand beside each other.
static bool fit(const ForeignCheckpoint& state, const ForeignCheckpoint& rest) {
  if (!state.tree || !rest.tree || (*state.tree)[0].kind != CKPT_NODE_DICT || (*rest.tree)[0].kind != CKPT_NODE_DICT)
    return false;
  const tree::Tree& tree = *rest.tree;
  for (uint32_t child = tree.first_child(0); child != tree::kNoNode; child = tree[child].next) {
    const bool is_text = tree[child].key_kind == CKPT_KEY_TEXT;
    const uint32_t same =
        is_text ? state.tree->find(0, tree[child].key_view()) : state.tree->find(0, tree[child].place);
    if (same != tree::kNoNode) return false;
  }
  return true;
}

// Another program's meta.pt is left out, and named as such.
Result<ForeignCheckpoint> read_lightning(const std::string& path, const ReadOptions& options) {
  CKPT_ASSIGN(ForeignCheckpoint state, read_dcp(path, options));
  Result<ForeignCheckpoint> rest = read_pt(path + kMetaFile, options);
  const bool is_no_pt = rest.status().code() == CKPT_FORMAT || rest.status().code() == CKPT_UNSUPPORTED;
  if (is_no_pt || (rest.ok() && !fit(state, *rest))) return state;
  CKPT_TRY(rest.status());
  std::vector<StatePart> parts(1);
  parts[0].content.push_back(std::move(state));
  parts[0].content.push_back(rest.take());
  return combine("dcp", std::move(parts));
}

}  // namespace ckpt::interop
