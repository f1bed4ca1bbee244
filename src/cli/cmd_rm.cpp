// ckpt rm: removes one checkpoint.
#include <memory>

#include "cli/command.h"
#include "cli/text.h"

namespace cli {
namespace {

struct Args : Common {
  std::string checkpoint;
};

constexpr Words kWords = {
    "rm", "remove one checkpoint",
    "Removes one checkpoint, or what is left of an attempt at one, at once and for good. One that somebody is reading, "
    "or\n"
    "that a living session is writing, is not removed. A bare STORE is refused: say which checkpoint.",
    "  ckpt rm /data/run7/step-100.7.1\n"
    "  ckpt rm /data/run7@label:step-100\n",
    "0 removed, 2 error"};

Error run(const Args& args) {
  Options options;
  CLI_TRY(make_options(args, &options));
  Target target;
  CLI_TRY(locate(args.checkpoint, &target));
  Store store;
  CLI_TRY(call(ckpt_store_open, store.out(), target.store.c_str(), options));
  std::string id;
  CLI_TRY(resolve_id(store, target, options, &id));
  CLI_TRY(call(ckpt_store_remove, store, id.c_str()));
  print("removed " + escaped(id) + "\n");
  return {};
}

}  // namespace

void add_rm(CLI::App& app, Run& chosen) {
  auto args = std::make_shared<Args>();
  CLI::App* command = add_command(app, kWords, args.get(), false);
  command->add_option("CHECKPOINT", args->checkpoint, "the checkpoint's directory, or STORE@SELECTOR")->required();
  command->callback([args, &chosen] { chosen = [args](int*) { return run(*args); }; });
}

}  // namespace cli
