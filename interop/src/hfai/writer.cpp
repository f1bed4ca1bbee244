// Everything is assigned and pickled first, so that what cannot be written is known before anything is.
#include <algorithm>
#include <vector>

#include "interop/src/hfai/assign.h"
#include "interop/src/hfai/format.h"
#include "interop/src/hfai/layout.h"
#include "interop/src/pt/encoder.h"
#include "interop/src/pt/format.h"

namespace ckpt::interop {

using tree::kNoNode;
using tree::Tree;

namespace {

// The pickle of one part.
class PartPickler {
 public:
  PartPickler(PtEncoder& encoder, const Tree& tree, const HfaiPlan& plan, uint32_t part, uint32_t parts)
      : encoder_(encoder), pickle_(encoder.pickle()), tree_(tree), plan_(plan), part_(part), parts_(parts) {}

  Status run() {
    pickle_.empty_dict();
    pickle_.begin_items();
    CKPT_TRY(pickle_.text(kHfaiShards));
    pickle_.integer(parts_);
    CKPT_TRY(pickle_.text(kHfaiVersionKey));
    CKPT_TRY(pickle_.text(kHfaiVersion));
    CKPT_TRY(pickle_.text(kHfaiModel));
    pickle_.begin_list();
    for (const HfaiAssigned& model : plan_.models) CKPT_TRY(put_model(model));
    pickle_.end_list();
    CKPT_TRY(pickle_.text(kHfaiOptimizer));
    pickle_.begin_list();
    for (const HfaiAssigned& optimizer : plan_.optimizers) CKPT_TRY(put_optimizer(optimizer));
    pickle_.end_list();
    if (part_ == 0)
      for (uint32_t other : plan_.others) CKPT_TRY(put_item(other));
    pickle_.end_items();
    return Ok();
  }

 private:
  Status put_item(uint32_t node) {
    CKPT_TRY(encoder_.key(node));
    return encoder_.value(node, [&](uint32_t child) { return !plan_.cut_nodes.contains(child); });
  }

  // What is this part's of the entries, as a plain dict: that is what hfai's load gives.
  Status put_entries(const HfaiAssigned& assigned) {
    pickle_.empty_dict();
    pickle_.begin_items();
    for (const auto& [entry, part] : assigned.part_of)
      if (part == part_) CKPT_TRY(put_item(entry));
    pickle_.end_items();
    return Ok();
  }

  Status put_model(const HfaiAssigned& model) {
    CKPT_TRY(put_entries(model));
    pickle_.empty_dict();
    pickle_.begin_items();
    for (const HfaiCut& cut : model.cuts) {
      CKPT_TRY(encoder_.key(cut.node));
      CKPT_TRY(put_cut(cut));
    }
    pickle_.end_items();
    pickle_.tuple2();
    return Ok();
  }

  Status put_optimizer(const HfaiAssigned& optimizer) {
    const uint32_t state = tree_.find(optimizer.dict, "state");
    pickle_.empty_dict();
    pickle_.begin_items();
    for (uint32_t child = tree_.first_child(optimizer.dict); child != kNoNode; child = tree_[child].next) {
      if (child != state) {
        CKPT_TRY(put_item(child));
        continue;
      }
      CKPT_TRY(encoder_.key(child));
      CKPT_TRY(put_entries(optimizer));
    }
    pickle_.end_items();
    pickle_.empty_dict();
    pickle_.begin_items();
    for (const HfaiCut& cut : optimizer.cuts) {
      CKPT_TRY(encoder_.key(cut.outer));
      CKPT_TRY(encoder_.key(cut.node));
      pickle_.tuple2();
      CKPT_TRY(put_cut(cut));
    }
    pickle_.end_items();
    pickle_.tuple2();
    return Ok();
  }

  // (shape, this part's row of elements), cut as torch's chunk() does.
  Status put_cut(const HfaiCut& cut) {
    const uint64_t each = (cut.whole.size + parts_ - 1) / parts_;
    const uint64_t begin = std::min(cut.whole.size, each * part_);
    encoder_.size(cut.whole.shape);
    CKPT_TRY(encoder_.piece(cut.whole.name, begin, std::min(each, cut.whole.size - begin)));
    pickle_.tuple2();
    return Ok();
  }

  PtEncoder& encoder_;
  PickleWriter& pickle_;
  const Tree& tree_;
  const HfaiPlan& plan_;
  uint32_t part_, parts_;
};

}  // namespace

Result<ExportPlan> plan_hfai(const ExportRequest& request, uint64_t large_bytes) {
  const auto parts = static_cast<uint32_t>(request.options.shards);
  CKPT_ASSIGN(const Tree tree, request.reader.tree());
  CKPT_ASSIGN(const HfaiPlan assigned, assign_hfai(request.reader, tree, parts, large_bytes));
  const PtEncoderOptions options{request.options.opaque == "dict", false, assigned.cut_names};
  ExportPlan plan;
  plan.is_directory = true;
  for (uint32_t part = 0; part < parts; part++) {
    PtEncoder encoder(request.reader, tree, options);
    CKPT_TRY(PartPickler(encoder, tree, assigned, part, parts).run());
    plan.files.push_back(pt_file(hfai_part_name(part), encoder.pickle().finish(), encoder.storages().storages()));
  }
  return plan;
}

Result<ExportPlan> plan_hfai(const ExportRequest& request) { return plan_hfai(request, kHfaiLargeBytes); }

}  // namespace ckpt::interop
