// One safetensors file for each shard: the tensors beside the tables in the first, then of each table the ids and the
// columns of the shard's buckets, which pass through memory window by window.
#include <algorithm>
#include <map>
#include <set>

#include "contrib/recis/files/format.h"
#include "contrib/recis/files/layout.h"
#include "format/table.h"
#include "interop/src/json.h"
#include "interop/src/outer_call.h"
#include "interop/src/pt/format.h"
#include "interop/src/safetensors/file_set.h"
#include "interop/src/safetensors/safetensors.h"
#include "tree/merge.h"

namespace ckpt::interop {

using tree::kNoNode;
using tree::Tree;

namespace {

constexpr uint64_t kWindowBytes = 32 << 20;

struct TableColumn {
  std::string name;
  uint64_t row_bytes;
  Shape shape;  // of rows; the first extent is theirs
  uint16_t dtype;
};

struct ExportTable {
  std::string name, recis_name;
  std::vector<TableColumn> columns;
  uint64_t buckets = 0, window_rows = 1;

  client::Rowset rows(uint64_t shard, uint64_t shards) const {
    return client::Rowset::slice(shard, shards).window(window_rows);
  }
};

// A file: a header, tensors as they are, then rows.
class ShardBody final : public FileBody {
 public:
  ShardBody(const ExportRequest& request, std::string head, const std::vector<ExportTable>& tables, uint64_t shard,
            uint64_t shards)
      : request_(request), head_(std::move(head)), tables_(tables), shard_(shard), shards_(shards) {}

  Status begin(OutputFile& file) override { return file.write(as_bytes(head_)); }
  Status write(OutputFile& file, std::span<const TensorStream::Piece>, Bytes bytes) override {
    return file.write(bytes);
  }
  Status end(OutputFile& file) override {
    for (const ExportTable& table : tables_) {
      Status status = put_table(file, table);
      if (!status.ok()) return std::move(status).in("table " + ckpt::in_quotes(table.name)).with("tensor", table.name);
    }
    return Ok();
  }

 private:
  Status put_table(OutputFile& file, const ExportTable& table) {
    CKPT_ASSIGN(const client::Share share,
                result(request_.reader.reader().share(table.name, table.rows(shard_, shards_))));
    CKPT_ASSIGN(const client::ShareInfo info, result(share.info()));
    const Lent ids(std::vector<uint64_t>(info.most_rows));
    CKPT_TRY(put_column(file, share, info.window_count, *ids, nullptr, {}));
    for (const TableColumn& column : table.columns) {
      const Lent rows(std::vector<std::byte>(info.most_rows * column.row_bytes));
      CKPT_TRY(put_column(file, share, info.window_count, *ids, &column, *rows));
    }
    return Ok();
  }

  // Of all windows; without a column their ids. Whoever loads rows has their ids checked with them.
  Status put_column(OutputFile& file, const client::Share& share, uint64_t windows, std::span<uint64_t> ids,
                    const TableColumn* column, MutableBytes rows) {
    for (uint64_t window = 0; window < windows; window++) {
      CKPT_TRY(request_.job.check());
      CKPT_ASSIGN(const uint64_t count, result(share.window_rows(window)));
      if (count == 0) continue;
      CKPT_ASSIGN(client::Load load,
                  result(client::Load::create(request_.reader.reader(), reading_options(request_.options))));
      const uint64_t row_bytes = column ? column->row_bytes : sizeof(uint64_t);
      Bytes written = std::as_bytes(ids.first(count));
      std::vector<client::ColumnMemory> columns;
      if (column) {
        columns.push_back({column->name, client::MutableMemory(rows.data(), count * row_bytes)});
        written = rows.first(count * row_bytes);
      }
      CKPT_TRY(
          done(load.add_table(share, window, client::MutableMemory(ids.data(), count * sizeof(uint64_t)), columns)));
      CKPT_TRY(done(load.run()));
      CKPT_TRY(file.write(written));
      request_.job.counters.bytes_done += written.size();
    }
    return Ok();
  }

  const ExportRequest& request_;
  const std::string head_;
  const std::vector<ExportTable> tables_;
  const uint64_t shard_, shards_;
};

class RecisPlan {
 public:
  RecisPlan(const ExportRequest& request, const Tree& tree, uint64_t window_bytes)
      : request_(request),
        tree_(tree),
        window_bytes_(window_bytes),
        shards_(static_cast<uint64_t>(request.options.shards)) {}

  Result<ExportPlan> run() {
    plan_.is_directory = true;
    CKPT_TRY(set_folder());
    CKPT_TRY(find_tables());
    CKPT_TRY(place_parts());
    for (const auto& [name, table] : tables_)
      if (table.recis_name.empty())
        return refuse(CKPT_UNSUPPORTED, name, "a table stands in the state's tables or model, not elsewhere");
    CKPT_TRY(put_shards());
    if (!folder_.empty()) put_text(kRecisCheckpoint, folder_.substr(0, folder_.size() - 1) + "\n");
    return std::move(plan_);
  }

 private:
  static Status refuse(ckpt_status code, const std::string& name, const std::string& what) {
    return Status(code, "export: " + shown(name) + ": " + what).with("tensor", name);
  }

  void put_text(const std::string& name, std::string text) { plan_.files.push_back(text_file(name, std::move(text))); }

  // The place of the checkpoint in a directory of a run.
  Status set_folder() {
    const std::string path = request_.path.substr(0, request_.path.find_last_not_of('/') + 1);
    if (path.substr(path.rfind('/') + 1).starts_with("ckpt_")) return Ok();
    CKPT_ASSIGN(const client::CheckpointInfo info, result(request_.reader.reader().info()));
    std::string id = info.step >= 0 ? strformat("ckpt_{}", info.step) : get_text(request_.reader, kRecisIdAttr);
    if (id.empty()) id = info.label;
    if (const Status status = check_file_name(id, ""); !status.ok() || id.find_first_of(" \n\r\t") != id.npos)
      return Status(CKPT_FORMAT, strformat("attribute {}: {} names no directory", kRecisIdAttr, shown(id)));
    folder_ = id + '/';
    return Ok();
  }

  // ---- tables ----

  // Those of the checkpoint that were chosen, with the columns that were.
  Status find_tables() {
    for (const auto& info : request_.reader.reader().tables()) {
      const std::string name = info.name;
      names_.insert({name, name + "/ids", name + "/buckets"});
      const bool chosen = request_.reader.tensor(name + "/ids").ok();
      ExportTable table{name, {}, {}, info.bucket_count, 1};
      CKPT_ASSIGN(const std::vector<client::ColumnInfo> columns, result(request_.reader.reader().columns(name)));
      uint64_t widest = 0;
      for (const client::ColumnInfo& column : columns) {
        names_.insert(name + '/' + column.name);
        if (!chosen || !request_.reader.tensor(name + '/' + column.name).ok()) continue;
        CKPT_TRY(check_column(name, column));
        TableColumn& made = table.columns.emplace_back(TableColumn{column.name, column.row_bytes, {}, 0});
        made.dtype = static_cast<uint16_t>(column.dtype);
        made.shape.ndim = std::max(column.ndim, 1) + 1;  // a row of RecIS' has a dimension
        made.shape[1] = 1;
        for (int i = 0; i < column.ndim; i++) made.shape[i + 1] = static_cast<uint64_t>(column.shape[i]);
        widest = std::max(widest, column.row_bytes);
      }
      if (!chosen) continue;
      if (std::ranges::find(table.columns, kRecisEmbedding, &TableColumn::name) == table.columns.end())
        return refuse(CKPT_UNSUPPORTED, name, strformat("RecIS' tables have a column {}", kRecisEmbedding));
      if (table.buckets != kRecisBuckets && !request_.reader.attr(kRecisIdAttr))
        return refuse(
            CKPT_UNSUPPORTED, name,
            strformat("RecIS passes over a table of other than {} buckets, found {}", kRecisBuckets, table.buckets));
      table.window_rows = std::max<uint64_t>(window_bytes_ / (sizeof(uint64_t) + widest), 1);
      tables_.emplace(name, std::move(table));
    }
    return check_unchanged();
  }

