// Measurements through ckpt.hpp.
#include <algorithm>
#include <cstring>

#include "measures.h"

namespace ckpt_bench {

// ---- saves ----

static Share share_to_save(const Workload& workload, const Settings& settings) {
  return settings.replicated ? share_of(workload, 0, 1) : share_of(workload, settings.rank, settings.world);
}

// Measures adding and running. With many small tensors adding costs time, so "run alone" gets its own row.
void measure_save(const Settings& settings) {
  Workload workload = make_workload(settings.workload);
  Share share = share_to_save(workload, settings);
  auto source = source_of(share, settings.blob, settings.shift);
  Client client(settings.path, settings.options);
  client.open_session(settings.rank, settings.world);
  for (unsigned i = 0; i < settings.before; i++) client.new_save("before", i, share, source->data()).run();
  const uint64_t changed = std::min(settings.changed << 20, share.bytes);
  for (uint64_t at = share.bytes - changed; at < share.bytes; at++) source->data()[at] ^= std::byte{1};
  wait_for_go();
  Meter meter;
  ckpt::Save save = client.new_save("measured", settings.before, share, source->data());
  double added = meter.seconds();
  save.run();
  auto result = meter.result();
  result["add_s"] = added;
  if (settings.stats) {  // only a job has them
    ckpt::Job job = client.new_save("stats", settings.before + 1, share, source->data()).start();
    job.wait_committed();
    result.update(stats_of(job));
  }
  report("", result);
  result["t_total"] = result["t_total"].get<double>() - added;
  if (share.ranges.size() >= 10000) report("run alone", result);
}

// t_return is the stall: from the start until the caller may use the memory again. t_total ends with the commit.
void measure_async(const Settings& settings) {
  Workload workload = make_workload(settings.workload);
  Share share = share_to_save(workload, settings);
  auto source = source_of(share, settings.blob, settings.shift);
  Client client(settings.path, settings.options);
  double opening = now();
  client.open_session(settings.rank, settings.world);
  opening = now() - opening;
  wait_for_go();
  for (unsigned i = 0; i < settings.saves; i++) {
    ckpt::Save save = client.new_save("save", i, share, source->data());
    Meter meter;
    ckpt::Job job = save.start();
    job.wait_staged();
    auto staged = meter.result();
    job.wait_committed();
    auto result = meter.result();
    result["t_return"] = staged["t_total"];
    result["stall_cpu_s"] = staged["cpu_s"];
    result["session_open_s"] = opening;
    result.update(stats_of(job));
    if (i == 0) report("first save", result);
    if (i + 1 == settings.saves) report("later save", result);
  }
}

// ---- loads ----

void measure_load(const Settings& settings) {
  Workload workload = make_workload(settings.workload);
  Share share = settings.one ? only_pick(workload) : share_of(workload, settings.rank, settings.world);
  Memory target(share.bytes);
  OptionValues options = settings.options;
  options["strict"] = "missing";
  Client client(settings.path, options);
  wait_for_go();
  Meter meter;
  ckpt::Reader reader = client.open_reader();
  double opened = meter.seconds();
  ckpt::Load load = client.new_load(reader, share, target.data());
  double added = meter.seconds();
  ckpt::Job job = load.start();
  job.wait_done();
  auto result = meter.result();
  result.update(stats_of(job));
  result["add_s"] = added;
  result["opened_s"] = result["t_total"].get<double>() - opened;
  if (settings.compare) compare_with_blob(share, settings.blob, target.data());
  result["compared"] = settings.compare;
  report("", result);
  result["t_total"] = result["t_total"].get<double>() - added;
  if (share.ranges.size() >= 10000) report("run alone", result);
}

// Views of all tensors without a copy, then one byte of every page.
void measure_map(const Settings& settings) {
  Workload workload = make_workload(settings.workload);
  Share share = share_of(workload, 0, 1);
  Client client(settings.path, settings.options);
  std::vector<const std::byte*> views(share.ranges.size());
  wait_for_go();
  Meter meter;
  ckpt::Reader reader = client.open_reader();
  for (size_t i = 0; i < views.size(); i++)
    views[i] = static_cast<const std::byte*>(reader.map(share.ranges[i].tensor->name, client.options()).data);
  double mapped = meter.seconds();
  unsigned seen = 0;
  for (size_t i = 0; i < views.size(); i++)
    for (size_t at = 0; at < share.ranges[i].bytes; at += 4096) seen += std::to_integer<unsigned>(views[i][at]);
  auto result = meter.result();
  result["t_return"] = mapped;
  result["seen"] = seen;  // keeps the compiler from removing the reads
  if (settings.compare) {
    Memory copy(share.bytes);
    for (size_t i = 0; i < views.size(); i++)
      std::memcpy(copy.data() + share.ranges[i].offset, views[i], share.ranges[i].bytes);
    compare_with_blob(share, settings.blob, copy.data());
  }
  result["compared"] = settings.compare;
  report("", result);
}

// ---- names ----

static void list_all(const ckpt::Reader& reader, size_t expected) {
  uint64_t bytes = 0;
  for (const ckpt::TensorInfo& info : reader.tensors()) bytes += std::strlen(info.name) + info.bytes;
  const uint64_t count = reader.tensor_count();
  if (bytes == 0 || count != expected) fail("listed " + std::to_string(count) + " names");
}

// Measures opening and listing, together and each in its own row. Both run once before, as other libraries do.
void measure_names(const Settings& settings) {
  Client client(settings.path, settings.options);
  list_all(client.open_reader(), settings.workload.count);
  wait_for_go();
  Meter meter;
  ckpt::Reader reader = client.open_reader();
  double opened = meter.seconds();
  list_all(reader, settings.workload.count);
  auto result = meter.result();
  double whole = result["t_total"];
  for (auto [row, seconds] : {std::pair{"open + list", whole}, {"open", opened}, {"list", whole - opened}}) {
    result["t_total"] = result["t_return"] = seconds;
    report(row, result);
  }
}

}  // namespace ckpt_bench
