#include "save/table_runs.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "checkpoint/chunk_io.h"
#include "format/names.h"
#include "format/table.h"
#include "save/id_set.h"
#include "save/reuse.h"
#include "save/table_sort.h"

namespace ckpt::save {

namespace {

// A run of the base's part: its rows, or the ids that it removes.
struct Run {
  Carried::Tensor ids;
  std::vector<Carried::Tensor> all;  // with ids, buckets and columns
};

class TableCarrier {
 public:
  TableCarrier(const CarryInput& in, SaveContent* content, Carried* carried)
      : in_(in), content_(*content), carried_(*carried) {}

  // What ends in an error is no table that can be carried over: then all its rows are written.
  Status carry(SaveTable* table);

 private:
  Status open_base(const std::string& since);
  Result<std::vector<Run>> runs_of(const SaveTable& table);
  Status add_run(const SaveTable& table, std::string name, bool of_ids, std::vector<Run>* runs);
  Result<Carried::Tensor> find(std::string_view name);
  Result<Ids> read_ids(const Run& run);
  Status merge(const SaveTable& table, std::span<const Run> runs, Ids* rows, Ids* removed);
  Status take_over(std::span<const Run> runs);

  const CarryInput& in_;
  SaveContent& content_;
  Carried& carried_;
  const checkpoint::IndexFile* index_ = nullptr;  // of this rank's part of the base
};

// ---- what the base has ----

Status TableCarrier::open_base(const std::string& since) {
  if (carried_.base) {
    if (carried_.base->entry().id == since) return Ok();
    return Status(CKPT_UNSUPPORTED, "other tables of this save changed since another save");
  }
  const auto open = [&](const std::string& selector) {
    return checkpoint::Checkpoint::open(in_.session.shared_store(),
                                        {.selector = selector, .run = in_.session.plan().run});
  };
  CKPT_ASSIGN(const auto base, open(since));
  if (!in_.settings.base.empty()) {
    CKPT_ASSIGN(const auto named, open(in_.settings.base));
    if (named->entry().id != since)
      return Status(CKPT_UNSUPPORTED,
                    "option base names " + named->entry().id + ", the changes are those since " + since);
  }
  CKPT_ASSIGN(index_, base->part_index(in_.identity.rank));
  carried_.base = base;
  return Ok();
}

Result<Carried::Tensor> TableCarrier::find(std::string_view name) {
  CKPT_ASSIGN(const format::Page* page, index_->page_of(name));
  return Carried::Tensor{name, page, page->find_tensor(name)};
}

// Adds a run, or nothing if the base has none of this name. Its columns must be those of the table.
Status TableCarrier::add_run(const SaveTable& table, std::string name, bool of_ids, std::vector<Run>* runs) {
  Run run;
  auto add = [&](const SaveTensor& mine) -> Status {
    const std::string column(mine.name.substr(table.name.size() + 1));
    CKPT_ASSIGN(auto found, find(content_.keep_text(format::table_tensor(name, column))));
    if (!found.tensor) return Status(CKPT_MISMATCH, "it has no " + in_quotes(found.name));
    const auto extents = found.page->extents_of(*found.tensor);
    if (found.tensor->dtype() != mine.dtype || !std::ranges::equal(extents.subspan(1), mine.extents().subspan(1)))
      return Status(CKPT_MISMATCH, in_quotes(found.name) + " has another dtype or shape there");
    run.all.push_back(found);
    return Ok();
  };
  CKPT_ASSIGN(run.ids, find(format::table_tensor(name, format::kTableIds)));
  if (!run.ids.tensor) return Ok();
  CKPT_TRY(add(*table.buckets_tensor));
  for (const SaveTensor* tensor : std::span(table.tensors).first(of_ids ? 1 : table.tensors.size()))
    CKPT_TRY(add(*tensor));
  run.ids.name = run.all[1].name;
  runs->push_back(std::move(run));
  return Ok();
}

// By pairs, the oldest first: rows, and what was removed; run 0 without the latter.
Result<std::vector<Run>> TableCarrier::runs_of(const SaveTable& table) {
  CKPT_ASSIGN(const format::Page* page, index_->page_of(table.name));
  const auto mine = content_.attrs.find(table.name);
  bool same = page->find_alias(table.name) != nullptr;
  for (const fb::Attr& attr : page->attrs_of(table.name))
    if (page->text(attr.key()) == format::kTableAttr)
      same &= page->text(attr.value()) == mine->second.find(std::string(format::kTableAttr))->second;
  if (!same) return Status(CKPT_MISMATCH, "this rank's table had other columns or buckets there");
  std::vector<Run> runs;
  CKPT_TRY(add_run(table, table.name, false, &runs));
  if (runs.empty()) return Status(CKPT_MISMATCH, "this rank had none of its rows there");
  for (uint32_t run = 1;; run++) {
    const size_t before = runs.size();
    CKPT_TRY(add_run(table, format::run_name(table.name, run), false, &runs));
    CKPT_TRY(add_run(table, format::removed_name(table.name, run), true, &runs));
    if (runs.size() == before) return runs;
    if (runs.size() != before + 2) return Status(CKPT_FORMAT, strformat("run {} is not whole there", run));
  }
}

// ---- merging runs ----

Result<Ids> TableCarrier::read_ids(const Run& run) {
  const auto [name, page, tensor] = run.ids;
  Ids ids(page->extents_of(*tensor)[0]);
  MutableBytes to(reinterpret_cast<std::byte*>(ids.data()), ids.size() * sizeof(uint64_t));
  std::vector<std::byte> stored;
  codec::CodecScratch scratch;
  for (const fb::Region& region : page->regions_of(*tensor))
    for (const fb::Segment& segment : page->segments_of(region))
      for (const fb::Chunk& chunk : page->chunks_of(segment)) {
        CKPT_ASSIGN(const auto file, carried_.base->part(carried_.base->file_of(in_.identity.rank, *page, chunk)));
        stored.resize(chunk.stored_size());
        CKPT_TRY(checkpoint::plain_read(in_.job, *file, chunk.offset(), stored));
        CKPT_TRY(checkpoint::check_chunk(chunk, stored));
        if (checkpoint::stored_raw(chunk))
          std::ranges::copy(stored, to.begin());
        else
          CKPT_TRY(checkpoint::decode_chunk(segment, stored, to.first(chunk.raw_size()), scratch));
        to = to.subspan(chunk.raw_size());
      }
  return ids;
}

// There would be too many runs: all but the oldest become one, with what changed now. Rows are taken from memory, so
// only ids are read.
Status TableCarrier::merge(const SaveTable& table, std::span<const Run> runs, Ids* rows, Ids* removed) {
  Ids touched;
  for (size_t i = 0; i < runs.size(); i++) {
    CKPT_ASSIGN(const Ids ids, read_ids(runs[i]));
    touched.insert(touched.end(), ids.begin(), ids.end());
  }
  touched.insert(touched.end(), removed->begin(), removed->end());
  const IdSet set(std::move(touched));
  Ids there;
  for (uint64_t row = 0; row < table.all_rows; row++) {
    const uint64_t id = id_at(table.all_ids, row);
    if (!set.contains(id)) continue;
    rows->push_back(row);
    there.push_back(id);
  }
  sort_unique(rows);
  std::ranges::sort(there);
  removed->clear();
  std::ranges::set_difference(set.sorted(), there, std::back_inserter(*removed));
  return Ok();
}

// ---- carrying over ----

Status TableCarrier::take_over(std::span<const Run> runs) {
  Carried these;
  these.base = carried_.base;
  for (const Run& run : runs) these.tensors.insert(these.tensors.end(), run.all.begin(), run.all.end());
  std::set<uint32_t> files;
  these.for_each_chunk(in_.identity.rank, [&](uint32_t file, const fb::Chunk&) { files.insert(file); });
  for (const uint32_t file : files) {
    if (carried_.files.contains(file)) continue;
    CKPT_ASSIGN(const fb::Part record, lend_file(in_.session, in_.identity.attempt, *carried_.base, file));
    carried_.files.emplace(file, record);
  }
  carried_.tensors.insert(carried_.tensors.end(), these.tensors.begin(), these.tensors.end());
  return Ok();
}

// ---- the new run ----

// Makes the content of a save hold less of a table than all its rows.
class RunMaker {
 public:
  RunMaker(SaveContent* content, SaveTable* table) : content_(*content), table_(*table) {}

  // Its own tensors go: they are carried over.
  void drop_rows() {
    std::vector<const SaveTensor*> own(table_.tensors.begin(), table_.tensors.end());
    own.push_back(table_.buckets_tensor);
    std::erase_if(content_.tensors, [&](const SaveTensor* tensor) { return std::ranges::count(own, tensor) != 0; });
    table_.row_count = 0;
  }

  // Of these rows, and of what was removed.
  void add(uint32_t run, const Ids& rows, const Ids& removed) {
    SaveTable& gone = content_.tables.emplace_back();
    gone.name = format::removed_name(table_.name, run);
    gone.bucket_count = table_.bucket_count;
    gone.tensors = {table_.tensors[0]};
    gone.buckets_tensor = table_.buckets_tensor;
    make(gone, table_.name, removed, nullptr);
    Ids ids, positions;
    for (const uint64_t row : rows) {
      ids.push_back(id_at(table_.all_ids, row));
      positions.push_back(table_.positions ? table_.positions[row] : row);
    }
    const std::string name = table_.name;
    table_.name = format::run_name(name, run);
    make(table_, name, ids, keep(positions));
  }

  // How many ids this rank has in all, if it has runs.
  void add_live(const std::string& name) {
    const Ids live{table_.all_rows};
    SaveTensor* const tensor =
        content_.with_rows(*table_.buckets_tensor, format::table_tensor(name, format::kTableLive), 1);
    tensor->data = reinterpret_cast<std::byte*>(const_cast<uint64_t*>(keep(live)));
    content_.attrs[name].insert_or_assign(std::string(format::kRunsAttr), std::string(format::kRunsValue));
  }

