// safetensors: the row of formats.cpp, and the attributes by which an export makes the imported files again.
#pragma once

#include <map>
#include <string>

#include "interop/src/formats.h"

namespace ckpt::interop {

// ---- reader.cpp ----
// By the name of a file, or by its content; a directory by the names in it.
bool is_safetensors(const Candidate& candidate);

// One file, a directory, or an index with the files beside it. Every header is checked, no element is read.
Result<ForeignCheckpoint> read_safetensors(const std::string& path, const ReadOptions& options);

// ---- writer.cpp ----
// One file where the path ends in .safetensors, else a directory with the split that was imported. UNSUPPORTED for what
// safetensors cannot express, FORMAT for attributes that no import wrote.
Result<ExportPlan> plan_safetensors(const ExportRequest& request);
// The tensors below a place, by what they are called in the file: keys of the tree joined by dots ("0.weight" of
// "model/~s0/weight"), which safetensors takes whatever they are. Without a place only keys of the root are those; what
// stands deeper, or elsewhere in the tree, is called what the state calls it. UNSUPPORTED where two would be one.
Result<std::map<std::string, std::string>> safetensors_names(const State& state, const std::string& at);

// ---- attributes of the checkpoint ----
inline constexpr const char* kFilesAttr = "safetensors.files";           // ["a.safetensors", …]
inline constexpr const char* kIndexAttr = "safetensors.index";           // the index's "metadata", {} where it had none
inline constexpr const char* kIndexNameAttr = "safetensors.index_name";  // where it is not the usual one
inline constexpr const char* kOrderAttr = "safetensors.order";  // tensors by their data, where not the usual order
inline constexpr const char* kMetadataAttr = "safetensors.metadata";  // __metadata__ of the file; of many: key + ".N"
// ---- of a tensor, where there are several files ----
inline constexpr const char* kFileAttr = "safetensors.file";  // position in safetensors.files

inline std::string metadata_attr(size_t file, size_t file_count) {
  return file_count == 1 ? kMetadataAttr : kMetadataAttr + ('.' + std::to_string(file));
}

}  // namespace ckpt::interop
