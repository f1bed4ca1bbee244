// ckpt import: saves a .pt, a safetensors file or set, or an hfai directory as a checkpoint.
#include <cstdio>

#include "cli/command.h"
#include "cli/text.h"

namespace cli {
namespace {

struct Args : Common {
  std::string file, store, label;
  int64_t step = -1;
};

constexpr Words kWords = {
    "import", "save a .pt or safetensors file as a checkpoint",
    "Saves a PyTorch .pt file, a safetensors file, a Hugging Face set "
    "(its directory or its model.safetensors.index.json)\n"
    "or an hfai directory of PART_*.pt as a checkpoint of run \"import\", "
    "so a trainer that uses the same store is not\n"
    "disturbed. If the store has other runs too, open it with -o run=import, or by its id. "
    "The content decides the format,\n"
    "not the name. Nothing that a .pt says is executed. Metadata and the split into files are kept for ckpt export.\n"
    "A note on standard error says what the file has no checksums of.\n"
    "Makes the store if there is none.",
    "  ckpt import model.safetensors /data/run7 --label pretrained\n"
    "  ckpt import epoch9.pt /data/run7 --label epoch9\n"
    "  ckpt info /data/run7@label:epoch9 -o run=import\n"
    "  ckpt import ./Llama-3-8B /data/models --label llama3-8b -o compression=auto\n"
    "  ckpt info /data/models@label:llama3-8b\n",
    "0 saved and durable, 2 error"};

// What the file has no checksums of may have been damaged before it came here.
void note_what_is_unchecked(const ckpt::Store& store, const ckpt::CheckpointInfo& info) {
  const ckpt::Reader reader = ckpt::Reader::open(store, info.id);
  const std::optional<std::string> count = reader.attr("import.unchecked");
  if (!count) return;
  std::fputs(
      format("ckpt: note: the file has no checksums of {} of its entries; what was damaged in these before could "
             "not be noticed\n",
             *count)
          .c_str(),
      stderr);
}

int run(const Args& args) {
  ckpt::Options options = make_options(args);
  auto store = ckpt::Store::open(args.store, options);
  const ckpt::CheckpointInfo info = store.import(args.file, args.label, args.step, options);
  if (args.json)
    print_json(to_json(info));
  else
    print(format("imported {}: {}, {}\n", info.id, counted(info.tensor_count, "tensor"), human_bytes(info.bytes)));
  note_what_is_unchecked(store, info);
  return kExitOk;
}

}  // namespace

void add_import(CLI::App& app, Action& chosen) {
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("FILE", args->file, "a .pt or .safetensors file, a directory or an index.json").required();
  command.add("STORE", args->store, "the store to save into").required();
  command.add("--label", args->label, "the checkpoint's label: 1-200 of A-Z a-z 0-9 . _ = + -").required();
  command.add("--step", args->step, "the checkpoint's step").not_negative();
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli
