// ckpt import: saves a .pt, a safetensors file or set, or a directory of DCP, hfai or a trainer as a checkpoint.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "cli/command.h"
#include "cli/foreign.h"
#include "cli/mapped.h"
#include "cli/progress.h"
#include "cli/text.h"

namespace cli {
namespace cmd_import {
namespace {

namespace fs = std::filesystem;

struct Args : Common {
  std::string file, store, label;
  int64_t step = -1;
  Mapped mapped;
};

constexpr Words kWords = {
    "import", "save a .pt, DCP or safetensors file as a checkpoint",
    "Saves a PyTorch .pt file, a directory of torch.distributed.checkpoint (DCP), a safetensors file, a Hugging Face\n"
    "set (its directory or its model.safetensors.index.json), an hfai directory of PART_*.pt, a directory of Hugging\n"
    "Face's Trainer, of accelerate, torchtune, Meta, OLMo, RecIS, DeepSpeed or Megatron, one of a .pt of each rank,\n"
    "a pipeline of diffusers, a file of Composer, NeMo or numpy, or a pickle as a checkpoint. The content decides the "
    "format, not the name; the name gives the label,\n"
    "unless --label does. FILE may be an\n"
    "s3:// address of a file or directory, or an https:// address of a file (of a DCP directory that of its\n"
    ".metadata, since a web server lists no names), read by ranges, in little memory; a token for\n"
    "the host comes from CKPT_HTTP_TOKEN (of huggingface.co also HF_TOKEN), or -o "
    "'http_header=Authorization: Bearer T'.\n"
    "The checkpoint is of run \"main\", so that a load without options finds it. If a trainer "
    "has used that run since the\n"
    "last import, it is of run \"import\", so that the trainer is not disturbed; a note says so, "
    "and --run import opens it.\n"
    "Nothing that a .pt says is executed. Metadata and the split into files are kept for ckpt "
    "export; notes on standard\n"
    "error name the files of a directory that were left out, and say what has no checksums. "
    "Makes the store if there is\n"
    "none. --only, --exclude and --cast choose, also what cannot be read; --map renames and rearranges by a mapping "
    "(ckpt map), without a copy.",
    "  ckpt import model.safetensors /data/run7 --label pretrained\n"
    "  ckpt import epoch9.pt /data/run7 && ckpt info /data/run7@label:epoch9\n"
    "  ckpt import ./Llama-3-8B /data/models -o compression=auto\n"
    "  ckpt import ./Llama-3-8B /data/models --map llama-hf-to-tune --label tune\n"
    "  ckpt import epoch9.pt /data/run7 --exclude optimizer\n"
    "  ckpt import s3://bucket/run7/checkpoint-500 /data/models --label base\n"
    "  ckpt import https://host/model.safetensors.index.json /data/models --label base\n",
    "0 saved and durable, 1 saved, but not in the mirror of -o mirror=, 2 error"};

// What the file has no checksums of may have been damaged before it came here; code is not kept.
void note_what_is_unsure(const ckpt::Store& store, const ckpt::CheckpointInfo& info) {
  const ckpt::Reader reader = ckpt::Reader::open(store, info.id);
  if (const auto function = reader.attr("import.code"))
    std::fputs(
        strformat("ckpt: note: the file is a module of TorchScript with code (function \"{}\"), of which only the "
                  "values were kept\n",
                  escaped(*function))
            .c_str(),
        stderr);
  const std::optional<std::string> count = reader.attr("import.unchecked");
  if (!count) return;
  std::fputs(
      strformat("ckpt: note: the file has no checksums of {} of its entries; what was damaged in these before could "
                "not be noticed\n",
                *count)
          .c_str(),
      stderr);
}

bool is_legal(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._=+-").find(c) != std::string_view::npos;
}

// "epoch9" of "runs/epoch9.pt", "Llama-3-8B" of "./Llama-3-8B/".
std::string label_of(const std::string& file) {
  fs::path path = is_web(file) ? fs::path(shown(file)) : fs::absolute(file).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::string label = path.filename().string();
  if (!is_directory(path.string()))
    for (std::string_view ending : {".safetensors.index.json", ".safetensors", ".pt", ".pth", ".bin", ".ckpt"})
      if (label.ends_with(ending)) label.resize(label.size() - ending.size());
  for (char& c : label)
    if (!is_legal(c)) c = '-';
  label.erase(0, std::min(label.find_first_not_of(".-"), label.size()));
  label.resize(std::min<size_t>(label.size(), 200));
  if (label.empty()) invalid("the name of " + file + " makes no label: add --label LABEL");
  return label;
}

void note_what_is_left_out(const Args& args, const ckpt::Store& store, const ckpt::CheckpointInfo& info) {
  const auto left = ckpt::Reader::open(store, info.id).attr("import.left_out");
  if (!left) return;
  const std::string names = some_names(texts_of(*left));
  std::fputs(strformat("ckpt: note: left out of {}: {}\n", escaped(shown(args.file)), names).c_str(), stderr);
}

void note_run(const Args& args, const ckpt_checkpoint_info& info) {
  if (args.setting("run") || std::string_view(info.run) == "main") return;
  std::fputs(strformat("ckpt: note: saved into run \"{}\", since a trainer uses run \"main\"; --run {} opens it, in "
                       "programs option run\n",
                       info.run, info.run)
                 .c_str(),
             stderr);
}

// An import ends with the mirror's first failure, so that it may be whole here alone. Only a list looks at both.
bool is_mirrored(const Args& args, const ckpt::Store& store, const std::string& id) {
  const std::optional<std::string> mirror = args.setting("mirror");
  if (!mirror) return true;
  for (const ckpt::CheckpointInfo& one : store.list())
    if (one.id == id && (one.flags & CKPT_CHECKPOINT_MIRRORED) != 0) return true;
  std::fputs(
      strformat("ckpt: {} was imported, but the mirror does not have it; `ckpt cp {}/{} {}` says why, or copies it\n",
                id, escaped(shown(args.store)), id, escaped(shown(*mirror)))
          .c_str(),
      stderr);
  return false;
}

int run(const Args& args) {
  ckpt::Options options = make_options(args);
  set_mapped(options, args.mapped);
  auto store = ckpt::Store::open(args.store, options);
  const std::string label = args.label.empty() ? label_of(args.file) : args.label;
  ckpt::CheckpointInfo info{};
  const Work work = watch(options, [&] { info = store.import(args.file, label, args.step, options); });
  if (args.json) {
    Json json = to_json(info);
    json.add("requests", requests_json(work.stats));
    print_json(json);
  } else {
    print(strformat("imported {}: {}, {}\n", info.id, counted(info.tensor_count, "tensor"), human_bytes(info.bytes)));
    print(requests_line(work.stats));
  }
  note_what_is_unsure(store, info);
  note_run(args, info);
  note_what_is_left_out(args, store, info);
  return is_mirrored(args, store, info.id) ? kExitOk : kExitNo;
}

}  // namespace
}  // namespace cmd_import

void add_import(CLI::App& app, Action& chosen) {
  using namespace cmd_import;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command
      .add("FILE", args->file,
           "a .pt or .safetensors file, a directory or an index.json; or the s3:// or https:// address of one")
      .required();
  command.add("STORE", args->store, "the store to save into").required();
  command.add("--label", args->label, "the checkpoint's label, if not FILE's name: 1-200 of A-Z a-z 0-9 . _ = + -");
  command.add("--step", args->step, "the checkpoint's step").not_negative();
  command.add("--run", args->run, "the run to save into").type("RUN");
  add_mapped(command, args->mapped);
  command.add("--verify-after", args->mapped.verify_after, "read back what was written, and compare each element");
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli
