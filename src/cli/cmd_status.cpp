// ckpt status: whether all is well with a store, for a monitor and whoever is on call.
#include <algorithm>
#include <charconv>
#include <set>

#include "cli/command.h"
#include "cli/listing.h"
#include "cli/text.h"

namespace cli {
namespace cmd_status {
namespace {

struct Args : Common {
  std::string store, max_age;
  bool prometheus = false;
};

constexpr Words kWords = {
    "status", "say in one line whether all is well",
    "Names the latest checkpoint of a run, its step and age, and what is wrong: there is none, a newer one cannot be\n"
    "loaded, one is damaged, or it is older than --max-age. With -o mirror=…, also how many the mirror lacks; that is\n"
    "wrong once one of them is older than --max-age (with -o mirror_keep_last=N, as its trainer has, only what is "
    "newer\n"
    "than what it has counts), or if it has none, or alone has the latest. Attempts that are unfinished are counted, "
    "not wrong:\n"
    "one may be written right now. Reads lists and the ends of MANIFESTs, and of the latest also each part's size, "
    "header,\n"
    "trailer and index: some small reads for each. ckpt verify reads data.\n"
    "--prometheus prints figures for a textfile collector: write them to a file, and rename that.",
    "  ckpt status /data/run7 --max-age 2h\n"
    "  ckpt status /data/run7 --max-age 90min -o mirror=s3://bucket/run7\n"
    "  ckpt status /data/run7 --json | jq .latest_step\n"
    "  ckpt status /data/run7 --prometheus > run7.new; mv run7.new /var/lib/node_exporter/run7.prom\n",
    "0 all is well, 1 something is wrong, 2 cannot say (no such store, I/O error, a newer format)"};

// "90min": seconds. Empty: none.
std::optional<uint64_t> parse_age(const std::string& text) {
  constexpr std::pair<std::string_view, uint64_t> kUnits[] = {
      {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}};
  if (text.empty()) return std::nullopt;
  uint32_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& [name, seconds] : kUnits)
    if (code == std::errc() && number > 0 && unit == name) return number * seconds;
  invalid("--max-age needs a whole number and s, min, h or d, such as 2h or 90min; found '" + text + "'");
}

// What a person reads and what a monitor counts, of one look at the store.
struct Health {
  std::string run;
  std::optional<ckpt::CheckpointInfo> latest;
  uint64_t count[CKPT_CHECKPOINT_UNREADABLE + 1] = {};  // by state
  std::vector<std::string> wrong, unknown;
  std::optional<uint64_t> lacks, lag_seconds;  // of the mirror

