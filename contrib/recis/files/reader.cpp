// The sparse files become tables of pieces, a piece for each shard; the .pt files stand beside them.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <unordered_map>

#include "base/parallel.h"
#include "base/text.h"
#include "contrib/recis/files/format.h"
#include "contrib/recis/files/layout.h"
#include "format/names.h"
#include "format/table.h"
#include "interop/src/look.h"
#include "interop/src/pt/format.h"
#include "interop/src/safetensors/file_set.h"
#include "interop/src/safetensors/safetensors.h"
#include "interop/src/seeded_hash.h"
#include "interop/src/sets/format.h"

namespace ckpt::interop {

namespace {

constexpr uint32_t kMaxWorkers = 1 << 16;
constexpr const char *kTables = "tables", *kSparseOptim = "sparse_optim";

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::binary_search(names, name);
}

Result<std::string> recis_text_of(const std::string& path, const Folder& folder) {
  CKPT_ASSIGN(const InputFile file, InputFile::open_whole(path, kMaxRecisText, folder));
  return std::string(as_text(file.addresses()));
}

// Ids against the buckets of their shards, once they are read.
class RecisIds {
 public:
  void add(const std::string& tensor, std::vector<RecisSlice> shards) { shards_[tensor] = std::move(shards); }

  Status check(ForeignCheckpoint& content, const ReadOptions& options) const {
    struct Wanted {
      const ForeignTensor* tensor;
      size_t shard;
      RecisSlice slice;
      FileRange ids;
    };
    std::vector<Wanted> all;
    for (const ForeignTensor& tensor : content.tensors) {
      const auto found = shards_.find(tensor.name);
      for (size_t i = 0; found != shards_.end() && i < tensor.pieces.size(); i++) {
        CKPT_TRY(content.files.place(tensor.pieces[i].bytes).status());
        all.push_back({&tensor, i, found->second[i], tensor.pieces[i].bytes});
      }
    }
    return for_each_parallel(options.threads, all.size(), [&](size_t i) -> Status {
      const Wanted& wanted = all[i];
      return in_windows(wanted.ids.size, [&](uint64_t begin, uint64_t size) -> Status {
        CKPT_TRY(options.check());
        const FileRange window{wanted.ids.file, wanted.ids.offset + begin, size};
        CKPT_TRY(content.files.fetch({window}));
        CKPT_TRY(check_shard(content, *wanted.tensor, wanted.shard, wanted.slice, content.files.mapped(window)));
        content.files.release(window);
        return Ok();
      });
    });
  }

 private:
  static Status check_shard(const ForeignCheckpoint& content, const ForeignTensor& tensor, size_t shard,
                            const RecisSlice& slice, Bytes ids) {
    for (size_t at = 0; at < ids.size(); at += sizeof(uint64_t)) {
      uint64_t id = 0;
      std::memcpy(&id, ids.data() + at, sizeof id);
      const uint64_t bucket = id % slice.count;
      if (bucket >= slice.begin && bucket < slice.end) continue;
      const std::string path = content.files.path(tensor.pieces[shard].bytes.file);
      return Status(CKPT_MISMATCH,
                    strformat("{}: table {}: id {} has bucket {}, shard {} has buckets {}", path,
                              ckpt::in_quotes(tensor.name), static_cast<int64_t>(id), bucket, shard, recis_text(slice)))
          .with("path", path)
          .with("tensor", tensor.name)
          .with("found", std::to_string(static_cast<int64_t>(id)));
    }
    return Ok();
  }

  std::unordered_map<std::string, std::vector<RecisSlice>> shards_;  // of the ids of a table
};

// What index, tensorkey.json and the safetensors files say, as two parts of the state.
class SparseReader {
 public:
  SparseReader(std::string directory, const ReadOptions& options)
      : directory_(std::move(directory)), options_(options) {}

  Status run(std::vector<StatePart>* parts, RecisIds* ids) {
    CKPT_ASSIGN(const std::string index, recis_text_of(directory_ + '/' + kRecisIndex, options_.folder));
    CKPT_ASSIGN(const std::string keys, recis_text_of(directory_ + '/' + kRecisKeys, options_.folder));
    Result<RecisLayout> layout = parse_recis_layout(index, keys);
    if (!layout.ok()) return std::move(layout).status().in(directory_).with("path", directory_);
    layout_ = layout.take();
    CKPT_TRY(open_files());
    StatePart tables{kTables, {}}, dense{kSparseOptim, {}};
    CKPT_TRY(put_tables(tables.content.emplace_back(), ids));
    CKPT_TRY(put_dense(dense.content.emplace_back()));
    for (const auto& [place, tensor] : blocks_)
      return Status(CKPT_MISMATCH, path_of(tensor.file) + " has block " + shown(tensor.found.name) +
                                       ", which index does not name there")
          .with("path", path_of(tensor.file))
          .with("found", tensor.found.name);
    if (!layout_.tables.empty()) parts->push_back(std::move(tables));
    if (!layout_.dense.empty()) parts->push_back(std::move(dense));
    return Ok();
  }

