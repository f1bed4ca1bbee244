// ckpt du: what takes the space in a store, or in a checkpoint.
#include <algorithm>
#include <map>

#include "cli/command.h"
#include "cli/listing.h"
#include "cli/table.h"

namespace cli {
namespace cmd_du {
namespace {

struct Args : Common {
  std::string place;
  int64_t depth = 1;
};

constexpr Words kWords = {
    "du", "show what takes the space",
    "Of a CHECKPOINT: the bytes of its tensors by the first --depth pieces of their names, which '/' and '.' divide. "
    "Each\n"
    "tensor counts in one line, the largest line comes first. STORED is after compression. An alias takes nothing.\n"
    "Of a STORE: a line for each checkpoint and attempt. OWN was written by it; SHARED are files that others of the "
    "store\n"
    "have, too (incremental saves); FREED is what ckpt rm of it alone frees. A file that several share counts once in "
    "the\n"
    "last line. Reads MANIFESTs, no data.",
    "  ckpt du /data/run7\n"
    "  ckpt du /data/run7@latest --depth 3\n"
    "  ckpt du /data/run7 --json | jq '.checkpoints | max_by(.freed_bytes).id'\n",
    "0 shown, 2 error"};

// One subtree of names.
struct Tree {
  std::string name;
  uint64_t tensors = 0, bytes = 0, stored = 0;
};

// "model.layers.0.weight" to depth 2: "model.layers".
std::string_view top_of(std::string_view name, int64_t depth) {
  size_t end = 0;
  for (int64_t i = 0; i < depth && end != name.npos; i++) end = name.find_first_of("/.", end + 1);
  return name.substr(0, end);
}

std::vector<Tree> trees_of(const ckpt::Reader& reader, int64_t depth) {
  std::map<std::string, Tree, std::less<>> by_name;
  for (const ckpt::TensorInfo& tensor : reader.tensors()) {
    Tree& tree = by_name[std::string(top_of(tensor.name, depth))];
    tree.tensors++;
    if (tensor.alias_of == nullptr) tree.bytes += tensor.bytes;
    tree.stored += tensor.stored_bytes;
  }
  std::vector<Tree> trees;
  for (auto& [name, tree] : by_name) {
    tree.name = name;
    trees.push_back(tree);
  }
  std::stable_sort(trees.begin(), trees.end(), [](const Tree& a, const Tree& b) { return a.bytes > b.bytes; });
  return trees;
}

uint64_t own_bytes(const ckpt::CheckpointInfo& info) { return info.bytes - std::min(info.base_bytes, info.bytes); }

// What both views say of a checkpoint.
void add_sizes(const ckpt::CheckpointInfo& info, Json* json) {
  json->add("bytes", info.bytes);
  json->add("own_bytes", own_bytes(info));
  json->add("shared_bytes", info.shared_bytes);
  json->add("freed_bytes", freed_bytes(info));
}

int show_checkpoint(const Args& args, const ckpt::Options& options) {
  const Opened opened = open_checkpoint(args.place, args, options);
  const ckpt::CheckpointInfo info = opened.store.find(opened.info.id);  // which tells what is shared
  const std::vector<Tree> trees = trees_of(opened.reader, args.depth);
  if (args.json) {
    Json json = {{"id", info.id}, {"depth", args.depth}};
    json.add(
        "trees", Json::array(trees, [](const Tree& tree) {
          return Json{
              {"name", tree.name}, {"tensors", tree.tensors}, {"bytes", tree.bytes}, {"stored_bytes", tree.stored}};
        }));
    add_sizes(info, &json);
    print_json(json);
    return kExitOk;
  }
  Table table(
      {{"NAME", Align::kLeft, true}, {"TENSORS", Align::kRight}, {"BYTES", Align::kRight}, {"STORED", Align::kRight}});
  for (const Tree& tree : trees)
    table.add({escaped(tree.name), std::to_string(tree.tensors), human_bytes(tree.bytes), human_bytes(tree.stored)});
  print(table.empty() ? "no tensors\n" : table.render(terminal_width()));
  print(strformat("{}: {} in files, {} of them its own; ckpt rm frees {}{}\n", escaped(info.id),
                  human_bytes(info.bytes), human_bytes(own_bytes(info)), human_bytes(freed_bytes(info)),
                  info.shared_bytes == 0 ? "" : ", " + stays_text(info)));
  return kExitOk;
}

// What all take together: on a disk, where a file has several names, each file once.
uint64_t total_bytes(const std::string& path, const std::vector<Entry>& entries) {
  FileSizes all;
  uint64_t elsewhere = 0;
  for (const Entry& entry : entries) {
    FileSizes files = files_of(path, entry.info.id);
    if (files.empty()) elsewhere += entry.info.bytes;
    all.merge(files);
  }
  for (const auto& [file, size] : all) elsewhere += size;
  return elsewhere;
}

int show_store(const Args& args, const std::string& path, const ckpt::Options& options) {
  const std::vector<Entry> entries = read_entries(ckpt::Store::open(path, options), args.setting("run").value_or(""));
  const uint64_t total = total_bytes(path, entries);
  if (args.json) {
    Json json = {{"store", shown(path)}, {"bytes", total}};
    json.add("checkpoints", Json::array(entries, [](const Entry& entry) {
               Json one = {{"id", entry.info.id}, {"state", state_name(entry.info.state)}};
               add_sizes(entry.info, &one);
               return one;
             }));
    print_json(json);
    return kExitOk;
  }
  Table table({{"CHECKPOINT", Align::kLeft, true},
               {"STATE"},
               {"BYTES", Align::kRight},
               {"OWN", Align::kRight},
               {"SHARED", Align::kRight},
               {"FREED", Align::kRight}});
  for (const Entry& entry : entries) {
    const ckpt::CheckpointInfo& info = entry.info;
    table.add({escaped(info.id), state_name(info.state), human_bytes(info.bytes), human_bytes(own_bytes(info)),
               human_bytes(info.shared_bytes), human_bytes(freed_bytes(info))});
  }
  if (!table.empty()) print(table.render(terminal_width()));
  print(strformat("{} in {}: {}\n", counted(entries.size(), "checkpoint"), escaped(shown(path)), human_bytes(total)));
  return kExitOk;
}

int run(const Args& args) {
  const ckpt::Options options = make_options(args);
  const Target target = locate(args.place, options, args.setting("mirror").has_value());
  if (target.kind == Target::Kind::kStore) return show_store(args, target.store, options);
  return show_checkpoint(args, options);
}

}  // namespace
}  // namespace cmd_du

void add_du(CLI::App& app, Action& chosen) {
  using namespace cmd_du;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("PLACE", args->place, "a STORE, or a checkpoint: its directory, or STORE@SELECTOR").required();
  command.add("--depth", args->depth, "of a checkpoint: how many pieces of a name make a line (1)").positive();
  command.add_run(*args);
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli
