// ckpt/file.hpp - files of other formats, and the sparse tables in them, read where they lie. Include <ckpt.hpp>.
// It is empty where ckpt was built without other formats.
#if defined(CKPT_FILE_H) && !defined(CKPT_FILE_HPP)
#define CKPT_FILE_HPP

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "table.hpp"
#include "tree.hpp"

namespace CKPT_HPP_NAMESPACE {
inline namespace CKPT_HPP_MODE {
namespace detail {

// A row: its id, and its number in the file.
using FileRow = std::pair<uint64_t, uint64_t>;

struct FileTableState {
  ckpt_file* file = nullptr;
  TableInfo info = sized<TableInfo>();
  uint64_t ids = UINT64_MAX;  // the number of the tensor that holds the ids; of each column its tensor
  std::vector<ColumnInfo> columns = {};
  std::vector<ckpt_file_tensor> tensors = {};
  std::vector<uint64_t> numbers = {};
  std::vector<FileRow> rows = {};  // by id; read when a share is first asked for
  bool is_read = false;

  // Elements `first`, `count` of a tensor, which are whole rows.
  static void read(Call& call, ckpt_file* file, uint64_t number, const ckpt_file_tensor& tensor, uint64_t first,
                   uint64_t count, void* to, uint64_t bytes) {
    const Tensor wanted = Tensor(tensor.dtype, shape_of(tensor)).flat(int64_t(first), int64_t(count));
    call(ckpt_file_read, file, number, &wanted.desc(), to, bytes);
  }

  // An id that is there twice would be two rows of which one gets lost.
  void read_ids(Call& call) {
    if (is_read || !call.ok()) return;
    std::vector<uint64_t> all(info.row_count);
    auto tensor = sized<ckpt_file_tensor>();
    call(ckpt_file_tensor_at, file, ids, &tensor);
    if (!all.empty() && call.ok()) read(call, file, ids, tensor, 0, all.size(), all.data(), all.size() * sizeof all[0]);
    if (!call.ok()) return;
    rows.resize(all.size());
    for (size_t i = 0; i < all.size(); i++) rows[i] = {all[i], i};
    std::sort(rows.begin(), rows.end());
    const auto twice = std::adjacent_find(rows.begin(), rows.end(),
                                          [](const FileRow& a, const FileRow& b) { return a.first == b.first; });
    if (twice == rows.end()) return void(is_read = true);
    const std::string id = std::to_string(static_cast<int64_t>(twice->first));
    call.refuse(CKPT_MISMATCH,
                "table " + as_literal(info.name) + ": id " + id + " is there twice, as rows " +
                    std::to_string(twice[0].second) + " and " + std::to_string(twice[1].second),
                {{"tensor", info.name}, {"found", id}});
    rows.clear();
  }
};

// Number `number` of a file's tensors, if it is the ids or a column of one of the tables.
inline void put_in_table(const std::map<std::string, std::shared_ptr<FileTableState>>& tables, uint64_t number,
                         const ckpt_file_tensor& tensor) {
  const std::string name = tensor.name;
  if (tensor.alias_of) return;
  for (size_t at = name.find('/'); at != name.npos; at = name.find('/', at + 1)) {
    const auto found = tables.find(name.substr(0, at));
    if (found == tables.end()) continue;
    FileTableState& table = *found->second;
    if (tensor.ndim < 1 || static_cast<uint64_t>(tensor.shape[0]) != table.info.row_count) continue;
    table.info.bytes += tensor.bytes;
    table.info.stored_bytes += tensor.bytes;
    const bool is_ids = name.compare(at, name.npos, "/ids") == 0;
    if (is_ids && tensor.dtype == CKPT_DTYPE_I64 && tensor.ndim == 1) table.ids = number;
    if (is_ids) return;
    auto& column = table.columns.emplace_back(sized<ColumnInfo>());
    column.name = tensor.name + at + 1;
    column.dtype = tensor.dtype;
    column.row_bytes = static_cast<uint64_t>(ckpt_dtype_bits(tensor.dtype));
    for (int32_t d = 1; d < tensor.ndim; d++)
      column.row_bytes *= static_cast<uint64_t>(column.shape[column.ndim++] = tensor.shape[d]);
    column.row_bytes /= 8;
    column.stored_bytes = tensor.bytes;
    table.info.column_count++;
    table.tensors.push_back(tensor);
    table.numbers.push_back(number);
    return;
  }
}

}  // namespace detail

// Some rows of a FileTable, cut into windows, as a Share is.
class FileShare {
 public:
  ShareInfo info() const {
    auto out = detail::sized<ShareInfo>();
    out.row_count = rows_.size();
    out.window_count = rows_.empty() ? 1 : 1 + (rows_.size() - 1) / window_;
    out.most_rows = std::min<uint64_t>(window_, rows_.size());
    out.missing_count = missing_.size();
    return out;
  }
  // 0 of a window that there is not.
  uint64_t window_rows(uint64_t window) const {
    return window < info().window_count ? std::min<uint64_t>(window_, rows_.size() - window * window_) : 0;
  }
  const std::vector<uint64_t>& missing() const { return missing_; }

  // Reads the rows of a window: their ids, and of `columns` each its rows in one piece. NOT_FOUND (window, column),
  // INVALID (too little memory), and what File::read returns.
  Result<void> read(uint64_t window, MutableMemory ids, const std::vector<ColumnMemory>& columns) const {
    detail::Call call;
    if (window >= info().window_count)
      call.refuse(CKPT_NOT_FOUND, "window " + std::to_string(window) + " of " + std::to_string(info().window_count));
    const uint64_t count = window_rows(window);
    const detail::FileRow* rows = rows_.data() + (call.ok() ? window * window_ : 0);
    check_memory(call, "ids", ids, count * sizeof(uint64_t));
    for (uint64_t i = 0; call.ok() && i < count; i++)
      std::memcpy(static_cast<char*>(ids.data) + i * sizeof(uint64_t), &rows[i].first, sizeof(uint64_t));
    std::vector<uint64_t> by_number(count);  // places in the window, in the order of the file
    for (uint64_t i = 0; i < count; i++) by_number[i] = i;
    std::sort(by_number.begin(), by_number.end(),
              [&](uint64_t a, uint64_t b) { return rows[a].second < rows[b].second; });
    for (const ColumnMemory& column : columns) read_column(call, column, rows, by_number);
    return call.done();
  }

 private:
  friend class FileTable;
  static constexpr uint64_t kGap = 8192, kBuffer = 4 << 20;  // bytes: what is read with its neighbours; at once

  static void check_memory(detail::Call& call, const std::string& what, const MutableMemory& memory, uint64_t needed) {
    if (memory.bytes < needed)
      call.refuse(CKPT_INVALID, "the memory for " + what + " has " + std::to_string(memory.bytes) + " bytes of " +
                                    std::to_string(needed));
  }

  // Rows that lie near each other are read together.
  void read_column(detail::Call& call, const ColumnMemory& column, const detail::FileRow* rows,
                   const std::vector<uint64_t>& by_number) const {
    const auto& all = state_->columns;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const ColumnInfo& one) { return column.name == one.name; });
    if (found == all.end()) {
      call.refuse(CKPT_NOT_FOUND, "table " + detail::as_literal(state_->info.name) + " has no column " +
                                      detail::as_literal(column.name));
      return;
    }
    const auto place = static_cast<size_t>(found - all.begin());
    const uint64_t row = found->row_bytes;
    check_memory(call, "column " + detail::as_literal(column.name), column.memory, by_number.size() * row);
    std::vector<char> buffer;
    for (size_t i = 0, end = 0; call.ok() && i < by_number.size(); i = end) {
      const uint64_t first = rows[by_number[i]].second;
      uint64_t last = first;
      for (end = i + 1; end < by_number.size(); end++) {
        const uint64_t next = rows[by_number[end]].second;
        if ((next - last - 1) * row > kGap || (next - first + 1) * row > kBuffer) break;
        last = next;
      }
      buffer.resize((last - first + 1) * row);
      read_rows(call, place, first, last - first + 1, buffer);
      for (size_t k = i; call.ok() && k < end; k++)
        std::memcpy(static_cast<char*>(column.memory.data) + by_number[k] * row,
                    buffer.data() + (rows[by_number[k]].second - first) * row, row);
    }
  }

