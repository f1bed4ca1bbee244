// ckpt_whole: one measurement per process, chosen by bench/run.py. It gets ready, prints READY, waits for a line,
// works, and prints RESULT lines of JSON. It fails if something does not work, never because it is slow.
#include <CLI/CLI.hpp>
#include <functional>

#include "measures.h"

namespace ckpt_bench {
namespace {

const std::map<std::string, void (*)(const Settings&)> kMeasures = {
    {"save", measure_save},
    {"async", measure_async},
    {"load", measure_load},
    {"map", measure_map},
    {"names", measure_names},
    {"table-save", measure_table_save},
    {"table-load", measure_table_load},
    {"table-lookup", measure_table_lookup},
    {"raw-write", measure_raw_write},
    {"raw-read", measure_raw_read},
    {"raw-map", measure_raw_map},
    {"raw-copy", measure_raw_copy},
    {"raw-copy-hash", measure_raw_copy_hash},
    {"raw-hash", measure_raw_hash},
    {"raw-commit", measure_raw_commit},
    {"raw-manifest", measure_raw_manifest},
    {"blob",
     [](const Settings& settings) { write_blob(make_workload(settings.workload), settings.workload, settings.blob); }},
};

OptionValues parse_options(const std::vector<std::string>& words) {
  OptionValues values;
  for (const auto& word : words) {
    size_t at = word.find('=');
    if (at == std::string::npos) fail("not KEY=VALUE: " + word);
    values[word.substr(0, at)] = word.substr(at + 1);
  }
  return values;
}

void add_options(CLI::App& app, Settings& settings) {
  app.add_option("--workload", settings.workload.kind, "llama, adam, small or table")->capture_default_str();
  app.add_option("--content", settings.workload.content, "gauss, random, zeros or upcast")->capture_default_str();
  app.add_option("--scale", settings.workload.scale,
                 "factor for the layers and vocabulary of llama and adam, the rows of table");
  app.add_option("--count", settings.workload.count, "number of small tensors");
  app.add_option("--elements", settings.workload.element_count, "f32 elements of each small tensor");
  app.add_option("--blob", settings.blob, "file with the source's bytes; measurement `blob` makes it");
  app.add_option("--path", settings.path, "folder to write or read");
  app.add_option("--rank", settings.rank);
  app.add_option("--world", settings.world);
  app.add_option("--of", settings.of, "only the first of so many shares");
  app.add_option("--threads", settings.raw.threads, "of the raw programs");
  app.add_option("--block", settings.raw.block, "bytes of each request of the raw programs");
  app.add_flag("--buffered{false}", settings.raw.direct, "through the page cache");
  app.add_flag("--checksums", settings.raw.checksums, "of the parts of an upload");
  app.add_option("--shift", settings.shift, "bytes between the start of a page and the source");
  app.add_option("--before", settings.before, "saves before the measured one");
  app.add_option("--changed", settings.changed, "MiB at the end of the source that change after those");
  app.add_option("--every", settings.every, "of a table: such rows change before each save but the first");
  app.add_flag("--digests", settings.digests, "the session finds out which");
  app.add_option("--saves", settings.saves, "background saves");
  app.add_flag("--replicated", settings.replicated, "every rank holds the whole state");
  app.add_flag("--one", settings.one, "only one tensor");
  app.add_flag("--compare", settings.compare, "compare the loaded bytes with the source");
  app.add_flag("--stats", settings.stats, "save once more and report that job's statistics");
  app.add_flag("--existing", settings.existing, "overwrite an existing file");
  app.add_flag("--hash", settings.raw.hash, "hash what was read, too");
  app.add_flag("--fresh", settings.fresh, "read into memory that was not touched before");
}

}  // namespace
}  // namespace ckpt_bench

int main(int argc, char** argv) try {
  using namespace ckpt_bench;
  Settings settings;
  std::string measure;
  std::vector<std::string> options;
  CLI::App app("One measurement of ckpt or of a plain program; bench/run.py makes a benchmark of them");
  app.add_option("measure", measure, "what to do")->required();
  app.add_option("-o", options, "KEY=VALUE, an option of ckpt");
  add_options(app, settings);
  CLI11_PARSE(app, argc, argv);
  settings.options = parse_options(options);
  auto found = kMeasures.find(measure);
  if (found == kMeasures.end()) fail("no measurement is named " + measure);
  found->second(settings);
} catch (const ckpt::Error& error) {
  ckpt_bench::fail(std::string(error.status_name()) + ": " + error.what());
}
