// Measures plain programs that move the same bytes.
#include <filesystem>

#include "measures.h"

namespace ckpt_bench {

static std::string raw_file(const Settings& settings) {
  return settings.path + "/raw." + std::to_string(settings.rank);
}

static Share raw_share(const Workload& workload, const Settings& settings) {
  return settings.of > 1 ? share_of(workload, 0, settings.of) : share_of(workload, settings.rank, settings.world);
}

void measure_raw_write(const Settings& settings) {
  Workload workload = make_workload(settings.workload);
  Share share = raw_share(workload, settings);
  auto source = source_of(share, settings.blob, 0);
  std::string path = raw_file(settings);
  if (settings.existing) write_new(path, source->data(), share.bytes, settings.raw);
  wait_for_go();
  Meter meter;
  if (settings.existing)
    write_existing(path, source->data(), share.bytes, settings.raw);
  else
    write_new(path, source->data(), share.bytes, settings.raw);
  report("", meter.result());
}

// Reads the file that measure_raw_write wrote with the same rank and world.
static void read_measured(const Settings& settings, bool map) {
  Workload workload = make_workload(settings.workload);
  Share all = raw_share(workload, settings);
  Share share = settings.one ? only_pick(workload) : all;
  uint64_t offset = settings.one ? all.ranges[workload.pick].offset / 4096 * 4096 : 0;
  uint64_t bytes = (share.bytes + 4095) / 4096 * 4096;
  Memory target(bytes + 4096, 0, settings.fresh);
  std::string path = raw_file(settings);
  wait_for_go();
  Meter meter;
  unsigned long mixed = 0;
  if (map)
    read_mapped(path, target.data(), bytes, settings.raw);
  else
    mixed = read_file(path, offset, target.data(), std::min(bytes, all.bytes - offset), settings.raw);
  auto result = meter.result();
  result["mixed"] = mixed;
  if (settings.compare && !settings.one) compare_with_blob(share, settings.blob, target.data());
  result["compared"] = settings.compare && !settings.one;
  report("", result);
}

void measure_raw_read(const Settings& settings) { read_measured(settings, false); }
void measure_raw_map(const Settings& settings) { read_measured(settings, true); }

static void copy_measured(const Settings& settings, bool hash, bool copy = true) {
  Workload workload = make_workload(settings.workload);
  Share share = share_of(workload, 0, 1);
  auto source = source_of(share, settings.blob, 0);
  Memory target(copy ? share.bytes : 0);
  wait_for_go();
  Meter meter;
  unsigned long mixed = 0;
  if (hash)
    mixed = copy_and_hash(source->data(), copy ? target.data() : source->data(), share.bytes, settings.raw);
  else
    copy_memory(source->data(), target.data(), share.bytes, settings.raw);
  auto result = meter.result();
  result["mixed"] = mixed;
  report("", result);
}

void measure_raw_copy(const Settings& settings) { copy_measured(settings, false); }
void measure_raw_copy_hash(const Settings& settings) { copy_measured(settings, true); }
void measure_raw_hash(const Settings& settings) { copy_measured(settings, true, false); }

void measure_raw_commit(const Settings& settings) {
  wait_for_go();
  Meter meter;
  commit_small(raw_file(settings));
  report("", meter.result());
}

void measure_raw_manifest(const Settings& settings) {
  std::string path;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(settings.path))
    if (entry.path().filename() == "MANIFEST") path = entry.path();
  if (path.empty()) fail("no MANIFEST below " + settings.path);
  Memory target(std::filesystem::file_size(path));
  read_file(path, 0, target.data(), target.size(), settings.raw);
  wait_for_go();
  Meter meter;
  read_file(path, 0, target.data(), target.size(), settings.raw);
  report("", meter.result());
}

}  // namespace ckpt_bench
