// job.* and report.*: work in the background, and what it found.
#include "runner.hpp"

namespace conformance {
namespace {

ckpt::Job& job_of(Runner& runner, const Line& line) { return runner.get<ckpt::Job>(line.words[0]); }

void run_wait(Runner& runner, Line& line) {
  const auto timeout = line.find("timeout_ms");
  job_of(runner, line).wait(number_of(kJobStates, line.words[1]), timeout ? parse_int(*timeout) : -1);
}

void run_state(Runner& runner, Line& line) {
  const int32_t found = job_of(runner, line).state();
  for (size_t i = 1; i < line.words.size(); i++)
    if (number_of(kJobStates, line.words[i]) == found) return;
  fail("expected state ", line.words[1], " or what is named with it, found ", name_of(kJobStates, found));
}

void run_cancel(Runner& runner, Line& line) { job_of(runner, line).cancel(); }

// KEY=N, or KEY>=N.
void expect_at_least(Line& line, const std::string& key, uint64_t found) {
  line.expect_count(key, found);
  const auto least = line.find(key + ">");
  if (least && found < parse_count(*least)) fail("expected ", key, ">=", *least, ", found ", found);
}

void run_stats(Runner& runner, Line& line) {
  const ckpt::JobStats stats = job_of(runner, line).stats();
  line.expect("state", name_of(kJobStates, stats.state));
  const std::pair<const char*, uint64_t> numbers[] = {{"bytes_total", stats.bytes_total},
                                                      {"bytes_done", stats.bytes_done},
                                                      {"bytes_read", stats.bytes_read},
                                                      {"bytes_written", stats.bytes_written},
                                                      {"bytes_requested", stats.bytes_requested},
                                                      {"chunk_count", stats.chunk_count},
                                                      {"run_count", stats.run_count},
                                                      {"io_count", stats.io_count},
                                                      {"staging_peak_bytes", stats.staging_peak_bytes},
                                                      {"stage_us", stats.stage_us},
                                                      {"write_us", stats.write_us},
                                                      {"commit_us", stats.commit_us},
                                                      {"total_us", stats.total_us},
                                                      {"direct_io", stats.direct_io},
                                                      {"threads", stats.threads},
                                                      {"arena_us", stats.arena_us},
                                                      {"io_engine", stats.io_engine},
                                                      {"recycled", stats.recycled}};
  for (const auto& [key, found] : numbers) expect_at_least(line, key, found);
}

void run_job_report(Runner& runner, Line& line) { runner.put(line.words[1], job_of(runner, line).report()); }

// ---- report ----

void run_report(Runner& runner, Line& line) {
  const auto& report = runner.get<ckpt::Report>(line.words[0]);
  if (report.size() != parse_count(line.words[1]))
    fail("expected ", line.words[1], " findings, found ", report.size(), ": ", report.empty() ? "" : report.at(0).text);
}

void run_report_at(Runner& runner, Line& line) {
  const ckpt::Finding found = runner.get<ckpt::Report>(line.words[0]).at(parse_count(line.words[1]));
  line.expect("kind", name_of(kFindingKinds, found.kind));
  line.expect("status", ckpt::status_name(found.status));
  line.expect("name", text_of(found.name));
  line.expect("part", text_of(found.part));
  line.expect_count("offset", found.offset);
  line.expect_count("size", found.size);
  line.expect_number("first_element", found.first_element);
  line.expect_number("last_element", found.last_element);
  line.expect_count("count", found.count);
  line.expect_float("max_abs", found.max_abs);
  line.expect_float("max_rel", found.max_rel);
}

}  // namespace

void add_job_commands(Commands& commands) {
  commands["job.wait"] = {2, kPairs, run_wait};
  commands["job.state"] = {2, kMore, run_state};
  commands["job.cancel"] = {1, 0, run_cancel};
  commands["job.stats"] = {1, kPairs, run_stats};
  commands["job.report"] = {2, 0, run_job_report};
  commands["report"] = {2, 0, run_report};
  commands["report.at"] = {2, kPairs, run_report_at};
}

}  // namespace conformance
