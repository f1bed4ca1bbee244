// Makes `.metadata` of DCP byte by byte, with classes where torch 2.15 has them.
#pragma once

#include <string>
#include <vector>

#include "pt_fixture.h"

namespace ckpt::interop::dcp {

using pickled::Items;

inline std::string cls(const std::string& name) {
  return pickled::global("torch.distributed.checkpoint.metadata", name);
}
// An object as dataclasses pickle: made without arguments, then its attributes.
inline std::string object(const std::string& name, const Items& attributes) {
  return pickled::with_state(cls(name) + ")\x81", pickled::dict(attributes));
}
inline std::string size(const std::vector<int64_t>& extents) {
  return pickled::call(pickled::global("torch", "Size"), {pickled::integers(extents)});
}
inline std::string chunk(const std::vector<int64_t>& offsets, const std::vector<int64_t>& sizes) {
  return object("ChunkStorageMetadata", {pickled::text("offsets"), size(offsets), pickled::text("sizes"), size(sizes)});
}
inline std::string properties(const std::string& dtype) {
  return pickled::with_state(cls("TensorProperties") + ")\x81",
                             pickled::tuple({pickled::global("torch", dtype), pickled::none, pickled::boolean(false)}));
}
inline std::string tensor(const std::vector<int64_t>& extents, const Items& chunks,
                          const std::string& dtype = "float32") {
  return object("TensorStorageMetadata", {pickled::text("properties"), properties(dtype), pickled::text("size"),
                                          size(extents), pickled::text("chunks"), pickled::list(chunks)});
}
inline std::string value() { return object("BytesStorageMetadata", {}); }

inline std::string index(const std::string& name, const std::string& offset = pickled::none) {
  return object("MetadataIndex", {pickled::text("fqn"), pickled::text(name), pickled::text("offset"), offset,
                                  pickled::text("index"), pickled::none});
}
inline std::string place(const std::string& file, int64_t offset, int64_t length,
                         const std::string& transforms = pickled::none) {
  return pickled::with_state(
      pickled::global("torch.distributed.checkpoint.filesystem", "_StorageInfo") + ")\x81",
      pickled::dict({pickled::text("relative_path"), pickled::text(file), pickled::text("offset"),
                     pickled::integer(offset), pickled::text("length"), pickled::integer(length),
                     pickled::text("transform_descriptors"), transforms}));
}
// Keys and values in turn; `paths` may be `none`.
inline std::string metadata(const Items& items, const std::string& paths, const Items& places,
                            const Items& mcore_data = {}) {
  return pickled::document(object(
      "Metadata",
      {pickled::text("state_dict_metadata"), pickled::dict(items), pickled::text("planner_data"), paths,
       pickled::text("storage_data"), pickled::dict(places), pickled::text("mcore_data"), pickled::dict(mcore_data)}));
}

// What torch.save writes of a tensor of floats.
inline std::string entry(const std::vector<int64_t>& extents, const std::string& data) {
  std::vector<int64_t> strides(extents.size(), 1);
  for (size_t i = extents.size(); i-- > 1;) strides[i - 1] = strides[i] * extents[i];
  const auto count = static_cast<int64_t>(data.size() / 4);
  return pt_of(pickled::tensor(pickled::storage("0", "FloatStorage", count), 0, extents, strides), {{"0", data}});
}

}  // namespace ckpt::interop::dcp
