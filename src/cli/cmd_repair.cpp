// ckpt repair: a lost or damaged MANIFEST, rebuilt from the parts.
#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/text.h"

namespace cli {
namespace {

struct Args : Common {
  std::string checkpoint;
  bool write = false, force = false;
};

constexpr Words kWords = {
    "repair", "rebuild a lost or damaged MANIFEST",
    "Each part describes itself, so a lost or damaged MANIFEST is rebuilt from them byte for byte. A readable MANIFEST "
    "is\n"
    "never replaced, and parts are never changed: damaged tensor data cannot be repaired. Without --write it only "
    "says\n"
    "what it would do. --force also takes an attempt that never committed, and marks the result as rebuilt.",
    "  ckpt repair /data/run7/step-100.7.1\n"
    "  ckpt repair /data/run7/step-100.7.1 --write && ckpt verify /data/run7/step-100.7.1\n",
    "0 repaired (or could be, or nothing to repair), 1 cannot be repaired, 2 error"};

// Errors that are an answer: the parts do not suffice.
bool is_refusal(ckpt_status status) {
  return status == CKPT_INCOMPLETE || status == CKPT_CORRUPT || status == CKPT_FORMAT || status == CKPT_ABORTED;
}

struct Outcome {
  std::string id, state;
  std::vector<ckpt_finding> findings;
  std::string reason;  // of a refusal
};

void print_outcome(const Args& args, const Outcome& outcome) {
  if (args.json) {
    Json findings = Json::array();
    for (const ckpt_finding& finding : outcome.findings) findings.push_back(to_json(finding));
    print_json({{"checkpoint", outcome.id},
                {"result", outcome.state},
                {"written", args.write && outcome.state == "repaired"},
                {"reason", outcome.reason.empty() ? Json(nullptr) : Json(outcome.reason)},
                {"findings", findings}});
    return;
  }
  for (const ckpt_finding& finding : outcome.findings) {
    print(fmt::format("{}: {}\n", finding_name(finding.kind), escaped(finding.text == nullptr ? "" : finding.text)));
  }
  print(fmt::format("{}: {}\n", outcome.state, escaped(outcome.id)));
  if (!outcome.reason.empty()) print("  " + outcome.reason + "\n");
  if (outcome.state == "repairable") print("nothing was written; add --write to do it\n");
}

Error repair(const Args& args, const ckpt_store* store, ckpt_options* options, Report* report, Outcome* outcome) {
  CLI_TRY(call(ckpt_options_set_int, options, "dry_run", args.write ? 0 : 1));
  if (args.force) CLI_TRY(call(ckpt_options_set_int, options, "force", 1));
  Error error = call(ckpt_store_repair, store, outcome->id.c_str(), options, report->out());
  if (error && error.status() != CKPT_EXISTS && !is_refusal(error.status())) return error;
  outcome->state = args.write ? "repaired" : "repairable";
  if (error) {
    outcome->state = error.status() == CKPT_EXISTS ? "nothing to repair" : "cannot be repaired";
    outcome->reason = error.text();
  }
  return findings_of(*report, &outcome->findings);
}

Error run(const Args& args, int* exit_code) {
  Options options;
  CLI_TRY(make_options(args, &options));
  Target target;
  CLI_TRY(locate(args.checkpoint, &target));
  Store store;
  CLI_TRY(call(ckpt_store_open, store.out(), target.store.c_str(), options));
  Outcome outcome;
  CLI_TRY(resolve_id(store, target, options, &outcome.id));
  Report report;
  CLI_TRY(repair(args, store, options, &report, &outcome));
  print_outcome(args, outcome);
  *exit_code = outcome.state == "cannot be repaired" ? kExitNo : kExitOk;
  return {};
}

}  // namespace

void add_repair(CLI::App& app, Run& chosen) {
  auto args = std::make_shared<Args>();
  CLI::App* command = add_command(app, kWords, args.get(), true);
  command->add_option("CHECKPOINT", args->checkpoint, "the checkpoint's directory, or STORE@ID")->required();
  command->add_flag("--write", args->write, "do it");
  command->add_flag("--force", args->force, "also rebuild an attempt that never committed");
  command->callback([args, &chosen] { chosen = [args](int* exit_code) { return run(*args, exit_code); }; });
}

}  // namespace cli
