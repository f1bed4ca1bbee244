// The rows of a table that an earlier checkpoint of it lacks, or has with other bytes: found by comparing, whatever
// ranks, runs and codecs the two have. Where both have the same chunks at the same places, ids alone are read.
#include <algorithm>
#include <cstring>
#include <map>

#include "load/share.h"

namespace ckpt::load {

// ---- the earlier checkpoint ----

// Where the table is new, all rows are.
Status Share::add_earlier(std::string_view name) {
  earlier_first_ = parts_.size();
  if (of_ids()) return Status(CKPT_INVALID, "share of table " + in_quotes(table_.name) + ": a list of ids, of changes");
  auto found = find_table(*request_.since, name);
  if (!found.ok() && found.status().code() == CKPT_NOT_FOUND) return Ok();
  CKPT_ASSIGN(earlier_, std::move(found));
  CKPT_TRY(check_alike());
  CKPT_ASSIGN(const auto parts, parts_of(*request_.since, earlier_));
  parts_.insert(parts_.end(), parts.begin(), parts.end());
  return Ok();
}

Status Share::check_alike() const {
  auto other = [&](const std::string& what, const std::string& expected, const std::string& found) {
    return error_about(CKPT_MISMATCH, table_.name,
                       strformat("table {}: {} are {}, in the earlier checkpoint {}: all of it changed",
                                 in_quotes(table_.name), what, found, expected))
        .with("expected", expected)
        .with("found", found);
  };
  const auto text_of = [](const Table& table) {
    std::string text(dtype_name(table.ids.tensor.dtype()));
    for (const Table::Column& column : table.columns) {
      text += strformat(", {} {}", column.name, dtype_name(column.tensor.dtype()));
      for (const uint64_t extent : column.tensor.extents().subspan(1)) text += strformat(" {}", extent);
    }
    return text;
  };
  if (table_.bucket_count != earlier_.bucket_count)
    return other("buckets", std::to_string(earlier_.bucket_count), std::to_string(table_.bucket_count));
  if (text_of(table_) != text_of(earlier_)) return other("columns", text_of(earlier_), text_of(table_));
  return Ok();
}

// ---- equal chunks ----

namespace {

// What a chunk holds, as far as its record tells; equal ones are of the same bytes.
struct Content {
  Id digest;
  uint64_t raw_size, stored_size;
  uint8_t codec, filter, filter_width;
  bool operator==(const Content&) const = default;
};
using Contents = std::map<uint32_t, std::vector<Content>>;  // by part, in the order of rows

Result<Contents> contents_of(const checkpoint::Checkpoint& checkpoint, const Table::Column& column) {
  Contents contents;
  if (column.tensor.extents()[0] == 0) return contents;
  CKPT_ASSIGN(const auto pieces, checkpoint.pieces(column.tensor));
  for (const checkpoint::Piece& piece : pieces)
    for (const fb::Chunk& chunk : piece.chunks())
      contents[piece.part].push_back({format::id_of(chunk.digest()), chunk.raw_size(), chunk.stored_size(),
                                      piece.segment->codec(), piece.segment->filter(), piece.segment->filter_width()});
  return contents;
}

// Marks the rows of which no chunk says that both have the same bytes.
void mark_differing(std::span<const Content> now, std::span<const Content> earlier, uint64_t row_bytes,
                    std::vector<bool>* differs) {
  uint64_t at = 0, earlier_at = 0;
  auto other = earlier.begin();
  for (const Content& chunk : now) {
    while (other != earlier.end() && earlier_at < at) earlier_at += (other++)->raw_size;
    const bool same = other != earlier.end() && earlier_at == at && *other == chunk;
    const uint64_t first = at / row_bytes, end = (at + chunk.raw_size + row_bytes - 1) / row_bytes;
    for (uint64_t row = first; !same && row < std::min<uint64_t>(end, differs->size()); row++) (*differs)[row] = true;
    at += chunk.raw_size;
  }
}

// Of each layer of rows what its ids, and then its columns, hold.
Result<std::vector<std::vector<Contents>>> all_contents(const checkpoint::Checkpoint& checkpoint, const Table& table) {
  std::vector<std::vector<Contents>> all(table.later.size() + 1);
  for (size_t i = 0; i < all.size(); i++) {
    if (Table::removes(i)) continue;
    CKPT_ASSIGN(all[i].emplace_back(), contents_of(checkpoint, table.layer(i).ids));
    for (const Table::Column& column : table.layer(i).columns) {
      CKPT_ASSIGN(all[i].emplace_back(), contents_of(checkpoint, column));
    }
  }
  return all;
}

}  // namespace

Status Share::find_twins() {
  CKPT_ASSIGN(auto now, all_contents(*checkpoint_, table_));
  CKPT_ASSIGN(auto earlier, all_contents(*request_.since, earlier_));
  twins_.resize(earlier_first_);
  for (size_t i = 0; i < earlier_first_; i++) {
    const TablePart& part = parts_[i];
    if (Table::removes(part.layer)) continue;
    std::vector<Contents>& columns = now[part.layer];
    for (size_t other = earlier_first_; other < parts_.size() && twins_[i].part == SIZE_MAX; other++)
      if (const TablePart& its = parts_[other];
          !Table::removes(its.layer) && columns[0][part.part] == earlier[its.layer][0][its.part])
        twins_[i] = {other, std::vector<bool>(part.rows)};
    if (twins_[i].part == SIZE_MAX) continue;
    const TablePart& twin = parts_[twins_[i].part];
    for (size_t c = 1; c < columns.size(); c++)
      mark_differing(columns[c][part.part], earlier[twin.layer][c][twin.part], table_.columns[c - 1].row_bytes,
                     &twins_[i].differs);
  }
  return Ok();
}

// Whether chunks tell that two rows of one id have the same bytes.
bool Share::is_same(const RowRun& run, uint64_t at, const RowRun& earlier, uint64_t earlier_at) const {
  const Twin& twin = twins_[run.part];
  const uint64_t row = run.first + at - parts_[run.part].first;
  return twin.part == earlier.part && row == earlier.first + earlier_at - parts_[earlier.part].first &&
         !twin.differs[row];
}

// ---- the rows of a step ----

// All rows of ours but those that chunks tell to be the same. `before` ascends by key.
std::vector<Share::Candidate> Share::candidates(std::span<const RowRun> runs, std::span<const PartIds> pieces,
                                                std::span<const std::vector<uint64_t>> hidden,
                                                std::span<const ShownRow> before, Step* step) const {
  std::vector<Candidate> found;
  std::vector<bool> met(before.size());
  for (size_t i = 0; i < runs.size(); i++) {
    if (is_earlier(runs[i].part) || removes(runs[i])) continue;
    size_t next = 0;
    for_shown(runs[i].count, hidden[i], [&](uint64_t first, uint64_t count) {
      for (uint64_t at = first; at < first + count; at++) {
        const RowKey key = pieces[i].key(at, table_.bucket_count);
        size_t leap = 1;
        while (next + leap < before.size() && before[next + leap].key < key) next += std::exchange(leap, 2 * leap);
        const auto near = before.subspan(next, std::min(leap + 1, before.size() - next));
        next += static_cast<size_t>(std::ranges::lower_bound(near, key, {}, &ShownRow::key) - near.begin());
        const bool both = next < before.size() && before[next].key == key;
        if (both) met[next] = true;
        if (!is_ours(key.id) || (both && is_same(runs[i], at, runs[before[next].run], before[next].at))) continue;
        found.push_back({i, at, next, !both});
      }
    });
  }
  for (size_t i = 0; i < before.size(); i++)
    if (!met[i] && is_ours(before[i].key.id)) step->gone.push_back(before[i].key.id);
  return found;
}

// Reads the rows of both, column by column.
Status Share::compare(std::span<const RowRun> runs, std::span<const ShownRow> before,
                      std::span<Candidate> candidates) const {
  for (size_t column = 0; column < table_.columns.size(); column++) {
    const uint64_t row_bytes = table_.columns[column].row_bytes;
    std::vector<Candidate*> looked_at;
    std::vector<RowRun> wanted, theirs;
    for (Candidate& candidate : candidates) {
      if (candidate.changed) continue;
      const ShownRow& row = before[candidate.before];
      looked_at.push_back(&candidate);
      add_row(wanted, runs[candidate.run].part, runs[candidate.run].first + candidate.at);
      add_row(theirs, runs[row.run].part, runs[row.run].first + row.at);
    }
    if (looked_at.empty()) return Ok();
    wanted.insert(wanted.end(), theirs.begin(), theirs.end());
    const uint64_t bytes = looked_at.size() * row_bytes;
    LargeVector<std::byte> rows(2 * bytes);
    const auto column_of = [&](const RowRun& run) -> const Table::Column& { return layer_of(run).columns[column]; };
    CKPT_TRY(read_rows(wanted, column_of, rows.data()));
    for (size_t i = 0; i < looked_at.size(); i++) {
      const std::byte* const row = rows.data() + i * row_bytes;
      looked_at[i]->changed = std::memcmp(row, row + bytes, row_bytes) != 0;
    }
  }
  return Ok();
}

Status Share::keep_changed(std::span<const RowRun> runs, std::span<const PartIds> pieces,
                           std::span<const std::vector<uint64_t>> hidden, Step* step) const {
  std::vector<ShownRow> before;
  for (size_t i = 0; i < runs.size(); i++) {
    if (!is_earlier(runs[i].part) || removes(runs[i])) continue;
    for_shown(runs[i].count, hidden[i], [&](uint64_t first, uint64_t count) {
      for (uint64_t at = first; at < first + count; at++)
        before.push_back({pieces[i].key(at, table_.bucket_count), i, at});
    });
  }
  std::ranges::sort(before, {}, &ShownRow::key);
  auto found = candidates(runs, pieces, hidden, before, step);
  CKPT_TRY(compare(runs, before, found));
  for (const Candidate& row : found) {
    if (!row.changed) continue;
    step->ids.push_back(pieces[row.run][row.at]);
    add_row(step->runs, runs[row.run].part, runs[row.run].first + row.at);
  }
  step->rows = step->ids.size();
  return Ok();
}

}  // namespace ckpt::load
