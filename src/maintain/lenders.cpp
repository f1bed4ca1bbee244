#include "maintain/lenders.h"

#include "checkpoint/part_file.h"
#include "format/names.h"

namespace ckpt::maintain {

// The name under which it may have the file; "" if it cannot.
static std::string name_in(const checkpoint::CheckpointEntry& entry, const fb::Part& record) {
  const format::Summary& summary = entry.summary;
  if (entry.state != CKPT_CHECKPOINT_COMMITTED) return "";
  if (summary.save_id == format::id_of(record.save_id())) return format::part_name(record.rank());
  return summary.base_count == 0 ? "" : format::file_name(format::as_base(record));
}

// Whether it is the file of this record, whose index is sound: more than its two ends, since what is shared may be what
// is to be repaired.
static Status check_same(const checkpoint::PartFile& found, const fb::Part& record) {
  return checkpoint::check_file(*found.file, record);
}

static Status look(const store::Store& store, const checkpoint::CheckpointEntry& other, const fb::Part& record) {
  const bool own = other.summary.save_id == format::id_of(record.save_id());
  CKPT_ASSIGN(const checkpoint::PartFile found, own ? checkpoint::open_part(store, other.id, record.rank())
                                                    : checkpoint::open_file(store, other.id, format::as_base(record)));
  return check_same(found, record);
}

static Status borrow(store::Store& store, const std::string& from, const std::string& id, const fb::Part& record) {
  CKPT_ASSIGN(const auto borrowed, store.borrow(from, format::file_key(id, format::file_name(record))));
  const auto found = checkpoint::open_file(store, id, record);
  Status same = found.ok() ? check_same(*found, record) : found.status();
  if (same.ok()) same = borrowed->publish_durably();
  if (!same.ok()) borrowed->drop();
  return same;
}

Result<std::string> borrow_from_others(store::Store& store, std::span<const checkpoint::CheckpointEntry> others,
                                       const std::string& id, const fb::Part& record, bool dry_run, const Job& job) {
  for (size_t i = others.size(); i-- > 0;) {
    const checkpoint::CheckpointEntry& other = others[i];
    const std::string name = other.id == id ? "" : name_in(other, record);
    if (name.empty()) continue;
    CKPT_TRY(job.check());
    // While it is locked, nobody removes it.
    const auto lock = store.lock_shared(format::slot_key(other.id));
    if (!lock.ok()) continue;
    const Status done =
        dry_run ? look(store, other, record) : borrow(store, format::file_key(other.id, name), id, record);
    if (done.ok()) return other.id;
    if (done.code() == CKPT_NOMEM) return done;
    if (done.code() == CKPT_UNSUPPORTED) break;
  }
  CKPT_TRY(job.check());
  return std::string();
}

}  // namespace ckpt::maintain
