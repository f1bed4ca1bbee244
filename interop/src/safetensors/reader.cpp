// The headers of a set of files, read and checked against each other and the index.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/parallel.h"
#include "base/text.h"
#include "interop/src/input_file.h"
#include "interop/src/look.h"
#include "interop/src/safetensors/file_set.h"
#include "interop/src/safetensors/format.h"
#include "interop/src/safetensors/safetensors.h"

namespace ckpt::interop {

namespace {

struct Sources {
  FileSet set;
  std::vector<Header> headers;  // as set.names
  std::vector<Status> lost;     // why a file that the index names has none

  // The tensors that cannot be had, by their names.
  std::vector<std::pair<std::string, Status>> cannot() const {
    std::vector<std::pair<std::string, Status>> all;
    for (size_t i = 0; i < headers.size(); i++)
      for (const auto& [name, why] : headers[i].unknown) all.emplace_back(name, Status(why).in(set.paths[i]));
    for (const auto& [tensor, name] : set.index.weight_map)
      if (const Status& why = lost[place_of(name)]; !why.ok()) all.emplace_back(tensor, why);
    return all;
  }
  size_t place_of(const std::string& name) const {
    return static_cast<size_t>(std::ranges::lower_bound(set.names, name) - set.names.begin());
  }
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
  std::set<std::string_view> unknown;
  for (const Header& header : sources.headers)
    for (const auto& row : header.unknown) unknown.insert(row.first);
  for (size_t i = 0; i < sources.headers.size(); i++)
    for (const Tensor& tensor : sources.headers[i].tensors) {
      // Names cross the C API as NUL-terminated text.
      if (tensor.name.find('\0') != std::string::npos)
        return tensor_status(set.paths[i], tensor.name, "the name holds a NUL");
      const auto [first, is_new] = file_of.try_emplace(tensor.name, i);
      if (!is_new) return tensor_status(set.paths[i], tensor.name, "it is also in " + set.paths[first->second]);
    }
  for (const auto& [tensor, name] : set.index.weight_map) {
    const auto found = file_of.find(tensor);
    if (found == file_of.end() && (!sources.lost[sources.place_of(name)].ok() || unknown.contains(tensor))) continue;
    if (found == file_of.end() || set.names[found->second] != name)
      return tensor_status(name, tensor,
                           "the index says that it is here; it is " +
                               (found == file_of.end() ? "nowhere" : "in " + set.names[found->second]));
  }
  return Ok();
}

// All files go to `files`, in their order.
Result<Sources> open_sources(const std::string& path, const ReadOptions& options, FileTable& files) {
  Sources sources;
  CKPT_ASSIGN(sources.set, find_files(path, options.folder));
  const std::vector<std::string>& paths = sources.set.paths;
  std::vector<std::optional<InputFile>> opened(paths.size());
  sources.headers.resize(paths.size());
  sources.lost.resize(paths.size());
  auto take = [&](size_t i) -> Status {
    Result<InputFile> file = InputFile::open(paths[i], options.folder);
    if (sources.set.has_index && file.status().code() == CKPT_NOT_FOUND)
      return Status(CKPT_NOT_FOUND, paths[i] + " is missing, which the index names").with("path", paths[i]);
    CKPT_TRY(file.status());
    CKPT_ASSIGN(sources.headers[i], parse_header(file->bytes(), paths[i], kAnyDtype));
    opened[i] = file.take();
    return Ok();
  };
  // What the index says of a file that cannot be read, nobody may want.
  auto open = [&](size_t i) -> Status {
    CKPT_TRY(options.check());
    Status status = take(i);
    if (status.ok() || !sources.set.has_index || !may_be_left_out(status.code())) return status;
    sources.lost[i] = std::move(status);
    return Ok();
  };
  // Of files on this machine one after the other, since a header is parsed in no time.
  CKPT_TRY(for_each_parallel(options.folder ? kRequestsAtOnce : 1, paths.size(), open));
  for (size_t i = 0; i < paths.size(); i++)
    opened[i] ? files.add(paths[i], *std::move(opened[i])) : files.add(paths[i]);
  CKPT_TRY(check_names(sources));
  return sources;
}

bool in_canonical_order(const Sources& sources) {
  return std::all_of(sources.headers.begin(), sources.headers.end(), [](const Header& header) {
    return std::is_sorted(header.tensors.begin(), header.tensors.end(), canonical_before);
  });
}

std::vector<ForeignTensor> tensors_of(const Sources& sources) {
  std::vector<ForeignTensor> tensors;
  for (size_t i = 0; i < sources.headers.size(); i++)
    for (const Tensor& from : sources.headers[i].tensors) {
      ForeignTensor& tensor = tensors.emplace_back();
      tensor.name = from.name;
      tensor.dtype = from.dtype;
      tensor.shape = from.shape;
      const uint64_t begin = sources.headers[i].data_offset + from.begin;
      tensor.pieces.push_back({{}, {i, begin, from.end - from.begin}, std::nullopt, 0});
      if (sources.headers.size() > 1) tensor.attributes = {{kFileAttr, std::to_string(i)}};
    }
  return tensors;
}

// What an export needs to make the same files again.
Attributes attributes_of(const Sources& sources) {
  Attributes attributes = {{kFilesAttr, json_of(sources.set.names)}};
  if (sources.set.has_index) {
    const std::string& metadata = sources.set.index.metadata;
    attributes.emplace_back(kIndexAttr, metadata.empty() ? "{}" : metadata);
    if (sources.set.index_name != kIndexFile) attributes.emplace_back(kIndexNameAttr, sources.set.index_name);
  }
  for (size_t i = 0; i < sources.headers.size(); i++)
    if (const auto& metadata = sources.headers[i].metadata)
      attributes.emplace_back(metadata_attr(i, sources.headers.size()), json_of(*metadata));
  if (in_canonical_order(sources)) return attributes;
  std::vector<std::string> order;
  for (const Header& header : sources.headers)
    for (const Tensor& tensor : header.tensors) order.push_back(tensor.name);
  attributes.emplace_back(kOrderAttr, json_of(order));
  return attributes;
}

}  // namespace

bool is_safetensors(const Candidate& candidate) {
  if (candidate.is_directory) return holds_safetensors(candidate.path, candidate.folder);
  // A name alone does not make it one: what begins like something else is told as that.
  const size_t first = candidate.head.find_first_not_of(" \t\r\n");
  if (candidate.path.ends_with(".json")) return first != std::string::npos && candidate.head[first] == '{';
  if (candidate.path.ends_with(kSuffix)) return look_of_file(candidate.head).empty();
  // The length of the header is small, so that text is none.
  return candidate.head.size() > 8 && candidate.head[8] == '{' && candidate.head[7] == 0 && candidate.head[4] == 0;
}

Result<ForeignCheckpoint> read_safetensors(const std::string& path, const ReadOptions& options) {
  ForeignCheckpoint out;
  out.format = "safetensors";
  CKPT_ASSIGN(const Sources sources, open_sources(path, options, out.files));
  out.tensors = tensors_of(sources);
  out.attributes = attributes_of(sources);
  CKPT_TRY(out.put_cannots(sources.cannot()).in(path));
  return out;
}

}  // namespace ckpt::interop
