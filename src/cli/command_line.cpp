// All that the tool needs of CLI11.
#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace cli {
namespace {

// Lists commands by the first line of their description.
class Formatter : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* command) const override {
    std::string text = command->get_description();
    return format("  {}{}\n", padded(command->get_name(), get_column_width() - 2), text.substr(0, text.find('\n')));
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
  return format("ckpt {} (format revision {})", ckpt_version_string(), CKPT_FORMAT_REVISION);
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

}  // namespace

Run parse_command_line(int argc, char** argv) {
  Run chosen;
  auto app = std::make_shared<CLI::App>(kDescription, "ckpt");
  set_up(*app, chosen);
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return [code = app->exit(error)] { return code; };
    auto commands = app->get_subcommands();
    std::string topic = commands.empty() ? "" : " " + commands.front()->get_name();
    invalid(format("{}\nsee: ckpt help{}", error.what(), topic));
  }
  return [app, chosen] { return chosen(); };
}

std::string help_text(const CLI::App& app, const std::string& topic) {
  // app.help() would be that of the command that was chosen, which is help.
  if (topic.empty()) return app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == topic) return command->help("ckpt");
  }
  return "";
}

Option& Option::required() { return option_->required(), *this; }
Option& Option::type(const char* name) { return option_->type_name(name), *this; }
Option& Option::needs(const Option& other) { return option_->needs(other.option_), *this; }
Option& Option::excludes(const Option& other) { return option_->excludes(other.option_), *this; }
Option& Option::positive() { return option_->check(CLI::PositiveNumber), *this; }
Option& Option::not_negative() { return option_->check(CLI::NonNegativeNumber), *this; }
Option& Option::one_value() { return option_->allow_extra_args(false), *this; }

template <typename T>
Option Command::add(const char* name, T& to, const char* help) {
  if constexpr (std::is_same_v<T, bool>)
    return Option(command_->add_flag(name, to, help));
  else
    return Option(command_->add_option(name, to, help));
}
template Option Command::add(const char*, bool&, const char*);
template Option Command::add(const char*, std::string&, const char*);
template Option Command::add(const char*, int64_t&, const char*);
template Option Command::add(const char*, uint32_t&, const char*);
template Option Command::add(const char*, std::optional<std::string>&, const char*);
template Option Command::add(const char*, std::optional<int64_t>&, const char*);
template Option Command::add(const char*, std::vector<std::string>&, const char*);

Command::Command(CLI::App& app, const Words& words, Common& common, WithJson json)
    : command_(app.add_subcommand(words.name, std::string(words.summary) + "\n\n" + words.teaching + "\n")) {
  command_->footer(std::string("Examples:\n") + words.examples + "\nExit codes: " + words.exits);
  add("-o", common.settings, "set any option of the library: KEY=VALUE (see ckpt help options)")
      .one_value()
      .type("KEY=VALUE");
  if (json == WithJson::kYes) add("--json", common.json, "print JSON: exact bytes, stable names");
}

void Command::run(Run& chosen, Run run) {
  command_->callback([&chosen, run] { chosen = run; });
}

void add_bare_command(CLI::App& app, const char* name, const char* summary, Run& chosen, Run run) {
  CLI::App* command = app.add_subcommand(name, summary);
  command->prefix_command();
  command->callback([&chosen, run] { chosen = run; });
}

}  // namespace cli
