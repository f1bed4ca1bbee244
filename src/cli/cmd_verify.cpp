// ckpt verify: checks every byte of a checkpoint.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <numeric>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/rows.h"
#include "cli/tensor_source.h"
#include "cli/text.h"

namespace cli {
namespace cmd_verify {
namespace {

struct Args : Common {
  std::string checkpoint, sample;
  bool quick = false;
};

constexpr Words kWords = {"verify", "check a checkpoint for damage",
                          "Reads every byte of every part and compares it with the checksums. "
                          "--quick checks only sizes, headers, trailers and\n"
                          "indexes. --sample 1/10 checks a tenth of the data, 2/10 … 10/10 the other tenths: "
                          "one each night checks all in ten.\n"
                          "Each damage is printed with its part, offset, tensor and elements; of a sparse table with\n"
                          "its rows and the range of their ids. Of a STORE the newest must be sound: if it cannot be "
                          "loaded, an older one is\n"
                          "checked, and the answer is damaged all the same.",
                          "  ckpt verify /data/run7\n"
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
  if (k < 1 || k > n) invalid(format("--sample needs k from 1 to n, found {}/{}", k, n));
  options->set("sample_k", k).set("sample_n", n);
}

std::string mode_of(const Args& args) {
  if (args.quick) return "quick";
  return args.sample.empty() ? args.setting("verify_mode").value_or("full") : "sample";
}

struct Outcome {
  std::string id;  // what the user typed, if the checkpoint could not be opened
  std::string mode;
  ckpt::Report report{nullptr};
  std::vector<std::string> rows;  // of each finding: which rows of a sparse table it is about; "" for none
  std::string unreadable;         // why the manifest could not be read, which is damage too
  ckpt::Report opening{nullptr};  // what opening it found
  uint64_t bytes = 0;             // checked
  double seconds = 0;
  ckpt::JobStats stats{};