  void read_rows(detail::Call& call, size_t place, uint64_t first, uint64_t count, std::vector<char>& to) const {
    const ckpt_file_tensor& tensor = state_->tensors[place];
    uint64_t elements = 1;
    for (int32_t d = 1; d < tensor.ndim; d++) elements *= static_cast<uint64_t>(tensor.shape[d]);
    detail::FileTableState::read(call, state_->file, state_->numbers[place], tensor, first * elements, count * elements,
                                 to.data(), to.size());
  }

  std::shared_ptr<const detail::FileTableState> state_;
  std::vector<detail::FileRow> rows_ = {};
  std::vector<uint64_t> missing_ = {};
  uint64_t window_ = UINT64_MAX;
};

// A sparse table in a file; File::tables finds them. The file must live as long as this and its shares, and these are
// used by one thread at a time. The first share reads all ids and keeps them: 16 bytes for each row of the table, as a
// share does for its own rows. `info` does not tell bucket_count, which is 0: slices and ranges of buckets are those of
// CKPT_TABLE_BUCKETS.
class FileTable {
 public:
  const TableInfo& info() const { return state_->info; }
  const std::vector<ColumnInfo>& columns() const { return state_->columns; }

  // Rows in the order of the file; those of a list of ids in its order, without what is missing. MISMATCH: an id is
  // there twice; INVALID: a slice or remainder that there is not.
  Result<FileShare> share(const Rowset& wanted) const {
    detail::Call call;
    const ckpt_share_desc& desc = wanted.desc();
    if ((desc.kind == CKPT_SHARE_SLICE || desc.kind == CKPT_SHARE_MOD) && desc.index >= desc.count)
      call.refuse(CKPT_INVALID, "share " + std::to_string(desc.index) + " of " + std::to_string(desc.count));
    if (desc.since) call.refuse(CKPT_INVALID, "a share of a file has no since");
    state_->read_ids(call);
    FileShare share;
    share.state_ = state_;
    if (desc.window_rows != 0) share.window_ = desc.window_rows;
    if (call.ok()) desc.kind == CKPT_SHARE_IDS ? find(wanted.id_list(), share) : choose(desc, share);
    return call.result(std::move(share));
  }

