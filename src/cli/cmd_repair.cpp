// ckpt repair: rebuilds a lost or damaged MANIFEST from the parts.
#include "cli/command.h"
#include "cli/text.h"

namespace cli {
namespace cmd_repair {
namespace {

struct Args : Common {
  std::string checkpoint;
  bool write = false, force = false;
};

constexpr Words kWords = {
    "repair", "rebuild a lost or damaged MANIFEST",
    "Each part describes itself, so a lost or damaged MANIFEST can be rebuilt from them byte for byte. "
    "Never replaces a\n"
    "readable MANIFEST, never changes a part: "
    "damaged tensor data cannot be repaired. A part that is missing, or is another file, comes from\n"
    "a checkpoint of the store that shares it (incremental saves), if there is one. Without --write it only says what "
    "it\n"
    "would do. --force also accepts an attempt that was never committed, and marks the result as rebuilt.",
    "  ckpt repair /data/run7/step-100.7.1\n"
    "  ckpt repair /data/run7/step-100.7.1 --write && ckpt verify /data/run7/step-100.7.1\n",
    "0 repaired (or could be, or nothing to repair), 1 cannot be repaired, 2 error"};

// These errors are an answer: the parts do not suffice.
bool is_refusal(ckpt_status status) {
  return status == CKPT_INCOMPLETE || status == CKPT_CORRUPT || status == CKPT_FORMAT || status == CKPT_ABORTED;
}

struct Outcome {
  std::string id, state;
  ckpt::Report report{nullptr};
  std::string reason;  // why nothing was repaired
};

void print_outcome(const Args& args, const Outcome& outcome) {
  if (args.json) {
    print_json({{"id", outcome.id},
                {"result", outcome.state},
                {"written", args.write && outcome.state == "repaired"},
                {"reason", outcome.reason.empty() ? Json(nullptr) : Json(outcome.reason)},
                {"findings", findings_json(outcome.report)}});
    return;
  }
  for (const ckpt::Finding& finding : outcome.report)
    print(strformat("{}: {}\n", finding_name(finding.kind), escaped(text_of(finding.text))));
  print(strformat("{}: {}\n", outcome.state, escaped(outcome.id)));
  if (!outcome.reason.empty()) print("  " + outcome.reason + "\n");
  if (outcome.state == "repairable") print("nothing was written; add --write to do it\n");
}

void repair(const Args& args, const ckpt::Store& store, ckpt::Options options, Outcome* outcome) {
  options.set("dry_run", !args.write);
  if (args.force) options.set("force", 1);
  try {
    outcome->report = store.repair(outcome->id, options);
    outcome->state = args.write ? "repaired" : "repairable";
  } catch (const ckpt::Error& error) {
    if (error.status() != CKPT_EXISTS && !is_refusal(error.status())) throw;
    outcome->state = error.status() == CKPT_EXISTS ? "nothing to repair" : "cannot be repaired";
    outcome->reason = error_text(error);
  }
}

int run(const Args& args) {
  ckpt::Options options = make_options(args);
  Target target = locate(args.checkpoint, options);
  auto store = ckpt::Store::open(target.store, options);
  Outcome outcome;
  outcome.id = resolve_id(store, target, options);
  repair(args, store, options, &outcome);
  print_outcome(args, outcome);
  return outcome.state == "cannot be repaired" ? kExitNo : kExitOk;
}

}  // namespace
}  // namespace cmd_repair

void add_repair(CLI::App& app, Action& chosen) {
  using namespace cmd_repair;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("CHECKPOINT", args->checkpoint, "the checkpoint's directory, or STORE@ID").required();
  command.add("--write", args->write, "write what is missing");
  command.add("--force", args->force, "also rebuild an attempt that was never committed");
  command.run(chosen, [args] {
    args->write = is_to_write(*args, args->write);
    return run(*args);
  });
}

}  // namespace cli
