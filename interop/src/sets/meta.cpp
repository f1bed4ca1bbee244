// Meta's Llama: one consolidated.NN.pth for each of the processes that run it, which hold boxes of most tensors.
#include <algorithm>
#include <cstring>
#include <map>

#include "interop/src/json.h"
#include "interop/src/pieces.h"
#include "interop/src/pt/format.h"
#include "interop/src/sets/format.h"

namespace ckpt::interop {

namespace {

constexpr std::string_view kEmbeddings = "tok_embeddings.weight";

// As Meta's models divide their weights; all others are in each file whole.
constexpr std::pair<std::string_view, MetaRule> kRules[] = {
    {".wq.weight", MetaRule::kRows},    {".wk.weight", MetaRule::kRows},    {".wv.weight", MetaRule::kRows},
    {".w1.weight", MetaRule::kRows},    {".w3.weight", MetaRule::kRows},    {".wo.weight", MetaRule::kColumns},
    {".w2.weight", MetaRule::kColumns}, {"output.weight", MetaRule::kRows}, {kEmbeddings, MetaRule::kEmbeddings},
};

class Joiner {
 public:
  Joiner(std::string path, std::vector<ForeignCheckpoint> files, Folder folder)
      : path_(std::move(path)), files_(std::move(files)), folder_(std::move(folder)) {}

  Result<ForeignCheckpoint> run() {
    for (ForeignCheckpoint& file : files_) {
      auto& names = by_name_.emplace_back();
      for (size_t i = 0; i < file.tensors.size(); i++) names[file.tensors[i].name] = i;
    }
    const ForeignTensor* norm = find(0, "norm.weight");
    if (!norm || norm->shape.ndim != 1) return wrong("norm.weight", "it is not there, or no vector");
    hidden_ = norm->shape[0];
    out_.format = "meta";
    out_.ranks = static_cast<uint32_t>(files_.size());
    std::vector<size_t> first_file;
    for (ForeignCheckpoint& file : files_) {
      first_file.push_back(out_.files.append(std::move(file.files)));
      std::move(file.keep.begin(), file.keep.end(), std::back_inserter(out_.keep));
      for (ForeignTensor& tensor : file.tensors) {
        if (tensor.is_alias()) return wrong(tensor.name, "it shares memory with another");
        if (tensor.pieces[0].bytes.file != SIZE_MAX) tensor.pieces[0].bytes.file += first_file.back();
      }
      if (file.tensors.size() != files_[0].tensors.size())
        return wrong(file.tensors[0].name, "the files differ in names");
    }
    for (const ForeignTensor& tensor : files_[0].tensors) CKPT_TRY(join(tensor));
    CKPT_TRY(take_tree());
    out_.attributes = files_[0].attributes;
    out_.attributes.emplace_back(kMetaFilesAttr, std::to_string(files_.size()));
    if (const ForeignTensor* table = find(0, std::string(kEmbeddings)); table && table->shape.ndim == 2)
      out_.attributes.emplace_back(kMetaEmbeddingsAttr, dimension(*table) == 0 ? "rows" : "columns");
    return std::move(out_);
  }

 private:
  // The first file's says what is true of all of them.
  Status take_tree() {
    std::map<std::string, TorchMarks> first;
    for (ForeignCheckpoint& file : files_) {
      CKPT_ASSIGN(tree::Tree tree, file.take_tree());
      std::map<std::string, TorchMarks> marks = torch_marks(tree);
      if (!out_.tree) {
        out_.tree = std::move(tree);
        first = marks;
      }
      const bool scaled = std::ranges::any_of(marks, [](const auto& of) { return of.second.quantized; });
      if (marks != first || scaled)
        return Status(CKPT_UNSUPPORTED, path_ +
                                            ": torch conjugates or negates a tensor of some files alone, or one is "
                                            "quantized")
            .with("path", path_);
    }
    return Ok();
  }

  const ForeignTensor* find(size_t file, const std::string& name) const {
    const auto found = by_name_[file].find(name);
    return found == by_name_[file].end() ? nullptr : &files_[file].tensors[found->second];
  }
  Status wrong(const std::string& name, const std::string& what) const {
    return Status(CKPT_FORMAT, path_ + ": tensor " + shown(name) + ": " + what)
        .with("path", path_)
        .with("tensor", name);
  }

  // Which one is divided among the files; -1 for what each has whole.
  int dimension(const ForeignTensor& first) const {
    const MetaRule rule = first.shape.ndim == 2 ? meta_rule(first.name) : MetaRule::kWhole;
    if (rule == MetaRule::kEmbeddings) return first.shape[1] == hidden_ ? 0 : 1;
    return rule == MetaRule::kWhole ? -1 : rule == MetaRule::kRows ? 0 : 1;
  }

  Status join(const ForeignTensor& first) {
    const int dim = dimension(first);
    ForeignTensor tensor = first;
    tensor.pieces.clear();
    uint64_t at = 0;
    for (size_t i = 0; i < files_.size(); i++) {
      const ForeignTensor* part = find(i, first.name);
      if (!part) return wrong(first.name, "it is not in " + meta_name(i));
      Shape like = part->shape;
      if (dim >= 0 && like.ndim == first.shape.ndim) like[dim] = first.shape[dim];
      if (like != first.shape || part->dtype != first.dtype)
        return wrong(first.name, meta_name(i) + " has another shape");
      ForeignPiece piece = part->pieces[0];
      if (dim < 0) {
        CKPT_TRY(check_equal(first, *part));
        if (i == 0) tensor.pieces.push_back(std::move(piece));
        continue;
      }
      piece.region.kind = RegionKind::kBox;
      piece.region.box = Box::whole(part->shape);
      piece.region.box.offset[dim] = at;
      piece.rank = static_cast<uint32_t>(i);
      at += part->shape[dim];
      tensor.pieces.push_back(std::move(piece));
    }
    if (dim >= 0) tensor.shape[dim] = at;
    out_.tensors.push_back(std::move(tensor));
    return Ok();
  }

  // What each file has must be the same, or one of them is not the others'.
  Status check_equal(const ForeignTensor& first, const ForeignTensor& part) {
    if (&first == &part || first.bytes() == 0) return Ok();
    CKPT_ASSIGN(const Bytes a, out_.files.place(first.pieces[0].bytes));
    CKPT_ASSIGN(const Bytes b, out_.files.place(part.pieces[0].bytes));
    CKPT_ASSIGN(const bool same, same_elements(first.dtype, first.shape, {{a, {}}, {b, {}}}, folder_));
    if (same) return Ok();
    return Status(CKPT_MISMATCH, path_ + ": tensor " + shown(first.name) + " differs from file to file")
        .with("path", path_)
        .with("tensor", first.name);
  }

  std::string path_;
  std::vector<ForeignCheckpoint> files_;
  const Folder folder_;
  std::vector<std::map<std::string, size_t>> by_name_;
  uint64_t hidden_ = 0;
  ForeignCheckpoint out_;
};

}  // namespace

std::string meta_name(uint64_t number) { return strformat("consolidated.{:02}.pth", number); }

MetaRule meta_rule(std::string_view name) {
  for (const auto& [ending, rule] : kRules)
    if (ending.starts_with('.') ? name.ends_with(ending) : name == ending) return rule;
  return MetaRule::kWhole;
}

bool is_meta(const Candidate& candidate) {
  if (!candidate.is_directory) return false;
  const std::vector<std::string> names = names_in_directory(candidate.path, candidate.folder);
  return std::binary_search(names.begin(), names.end(), meta_name(0));
}

Result<ForeignCheckpoint> read_meta(const std::string& path, const ReadOptions& options) {
  const std::vector<std::string> names = names_in_directory(path, options.folder);
  std::vector<std::string> parts;
  for (const std::string& name : names)
    if (name.starts_with("consolidated.") && name.ends_with(".pth")) parts.push_back(name);
  expect_files(path, parts, options.folder);
  std::vector<ForeignCheckpoint> files;
  for (size_t i = 0; i < parts.size(); i++) {
    if (parts[i] != meta_name(i))
      return Status(CKPT_INCOMPLETE, path + ": " + meta_name(i) + " is missing")
          .with("path", path + '/' + meta_name(i));
    CKPT_ASSIGN(ForeignCheckpoint file, read_pt(path + '/' + parts[i], options));
    files.push_back(std::move(file));
  }
  ForeignCheckpoint all;
  if (files.size() == 1) {
    all = std::move(files[0]);
  } else {
    CKPT_ASSIGN(all, Joiner(path, std::move(files), options.folder).run());
  }
  keep_file_names(all, path);
  return all;
}

}  // namespace ckpt::interop
