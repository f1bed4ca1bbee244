// ckpt prune: removes the old checkpoints of a run.
#include <algorithm>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/text.h"

namespace cli {
namespace cmd_prune {
namespace {

struct Args : Common {
  std::string store;
  std::optional<int64_t> keep_last, keep_every;
  std::vector<std::string> protect;
  bool write = false, dry_run = false;
};

constexpr Words kWords = {
    "prune", "remove old checkpoints",
    "Concerns the numbered checkpoints of a run: those whose label has their step in it, such "
    "as step-100. Any other label\n"
    "(best) stays until ckpt rm removes it. Keeps the newest --keep-last, every step that "
    "--keep-every divides, the labels\n"
    "of --protect and those that a trainer was given, any that is being read, and always the "
    "newest sound one: its\n"
    "manifest and its parts' sizes, headers and indexes are looked at, no data, so ckpt verify it "
    "before. A trainer's\n"
    "keep_best is not known here: --protect those labels. Removes the others; without --write it only lists them. It "
    "prunes run \"main\", or the run that "
    "--run names, and no other.",
    "  ckpt prune /data/run7 --keep-last 3 --keep-every 1000\n"
    "  ckpt prune /data/run7 --keep-last 3 --protect step-1000 --write\n",
    "0 done, 1 some could not be removed, since they are being read or otherwise, 2 error"};

ckpt::Options options_of(const Args& args) {
  ckpt::Options options = make_options(args);
  if (!args.keep_last && !args.setting("keep_last"))
    invalid("prune needs --keep-last N, the number of newest checkpoints to keep");
  if (args.keep_last) options.set("keep_last", *args.keep_last);
  if (args.keep_every) options.set("keep_every", *args.keep_every);
  options.set("dry_run", !args.write);
  if (!args.protect.empty()) options.set("protect", joined(args.protect, ","));
  options.check();
  return options;
}

// What should have gone and could not; be it that somebody reads it.
bool is_left_behind(const ckpt::Finding& finding) {
  return finding.kind == CKPT_FINDING_KEPT && finding.status != CKPT_OK;
}

void print_findings(const Args& args, const ckpt::Report& report) {
  Table table({{args.write ? "DONE" : "WOULD BE"}, {"CHECKPOINT", Align::kLeft, true}, {"WHY", Align::kLeft, true}});
  size_t removed = 0, left = 0;
  for (const ckpt::Finding& finding : report) {
    removed += finding.kind == CKPT_FINDING_REMOVED ? 1 : 0;
    left += is_left_behind(finding) ? 1 : 0;
    table.add({finding_name(finding.kind), escaped(text_of(finding.name)), escaped(text_of(finding.text))});
  }
  if (!table.empty()) print(table.render(terminal_width()));
  if (left > 0)
    print(strformat("{} could not be removed\n", counted(left, "checkpoint")));
  else if (removed == 0)
    print("nothing to remove\n");
  else if (!args.write)
    print(strformat("nothing was removed: this was a dry run; add --write to remove {}\n",
                    counted(removed, "checkpoint")));
}

int run(const Args& args) {
  ckpt::Options options = options_of(args);
  std::string path = locate_store(args.store);
  const ckpt::Store store = ckpt::Store::open(path, options);
  (void)list_store(store, args.setting("run").value_or(""));
  ckpt::Report report{nullptr};
  const Work work = watch(options, [&] { report = store.prune(options); });
  if (args.json) {
    print_json({{"store", shown(path)},
                {"written", args.write},
                {"findings", findings_json(report)},
                {"requests", requests_json(work.stats)}});
  } else {
    print_findings(args, report);
    print(requests_line(work.stats));
  }
  return std::any_of(report.begin(), report.end(), is_left_behind) ? kExitNo : kExitOk;
}

}  // namespace
}  // namespace cmd_prune

void add_prune(CLI::App& app, Action& chosen) {
  using namespace cmd_prune;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("STORE", args->store, "the directory that holds the checkpoints").required();
  command.add("--keep-last", args->keep_last, "how many of the newest to keep").positive();
  command.add("--keep-every", args->keep_every, "also keep every step that this number divides").positive();
  command.add("--protect", args->protect, "a label to keep; may be repeated").one_value().type("LABEL");
  Option write = command.add("--write", args->write, "remove them, not only list them");
  command.add("--dry-run", args->dry_run, "only list them, which is the default").excludes(write);
  command.add("--run", args->run, "the run; main without it").type("RUN");
  command.run(chosen, [args] {
    args->write = is_to_write(*args, args->write);
    if (args->dry_run && args->write) invalid("--dry-run and -o dry_run=0 contradict each other");
    return run(*args);
  });
}

}  // namespace cli
