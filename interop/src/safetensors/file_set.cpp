#include "interop/src/safetensors/file_set.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

#include "base/text.h"
#include "format/names.h"

namespace ckpt::interop {

namespace {

constexpr uint64_t kMaxRemoteIndex = 256 << 20;

// Passes the events of one JSON value on as compact text.
class Copier {
 public:
  std::string text;
  void open(char bracket) {
    separate();
    text += bracket;
    first_ = true;
  }
  void close(char bracket) {
    text += bracket;
    first_ = false;
  }
  void key(std::string_view name) {
    separate();
    text += json_quote(name) + ':';
    first_ = true;
  }
  void value(std::string_view raw) {
    separate();
    text += raw;
  }

 private:
  void separate() {
    if (!first_) text += ',';
    first_ = false;
  }
  bool first_ = true;
};

class IndexEvents final : public JsonEvents {
 public:
  explicit IndexEvents(const char* suffix) : suffix_(suffix) {}

  Index index;
  bool has_map = false;

  Status begin_object() override {
    depth_++;
    if (depth_ == 1) return Ok();
    if (in_ == In::kWeightMap && depth_ > 2) return unexpected("an object");
    if (in_ == In::kMetadata) copier_.open('{');
    return Ok();
  }
  Status end_object() override {
    depth_--;
    return depth_ > 0 ? close('}') : Ok();
  }
  Status begin_array() override {
    depth_++;
    if (depth_ == 1 || in_ == In::kWeightMap || (in_ == In::kMetadata && depth_ == 2)) return unexpected("an array");
    if (in_ == In::kMetadata) copier_.open('[');
    return Ok();
  }
  Status end_array() override {
    depth_--;
    return close(']');
  }
  Status key(std::string text) override {
    if (depth_ == 1) return top_key(text);
    if (in_ == In::kWeightMap)
      index.weight_map.emplace_back(std::move(text), std::string());
    else if (in_ == In::kMetadata)
      copier_.key(text);
    return Ok();
  }
  Status string(std::string text) override {
    if (in_ != In::kWeightMap || depth_ != 2) return scalar(json_quote(text));
    auto& [tensor, name] = index.weight_map.back();
    // At once, since a name that passes is long enough to pay for the entry's memory.
    Status status = check_file_name(text, suffix_);
    if (!status.ok()) return std::move(status).in("weight_map").with("tensor", tensor);
    name = std::move(text);
    return Ok();
  }
  Status number(uint64_t value) override { return scalar(std::to_string(value)); }
  Status other(std::string_view text) override { return scalar(text); }

 private:
  enum class In { kNothing, kWeightMap, kMetadata, kUnknown };

  Status top_key(const std::string& text) {
    in_ = text == "weight_map" ? In::kWeightMap : text == "metadata" ? In::kMetadata : In::kUnknown;
    const bool twice = (in_ == In::kWeightMap && has_map) || (in_ == In::kMetadata && has_metadata_);
    if (twice) return Status(CKPT_FORMAT, text + " comes twice");
    has_map |= in_ == In::kWeightMap;
    has_metadata_ |= in_ == In::kMetadata;
    return Ok();
  }
  Status scalar(std::string_view raw) {
    const bool in_object = in_ == In::kUnknown || (in_ == In::kMetadata && depth_ > 1);
    if (!in_object) return unexpected(raw.substr(0, 40));
    if (in_ == In::kMetadata) copier_.value(raw);
    return Ok();
  }
  Status close(char bracket) {
    if (in_ != In::kMetadata) return Ok();
    copier_.close(bracket);
    if (depth_ == 1) index.metadata = std::move(copier_.text);
    return Ok();
  }
  Status unexpected(std::string_view what) const override {
    const char* where = in_ == In::kWeightMap ? "weight_map: " : in_ == In::kMetadata ? "metadata: " : "";
    return Status(CKPT_FORMAT, std::string(where) + "unexpected " + std::string(what));
  }

  const char* const suffix_;
  In in_ = In::kNothing;
  int depth_ = 0;
  bool has_metadata_ = false;
  Copier copier_;
};

// Lays JSON text out over lines; the text is well-formed, since we wrote it.
std::string indented(std::string_view compact, int level) {
  std::string text;
  bool quoted = false;
  for (size_t i = 0; i < compact.size(); i++) {
    const char c = compact[i];
    if (quoted) {
      text += c;
      if (c == '\\') text += compact[++i];
      quoted = c != '"';
      continue;
    }
    const bool empty = i + 1 < compact.size() && (compact[i + 1] == '}' || compact[i + 1] == ']');
    const bool opens = c == '{' || c == '[', closes = c == '}' || c == ']';
    const bool closes_empty = closes && i > 0 && (compact[i - 1] == '{' || compact[i - 1] == '[');
    if (closes) level--;
    if (closes && !closes_empty) text += '\n' + std::string(static_cast<size_t>(level) * 2, ' ');
    text += c;
    if (opens) level++;
    if (c == ',' || (opens && !empty)) text += '\n' + std::string(static_cast<size_t>(level) * 2, ' ');
    if (c == ':') text += ' ';
    quoted = c == '"';
  }
  return text;
}

bool is_safetensors_name(const std::string& name) { return name.ends_with(kSuffix) && !name.starts_with('.'); }

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// A server may answer anything, of any size.
Status fetch_index(const std::string& path, const InputFile& file) {
  const FileBytes bytes = file.bytes();
  if (bytes.size() <= kMaxRemoteIndex) return bytes.need(0, bytes.size());
  return Status(CKPT_UNSUPPORTED, strformat("{}: an index of {} bytes; of a server at most {} are read", path,
                                            bytes.size(), kMaxRemoteIndex))
      .with("path", path);
}

Result<FileSet> set_of_index(const std::string& path, const Folder& folder) {
  CKPT_ASSIGN(const InputFile file, InputFile::open(path, folder));
  if (folder) CKPT_TRY(fetch_index(path, file));
  FileSet set;
  set.has_index = true;
  set.index_name = path.substr(parent_of(path).size());
  CKPT_ASSIGN(set.index, parse_index_of_set(as_text(file.addresses()), path));
  for (const auto& [tensor, name] : set.index.weight_map) set.names.push_back(name);
  std::sort(set.names.begin(), set.names.end());
  set.names.erase(std::unique(set.names.begin(), set.names.end()), set.names.end());
  for (const std::string& name : set.names) set.paths.push_back(parent_of(path) + name);
  return set;
}

// "model-00001-of-00003.safetensors": 1 of 3, between "model-" and ".safetensors".
struct ShardName {
  std::string_view before, after;
  uint32_t number = 0, count = 0;
};
std::optional<ShardName> parse_shard_name(std::string_view name) {
  constexpr std::string_view kOf = "-of-";
  constexpr size_t kDigits = 5;
  const size_t of = name.rfind(kOf);
  if (of == name.npos || of < kDigits) return std::nullopt;
  const auto parse = [](std::string_view text, uint32_t* number) {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
    return error == std::errc() && text.size() == kDigits && stop == text.data() + text.size();
  };
  ShardName found{name.substr(0, of - kDigits), {}};
  const std::string_view count = name.substr(of + kOf.size(), kDigits);
  if (!parse(name.substr(of - kDigits, kDigits), &found.number) || !parse(count, &found.count)) return std::nullopt;
  found.after = name.substr(of + kOf.size() + kDigits);
  return found;
}

// One of several files of "model"; without a suffix also of a variant.
bool is_shard_of(const std::string& name, const std::string& stem, std::string_view suffix) {
  const std::optional<ShardName> found = parse_shard_name(name);
  return found && found->before == stem + '-' &&
         (suffix.empty() ? found->after.starts_with('.') : found->after == suffix);
}

// Beside a model's file or shards transformers and diffusers pass over variants ("model.fp16.safetensors",
// "model.fp16-00001-of-00002.safetensors"), beside the file shards, and what Mistral keeps of the same weights.
void leave_out_what_is_not_loaded(std::vector<std::string>* names) {
  const auto drop = [&](auto&& is_dropped) { std::erase_if(*names, is_dropped); };
  for (const std::string stem : {"model", "diffusion_pytorch_model"}) {
    const std::string file = stem + kSuffix;
    const auto is_shard = [&](const std::string& name) { return is_shard_of(name, stem, kSuffix); };
    const bool has_file = std::ranges::find(*names, file) != names->end();
    if (!has_file && std::ranges::none_of(*names, is_shard)) continue;
    drop([&](const std::string& name) {
      const bool variant = name.starts_with(stem + '.') || is_shard_of(name, stem, "");
      return (variant && name != file && !is_shard(name)) || (has_file && is_shard(name));
    });
    if (stem == "model") drop([](const std::string& name) { return name.starts_with("consolidated"); });
  }
}

// "model" and "bf16" of "model.safetensors.index.bf16.json", which is of model.bf16-00001-of-00002.safetensors, …
struct IndexName {
  std::string stem, variant;
};
std::optional<IndexName> parse_index_name(const std::string& name) {
  constexpr std::string_view kIndex = ".safetensors.index", kJson = ".json";
  const size_t at = name.find(kIndex);
  if (at == name.npos || at == 0 || !name.ends_with(kJson)) return std::nullopt;
  const std::string rest = name.substr(at + kIndex.size(), name.size() - at - kIndex.size() - kJson.size());
  if (!rest.empty() && (rest[0] != '.' || rest.size() == 1)) return std::nullopt;
  return IndexName{name.substr(0, at), rest.empty() ? "" : rest.substr(1)};
}

// The index of a directory that has no usual one: of another stem (diffusers'), else of its one variant. Empty for
// none.
Result<std::string> other_index(const std::string& path, const std::vector<std::string>& names) {
  std::vector<std::string> plain, variants;
  for (const std::string& name : names) {
    const std::optional<IndexName> found = parse_index_name(name);
    if (!found || name == kIndexFile) continue;
    const auto is_loaded = [&](const std::string& other) {
      return other == found->stem + kSuffix || is_shard_of(other, found->stem, kSuffix);
    };
    if (found->variant.empty() ? std::ranges::binary_search(names, found->stem + kSuffix)
                               : std::ranges::any_of(names, is_loaded))
      continue;
    (found->variant.empty() ? plain : variants).push_back(name);
  }
  const std::vector<std::string>& all = plain.empty() ? variants : plain;
  if (all.size() < 2) return all.empty() ? "" : all[0];
  return Status(CKPT_MISMATCH, strformat("{}: {} and {} are of two sets; import one of them", path, all[0], all[1]))
      .with("path", path)
      .with("found", all[1]);
}

Result<FileSet> set_of_directory(const std::string& path, const Folder& folder) {
  CKPT_ASSIGN(std::vector<std::string> names, list_directory(path, folder));
  if (chosen_weights(path, names, folder) == kIndexFile) return set_of_index(path + '/' + kIndexFile, folder);
  if (!std::ranges::binary_search(names, kDefaultFile)) {
    CKPT_ASSIGN(const std::string index, other_index(path, names));
    if (!index.empty()) return set_of_index(path + '/' + index, folder);
  }
  FileSet set;
  std::ranges::copy_if(names, std::back_inserter(set.names), is_safetensors_name);
  leave_out_what_is_not_loaded(&set.names);
  if (set.names.empty())
    return Status(CKPT_NOT_FOUND, path + ": neither " + kIndexFile + " nor any *" + kSuffix).with("path", path);
  CKPT_TRY(check_numbered(path, set.names));
  for (const std::string& name : set.names) {
    Status status = check_file_name(name);
    if (!status.ok()) return std::move(status).in(path).with("path", path);
    set.paths.push_back(strformat("{}/{}", path, name));
  }
  return set;
}

// A file that was named by the caller may be called anything; what is kept of the name must be safe.
FileSet set_of_file(const std::string& path) {
  const std::string name = path.substr(parent_of(path).size());
  FileSet set;
  set.paths.push_back(path);
  set.names.push_back(check_file_name(name).ok() ? name : kDefaultFile);
  return set;
}

}  // namespace

// Where all neighbours of what is there are there, none is missing.
Status check_numbered(const std::string& directory, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::optional<ShardName> found = parse_shard_name(name);
    if (!found || name.starts_with("shard-")) continue;  // of DCP, whose ranks have some each
    for (const uint32_t other : {found->number - 1, found->number + 1}) {
      if (other < 1 || other > found->count) continue;
      const std::string file = strformat("{}{:05}-of-{:05}{}", found->before, other, found->count, found->after);
      if (!std::binary_search(names.begin(), names.end(), file))
        return Status(CKPT_INCOMPLETE,
                      strformat("{}/{} is missing: {} is one of {}", directory, file, name, found->count))
            .with("path", directory + '/' + file);
    }
  }
  return Ok();
}

std::string chosen_weights(const std::string& directory, const std::vector<std::string>& names, const Folder& folder,
                           const char* file, const char* index, const char* suffix) {
  const bool has_file = std::ranges::binary_search(names, file), has_index = std::ranges::binary_search(names, index);
  if (!has_file || !has_index) return has_file ? file : has_index ? index : "";
  const Result<InputFile> opened = InputFile::open(directory + '/' + index, folder);
  if (!opened.ok() || (folder && !fetch_index(index, *opened).ok())) return file;
  const Result<Index> parsed = parse_index(as_text(opened->addresses()), suffix);
  const auto is_file = [&](const auto& row) { return row.second == file; };
  return parsed.ok() && std::ranges::any_of(parsed->weight_map, is_file) ? index : file;
}

bool holds_safetensors(const std::string& directory, const Folder& folder) {
  const Result<std::vector<std::string>> names = list_directory(directory, folder);
  if (!names.ok()) return true;  // find_files' to tell
  return std::ranges::binary_search(*names, kIndexFile) || std::ranges::any_of(*names, is_safetensors_name);
}

Result<FileSet> find_files(const std::string& path, const Folder& folder) {
  if (path.empty()) return Status(CKPT_INVALID, "the path is empty");
  const Busy busy("inspection", path);
  struct stat info{};
  if (!folder && stat(path.c_str(), &info) != 0) return from_errno(errno, "open", path);
  if (is_directory(path, folder)) return set_of_directory(path, folder);
  return path.ends_with(".json") ? set_of_index(path, folder) : Result<FileSet>(set_of_file(path));
}

