// ckpt verify: checks every byte of a checkpoint.
#include <charconv>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/text.h"

namespace cli {
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
                          "Each damage is printed with its part, offset, tensor and elements.",
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
  std::string unreadable;  // why the manifest could not be read, which is damage too
  uint64_t bytes = 0;      // checked
  double seconds = 0;
  ckpt::JobStats stats{};

  bool sound() const { return report.empty() && unreadable.empty(); }
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

void print_outcome(const Outcome& outcome) {
  for (const ckpt::Finding& finding : outcome.report) {
    std::string place = place_text(finding), text = escaped(text_of(finding.text));
    print(format("{}: {}\n", colored(finding_name(finding.kind), Color::kRed), place.empty() ? text : place));
    if (!place.empty() && !text.empty()) print("  " + text + "\n");
  }
  if (!outcome.unreadable.empty()) print(colored("damaged", Color::kRed) + ": " + outcome.unreadable + "\n");
  if (!outcome.sound()) {
    size_t count = outcome.report.size() + (outcome.unreadable.empty() ? 0 : 1);
    print(format("{}: {} {} in {} ({} check)\n", colored("DAMAGED", Color::kRed), count,
                 count == 1 ? "damage" : "damages", escaped(outcome.id), outcome.mode));
    return;
  }
  std::string rate =
      outcome.seconds > 0.2 ? ", " + human_rate(static_cast<double>(outcome.bytes) / outcome.seconds) : "";
  print(format("{}: {} ({} check, {}{})\n", colored("sound", Color::kGreen), escaped(outcome.id), outcome.mode,
               human_bytes(outcome.bytes), rate));
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
              {"damages", damages}});
}

// These errors prove that bytes are wrong, so the answer is "damaged".
bool is_damage(ckpt_status status) {
  return status == CKPT_CORRUPT || status == CKPT_FORMAT || status == CKPT_INCOMPLETE;
}

void check(const Args& args, const ckpt::Options& options, Outcome* outcome) {
  const Opened opened = open_checkpoint(args.checkpoint, args, options);
  outcome->id = opened.info.id;
  const ckpt::Job job = opened.reader.verify(options);
  wait_for(job, outcome);
  outcome->report = job.report();
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
  return outcome.sound() ? kExitOk : kExitNo;
}

}  // namespace

void add_verify(CLI::App& app, Action& chosen) {
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("CHECKPOINT", args->checkpoint, kCheckpointHelp).required();
  Option quick = command.add("--quick", args->quick, "check only sizes, headers, trailers and indexes");
  command.add("--sample", args->sample, "check only share k of n of the data").type("k/n").excludes(quick);
  command.add_run(*args);
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli
