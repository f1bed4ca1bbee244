#include "interop/read_back.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/descriptor.h"
#include "interop/elements.h"
#include "interop/seeded_hash.h"
#include "interop/tensor_stream.h"

namespace ckpt::interop {

namespace {

constexpr uint64_t kStep = 8 << 20;

class Comparison {
 public:
  Comparison(const State& state, ForeignCheckpoint& files, const ReadOptions& options)
      : state_(state), files_(files), options_(options), left_(kStep), right_(kStep) {}

  Status compare(const ForeignTensor& tensor, const std::string& name) {
    const Result<ckpt_tensor_info> info = state_.tensor(name);
    if (!info.ok()) return Status(CKPT_MISMATCH, "it was written, and is not in what was to be written");
    TensorRange range{name, static_cast<uint16_t>(info->dtype), shape_of(*info), 0, tensor.elements()};
    if (range.dtype != tensor.dtype || !(range.shape == tensor.shape))
      return Status(CKPT_MISMATCH, strformat("expected {} {}, found {} {}", dtype_name(range.dtype),
                                             to_text(range.shape), dtype_name(tensor.dtype), to_text(tensor.shape)));
    uint64_t at = 0;
    TensorStream stream(state_, client_options(Options()), left_,
                        [&](std::span<const TensorStream::Piece>, Bytes piece) {
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

  Result<RowSum> sum_of_file(const ForeignTensor& ids, const ForeignTensor& tensor) {
    RowSum sum;
    if (&ids != &tensor) {
      uint64_t row = 0;
      count_elements(tensor.shape.span().subspan(1), &row);
      sum.row_bytes = row * static_cast<uint64_t>(dtype_bits(tensor.dtype)) / 8;
    }
    for (size_t i = 0; i < ids.pieces.size(); i++) {
      CKPT_TRY(options_.check());
      CKPT_ASSIGN(const Bytes of_ids, files_.files.bytes(ids.pieces[i].bytes));
      CKPT_ASSIGN(const Bytes rows, files_.files.bytes(tensor.pieces[i].bytes));
      sum.add(of_ids, rows);
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
    std::vector<uint64_t> ids(info.most_rows);
    std::vector<std::byte> rows(info.most_rows * sum.row_bytes);
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
    CKPT_TRY(copy_elements(files_.files, tensor, wanted));
    if (std::memcmp(piece.data(), found.data(), piece.size()) != 0)
      return Status(CKPT_CORRUPT, strformat("elements {} to {} are not what was to be written", *at, *at + count - 1));
    *at += count;
    return Ok();
  }

  const State& state_;
  ForeignCheckpoint& files_;
  const ReadOptions& options_;
  std::vector<std::byte> left_, right_;
};

}  // namespace

Status compare_with(const State& state, ForeignCheckpoint& files, const ReadOptions& options,
                    const NameInState& name_of) {
  CKPT_TRY(files.find_elements(options));
  Comparison comparison(state, files, options);
  for (const ForeignTensor& tensor : files.tensors) {
    if (tensor.name.starts_with(kAliasMemory) || tensor.buckets != 0) continue;
    Status status = comparison.compare(tensor, name_of(tensor.name));
    if (!status.ok())
      return std::move(status).in("read back: tensor " + ckpt::quoted(tensor.name)).with("tensor", tensor.name);
  }
  CKPT_ASSIGN(const std::vector<ForeignTable> tables, files.tables());
  for (const ForeignTable& table : tables) {
    std::vector<size_t> all = table.columns;
    all.push_back(table.ids);
    for (const size_t column : all) {
      const std::string& name = files.tensors[column].name;
      Status status = comparison.compare_rows(table, column, name_of(table.name));
      if (!status.ok()) return std::move(status).in("read back: tensor " + ckpt::quoted(name)).with("tensor", name);
    }
  }
  return Ok();
}

}  // namespace ckpt::interop
