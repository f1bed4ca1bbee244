// Import of safetensors: every header of the set is read and checked, then the mapped bytes are handed to the save.
// Nothing is created in the store before the set is known to be sound.
#include "interop/safetensors/import.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "interop/files.h"
#include "interop/import_save.h"
#include "interop/safetensors/file_set.h"
#include "interop/safetensors/safetensors.h"

namespace ckpt::interop {

namespace {

struct Source {
  MappedFile file;
  Header header;
};

struct Sources {
  FileSet set;
  std::vector<Source> files;  // as set.names
};

Status tensor_status(const std::string& path, const std::string& tensor, const std::string& what) {
  return Status(CKPT_FORMAT, path + ": tensor " + shown(tensor) + ": " + what)
      .with("path", path)
      .with("tensor", tensor);
}

// Each name in one file only, and what the index says is true. Tensors that it forgot are taken nevertheless.
Status check_names(const Sources& sources) {
  std::unordered_map<std::string_view, size_t> file_of;
  const FileSet& set = sources.set;
  for (size_t i = 0; i < sources.files.size(); i++)
    for (const Tensor& tensor : sources.files[i].header.tensors) {
      // Names cross the C API as NUL-terminated text.
      if (tensor.name.find('\0') != std::string::npos)
        return tensor_status(set.paths[i], tensor.name, "the name holds a NUL");
      const auto [first, is_new] = file_of.try_emplace(tensor.name, i);
      if (!is_new) return tensor_status(set.paths[i], tensor.name, "it is also in " + set.paths[first->second]);
    }
  for (const auto& [tensor, name] : set.index.weight_map) {
    const auto found = file_of.find(tensor);
    if (found == file_of.end() || set.names[found->second] != name)
      return tensor_status(name, tensor,
                           "the index says that it is here; it is " +
                               (found == file_of.end() ? "nowhere" : "in " + set.names[found->second]));
  }
  return Ok();
}

Result<Sources> open_sources(const std::string& path) {
  Sources sources;
  CKPT_ASSIGN(sources.set, find_files(path));
  for (const std::string& file_path : sources.set.paths) {
    CKPT_ASSIGN(MappedFile file, MappedFile::open(file_path));
    CKPT_ASSIGN(Header header, parse_header(file.bytes(), file_path));
    sources.files.push_back({std::move(file), std::move(header)});
  }
  CKPT_TRY(check_names(sources));
  return sources;
}

bool in_canonical_order(const Sources& sources) {
  return std::all_of(sources.files.begin(), sources.files.end(), [](const Source& source) {
    return std::is_sorted(source.header.tensors.begin(), source.header.tensors.end(), canonical_before);
  });
}

ckpt_tensor_desc describe(const Tensor& tensor) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = tensor.dtype;
  desc.ndim = tensor.shape.ndim;
  desc.region_kind = CKPT_REGION_WHOLE;
  for (int i = 0; i < tensor.shape.ndim; i++) desc.shape[i] = static_cast<int64_t>(tensor.shape[i]);
  return desc;
}

Status add_tensors(ckpt_save* save, const Sources& sources) {
  const bool several = sources.files.size() > 1;
  for (size_t i = 0; i < sources.files.size(); i++) {
    const Source& source = sources.files[i];
    const Bytes data = source.file.bytes().subspan(source.header.data_offset);
    for (const Tensor& tensor : source.header.tensors) {
      const ckpt_tensor_desc desc = describe(tensor);
      const Bytes bytes = data.subspan(tensor.begin, tensor.end - tensor.begin);
      Status status = call([&](ckpt_error** err) {
        return ckpt_save_add_tensor(save, tensor.name.c_str(), &desc, bytes.empty() ? nullptr : bytes.data(),
                                    bytes.size(), CKPT_DEVICE_CPU, 0, err);
      });
      if (!status.ok()) return std::move(status).with("path", sources.set.paths[i]).with("tensor", tensor.name);
      if (several)
        CKPT_TRY(call([&](ckpt_error** err) {
          return ckpt_save_set_attr(save, tensor.name.c_str(), kFileAttr, std::to_string(i).c_str(), err);
        }));
    }
  }
  return Ok();
}

// What an export needs to make the same files again.
Status add_attributes(ckpt_save* save, const Sources& sources) {
  CKPT_TRY(set_text(save, kFilesAttr, json_of(sources.set.names)));
  if (sources.set.has_index) {
    const std::string& metadata = sources.set.index.metadata;
    CKPT_TRY(set_text(save, kIndexAttr, metadata.empty() ? "{}" : metadata));
  }
  for (size_t i = 0; i < sources.files.size(); i++)
    if (const auto& metadata = sources.files[i].header.metadata)
      CKPT_TRY(set_text(save, metadata_attr(i, sources.files.size()), json_of(*metadata)));
  if (in_canonical_order(sources)) return Ok();
  std::vector<std::string> order;
  for (const Source& source : sources.files)
    for (const Tensor& tensor : source.header.tensors) order.push_back(tensor.name);
  return set_text(save, kOrderAttr, json_of(order));
}

}  // namespace

Status import_safetensors(const ImportRequest& request, ckpt_checkpoint_info* info) {
  CKPT_ASSIGN(const Sources sources, open_sources(request.path));
  CKPT_ASSIGN(ImportSave save, ImportSave::open(request));
  CKPT_TRY(add_tensors(save.get(), sources));
  CKPT_TRY(add_attributes(save.get(), sources));
  return save.commit(request, info);
}

}  // namespace ckpt::interop
