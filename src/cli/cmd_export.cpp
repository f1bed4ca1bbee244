// ckpt export: a checkpoint as safetensors.
#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/text.h"

namespace cli {
namespace {

struct Args : Common {
  std::string checkpoint, path;
};

constexpr Words kWords = {
    "export", "write a checkpoint as safetensors",
    "Writes the tensors to PATH: one safetensors file, or the directory of files that was imported. What exists is "
    "never\n"
    "overwritten. Objects cannot be represented there and are left out, which is said on standard error.",
    "  ckpt export /data/run7 model.safetensors\n"
    "  ckpt export /data/models/llama3-8b.1.1 ./Llama-3-8B-copy\n",
    "0 written, 2 error"};

Error run(const Args& args) {
  Options options;
  CLI_TRY(make_options(args, &options));
  Opened opened;
  CLI_TRY(open_checkpoint(args.checkpoint, args, options, &opened));
  CLI_TRY(call(ckpt_export, opened.reader, args.path.c_str(), options));
  print(fmt::format("exported {} to {}\n", opened.info.id, escaped(args.path)));
  if (opened.info.object_count > 0) {
    fmt::print(stderr, "ckpt: note: {} objects have no place in safetensors and were left out\n",
               opened.info.object_count);
  }
  return {};
}

}  // namespace

void add_export(CLI::App& app, Run& chosen) {
  auto args = std::make_shared<Args>();
  CLI::App* command = add_command(app, kWords, args.get(), false);
  command->add_option("CHECKPOINT", args->checkpoint, kCheckpointHelp)->required();
  command->add_option("PATH", args->path, "the file or directory to make")->required();
  command->callback([args, &chosen] { chosen = [args](int*) { return run(*args); }; });
}

}  // namespace cli