  static Status check_column(const std::string& table, const client::ColumnInfo& column) {
    // What its reader knows.
    constexpr std::string_view kDtypes[] = {"BOOL", "I8", "U8", "I16", "I32", "I64", "F16", "BF16", "F32", "F64"};
    const char* dtype = safetensors_dtype(static_cast<uint16_t>(column.dtype));
    if (!dtype || std::ranges::find(kDtypes, std::string_view(dtype)) == std::end(kDtypes))
      return refuse(CKPT_UNSUPPORTED, table + '/' + column.name,
                    std::string("RecIS has no dtype ") + ckpt_dtype_name(column.dtype));
    if (column.name == std::string_view(kRecisIds) ||
        std::string_view(column.name).find_first_of("@^") != std::string::npos)
      return refuse(CKPT_UNSUPPORTED, table + '/' + column.name, "RecIS has no slot of this name");
    return Ok();
  }

  // Rows are read by the names and dtypes that the checkpoint has.
  Status check_unchanged() const {
    for (uint64_t i = 0; i < request_.reader.tensor_count(); i++) {
      CKPT_ASSIGN(const ckpt_tensor_info info, request_.reader.tensor(i));
      const std::string name = info.name;
      const std::optional<std::string> origin = request_.reader.origin(name);
      if (origin == name || (!names_.contains(name) && !(origin && names_.contains(*origin)))) continue;
      return refuse(CKPT_UNSUPPORTED, name, "a mapping or cast of what a sparse table is made of");
    }
    return Ok();
  }

  Status name_table(ExportTable& table, const std::string& name) {
    if (name.empty() || name.find_first_of("@^") != name.npos)
      return refuse(CKPT_UNSUPPORTED, table.name, "RecIS has no table of the name " + shown(name));
    if (!recis_names_.insert(name).second) return refuse(CKPT_MISMATCH, table.name, "another table has its name");
    table.recis_name = name;
    return Ok();
  }

  // The tensor that a place of the state is; Python makes a record of a table's.
  std::string tensor_at(uint32_t node) const {
    const bool record = tree_[node].kind == CKPT_NODE_RECORD && tree_[node].text_view() == format::kTableClass;
    const uint32_t leaf = record ? tree_.find(node, "data") : node;
    return leaf != kNoNode && tree_[leaf].kind == CKPT_NODE_TENSOR ? std::string(tree_[leaf].text_view()) : "";
  }

  ExportTable* table_at(uint32_t node) {
    const auto found = tables_.find(tensor_at(node));
    return found == tables_.end() ? nullptr : &found->second;
  }

  // ---- parts of the state ----

  Status place_parts() {
    uint32_t root = entries_of(0);
    if (root == kNoNode) return refuse(CKPT_MISMATCH, place_of(tree_, 0), "RecIS' state is a dict of parts");
    constexpr std::string_view kParts[] = {"model", "tables", "sparse_optim", "extra", "io_state"};
    const auto is_part = [&](uint32_t node) {
      return std::ranges::find(kParts, tree_[node].key_view()) != std::end(kParts);
    };
    size_t parts = 0, others = 0;
    std::string other;
    for (uint32_t child = tree_.first_child(root); child != kNoNode; child = tree_[child].next) {
      (is_part(child) ? parts : others)++;
      if (!is_part(child)) other = tree_[child].key_view();
    }
    if (parts == 0) return put_model(0, root);
    if (others != 0)
      return refuse(CKPT_MISMATCH, other, "RecIS' state has model, tables, sparse_optim, extra and io_state");
    for (uint32_t child = tree_.first_child(root); child != kNoNode; child = tree_[child].next) {
      const std::string_view key = tree_[child].key_view();
      CKPT_TRY(key == "model"          ? put_model(child, entries_of(child))
               : key == "tables"       ? put_tables(child)
               : key == "sparse_optim" ? put_dense(child)
               : key == "extra"        ? put_pt("extra.pt", child, {})
                                       : put_io_states(child));
    }
    return Ok();
  }

  // The dict of a node that is one, or an OrderedDict.
  uint32_t entries_of(uint32_t node) const {
    if (tree_[node].kind == CKPT_NODE_DICT) return node;
    const bool ordered = tree_[node].kind == CKPT_NODE_RECORD && tree_[node].text_view() == "collections.OrderedDict";
    return ordered ? tree_.find(node, "items") : kNoNode;
  }

  Status put_pt(const std::string& name, uint32_t node, PtFileOptions options) {
    CKPT_ASSIGN(ExportFile file, pt_file_of(request_, tree_, node, folder_ + name, options));
    plan_.files.push_back(std::move(file));
    return Ok();
  }

  // Without the tables in it. A model of tables alone has no file.
  Status put_model(uint32_t node, uint32_t entries) {
    std::set<uint32_t> sparse;
    uint32_t dense = 0;
    for (uint32_t child = entries == kNoNode ? kNoNode : tree_.first_child(entries); child != kNoNode;
         child = tree_[child].next) {
      const bool is_sparse = names_.contains(tensor_at(child));
      if (is_sparse) sparse.insert(child);
      dense += !is_sparse;
      if (ExportTable* table = table_at(child)) CKPT_TRY(name_table(*table, std::string(tree_[child].key_view())));
    }
    if (dense == 0 && !sparse.empty()) return Ok();
    if (sparse.empty()) return put_pt("model.pt", node, {});
    return put_pt("model.pt", entries, {.keep = [sparse](uint32_t child) { return !sparse.contains(child); }});
  }

  Status put_tables(uint32_t node) {
    if (entries_of(node) == kNoNode) return refuse(CKPT_MISMATCH, "tables", "expected a dict of tables");
    for (uint32_t child = tree_.first_child(entries_of(node)); child != kNoNode; child = tree_[child].next) {
      ExportTable* table = table_at(child);
      if (!table) return refuse(CKPT_MISMATCH, place_of(tree_, child), "expected a sparse table");
      CKPT_TRY(name_table(*table, std::string(tree_[child].key_view())));
    }
    return Ok();
  }

  // Tensors that RecIS keeps beside its tables.
  Status put_dense(uint32_t node) {
    if (entries_of(node) == kNoNode) return refuse(CKPT_MISMATCH, "sparse_optim", "expected a dict of tensors");
    for (uint32_t child = tree_.first_child(entries_of(node)); child != kNoNode; child = tree_[child].next) {
      const std::string key(tree_[child].key_view());
      if (tree_[child].kind != CKPT_NODE_TENSOR || key.empty() || key.find('^') != key.npos)
        return refuse(CKPT_MISMATCH, place_of(tree_, child), "expected a tensor, by a name without ^");
      const std::string name(tree_[child].text_view());
      CKPT_ASSIGN(const ckpt_tensor_info info, request_.reader.tensor(name));
      TensorRange range{name, static_cast<uint16_t>(info.dtype), shape_of(info), 0, 0};
      CKPT_ASSIGN(range.size, element_count(range.shape));
      if (!safetensors_dtype(range.dtype))
        return refuse(CKPT_UNSUPPORTED, name, std::string("RecIS has no dtype ") + ckpt_dtype_name(info.dtype));
      dense_.emplace_back(key + "^ ", std::move(range));
    }
    return Ok();
  }

  // A file for each worker. What all have alike is each shard's.
  Status put_io_states(uint32_t node) {
    const bool of_ranks = tree_[node].kind == CKPT_NODE_RECORD && tree_[node].text_view() == tree::kPerRankClass;
    const uint64_t workers = of_ranks ? tree_[node].child_count : shards_;
    for (uint32_t i = 0; i < workers; i++) {
      const uint32_t state = of_ranks ? tree_.find(node, tree::per_rank_key(i)) : node;
      if (state == kNoNode)
        return refuse(CKPT_MISMATCH, "io_state", strformat("expected {} workers, found none of number {}", workers, i));
      CKPT_TRY(put_pt(strformat("io_state_{}.pt", i), state, {}));
    }
    put_text(folder_ + kRecisCount, std::to_string(workers));
    return Ok();
  }

  // ---- shards ----

