#include "interop/src/deepspeed/files.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "interop/src/files.h"
#include "interop/src/json.h"
#include "interop/src/pt/format.h"
#include "interop/src/safetensors/file_set.h"
#include "interop/src/sets/format.h"

namespace ckpt::interop {

using tree::kNoNode;

namespace {

constexpr std::string_view kModelStates = "_model_states.pt", kOptimStates = "_optim_states.pt";
constexpr size_t kMaxTag = 4096;

// Takes "zero_pp_rank_12" off the front of a name: 12.
std::optional<uint64_t> take_number(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  uint64_t number = 0;
  const char *begin = text.data() + prefix.size(), *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || stop == begin) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(stop - text.data()));
  return number;
}

// "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
struct RankFile {
  std::optional<uint64_t> rank;  // none: of all
  uint64_t parallel = 0;         // mp_rank
  bool is_model = false;
  bool operator==(const RankFile&) const = default;
};

std::optional<RankFile> rank_file(std::string_view name) {
  RankFile file;
  file.is_model = name.ends_with(kModelStates);
  if (!file.is_model && !name.ends_with(kOptimStates)) return std::nullopt;
  name.remove_suffix(file.is_model ? kModelStates.size() : kOptimStates.size());
  for (const std::string_view prefix : {"bf16_", "fp16_"})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  file.rank = take_number(name, "zero_pp_rank_");
  if (file.rank && !name.starts_with('_')) return std::nullopt;
  if (file.rank) name.remove_prefix(1);
  const auto parallel = take_number(name, "mp_rank_");
  if (!parallel || !name.empty() || (!file.rank && !file.is_model)) return std::nullopt;
  file.parallel = *parallel;
  return file;
}

// By rank, without a gap.
Result<std::vector<std::string>> in_order(const std::map<uint64_t, std::string>& by_rank, const std::string& directory,
                                          const char* what) {
  std::vector<std::string> names;
  for (const auto& [rank, name] : by_rank) {
    if (rank != names.size())
      return Status(CKPT_INCOMPLETE,
                    strformat("{}the {} of rank {} is missing: {} is there", directory, what, names.size(), name))
          .with("path", directory)
          .with("expected", names.size());
    names.push_back(name);
  }
  return names;
}

}  // namespace

bool holds_deepspeed(const std::string& directory, const Folder& folder) {
  return std::ranges::any_of(names_in_directory(directory, folder), [](const std::string& name) {
    const auto file = rank_file(name);
    return file && file->is_model;
  });
}

// The tags' directories beside a file that names none of them, for messages. Empty for none.
static std::string tags_beside(const std::string& directory, const Folder& folder) {
  constexpr size_t kNamed = 8;
  std::string tags;
  size_t found = 0;
  for (const std::string& name : names_in_directory(directory, folder)) {
    if (!is_directory(directory + name, folder) || !holds_deepspeed(directory + name, folder)) continue;
    if (++found > kNamed) return tags + " and more";
    tags += (tags.empty() ? "" : ", ") + in_quotes(name);
  }
  return tags;
}

// The text of `latest` and its like; none where there is no such file.
static Result<std::optional<std::string>> tag_of(const std::string& path, const Folder& folder) {
  const Result<InputFile> file = InputFile::open(path, folder);
  if (!file.ok()) return std::optional<std::string>();
  CKPT_TRY(file->bytes().need(0, kMaxTag));
  std::string tag(as_text(file->addresses().first(std::min<size_t>(file->addresses().size(), kMaxTag))));
  while (!tag.empty() && (tag.back() == '\n' || tag.back() == '\r' || tag.back() == ' ')) tag.pop_back();
  return std::optional(std::move(tag));
}

