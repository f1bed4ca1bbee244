// Sparse tables: the rows that a save is given, what a reader tells of a table, and the shares that a load fills.
#pragma once

#include "bind.h"
#include "memory.h"

namespace ckpt_py {

// A rank's rows as a save takes them, and what keeps their memory.
struct TableRows {
  ckpt::Rows rows;
  Kept kept;
};
// `columns`: by name an array, or a list of arrays, which are blocks. `raw`: by name (dtype, shape of a row) of those
// whose memory is raw bytes, or None. Errors name table and column.
TableRows table_rows(const std::string& table, nb::handle ids, nb::dict columns, uint64_t bucket_count,
                     nb::handle positions, nb::handle raw, nb::handle changed, nb::handle removed);

// Some rows of a table. It keeps the engine's reader, from which names are borrowed.
class ShareObject : public Held<ckpt::Share> {
 public:
  // `since`: null, or the checkpoint since which changes are wanted.
  ShareObject(std::shared_ptr<ckpt::Reader> reader, const std::string& table, nb::handle rows, uint64_t window_rows,
              const ckpt::Reader* since, const ckpt::Options& options);
  const ckpt::TableInfo& table() const { return table_; }
  const std::vector<ckpt::ColumnInfo>& columns() const { return columns_; }

 private:
  std::shared_ptr<ckpt::Reader> reader_;
  ckpt::TableInfo table_;
  std::vector<ckpt::ColumnInfo> columns_;
};

// Memory for rows of a table, in row-major order, by its Memory. Of `what`, ids or positions, it is the host's.
nb::object row_memory(nb::handle array, bool writable);
nb::object host_memory(nb::handle array, bool writable, const char* what);
// Where the columns of one table lie: all on one device, behind one stream.
class Place {
 public:
  // INVALID if it is not where those before it are.
  void take(const Memory& memory);
  ckpt::Device device;
  int64_t stream = 0;

 private:
  bool known_ = false;
  std::string first_;  // where the first is
};
// Where the rows of a column go: an array of its dtype and shape, or raw bytes. MISMATCH if it is neither.
ckpt::ColumnMemory column_memory(const ShareObject& share, const std::string& column, const Memory& memory);

void bind_reader_tables(nb::class_<ReaderObject>& reader);

}  // namespace ckpt_py
