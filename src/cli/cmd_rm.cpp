// ckpt rm: removes one checkpoint.
#include "cli/command.h"
#include "cli/text.h"

namespace cli {
namespace cmd_rm {
namespace {

struct Args : Common {
  std::string checkpoint;
};

constexpr Words kWords = {"rm", "remove one checkpoint",
                          "Removes one checkpoint, or the rest of an attempt to save one, at once and for good. "
                          "Refuses one that is being read\n"
                          "or written. Refuses a bare STORE: say which checkpoint.",
                          "  ckpt rm /data/run7/step-100.7.1\n"
                          "  ckpt rm /data/run7@label:step-100\n",
                          "0 removed, 2 error"};

// An attempt, or what is damaged, shares nothing that anybody could tell.
uint64_t shared_bytes(const ckpt::Store& store, const std::string& id) try {
  return store.find(id).shared_bytes;
} catch (const ckpt::Error&) {
  return 0;
}

int run(const Args& args) {
  ckpt::Options options = make_options(args);
  Target target = locate(args.checkpoint, options);
  auto store = ckpt::Store::open(target.store, options);
  std::string id = resolve_id(store, target, options);
  const uint64_t shared = shared_bytes(store, id);
  store.remove(id);
  const std::string stays =
      shared == 0 ? "" : ": " + human_bytes(shared) + " of it stay, which other checkpoints have, too";
  print("removed " + escaped(id) + stays + "\n");
  return kExitOk;
}

}  // namespace
}  // namespace cmd_rm

void add_rm(CLI::App& app, Action& chosen) {
  using namespace cmd_rm;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kNo);
  command.add("CHECKPOINT", args->checkpoint, "the checkpoint's directory, or STORE@SELECTOR").required();
  command.add_run(*args);
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli
