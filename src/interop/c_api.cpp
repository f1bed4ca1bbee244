// The functions of ckpt_file.h.
#include "ckpt_file.h"

#include "api/handles.h"
#include "base/parallel.h"
#include "interop/foreign_file.h"
#include "interop/interop.h"

using namespace ckpt;
using namespace ckpt::api;
using interop::ForeignFile;
using interop::ForeignTensor;

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

// ---- a file in place ----

struct ckpt_file : Owned {
  ForeignFile file;
  std::unique_ptr<ckpt_tree> tree;
};

static Status check(const ckpt_file* file) {
  if (!file) return null_status("file");
  return file->forked() ? forked_status() : Ok();
}

ckpt_status ckpt_file_open(ckpt_file** out, const char* path, const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out || !path) return null_status("out or path");
    const Options& bag = options_of(options);
    CKPT_ASSIGN(ForeignFile file,
                ForeignFile::open(path, bag.integer("verify") != 0, thread_count(bag.integer("threads"))));
    auto tree = std::make_unique<ckpt_tree>();
    tree->tree = file.take_tree();
    *out = new ckpt_file{{}, std::move(file), std::move(tree)};
    return Ok();
  });
}

void ckpt_file_free(ckpt_file* file) { release(file); }

const char* ckpt_file_format(const ckpt_file* file) { return file ? format_name(file->file.format()) : ""; }

uint64_t ckpt_file_tensor_count(const ckpt_file* file) { return file ? file->file.tensors().size() : 0; }

static ckpt_file_tensor describe(const std::vector<ForeignTensor>& tensors, const ForeignTensor& tensor) {
  ckpt_file_tensor out{};
  out.struct_size = sizeof out;
  out.dtype = tensor.dtype;
  out.ndim = tensor.shape.ndim;
  for (int i = 0; i < tensor.shape.ndim; i++) {
    out.shape[i] = static_cast<int64_t>(tensor.shape[i]);
    out.strides[i] = tensor.strides[static_cast<size_t>(i)];
  }
  out.data = tensor.data.empty() ? nullptr : tensor.data.data();
  out.data_bytes = tensor.data.size();
  out.bytes = tensor.bytes();
  out.name = tensor.name.c_str();
  if (tensor.target == ForeignTensor::kNoTarget) return out;
  out.alias_of = tensors[tensor.target].name.c_str();
  out.alias_offset = static_cast<int64_t>(tensor.target_offset);
  return out;
}

ckpt_status ckpt_file_tensor_at(const ckpt_file* file, uint64_t index, ckpt_file_tensor* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(check(file));
    const std::vector<ForeignTensor>& tensors = file->file.tensors();
    if (index >= tensors.size()) return Status(CKPT_NOT_FOUND, strformat("tensor {} of {}", index, tensors.size()));
    return put_info(describe(tensors, tensors[index]), out);
  });
}

ckpt_status ckpt_file_tree(const ckpt_file* file, const ckpt_tree** out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(check(file));
    if (!out) return null_status("out");
    *out = file->tree.get();
    return Ok();
  });
}
