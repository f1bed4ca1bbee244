// What imports of every format have in common: the save that they fill, of the only rank or of one of several that this
// process plays one after another. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "format/tree.h"
#include "interop/calls.h"
#include "interop/foreign_tensor.h"

namespace ckpt::interop {

struct ImportRequest {
  const ckpt_store* store;
  std::string path, label;
  int64_t step;
  ckpt_options options;  // those that are for imports; `run` is set
};

// Who fills a save.
struct ImportRank {
  uint32_t rank = 0, world_size = 1;
  const char* session_string = nullptr;  // of rank 0, for the others
};

class ImportSave {
 public:
  // Opens the session and the save: to be called when what is imported is known to be sound.
  static Result<ImportSave> open(const ImportRequest& request, const ImportRank& rank = {});
  ckpt_save* get() const { return save_.get(); }
  const char* session_string() const { return ckpt_session_string(session_.get()); }

  // Tensors from where they lie, which must stay until the commit; targets come before their aliases.
  Status add_tensors(const std::vector<ForeignTensor>& tensors);
  Status add_tree(const format::Tree& tree);
  Status set_attr(const char* key, const std::string& value);

  // `info` may be null.
  Status commit(const ImportRequest& request, ckpt_checkpoint_info* info);
  // Of a save that has run.
  Status describe_result(const ImportRequest& request, ckpt_checkpoint_info* info) const;

 private:
  ImportSave() = default;
  Status add(const ForeignTensor& tensor);
  Status add_alias(const ForeignTensor& tensor, const ForeignTensor& target);

  ImportRank rank_;
  SessionHandle session_;
  SaveHandle save_;
};

}  // namespace ckpt::interop
