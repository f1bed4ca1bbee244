// The files of an hfai directory (hfai/layout.h), opened and checked one by one and against each other: that all are
// there, of one version and one number of parts, with as many models and optimizers each. Takes untrusted bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "interop/src/pt/source.h"
#include "interop/src/pt/tree.h"
#include "interop/src/reader.h"

namespace ckpt::interop {

// What one part has of a model, or of an optimizer: nodes of its tree.
struct HfaiShare {
  uint32_t whole;  // DICT of parameters by name, or an optimizer's state_dict
  uint32_t large;  // DICT of (shape, elements) by name, or a "builtins.dict" by (k1, k2)
};

struct HfaiPart {
  std::shared_ptr<const PtSource> source;
  PtTree content;
  std::string name;   // "PART_003.pt"
  uint32_t root = 0;  // DICT
  std::vector<HfaiShare> models, optimizers;

  const tree::Tree& tree() const { return content.tree; }
  // CKPT_FORMAT at a place in this part.
  Status wrong(uint32_t node, const std::string& what) const;
};

// The DICT with the entries of a dict or an OrderedDict; tree::kNoNode.
uint32_t hfai_entries_of(const tree::Tree& tree, uint32_t node);

// INCOMPLETE for a part that is missing, UNSUPPORTED for another version, MISMATCH where parts disagree, FORMAT; the
// errors of opening a .pt. `files` gets the parts.
Result<std::vector<HfaiPart>> open_hfai_parts(const std::string& path, const ReadOptions& options, FileTable& files);

}  // namespace ckpt::interop
