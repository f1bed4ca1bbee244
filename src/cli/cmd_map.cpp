// ckpt map: what a mapping makes of a file, and whether it can be undone.
#include <cstdio>

#include "cli/command.h"
#include "cli/foreign.h"
#include "cli/mapped.h"
#include "cli/numbers.h"
#include "cli/table.h"
#include "cli/text.h"

namespace cli {
namespace cmd_map {
namespace {

struct Args : Common {
  std::string action, map, file;
  Mapped mapped;
};

constexpr Words kWords = {
    "map", "check what a mapping makes of a file",
    "check shows the tensors of FILE as the mapping has them, and runs it there and back: the same names and shapes "
    "must\n"
    "come again. Reads no element. A mapping renames, rearranges, cuts and puts together; its language is in "
    "docs/mappings.md,\n"
    "and shipped mappings are in share/ckpt/maps: llama-hf-to-tune is also llama-tune-to-hf.",
    "  ckpt map check llama-hf-to-tune ./Llama-3-8B\n"
    "  ckpt map check ./mine.json model.safetensors --config config.json\n",
    "0 it runs both ways, 1 it loses something on the way back, 2 error: it does not fit the file"};

constexpr int64_t kCheck = 2;

ckpt::File open_file(const Args& args, int64_t back) {
  ckpt::Options options = make_options(args);
  set_mapped(options, args.mapped);
  options.set("map", args.map);
  options.set("tensor_data", 0);
  options.set("verify", 0);
  if (back != 0) options.set("map_back", back);
  return ckpt::File::open(args.file, options);
}

// Why it does not run backwards; empty where it does.
std::string what_is_lost(const Args& args) {
  try {
    open_file(args, kCheck);
    return "";
  } catch (const ckpt::Error& error) {
    return error.what();
  }
}

int run(const Args& args) {
  if (args.action != "check") invalid("ckpt map " + args.action + ": expected check");
  const ckpt::File file = open_file(args, 0);
  const std::string lost = what_is_lost(args);
  if (args.json) {
    print_json({{"loses", lost.empty() ? Json(nullptr) : Json(lost)},
                {"tensor_list", Json::array(file.tensors(), tensor_json)}});
    return lost.empty() ? kExitOk : kExitNo;
  }
  Table table({{"TENSOR", Align::kLeft, true}, {"DTYPE"}, {"SHAPE"}, {"ALIAS OF", Align::kLeft, true}});
  for (const ckpt::FileTensor& tensor : file.tensors())
    table.add({escaped(tensor.name), dtype_text(tensor.dtype), shape_text(ckpt::shape_of(tensor)),
               tensor.alias_of == nullptr ? "" : escaped(tensor.alias_of)});
  print(table.render(terminal_width()));
  print(lost.empty() ? "\nbackwards it gives the same names and shapes\n" : "\nnot backwards: " + escaped(lost) + "\n");
  return lost.empty() ? kExitOk : kExitNo;
}

}  // namespace
}  // namespace cmd_map

void add_map(CLI::App& app, Action& chosen) {
  using namespace cmd_map;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("ACTION", args->action, "check").required();
  command.add("MAP", args->map, "a JSON file, or the name of a shipped mapping").required();
  command.add("FILE", args->file, "what ckpt import takes").required();
  command.add("--map-at", args->mapped.map_at, "the place of the state that the mapping is for").type("PLACE");
  command.add("--config", args->mapped.config, "the config.json that tells the mapping sizes").type("FILE");
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli
