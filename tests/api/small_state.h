// A small training state whose content follows from its step, so that anyone who finds a checkpoint knows what it must
// hold. Shared by the tests and the programs that they start; uses only ckpt.h and ckpt_table.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ckpt.h"
#include "ckpt_table.h"

namespace small_state {

inline constexpr int64_t kRows = 12, kColumns = 64;
using Bytes = std::vector<unsigned char>;

inline Bytes content(int64_t step, uint64_t what, size_t count) {
  Bytes bytes(count);
  uint64_t state = (static_cast<uint64_t>(step) * 16 + what) * 0x9e3779b97f4a7c15u + 1;
  for (auto& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<unsigned char>(state >> 56);
  }
  return bytes;
}
inline Bytes weight(int64_t step) { return content(step, 1, kRows * kColumns); }
inline Bytes moment(int64_t step) { return content(step, 2, kRows * kColumns); }
inline Bytes trainer(int64_t step) { return content(step, 3, 40); }
inline Bytes generator(int64_t step, uint32_t rank) { return content(step, 100 + rank, 24); }

inline ckpt_tensor_desc matrix() {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = CKPT_DTYPE_U8;
  desc.ndim = 2;
  desc.shape[0] = kRows;
  desc.shape[1] = kColumns;
  return desc;
}

// One rank's share: a replicated tensor, its rows of a sharded one, a shared object and one of its own.
// `wrong`: this rank gives the replicated tensor another shape than the other ranks.
inline ckpt_status add(ckpt_save* save, uint32_t rank, uint32_t world, int64_t step, bool wrong, ckpt_error** err) {
  ckpt_tensor_desc desc = matrix();
  if (wrong) {
    desc.shape[0] = kRows / 2;
    desc.shape[1] = kColumns * 2;
  }
  Bytes all = weight(step), moments = moment(step), own = generator(step, rank), shared = trainer(step);
  // The engine reads this memory until the save has ended, so it lives as long as the process.
  static std::vector<std::unique_ptr<std::vector<Bytes>>> all_kept;
  all_kept.push_back(std::make_unique<std::vector<Bytes>>(std::vector<Bytes>{std::move(all), std::move(moments)}));
  std::vector<Bytes>* kept = all_kept.back().get();
  ckpt_status status =
      ckpt_save_add_tensor(save, "weight", &desc, (*kept)[0].data(), (*kept)[0].size(), CKPT_DEVICE_CPU, 0, err);
  if (status != CKPT_OK) return status;
  desc = matrix();
  desc.region_kind = CKPT_REGION_BOX;
  int64_t first = kRows * rank / world, last = kRows * (rank + 1) / world;
  desc.offset[0] = first;
  desc.extent[0] = last - first;
  desc.extent[1] = kColumns;
  status = ckpt_save_add_tensor(save, "moment", &desc, (*kept)[1].data() + first * kColumns,
                                static_cast<uint64_t>((last - first) * kColumns), CKPT_DEVICE_CPU, 0, err);
  if (status != CKPT_OK) return status;
  status = ckpt_save_add_object(save, "trainer", "application/octet-stream", CKPT_OBJECT_SHARED, shared.data(),
                                shared.size(), err);
  if (status != CKPT_OK) return status;
  return ckpt_save_add_object(save, "generator", "application/octet-stream", CKPT_OBJECT_PER_RANK, own.data(),
                              own.size(), err);
}

// One more tensor, which makes rank 0's part large enough to be recycled.
inline Bytes large(int64_t step) { return content(step, 4, (1 << 20) + 1000); }

inline ckpt_tensor_desc large_desc() {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = CKPT_DTYPE_U8;
  desc.ndim = 1;
  desc.shape[0] = static_cast<int64_t>(large(0).size());
  return desc;
}

inline ckpt_status add_large(ckpt_save* save, int64_t step, ckpt_error** err) {
  static std::vector<std::unique_ptr<Bytes>> all_kept;
  all_kept.push_back(std::make_unique<Bytes>(large(step)));
  ckpt_tensor_desc desc = large_desc();
  return ckpt_save_add_tensor(save, "large", &desc, all_kept.back()->data(), all_kept.back()->size(), CKPT_DEVICE_CPU,
                              0, err);
}

// A sparse table. Each step changes the rows of a seventh of the ids, adds an id, and removes the one that the step
// before added. So a session that saves one step after the other with option incremental makes runs.
struct TableState {
  std::vector<uint64_t> ids, changed, removed;
  Bytes rows;
};
inline constexpr size_t kRowBytes = 12;

inline TableState table(int64_t step, uint32_t rank, uint32_t world) {
  TableState state;
  const auto now = static_cast<uint64_t>(step), fresh = 1000 + now;
  for (uint64_t i = 0; i <= 210; i++) {
    const uint64_t id = i < 210 ? i : fresh, age = i < 210 ? (now + 7 - id % 7) % 7 : 0;  // steps since it changed
    if (id % world != rank) continue;
    if (age == 0) state.changed.push_back(state.ids.size());
    state.ids.push_back(id);
    const Bytes row = content(age < now ? static_cast<int64_t>(now - age) : 0, 1000 + id, kRowBytes);
    state.rows.insert(state.rows.end(), row.begin(), row.end());
  }
  if ((fresh - 1) % world == rank) state.removed.push_back(fresh - 1);
  return state;
}

inline ckpt_status add_table(ckpt_save* save, uint32_t rank, uint32_t world, int64_t step, ckpt_error** err) {
  static std::vector<std::unique_ptr<TableState>> all_kept;
  all_kept.push_back(std::make_unique<TableState>(table(step, rank, world)));
  const TableState& state = *all_kept.back();
  ckpt_table_desc desc{};
  desc.struct_size = sizeof desc;
  desc.id_dtype = CKPT_DTYPE_U64;
  desc.row_count = state.ids.size();
  desc.bucket_count = 64;
  desc.column_count = 1;
  desc.flags = CKPT_TABLE_CHANGES;
  desc.changed = state.changed.data();
  desc.changed_count = state.changed.size();
  desc.removed = state.removed.data();
  desc.removed_count = state.removed.size();
  ckpt_column_desc column{};
  column.struct_size = sizeof column;
  column.dtype = CKPT_DTYPE_U8;
  column.ndim = 1;
  column.shape[0] = kRowBytes;
  const char* name = "row";
  const void* data = state.rows.data();
  const uint64_t size = state.rows.size();
  return ckpt_save_add_table(save, "table", &desc, state.ids.data(), 8 * desc.row_count, &name, &column, &data, &size,
                             nullptr, CKPT_DEVICE_CPU, 0, 0, err);
}

// One more tensor, which never changes.
inline Bytes frozen() { return content(0, 5, (1 << 20) + 5000); }

inline ckpt_status add_frozen(ckpt_save* save, ckpt_error** err) {
  static const Bytes& kept = *new Bytes(frozen());
  ckpt_tensor_desc desc = large_desc();
  desc.shape[0] = static_cast<int64_t>(kept.size());
  return ckpt_save_add_tensor(save, "frozen", &desc, kept.data(), kept.size(), CKPT_DEVICE_CPU, 0, err);
}

// Loads everything, compares it with what the step implies, and lets the library verify every byte.
// OK and "" for a sound checkpoint; CORRUPT if its bytes are not those that were saved.
struct Verdict {
  ckpt_status status = CKPT_OK;
  std::string text;
};

namespace inner {

struct Handles {
  ckpt_load* load = nullptr;
  ckpt_job* job = nullptr;
  ckpt_report* report = nullptr;
  ckpt_error* error = nullptr;
  ckpt_share* share = nullptr;
  ~Handles() {
    ckpt_load_free(load);
    ckpt_share_free(share);
    ckpt_job_free(job);
    ckpt_report_free(report);
    ckpt_error_free(error);
  }
  Verdict verdict(ckpt_status status) const { return {status, ckpt_error_message(error)}; }
};

inline Verdict compare(const ckpt_reader* reader, const ckpt_checkpoint_info& info) {
  Handles h;
  ckpt_tensor_desc desc = matrix();
  Bytes all(weight(0).size()), moments(all.size()), shared(40), big, still;
  std::vector<Bytes> own(info.world_size, Bytes(24));
  ckpt_status status = ckpt_load_new(&h.load, reader, nullptr, &h.error);
  if (!status) status = ckpt_load_add_tensor(h.load, "weight", &desc, all.data(), all.size(), 1, 0, &h.error);
  if (!status) status = ckpt_load_add_tensor(h.load, "moment", &desc, moments.data(), moments.size(), 1, 0, &h.error);
  if (!status) status = ckpt_load_add_object(h.load, "trainer", 0, shared.data(), shared.size(), &h.error);
  for (uint32_t rank = 0; rank < info.world_size && !status; rank++)
    status = ckpt_load_add_object(h.load, "generator", rank, own[rank].data(), own[rank].size(), &h.error);
  ckpt_tensor_info found{};
  found.struct_size = sizeof found;
  if (!status && ckpt_reader_tensor_find(reader, "large", &found, nullptr) == CKPT_OK) {
    big.resize(large(0).size());
    desc = large_desc();
    status = ckpt_load_add_tensor(h.load, "large", &desc, big.data(), big.size(), 1, 0, &h.error);
  }
  if (!status && ckpt_reader_tensor_find(reader, "frozen", &found, nullptr) == CKPT_OK) {
    still.resize(frozen().size());
    desc = large_desc();
    desc.shape[0] = static_cast<int64_t>(still.size());
    status = ckpt_load_add_tensor(h.load, "frozen", &desc, still.data(), still.size(), 1, 0, &h.error);
  }
  if (!status) status = ckpt_load_run(h.load, &h.error);
  if (status) return h.verdict(status);
  bool same = (big.empty() || big == large(info.step)) && (still.empty() || still == frozen()) &&
              all == weight(info.step) && moments == moment(info.step) && shared == trainer(info.step);
  for (uint32_t rank = 0; rank < info.world_size; rank++) same = same && own[rank] == generator(info.step, rank);
  return same ? Verdict{} : Verdict{CKPT_CORRUPT, std::string(info.id) + " holds other bytes than were saved"};
}

// The same of the table, if it is there.
inline Verdict compare_table(const ckpt_reader* reader, const ckpt_checkpoint_info& info) {
  if (ckpt_reader_table_count(reader) == 0) return {};
  Handles h;
  ckpt_share_desc all{};
  all.struct_size = sizeof all;
  ckpt_share_info found{};
  found.struct_size = sizeof found;
  ckpt_status status = ckpt_share_open(&h.share, reader, "table", &all, nullptr, 0, nullptr, &h.error);
  if (!status) status = ckpt_share_get(h.share, &found, &h.error);
  if (!status) status = ckpt_load_new(&h.load, reader, nullptr, &h.error);
  std::vector<uint64_t> ids(found.row_count);
  Bytes rows(found.row_count * kRowBytes);
  const char* name = "row";
  void* data = rows.data();
  const uint64_t size = rows.size();
  if (!status)
    status = ckpt_load_add_table(h.load, h.share, 0, ids.data(), 8 * ids.size(), 1, &name, &data, &size,
                                 CKPT_DEVICE_CPU, 0, 0, &h.error);
  if (!status) status = ckpt_load_run(h.load, &h.error);
  if (status) return h.verdict(status);
  auto by_id = [](const std::vector<uint64_t>& of, const Bytes& bytes) {
    std::map<uint64_t, Bytes> sorted;
    for (size_t i = 0; i < of.size(); i++)
      sorted[of[i]].assign(&bytes[i * kRowBytes], &bytes[i * kRowBytes] + kRowBytes);
    return sorted;
  };
  const TableState expected = table(info.step, 0, 1);
  if (ids.size() == expected.ids.size() && by_id(ids, rows) == by_id(expected.ids, expected.rows)) return {};
  return {CKPT_CORRUPT, std::string(info.id) + " holds other rows than were saved"};
}

}  // namespace inner

inline Verdict check(const ckpt_reader* reader) {
  ckpt_checkpoint_info info{};
  info.struct_size = sizeof info;
  inner::Handles h;
  if (ckpt_status status = ckpt_reader_info(reader, &info, &h.error)) return h.verdict(status);
  Verdict loaded = inner::compare(reader, info);
  if (loaded.status == CKPT_OK) loaded = inner::compare_table(reader, info);
  if (loaded.status != CKPT_OK) return loaded;
  ckpt_status status = ckpt_reader_verify(reader, nullptr, &h.job, &h.error);
  if (!status) status = ckpt_job_wait(h.job, CKPT_JOB_DONE, -1, &h.error);
  if (!status) status = ckpt_job_report(h.job, &h.report, &h.error);
  if (status) return h.verdict(status);
  if (ckpt_report_count(h.report) == 0) return {};
  ckpt_finding finding{};
  finding.struct_size = sizeof finding;
  (void)ckpt_report_at(h.report, 0, &finding, nullptr);
  return {CKPT_CORRUPT, finding.text};
}

}  // namespace small_state
