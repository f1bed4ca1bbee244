// ckpt diff: do two checkpoints hold the same?
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/table.h"

namespace cli {
namespace {

struct Args : Common {
  std::string a, b;
  bool structure_only = false;
};

constexpr Words kWords = {"diff", "compare two checkpoints",
                          "Compares first the structure (names, dtypes, shapes, objects, attributes), then the values "
                          "of tensors that both have,\n"
                          "and prints for each one that differs how many elements do and by how much at most. "
                          "Checkpoints of different world\n"
                          "sizes are equal when their tensors are.",
                          "  ckpt diff /data/run7@step:100 /data/run7@step:200\n"
                          "  ckpt diff /data/run7 /backup/run7 --structure-only\n",
                          "0 equal, 1 different, 2 error"};

std::string difference_text(double value) { return std::isnan(value) ? "-" : fmt::format("{:.6g}", value); }

// "tensor "w": only in the first".
std::string structure_text(const ckpt_finding& finding) {
  return escaped(finding.text != nullptr ? finding.text : finding_name(finding.kind)) + "\n";
}

void print_findings(const std::vector<ckpt_finding>& findings) {
  Table values({{"VALUES OF", Align::kLeft, true},
                {"DIFFER", Align::kRight},
                {"MAX ABS", Align::kRight},
                {"MAX REL", Align::kRight},
                {"FIRST", Align::kRight}});
  for (const ckpt_finding& finding : findings) {
    if (finding.count == 0) {
      print(structure_text(finding));
      continue;
    }
    values.add({escaped(finding.name == nullptr ? "" : finding.name), fmt::format("{}", finding.count),
                difference_text(finding.max_abs), difference_text(finding.max_rel),
                finding.first_element < 0 ? "-" : fmt::format("{}", finding.first_element)});
  }
  if (!values.empty()) print(values.render(terminal_width()));
}

Error run(const Args& args, int* exit_code) {
  Options options;
  CLI_TRY(make_options(args, &options));
  if (args.structure_only) CLI_TRY(call(ckpt_options_set_int, options, "values", 0));
  Opened a, b;
  CLI_TRY(open_checkpoint(args.a, args, options, &a));
  CLI_TRY(open_checkpoint(args.b, args, options, &b));
  Report report;
  CLI_TRY(call(ckpt_reader_diff, a.reader, b.reader, options, report.out()));
  std::vector<ckpt_finding> findings;
  CLI_TRY(findings_of(report, &findings));
  *exit_code = findings.empty() ? kExitOk : kExitNo;
  if (!args.json) {
    print_findings(findings);
    if (findings.empty()) print(fmt::format("equal: {} and {}\n", escaped(a.info.id), escaped(b.info.id)));
    return {};
  }
  Json differences = Json::array();
  for (const ckpt_finding& finding : findings) differences.push_back(to_json(finding));
  print_json({{"a", a.info.id}, {"b", b.info.id}, {"equal", findings.empty()}, {"differences", differences}});
  return {};
}

}  // namespace

void add_diff(CLI::App& app, Run& chosen) {
  auto args = std::make_shared<Args>();
  CLI::App* command = add_command(app, kWords, args.get(), true);
  command->add_option("A", args->a, kCheckpointHelp)->required();
  command->add_option("B", args->b, "the other")->required();
  command->add_flag("--structure-only", args->structure_only, "do not read tensor data");
  command->callback([args, &chosen] { chosen = [args](int* exit_code) { return run(*args, exit_code); }; });
}

}  // namespace cli
