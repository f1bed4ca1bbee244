// ckpt help: explains the tool, a command, or the options of the library.
#include <limits>

#include "cli/command.h"
#include "cli/pages.h"
#include "cli/table.h"
#include "cli/text.h"

namespace cli {
namespace cmd_help {
namespace {

struct Args : Common {
  std::string topic, pages;
};

constexpr Words kWords = {"help", "explain a command, or the options of the library",
                          "Without a topic: the commands. With a command: what it does, examples, exit codes. With "
                          "\"options\": every option\n"
                          "that -o KEY=VALUE can set. With --pages DIR: writes manual pages and shell completions to "
                          "DIR, as a prefix's share\n"
                          "has them.",
                          "  ckpt help verify\n"
                          "  ckpt help options\n",
                          "0 shown, 2 no such topic"};

std::string values_text(const ckpt::OptionInfo& info) {
  if (info.kind == CKPT_OPTION_STR) return *info.choices == '\0' ? "text" : info.choices;
  if (info.max == std::numeric_limits<int64_t>::max()) return strformat("{} and up", info.min);
  return strformat("{} to {}", info.min, info.max);
}

void print_options(bool as_json) {
  const auto options = ckpt::option_list();
  if (as_json)
    return print_json({{"options", Json::array(options, [](const ckpt::OptionInfo& info) -> Json {
                          return {{"key", info.key},
                                  {"default", info.fallback},
                                  {"values", values_text(info)},
                                  {"used_by", info.used_by},
                                  {"help", info.help}};
                        })}});
  Table table({{"OPTION"}, {"DEFAULT"}, {"VALUES"}, {"USED BY"}, {"MEANING"}});
  for (const ckpt::OptionInfo& info : options)
    table.add({info.key, *info.fallback == '\0' ? "-" : info.fallback, values_text(info), info.used_by, info.help});
  print(table.render(0));
}

int run(const Args& args, const CLI::App& app) {
  if (args.topic == "options") return print_options(args.json), kExitOk;
  if (!args.pages.empty()) return write_pages(args.pages, describe(app)), kExitOk;
  std::string text = help_text(app, args.topic);
  if (text.empty()) {
    std::vector<std::string> topics = {"options"};
    for (const CommandText& command : describe(app)) topics.push_back(command.name);
    invalid("no command is called '" + args.topic + "' (ckpt help lists them)" + did_you_mean(args.topic, topics));
  }
  print(text);
  return kExitOk;
}

}  // namespace
}  // namespace cmd_help

void add_help(CLI::App& app, Action& chosen) {
  using namespace cmd_help;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("TOPIC", args->topic, "a command, or \"options\"");
  command.add("--pages", args->pages, "write the manual pages and shell completions below this directory").type("DIR");
  command.run(chosen, [args, &app] { return run(*args, app); });
}

}  // namespace cli