Result<std::string> deepspeed_directory(const std::string& path, const Folder& folder) {
  const std::string directory = path.ends_with('/') ? path : path + '/';
  if (holds_deepspeed(directory, folder)) return directory;
  for (const char* name : {"latest", "latest_universal"}) {
    CKPT_ASSIGN(const std::optional<std::string> tag, tag_of(directory + name, folder));
    if (!tag) continue;
    const bool is_name = check_file_name(*tag, "").ok();
    if (is_name && holds_deepspeed(directory + *tag, folder)) return directory + *tag + '/';
    if (std::string_view(name) == "latest" && is_file(directory + "latest_universal", folder)) continue;
    const bool is_there = is_name && is_directory(directory + *tag, folder);
    const std::string tags = tags_beside(directory, folder);
    const std::string what = !is_name   ? "which is not the name of a directory"
                             : is_there ? "which has no *_model_states.pt"
                                        : "which is not there";
    Status status(
        is_name ? CKPT_NOT_FOUND : CKPT_FORMAT,
        strformat("{}{} names {}, {}; {}", directory, name, in_quotes(*tag), what,
                  tags.empty() ? "no directory beside it is a tag's"
                               : strformat("tags that are there: {}; name the directory of one of them", tags)));
    status = std::move(status).with("path", directory + name).with("expected", *tag);
    return tags.empty() ? status : std::move(status).with("found", tags);
  }
  return Status(CKPT_NOT_FOUND, path + " has neither *_model_states.pt nor a file `latest` that names a directory");
}

Result<DeepSpeedFiles> deepspeed_files(const std::string& directory, const Folder& folder) {
  DeepSpeedFiles files{directory, {}, {}, {}, is_directory(directory + "zero", folder)};
  std::map<uint64_t, std::string> model, optim;
  for (const std::string& name : names_in_directory(directory, folder)) {
    const bool states = name.ends_with(kModelStates) || name.ends_with(kOptimStates);
    const std::optional<RankFile> file = rank_file(name);
    if (!states) continue;
    if (!file || file->parallel != 0) {
      files.others.push_back(name);
    } else if (!(file->is_model ? model : optim).try_emplace(file->rank.value_or(0), name).second) {
      return Status(CKPT_FORMAT, directory + ": two files of rank " + std::to_string(file->rank.value_or(0)) + ", " +
                                     (file->is_model ? model : optim)[file->rank.value_or(0)] + " and " + name)
          .with("path", directory);
    }
  }
  CKPT_ASSIGN(files.model, in_order(model, directory, "*_model_states.pt"));
  CKPT_ASSIGN(files.optim, in_order(optim, directory, "*_optim_states.pt"));
  if (files.model.empty())
    return Status(CKPT_INCOMPLETE, directory + "*mp_rank_00_model_states.pt is missing").with("path", directory);
  return files;
}

// ---- one file ----

// torch calls the archive as the file was called that it wrote: nothing else tells ZeRO-3's ranks apart. Other names
// ("archive", those of files that somebody renamed) say nothing.
static Status check_archive(const std::string& path, const std::string& archive,
                            const std::vector<std::string>& beside) {
  const std::string name = path.substr(path.rfind('/') + 1), written = archive + ".pt";
  const auto file = rank_file(name), origin = rank_file(written);
  const bool is_other =
      name != written && (file && origin ? *file != *origin : std::ranges::binary_search(beside, written));
  return is_other ? written_as_another(path, written) : Ok();
}

Result<DeepSpeedFile> DeepSpeedFile::open(const std::string& path, const ReadOptions& options, ForeignCheckpoint& to,
                                          const std::vector<std::string>& beside) {
  CKPT_TRY(options.check());
  CKPT_ASSIGN(ForeignCheckpoint content, read_pt(path, options));
  CKPT_TRY(check_archive(path, content.archive, beside));
  DeepSpeedFile file;
  file.path_ = path;
  CKPT_ASSIGN(file.tree_, content.take_tree());
  const size_t first = to.files.append(std::move(content.files));
  std::move(content.keep.begin(), content.keep.end(), std::back_inserter(to.keep));
  file.tensors_ = std::move(content.tensors);
  for (size_t i = 0; i < file.tensors_.size(); i++) {
    for (ForeignPiece& piece : file.tensors_[i].pieces)
      if (piece.bytes.file != SIZE_MAX) piece.bytes.file += first;
    file.by_name_.emplace(file.tensors_[i].name, i);
  }
  return file;
}

uint32_t DeepSpeedFile::entries(uint32_t node) const {
  if (node == kNoNode) return kNoNode;
  if (tree_[node].kind == CKPT_NODE_RECORD && tree_[node].text_view() == "collections.OrderedDict")
    node = tree_.find(node, "items");
  return node;
}

bool DeepSpeedFile::is_dict(uint32_t node) const {
  node = entries(node);
  return node != kNoNode && tree_[node].kind == CKPT_NODE_DICT;
}

bool DeepSpeedFile::is_null(uint32_t node) const { return node == kNoNode || tree_[node].kind == CKPT_NODE_NULL; }

uint32_t DeepSpeedFile::find(uint32_t node, std::string_view key) const {
  return is_dict(node) ? tree_.find(entries(node), key) : kNoNode;
}

uint32_t DeepSpeedFile::find(uint32_t node, int64_t key) const {
  node = entries(node);
  return node != kNoNode && tree_[node].container() ? tree_.find(node, key) : kNoNode;
}

uint32_t DeepSpeedFile::first(uint32_t node) const {
  node = entries(node);
  return node == kNoNode ? kNoNode : tree_.first_child(node);
}

size_t DeepSpeedFile::tensor(uint32_t node) const {
  for (int depth = 0; depth < 3 && node != kNoNode; depth++) {
    const tree::TreeNode& found = tree_[node];
    if (found.kind == CKPT_NODE_TENSOR) {
      const auto at = by_name_.find(std::string(found.text_view()));
      return at == by_name_.end() ? SIZE_MAX : at->second;
    }
    if (found.kind != CKPT_NODE_RECORD || !found.text_view().starts_with("torch.")) break;
    // What torch makes of the elements would be lost.
    if (std::ranges::any_of(std::initializer_list<const char*>{"conj", "neg", "qscheme"},
                            [&](const char* key) { return tree_.find(node, key) != kNoNode; }))
      break;
    node = tree_.find(node, "data");
  }
  return SIZE_MAX;
}

Status DeepSpeedFile::wrong(uint32_t node, const std::string& what) const {
  const std::string at = node == kNoNode ? "" : tree_.path_of(node);
  return Status(CKPT_FORMAT, path_ + ": " + (at.empty() ? "" : shown(at) + ": ") + what).with("path", path_);
}

Result<uint64_t> DeepSpeedFile::number(uint32_t node) const {
  if (node != kNoNode && tree_[node].kind == CKPT_NODE_INT && tree_[node].integer >= 0)
    return static_cast<uint64_t>(tree_[node].integer);
  return wrong(node, "expected a number");
}

// torch.Size, or a tuple or list of numbers.
Result<Shape> DeepSpeedFile::shape(uint32_t node) const {
  uint32_t items = node;
  if (tree_[node].kind == CKPT_NODE_RECORD && tree_[node].text_view() == "torch.Size")
    items = tree_.find(node, "items");
  const bool fits = items != kNoNode && (tree_[items].kind == CKPT_NODE_TUPLE || tree_[items].kind == CKPT_NODE_LIST) &&
                    tree_[items].child_count <= static_cast<uint32_t>(kMaxNdim);
  if (!fits) return wrong(node, "expected a shape");
  Shape shape;
  for (uint32_t child = tree_.first_child(items); child != kNoNode; child = next(child)) {
    CKPT_ASSIGN(shape.dims[static_cast<size_t>(shape.ndim++)], number(child));
  }
  uint64_t elements;
  if (!count_elements(shape.span(), &elements)) return wrong(node, "a shape past 2^63 elements");
  return shape;
}

}  // namespace ckpt::interop
