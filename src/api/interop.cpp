// ckpt_import and ckpt_export: other people's files.
#include "interop/interop.h"

#include "api/handles.h"

using namespace ckpt;
using namespace ckpt::api;

ckpt_status ckpt_import(const ckpt_store* store, const char* path, const char* label, int64_t step,
                        const ckpt_options* options, ckpt_checkpoint_info* info, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!store || !path || !label) return null_status("store, path or label");
    if (store->forked()) return forked_status();
    return interop::import_checkpoint(store, path, label, step, options, info);
  });
}

ckpt_status ckpt_export(const ckpt_reader* reader, const char* path, const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!reader || !path) return null_status("reader or path");
    if (reader->forked()) return forked_status();
    return interop::export_checkpoint(reader, path, options);
  });
}
