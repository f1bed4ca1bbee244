// ckpt report: one HTML page about a store, a checkpoint, or two of them. The page needs nothing else: report.html and
// the data in it.
#include <ctime>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/report.h"
#include "cli/text.h"

namespace cli {

extern const std::string_view kReportPage[2];  // report.html before and after the data; CMakeLists.txt makes it

namespace cmd_report {
namespace {

struct Args : Common {
  std::string place, other, output;
  bool stats = false;
};

constexpr Words kWords = {
    "report", "write a page that shows a store, a checkpoint, or a difference",
    "Writes one HTML file that any browser shows; it needs no network, so it can be sent to somebody.\n"
    "Of a STORE: its runs on a time line, what is there and why, sizes, and the numbers that trainers put into\n"
    "attributes (metrics, seconds that a save took; of a list of numbers each is one rank's).\n"
    "Of a CHECKPOINT (STORE@latest for a store's): the tensors by their bytes, what each rank holds, sparse tables.\n"
    "--stats also reads every element, and shows the least, the largest, norms, zeros, NaN, and histograms.\n"
    "Of two checkpoints: how far the values of each tensor have moved, the largest change first. That reads both.",
    "  ckpt report /data/run7 -o report.html\n"
    "  ckpt report /data/run7@latest --stats --output weights.html\n"
    "  ckpt report /data/run7@step:100 /data/run7@step:200\n"
    "  ckpt report /data/run7 --json | jq '.entries | length'\n",
    "0 written, 2 error"};

// -o sets options, as everywhere; but people write -o report.html, and no option is called so.
void take_output(Args* args) {
  for (auto setting = args->settings.begin(); setting != args->settings.end(); ++setting) {
    if (setting->find('=') != setting->npos || !setting->ends_with(".html")) continue;
    args->output = *setting;
    args->settings.erase(setting);
    return;
  }
  if (args->output.empty()) args->output = "report.html";
}

// No tag and no comment of HTML begins inside of it.
std::string script_text(const Json& json) {
  std::string out;
  for (const char c : json.text())
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  return out;
}

uint64_t write_page(const std::string& path, const Json& json) {
  const std::string data = script_text(json);
  replace_file(path, {kReportPage[0], data, kReportPage[1]});
  return kReportPage[0].size() + data.size() + kReportPage[1].size();
}

Json report_of(const Args& args, const ckpt::Options& options) {
  if (!args.other.empty())
    return comparison_report(open_checkpoint(args.place, args, options), open_checkpoint(args.other, args, options),
                             options);
  const Target target = locate(args.place, options, args.setting("mirror").has_value());
  if (target.kind != Target::Kind::kStore)
    return checkpoint_report(open_checkpoint(args.place, args, options), args.stats, options);
  if (args.stats) invalid("--stats is for a checkpoint: " + shown(args.place) + "@latest is the store's latest");
  return store_report(ckpt::Store::open(target.store, options), target.store, args.run);
}

int run(Args args) {
  take_output(&args);
  const ckpt::Options options = args.other.empty() ? make_options(args) : make_options(args, args.place, args.other);
  Json json = report_of(args, options);
  json.add("made_unix_ms", static_cast<uint64_t>(std::time(nullptr)) * 1000);
  json.add("version", ckpt::version());
  if (args.json) return print_json(json), kExitOk;
  const uint64_t bytes = write_page(args.output, json);
  print(strformat("{}: {}\n", escaped(args.output), human_bytes(bytes)));
  return kExitOk;
}

}  // namespace
}  // namespace cmd_report

void add_report(CLI::App& app, Action& chosen) {
  using namespace cmd_report;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("PLACE", args->place, "a STORE, or a checkpoint: its directory, or STORE@SELECTOR").required();
  command.add("OTHER", args->other, "another checkpoint, to show how it differs from the first");
  command.add("--output", args->output, "the file to write (report.html); -o FILE.html is the same").type("FILE");
  command.add("--stats", args->stats, "of a checkpoint: read every element, for figures and histograms");
  command.add_run(*args);
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli
