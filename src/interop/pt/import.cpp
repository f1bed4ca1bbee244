#include "interop/pt/import.h"

#include "base/parallel.h"
#include "interop/foreign_file.h"

namespace ckpt::interop {

Status import_pt(const ImportRequest& request, ckpt_checkpoint_info* info) {
  const Options& options = request.options.bag;
  CKPT_ASSIGN(const ForeignFile file, ForeignFile::open(request.path, options.integer("verify") != 0,
                                                        thread_count(options.integer("threads"))));
  CKPT_ASSIGN(ImportSave save, ImportSave::open(request));
  CKPT_TRY(save.add_tensors(file.tensors()));
  CKPT_TRY(save.add_tree(file.tree()));
  CKPT_TRY(save.set_attr(kFormatAttr, format_name(file.format())));
  // What was not proved is said.
  if (file.unchecked() != 0) CKPT_TRY(save.set_attr(kUncheckedAttr, std::to_string(file.unchecked())));
  return save.commit(request, info);
}

}  // namespace ckpt::interop
