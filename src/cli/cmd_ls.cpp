// ckpt ls: lists the checkpoints and attempts of a store.
#include <chrono>
#include <set>

#include "cli/command.h"
#include "cli/table.h"

namespace cli {
namespace cmd_ls {
namespace {

struct Args : Common {
  std::string store;
};

constexpr Words kWords = {
    "ls", "list the checkpoints of a store",
    "Lists every checkpoint and every attempt to save one, oldest first. "
    "STATE is committed (can be loaded), open (being\n"
    "written, or left by a crash), aborted (given up), damaged (its MANIFEST cannot be read; "
    "see ckpt repair),\n"
    "unreadable (this user cannot read it, or the disk fails now) or newer revision (this ckpt is too old for it). "
    "NOTES marks the latest of each run, foreign ones (copied from another store),\n"
    "rebuilt ones (by ckpt repair --force) and copies (of another directory of this store), and how much of SIZE a\n"
    "checkpoint shares with others, which stays when it is removed.\n"
    "With -o mirror=…, NOTES also say what the mirror has: mirrored, mirroring (a copy has begun), only in the "
    "mirror;\nand the last line says if it lags.\n"
    "A web server (https://) does not tell what it holds: name a checkpoint there by its address.",
    "  ckpt ls /data/run7\n"
    "  ckpt ls /data/run7 -o mirror=s3://bucket/run7\n"
    "  ckpt ls /data/run7 --run main\n"
    "  ckpt ls /data/run7 --json | jq -r '.checkpoints[] | select(.latest) | .id'\n",
    "0 listed, 2 error"};

struct Entry {
  ckpt::CheckpointInfo info;
  bool latest = false;
};

// The id that "latest" means in each run.
std::set<std::string> latest_ids(const ckpt::Store& store, const std::vector<ckpt::CheckpointInfo>& all) {
  std::set<std::string> runs, ids;
  for (const ckpt::CheckpointInfo& info : all)
    if (info.state == CKPT_CHECKPOINT_COMMITTED) runs.insert(info.run);
  for (const std::string& run : runs) try {
      ids.insert(store.find("latest", {{"run", run}}).id);
    } catch (const ckpt::Error&) {
      // It was removed since it was listed, or none can be loaded: then none is the latest, and the list says the rest.
    }
  return ids;
}

// Of one run, or of all: then `run` is empty.
std::vector<Entry> read_entries(const ckpt::Store& store, const std::string& run) {
  std::vector<Entry> entries;
  const auto all = store.list();
  const auto latest = latest_ids(store, all);
  for (const ckpt::CheckpointInfo& info : all)
    if (run.empty() || run == info.run) entries.push_back({info, latest.contains(info.id)});
  return entries;
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
  for (std::string& name : flag_names(entry.info.flags)) notes.push_back(std::move(name));
  if (entry.info.shared_bytes != 0) notes.push_back("shares " + human_bytes(entry.info.shared_bytes));
  return joined(notes);
}

Color state_color(int32_t state) {
  switch (state) {
    case CKPT_CHECKPOINT_COMMITTED:
      return Color::kNone;
    case CKPT_CHECKPOINT_DAMAGED:
    case CKPT_CHECKPOINT_UNREADABLE:
      return Color::kRed;
    case CKPT_CHECKPOINT_OPEN:
    case CKPT_CHECKPOINT_REVISION:
      return Color::kYellow;
    default:
      return Color::kDim;
  }
}

// Without a MANIFEST, an attempt's world size and number of tensors may be unknown.
std::string count_text(uint64_t count, bool known) { return known ? std::to_string(count) : "-"; }

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
    const ckpt::CheckpointInfo& info = entry.info;
    bool committed = info.state == CKPT_CHECKPOINT_COMMITTED;
    table.add({escaped(info.id), escaped(info.label), escaped(info.run),
               info.step < 0 ? "-" : std::to_string(info.step), count_text(info.world_size, info.world_size > 0),
               count_text(info.tensor_count, committed), human_bytes(info.bytes),
               Cell(state_name(info.state), state_color(info.state)), age_text(info.created_unix_ms), notes(entry)});
  }
  return table.render(terminal_width());
}

// The checkpoints that the mirror should have by now: those that are newer than all of their run that it has.
std::vector<const Entry*> not_mirrored(const std::vector<Entry>& entries) {
  std::vector<const Entry*> lacking;
  for (const Entry& entry : entries) {
    const uint32_t flags = entry.info.flags;
    if ((flags & (CKPT_CHECKPOINT_MIRRORED | CKPT_CHECKPOINT_MIRROR_ONLY)) != 0)
      std::erase_if(lacking, [&](const Entry* one) { return std::string_view(one->info.run) == entry.info.run; });
    else if (entry.info.state == CKPT_CHECKPOINT_COMMITTED &&
             (flags & (CKPT_CHECKPOINT_FOREIGN | CKPT_CHECKPOINT_COPY)) == 0)
      lacking.push_back(&entry);
  }
  return lacking;
}

std::string lag_text(const std::vector<const Entry*>& lacking) {
  if (lacking.empty()) return "";
  const ckpt::CheckpointInfo& first = lacking[0]->info;
  return "the mirror lags: it lacks the newest " + std::to_string(lacking.size()) + ", from " + escaped(first.id) +
         " on, which was saved " + age_text(first.created_unix_ms) + " ago\n";
}

int run(const Args& args) {
  ckpt::Options options = make_options(args);
  const bool mirrored = args.setting("mirror").has_value();
  std::string path = locate_store(args.store, options, mirrored);
  const std::vector<Entry> entries = read_entries(ckpt::Store::open(path, options), args.run);
  if (!args.json) {
    const std::string none =
        "no checkpoints in " + escaped(shown(path)) + (args.run.empty() ? "" : " of run \"" + args.run + "\"") + "\n";
    print(entries.empty() ? none : table_text(entries) + (mirrored ? lag_text(not_mirrored(entries)) : ""));
    return kExitOk;
  }
  Json all = Json::object();
  all.add("store", shown(path));
  all.add("checkpoints", Json::array(entries, [](const Entry& entry) {
            Json json = to_json(entry.info);
            json.add("latest", entry.latest);
            return json;
          }));
  if (mirrored) all.add("mirror_lacks", not_mirrored(entries).size());
  print_json(all);
  return kExitOk;
}

}  // namespace
}  // namespace cmd_ls

void add_ls(CLI::App& app, Action& chosen) {
  using namespace cmd_ls;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("STORE", args->store, "the directory that holds the checkpoints").required();
  command.add("--run", args->run, "only the checkpoints of this run").type("RUN");
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli
