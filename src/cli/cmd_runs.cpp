// ckpt runs: lists the runs of a store.
#include "cli/command.h"
#include "cli/table.h"

namespace cli {
namespace cmd_runs {
namespace {

struct Args : Common {
  std::string store;
};

constexpr Words kWords = {"runs", "list the runs of a store",
                          "Lists every run that a trainer has opened or that has checkpoints. "
                          "TOKEN is that of the session that owns the run: the\n"
                          "last one that was opened. Copies and checkpoints of other stores do not count.",
                          "  ckpt runs /data/run7\n"
                          "  ckpt runs /data/run7 --json | jq -r '.runs[].run'\n",
                          "0 listed, 2 error"};

std::string table_text(const std::vector<ckpt::RunInfo>& runs) {
  Table table({{"RUN", Align::kLeft, true},
               {"CHECKPOINTS", Align::kRight},
               {"NEWEST", Align::kLeft, true},
               {"LABEL", Align::kLeft, true},
               {"STEP", Align::kRight},
               {"TOKEN", Align::kRight}});
  for (const ckpt::RunInfo& run : runs)
    table.add({escaped(run.name), std::to_string(run.checkpoint_count),
               run.checkpoint_count > 0 ? escaped(run.newest_id) : "-",
               run.checkpoint_count > 0 ? escaped(run.newest_label) : "-",
               run.newest_step < 0 ? "-" : std::to_string(run.newest_step),
               run.token > 0 ? std::to_string(run.token) : "-"});
  return table.render(terminal_width());
}

Json to_json(const ckpt::RunInfo& run) {
  const auto text = [](const char* name) { return *name == '\0' ? Json(nullptr) : Json(name); };
  return {{"run", run.name},
          {"token", run.token},
          {"checkpoint_count", run.checkpoint_count},
          {"newest_id", text(run.newest_id)},
          {"newest_label", text(run.newest_label)},
          {"newest_step", run.newest_step < 0 ? Json(nullptr) : Json(run.newest_step)}};
}

int run(const Args& args) {
  ckpt::Options options = make_options(args);
  std::string path = locate_store(args.store);
  const ckpt::Store store = ckpt::Store::open(path, options);
  const std::vector<ckpt::RunInfo> runs = store.runs();
  if (runs.empty()) (void)list_store(store);
  if (args.json)
    print_json(
        {{"store", shown(path)}, {"runs", Json::array(runs, [](const ckpt::RunInfo& info) { return to_json(info); })}});
  else
    print(runs.empty() ? "no runs in " + escaped(shown(path)) + "\n" : table_text(runs));
  return kExitOk;
}

}  // namespace
}  // namespace cmd_runs

void add_runs(CLI::App& app, Action& chosen) {
  using namespace cmd_runs;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("STORE", args->store, "the directory that holds the checkpoints").required();
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli
