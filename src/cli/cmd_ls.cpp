// ckpt ls: lists the checkpoints and attempts of a store.
#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include "cli/command.h"
#include "cli/listing.h"
#include "cli/table.h"

namespace cli {
namespace cmd_ls {
namespace {

struct Args : Common {
  std::string store, sort;
  std::vector<std::string> states;
  std::optional<int64_t> last;
};

constexpr Words kWords = {
    "ls", "list the checkpoints of a store",
    "Lists every checkpoint and every attempt to save one, oldest first. "
    "STATE is committed (its MANIFEST is whole; ckpt verify looks at the parts), open (being\n"
    "written, or left by a crash), aborted (given up), damaged (its MANIFEST cannot be read; "
    "see ckpt repair),\n"
    "unreadable (this user cannot read it, or the disk fails now) or newer revision (this ckpt is too old for it). "
    "NOTES marks the latest of each run, foreign ones (copied from another store),\n"
    "name:N (by ckpt label), rebuilt ones (by ckpt repair --force) and copies (of another directory of this store), "
    "and how much of SIZE a\n"
    "checkpoint shares with others, which stays when it is removed.\n"
    "--state shows only these states, --last N then only the newest N, --sort orders what is left: age oldest first,\n"
    "as without it, but across runs; size largest first; name by id, step-9 before step-10.\n"
    "With -o mirror=…, NOTES also say what the mirror has: mirrored, mirroring (a copy has begun), only in the "
    "mirror;\nand the last line says what it lacks; with -o mirror_keep_last=N, as its trainer has, only what is newer "
    "than what it "
    "has.\n"
    "A web server (https://) does not tell what it holds: name a checkpoint there by its address.",
    "  ckpt ls /data/run7\n"
    "  ckpt ls /data/run7 -o mirror=s3://bucket/run7\n"
    "  ckpt ls /data/run7 --run main --last 5\n"
    "  ckpt ls /data/run7 --state damaged --state open\n"
    "  ckpt ls /data/run7 --json | jq -r '.checkpoints[] | select(.latest) | .id'\n",
    "0 listed, 2 error"};

std::vector<std::string> names_of(const ckpt::CheckpointInfo& info) {
  std::istringstream words(info.names);
  return {std::istream_iterator<std::string>(words), {}};
}

std::string notes(const Entry& entry) {
  std::vector<std::string> notes;
  if (entry.latest) notes.push_back("latest");
  for (std::string& name : flag_names(entry.info.flags)) notes.push_back(std::move(name));
  for (const std::string& name : names_of(entry.info)) notes.push_back("name:" + name);
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
               Cell(state_name(info.state), state_color(info.state)), age_text(info), notes(entry)});
  }
  return table.render(terminal_width());
}

std::vector<std::string> state_names() {
  std::vector<std::string> names;
  for (int32_t state = CKPT_CHECKPOINT_COMMITTED; state <= CKPT_CHECKPOINT_UNREADABLE; state++)
    names.emplace_back(state_name(state));
  return names;
}

void need_known(const char* option, const std::string& word, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), word) != known.end()) return;
  invalid(strformat("{} needs one of {}; found '{}'{}", option, joined(known), word, did_you_mean(word, known)));
}

void check_words(const Args& args) {
  if (!args.sort.empty()) need_known("--sort", args.sort, {"age", "size", "name"});
  for (const std::string& state : args.states) need_known("--state", state, state_names());
}

// "step-9" before "step-10": digits count as numbers.
bool name_less(std::string_view a, std::string_view b) {
  const auto digits = [](std::string_view text) { return std::min(text.find_first_not_of("0123456789"), text.size()); };
  while (!a.empty() && !b.empty()) {
    const size_t in_a = digits(a), in_b = digits(b);
    const bool numbers = in_a > 0 && in_b > 0;
    if (numbers && in_a != in_b) return in_a < in_b;
    const size_t size = numbers ? in_a : 1;
    if (const int order = a.substr(0, size).compare(b.substr(0, size)); order != 0) return order < 0;
    a.remove_prefix(size);
    b.remove_prefix(size);
  }
  return a.size() < b.size();
}

void sort_entries(const std::string& by, std::vector<Entry>* entries) {
  const auto less = [&](const Entry& a, const Entry& b) {
    if (by == "size") return a.info.bytes > b.info.bytes;
    if (by == "name") return name_less(a.info.id, b.info.id);
    return std::pair(a.time, a.info.token) < std::pair(b.time, b.info.token);
  };
  std::stable_sort(entries->begin(), entries->end(), less);
}

// What --state, --last and --sort leave.
std::vector<Entry> filtered(const Args& args, std::vector<Entry> entries) {
  std::erase_if(entries, [&](const Entry& entry) {
    const auto& states = args.states;
    return !states.empty() && std::find(states.begin(), states.end(), state_name(entry.info.state)) == states.end();
  });
  if (const auto last = args.last; last && static_cast<size_t>(*last) < entries.size()) {
    sort_entries("age", &entries);
    entries.erase(entries.begin(), entries.end() - *last);
  }
  if (!args.sort.empty()) sort_entries(args.sort, &entries);
  return entries;
}

std::string none_text(const Args& args, const std::string& path) {
  std::string text = "no checkpoints in " + escaped(shown(path));
  if (const auto run = args.setting("run")) text += " of run \"" + escaped(*run) + "\"";
  if (!args.states.empty()) text += " of state " + joined(args.states, " or ");
  return text + "\n";
}

int run(const Args& args) {
  ckpt::Options options = make_options(args);
  const bool mirrored = args.setting("mirror").has_value();
  std::string path = locate_store(args.store, options, mirrored);
  const std::vector<Entry> all = read_entries(ckpt::Store::open(path, options), args.setting("run").value_or(""));
  const std::vector<Entry> entries = filtered(args, all);
  const auto lacking = not_mirrored(all, args.setting("mirror_keep_last").has_value());
  const std::string lag = mirrored ? lag_text(lacking) : "";
  if (!args.json) {
    print(entries.empty() ? none_text(args, path) : table_text(entries));
    if (!lag.empty()) print(lag + "\n");
    return kExitOk;
  }
  Json json = Json::object();
  json.add("store", shown(path));
  json.add("checkpoints", Json::array(entries, [](const Entry& entry) {
             Json one = to_json(entry.info);
             one.add("latest", entry.latest);
             one.add("names", Json::array(names_of(entry.info)));
             return one;
           }));
  if (mirrored) json.add("mirror_lacks", lacking.size());
  print_json(json);
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
  command.add("--last", args->last, "only the newest N").positive();
  command.add("--state", args->states, "only those of this state, such as damaged; may be repeated")
      .one_value()
      .type("STATE");
  command.add("--sort", args->sort, "the order: age, size or name").type("KEY");
  command.run(chosen, [args] {
    check_words(*args);
    return run(*args);
  });
}

}  // namespace cli