 private:
  friend class File;
  explicit FileTable(std::shared_ptr<detail::FileTableState> state) : state_(std::move(state)) {}

  void find(const std::vector<uint64_t>& ids, FileShare& share) const {
    for (const uint64_t id : ids) {
      const auto found = std::lower_bound(state_->rows.begin(), state_->rows.end(), detail::FileRow{id, 0});
      if (found != state_->rows.end() && found->first == id)
        share.rows_.push_back(*found);
      else
        share.missing_.push_back(id);
    }
  }

  void choose(const ckpt_share_desc& desc, FileShare& share) const {
    constexpr uint64_t kBuckets = CKPT_TABLE_BUCKETS;
    const auto begin = [&](uint64_t i) { return i * (kBuckets / desc.count) + std::min(i, kBuckets % desc.count); };
    const bool slice = desc.kind == CKPT_SHARE_SLICE;
    const uint64_t first = slice ? begin(desc.index) : desc.bucket_first,
                   end = slice ? begin(desc.index + 1) : desc.bucket_end;
    for (const detail::FileRow& row : state_->rows) {
      const uint64_t bucket = row.first % kBuckets;
      if (desc.kind == CKPT_SHARE_ALL ||
          (desc.kind == CKPT_SHARE_MOD ? row.first % desc.count == desc.index : bucket >= first && bucket < end))
        share.rows_.push_back(row);
    }
    std::sort(share.rows_.begin(), share.rows_.end(),
              [](const detail::FileRow& a, const detail::FileRow& b) { return a.second < b.second; });
  }

  std::shared_ptr<detail::FileTableState> state_;
};

// ---- files of other formats ----

using FileTensor = ckpt_file_tensor;

class File : public detail::Handle<ckpt_file, ckpt_file_free> {
 public:
  using Handle::Handle;
  using Tensors = Range<FileTensor, ckpt_file>;
  static Result<File> open(const std::string& path, const Options& options = {}) {
    return detail::make_first<File>(ckpt_file_open, detail::Text{"path", path}, options);
  }
  std::string format() const { return ckpt_file_format(get()); }
  // What is in the directory and was not read.
  std::vector<std::string> left_out() const {
    std::vector<std::string> names;
    while (const char* name = ckpt_file_left_out(get(), names.size())) names.emplace_back(name);
    return names;
  }
  // The file owns what the tensors and the tree point at.
  Tensors tensors() const& { return {get(), tensor_count(), ckpt_file_tensor_at}; }
  Tensors tensors() && = delete;
  uint64_t tensor_count() const { return ckpt_file_tensor_count(get()); }
  Result<FileTensor> tensor(uint64_t index) const {
    return detail::fill<FileTensor>(ckpt_file_tensor_at, get(), index);
  }
  // Elements of a tensor, which may lie in several pieces.
  Result<void> read(uint64_t index, const Tensor& tensor, MutableMemory memory) {
    return detail::call(ckpt_file_read, get(), index, &tensor.desc(), memory.data, memory.bytes);
  }
  // Sparse tables among the tensors: T is an alias of T/ids, and each T/COLUMN has a row for each id. Opens nothing.
  Result<std::vector<FileTable>> tables() const;
  Result<TreeView> tree() const {
    const ckpt_tree* tree = nullptr;
    detail::Call call;
    call(ckpt_file_tree, get(), &tree);
    return call.result(TreeView(tree));
  }
};

inline Result<std::vector<FileTable>> File::tables() const {
  detail::Call call;
  auto one = detail::sized<FileTensor>();
  std::map<std::string, std::shared_ptr<detail::FileTableState>> found;
  for (uint64_t i = 0; call.ok() && i < tensor_count(); i++) {
    call(ckpt_file_tensor_at, get(), i, &one);
    const std::string name = call.ok() && one.alias_of ? one.name : "";
    if (name.empty() || one.dtype != CKPT_DTYPE_I64 || one.ndim != 1 || one.alias_offset != 0 ||
        name + "/ids" != one.alias_of)
      continue;
    auto& made = *found.emplace(name, std::make_shared<detail::FileTableState>()).first->second;
    made.file = get();
    made.info.name = one.name;
    made.info.id_dtype = one.dtype;
    made.info.row_count = static_cast<uint64_t>(one.shape[0]);
  }
  for (uint64_t i = 0; !found.empty() && i < tensor_count(); i++)
    if (call(ckpt_file_tensor_at, get(), i, &one).ok()) detail::put_in_table(found, i, one);
  std::vector<FileTable> tables;
  for (auto& named : found)
    if (named.second->ids != UINT64_MAX) tables.push_back(FileTable(std::move(named.second)));
  return call.result(std::move(tables));
}

}  // namespace CKPT_HPP_MODE
}  // namespace CKPT_HPP_NAMESPACE
#endif  // CKPT_FILE_HPP
