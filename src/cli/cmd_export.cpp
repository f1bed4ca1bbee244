// ckpt export: writes a checkpoint in another format.
#include <algorithm>
#include <cstdio>

#include "cli/command.h"
#include "cli/export_csv.h"
#include "cli/mapped.h"
#include "cli/progress.h"
#include "cli/text.h"

namespace cli {
namespace cmd_export {
namespace {

struct Args : Common {
  std::string checkpoint, path;
  std::optional<std::string> format, at, since;
  std::optional<int64_t> shards, shard_bytes;
  Mapped mapped;
};

constexpr Words kWords = {
    "export", "write a checkpoint as safetensors, .pt, DCP or what a trainer writes",
    "Writes the checkpoint to PATH, in the format that --format or the ending of PATH names. Never overwrites.\n"
    "  safetensors  the tensors: one file, or a directory with the same files that were imported, or with files of at\n"
    "               most --shard-bytes and an index, as Hugging Face has them\n"
    "  pt           the state tree as torch.save writes it; torch.load(weights_only=True) opens it\n"
    "  dcp          the state tree as torch.distributed.checkpoint saves it, in as many files as --shards says\n"
    "  hfai         the state tree as hfai.checkpoint saves it: files PART_nnn.pt, as many as --shards says\n"
    "  composer     the state tree as Composer saves it: PATH ends in .pt or .tar, with .gz, .bz2 or .xz behind (.tar\n"
    "               also .lzma, .pt also .lz4 and .zst); loaded without weights_only\n"
    "  olmo         an unsharded directory of OLMo: model, optim and train as .pt, or as they were imported, and the\n"
    "               config.yaml of the import, or -o config=FILE; olmo-safetensors: model and optim as safetensors\n"
    "  torchtune    an output directory of torchtune: the files that were imported, or epoch_0; with --config DIR, a\n"
    "               model's directory, those that its index names, each weight where that has it (safetensors, too)\n"
    "  meta         consolidated.NN.pth, as Meta's Llama has them: --shards files, or as many as were imported\n"
    "  recis        a run of RecIS with one checkpoint, or that alone where PATH ends in ckpt_N; --shards cuts tables\n"
    "  csv          the sparse tables: a directory with TABLE.csv for each, as ckpt cat --csv prints it. With\n"
    "               --since step:100 only rows that are new or other than in that checkpoint, and removed/TABLE.csv\n"
    "               with the ids that are gone: what brings a server's copy up to date\n"
    "--at model writes what is below that place alone, by the names that it has there (safetensors: its keys, joined\n"
    "by dots): weights without the rest of the training. --only, --exclude and --cast choose; --map renames and\n"
    "rearranges by a mapping (ckpt map), with the sizes that its import found. A note on standard error says what the\n"
    "format cannot hold and was left out or converted.",
    "  ckpt export /data/run7 model.safetensors\n"
    "  ckpt export /data/run7@step:400 state.pt\n"
    "  ckpt export /data/run7 weights --at model --shard-bytes 5000000000\n"
    "  ckpt export /data/run7 state --format hfai --shards 8\n"
    "  ckpt export /data/run7@latest ./for-hf --at model --map llama-tune-to-hf --config config.json\n"
    "  ckpt export /data/run7 news --format csv --since step:100\n"
    "  ckpt export /data/models/llama3-8b.1.1 ./Llama-3-8B-copy\n",
    "0 written, 2 error"};

// "xyz" of "a/exp.xyz". What has no letter ("llama3.1") or no end ("v1.5-base") is no ending.
std::string ending_of(const std::string& path) {
  const size_t dot = path.find_last_of("./");
  if (dot == std::string::npos || path[dot] == '/' || dot == 0 || path[dot - 1] == '/') return "";
  const std::string ending = path.substr(dot + 1);
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const bool is_word = std::all_of(ending.begin(), ending.end(), [&](char c) { return is_digit(c) || is_letter(c); });
  return is_word && std::any_of(ending.begin(), ending.end(), is_letter) ? ending : "";
}

// An ending that means nothing here would be a file of a format that nobody expects.
void check_ending(const Args& args) {
  if (args.format.value_or(args.setting("format").value_or("auto")) != "auto") return;
  const std::string path = shown(args.path), ending = ending_of(path);
  if (ending.empty() || ending == "pt" || ending == "pth" || ending == "safetensors") return;
  invalid("unknown ending '." + ending + "' of " + path +
          ": expected .safetensors, .pt, .pth, or none for a directory of safetensors; --format says otherwise");
}

bool is_pt(const std::string& path) { return path.ends_with(".pt") || path.ends_with(".pth"); }

std::string format_of(const Args& args) { return args.format.value_or(args.setting("format").value_or("auto")); }

bool writes_tree(const Args& args) {
  const std::string to = format_of(args);
  return to == "auto" ? is_pt(args.path) : to != "safetensors";
}

void note_what_is_left_out(const Args& args, const Opened& opened) {
  uint64_t left_out = 0;
  for (const ckpt::ObjectInfo& object : opened.reader.objects()) {
    const std::string_view name = object.name;  // the main tree and what of it is each rank's own
    left_out += !writes_tree(args) || (name != CKPT_TREE_OBJECT && name != CKPT_TREE_OBJECT ".per_rank");
  }
  if (left_out == 0) return;
  const char* place = writes_tree(args) ? "a .pt" : "safetensors";
  std::fputs(strformat("ckpt: note: left out {}, which {} cannot hold\n", counted(left_out, "object"), place).c_str(),
             stderr);
}

// torch.load(weights_only=True) refuses all that is numpy's. Composer and OLMo load without.
void note_what_is_converted(const Args& args, const Opened& opened) {
  const std::string to = format_of(args);
  if (!writes_tree(args) || to == "composer" || to.starts_with("olmo")) return;
  const ckpt::Tree tree = opened.reader.tree();
  uint64_t arrays = 0, numbers = 0;
  for (uint64_t i = 0; i < tree.size(); i++) {
    const ckpt::Node node = tree.at(i);
    const std::string_view name = node.kind == CKPT_NODE_RECORD ? std::string_view(node.text, node.text_size) : "";
    if (name == "numpy.ndarray") arrays++;
    if (name.starts_with("numpy.") && node.find("value")) numbers++;
  }
  if (arrays + numbers == 0) return;
  std::fputs(
      strformat("ckpt: note: wrote {} of numpy as torch's tensors and {} as Python's, since weights_only takes no "
                "numpy\n",
                counted(arrays, "array"), counted(numbers, "number"))
          .c_str(),
      stderr);
}

// As torch.distributed.checkpoint does.
void note_what_dcp_changes(const Args& args, const Opened& opened) {
  if (format_of(args) != "dcp") return;
  const ckpt::Tree tree = opened.reader.tree();
  uint64_t numbers = 0, ordered = 0;
  for (uint64_t i = 0; i < tree.size(); i++) {
    const ckpt::Node node = tree.at(i);
    numbers += node.key_kind == CKPT_KEY_INT;
    ordered += node.kind == CKPT_NODE_RECORD && node.text_view() == "collections.OrderedDict";
  }
  if (numbers + ordered == 0) return;
  std::fputs(strformat("ckpt: note: wrote {} as text and {} as dict, as torch does\n", counted(numbers, "integer key"),
                       counted(ordered, "OrderedDict"))
                 .c_str(),
             stderr);
}

// What --since names: a checkpoint, or a selector of the store that CHECKPOINT is in.
std::string since_of(const Args& args, const ckpt::Options& options) {
  const std::string& since = *args.since;
  if (since.find_first_of("/@") != since.npos) return since;
  std::string store = locate(args.checkpoint, options, args.setting("mirror").has_value()).store;
  const size_t query = is_web(store) ? std::min(store.find('?'), store.size()) : store.size();
  return store.insert(query, "@" + since);
}

int run_csv(const Args& args, const ckpt::Options& options) {
  const Mapped& mapped = args.mapped;
  if (args.shards || args.shard_bytes || mapped.map || mapped.map_at || mapped.config || mapped.only ||
      mapped.exclude || mapped.strict || mapped.cast || mapped.back || mapped.verify_after)
    invalid("--format csv takes no other flags than --at, --since and --run");
  const Opened opened = open_checkpoint(args.checkpoint, args, options);
  const std::string at = args.at.value_or("");
  std::optional<Opened> since;
  if (args.since) since = open_checkpoint(since_of(args, options), args, options);
  const uint64_t tables = export_csv(opened.reader, since ? &since->reader : nullptr, at, args.path, options);
  if (args.json)
    print_json({{"id", opened.info.id},
                {"path", args.path},
                {"tables", tables},
                {"since", since ? Json(since->info.id) : Json(nullptr)}});
  else if (since)
    print(strformat("exported what changed in {} from {} to {}, to {}\n", counted(tables, "table"),
                    escaped(since->info.id), escaped(opened.info.id), escaped(args.path)));
  else
    print(
        strformat("exported {} of {} to {}\n", counted(tables, "table"), escaped(opened.info.id), escaped(args.path)));
  return kExitOk;
}

int run(const Args& args) {
  ckpt::Options options = make_options(args);
  if (args.format == "csv") return run_csv(args, options);
  if (args.since) invalid("--since is for --format csv; for other programs see docs/tables.md");
  check_ending(args);
  if (args.format) options.set("format", *args.format);
  if (args.shards) options.set("shards", *args.shards);
  if (args.shard_bytes) options.set("shard_bytes", *args.shard_bytes);
  if (args.at) options.set("at", *args.at);
  set_mapped(options, args.mapped);
  options.check();
  Opened opened = open_checkpoint(args.checkpoint, args, options);
  const Work work = watch(options, [&] { opened.reader.export_to(args.path, options); });
  if (args.json) {
    print_json({{"id", opened.info.id}, {"path", args.path}, {"requests", requests_json(work.stats)}});
  } else {
    print(strformat("exported {} to {}\n", escaped(opened.info.id), escaped(args.path)));
    print(requests_line(work.stats));
  }
  note_what_is_left_out(args, opened);
  note_what_is_converted(args, opened);
  note_what_dcp_changes(args, opened);
  return kExitOk;
}

}  // namespace
}  // namespace cmd_export

void add_export(CLI::App& app, Action& chosen) {
  using namespace cmd_export;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("CHECKPOINT", args->checkpoint, kCheckpointHelp).required();
  command.add("PATH", args->path, "the file or directory to make").required();
  command.add("--format", args->format, "the format, whatever PATH ends in")
      .type("auto|safetensors|pt|hfai|dcp|composer|olmo|olmo-safetensors|torchtune|recis|meta|csv");
  command.add("--shards", args->shards, "hfai, dcp, meta and recis: the number of files, or of shards");
  command.add("--shard-bytes", args->shard_bytes, "safetensors and torchtune: bytes of tensors in a file, at most");
  command.add("--at", args->at, kAtHelp).type("PLACE");
  command.add("--since", args->since, "csv: only what changed since this checkpoint, such as step:100")
      .type("SELECTOR");
  add_mapped(command, args->mapped);
  command.add("--verify-after", args->mapped.verify_after, "read back what was written, and compare each element");
  command.add_run(*args);
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli
