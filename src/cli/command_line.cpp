// The command line. Only this file includes CLI11.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/command.h"
#include "cli/look.h"
#include "cli/store_probe.h"
#include "cli/text.h"

namespace cli {
namespace {

// In the list of commands, shows the first line of each description.
class Formatter : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* command) const override {
    std::string text = command->get_description();
    return strformat("  {}{}\n", padded(command->get_name(), get_column_width() - 2), text.substr(0, text.find('\n')));
  }
};

constexpr const char* kDescription = "Lists, checks, compares, prints, converts, repairs and removes checkpoints.";

constexpr const char* kFooter =
    "A STORE is the directory that holds checkpoints, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or\n"
    "az://CONTAINER/PREFIX. A CHECKPOINT is its own directory, or STORE@SELECTOR, where SELECTOR\n"
    "is latest, label:L, name:N, step:N or an id. STORE alone means STORE@latest.\n"
    "-o KEY=VALUE sets any option of the library.\n\n"
    "  ckpt ls /data/run7                     list the checkpoints\n"
    "  ckpt verify /data/run7                 check every byte of the latest\n"
    "  ckpt info /data/run7@step:100          show what it holds\n"
    "  ckpt cat /data/run7 layer.weight       print a tensor\n"
    "  ckpt help COMMAND, ckpt help options   more";

std::string version_text() {
  return strformat("ckpt {} (format revision {})", ckpt_version_string(), CKPT_FORMAT_REVISION);
}

void set_up(CLI::App& app, Action& chosen) {
  app.formatter(std::make_shared<Formatter>());
  app.footer(kFooter);
  app.set_version_flag("--version", version_text);
  app.require_subcommand(1);
  for (auto add : {add_status, add_ls,   add_runs,   add_du,     add_report,     add_info,   add_verify, add_diff,
                   add_cat,    add_cp,   add_import, add_export, add_map,        add_repair, add_prune,  add_clean,
                   add_rm,     add_keep, add_label,  add_check,  add_completion, add_help}) {
    add(app, chosen);
  }
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Of what was typed: a line of a terminal.
std::string word_shown(const std::string& word) { return ckpt::cut_line(escaped(word)); }

// CLI11 would only say that a subcommand is required.
void need_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2) invalid("a command is needed\nsee: ckpt help");
  const std::string word = argv[1];
  const bool is_option = word.starts_with('-');
  const std::vector<std::string> known = is_option ? option_names(app) : command_names(app);
  if (std::find(known.begin(), known.end(), word) == known.end())
    invalid(strformat("unknown {} '{}'{}\nsee: ckpt help", is_option ? "option" : "command", word_shown(word),
                      did_you_mean(word, known)));
}

// "N" for CLI11's "INT:POSITIVE".
std::string value_name(const std::string& type) {
  if (type.starts_with("INT") || type.starts_with("UINT")) return "N";
  return type;
}

CommandText describe_one(const CLI::App& app) {
  const std::string description = app.get_description();
  const size_t line = std::min(description.find('\n'), description.size());
  CommandText text{app.get_name(), description.substr(0, line), description.substr(line), app.get_footer(), {}};
  for (const CLI::Option* option : app.get_options()) {
    OptionText& out = text.options.emplace_back();
    for (const std::string& name : option->get_snames()) out.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) out.names.push_back("--" + name);
    if (out.names.empty()) out.names.push_back(option->get_name());
    if (option->get_type_size() > 0) out.value = value_name(option->get_type_name());
    out.help = option->get_description();
  }
  return text;
}

// What is wrong with the first word that nobody takes.
std::string extra_text(const CLI::App& app, const std::string& otherwise) {
  const std::vector<std::string> words = app.remaining();
  if (words.empty()) return otherwise;
  if (!words[0].starts_with('-')) return "unexpected argument '" + words[0] + "'";
  const std::string name = words[0].substr(0, words[0].find('='));
  return "unknown option '" + name + "'" + did_you_mean(name, option_names(app));
}

}  // namespace

Action parse_command_line(int argc, char** argv) {
  Action chosen;
  auto app = std::make_shared<CLI::App>(kDescription, "ckpt");
  set_up(*app, chosen);
  try {
    need_command(*app, argc, argv);
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return [code = app->exit(error)] { return code; };
    auto commands = app->get_subcommands();
    std::string topic = commands.empty() ? "" : " " + commands.front()->get_name(), text = error.what();
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError))
      text = extra_text(commands.empty() ? *app : *commands.front(), text);
    invalid(strformat("{}\nsee: ckpt help{}", word_shown(text), topic));
  }
  return [app, chosen] { return chosen(); };
}

std::string help_text(const CLI::App& app, const std::string& topic) {
  // app.help() would give the help of the chosen command, which is `help`.
  if (topic.empty()) return app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == topic) return command->help("ckpt");
  }
  return "";
}

std::vector<CommandText> describe(const CLI::App& app) {
  std::vector<CommandText> texts = {describe_one(app)};
  texts[0].name.clear();
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    texts.push_back(describe_one(*command));
  return texts;
}

Option& Option::required() { return option_->required(), *this; }
Option& Option::type(const char* name) { return option_->type_name(name), *this; }
Option& Option::needs(const Option& other) { return option_->needs(other.option_), *this; }
Option& Option::excludes(const Option& other) { return option_->excludes(other.option_), *this; }
// CLI11's own checks name the range of a double.
static CLI::Validator number_from(int least, const char* name) {
  const auto fault = [least](std::string& text) -> std::string {
    const bool whole = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
    if (whole && (least == 0 || text.find_first_not_of('0') != text.npos)) return "";
    return strformat("needs a whole number of {} or more, found '{}'", least, text);
  };
  return CLI::Validator(fault, name);
}
Option& Option::positive() { return option_->check(number_from(1, "POSITIVE")), *this; }
Option& Option::not_negative() { return option_->check(number_from(0, "NONNEGATIVE")), *this; }
Option& Option::one_value() { return option_->allow_extra_args(false), *this; }

// Of an option: a script's variable that is not set must not switch off what it was to set.
static CLI::Validator not_empty() {
  return {[](std::string& text) -> std::string { return text.empty() ? "needs a value, found ''" : ""; }, ""};
}

template <typename T>
Option Command::add(const char* name, T& to, const char* help) {
  if constexpr (std::is_same_v<T, bool>)
    return Option(command_->add_flag(name, to, help));
  else
    return Option(name[0] == '-' ? command_->add_option(name, to, help)->check(not_empty())
                                 : command_->add_option(name, to, help));
}
template Option Command::add(const char*, bool&, const char*);
template Option Command::add(const char*, std::string&, const char*);
template Option Command::add(const char*, int64_t&, const char*);
template Option Command::add(const char*, uint32_t&, const char*);
template Option Command::add(const char*, std::optional<std::string>&, const char*);
template Option Command::add(const char*, std::optional<int64_t>&, const char*);
template Option Command::add(const char*, std::vector<std::string>&, const char*);

Command::Command(CLI::App& app, const Words& words, Common& common, WithJson json)
    : command_(app.add_subcommand(words.name, std::string(words.summary) + "\n\n" + words.teaching + "\n")),
      common_(common) {
  command_->footer(std::string("Examples:\n") + words.examples + "\nExit codes: " + words.exits);
  add("-o", common.settings, "set an option of the library (see ckpt help options); may be repeated")
      .one_value()
      .type("KEY=VALUE");
  add("--backend", common.backends, "load a library of stores (ckpt_backend.h); may be repeated")
      .one_value()
      .type("LIB");
  if (json == WithJson::kYes) add("--json", common.json, "print JSON: exact sizes, stable keys");
}

Option Command::add_run(Common& common) {
  return add("--run", common.run, "the run; without it main, or the only one that the store has").type("RUN");
}

void Command::run(Action& chosen, Action action) {
  command_->callback([&chosen, action, &common = common_] {
    set_patience(common.setting("timeout_ms"));
    for (const std::string& path : common.backends) load_backend(path);
    chosen = action;
  });
}

void add_bare_command(CLI::App& app, const char* name, const char* summary, Action& chosen, Action action) {
  CLI::App* command = app.add_subcommand(name, summary);
  command->prefix_command();
  command->callback([&chosen, action] { chosen = action; });
}

}  // namespace cli