  uint32_t shards() const { return shards_; }
  std::vector<std::string> file_names() const { return layout_.files; }

 private:
  struct Found {
    Tensor found;
    size_t file;
    uint64_t offset;  // of its bytes in the file
  };

  std::string path_of(size_t file) const { return directory_ + '/' + layout_.files[file]; }

  Status open_files() {
    expect_files(directory_, layout_.files, options_.folder);
    for (size_t i = 0; i < layout_.files.size(); i++) {
      CKPT_TRY(options_.check());
      const std::string path = path_of(i);
      Result<InputFile> file = InputFile::open(path, options_.folder);
      if (file.status().code() == CKPT_NOT_FOUND)
        return Status(CKPT_INCOMPLETE, path + " is missing, which index names").with("path", path);
      CKPT_TRY(file.status());
      CKPT_ASSIGN(const Header header, parse_header(file->bytes(), path, kLowerBool));
      for (const Tensor& tensor : header.tensors)
        blocks_.emplace(strformat("{} ", i) + tensor.name, Found{tensor, i, header.data_offset + tensor.begin});
      files_.push_back(file.take());
    }
    return Ok();
  }

  // Each block is taken once.
  Result<Found> take(const RecisBlock& block) {
    const auto found = blocks_.find(strformat("{} ", block.file) + block.name);
    if (found == blocks_.end())
      return Status(CKPT_INCOMPLETE,
                    path_of(block.file) + " has no block " + shown(block.name) + ", which index says that it has")
          .with("path", path_of(block.file))
          .with("expected", block.name);
    Found tensor = std::move(found->second);
    blocks_.erase(found);
    return tensor;
  }

  // The number of a file in a content's table; opened files are shared.
  size_t file_in(ForeignCheckpoint& content, size_t file) {
    auto& numbers = numbers_[&content];
    if (numbers.empty()) numbers.assign(files_.size(), SIZE_MAX);
    if (numbers[file] == SIZE_MAX) numbers[file] = content.files.add(path_of(file), files_[file]);
    return numbers[file];
  }

  FileRange range_of(ForeignCheckpoint& content, const Found& found) {
    const uint64_t size = found.found.end - found.found.begin;
    return size == 0 ? FileRange{} : FileRange{file_in(content, found.file), found.offset, size};
  }

  static Status begin_tree(ForeignCheckpoint& content) { return content.tree.emplace().begin(CKPT_NODE_DICT); }
  static Status put_leaf(ForeignCheckpoint& content, const std::string& key, const std::string& name,
                         bool is_table = false) {
    Status status = content.tree->key(key);
    if (!status.ok()) return Status(CKPT_FORMAT, status.message()).with("found", key);
    if (!is_table) return content.tree->add_tensor(name);
    // What the bindings know as a table.
    CKPT_TRY(content.tree->begin(CKPT_NODE_RECORD, format::kTableClass));
    CKPT_TRY(content.tree->key("data"));
    CKPT_TRY(content.tree->add_tensor(name));
    return content.tree->end();
  }

  Status put_dense(ForeignCheckpoint& content) {
    CKPT_TRY(begin_tree(content));
    for (const RecisBlock& block : layout_.dense) {
      CKPT_ASSIGN(const Found found, take(block));
      ForeignTensor& tensor = content.tensors.emplace_back();
      const std::string key = block.name.substr(0, block.name.size() - 2);  // "^ "
      tensor.name = tree::path_segment(key);
      tensor.dtype = found.found.dtype;
      tensor.shape = found.found.shape;
      tensor.pieces.push_back({{}, range_of(content, found), std::nullopt, 0});
      CKPT_TRY(put_leaf(content, key, tensor.name));
    }
    return content.tree->end();
  }

  Status put_tables(ForeignCheckpoint& content, RecisIds* ids) {
    CKPT_TRY(begin_tree(content));
    for (const RecisTable& table : layout_.tables) {
      const std::string name = tree::path_segment(table.name);
      Status status = put_table(content, table, name);
      if (!status.ok()) return std::move(status).in("table " + shown(table.name)).with("tensor", table.name);
      CKPT_TRY(put_leaf(content, table.name, name, true));
      ids->add(strformat("{}/{}/{}", kTables, name, format::kTableIds), table.shards);
      shards_ = std::max(shards_, static_cast<uint32_t>(table.shards.size()));
    }
    return content.tree->end();
  }

  // Its ids, its columns, and the alias that is its name.
  Status put_table(ForeignCheckpoint& content, const RecisTable& table, const std::string& name) {
    const size_t first = content.tensors.size();
    std::vector<uint64_t> rows(table.shards.size());
    for (size_t column = 0; column < table.columns.size(); column++) {
      const std::string& slot = table.columns[column];
      if (column != 0 && (slot == format::kTableIds || slot == format::kTableBuckets))
        return Status(CKPT_UNSUPPORTED, "a slot " + shown(slot) + ", a name that tables have for themselves");
      ForeignTensor tensor;
      tensor.name = format::table_tensor(name, column == 0 ? std::string(format::kTableIds) : slot);
      tensor.buckets = table.buckets;
      for (size_t shard = 0; shard < table.shards.size(); shard++) {
        CKPT_ASSIGN(const Found found, take(table.blocks[shard][column]));
        Status status = put_piece(content, found, shard, column == 0, &rows[shard], &tensor);
        if (!status.ok())
          return std::move(status)
              .in(path_of(found.file) + ": " + shown(found.found.name))
              .with("path", path_of(found.file));
      }
      if (tensor.pieces.size() == 1) tensor.pieces[0].region = {};
      content.tensors.push_back(std::move(tensor));
    }
    ForeignTensor alias = content.tensors[first];
    alias.name = name;
    alias.target = first;
    alias.target_strides[0] = 1;
    content.tensors.push_back(std::move(alias));
    return Ok();
  }

  Status put_piece(ForeignCheckpoint& content, const Found& found, size_t shard, bool is_ids, uint64_t* rows,
                   ForeignTensor* tensor) {
    const Tensor& block = found.found;
    if (block.shape.ndim == 0 || (is_ids && (block.shape.ndim != 1 || block.dtype != CKPT_DTYPE_I64)))
      return Status(CKPT_FORMAT, strformat("expected {}, found {} {}", is_ids ? "I64 of one dimension" : "rows",
                                           dtype_name(block.dtype), to_text(block.shape)));
    if (is_ids) *rows = block.shape[0];
    if (block.shape[0] != *rows)
      return Status(CKPT_MISMATCH, strformat("{} ids, but {} rows", *rows, block.shape[0]))
          .with("expected", *rows)
          .with("found", block.shape[0]);
    Shape shape = block.shape;
    if (shard == 0) {
      tensor->dtype = block.dtype;
      tensor->shape = shape;
      tensor->shape[0] = 0;
    }
    const uint64_t before = tensor->shape[0];
    shape[0] = before;
    if (block.dtype != tensor->dtype || !(shape == tensor->shape))
      return Status(CKPT_MISMATCH, strformat("{} {}, in shard 0 {} {}", dtype_name(block.dtype), to_text(block.shape),
                                             dtype_name(tensor->dtype), to_text(tensor->shape)));
    // What a row has is told of an empty block, too.
    uint64_t row = 0, begin = 0, size = 0, end = 0;
    if (!count_elements(block.shape.span().subspan(1), &row) || row == 0 || row * dtype_bits(block.dtype) % 8 != 0)
      return Status(CKPT_FORMAT, "rows of " + to_text(block.shape) + " have no whole bytes");
    if (add_overflows(before, *rows, &end) || mul_overflows(before, row, &begin) || mul_overflows(*rows, row, &size))
      return Status(CKPT_FORMAT, "more rows than there can be");
    tensor->shape[0] = end;
    tensor->pieces.push_back(
        {{RegionKind::kFlat, {}, begin, size}, range_of(content, found), std::nullopt, static_cast<uint32_t>(shard)});
    return Ok();
  }