  bool damaged() const { return !report.empty() || !unreadable.empty(); }
  // Newer checkpoints that cannot be loaded: what was asked for was the newest.
  std::vector<ckpt::Finding> passed_over() const {
    std::vector<ckpt::Finding> found;
    for (const ckpt::Finding& finding : opening)
      if (finding.kind == CKPT_FINDING_PASSED_OVER) found.push_back(finding);
    return found;
  }
  bool sound() const { return !damaged() && passed_over().empty(); }
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

void wait_for(const ckpt::Job& job, Outcome* outcome) {
  Progress progress;
  while (!ends_within(job, progress.visible() ? 100 : -1)) {
    const ckpt::JobStats stats = job.stats();
    progress.update(stats.bytes_done, stats.bytes_total);
  }
  outcome->stats = job.stats();
  outcome->bytes = outcome->stats.bytes_done;
  outcome->seconds = progress.seconds();
}

// Where the damage is: part, offset, tensor, elements.
std::string place_text(const ckpt::Finding& finding) {
  std::vector<std::string> facts;
  if (finding.part != nullptr)
    facts.push_back(format("part {}, offset {}, {} bytes", finding.part, finding.offset, finding.size));
  if (finding.name != nullptr)
    facts.push_back(format("{} {}", finding.first_element >= 0 ? "tensor" : "name", escaped(finding.name)));
  if (finding.first_element >= 0)
    facts.push_back(format("elements {} to {}", finding.first_element, finding.last_element));
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
  const std::string text = format(", of ids from {} to {}", id_text(table, *low), id_text(table, *high));
  for (uint64_t& id : ids) id %= table.info.bucket_count;
  const auto [begin, end] = std::minmax_element(ids.begin(), ids.end());
  return text + format(", buckets {} to {}", *begin, *end);
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
    return format("table {}: where the buckets of {}'s rows begin", rows, finding.part);
  if (column == table.columns.end() && !of_ids) return "";
  int64_t elements = 1;
  if (!of_ids) elements = std::accumulate(column->shape, column->shape + column->ndim, elements, std::multiplies<>());
  const int64_t first = finding.first_element / elements, count = finding.last_element / elements - first + 1;
  const std::string where = format("table {}, {}: rows {} to {}", rows,
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

void print_outcome(const Outcome& outcome) {
  for (size_t i = 0; i < outcome.report.size(); i++) {
    const ckpt::Finding finding = outcome.report.at(i);
    std::string place = place_text(finding), text = escaped(text_of(finding.text));
    print(format("{}: {}\n", colored(finding_name(finding.kind), Color::kRed), place.empty() ? text : place));
    if (!place.empty() && !text.empty()) print("  " + text + "\n");
    if (!outcome.rows[i].empty()) print("  " + escaped(outcome.rows[i]) + "\n");
  }
  if (!outcome.unreadable.empty()) print(colored("damaged", Color::kRed) + ": " + outcome.unreadable + "\n");
  if (outcome.damaged()) {
    size_t count = outcome.report.size() + (outcome.unreadable.empty() ? 0 : 1);
    print(format("{}: {} {} in {} ({} check)\n", colored("DAMAGED", Color::kRed), count,
                 count == 1 ? "damage" : "damages", escaped(outcome.id), outcome.mode));
    return;
  }
  std::string rate =
      outcome.seconds > 0.2 ? ", " + human_rate(static_cast<double>(outcome.bytes) / outcome.seconds) : "";
  print(format("{}: {} ({} check, {}{})\n", colored("sound", Color::kGreen), escaped(outcome.id), outcome.mode,
               human_bytes(outcome.bytes), rate));
  if (const auto passed_over = outcome.passed_over(); !passed_over.empty())
    print(format("{}: {} newer than it cannot be loaded\n", colored("DAMAGED", Color::kRed),
                 counted(passed_over.size(), "checkpoint")));
}

void print_outcome_json(const Outcome& outcome) {
  const Json unreadable = {{"kind", "damaged"}, {"text", outcome.unreadable}};
  Json damages =
      outcome.unreadable.empty() ? findings_json(outcome.report) : Json::array(std::vector<Json>{unreadable});
  print_json({{"checkpoint", outcome.id},
              {"mode", outcome.mode},
              {"sound", outcome.sound()},
              {"bytes_checked", outcome.bytes},
              {"requests", requests_json(outcome.stats)},
              {"damages", damages},
              {"opening", findings_json(outcome.opening)}});
}

// These errors prove that bytes are wrong, so the answer is "damaged".
bool is_damage(ckpt_status status) {
  return status == CKPT_CORRUPT || status == CKPT_FORMAT || status == CKPT_INCOMPLETE;
}

void check(const Args& args, const ckpt::Options& options, Outcome* outcome) {
  const Opened opened = open_checkpoint(args.checkpoint, args, options);
  outcome->id = opened.info.id;
  outcome->opening = opened.reader.report();
  const ckpt::Job job = opened.reader.verify(options);
  wait_for(job, outcome);
  outcome->report = job.report();
  outcome->rows.resize(outcome->report.size());
  if (outcome->report.empty()) return;
  try {
    const std::vector<SparseTable> tables = tables_of(opened.reader);
    const ckpt::Options plain = make_options(args);
    for (size_t i = 0; i < outcome->rows.size(); i++)
      outcome->rows[i] = rows_text(opened.reader, tables, outcome->report.at(i), plain);
  } catch (const ckpt::Error&) {
    // What describes the tables is damaged, and the report says so.
  }
}

int run(const Args& args) {
  ckpt::Options options = make_options(args);
  Outcome outcome;
  outcome.id = shown(args.checkpoint);
  outcome.mode = mode_of(args);
  if (!args.sample.empty()) set_sample(&options, args.sample);
  options.set("verify_mode", outcome.mode).check();
  try {
    check(args, options, &outcome);
  } catch (const ckpt::Error& error) {
    if (!is_damage(error.status())) throw;
    outcome.unreadable = error_text(error);
  }
  args.json ? print_outcome_json(outcome) : print_outcome(outcome);
  if (!args.json) print(requests_line(outcome.stats));
  const auto passed_over = outcome.passed_over();
  const bool damage = outcome.damaged() || std::any_of(passed_over.begin(), passed_over.end(),
                                                       [](const auto& one) { return is_damage(one.status); });
  if (damage) return kExitNo;
  return outcome.sound() ? kExitOk : kExitError;
}

}  // namespace
}  // namespace cmd_verify

void add_verify(CLI::App& app, Action& chosen) {
  using namespace cmd_verify;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("CHECKPOINT", args->checkpoint, kCheckpointHelp).required();
  Option quick = command.add("--quick", args->quick, "check only sizes, headers, trailers and indexes");
  command.add("--sample", args->sample, "check only share k of n of the data").type("k/n").excludes(quick);
  command.add_run(*args);
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli
