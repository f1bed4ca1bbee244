// ckpt verify: checks every byte of a checkpoint.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/rows.h"
#include "cli/tensor_source.h"
#include "cli/text.h"
#include "cli/verify_report.h"

namespace cli {
namespace cmd_verify {
namespace {

struct Args : Common {
  std::string checkpoint, sample, report;
  bool quick = false, all = false;
  std::optional<int64_t> rate;  // MB/s
};

constexpr Words kWords = {
    "verify", "check a checkpoint for damage",
    "Reads every byte of every part and compares it with the checksums. "
    "--quick checks only sizes, headers, trailers and\n"
    "indexes. --sample 1/10 checks a tenth of the data, 2/10 … 10/10 the other tenths: "
    "one each night checks all in ten.\n"
    "Each damage is printed with its part, offset, tensor and elements; of a sparse table with\n"
    "its rows and the range of their ids. Of a STORE the newest must be sound: if it cannot be "
    "loaded, an older one is\n"
    "checked, and the answer is damaged all the same.\n"
    "--all checks every committed checkpoint of a STORE. With --report it notes in FILE when each "
    "was last sound; if it is\n"
    "interrupted, the same command goes on with the checkpoint where it was. --rate reads the "
    "data in shares, with pauses:\n"
    "then neither the zero bytes between chunks are checked, nor what only a whole check tells of "
    "sparse tables.",
    "  ckpt verify /data/run7\n"
    "  ckpt verify /data/run7 --all --rate 200 --report run7.json\n"
    "  ckpt verify /data/run7/step-100.7.1 --quick\n"
    "  ckpt verify /data/run7@step:100 --sample 3/10 --json\n",
    "0 sound, 1 damaged, 2 cannot say (not found, I/O error, a newer format)"};

// Sets the options of the library for "3/10".
void set_sample(ckpt::Options* options, const std::string& sample) {
  size_t slash = sample.find('/');
  int64_t k = 0, n = 0;
  auto number = [](std::string_view text, int64_t* value) {
    auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *value);
    return code == std::errc() && end == text.data() + text.size();
  };
  std::string_view text = sample;
  if (slash == std::string::npos || !number(text.substr(0, slash), &k) || !number(text.substr(slash + 1), &n))
    invalid("--sample needs k/n, such as 3/10, found '" + sample + "'");
  if (k < 1 || k > n) invalid(strformat("--sample needs k from 1 to n, found {}/{}", k, n));
  options->set("sample_k", k).set("sample_n", n);
}

std::string mode_of(const Args& args) {
  if (args.rate) return "paced";
  if (args.quick) return "quick";
  return args.sample.empty() ? args.setting("verify_mode").value_or("full") : "sample";
}

struct Outcome {
  std::string id;  // what the user typed, if the checkpoint could not be opened
  std::string mode;
  std::vector<ckpt::Report> reports;  // of each share that was checked; they own the texts of:
  std::vector<ckpt::Finding> findings;
  std::vector<std::string> rows;  // of each finding: which rows of a sparse table it is about; "" for none
  std::string unreadable;         // why the manifest could not be read, which is damage too
  std::string unknown;            // why nobody can say
  ckpt::Report opening{nullptr};  // what opening it found
  uint64_t bytes = 0;             // checked
  double seconds = 0;
  ckpt::JobStats stats{};

  bool damaged() const { return !findings.empty() || !unreadable.empty(); }
  // Newer checkpoints that cannot be loaded: what was asked for was the newest.
  std::vector<ckpt::Finding> passed_over() const {
    std::vector<ckpt::Finding> found;
    for (const ckpt::Finding& finding : opening)
      if (finding.kind == CKPT_FINDING_PASSED_OVER) found.push_back(finding);
    return found;
  }
  bool sound() const { return !damaged() && unknown.empty() && passed_over().empty(); }
};

// The bar of one checkpoint, or of many.
struct Bar {
  Progress progress;
  uint64_t before = 0, total = 0;  // bytes; total 0: what the job says
};

bool ends_within(const ckpt::Job& job, int64_t timeout_ms) {
  try {
    job.wait_done(timeout_ms);
  } catch (const ckpt::Error& error) {
    if (error.status() != CKPT_TIMEOUT) throw;
    return false;
  }
  return true;
}

void wait_for(const ckpt::Job& job, Bar* bar, Outcome* outcome) {
  while (!ends_within(job, bar->progress.visible() ? 100 : -1)) {
    const ckpt::JobStats stats = job.stats();
    bar->progress.update(bar->before + stats.bytes_done, bar->total == 0 ? stats.bytes_total : bar->total);
  }
  outcome->stats = job.stats();
  outcome->bytes += outcome->stats.bytes_done;
  bar->before += outcome->stats.bytes_done;
  bar->progress.update(bar->before, bar->total);
  // Each share finds again what is wrong with an index.
  ckpt::Report report = job.report();
  for (const ckpt::Finding& finding : report) {
    const auto same = [&](const ckpt::Finding& one) {
      return std::string_view(text_of(one.text)) == text_of(finding.text) && one.offset == finding.offset &&
             std::string_view(text_of(one.part)) == text_of(finding.part);
    };
    if (std::none_of(outcome->findings.begin(), outcome->findings.end(), same)) outcome->findings.push_back(finding);
  }
  outcome->reports.push_back(std::move(report));
}

// Shares of about two seconds each, and pauses, so that the rate holds on the average of seconds.
void check_paced(const ckpt::Reader& reader, int64_t rate, ckpt::Options options, Bar* bar, Outcome* outcome) {
  const auto start = std::chrono::steady_clock::now();
  const double bytes_per_second = static_cast<double>(rate) * 1e6;
  const uint64_t bytes = reader.info().bytes;
  if (bar->total == 0) bar->total = bytes;
  const auto shares = static_cast<int64_t>(std::clamp(static_cast<double>(bytes) / bytes_per_second / 2, 1.0, 1000.0));
  for (int64_t k = 1; k <= shares; k++) {
    wait_for(reader.verify(options.set("sample_k", k).set("sample_n", shares)), bar, outcome);
    std::this_thread::sleep_until(
        start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                    std::chrono::duration<double>(static_cast<double>(outcome->bytes) / bytes_per_second)));
  }
}

// Where the damage is: part, offset, tensor, elements.
std::string place_text(const ckpt::Finding& finding) {
  std::vector<std::string> facts;
  if (finding.part != nullptr)
    facts.push_back(strformat("part {}, offset {}, {} bytes", finding.part, finding.offset, finding.size));
  if (finding.name != nullptr)
    facts.push_back(strformat("{} {}", finding.first_element >= 0 ? "tensor" : "name", escaped(finding.name)));
  if (finding.first_element >= 0)
    facts.push_back(strformat("elements {} to {}", finding.first_element, finding.last_element));
  return joined(facts);
}

// The ids of some rows that were saved together.
std::string ids_text(const ckpt::Reader& reader, const SparseTable& table, const std::string& rows, int64_t first,
                     int64_t count, const ckpt::Options& options) {
  const TensorSource source(reader, options, rows + "/ids", "");
  const std::vector<std::byte> data = source.read({{first}, {count}});
  std::vector<uint64_t> ids(static_cast<size_t>(count));
  std::memcpy(ids.data(), data.data(), data.size());
  const auto less = [&](uint64_t a, uint64_t b) {
    return table.info.id_dtype == CKPT_DTYPE_I64 ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
  };
  const auto [low, high] = std::minmax_element(ids.begin(), ids.end(), less);
  const std::string text = strformat(", of ids from {} to {}", id_text(table, *low), id_text(table, *high));
  for (uint64_t& id : ids) id %= table.info.bucket_count;
  const auto [begin, end] = std::minmax_element(ids.begin(), ids.end());
  return text + strformat(", buckets {} to {}", *begin, *end);
}

// The rows of a sparse table whose column (or ids) has these damaged elements; "" if it is another tensor. `rows`: the
// table's name, or that of a run.
std::string rows_text(const ckpt::Reader& reader, const SparseTable& table, const std::string& rows,
                      const ckpt::Finding& finding, const ckpt::Options& options) {
  const auto column = std::find_if(table.columns.begin(), table.columns.end(), [&](const ckpt::ColumnInfo& info) {
    return rows + "/" + info.name == finding.name;
  });
  const bool of_ids = rows + "/ids" == finding.name;
  if (rows + "/buckets" == finding.name)
    return strformat("table {}: where the buckets of {}'s rows begin", rows, finding.part);
  if (column == table.columns.end() && !of_ids) return "";
  int64_t elements = 1;
  if (!of_ids) elements = std::accumulate(column->shape, column->shape + column->ndim, elements, std::multiplies<>());
  const int64_t first = finding.first_element / elements, count = finding.last_element / elements - first + 1;
  const std::string where = strformat("table {}, {}: rows {} to {}", rows,
                                      of_ids ? "ids" : "column " + std::string(column->name), first, first + count - 1);
  try {
    return where + ids_text(reader, table, rows, first, count, options);
  } catch (const ckpt::Error&) {
    return where;  // the ids are damaged, too
  }
}

std::string rows_text(const ckpt::Reader& reader, const std::vector<SparseTable>& tables, const ckpt::Finding& finding,
                      const ckpt::Options& options) {
  if (finding.name == nullptr || finding.first_element < 0) return "";
  for (const SparseTable& table : tables)
    for (const std::string& rows : runs_of(table))
      if (std::string text = rows_text(reader, table, rows, finding, options); !text.empty()) return text;
  return "";
}

void print_damage(const Outcome& outcome) {
  for (size_t i = 0; i < outcome.findings.size(); i++) {
    const ckpt::Finding& finding = outcome.findings[i];
    std::string place = place_text(finding), text = escaped(text_of(finding.text));
    print(strformat("{}: {}\n", colored(finding_name(finding.kind), Color::kRed), place.empty() ? text : place));
    if (!place.empty() && !text.empty()) print("  " + text + "\n");
    if (!outcome.rows[i].empty()) print("  " + escaped(outcome.rows[i]) + "\n");
  }
  if (!outcome.unreadable.empty()) print(colored("damaged", Color::kRed) + ": " + outcome.unreadable + "\n");
  size_t count = outcome.findings.size() + (outcome.unreadable.empty() ? 0 : 1);
  print(strformat("{}: {} {} in {} ({} check)\n", colored("DAMAGED", Color::kRed), count,
                  count == 1 ? "damage" : "damages", escaped(outcome.id), outcome.mode));
}

bool proves_damage(const ckpt::Finding& finding) { return is_damage(finding.status); }

void print_outcome(const Outcome& outcome) {
  if (outcome.damaged()) return print_damage(outcome);
  if (!outcome.unknown.empty())
    return print(strformat("{}: {}: {}\n", colored("CANNOT SAY", Color::kRed), escaped(outcome.id), outcome.unknown));
  std::string rate =
      outcome.seconds > 0.2 ? ", " + human_rate(static_cast<double>(outcome.bytes) / outcome.seconds) : "";
  print(strformat("{}: {} ({} check, {}{})\n", colored("sound", Color::kGreen), escaped(outcome.id), outcome.mode,
                  human_bytes(outcome.bytes), rate));
  const auto passed_over = outcome.passed_over();
  const auto damaged = std::count_if(passed_over.begin(), passed_over.end(), proves_damage);
  const auto unread = static_cast<uint64_t>(passed_over.size()) - static_cast<uint64_t>(damaged);
  if (damaged > 0)
    print(strformat("{}: {} newer than it cannot be loaded\n", colored("DAMAGED", Color::kRed),
                    counted(static_cast<uint64_t>(damaged), "checkpoint")));
  if (unread > 0)
    print(strformat("{}: {} that may be newer than it cannot be read\n", colored("CANNOT SAY", Color::kRed),
                    counted(unread, "checkpoint")));
}

Json to_json(const Outcome& outcome) {
  const Json unreadable = {{"kind", "damaged"}, {"text", outcome.unreadable}};
  Json damages = outcome.unreadable.empty()
                     ? Json::array(outcome.findings, [](const ckpt::Finding& one) { return cli::to_json(one); })
                     : Json::array(std::vector<Json>{unreadable});
  return {{"id", outcome.id},
          {"mode", outcome.mode},
          {"sound", outcome.sound()},
          {"bytes_checked", outcome.bytes},
          {"requests", requests_json(outcome.stats)},
          {"damages", damages},
          {"opening", findings_json(outcome.opening)}};
}

void check(const ckpt::Reader& reader, const Args& args, const ckpt::Options& options, Bar* bar, Outcome* outcome) {
  const auto start = std::chrono::steady_clock::now();
  outcome->opening = reader.report();
  if (args.rate)
    check_paced(reader, *args.rate, options, bar, outcome);
  else
    wait_for(reader.verify(options), bar, outcome);
  outcome->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome->rows.resize(outcome->findings.size());
  if (outcome->findings.empty()) return;
  try {
    const std::vector<SparseTable> tables = tables_of(reader);
    const ckpt::Options plain = make_options(args);
    for (size_t i = 0; i < outcome->rows.size(); i++)
      outcome->rows[i] = rows_text(reader, tables, outcome->findings[i], plain);
  } catch (const ckpt::Error&) {
    // What describes the tables is damaged, and the report says so.
  }
}

ckpt::Options options_of(const Args& args) {
  ckpt::Options options = make_options(args);
  if (!args.sample.empty()) set_sample(&options, args.sample);
  options.set("verify_mode", args.rate ? "sample" : mode_of(args)).check();
  return options;
}

int verify_one(const Args& args) {
  const ckpt::Options options = options_of(args);
  Outcome outcome;
  outcome.id = shown(args.checkpoint);
  outcome.mode = mode_of(args);
  try {
    const Opened opened = open_checkpoint(args.checkpoint, args, options);
    outcome.id = opened.info.id;
    Bar bar;
    check(opened.reader, args, options, &bar, &outcome);
  } catch (const ckpt::Error& error) {
    if (!is_damage(error.status())) throw;
    outcome.unreadable = error_text(error);
  }
  args.json ? print_json(to_json(outcome)) : print_outcome(outcome);
  if (!args.json) print(requests_line(outcome.stats));
  const auto passed_over = outcome.passed_over();
  const bool damage = outcome.damaged() || std::any_of(passed_over.begin(), passed_over.end(), proves_damage);
  if (damage) return kExitNo;
  return outcome.sound() ? kExitOk : kExitError;
}

// One of many: whatever is wrong with it, the others are checked. Nothing if it was removed meanwhile.
std::optional<Outcome> check_one_of(const ckpt::Store& store, const std::string& id, const Args& args,
                                    const ckpt::Options& options, Bar* bar) {
  Outcome outcome;
  outcome.id = id;
  outcome.mode = mode_of(args);
  try {
    check(ckpt::Reader::open(store, id, options), args, options, bar, &outcome);
  } catch (const ckpt::Error& error) {
    if (error.status() == CKPT_NOT_FOUND || error.status() == CKPT_GONE) return std::nullopt;
    (is_damage(error.status()) ? outcome.unreadable : outcome.unknown) = error_text(error);
  }
  return outcome;
}

const char* result_of(const Outcome& outcome) {
  if (outcome.damaged()) return "damaged";
  return outcome.sound() ? "sound" : "cannot say";
}

// What was committed, whether or not it can be read.
bool is_to_check(const Args& args, const ckpt::CheckpointInfo& info) {
  if (info.state == CKPT_CHECKPOINT_OPEN || info.state == CKPT_CHECKPOINT_ABORTED) return false;
  return args.setting("run").value_or(info.run) == info.run || info.run[0] == '\0';
}

int print_pass(const Args& args, const std::map<std::string, uint64_t>& results, const VerifyReport& report) {
  const auto count = [&](const char* result) { return results.contains(result) ? results.at(result) : 0; };
  const uint64_t damaged = count("damaged"), unknown = count("cannot say");
  if (args.json) {
    print_json(report.to_json());
  } else {
    std::string text = counted(count("sound"), "checkpoint") + " sound";
    if (damaged > 0) text += strformat(", {} {}", damaged, colored("DAMAGED", Color::kRed));
    if (unknown > 0) text += strformat(", of {} nobody can say", unknown);
    print(text + "\n");
  }
  if (damaged > 0) return kExitNo;
  return unknown > 0 ? kExitError : kExitOk;
}

int verify_all(const Args& args) {
  const ckpt::Options options = options_of(args);
  const std::string path = locate_store(args.checkpoint, options, args.setting("mirror").has_value());
  const ckpt::Store store = ckpt::Store::open(path, options);
  VerifyReport report(args.report, is_remote(path) ? shown(path) : std::filesystem::absolute(path).string(),
                      mode_of(args));
  std::set<std::string> ids;
  std::vector<ckpt::CheckpointInfo> pending;
  std::map<std::string, uint64_t> results;
  Bar bar;
  for (const ckpt::CheckpointInfo& info : list_store(store, args.setting("run").value_or(""))) {
    ids.insert(info.id);
    if (!is_to_check(args, info)) continue;
    const std::string known = report.result_of(info);
    if (!known.empty()) {
      results[known]++;
      continue;
    }
    pending.push_back(info);
    bar.total += info.bytes;
  }
  if (!results.empty() && !args.json) print("going on with the pass that was interrupted\n");
  for (const ckpt::CheckpointInfo& info : pending) {
    const auto outcome = check_one_of(store, info.id, args, options, &bar);
    if (!outcome) continue;
    results[result_of(*outcome)]++;
    report.add(info, result_of(*outcome), to_json(*outcome));
    bar.progress.wipe();
    if (!args.json) print_outcome(*outcome);
    std::fflush(stdout);
  }
  report.finish(ids);
  return print_pass(args, results, report);
}

int run(const Args& args) { return args.all ? verify_all(args) : verify_one(args); }

}  // namespace
}  // namespace cmd_verify

void add_verify(CLI::App& app, Action& chosen) {
  using namespace cmd_verify;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("CHECKPOINT", args->checkpoint, kCheckpointHelp).required();
  Option quick = command.add("--quick", args->quick, "check only sizes, headers, trailers and indexes");
  command.add("--sample", args->sample, "check only share k of n of the data").type("k/n").excludes(quick);
  Option all = command.add("--all", args->all, "check every committed checkpoint of a STORE");
  command.add("--report", args->report, "note in this JSON file when each was last sound, and go on by it")
      .type("FILE")
      .needs(all);
  command.add("--rate", args->rate, "read at most so many MB/s").type("MB/s").positive();
  command.add_run(*args);
  command.run(chosen, [args] {
    if (args->rate && (args->quick || !args->sample.empty() || args->setting("verify_mode")))
      invalid("--rate paces a check of all data: leave out --quick, --sample and -o verify_mode");
    return run(*args);
  });
}

}  // namespace cli
