// ckpt help: of the tool, of a command, and the options of the library.
#include <limits>
#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/table.h"

namespace cli {
namespace {

struct Args : Common {
  std::string topic;
};

constexpr Words kWords = {"help", "explain a command, or the options of the library",
                          "Without a topic: the commands. With the name of a command: what it does, examples, exit "
                          "codes. With \"options\": every\n"
                          "option that -o KEY=VALUE takes, from the library itself.",
                          "  ckpt help verify\n"
                          "  ckpt help options\n",
                          "0 shown, 2 no such topic"};

std::string values_text(const ckpt_option_info& info) {
  if (info.kind == CKPT_OPTION_STR) return *info.choices == '\0' ? "text" : info.choices;
  if (info.max == std::numeric_limits<int64_t>::max()) return fmt::format("{} and up", info.min);
  return fmt::format("{} to {}", info.min, info.max);
}

Error print_options(bool as_json) {
  Table table({{"OPTION"}, {"DEFAULT"}, {"VALUES"}, {"USED BY"}, {"MEANING"}});
  Json list = Json::array();
  for (int32_t i = 0; i < ckpt_option_count(); ++i) {
    auto info = sized<ckpt_option_info>();
    CLI_TRY(call(ckpt_option_at, i, &info));
    table.add({info.key, *info.fallback == '\0' ? "-" : info.fallback, values_text(info), info.used_by, info.help});
    list.push_back({{"key", info.key},
                    {"default", info.fallback},
                    {"values", values_text(info)},
                    {"used_by", info.used_by},
                    {"help", info.help}});
  }
  as_json ? print_json(list) : print(table.render(0));
  return {};
}

Error run(const Args& args, const CLI::App& app) {
  if (args.topic == "options") return print_options(args.json);
  if (args.topic.empty()) {
    // app.help() would be that of the command that was chosen, which is this one.
    print(app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal));
    return {};
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() != args.topic) continue;
    print(command->help("ckpt"));
    return {};
  }
  return invalid("no command is called '" + args.topic + "'; ckpt help lists them");
}

}  // namespace

void add_help(CLI::App& app, Run& chosen) {
  auto args = std::make_shared<Args>();
  CLI::App* command = add_command(app, kWords, args.get(), true);
  command->add_option("TOPIC", args->topic, "a command, or \"options\"");
  command->callback([args, &app, &chosen] { chosen = [args, &app](int*) { return run(*args, app); }; });
}

}  // namespace cli
