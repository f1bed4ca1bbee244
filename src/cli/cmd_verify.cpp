// ckpt verify: is every byte of a checkpoint as it was written?
#include <charconv>
#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/text.h"

namespace cli {
namespace {

struct Args : Common {
  std::string checkpoint, sample;
  bool quick = false;
};

constexpr Words kWords = {
    "verify", "check a checkpoint for damage",
    "Reads every byte of every part and compares it with its checksum. --quick looks at sizes, headers, trailers and\n"
    "indexes only; --sample 1/10 checks a tenth of the data, and 2/10 … 10/10 the other tenths, so that ten nights "
    "see\n"
    "all of it. Every damage is printed with its part, offset, tensor and elements.",
    "  ckpt verify /data/run7\n"
    "  ckpt verify /data/run7/step-100.7.1 --quick\n"
    "  ckpt verify /data/run7@step:100 --sample 3/10 --json\n",
    "0 sound, 1 damaged, 2 cannot say (not found, I/O error, a newer format)"};

// "3/10" into the options of the library, which checks the ranges.
Error set_sample(ckpt_options* options, const std::string& sample) {
  size_t slash = sample.find('/');
  int64_t k = 0, n = 0;
  auto number = [](std::string_view text, int64_t* value) {
    auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *value);
    return code == std::errc() && end == text.data() + text.size();
  };
  std::string_view text = sample;
  if (slash == std::string::npos || !number(text.substr(0, slash), &k) || !number(text.substr(slash + 1), &n)) {
    return invalid("--sample wants k/n such as 3/10, found '" + sample + "'");
  }
  if (k < 1 || k > n) return invalid(fmt::format("--sample wants k from 1 to n, found {}/{}", k, n));
  CLI_TRY(call(ckpt_options_set_int, options, "sample_k", k));
  return call(ckpt_options_set_int, options, "sample_n", n);
}

Error set_mode(const Args& args, ckpt_options* options, std::string* mode) {
  *mode = args.quick ? "quick" : !args.sample.empty() ? "sample" : "full";
  for (const std::string& setting : args.settings) {
    if (setting.starts_with("verify_mode=") && *mode == "full") *mode = setting.substr(setting.find('=') + 1);
  }
  if (!args.sample.empty()) CLI_TRY(set_sample(options, args.sample));
  return call(ckpt_options_set_str, options, "verify_mode", mode->c_str());
}

struct Outcome {
  std::string id;  // or what the user typed, where the checkpoint could not be opened
  std::string mode;
  std::vector<ckpt_finding> findings;
  std::string unreadable;  // why the manifest could not be used; damage as well
  uint64_t bytes = 0;      // checked
  double seconds = 0;

