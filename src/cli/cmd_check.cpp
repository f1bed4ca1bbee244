// ckpt check: what the file system of a directory promises, without a training.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <cerrno>
#include <filesystem>

#include "cli/command.h"
#include "cli/locate.h"
#include "cli/mount_peers.h"
#include "cli/store_probe.h"
#include "cli/text.h"
#include "store/mount.h"

namespace cli {
namespace cmd_check {
namespace {

struct Args : Common {
  std::string directory;
  std::optional<int64_t> peers;
  int64_t timeout = 60;
};

constexpr Words kWords = {
    "check", "try what a store's file system or server promises",
    "Tries what ckpt needs: names that only one can make, locks, direct I/O, syncs; says what the kernel knows about\n"
    "the mount, and how fast it is. With --peers N, started on N machines at once, they find each other through the\n"
    "directory: when does one see the names, removals and locks of another, and what does ckpt do there?\n"
    "Of another store, in a bucket or of --backend LIB, it tries what ckpt builds on: exclusive puts, large files,\n"
    "ranges, versions, lists, removals, by some 2,500 requests. It works in folders of its own and removes them. A\n"
    "store there is not touched.",
    "  ckpt check /data/run7\n"
    "  ckpt check s3://bucket/run7\n"
    "  ckpt check mine://host/run7 --backend ./libmine.so\n"
    "  srun ckpt check /data/run7 --peers 4      one of the four prints what all have seen\n",
    "0 all that ckpt needs holds, 1 something does not or a peer is missing, 2 error"};

using ckpt::store::Mount;

std::string broken_of(const std::vector<Promise>& promises) {
  std::vector<std::string> names;
  for (const Promise& one : promises)
    if (one.state == State::kBroken) names.push_back(one.name);
  return joined(names);
}

struct Report {
  std::string directory, system;
  Mount mount = {};
  std::vector<Promise> promises = {};
  std::optional<Peers> peers = {};
  std::string broken() const { return broken_of(promises); }
};

constexpr const char* kStates[] = {"ok", "without", "BROKEN"};
std::string ms_text(double ms) { return print_format(ms < 10 ? "%.1f ms" : "%.0f ms", ms); }

std::string delay_text(const Delays& delays) {
  std::string text = "nothing was seen";
  if (!delays.ms.empty()) text = ms_text(delays.median()) + ", worst " + ms_text(delays.worst());
  return delays.missed == 0 ? text : text + strformat(", {} not in time", delays.missed);
}

// By what the kernel says, which is all that ckpt goes by.
std::string locks_text(const Mount& mount) {
  if (!mount.shared()) return "only this machine has the files: a dead rank is found by its lock";
  if (mount.locks() == Mount::Locks::kForAll)
    return "by its options, locks cross machines: a rank whose lock is free and that does not answer is gone";
  return std::string(mount.locks() == Mount::Locks::kOfThisMachine ? "locks do not cross machines"
                                                                   : "nobody can tell whether locks cross machines") +
         ": ckpt asks a silent rank by a file, and refuses maps";
}

void judge(const Mount& mount, const Peers& peers, std::vector<Promise>& to) {
  const auto add = [&](const char* name, State state, const std::string& found) { to.push_back({name, state, found}); };
  const Delays &names = peers.names[kListing], &removals = peers.removals[kListing];
  const State late = names.worst() > 1000 ? State::kWithout : State::kHolds;
  add("peers_exclusive", peers.fair_races == peers.races ? State::kHolds : State::kBroken,
      strformat("{} of {} names were made by exactly one", peers.fair_races, peers.races));
  add("peers_names", names.missed > 0 ? State::kBroken : late,
      "seen after " + delay_text(names) + (late == State::kHolds ? "" : "; each step of a save takes as long"));
  add("peers_removals", removals.missed > 0 ? State::kWithout : State::kHolds, "seen after " + delay_text(removals));
  if (peers.locks_unseen == 0)
    return add("peers_locks", State::kHolds, "seen, their end after " + delay_text(peers.unlocks));
  const bool promised = mount.locks() == Mount::Locks::kForAll;
  add("peers_locks", promised ? State::kBroken : State::kWithout,
      strformat("{} of {} are not seen{}", peers.locks_unseen, peers.locks_unseen + peers.locks_seen,
                promised ? ", though they should be: do not map checkpoints here" : ""));
}

// -1 ms: nothing was seen.
Json to_json(const Delays& d) {
  return {{"count", d.ms.size()}, {"missed", d.missed}, {"median_ms", d.median()}, {"worst_ms", d.worst()}};
}

Json to_json(const Peers& peers) {
  Json json = {{"ids", Json::array(peers.ids)}, {"about", Json::array(peers.about)}};
  for (size_t view = 0; view < 3; view++) {
    json.add(std::string("names_by_") + kViews[view], to_json(peers.names[view]));
    json.add(std::string("removals_by_") + kViews[view], to_json(peers.removals[view]));
  }
  json.add("unlocks", to_json(peers.unlocks));
  json.add("clock_error_ms", peers.clock_error);
  return json;
}

Json to_json(const std::vector<Promise>& promises) {
  return Json::array(promises, [](const Promise& one) -> Json {
    return {{"name", one.name}, {"result", kStates[static_cast<size_t>(one.state)]}, {"found", one.found}};
  });
}

Json to_json(const Report& report) {
  const auto& [directory, system, mount, promises, peers] = report;
  Json json = {{"directory", directory}, {"version", ckpt_version_string()}, {"system", system}};
  json.add("mount",
           {{"type", mount.type}, {"source", mount.source}, {"point", mount.point}, {"options", mount.options}});
  json.add("locks", locks_text(mount));
  json.add("promises", to_json(promises));
  json.add("peers", peers ? to_json(*peers) : Json(nullptr));
  json.add("holds", report.broken().empty());
  return json;
}

void print_promises(const std::vector<Promise>& promises) {
  static constexpr Color kColors[] = {Color::kGreen, Color::kYellow, Color::kRed};
  for (const Promise& one : promises) {
    const auto state = static_cast<size_t>(one.state);
    const std::string text = one.found.empty() ? kStates[state] : padded(kStates[state], 9) + escaped(one.found);
    print(strformat("{}{}\n", padded(one.name, 18), colored(text, kColors[state])));
  }
}

void print_verdict(bool holds) {
  print(holds ? "\nall that ckpt needs holds\n" : "\nsomething that ckpt needs does not hold\n");
}

void print_report(const Report& report) {
  const auto& [directory, system, mount, promises, peers] = report;
  print(strformat("ckpt {}, {}\n{}: {}, {} on {}\n{}\n{}\n\n", ckpt_version_string(), system, escaped(directory),
                  mount.type, escaped(mount.source), escaped(mount.point), escaped(mount.options), locks_text(mount)));
  print_promises(promises);
  for (size_t i = 0; peers && i < peers->ids.size(); i++)
    print(strformat("{}{}: {}\n", i == 0 ? "\n" : "", peers->ids[i], escaped(peers->about[i])));
  for (size_t view = 0; peers && view < 3; view++)
    print(strformat("by {} names {}; removals {}\n", padded(kViews[view], 8), delay_text(peers->names[view]),
                    delay_text(peers->removals[view])));
  if (peers) print("their clocks are compared to within " + ms_text(peers->clock_error) + "\n");
  print_verdict(report.broken().empty());
}

std::string make_folder(const std::string& directory) {
  std::string path = directory + "/" + kPrefix + make_id();
  if (mkdir(path.c_str(), 0700) == 0) return path;
  const int error = errno;
  if (error == ENOENT && access(directory.c_str(), F_OK) != 0) fail(CKPT_NOT_FOUND, "no such directory: " + directory);
  fail(CKPT_IO, "cannot make a folder in " + directory + ": " + std::generic_category().message(error));
}

void meet(const Args& args, Report& report, Watch& watch) try {
  std::string about = report.system + ", " + report.mount.type + " " + report.mount.options;
  if (const std::string broken = report.broken(); !broken.empty()) about += ", BROKEN: " + broken;
  report.peers = meet_peers(args.directory, *args.peers, Ms(args.timeout * 1000), about, watch);
  judge(report.mount, *report.peers, report.promises);
} catch (const Refused& refused) {
  report.promises.push_back({"peers", State::kBroken, refused.text});
}

int check_store(const Args& args) {
  if (args.peers) invalid("--peers is for a directory");
  const std::vector<Promise> promises = probe_store(args.directory, make_options(args));
  const bool holds = broken_of(promises).empty();
  const std::string store = shown(args.directory);
  if (args.json) {
    Json json = {{"store", store}, {"version", ckpt_version_string()}};
    json.add("promises", to_json(promises));
    json.add("holds", holds);
    print_json(json);
  } else {
    print(strformat("ckpt {}\n{}\n\n", ckpt_version_string(), escaped(store)));
    print_promises(promises);
    print_verdict(holds);
  }
  return holds ? kExitOk : kExitNo;
}

int run(const Args& args) try {
  if (is_remote(args.directory)) return check_store(args);
  Watch watch(Ms(args.timeout * 1000 + 10000));
  utsname kernel{};
  uname(&kernel);
  Report report = {args.directory,
                   strformat("{} {} {}, {}", kernel.sysname, kernel.release, kernel.machine, kernel.nodename)};
  {
    const std::string folder = make_folder(args.directory);
    std::error_code ignored;
    const std::shared_ptr<void> at_end(nullptr, [&](void*) { std::filesystem::remove_all(folder, ignored); });
    report.mount = ckpt::store::find_mount(must_open(folder, O_RDONLY | O_DIRECTORY).get());
    if (const std::string harmful = report.mount.harmful(); !harmful.empty())
      report.promises.push_back({"mount_options", State::kWithout, harmful + " does harm: see docs/file-systems.md"});
    probe(folder, watch, report.promises);
    if (!args.peers) report.promises.push_back({"speed", State::kHolds, probe_speed(folder, watch)});
    watch.begin("removal of files");
    remove_leftovers(args.directory);
  }
  const bool alone_holds = report.broken().empty();
  if (args.peers) meet(args, report, watch);
  const bool holds = report.broken().empty(), reports = !alone_holds || !report.peers || report.peers->first;
  if (args.json && reports)
    print_json(to_json(report));
  else if (reports)
    print_report(report);
  else if (!args.json)
    print("see what " + report.peers->ids[0] + " prints\n");
  return holds ? kExitOk : kExitNo;
} catch (const Refused& refused) {
  fail(CKPT_IO, args.directory + ": " + refused.text);
}

}  // namespace
}  // namespace cmd_check

void add_check(CLI::App& app, Action& chosen) {
  using namespace cmd_check;
  auto args = std::make_shared<Args>();
  Command command(app, kWords, *args, Command::WithJson::kYes);
  command.add("STORE", args->directory, "a directory, or an address, where a store is or is to be").required();
  command.add("--peers", args->peers, "how many machines try it together").positive();
  command.add("--timeout", args->timeout, "for how many seconds to wait for a peer or an answer (60)").positive();
  command.run(chosen, [args] { return run(*args); });
}

}  // namespace cli
