// ckpt completion: prints the script by which a shell completes ckpt's command lines.
#include "cli/command.h"
#include "cli/completion.h"

namespace cli {
namespace cmd_completion {
namespace {

struct Args : Common {
  std::string shell;
};

constexpr Words kWords = {"completion", "print the completion script of a shell",
                          "Prints the script by which a shell completes commands, options and files of ckpt. An "
                          "installation from a package has\n"
                          "it in place; otherwise load it when the shell starts.",
                          "  source <(ckpt completion bash)\n"
                          "  ckpt completion zsh > ~/.zfunc/_ckpt\n"
                          "  ckpt completion fish > ~/.config/fish/completions/ckpt.fish\n",
                          "0 printed, 2 error"};

}  // namespace
}  // namespace cmd_completion

void add_completion(CLI::App& app, Action& chosen) {
  using namespace cmd_completion;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kNo);
  command.add("SHELL", args->shell, "the shell").required().type(kShells);
  command.run(chosen, [args, &app] {
    print(completion_script(args->shell, describe(app)));
    return kExitOk;
  });
}

}  // namespace cli
