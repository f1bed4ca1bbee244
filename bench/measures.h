// Every measurement that ckpt_whole can make, one per process.
#pragma once

#include "client.h"
#include "raw_io.h"
#include "workload.h"

namespace ckpt_bench {

struct Settings {
  WorkloadOptions workload;
  std::string blob, path;  // the source; the folder to write or read
  uint32_t rank = 0, world = 1;
  RawWay raw;
  OptionValues options;     // of ckpt
  size_t shift = 0;         // of the source from the start of a page
  unsigned before = 0;      // saves in the same session that are not measured
  uint64_t every = 0;       // rows of a table, of which one changes before each save but the first; 0: all are saved
  bool digests = false;     // nobody says which
  uint64_t changed = 0;     // MiB at the end of the source that are changed after those
  unsigned saves = 3;       // background saves
  bool replicated = false;  // every rank holds all, as under DDP
  bool one = false;         // only the picked tensor
  bool compare = false;     // compare the loaded bytes with the source
  bool existing = false;
  bool fresh = false;  // read into new memory
  uint32_t of = 1;     // only the first of so many shares, by this one process
  bool stats = false;  // save once more, in the background, and report its statistics
};

// through ckpt.hpp: ckpt_measures.cpp
void measure_save(const Settings& settings);
void measure_async(const Settings& settings);
void measure_load(const Settings& settings);
void measure_map(const Settings& settings);
void measure_names(const Settings& settings);

// sparse tables: table_measures.cpp
void measure_table_save(const Settings& settings);
void measure_table_load(const Settings& settings);
void measure_table_lookup(const Settings& settings);

// plain programs: raw_measures.cpp
void measure_raw_write(const Settings& settings);
void measure_raw_read(const Settings& settings);
void measure_raw_map(const Settings& settings);
void measure_raw_copy(const Settings& settings);
void measure_raw_copy_hash(const Settings& settings);
void measure_raw_hash(const Settings& settings);
void measure_raw_commit(const Settings& settings);
void measure_raw_manifest(const Settings& settings);

}  // namespace ckpt_bench
