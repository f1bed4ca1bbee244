// ckpt diff: do two checkpoints hold the same?
#include <cmath>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/table.h"

namespace cli {
namespace {

struct Args : Common {
  std::string a, b, at;
  bool structure_only = false;
};

constexpr Words kWords = {
    "diff", "compare two checkpoints",
    "Compares the structure (names, dtypes, shapes, objects, attributes), "
    "then the values of the tensors that both have.\n"
    "For each tensor that differs it prints how many elements differ, and the largest difference. "
    "Two checkpoints may be\n"
    "equal though their world sizes differ.",
    "  ckpt diff /data/run7@step:100 /data/run7@step:200\n"
    "  ckpt diff /data/run7 /backup/run7 --structure-only\n",
    "0 equal, 1 different, 2 error"};

std::string difference_text(double value) { return std::isnan(value) ? "-" : print_format("%.6g", value); }

// "tensor "w": only in the first".
std::string structure_text(const ckpt::Finding& finding) {
  return escaped(finding.text != nullptr ? finding.text : finding_name(finding.kind)) + "\n";
}

// The findings below --at. A finding without a name is about the whole checkpoint.
std::vector<ckpt::Finding> chosen_findings(const ckpt::Report& report, const std::string& at) {
  std::vector<ckpt::Finding> findings;
  for (const ckpt::Finding& finding : report)
    if (is_under(at, text_of(finding.name))) findings.push_back(finding);
  return findings;
}

void print_findings(std::span<const ckpt::Finding> findings) {
  Table values({{"VALUES OF", Align::kLeft, true},
                {"DIFFER", Align::kRight},
                {"MAX ABS", Align::kRight},
                {"MAX REL", Align::kRight},
                {"FIRST", Align::kRight}});
  for (const ckpt::Finding& finding : findings) {
    if (finding.count == 0) {
      print(structure_text(finding));
      continue;
    }
    values.add({escaped(text_of(finding.name)), std::to_string(finding.count), difference_text(finding.max_abs),
                difference_text(finding.max_rel),
                finding.first_element < 0 ? "-" : std::to_string(finding.first_element)});
  }
  if (!values.empty()) print(values.render(terminal_width()));
}

int run(const Args& args) {
  ckpt::Options options = make_options(args);
  if (args.structure_only) options.set("values", 0);
  Opened a = open_checkpoint(args.a, args, options), b = open_checkpoint(args.b, args, options);
  ckpt::Report report{nullptr};
  const Work work = watch(options, [&] { report = a.reader.diff(b.reader, options); });
  const std::vector<ckpt::Finding> findings = chosen_findings(report, args.at);
  const bool equal = findings.empty();
  if (args.json) {
    print_json({{"a", a.info.id},
                {"b", b.info.id},
                {"equal", equal},
                {"requests", requests_json(work.stats)},
                {"differences", Json::array(findings, [](const ckpt::Finding& finding) { return to_json(finding); })}});
  } else {
    print_findings(findings);
    if (equal) print(format("equal: {} and {}\n", escaped(a.info.id), escaped(b.info.id)));
    print(requests_line(work.stats));
  }
  return equal ? kExitOk : kExitNo;
}

}  // namespace

void add_diff(CLI::App& app, Action& chosen) {
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("A", args->a, kCheckpointHelp).required();
  command.add("B", args->b, "the other checkpoint").required();
  command.add("--at", args->at, kAtHelp).type("PLACE");
  command.add("--structure-only", args->structure_only, "do not read tensor data");
  command.add_run(*args);
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli
