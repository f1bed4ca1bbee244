#include "interop/src/read_back.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "base/text.h"
#include "device/descriptor.h"
#include "interop/src/elements.h"
#include "interop/src/outer_call.h"
#include "interop/src/pt/encoder.h"
#include "interop/src/seeded_hash.h"
#include "interop/src/tensor_stream.h"
#include "tree/merge.h"

namespace ckpt::interop {

using tree::Tree;

namespace {

constexpr uint64_t kStep = 8 << 20;

class Comparison {
 public:
  Comparison(const State& state, ForeignCheckpoint& files, const ReadOptions& options)
      : state_(state), files_(files), options_(options), left_(std::vector<std::byte>(kStep)), right_(kStep) {}

  Status compare(const ForeignTensor& tensor, const std::string& name) {
    const Result<ckpt_tensor_info> info = state_.tensor(name);
    if (!info.ok()) return Status(CKPT_MISMATCH, "it was written, and is not in what was to be written");
    TensorRange range{name, static_cast<uint16_t>(info->dtype), shape_of(*info), 0, tensor.elements()};
    if (range.dtype != tensor.dtype || !(range.shape == tensor.shape))
      return Status(CKPT_MISMATCH, strformat("expected {} {}, found {} {}", dtype_name(range.dtype),
                                             to_text(range.shape), dtype_name(tensor.dtype), to_text(tensor.shape)));
    CKPT_TRY(files_.files.end_spill());  // of the tensor before
    std::vector<FileRange> apart;        // would be read whole for each part of the tensor
    for (const ForeignPiece& piece : tensor.pieces)
      if (piece.lies_apart(tensor.shape) && files_.files.place(piece.bytes).ok()) apart.push_back(piece.bytes);
    CKPT_TRY(files_.files.spill(apart));
    uint64_t at = 0;
    TensorStream stream(state_, {}, *left_, [&](std::span<const TensorStream::Piece>, Bytes piece) {
      return piece.empty() ? Ok() : compare_piece(tensor, piece, &at);
    });
    CKPT_TRY(stream.add(0, range));
    return stream.flush();
  }

  // A table's rows may be in another order: the sums of hashes of each id with its row, of a column or of none.
  Status compare_rows(const ForeignTable& table, size_t column, const std::string& name) {
    const ForeignTensor& ids = files_.tensors[table.ids];
    const ForeignTensor& tensor = files_.tensors[column];
    const std::string column_name = column == table.ids ? "" : table.column_name(tensor);
    CKPT_ASSIGN(const RowSum found, sum_of_file(ids, tensor));
    CKPT_ASSIGN(const RowSum expected, sum_of_checkpoint(name, column_name));
    if (found.rows != expected.rows || found.row_bytes != expected.row_bytes)
      return Status(CKPT_MISMATCH, strformat("expected {} rows of {} bytes, found {} of {}", expected.rows,
                                             expected.row_bytes, found.rows, found.row_bytes));
    return found.sum == expected.sum ? Ok() : Status(CKPT_CORRUPT, "rows are not what was to be written");
  }

 private:
  struct RowSum {
    uint64_t rows = 0, row_bytes = 0, sum = 0;
    void add(std::span<const std::byte> ids, Bytes data) {
      std::string row(sizeof(uint64_t) + row_bytes, '\0');
      const size_t count = ids.size() / sizeof(uint64_t);
      for (size_t i = 0; i < count; i++) {
        std::memcpy(row.data(), ids.data() + i * sizeof(uint64_t), sizeof(uint64_t));
        if (row_bytes != 0) std::memcpy(row.data() + sizeof(uint64_t), data.data() + i * row_bytes, row_bytes);
        sum += SeededHash()(std::string_view(row));
      }
      rows += count;
    }
  };

  static FileRange rows_of(const FileRange& all, uint64_t first, uint64_t count, uint64_t width) {
    return {all.file, all.offset + first * width, count * width};
  }

  Result<RowSum> sum_of_file(const ForeignTensor& ids, const ForeignTensor& tensor) {
    RowSum sum;
    if (&ids != &tensor) {
      uint64_t row = 0;
      count_elements(tensor.shape.span().subspan(1), &row);
      sum.row_bytes = row * static_cast<uint64_t>(dtype_bits(tensor.dtype)) / 8;
    }
    for (size_t i = 0; i < ids.pieces.size(); i++) {
      const FileRange &of_ids = ids.pieces[i].bytes, &of_rows = tensor.pieces[i].bytes;
      const uint64_t count = of_ids.size / sizeof(uint64_t);
      const uint64_t step = std::max<uint64_t>(kStep / (sizeof(uint64_t) + sum.row_bytes), 1);
      for (uint64_t at = 0; at < count; at += step) {
        CKPT_TRY(options_.check());
        const uint64_t some = std::min(step, count - at);
        const FileRange id_window = rows_of(of_ids, at, some, sizeof(uint64_t));
        const FileRange row_window = rows_of(of_rows, at, some, sum.row_bytes);
        CKPT_ASSIGN(const Bytes some_ids, files_.files.bytes(id_window));
        CKPT_ASSIGN(const Bytes rows, files_.files.bytes(row_window));
        sum.add(some_ids, rows);
        files_.files.release(id_window);
        files_.files.release(row_window);
      }
    }
    return sum;
  }

  Result<RowSum> sum_of_checkpoint(const std::string& table, const std::string& column) {
    RowSum sum;
    const client::Reader& reader = state_.reader();
    CKPT_ASSIGN(const std::vector<client::ColumnInfo> columns, result(reader.columns(table)));
    for (const client::ColumnInfo& info : columns)
      if (info.name == column) sum.row_bytes = info.row_bytes;
    const uint64_t window = std::max<uint64_t>(kStep / (sizeof(uint64_t) + sum.row_bytes), 1);
    CKPT_ASSIGN(const client::Share share, result(reader.share(table, client::Rowset::all().window(window))));
    CKPT_ASSIGN(const client::ShareInfo info, result(share.info()));
    const Lent lasting_ids(std::vector<uint64_t>(info.most_rows));
    const Lent lasting_rows(std::vector<std::byte>(info.most_rows * sum.row_bytes));
    std::vector<uint64_t>& ids = *lasting_ids;
    std::vector<std::byte>& rows = *lasting_rows;
    for (uint64_t i = 0; i < info.window_count; i++) {
      CKPT_TRY(options_.check());
      CKPT_ASSIGN(const uint64_t count, result(share.window_rows(i)));
      CKPT_ASSIGN(client::Load load, result(client::Load::create(reader)));
      std::vector<client::ColumnMemory> wanted;
      if (!column.empty()) wanted.push_back({column, client::MutableMemory(rows.data(), count * sum.row_bytes)});
      CKPT_TRY(done(load.add_table(share, i, client::MutableMemory(ids.data(), count * sizeof(uint64_t)), wanted)));
      CKPT_TRY(done(load.run()));
      sum.add(std::as_bytes(std::span(ids).first(count)), rows);
    }
    return sum;
  }

  // The elements from `at` on.
  Status compare_piece(const ForeignTensor& tensor, Bytes piece, uint64_t* at) {
    CKPT_TRY(options_.check());
    const auto bits = static_cast<uint64_t>(dtype_bits(tensor.dtype));
    const uint64_t count = std::min(piece.size() * 8 / bits, tensor.elements() - *at);
    const MutableBytes found = MutableBytes(right_).first(piece.size());
    device::RegionRequest wanted;
    CKPT_TRY(device::read_desc(describe(tensor.dtype, tensor.shape, *at, count), found.data(), found.size(), &wanted));
    CKPT_TRY(copy_elements(files_.files, tensor, wanted, false));
    if (std::memcmp(piece.data(), found.data(), piece.size()) != 0)
      return Status(CKPT_CORRUPT, strformat("elements {} to {} are not what was to be written", *at, *at + count - 1));
    *at += count;
    return Ok();
  }

  const State& state_;
  ForeignCheckpoint& files_;
  const ReadOptions& options_;
  Lent<std::vector<std::byte>> left_;  // loads write to it
  std::vector<std::byte> right_;
};

// ---- what a tree holds ----

// By the places of leaves: keys from a node down, without the fields in which records keep what they are about.
struct Leaves {
  std::map<std::string, std::string> tensors;  // their names
  std::map<std::string, std::string> values;   // in dicts, lists and tuples only, and empty ones of these
  std::map<std::string, std::string> records;  // their classes
};

class LeavesOf {
 public:
  // Whether there was a record of this class at a place: option opaque=dict writes a dict that names it.
  using WasRecord = std::function<bool(const std::string& place, std::string_view class_name)>;

  static Leaves get(const Tree& tree, uint32_t node, const WasRecord& was_record = nullptr) {
    LeavesOf walk(tree, was_record);
    walk.add(node, "", true);
    return std::move(walk.out_);
  }

 private:
  LeavesOf(const Tree& tree, const WasRecord& was_record) : tree_(tree), was_record_(was_record) {}

  // As deep as a tree may be. `plain`: every format keeps what stands here.
  void add(uint32_t number, const std::string& place, bool plain) {
    const tree::TreeNode& node = tree_[number];
    if (const tree::TreeNode* value = value_of_number(number)) {
      if (plain) out_.values[place] = text_of(*value);
      return;
    }
    if (node.kind == CKPT_NODE_TENSOR) {
      out_.tensors[place] = node.text_view();
    } else if (!node.container() || (node.child_count == 0 && node.kind != CKPT_NODE_RECORD)) {
      if (plain) out_.values[place] = text_of(node);
    }
    if (node.kind == CKPT_NODE_RECORD) out_.records[place] = node.text_view();
    const bool record = node.kind == CKPT_NODE_RECORD || (was_record_ && was_record_(place, named_class(number)));
    const bool ordered = record && node.text_view() == kOrderedDict;
    const bool of_ranks = record && node.text_view() == tree::kPerRankClass;
    for (uint32_t child = node.container() ? tree_.first_child(number) : tree::kNoNode; child != tree::kNoNode;
         child = tree_[child].next) {
      const std::string_view key = tree_[child].key_view();
      const bool silent = record && !of_ranks && (key == "items" || key == "data");
      const bool still = node.kind != CKPT_NODE_SET && (!record || of_ranks || (ordered && key == "items"));
      add(child, silent ? place : place + '/' + segment(tree_[child]), plain && still);
    }
  }

  // Of a number of numpy's, which is written as the number itself, or as numpy's where the format may. The parts of a
  // complex one are bytes.
  const tree::TreeNode* value_of_number(uint32_t number) const {
    const tree::TreeNode& node = tree_[number];
    if (node.kind != CKPT_NODE_RECORD || !node.text_view().starts_with("numpy.")) return nullptr;
    for (uint32_t child = tree_.first_child(number); child != tree::kNoNode; child = tree_[child].next)
      if (tree_[child].key_view() == "value" && !tree_[child].container() && tree_[child].kind != CKPT_NODE_BYTES &&
          tree_[child].kind != CKPT_NODE_TENSOR)
        return &tree_[child];
    return nullptr;
  }

  // What a dict says of its class; "" for nothing.
  std::string_view named_class(uint32_t number) const {
    const uint32_t first = tree_[number].kind == CKPT_NODE_DICT ? tree_.first_child(number) : tree::kNoNode;
    const bool names = first != tree::kNoNode && tree_[first].key_view() == "__class__";
    return names && tree_[first].kind == CKPT_NODE_TEXT ? tree_[first].text_view() : std::string_view();
  }

