// Measurements of sparse tables: workload `table`, whose tensors are the ids and the columns.
#include <cstring>
#include <random>

#include "measures.h"

namespace ckpt_bench {

namespace {

constexpr const char* kTable = "emb";
constexpr uint64_t kRowBytes = 16 * sizeof(float);

ckpt::Rows rows_of(const Share& share, const std::byte* data) {
  ckpt::Rows rows;
  for (const Range& range : share.ranges)
    if (range.tensor->name == "ids") {
      rows.ids = data + range.offset;
      rows.count = static_cast<uint64_t>(range.rows);
    } else {
      rows.columns.push_back(
          {range.tensor->name, range.tensor->dtype, {16}, {ckpt::Memory(data + range.offset, range.bytes)}});
    }
  return rows;
}

// Loaded rows, of all columns or of one, in touched memory.
struct Loaded {
  Loaded(uint64_t count, const Workload& workload, bool one) : rows(count) {
    memory.push_back(std::make_unique<Memory>(rows * sizeof(uint64_t)));
    for (const Tensor& tensor : workload.tensors) {
      if (tensor.name == "ids" || (one && !columns.empty())) continue;
      columns.push_back(tensor.name);
      memory.push_back(std::make_unique<Memory>(rows * kRowBytes));
    }
  }
  void ask(ckpt::Load& load, const ckpt::Share& share) const {
    std::vector<ckpt::ColumnMemory> targets;
    for (size_t i = 0; i < columns.size(); i++)
      targets.push_back({columns[i], ckpt::MutableMemory(memory[i + 1]->data(), rows * kRowBytes)});
    load.add_table(share, 0, ckpt::MutableMemory(memory[0]->data(), rows * sizeof(uint64_t)), targets);
  }
  void compare(const Workload& workload, const std::string& blob) const {
    const Share all = share_of(workload, 0, 1);
    const auto source = source_of(all, blob, 0);
    for (size_t i = 0; i < columns.size(); i++)
      for (const Range& range : all.ranges)
        for (uint64_t row = 0; range.tensor->name == columns[i] && row < rows; row++) {
          uint64_t id = 0;
          std::memcpy(&id, memory[0]->data() + row * sizeof id, sizeof id);
          const uint64_t from = table_row(id);
          if (from >= static_cast<uint64_t>(range.rows) ||
              std::memcmp(memory[i + 1]->data() + row * kRowBytes, source->data() + range.offset + from * kRowBytes,
                          kRowBytes) != 0)
            fail("wrong row loaded: column " + columns[i] + ", row " + std::to_string(row));
        }
  }
  uint64_t rows;
  std::vector<std::string> columns;
  std::vector<std::unique_ptr<Memory>> memory;  // of the ids, then of the columns
};

}  // namespace

// The numbers of every n-th row, each time of others. A list is believed, so they need not change; digests are not.
static std::vector<uint64_t> change_rows(const Settings& settings, unsigned step, ckpt::Rows* rows) {
  std::vector<uint64_t> changed;
  for (uint64_t row = step; row < rows->count; row += settings.every) changed.push_back(row);
  auto* first = static_cast<std::byte*>(const_cast<void*>(rows->columns[0].blocks[0].data));
  for (const uint64_t row : changed)
    if (settings.digests) first[row * kRowBytes] ^= std::byte{1};
  return changed;
}

void measure_table_save(const Settings& settings) {
  const Workload workload = make_workload(settings.workload);
  const Share share = share_of(workload, settings.rank, settings.world);
  const auto source = source_of(share, settings.blob, 0);
  Client client(settings.path, settings.options);
  client.open_session(settings.rank, settings.world);
  ckpt::Rows rows = rows_of(share, source->data());
  std::vector<uint64_t> changed;
  for (unsigned step = 0; step <= settings.before; step++) {
    if (settings.every != 0 && step != 0) changed = change_rows(settings, step, &rows);
    if (settings.every != 0) rows.changes = ckpt::Changes{changed.data(), changed.size(), nullptr, 0, settings.digests};
    if (step == settings.before) break;
    ckpt::Save save = ckpt::Save::create(client.session(), "before-" + std::to_string(step), step, client.options());
    save.add_table(kTable, rows);
    save.run();
  }
  wait_for_go();
  Meter meter;
  ckpt::Save save = ckpt::Save::create(client.session(), "measured", settings.before, client.options());
  save.add_table(kTable, rows);
  ckpt::Job job = save.start_in_place();
  job.wait_committed();
  auto result = meter.result();
  result.update(stats_of(job));
  result["table_rows"] = rows.count;
  report("", result);
}

// Loads rows of an open checkpoint, and reports all since `meter` began.
static void load_rows(const Settings& settings, const Client& client, const ckpt::Reader& reader,
                      const ckpt::Rowset& rows, const Loaded& loaded, const Meter& meter) {
  const ckpt::Share share = reader.share(kTable, rows);
  const double found = meter.seconds();
  ckpt::Load load = ckpt::Load::create(reader, client.options());
  loaded.ask(load, share);
  ckpt::Job job = load.start();
  job.wait_done();
  auto result = meter.result();
  result.update(stats_of(job));
  result["t_return"] = found;
  result["table_rows"] = loaded.rows;
  if (settings.compare) loaded.compare(make_workload(settings.workload), settings.blob);
  result["compared"] = settings.compare;
  report("", result);
}

// The slice of one of `of` ranks, whatever ranks saved. Its rows are counted before memory is made for them: that is
// part of what is measured, but touching the memory is not.
void measure_table_load(const Settings& settings) {
  const Workload workload = make_workload(settings.workload);
  const Client client(settings.path, settings.options);
  const ckpt::Rowset slice = ckpt::Rowset::slice(0, settings.of);
  const Loaded loaded(client.open_reader().share(kTable, slice).info().row_count, workload, false);
  wait_for_go();
  Meter meter;
  const ckpt::Reader reader = client.open_reader();
  load_rows(settings, client, reader, slice, loaded, meter);
}

// 1,000 ids, one column. The checkpoint is open before, as in a service that looks ids up.
void measure_table_lookup(const Settings& settings) {
  const Workload workload = make_workload(settings.workload);
  const Client client(settings.path, settings.options);
  const ckpt::Reader reader = client.open_reader();
  std::mt19937_64 random(1);
  std::vector<uint64_t> ids(1000);
  for (uint64_t& id : ids) id = table_id(random() % static_cast<uint64_t>(workload.tensors[0].shape[0]));
  const Loaded loaded(ids.size(), workload, true);
  wait_for_go();
  Meter meter;
  load_rows(settings, client, reader, ckpt::Rowset::ids(ids), loaded, meter);
}

}  // namespace ckpt_bench
