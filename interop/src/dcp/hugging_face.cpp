// What torch's HuggingFaceStorageWriter writes of a sharded state: safetensors of each rank, which say in their
// metadata where in its tensor each piece begins. There is no list of the files, and no shape: a tensor ends where its
// last piece ends, so a last piece that is missing cannot be noticed.
#include <algorithm>
#include <unordered_map>

#include "interop/src/dcp/format.h"
#include "interop/src/json.h"
#include "interop/src/safetensors/file_set.h"
#include "interop/src/safetensors/safetensors.h"
#include "interop/src/seeded_hash.h"
#include "plan/coverage.h"

namespace ckpt::interop {

namespace {

constexpr const char* kShardingInfo = "DCP_SHARDING_INFO";

// {"name": {"saved_offsets": [4, 0]}}
class OffsetEvents final : public JsonEvents {
 public:
  std::unordered_map<std::string, Shape, SeededHash> offsets;

  Status begin_object() override { return ++depth_ <= 2 ? Ok() : unexpected("an object"); }
  Status end_object() override {
    depth_--;
    return Ok();
  }
  Status begin_array() override {
    in_list_ = depth_ == 2 && key_ == "saved_offsets";
    return in_list_ ? Ok() : unexpected("an array");
  }
  Status end_array() override {
    in_list_ = false;
    return Ok();
  }
  Status key(std::string text) override {
    if (depth_ == 2) {
      key_ = std::move(text);
      return Ok();
    }
    const auto [found, is_new] = offsets.try_emplace(text);
    if (!is_new) return Status(CKPT_FORMAT, shown(text) + " comes twice");
    now_ = &found->second;
    return Ok();
  }
  Status number(uint64_t value) override {
    if (!in_list_ || now_->ndim == kMaxNdim) return unexpected("a number");
    (*now_)[now_->ndim++] = value;
    return Ok();
  }

 private:
  int depth_ = 0;
  bool in_list_ = false;
  std::string key_;
  Shape* now_ = nullptr;  // a map's values stay where they are
};

class ShardsReader {
 public:
  ShardsReader(ForeignCheckpoint& state, const ReadOptions& options) : state_(state), options_(options) {}

  Status run(const std::string& path) {
    CKPT_ASSIGN(const FileSet set, find_files(path, options_.folder));
    expect_files(path, set.names, options_.folder);
    for (const std::string& file : set.paths) {
      CKPT_TRY(options_.check());
      Status status = add_file(file);
      if (!status.ok()) return std::move(status).with("path", file);
    }
    for (ForeignTensor& tensor : state_.tensors) {
      Status status = settle(tensor);
      if (!status.ok()) return std::move(status).in(path + ": " + shown(tensor.name)).with("tensor", tensor.name);
    }
    return Ok();
  }

 private:
  Status add_file(const std::string& path) {
    CKPT_ASSIGN(InputFile file, InputFile::open(path, options_.folder));
    CKPT_ASSIGN(const Header header, parse_header(file.bytes(), path));
    const size_t number = state_.files.add(path, std::move(file));
    OffsetEvents events;
    for (const auto& [key, text] : header.metadata.value_or(StringMap())) {
      if (key != kShardingInfo) continue;
      Status status = parse_json(text, events);
      if (!status.ok()) return std::move(status).in(path + ": " + kShardingInfo);
    }
    for (const Tensor& tensor : header.tensors) {
      const auto found = events.offsets.find(tensor.name);
      if (found == events.offsets.end() || found->second.ndim != tensor.shape.ndim)
        return Status(CKPT_FORMAT,
                      strformat("{}: {} does not say where {} begins", path, kShardingInfo, shown(tensor.name)))
            .with("tensor", tensor.name);
      const FileRange bytes{number, header.data_offset + tensor.begin, tensor.end - tensor.begin};
      CKPT_TRY(add_piece(tensor, {found->second, tensor.shape}, bytes));
    }
    return Ok();
  }

  Status add_piece(const Tensor& from, const Box& box, const FileRange& bytes) {
    const auto [found, is_new] = places_.try_emplace(from.name, state_.tensors.size());
    if (is_new) {
      // Names cross the C API as NUL-terminated text.
      if (from.name.find('\0') != std::string::npos) return Status(CKPT_FORMAT, "a name with a NUL");
      ForeignTensor& tensor = state_.tensors.emplace_back();
      tensor.name = from.name;
      tensor.dtype = from.dtype;
      tensor.shape.ndim = box.ndim();
    }
    ForeignTensor& tensor = state_.tensors[found->second];
    if (tensor.dtype != from.dtype || tensor.shape.ndim != box.ndim())
      return Status(CKPT_MISMATCH,
                    strformat("{}: {} of {} dimensions in one file, {} of {} in another", shown(from.name),
                              dtype_name(tensor.dtype), tensor.shape.ndim, dtype_name(from.dtype), box.ndim()))
          .with("tensor", from.name);
    for (int i = 0; i < box.ndim(); i++) {
      uint64_t end;
      if (add_overflows(box.offset[i], box.extent[i], &end)) return Status(CKPT_FORMAT, "a piece past 2^64");
      tensor.shape[i] = std::max(tensor.shape[i], end);
    }
    tensor.pieces.push_back({{RegionKind::kBox, box, 0, 0}, bytes, std::nullopt, 0});
    return Ok();
  }

  // Pieces that ranks have in common count once; together they are the tensor.
  static Status settle(ForeignTensor& tensor) {
    std::vector<ForeignPiece>& pieces = tensor.pieces;
    auto before = [](const ForeignPiece& a, const ForeignPiece& b) {
      return std::ranges::lexicographical_compare(a.region.box.offset.span(), b.region.box.offset.span());
    };
    std::stable_sort(pieces.begin(), pieces.end(), before);
    const auto same = [](const ForeignPiece& a, const ForeignPiece& b) { return a.region.box == b.region.box; };
    pieces.erase(std::unique(pieces.begin(), pieces.end(), same), pieces.end());
    CKPT_ASSIGN(const uint64_t elements, element_count(tensor.shape));
    if (elements == 0) pieces = {{}};
    std::vector<Region> regions;
    for (ForeignPiece& piece : pieces) {
      if (elements != 0 && piece.region.box == Box::whole(tensor.shape)) piece.region = {};
      regions.push_back(piece.region);
    }
    Status status = plan::check_coverage(tensor.shape, regions);
    if (status.code() == CKPT_INVALID) return Status(CKPT_FORMAT, status.message());
    CKPT_TRY(status);
    std::erase_if(pieces, [&](const ForeignPiece& piece) {
      return elements != 0 && piece.region.kind == RegionKind::kBox && piece.region.box.volume() == 0;
    });
    return element_bytes(elements, tensor.dtype).status();
  }

  ForeignCheckpoint& state_;
  const ReadOptions& options_;
  std::unordered_map<std::string, size_t, SeededHash> places_;  // of tensors, by name
};

}  // namespace

bool is_dcp_hugging_face(const Candidate& candidate) {
  if (!candidate.is_directory) return false;
  const Result<FileSet> set = find_files(candidate.path, candidate.folder);
  return set.ok() && !set->has_index && !set->names.empty() &&
         std::ranges::all_of(set->names, [](const std::string& name) { return name.starts_with("shard-"); });
}

Result<ForeignCheckpoint> read_dcp_hugging_face(const std::string& path, const ReadOptions& options) {
  ForeignCheckpoint state;
  state.format = "dcp";
  state.attributes = {{"import.format", "dcp"}};
  Status status = ShardsReader(state, options).run(path);
  if (status.code() == CKPT_INVALID) return Status(CKPT_FORMAT, status.message());
  CKPT_TRY(status);
  return state;
}

}  // namespace ckpt::interop
