// The deal is made and everything pickled first, so that what cannot be written is known before anything is; then part
// after part is written through one buffer.
#include "interop/hfai/export.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "interop/files.h"
#include "interop/hfai/deal.h"
#include "interop/pt/encoder.h"
#include "interop/pt/file_writer.h"

namespace ckpt::interop {

namespace {

// The pickle of one part.
class PartPickler {
 public:
  PartPickler(PtEncoder& encoder, TreeView tree, const HfaiDeal& deal, uint32_t part, uint32_t parts)
      : encoder_(encoder), pickle_(encoder.pickle()), tree_(tree), deal_(deal), part_(part), parts_(parts) {}

  Status run() {
    pickle_.empty_dict();
    pickle_.begin_items();
    CKPT_TRY(pickle_.text(kHfaiShards));
    pickle_.integer(parts_);
    CKPT_TRY(pickle_.text(kHfaiVersionKey));
    CKPT_TRY(pickle_.text(kHfaiVersion));
    CKPT_TRY(pickle_.text(kHfaiModel));
    pickle_.begin_list();
    for (const HfaiDealt& model : deal_.models) CKPT_TRY(put_model(model));
    pickle_.end_list();
    CKPT_TRY(pickle_.text(kHfaiOptimizer));
    pickle_.begin_list();
    for (const HfaiDealt& optimizer : deal_.optimizers) CKPT_TRY(put_optimizer(optimizer));
    pickle_.end_list();
    if (part_ == 0)
      for (uint64_t other : deal_.others) CKPT_TRY(put_item(other));
    pickle_.end_items();
    return Ok();
  }

 private:
  Status put_item(uint64_t node) {
    CKPT_TRY(encoder_.key(node));
    return encoder_.value(node, [&](uint64_t child) { return !deal_.cut_nodes.contains(child); });
  }

  // What is this part's of the entries, as a plain dict: that is what hfai's load gives.
  Status put_entries(const HfaiDealt& dealt) {
    pickle_.empty_dict();
    pickle_.begin_items();
    for (const auto& [entry, part] : dealt.part_of)
      if (part == part_) CKPT_TRY(put_item(entry));
    pickle_.end_items();
    return Ok();
  }

  Status put_model(const HfaiDealt& model) {
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

  Status put_optimizer(const HfaiDealt& optimizer) {
    const uint64_t state = tree_.find(optimizer.dict, "state");
    pickle_.empty_dict();
    pickle_.begin_items();
    for (uint64_t child = tree_[optimizer.dict].first_child; child != CKPT_NODE_END;
         child = tree_[child].next_sibling) {
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
  TreeView tree_;
  const HfaiDeal& deal_;
  uint32_t part_, parts_;
};

struct Part {
  std::string pickle;
  std::vector<PtStorage> storages;
};

Result<std::vector<Part>> pickle_parts(const ckpt_reader* reader, TreeView tree, const HfaiDeal& deal, uint32_t parts,
                                       const PtEncoderOptions& options) {
  std::vector<Part> made;
  for (uint32_t part = 0; part < parts; part++) {
    PtEncoder encoder(reader, tree, options);
    CKPT_TRY(PartPickler(encoder, tree, deal, part, parts).run());
    made.push_back({encoder.pickle().finish(), encoder.storages().storages()});
  }
  return made;
}

}  // namespace

Status export_hfai(const ckpt_reader* reader, const std::string& path, const HfaiExport& how,
                   const ckpt_options* options) {
  CKPT_ASSIGN(const TreeHandle handle, tree_of(reader));
  const TreeView tree(handle.get());
  CKPT_ASSIGN(HfaiDeal deal, deal_hfai(reader, tree, how.shards, how.large_bytes));
  const PtEncoderOptions encoding{how.opaque_as_dict, deal.cut_names};
  CKPT_ASSIGN(const std::vector<Part> parts, pickle_parts(reader, tree, deal, how.shards, encoding));
  CKPT_ASSIGN(Output output, Output::begin_directory(path));
  const PtBuffer buffer;
  for (size_t i = 0; i < parts.size(); i++)
    CKPT_TRY(write_pt_file({reader, options, buffer.bytes()}, parts[i].pickle, parts[i].storages,
                           output.temporary() + '/' + hfai_part_name(i)));
  return output.publish();
}

}  // namespace ckpt::interop