  Status put_shards() {
    if (tables_.empty() && dense_.empty()) return Ok();
    std::vector<ExportTable> tables;
    for (const auto& [name, table] : tables_) tables.push_back(table);
    std::map<std::string, std::string> keys;
    std::map<std::string, size_t> blocks;
    std::vector<std::string> files;
    for (uint64_t shard = 0; shard < (tables.empty() ? 1 : shards_); shard++) {
      CKPT_TRY(request_.job.check());
      CKPT_ASSIGN(const std::vector<Tensor> tensors, blocks_of(shard, tables, &keys));
      for (const Tensor& tensor : tensors) blocks[tensor.name] = files.size();
      files.push_back(strformat("model-{:06}-of-{:06}{}", shard, tables.empty() ? 1 : shards_, kSuffix));
      CKPT_ASSIGN(std::string head, make_header(tensors, std::nullopt));
      ExportFile file{folder_ + files.back(), nullptr, {}, head.size() + (tensors.empty() ? 0 : tensors.back().end)};
      for (const auto& [name, range] : dense_)
        if (shard == 0) file.ranges.push_back(range);
      file.body = std::make_unique<ShardBody>(request_, std::move(head), tables, shard, shards_);
      plan_.files.push_back(std::move(file));
    }
    put_text(folder_ + kRecisKeys, json_of(StringMap(keys.begin(), keys.end())));
    std::string index = R"({"block_index":{)";
    for (const auto& [name, file] : blocks)
      index += (index.ends_with('{') ? "" : ",") + json_quote(name) + ':' + std::to_string(file);
    index += R"(},"file_index":{)";
    for (size_t i = 0; i < files.size(); i++)
      index += (i == 0 ? "" : ",") + json_quote(files[i]) + ':' + std::to_string(i);
    put_text(folder_ + kRecisIndex, index + "}}");
    return Ok();
  }

  // What a shard's file holds, in its order.
  Result<std::vector<Tensor>> blocks_of(uint64_t shard, const std::vector<ExportTable>& tables,
                                        std::map<std::string, std::string>* keys) const {
    std::vector<Tensor> blocks;
    uint64_t offset = 0;
    const auto add = [&](std::string name, uint16_t dtype, const Shape& shape) -> Status {
      Tensor& block = blocks.emplace_back(Tensor{std::move(name), dtype, shape, offset, 0});
      CKPT_ASSIGN(const uint64_t bytes, tensor_bytes(shape, dtype));
      if (add_overflows(offset, bytes, &offset) || offset >> 63)
        return refuse(CKPT_UNSUPPORTED, block.name, "the file would be larger than 2^63-1 bytes");
      block.end = offset;
      return Ok();
    };
    for (const auto& [name, range] : dense_)
      if (shard == 0) CKPT_TRY(add(name, range.dtype, range.shape));
    for (const ExportTable& table : tables) {
      CKPT_ASSIGN(const client::Share share,
                  result(request_.reader.reader().share(table.name, table.rows(shard, shards_))));
      CKPT_ASSIGN(const client::ShareInfo info, result(share.info()));
      const std::string slice = '^' + recis_text(recis_slice(shard, shards_, table.buckets));
      const auto add_block = [&](const std::string& slot, uint16_t dtype, Shape shape) -> Status {
        shape[0] = info.row_count;
        const std::string name = recis_block(table.recis_name, slot, shard, shards_);
        if (!keys->emplace(name, table.recis_name + '@' + slot + slice).second)
          return refuse(CKPT_UNSUPPORTED, table.name, "another table has the block " + shown(name));
        return add(name, dtype, shape);
      };
      CKPT_TRY(add_block(kRecisIds, CKPT_DTYPE_I64, Shape{.ndim = 1}));
      for (const TableColumn& column : table.columns) CKPT_TRY(add_block(column.name, column.dtype, column.shape));
    }
    return blocks;
  }

  const ExportRequest& request_;
  const Tree& tree_;
  const uint64_t window_bytes_, shards_;
  std::string folder_;                         // "ckpt_30/"; empty: the directory is the checkpoint's
  std::map<std::string, ExportTable> tables_;  // by name
  std::set<std::string> names_;                // of all tensors that tables are made of
  std::set<std::string> recis_names_;
  std::vector<std::pair<std::string, TensorRange>> dense_;  // by the name of the block
  ExportPlan plan_;
};

// What ckpt's own managers with RecIS' words save has model, sparse_optim, tables, io states and all else side by side
// under their names, global_step among them. This puts it into RecIS' parts.
class PartsOfManager {
 public:
  PartsOfManager(const Tree& tree, const std::set<std::string>& tables) : tree_(tree), tables_(tables) {}

  static bool is_of(const Tree& tree) {
    const auto lacks = [&](const char* key) { return tree.find(0, key) == kNoNode; };
    return tree[0].kind == CKPT_NODE_DICT && !lacks("global_step") && lacks("extra") && lacks("tables") &&
           lacks("io_state");
  }