  int code() const { return !wrong.empty() ? kExitNo : unknown.empty() ? kExitOk : kExitError; }
};

const char* code_name(int code) { return code == kExitOk ? "ok" : code == kExitNo ? "WRONG" : "CANNOT SAY"; }

// As other commands choose: the run that was named, else main, or the only one.
std::string choose_run(const Args& args, const std::vector<ckpt::CheckpointInfo>& all) {
  if (const auto run = args.setting("run")) return *run;
  std::set<std::string> runs;
  for (const ckpt::CheckpointInfo& info : all)
    if (counts(info)) runs.insert(info.run);
  if (runs.size() == 1) return *runs.begin();
  if (runs.empty() || runs.contains("main")) return "main";
  fail(CKPT_NOT_FOUND, "the store has several runs, none of them main: name one by --run; there are " +
                           joined(std::vector<std::string>(runs.begin(), runs.end())));
}

// Of a directory that cannot be read only its name is known: of one session it does not tell which is newer.
void look_at_newer(const ckpt::Report& report, Health* health) {
  uint64_t damaged = 0, unread = 0;
  for (const ckpt::Finding& finding : report)
    if (finding.kind == CKPT_FINDING_PASSED_OVER) (is_damage(finding.status) ? damaged : unread)++;
  if (damaged > 0) health->wrong.push_back(counted(damaged, "checkpoint") + " newer than the latest cannot be loaded");
  if (unread > 0)
    health->unknown.push_back(counted(unread, "checkpoint") + " that may be newer than the latest cannot be read");
}

void look_at_latest(const ckpt::Store& store, ckpt::Options options, Health* health) try {
  options.set("run", health->run);
  const ckpt::Reader reader = ckpt::Reader::open(store, "latest", options);
  health->latest = reader.info();
  look_at_newer(reader.report(), health);
  const std::vector<std::string> damages = damages_of_parts(reader, options);
  if (!damages.empty())
    health->wrong.push_back(strformat("the latest is damaged: {}{}", damages[0], damages.size() > 1 ? ", …" : ""));
} catch (const ckpt::Error& error) {
  if (error.status() == CKPT_NOT_FOUND)
    health->wrong.push_back("no checkpoint of run \"" + escaped(health->run) + "\" yet");
  else if (is_damage(error.status()))
    health->wrong.push_back("none can be loaded: " + error_text(error));
  else
    throw;
}

void look_at_states(const std::vector<Entry>& entries, Health* health) {
  std::vector<std::string> names[std::size(health->count)];
  for (const Entry& entry : entries) {
    health->count[entry.info.state]++;
    names[entry.info.state].push_back(escaped(entry.info.id));
  }
  for (const int32_t state : {CKPT_CHECKPOINT_DAMAGED, CKPT_CHECKPOINT_UNREADABLE, CKPT_CHECKPOINT_REVISION}) {
    if (names[state].empty()) continue;
    const std::string more = names[state].size() > 3 ? ", …" : "";
    names[state].resize(std::min<size_t>(names[state].size(), 3));
    auto& where = state == CKPT_CHECKPOINT_DAMAGED ? health->wrong : health->unknown;
    where.push_back(strformat("{} {} ({}{})", health->count[state], state_name(state), joined(names[state]), more));
  }
}

void look_at_age(std::optional<uint64_t> max_age, Health* health) {
  if (!health->latest || !max_age) return;
  const auto age = age_seconds(*health->latest);
  if (!age)
    health->unknown.push_back("the age is unknown: the clock of the latest one's writer is ahead of this machine's");
  else if (*age > *max_age)
    health->wrong.push_back("the latest is older than " + human_duration(*max_age));
}

void look_at_mirror(const std::vector<Entry>& entries, bool prunes, std::optional<uint64_t> max_age, Health* health) {
  constexpr uint32_t kAny = CKPT_CHECKPOINT_MIRRORED | CKPT_CHECKPOINT_MIRRORING | CKPT_CHECKPOINT_MIRROR_ONLY;
  const std::vector<const Entry*> lacking = not_mirrored(entries, prunes);
  const auto is_there = [](const Entry& entry) { return (entry.info.flags & kAny) != 0; };
  if (!lacking.empty() && std::none_of(entries.begin(), entries.end(), is_there))
    health->wrong.push_back("the mirror has none of the checkpoints: is its address right?");
  if (health->latest && (health->latest->flags & CKPT_CHECKPOINT_MIRROR_ONLY) != 0)
    health->wrong.push_back("the latest is only in the mirror: the store lost it");
  health->lacks = lacking.size();
  health->lag_seconds = lacking.empty() ? 0 : age_seconds(lacking[0]->info);
  if (max_age && health->lag_seconds > max_age) health->wrong.push_back(lag_text(lacking));
}

Health look(const Args& args, const ckpt::Store& store, const ckpt::Options& options) {
  const auto max_age = parse_age(args.max_age);
  const auto all = list_store(store, args.setting("run").value_or(""));
  Health health;
  health.run = choose_run(args, all);
  std::vector<Entry> entries;  // what is damaged may be of any run
  for (const ckpt::CheckpointInfo& info : all)
    if (health.run == info.run || info.run[0] == '\0') entries.push_back({.info = info});
  look_at_latest(store, options, &health);
  look_at_states(entries, &health);
  look_at_age(max_age, &health);
  const bool prunes = args.setting("mirror_keep_last").has_value();
  if (args.setting("mirror")) look_at_mirror(entries, prunes, max_age, &health);
  return health;
}

std::string line_of(const Health& health) {
  std::vector<std::string> facts = health.wrong;
  facts.insert(facts.end(), health.unknown.begin(), health.unknown.end());
  if (const auto& latest = health.latest)
    facts.push_back(strformat("latest {}, {}{} old", escaped(latest->id),
                              latest->step < 0 ? "" : strformat("step {}, ", latest->step), age_text(*latest)));
  std::string counts = strformat("{} committed", health.count[CKPT_CHECKPOINT_COMMITTED]);
  if (const uint64_t open = health.count[CKPT_CHECKPOINT_OPEN]) counts += strformat(", {} unfinished", open);
  if (const uint64_t aborted = health.count[CKPT_CHECKPOINT_ABORTED]) counts += strformat(", {} aborted", aborted);
  facts.push_back(counts);
  if (health.lacks) facts.push_back(strformat("mirror lacks {}", *health.lacks));
  const Color color = health.code() == kExitOk ? Color::kGreen : Color::kRed;
  return colored(code_name(health.code()), color) + ": " + joined(facts, "; ") + "\n";
}

// A figure of both --json and --prometheus; without a value it is null there and absent here.
struct Figure {
  const char* name;
  const char* help;
  std::optional<int64_t> value;
};

std::vector<Figure> figures_of(const Health& health) {
  using Value = std::optional<int64_t>;
  const auto& latest = health.latest;
  const auto of = [&](int32_t state) { return static_cast<int64_t>(health.count[state]); };
  const auto age = latest ? age_seconds(*latest) : std::nullopt;
  return {{"status", "0 all is well, 1 something is wrong, 2 cannot say", health.code()},
          {"latest_step", "step of the latest checkpoint", latest && latest->step >= 0 ? Value(latest->step) : Value()},
          {"latest_age_seconds", "age of the latest checkpoint", age ? Value(*age) : Value()},
          {"latest_bytes", "size of the latest checkpoint", latest ? Value(latest->bytes) : Value()},
          {"committed", "checkpoints that are committed", of(CKPT_CHECKPOINT_COMMITTED)},
          {"unfinished", "attempts that are being written or were left by a crash", of(CKPT_CHECKPOINT_OPEN)},
          {"aborted", "attempts that were given up", of(CKPT_CHECKPOINT_ABORTED)},
          {"damaged", "checkpoints whose MANIFEST is damaged", of(CKPT_CHECKPOINT_DAMAGED)},
          {"unreadable", "checkpoints that cannot be read now", of(CKPT_CHECKPOINT_UNREADABLE)},
          {"mirror_lacks", "checkpoints that the mirror lacks", health.lacks ? Value(*health.lacks) : Value()},
          {"mirror_lag_seconds", "age of the oldest one that the mirror lacks",
           health.lag_seconds ? Value(*health.lag_seconds) : Value()}};
}

std::string label_value(const std::string& text) {
  if (const size_t end = text.find('\n'); end != text.npos)  // which has an escape there, too
    return label_value(text.substr(0, end)) + "\\n" + label_value(text.substr(end + 1));
  std::string out;
  for (const char c : escaped(text)) out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return out;
}

std::string prometheus_text(const std::string& store, const std::string& run, const std::vector<Figure>& figures) {
  std::string text;
  for (const Figure& figure : figures)
    if (figure.value)
      text += strformat("# HELP ckpt_{} {}\n# TYPE ckpt_{} gauge\nckpt_{}{store=\"{}\",run=\"{}\"} {}\n", figure.name,
                        figure.help, figure.name, figure.name, label_value(store), label_value(run), *figure.value);
  return text;
}

Json to_json(const std::string& store, const Health& health) {
  Json json = {{"store", store},
               {"run", health.run},
               {"wrong", Json::array(health.wrong)},
               {"unknown", Json::array(health.unknown)},
               {"latest_checkpoint", health.latest ? cli::to_json(*health.latest) : Json(nullptr)}};
  for (const Figure& figure : figures_of(health))
    json.add(figure.name == std::string_view("status") ? "exit_code" : figure.name,
             figure.value ? Json(*figure.value) : Json(nullptr));
  return json;
}

int run(const Args& args) try {
  const ckpt::Options options = make_options(args);
  const std::string path = locate_store(args.store, options, args.setting("mirror").has_value());
  const Health health = look(args, ckpt::Store::open(path, options), options);
  if (args.json)
    print_json(to_json(shown(path), health));
  else
    print(args.prometheus ? prometheus_text(shown(path), health.run, figures_of(health)) : line_of(health));
  return health.code();
} catch (const ckpt::Error&) {
  // A collector that gets nothing would go on with old figures, and an alert may be for run "main".
  if (args.prometheus)
    print(prometheus_text(shown(args.store), args.setting("run").value_or("main"),
                          {{"status", "2 cannot say", kExitError}}));
  throw;
}

}  // namespace
}  // namespace cmd_status

void add_status(CLI::App& app, Action& chosen) {
  using namespace cmd_status;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("STORE", args->store, "the directory that holds the checkpoints").required();
  command.add("--max-age", args->max_age, "wrong if the latest is older, such as 2h, 90min or 1d").type("AGE");
  command.add("--prometheus", args->prometheus, "print figures in Prometheus' text format");
  command.add_run(*args);
  command.run(chosen, [args] {
    if (args->json && args->prometheus) invalid("--json and --prometheus exclude each other");
    return run(*args);
  });
}

}  // namespace cli
