// A sparse table whose rows come, change, go and move to other ranks from save to save. What it holds is a function of
// the step alone, so a load needs no record of what was saved.
#include <iterator>
#include <random>

#include "sim/world.h"

namespace sim {

static constexpr uint64_t kIds = 12, kBuckets = 8;

static uint64_t drawn(int64_t step, uint64_t id, uint64_t below) {
  return std::mt19937_64(world->seed * 1'000'003 + static_cast<uint64_t>(step) * kIds + id)() % below;
}

// The value of an id is the step that changed it last, and whether it is there was decided then.
TableRows rows_of(int64_t step, uint32_t rank, uint32_t world_size) {
  constexpr int64_t kOfTraining = 100;
  TableRows rows;
  for (uint64_t id = 0; id < kIds; id++) {
    int64_t changed = step;
    while (changed % kOfTraining != 0 && drawn(changed, id, 4) != 0) changed--;
    const bool there = id == 0 || drawn(changed, id, 20) < 16;
    const uint64_t owner = (id + static_cast<uint64_t>(step) / 3) % world_size;
    if (there && owner == rank) rows[id] = static_cast<uint32_t>(changed * 1000) + static_cast<uint32_t>(id);
  }
  return rows;
}

TableSave::TableSave(const TableRows& rows, const TableRows& before) {
  for (const auto& [id, value] : rows) {
    const auto had = before.find(id);
    if (had == before.end() || had->second != value) changed_.push_back(ids_.size());
    ids_.push_back(id);
    values_.push_back(value);
  }
  for (const auto& [id, value] : before)
    if (!rows.contains(id)) removed_.push_back(id);
}

void TableSave::add(hpp::Save& save, Changes told) {
  hpp::Rows rows{.ids = ids_.data(), .count = ids_.size(), .bucket_count = kBuckets};
  rows.columns.push_back({"value", CKPT_DTYPE_U32, {}, {hpp::Memory(values_)}});
  if (told == Changes::kListed)
    rows.changes = hpp::Changes{changed_.data(), changed_.size(), removed_.data(), removed_.size()};
  if (told == Changes::kByDigest) rows.changes = hpp::Changes{.by_digest = true};
  save.add_table("table", rows);
}

void TableSave::scribble() {
  std::fill(ids_.begin(), ids_.end(), 0xbad);
  std::fill(values_.begin(), values_.end(), 0xbad);
}

TableLoad::TableLoad(const hpp::Reader& reader, const hpp::Options& options)
    : share_(reader.share("table", hpp::Rowset::all(), options)),
      ids_(share_.info().row_count),
      values_(ids_.size()),
      info_(reader.info()) {}

void TableLoad::add(hpp::Load& load) {
  load.add_table(share_, 0, hpp::MutableMemory(ids_), {{"value", hpp::MutableMemory(values_)}});
}

void TableLoad::check() const {
  std::multimap<uint64_t, uint32_t> found, saved;
  for (size_t i = 0; i < ids_.size(); i++) found.emplace(ids_[i], values_[i]);
  for (uint32_t rank = 0; rank < info_.world_size; rank++) saved.merge(rows_of(info_.step, rank, info_.world_size));
  if (found != saved) fail("wrong rows in step " + std::to_string(info_.step));
}

}  // namespace sim