Result<Index> parse_index(std::string_view text, const char* suffix) {
  IndexEvents events(suffix);
  CKPT_TRY(parse_json(text, events));
  const StringMap& map = events.index.weight_map;
  if (!events.has_map) return Status(CKPT_FORMAT, "no weight_map: not the index of a set of safetensors");
  if (const std::string* tensor = find_duplicate(map))
    return Status(CKPT_FORMAT, "weight_map: tensor " + shown(*tensor) + " comes twice").with("tensor", *tensor);
  return std::move(events.index);
}

Result<Index> parse_index_of_set(std::string_view text, const std::string& path, const char* suffix) {
  Result<Index> index = parse_index(text, suffix);
  if (!index.ok()) return std::move(index).status().in(path).with("path", path);
  if (!index->weight_map.empty()) return index;
  return Status(CKPT_INCOMPLETE, path + ": weight_map is empty: expected the files of the set, found no tensor")
      .with("path", path);
}

Result<std::optional<Index>> index_in(const std::string& directory) {
  const std::string path = directory + '/' + kIndexFile;
  if (!is_directory(directory, nullptr) || !is_file(path, nullptr)) return std::optional<Index>();
  CKPT_ASSIGN(const InputFile file, InputFile::open(path, nullptr));
  CKPT_TRY(file.bytes().need(0, file.bytes().size()));
  CKPT_ASSIGN(Index index, parse_index_of_set(as_text(file.addresses()), path));
  return std::optional(std::move(index));
}

std::string make_index(std::string_view metadata, const StringMap& weight_map) {
  StringMap sorted = weight_map;
  std::sort(sorted.begin(), sorted.end());
  std::string text = "{\n  \"metadata\": " + indented(metadata, 1) + ",\n  \"weight_map\": {";
  for (size_t i = 0; i < sorted.size(); i++)
    text += (i ? ",\n    " : "\n    ") + json_quote_ascii(sorted[i].first) + ": " + json_quote_ascii(sorted[i].second);
  return text + (sorted.empty() ? "}\n}\n" : "\n  }\n}\n");
}

Status check_file_name(std::string_view name, const char* suffix) {
  const bool plain = name.find('/') == std::string_view::npos && !name.starts_with('.') && name.size() <= 255;
  const bool text = valid_utf8(name) && std::none_of(name.begin(), name.end(), is_control);
  if (plain && text && name.ends_with(suffix)) return Ok();
  return Status(CKPT_FORMAT, strformat("expected a plain *{} file name, found ", suffix) + shown(name))
      .with("found", std::string(name));
}

}  // namespace ckpt::interop