  bool sound() const { return findings.empty() && unreadable.empty(); }
};

Error wait_for(const ckpt_job* job, Outcome* outcome) {
  Progress progress;
  auto stats = sized<ckpt_job_stats>();
  while (true) {
    Error error = call(ckpt_job_wait, job, CKPT_JOB_DONE, progress.visible() ? 100 : -1);
    if (error && error.status() != CKPT_TIMEOUT) return error;
    CLI_TRY(call(ckpt_job_stats_get, job, &stats));
    if (!error) break;
    progress.update(stats.bytes_done, stats.bytes_total);
  }
  outcome->bytes = stats.bytes_done;
  outcome->seconds = progress.seconds();
  return {};
}

// An element of a part that a person can find: part, offset, tensor, elements.
std::string place_text(const ckpt_finding& finding) {
  std::vector<std::string> facts;
  if (finding.part != nullptr)
    facts.push_back(fmt::format("part {}, offset {}, {} bytes", finding.part, finding.offset, finding.size));
  if (finding.name != nullptr) {
    facts.push_back(fmt::format("{} {}", finding.first_element >= 0 ? "tensor" : "name", escaped(finding.name)));
  }
  if (finding.first_element >= 0)
    facts.push_back(fmt::format("elements {} to {}", finding.first_element, finding.last_element));
  return fmt::format("{}", fmt::join(facts, ", "));
}

void print_outcome(const Outcome& outcome) {
  for (const ckpt_finding& finding : outcome.findings) {
    std::string place = place_text(finding), text = finding.text == nullptr ? "" : escaped(finding.text);
    print(fmt::format("{}: {}\n", colored(finding_name(finding.kind), Color::kRed), place.empty() ? text : place));
    if (!place.empty() && !text.empty()) print("  " + text + "\n");
  }
  if (!outcome.unreadable.empty()) print(colored("damaged", Color::kRed) + ": " + outcome.unreadable + "\n");
  if (!outcome.sound()) {
    size_t count = outcome.findings.size() + (outcome.unreadable.empty() ? 0 : 1);
    print(fmt::format("{}: {} {} in {} ({} check)\n", colored("DAMAGED", Color::kRed), count,
                      count == 1 ? "damage" : "damages", escaped(outcome.id), outcome.mode));
    return;
  }
  std::string rate =
      outcome.seconds > 0.2 ? ", " + human_rate(static_cast<double>(outcome.bytes) / outcome.seconds) : "";
  print(fmt::format("{}: {} ({} check, {}{})\n", colored("sound", Color::kGreen), escaped(outcome.id), outcome.mode,
                    human_bytes(outcome.bytes), rate));
}

void print_outcome_json(const Outcome& outcome) {
  Json damages = Json::array();
  for (const ckpt_finding& finding : outcome.findings) damages.push_back(to_json(finding));
  if (!outcome.unreadable.empty()) damages.push_back({{"kind", "damaged"}, {"text", outcome.unreadable}});
  print_json({{"checkpoint", outcome.id},
              {"mode", outcome.mode},
              {"sound", outcome.sound()},
              {"bytes_checked", outcome.bytes},
              {"damages", damages}});
}

// Errors that say something definite about the bytes, so that the answer is "damaged".
bool is_damage(ckpt_status status) {
  return status == CKPT_CORRUPT || status == CKPT_FORMAT || status == CKPT_INCOMPLETE;
}

Error check(const Args& args, ckpt_options* options, Opened* opened, Job* job, Report* report, Outcome* outcome) {
  CLI_TRY(open_checkpoint(args.checkpoint, args, options, opened));
  outcome->id = opened->info.id;
  CLI_TRY(call(ckpt_reader_verify, opened->reader, options, job->out()));
  CLI_TRY(wait_for(*job, outcome));
  CLI_TRY(call(ckpt_job_report, *job, report->out()));
  return findings_of(*report, &outcome->findings);
}

Error run(const Args& args, int* exit_code) {
  Options options;
  CLI_TRY(make_options(args, &options));
  Outcome outcome;
  outcome.id = args.checkpoint;
  CLI_TRY(set_mode(args, options, &outcome.mode));
  Opened opened;
  Job job;
  Report report;
  Error error = check(args, options, &opened, &job, &report, &outcome);
  if (error && !is_damage(error.status())) return error;
  if (error) outcome.unreadable = error.text();
  args.json ? print_outcome_json(outcome) : print_outcome(outcome);
  *exit_code = outcome.sound() ? kExitOk : kExitNo;
  return {};
}

}  // namespace

void add_verify(CLI::App& app, Run& chosen) {
  auto args = std::make_shared<Args>();
  CLI::App* command = add_command(app, kWords, args.get(), true);
  command->add_option("CHECKPOINT", args->checkpoint, kCheckpointHelp)->required();
  auto* quick = command->add_flag("--quick", args->quick, "sizes, headers, trailers and indexes only");
  command->add_option("--sample", args->sample, "check share k of n of the data")->type_name("k/n")->excludes(quick);
  command->callback([args, &chosen] { chosen = [args](int* exit_code) { return run(*args, exit_code); }; });
}

}  // namespace cli