  static std::string segment(const tree::TreeNode& node) {
    return node.key_kind == CKPT_KEY_TEXT ? tree::path_segment(node.key_view()) : std::to_string(node.place);
  }

  static std::string text_of(const tree::TreeNode& node) {
    // Lists and tuples are alike, since not all formats tell them apart.
    if (node.container()) return node.kind == CKPT_NODE_DICT ? "{}" : "[]";
    const bool number = node.kind == CKPT_NODE_INT || node.kind == CKPT_NODE_BOOL || node.kind == CKPT_NODE_FLOAT;
    return std::string(1, static_cast<char>(node.kind)) +
           (number ? std::to_string(node.integer) : std::string(node.text_view()));  // a float by its bits
  }

  const Tree& tree_;
  const WasRecord& was_record_;
  Leaves out_;
};

// The places that a format may give what stands at one: DCP makes text of integer keys, and directories of parts have
// under "model" what a state may have at its root.
std::vector<std::string> places_for(const std::string& place, Wanted::Places more) {
  std::vector<std::string> places = {place, place};
  for (size_t at = 0; (at = places[1].find("/~s", at)) != std::string::npos;) places[1].erase(at + 1, 2);
  if (constexpr std::string_view model = "/model"; place.starts_with("/model/"))
    places.push_back(place.substr(model.size()));
  if (more) std::ranges::move(more(place), std::back_inserter(places));
  return places;
}

// What of a state was to be written, and what of that was found.
class Expectation {
 public:
  static Result<Expectation> make(const State& state, const Wanted& wanted) {
    Expectation all(wanted);
    CKPT_TRY(wanted.tensors_only ? all.add_names(state) : all.add_leaves(state));
    CKPT_TRY(all.add_columns(state));
    all.known_ = wanted.names;
    all.missing_ = all.names_;
    all.missing_values_ = all.leaves_.values;
    return all;
  }

  bool has_record(const std::string& place, std::string_view class_name) const {
    return std::ranges::any_of(places_for(place, wanted_.places), [&](const std::string& own) {
      const auto found = leaves_.records.find(own);
      return found != leaves_.records.end() && found->second == class_name;
    });
  }

  // The places of the files' tensors, before any is matched.
  void learn(const Leaves& written) {
    for (const auto& [place, name] : written.tensors)
      for (const std::string& own : places_for(place, wanted_.places))
        if (const auto found = leaves_.tensors.find(own); found != leaves_.tensors.end()) {
          known_.emplace(name, found->second);
          break;
        }
  }

  // The state's name of a tensor of the files.
  Result<std::string> match(const std::string& name) {
    const auto known = known_.find(name);
    std::string own = known == known_.end() ? by_text(name) : known->second;
    CKPT_TRY(take(own));
    return own;
  }
  Status take(const std::string& own) {
    if (!names_.contains(own)) return Status(CKPT_MISMATCH, "it was written, and is not in what was to be written");
    missing_.erase(own);
    return Ok();
  }
  void leave_out(const std::string& own) { missing_.erase(own); }
  bool has(const std::string& name) const { return known_.contains(name) || names_.contains(by_text(name)); }

  Status match_values(const Leaves& written) {
    for (const auto& [place, value] : written.values) {
      const std::string* expected = nullptr;
      for (const std::string& own : places_for(place, wanted_.places)) {
        const auto found = expected ? leaves_.values.end() : leaves_.values.find(own);
        if (found == leaves_.values.end()) continue;
        expected = &found->second;
        missing_values_.erase(own);
      }
      if (has_no_values(place)) continue;
      if (!expected && is_empty_container(value)) continue;  // hfai writes parts that the state lacks
      if (!expected) return wrong(CKPT_MISMATCH, place, "it was written, and is not in what was to be written");
      if (*expected != value) return wrong(CKPT_CORRUPT, place, "it is not what was to be written");
    }
    return Ok();
  }

  Status check_nothing_is_missing() const {
    if (!missing_.empty()) {
      const std::string& first = *missing_.begin();
      return Status(CKPT_MISMATCH, strformat("read back: {} of {} tensors were not written, the first of them {}",
                                             missing_.size(), names_.size(), ckpt::in_quotes(first)))
          .with("tensor", first);
    }
    for (const auto& [place, value] : missing_values_)
      if (!has_no_values(place)) return wrong(CKPT_MISMATCH, place, "it was not written");
    return Ok();
  }

 private:
  explicit Expectation(const Wanted& wanted) : wanted_(wanted) {}

  Status add_names(const State& state) {
    const std::string prefix = wanted_.at.empty() ? "" : wanted_.at + '/';
    for (uint64_t i = 0; i < state.tensor_count(); i++) {
      CKPT_ASSIGN(const ckpt_tensor_info info, state.tensor(i));
      if (std::string_view(info.name).starts_with(prefix)) names_.insert(info.name);
    }
    return Ok();
  }

  Status add_leaves(const State& state) {
    CKPT_ASSIGN(const Tree tree, state.tree());
    CKPT_ASSIGN(const uint32_t root, node_at(tree, wanted_.at));
    leaves_ = LeavesOf::get(tree, root);
    for (const auto& [place, name] : leaves_.tensors) names_.insert(name);
    return Ok();
  }

  // A tree names a sparse table alone.
  Status add_columns(const State& state) {
    for (const auto& table : state.reader().tables()) {
      const std::string name(table.name);
      if (!names_.contains(name)) continue;
      CKPT_ASSIGN(const std::vector<client::ColumnInfo> columns, result(state.reader().columns(name)));
      std::vector<std::string> all = {name + "/ids"};
      for (const client::ColumnInfo& column : columns) all.push_back(name + '/' + column.name);
      for (const std::string& column : all)
        if (state.tensor(column).ok()) names_.insert(column);
    }
    return Ok();
  }

  // Of what has no place in a tree.
  std::string by_text(const std::string& name) const {
    if (!wanted_.at.empty()) return wanted_.at + '/' + name;
    for (const std::string& place : places_for('/' + name, wanted_.places))
      if (names_.contains(place.substr(1))) return place.substr(1);
    return name;
  }

  bool has_no_values(const std::string& place) const {
    return std::ranges::any_of(wanted_.no_values, [&](const std::string& part) {
      return place == '/' + part || place.starts_with('/' + part + '/');
    });
  }

  static bool is_empty_container(const std::string& value) { return value == "{}" || value == "[]"; }

  static Status wrong(ckpt_status code, const std::string& place, const char* what) {
    const std::string shown = place.empty() ? "the root" : place.substr(1);
    return Status(code, strformat("read back: value {}: {}", ckpt::in_quotes(shown), what)).with("tensor", shown);
  }

  Wanted wanted_;
  Leaves leaves_;
  std::set<std::string> names_, missing_;     // of tensors of the state
  std::map<std::string, std::string> known_;  // by the files' names
  std::map<std::string, std::string> missing_values_;
};

Status of_tensor(Status status, const std::string& name) {
  return status.ok() ? Ok() : std::move(status).in("read back: tensor " + ckpt::in_quotes(name)).with("tensor", name);
}

Status compare_tables(ForeignCheckpoint& files, Comparison& comparison, Expectation& expected) {
  CKPT_ASSIGN(const std::vector<ForeignTable> tables, files.tables());
  for (const ForeignTable& table : tables) {
    const Result<std::string> own = expected.match(table.name);
    if (!own.ok()) return of_tensor(own.status(), table.name);
    expected.leave_out(*own + "/buckets");  // where rows begin, which follows from the ids
    std::vector<size_t> all = table.columns;
    all.push_back(table.ids);
    for (const size_t column : all) {
      const ForeignTensor& tensor = files.tensors[column];
      CKPT_TRY(of_tensor(comparison.compare_rows(table, column, *own), tensor.name));
      CKPT_TRY(of_tensor(expected.take(*own + tensor.name.substr(table.name.size())), tensor.name));
    }
  }
  return Ok();
}

Status compare_object(const client::Reader& saved, const client::ObjectInfo& info, Bytes expected) {
  const Lent found(std::vector<std::byte>(info.size));
  CKPT_ASSIGN(client::Load load, result(client::Load::create(saved)));
  CKPT_TRY(done(load.add_object(info.name, info.rank, client::MutableMemory(found->data(), found->size()))));
  CKPT_TRY(done(load.run()));
  return std::ranges::equal(*found, expected) ? Ok() : Status(CKPT_CORRUPT, "it is not what was to be written");
}

Status compare_objects(const client::Reader& saved, ForeignCheckpoint& files) {
  const std::string json = files.tree ? tree::tree_json(*files.tree) : "";
  const uint64_t expected = files.objects.size() + (files.tree ? 1 : 0);
  const auto compare = [&](const std::string& name, uint32_t rank, Bytes bytes) -> Status {
    const Result<client::ObjectInfo> info = result(saved.object(name, rank));
    Status status = info.ok() ? compare_object(saved, *info, bytes) : info.status();
    return status.ok() ? Ok() : std::move(status).in("read back: object " + ckpt::in_quotes(name)).with("found", name);
  };
  if (files.tree) CKPT_TRY(compare(CKPT_TREE_OBJECT, 0, as_bytes(json)));
  for (const ForeignObject& object : files.objects) {
    CKPT_ASSIGN(const Bytes bytes, files.files.bytes(object.bytes));
    CKPT_TRY(compare(object.name, object.rank.value_or(0), bytes));
  }
  if (saved.object_count() == expected) return Ok();
  return Status(CKPT_MISMATCH, strformat("read back: expected {} objects, found {}", expected, saved.object_count()));
}

Status compare_all(const State& state, ForeignCheckpoint& files, Expectation& expected, const ReadOptions& options) {
  CKPT_TRY(files.find_elements(options));
  Comparison comparison(state, files, options);
  for (const ForeignTensor& tensor : files.tensors) {
    if (tensor.buckets != 0) continue;
    // Memory that views share: each of these is compared.
    if (tensor.name.starts_with(kAliasMemory) && !expected.has(tensor.name)) continue;
    const Result<std::string> own = expected.match(tensor.name);
    CKPT_TRY(of_tensor(own.ok() ? comparison.compare(tensor, *own) : own.status(), tensor.name));
  }
  return compare_tables(files, comparison, expected);
}

}  // namespace

Status compare_export(const State& state, ForeignCheckpoint& files, const Wanted& wanted, const ReadOptions& options) {
  CKPT_ASSIGN(Expectation expected, Expectation::make(state, wanted));
  if (!wanted.tensors_only) {
    CKPT_ASSIGN(const Tree tree, files.take_tree());
    const Leaves written = LeavesOf::get(tree, 0, [&](const std::string& place, std::string_view class_name) {
      return expected.has_record(place, class_name);
    });
    expected.learn(written);
    CKPT_TRY(expected.match_values(written));
  }
  CKPT_TRY(compare_all(state, files, expected, options));
  return expected.check_nothing_is_missing();
}

Status compare_import(const client::Reader& saved, ForeignCheckpoint& files, const ReadOptions& options) {
  const State state(saved);
  CKPT_ASSIGN(Expectation expected, Expectation::make(state, {.at = {}, .tensors_only = true}));
  CKPT_TRY(compare_all(state, files, expected, options));
  // What an import saves and the files do not have is missing in them.
  CKPT_TRY(expected.check_nothing_is_missing());
  return compare_objects(saved, files);
}

}  // namespace ckpt::interop