 private:
  const uint64_t* keep(const Ids& numbers) {
    auto* kept = static_cast<uint64_t*>(
        content_.memory.allocate(std::max<size_t>(numbers.size(), 1) * sizeof(uint64_t), alignof(uint64_t)));
    std::ranges::copy(numbers, kept);
    return kept;
  }

  // Gives `table` tensors under its name, like those under the name `like`, of as many rows as there are ids.
  void make(SaveTable& table, const std::string& like, const Ids& ids, const uint64_t* positions) {
    table.row_count = ids.size();
    table.positions = positions;
    table.ids = reinterpret_cast<const std::byte*>(keep(ids));
    auto named = [&](const SaveTensor& tensor) {
      return format::table_tensor(table.name, tensor.name.substr(like.size() + 1));
    };
    for (SaveTensor*& tensor : table.tensors) tensor = content_.with_rows(*tensor, named(*tensor), ids.size());
    const uint64_t entries = entries_of(table.bucket_count, ids.size());
    table.buckets_tensor = content_.with_rows(*table.buckets_tensor, named(*table.buckets_tensor), entries);
    if (ids.empty()) return;
    table.buckets = {const_cast<uint64_t*>(keep(Ids(entries))), entries};
    table.buckets_tensor->data = reinterpret_cast<std::byte*>(table.buckets.data());
    auto* block = static_cast<const std::byte**>(content_.memory.allocate(sizeof(void*), alignof(void*)));
    *block = table.ids;
    table.id_source = {.blocks = block, .row_bytes = sizeof(uint64_t)};
    table.tensors[0]->rows = &table.id_source;
    for (RowSource& source : table.column_sources) source.positions = positions;
  }

  SaveContent& content_;
  SaveTable& table_;
};

Status TableCarrier::carry(SaveTable* table) {
  CKPT_TRY(open_base(table->since));
  CKPT_ASSIGN(std::vector<Run> runs, runs_of(*table));
  Ids rows = table->changed, removed = table->removed;
  sort_unique(&rows);
  sort_unique(&removed);
  const bool news = !rows.empty() || !removed.empty();
  auto number = static_cast<uint32_t>((runs.size() + 1) / 2);  // of the new run
  if (news && number >= in_.settings.most_runs) {
    if (in_.settings.most_runs > 1) CKPT_TRY(merge(*table, std::span(runs).subspan(1), &rows, &removed));
    runs.resize(1);
    number = 1;
  }
  if (in_.settings.most_runs == 1 || rows.size() > table->all_rows / 2) return Ok();
  CKPT_TRY(take_over(runs));
  RunMaker make(&content_, table);
  const std::string name = table->name;
  make.drop_rows();
  if (news || number > 1) make.add_live(name);
  if (news) make.add(number, rows, removed);
  return Ok();
}

// Another tensor or alias may have a name that runs take.
Status check_names(const SaveContent& content, const Carried& carried) {
  std::vector<std::string_view> names;
  for (const SaveTensor* tensor : content.tensors)
    if (names.empty() || tensor->kind == RegionKind::kRows || tensor->name != names.back())
      names.push_back(tensor->name);
  for (const auto& tensor : carried.tensors) names.push_back(tensor.name);
  for (const auto& [name, alias] : content.aliases) names.push_back(name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return Ok();
  return error_about(CKPT_EXISTS, *twice, in_quotes(*twice) + " was added, and is a name of a run of a table");
}

}  // namespace

Result<Carried> carry_tables(const CarryInput& input, SaveContent* content) {
  Carried carried;
  TableCarrier carrier(input, content, &carried);
  const size_t count = content->tables.size();  // more come: what was removed
  for (size_t i = 0; i < count; i++) {
    SaveTable& table = content->tables[i];
    if (!table.has_changes || table.since.empty() || table.row_count == 0) continue;
    Status status = carrier.carry(&table);
    if (ends_save(status.code()) || (input.settings.incremental == "strict" && has_no_names(status))) return status;
    if (!status.ok())
      input.job.report.add(CKPT_FINDING_REUSED, status.code(), table.name,
                           "table " + in_quotes(table.name) + ": all its rows are written: " + status.message());
  }
  if (carried.tensors.empty()) return Carried();
  std::ranges::sort(carried.tensors, {}, &Carried::Tensor::name);
  (void)sort_tensors(&content->tensors);  // names that are there twice are found below
  CKPT_TRY(check_names(*content, carried));
  return carried;
}

}  // namespace ckpt::save
