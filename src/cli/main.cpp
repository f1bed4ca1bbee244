// The ckpt command: reads the command line, runs one command, prints its error. Exit codes: 0 done or yes, 1 a definite
// no (damaged, different), 2 an error.
#include <algorithm>
#include <cstdio>
#include <new>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/text.h"

namespace cli {
namespace {

// Lists commands by the first line of their description.
class Formatter : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* command) const override {
    std::string text = command->get_description();
    return fmt::format("  {:<{}}{}\n", command->get_name(), get_column_width() - 2, text.substr(0, text.find('\n')));
  }
};

constexpr const char* kDescription =
    "Looks after checkpoints of ckpt: list, check, compare, print, convert, repair, remove.";

constexpr const char* kFooter =
    "A CHECKPOINT is the directory of one, or STORE@SELECTOR where SELECTOR is latest, label:L, step:N or an id;\n"
    "a STORE alone means STORE@latest. Any option of the library can be set with -o KEY=VALUE.\n\n"
    "  ckpt ls /data/run7                     what is there\n"
    "  ckpt verify /data/run7                 is the latest sound, every byte of it\n"
    "  ckpt info /data/run7@step:100          what is in it\n"
    "  ckpt cat /data/run7 layer.weight       some numbers\n"
    "  ckpt help COMMAND, ckpt help options   more";

std::string version_text() {
  return fmt::format("ckpt {} (format revision {})", ckpt_version_string(), CKPT_FORMAT_REVISION);
}

void set_up(CLI::App& app, Run& chosen) {
  app.formatter(std::make_shared<Formatter>());
  app.footer(kFooter);
  app.set_version_flag("--version", version_text);
  app.require_subcommand(1);
  for (auto add : {add_ls, add_info, add_verify, add_diff, add_cat, add_import, add_export, add_repair, add_prune,
                   add_rm, add_help}) {
    add(app, chosen);
  }
}

int fail(const std::string& text) {
  std::fflush(stdout);
  fmt::print(stderr, "ckpt: {}\n", text);
  return kExitError;
}

int run(int argc, char** argv) {
  Run chosen;
  CLI::App app(kDescription, "ckpt");
  set_up(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    auto commands = app.get_subcommands();
    std::string topic = commands.empty() ? "" : " " + commands.front()->get_name();
    return fail(fmt::format("{}\nsee: ckpt help{}", error.what(), topic));
  }
  int exit_code = kExitOk;
  Error error = chosen(&exit_code);
  if (error) return fail(error.text());
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return fail("cannot write to standard output");
  return exit_code;
}

}  // namespace
}  // namespace cli

int main(int argc, char** argv) {
  try {
    return cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    return cli::fail("out of memory");
  }
}
