// Import: which format a path holds is told by its content, not by its name.
#include <sys/stat.h>

#include "interop/foreign_file.h"
#include "interop/hfai/import.h"
#include "interop/hfai/parts.h"
#include "interop/import_save.h"
#include "interop/interop.h"
#include "interop/pt/import.h"
#include "interop/safetensors/import.h"

namespace ckpt::interop {

static bool is_file(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

Status import_checkpoint(const ckpt_store* store, const char* path, const char* label, int64_t step,
                         const ckpt_options* given, ckpt_checkpoint_info* info) {
  if (!store || !path || !label) return Status(CKPT_INVALID, "import: store, path and label must not be NULL");
  ImportRequest request{store, path, label, step, {options_for(given, "import")}};
  Options& options = request.options.bag;
  if (!options.is_set("run")) CKPT_TRY(options.set_str("run", "import"));

  if (is_hfai_directory(path)) return import_hfai(request, info);
  if (!is_file(path)) return import_safetensors(request, info);
  CKPT_ASSIGN(const bool is_pt, is_pt_file(path));
  return is_pt ? import_pt(request, info) : import_safetensors(request, info);
}

}  // namespace ckpt::interop
