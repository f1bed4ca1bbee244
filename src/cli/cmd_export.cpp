// ckpt export: a checkpoint in other people's formats.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "ckpt_file.h"
#include "cli/command.h"
#include "cli/text.h"

namespace cli {
namespace {

struct Args : Common {
  std::string checkpoint, path;
  std::optional<std::string> format;
  std::optional<int64_t> shards;
};

constexpr Words kWords = {
    "export", "write a checkpoint as safetensors, .pt or an hfai directory",
    "Writes the checkpoint to PATH, in the format that its ending names or --format says. What exists is never "
    "overwritten.\n"
    "  safetensors  the tensors: one file, or the directory of files that was imported\n"
    "  pt           the state tree as torch.save writes it; torch.load(weights_only=True) opens it\n"
    "  hfai         the state tree in --shards files PART_nnn.pt, as hfai.checkpoint saves it\n"
    "What has no place there is left out, which is said on standard error.",
    "  ckpt export /data/run7 model.safetensors\n"
    "  ckpt export /data/run7@step:400 state.pt\n"
    "  ckpt export /data/run7 state --format hfai --shards 8\n"
    "  ckpt export /data/models/llama3-8b.1.1 ./Llama-3-8B-copy\n",
    "0 written, 2 error"};

bool is_pt(const std::string& path) { return path.ends_with(".pt") || path.ends_with(".pth"); }

bool writes_tree(const Args& args) {
  std::string format = args.format.value_or("auto");
  for (const std::string& setting : args.settings)
    if (!args.format && setting.starts_with("format=")) format = setting.substr(7);
  return format == "auto" ? is_pt(args.path) : format != "safetensors";
}

// Whether object `i` is the tree that a .pt is made of.
bool is_main_tree(const ckpt_reader* reader, uint64_t i) {
  ckpt_object_info info{};
  info.struct_size = sizeof info;
  return ckpt_reader_object_at(reader, i, &info, nullptr) == CKPT_OK && info.scope == CKPT_OBJECT_SHARED &&
         std::string_view(info.name) == CKPT_TREE_OBJECT && std::string_view(info.media_type) == CKPT_TREE_MEDIA_TYPE;
}

void note_what_is_left_out(const Args& args, const Opened& opened) {
  uint64_t left_out = opened.info.object_count;
  if (writes_tree(args))
    for (uint64_t i = 0; i < opened.info.object_count; i++) left_out -= is_main_tree(opened.reader, i) ? 1 : 0;
  if (left_out == 0) return;
  fmt::print(stderr, "ckpt: note: {} objects have no place in {} and were left out\n", left_out,
             writes_tree(args) ? "a .pt" : "safetensors");
}

Error run(const Args& args) {
  Options options;
  CLI_TRY(make_options(args, &options));
  if (args.format) CLI_TRY(call(ckpt_options_set_str, options, "format", args.format->c_str()));
  if (args.shards) CLI_TRY(call(ckpt_options_set_int, options, "shards", *args.shards));
  Opened opened;
  CLI_TRY(open_checkpoint(args.checkpoint, args, options, &opened));
  CLI_TRY(call(ckpt_export, opened.reader, args.path.c_str(), options));
  print(fmt::format("exported {} to {}\n", opened.info.id, escaped(args.path)));
  note_what_is_left_out(args, opened);
  return {};
}

}  // namespace

void add_export(CLI::App& app, Run& chosen) {
  auto args = std::make_shared<Args>();
  CLI::App* command = add_command(app, kWords, args.get(), false);
  command->add_option("CHECKPOINT", args->checkpoint, kCheckpointHelp)->required();
  command->add_option("PATH", args->path, "the file or directory to make")->required();
  command->add_option("--format", args->format, "auto, safetensors, pt or hfai");
  command->add_option("--shards", args->shards, "hfai: the number of PART files");
  command->callback([args, &chosen] { chosen = [args](int*) { return run(*args); }; });
}

}  // namespace cli
