// ckpt prune: removes old checkpoints of a run by a policy.
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/table.h"

namespace cli {
namespace {

struct Args : Common {
  std::string store;
  std::optional<int64_t> keep_last, keep_every;
  std::vector<std::string> protect;
  bool write = false;
};

constexpr Words kWords = {
    "prune", "remove old checkpoints by a policy",
    "Keeps the newest --keep-last checkpoints of a run, those whose step --keep-every divides, the labels of "
    "--protect,\n"
    "whatever somebody is reading, and always the newest sound one; the others are removed. Without --write it only "
    "says\n"
    "which. The run is \"main\" unless -o run=NAME says otherwise; other runs in the store are left alone.",
    "  ckpt prune /data/run7 --keep-last 3 --keep-every 1000\n"
    "  ckpt prune /data/run7 --keep-last 3 --protect best --protect final --write\n",
    "0 done, 2 error"};

Error set_policy(const Args& args, ckpt_options* options) {
  auto set_int = [&](const char* key, int64_t value) { return call(ckpt_options_set_int, options, key, value); };
  bool given = args.keep_last.has_value();
  for (const std::string& setting : args.settings) given = given || setting.starts_with("keep_last=");
  if (!given) return invalid("prune wants --keep-last N, how many of the newest checkpoints to keep");
  if (args.keep_last) CLI_TRY(set_int("keep_last", *args.keep_last));
  if (args.keep_every) CLI_TRY(set_int("keep_every", *args.keep_every));
  CLI_TRY(set_int("dry_run", args.write ? 0 : 1));
  if (args.protect.empty()) return {};
  std::string labels = fmt::format("{}", fmt::join(args.protect, ","));
  return call(ckpt_options_set_str, options, "protect", labels.c_str());
}

void print_findings(const Args& args, const std::vector<ckpt_finding>& findings) {
  Table table({{args.write ? "DONE" : "WOULD BE"}, {"CHECKPOINT", Align::kLeft, true}, {"WHY", Align::kLeft, true}});
  size_t removed = 0;
  for (const ckpt_finding& finding : findings) {
    removed += finding.kind == CKPT_FINDING_REMOVED ? 1 : 0;
    table.add({finding_name(finding.kind), escaped(finding.name == nullptr ? "" : finding.name),
               escaped(finding.text == nullptr ? "" : finding.text)});
  }
  if (!table.empty()) print(table.render(terminal_width()));
  if (removed == 0) {
    print("nothing to remove\n");
  } else if (!args.write) {
    print(fmt::format("nothing was removed; add --write to remove {}\n", removed));
  }
}

Error run(const Args& args) {
  Options options;
  CLI_TRY(make_options(args, &options));
  CLI_TRY(set_policy(args, options));
  std::string path;
  CLI_TRY(locate_store(args.store, &path));
  Store store;
  CLI_TRY(call(ckpt_store_open, store.out(), path.c_str(), options));
  Report report;
  CLI_TRY(call(ckpt_store_prune, store, options, report.out()));
  std::vector<ckpt_finding> findings;
  CLI_TRY(findings_of(report, &findings));
  if (!args.json) {
    print_findings(args, findings);
    return {};
  }
  Json list = Json::array();
  for (const ckpt_finding& finding : findings) list.push_back(to_json(finding));
  print_json({{"store", path}, {"written", args.write}, {"findings", list}});
  return {};
}

}  // namespace

void add_prune(CLI::App& app, Run& chosen) {
  auto args = std::make_shared<Args>();
  CLI::App* command = add_command(app, kWords, args.get(), true);
  command->add_option("STORE", args->store, "the directory that holds the checkpoints")->required();
  command->add_option("--keep-last", args->keep_last, "how many of the newest to keep")->check(CLI::PositiveNumber);
  command->add_option("--keep-every", args->keep_every, "also keep steps that this divides")
      ->check(CLI::PositiveNumber);
  command->add_option("--protect", args->protect, "a label never to remove; may be given again")
      ->allow_extra_args(false)
      ->type_name("LABEL");
  command->add_flag("--write", args->write, "do it");
  command->callback([args, &chosen] { chosen = [args](int*) { return run(*args); }; });
}

}  // namespace cli