  Result<Tree> run() {
    CKPT_TRY(made_.begin(CKPT_NODE_DICT));
    for (uint32_t child = tree_.first_child(0); child != kNoNode; child = tree_[child].next) {
      const std::string_view key = tree_[child].key_view();
      if (key == "model" || key == "sparse_optim")
        CKPT_TRY(put(child));
      else
        (is_table(child) ? sparse_ : is_of_ranks(child) ? io_states_ : extra_).push_back(child);
    }
    CKPT_TRY(put_dict("tables", sparse_));
    CKPT_TRY(put_dict("extra", extra_));
    if (!io_states_.empty()) CKPT_TRY(put_io_states());
    CKPT_TRY(made_.end());
    return std::move(made_);
  }

 private:
  bool is_record(uint32_t node, std::string_view name) const {
    return tree_[node].kind == CKPT_NODE_RECORD && tree_[node].text_view() == name;
  }
  bool is_of_ranks(uint32_t node) const { return is_record(node, tree::kPerRankClass); }
  bool is_table(uint32_t node) const {
    return is_record(node, format::kTableClass) ||
           (tree_[node].kind == CKPT_NODE_TENSOR && tables_.contains(std::string(tree_[node].text_view())));
  }

  Status put(uint32_t child) {
    CKPT_TRY(made_.key(tree_[child].key_view()));
    return tree::copy_node(tree_, child, made_);
  }
  Status put_dict(const char* part, const std::vector<uint32_t>& children) {
    if (children.empty()) return Ok();
    CKPT_TRY(made_.key(part));
    CKPT_TRY(made_.begin(CKPT_NODE_DICT));
    for (const uint32_t child : children) CKPT_TRY(put(child));
    return made_.end();
  }

  // For each worker a dict of what it has of all names.
  Status put_io_states() {
    uint32_t workers = 0;
    for (const uint32_t child : io_states_) workers = std::max(workers, tree_[child].child_count);
    CKPT_TRY(made_.key("io_state"));
    CKPT_TRY(made_.begin(CKPT_NODE_RECORD, tree::kPerRankClass));
    for (uint32_t i = 0; i < workers; i++) {
      const std::string worker = tree::per_rank_key(i);
      CKPT_TRY(made_.key(worker));
      CKPT_TRY(made_.begin(CKPT_NODE_DICT));
      for (const uint32_t child : io_states_) {
        const uint32_t value = tree_.find(child, worker);
        if (value == kNoNode) continue;
        CKPT_TRY(made_.key(tree_[child].key_view()));
        CKPT_TRY(tree::copy_node(tree_, value, made_));
      }
      CKPT_TRY(made_.end());
    }
    return made_.end();
  }

  const Tree& tree_;
  const std::set<std::string>& tables_;
  Tree made_;
  std::vector<uint32_t> sparse_, extra_, io_states_;
};

}  // namespace

Result<ExportPlan> plan_recis(const ExportRequest& request, uint64_t window_bytes) {
  CKPT_ASSIGN(Tree tree, request.reader.tree());
  if (PartsOfManager::is_of(tree)) {
    std::set<std::string> tables;
    for (const auto& info : request.reader.reader().tables()) tables.insert(info.name);
    CKPT_ASSIGN(tree, PartsOfManager(tree, tables).run());
  }
  return RecisPlan(request, tree, window_bytes).run();
}

Result<ExportPlan> plan_recis(const ExportRequest& request) { return plan_recis(request, kWindowBytes); }

std::vector<std::string> places_of_recis(const std::string& place) {
  std::vector<std::string> places;
  if (constexpr std::string_view tables = "/tables"; place.starts_with("/tables/")) {
    places.push_back(place.substr(tables.size()));
    places.push_back("/model" + places.back());
  }
  if (constexpr std::string_view extra = "/extra"; place.starts_with("/extra/"))
    places.push_back(place.substr(extra.size()));
  // Of each worker it has what a name has of it.
  if (constexpr std::string_view io_state = "/io_state"; place.starts_with("/io_state/")) {
    const size_t name = place.find('/', io_state.size() + 1), rest = place.find('/', name + 1);
    if (name != std::string::npos)
      places.push_back(place.substr(name, rest - name) + place.substr(io_state.size(), name - io_state.size()) +
                       (rest == std::string::npos ? "" : place.substr(rest)));
  }
  return places;
}

}  // namespace ckpt::interop
