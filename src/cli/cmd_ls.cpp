// ckpt ls: the checkpoints and attempts of a store.
#include <chrono>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/table.h"

namespace cli {
namespace {

struct Args : Common {
  std::string store;
};

constexpr Words kWords = {
    "ls", "list the checkpoints of a store",
    "Lists every checkpoint and every attempt at one, oldest first. STATE is committed (loadable), open (being "
    "written,\n"
    "or left by a crash), aborted (given up) or damaged (its commit record cannot be read; see ckpt repair). NOTES "
    "marks\n"
    "the latest of each run, foreign ones (copied here from another store) and rebuilt ones (by ckpt repair --force).",
    "  ckpt ls /data/run7\n"
    "  ckpt ls /data/run7 --json | jq -r '.checkpoints[] | select(.latest) | .id'\n",
    "0 listed, 2 error"};

struct Entry {
  ckpt_checkpoint_info info;
  bool latest = false;
};

// The ids that "latest" means, one for each run that has any.
Error latest_ids(const ckpt_store* store, const std::vector<Entry>& entries, std::set<std::string>* ids) {
  std::set<std::string> runs;
  for (const Entry& entry : entries) {
    bool eligible = entry.info.state == CKPT_CHECKPOINT_COMMITTED && (entry.info.flags & CKPT_CHECKPOINT_FOREIGN) == 0;
    if (eligible) runs.insert(entry.info.run);
  }
  for (const std::string& run : runs) {
    Options options;
    CLI_TRY(make_options({.settings = {"run=" + run}}, &options));
    auto info = sized<ckpt_checkpoint_info>();
    Error error = call(ckpt_store_find, store, "latest", options, &info);
    if (!error) ids->insert(info.id);
    // It may have been removed since it was listed.
    if (error && error.status() != CKPT_NOT_FOUND && error.status() != CKPT_GONE) return error;
  }
  return {};
}

Error read_entries(const ckpt_store* store, std::vector<Entry>* entries) {
  List list;
  CLI_TRY(call(ckpt_store_list, store, list.out()));
  for (size_t i = 0; i < ckpt_list_count(list); ++i) {
    Entry entry{sized<ckpt_checkpoint_info>()};
    CLI_TRY(call(ckpt_list_at, list, i, &entry.info));
    entries->push_back(entry);
  }
  std::set<std::string> latest;
  CLI_TRY(latest_ids(store, *entries, &latest));
  for (Entry& entry : *entries) entry.latest = latest.contains(entry.info.id);
  return {};
}

std::string age_text(uint64_t created_unix_ms) {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  auto now_ms = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  if (created_unix_ms == 0 || created_unix_ms > now_ms) return "-";
  return human_duration((now_ms - created_unix_ms) / 1000);
}

std::string notes(const Entry& entry) {
  std::vector<std::string> notes;
  if (entry.latest) notes.push_back("latest");
  if ((entry.info.flags & CKPT_CHECKPOINT_FOREIGN) != 0) notes.push_back("foreign");
  if ((entry.info.flags & CKPT_CHECKPOINT_REBUILT) != 0) notes.push_back("rebuilt");
  return fmt::format("{}", fmt::join(notes, ", "));
}

Color state_color(int32_t state) {
  switch (state) {
    case CKPT_CHECKPOINT_COMMITTED:
      return Color::kNone;
    case CKPT_CHECKPOINT_DAMAGED:
      return Color::kRed;
    case CKPT_CHECKPOINT_OPEN:
      return Color::kYellow;
    default:
      return Color::kDim;
  }
}

// The world size of an attempt without a commit record, and what follows from it, are not always known.
std::string count_text(uint64_t count, bool known) { return known ? fmt::format("{}", count) : "-"; }

std::string table_text(const std::vector<Entry>& entries) {
  Table table({{"CHECKPOINT", Align::kLeft, true},
               {"LABEL", Align::kLeft, true},
               {"RUN"},
               {"STEP", Align::kRight},
               {"RANKS", Align::kRight},
               {"TENSORS", Align::kRight},
               {"SIZE", Align::kRight},
               {"STATE"},
               {"AGE", Align::kRight},
               {"NOTES"}});
  for (const Entry& entry : entries) {
    const ckpt_checkpoint_info& info = entry.info;
    bool committed = info.state == CKPT_CHECKPOINT_COMMITTED;
    table.add({escaped(info.id), escaped(info.label), escaped(info.run),
               info.step < 0 ? "-" : fmt::format("{}", info.step), count_text(info.world_size, info.world_size > 0),
               count_text(info.tensor_count, committed), human_bytes(info.bytes),
               Cell(state_name(info.state), state_color(info.state)), age_text(info.created_unix_ms), notes(entry)});
  }
  return table.render(terminal_width());
}

Error run(const Args& args) {
  Options options;
  CLI_TRY(make_options(args, &options));
  std::string path;
  CLI_TRY(locate_store(args.store, &path));
  Store store;
  CLI_TRY(call(ckpt_store_open, store.out(), path.c_str(), options));
  std::vector<Entry> entries;
  CLI_TRY(read_entries(store, &entries));
  if (!args.json) {
    print(entries.empty() ? "no checkpoints in " + path + "\n" : table_text(entries));
    return {};
  }
  Json checkpoints = Json::array();
  for (const Entry& entry : entries) {
    Json json = to_json(entry.info);
    json["latest"] = entry.latest;
    checkpoints.push_back(json);
  }
  print_json({{"store", path}, {"checkpoints", checkpoints}});
  return {};
}

}  // namespace

void add_ls(CLI::App& app, Run& chosen) {
  auto args = std::make_shared<Args>();
  CLI::App* command = add_command(app, kWords, args.get(), true);
  command->add_option("STORE", args->store, "the directory that holds the checkpoints")->required();
  command->callback([args, &chosen] { chosen = [args](int*) { return run(*args); }; });
}

}  // namespace cli