  const std::string directory_;
  const ReadOptions& options_;
  RecisLayout layout_;
  std::vector<InputFile> files_;
  std::unordered_map<std::string, Found, SeededHash> blocks_;  // by file and name; those that nobody took
  std::unordered_map<const ForeignCheckpoint*, std::vector<size_t>> numbers_;
  uint32_t shards_ = 1;
};

// io_state_0.pt …, as many as io_state_count says.
Status read_io_states(const std::string& directory, const std::vector<std::string>& names, const ReadOptions& options,
                      std::vector<StatePart>* parts) {
  if (!has(names, kRecisCount)) {
    for (const std::string& name : names)
      if (name.starts_with("io_state_") && name.ends_with(".pt"))
        return Status(CKPT_INCOMPLETE, directory + " has " + shown(name) + ", and no " + kRecisCount)
            .with("path", directory);
    return Ok();
  }
  const std::string path = directory + '/' + kRecisCount;
  CKPT_ASSIGN(std::string text, recis_text_of(path, options.folder));
  text.resize(text.find_last_not_of(" \r\n") + 1);
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count == 0 || count > kMaxWorkers)
    return Status(CKPT_FORMAT, path + strformat(": expected a number of 1 to {}, found ", kMaxWorkers) + shown(text))
        .with("path", path)
        .with("found", text);
  StatePart& part = parts->emplace_back(StatePart{"io_state", {}, true});
  for (uint32_t i = 0; i < count; i++) {
    const std::string name = strformat("io_state_{}.pt", i);
    if (!has(names, name))
      return Status(CKPT_INCOMPLETE, strformat("{}/{} is missing: {} says {}", directory, name, kRecisCount, count))
          .with("path", directory + '/' + name);
    CKPT_ASSIGN(ForeignCheckpoint content, read_pt(directory + '/' + name, options));
    part.content.push_back(std::move(content));
  }
  return Ok();
}

}  // namespace

Result<ForeignCheckpoint> read_recis(const std::string& path, const ReadOptions& options) {
  std::string directory = path.substr(0, std::max<size_t>(path.find_last_not_of('/') + 1, 1));
  const std::string newest =
      is_recis_checkpoint(directory, options.folder) ? "" : newest_of_recis(directory, options.folder);
  const std::string id = newest.empty() ? directory.substr(directory.rfind('/') + 1) : newest;
  const std::string given = directory;
  if (!newest.empty()) {
    std::vector<std::string> others = names_in_directory(given, options.folder);
    std::erase_if(others,
                  [&](const std::string& name) { return !is_recis_checkpoint(given + '/' + name, options.folder); });
    if (!has(others, newest)) return newest_is_missing(given, kRecisCheckpoint, newest, others);
    directory += '/' + newest;
  }
  const std::vector<std::string> names = names_in_directory(directory, options.folder);
  std::vector<std::string> taken = {kRecisIndex, kRecisKeys, kRecisCount, kRecisCheckpoint};
  std::vector<StatePart> parts;
  if (has(names, "model.pt")) {
    CKPT_ASSIGN(StatePart part, read_part("model", directory + "/model.pt", options));
    parts.push_back(std::move(part));
  }
  auto ids = std::make_shared<RecisIds>();
  uint32_t ranks = 1;
  if (has(names, kRecisIndex) || has(names, kRecisKeys)) {
    if (!has(names, kRecisKeys))
      return Status(CKPT_UNSUPPORTED, strformat("{}: an index without {} is of an older layout of RecIS (v1 or v2), or "
                                                "a part is missing; load and save it with RecIS 1.0",
                                                directory, kRecisKeys))
          .with("path", directory);
    SparseReader sparse(directory, options);
    CKPT_TRY(sparse.run(&parts, ids.get()));
    ranks = sparse.shards();
    for (std::string& name : sparse.file_names()) taken.push_back(std::move(name));
  }
  if (has(names, "extra.pt")) {
    CKPT_ASSIGN(StatePart part, read_part("extra", directory + "/extra.pt", options));
    parts.push_back(std::move(part));
  }
  CKPT_TRY(read_io_states(directory, names, options, &parts));
  CKPT_ASSIGN(ForeignCheckpoint all, combine("recis", std::move(parts)));
  all.ranks = ranks;
  all.attributes.emplace_back(kRecisIdAttr, id);
  all.locate = [ids](ForeignCheckpoint& self, ForeignCheckpoint::First, const ReadOptions& reading) {
    return ids->check(self, reading);
  };
  const std::vector<std::string> there = names_in_directory(given, options.folder);
  std::erase_if(taken, [&](const std::string& name) { return !has(there, name); });
  keep_file_names(all, given, std::move(taken));
  return all;
}

}  // namespace ckpt::interop
