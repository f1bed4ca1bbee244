// ckpt keep: a checkpoint that nothing removes.
#include "cli/command.h"
#include "cli/text.h"

namespace cli {
namespace cmd_keep {
namespace {

struct Args : Common {
  std::string checkpoint;
  bool release = false;
};

constexpr Words kWords = {
    "keep", "keep a checkpoint, whatever retention says",
    "From now on nothing of this store removes the checkpoint: no trainer's retention, no ckpt prune, no save that\n"
    "replaces its label, and ckpt rm only with --kept. --release takes that back. ckpt ls shows it as kept.\n"
    "The word is kept in the store's .ckpt, so copies in other stores are not kept by it. Refuses a bare STORE: say\n"
    "which checkpoint.",
    "  ckpt keep /data/run7@step:400\n"
    "  ckpt keep s3://bucket/run7@label:best --release\n",
    "0 done, 2 error"};

int run(const Args& args) {
  const ckpt::Options options = make_options(args);
  const Target target = locate(args.checkpoint, options);
  const auto store = ckpt::Store::open(target.store, options);
  const std::string id = resolve_id(store, target, options);
  store.keep(id, !args.release);
  if (args.json)
    print_json({{"store", shown(target.store)}, {"id", id}, {"kept", !args.release}});
  else
    print(strformat("{} {}\n", args.release ? "not kept any more:" : "kept:", escaped(id)));
  return kExitOk;
}

}  // namespace
}  // namespace cmd_keep

void add_keep(CLI::App& app, Action& chosen) {
  using namespace cmd_keep;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("CHECKPOINT", args->checkpoint, "the checkpoint's directory, or STORE@SELECTOR").required();
  command.add("--release", args->release, "it need not stay any more");
  command.add_run(*args);
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli
