#include "cli/mount_peers.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "cli/text.h"

namespace cli {
namespace {

using Texts = std::map<std::string, std::string>;  // by id

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::system_clock::now().time_since_epoch()).count();
}
std::string short_id(const std::string& id) { return id.substr(0, id.rfind('-')); }
// Of "hello.ID" or "ack.ID.ID" the first.
std::string id_of(const std::string& file) {
  const size_t begin = std::min(file.find('.'), file.size() - 1) + 1;
  return file.substr(begin, file.find('.', begin) - begin);
}

// What somebody else has put in the place of our folder may lead to files that nobody wants removed.
bool is_ours(const struct stat& found) { return S_ISDIR(found.st_mode) && (found.st_mode & 022) == 0; }

struct Meeting {
  // A file of a killed run says hello, too. So who is here has to answer: acknowledge a name that is new.
  void join() {
    Texts here, answered = {{me, ""}};
    wait_for_all("came", here, [&] {
      // The last of an earlier meeting may remove the folder at any time.
      if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) done(-1, "creation of a folder");
      struct stat found{};
      if (lstat(folder.c_str(), &found) == 0 && !is_ours(found))
        throw Refused{folder + " is a link, or others may write into it; remove it"};
      if (!OpenFile(path("hello", me), O_WRONLY | O_CREAT).is_open())
        return errno == ENOENT ? void() : void(done(-1, "creation of a file"));
      for (const char* view : kViews) mkdir(path(view, me).c_str(), 0700);
      here = {{me, ""}};
      for (const std::string& name : names_in(folder)) {
        const std::string id = id_of(name);
        if (name == "ack." + id + "." + me) here[id];
        if (answered.try_emplace(id).second) must_open(path("ack", me + "." + id), O_WRONLY | O_CREAT);
      }
    });
    for (const auto& [id, text] : here) ids.push_back(id);
  }
  // What each says, as soon as all have said it.
  Texts exchange(const std::string& text) {
    const std::string kind = "s" + std::to_string(++steps);
    std::ofstream draft(path("draft", me));
    draft << print_format("%.3f ", now_ms()) << text << "\nend" << std::flush;
    draft.close();
    done(draft ? rename(path("draft", me).c_str(), path(kind, me).c_str()) : -1, "write");
    Texts said;
    wait_for_all("still answered", said, [&] {
      for (const std::string& name : names_in(folder)) {
        const std::string id = id_of(name);
        if (name != kind + "." + id || said.contains(id) || !std::binary_search(ids.begin(), ids.end(), id)) continue;
        const double seen = now_ms();
        std::ifstream file(folder + "/" + name);
        std::string line, end;
        double at = 0;
        if (!(file >> at && file.get() && std::getline(file, line) && file >> end && end == "end")) continue;
        said[id] = line;
        double& known = least.try_emplace(id, seen - at).first->second;
        known = std::min(known, seen - at);
      }
    });
    unlink(path("s" + std::to_string(steps - 1), me).c_str());
    return said;
  }
  // Who has said bye reads nothing any more. The first waits for that, and removes all, also what killed runs left.
  void end() const {
    must_open(path("bye", me), O_WRONLY | O_CREAT);
    if (ids[0] != me) return;
    Texts gone;
    wait_for_all("said bye", gone, [&] {
      for (const std::string& name : names_in(folder))
        if (name == "bye." + id_of(name)) gone[id_of(name)];
    });
    remove("");
  }
  // What is of `id`, or all.
  void remove(const std::string& id) const try {
    std::error_code ignored;
    struct stat found{};
    const OpenFile held(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!held.is_open() || fstat(held.get(), &found) != 0 || !is_ours(found)) return;
    const std::string in = strformat("/proc/self/fd/{}", held.get());
    for (const std::string& name : names_in(in))
      if (id.empty() || id_of(name) == id) std::filesystem::remove_all(in + "/" + name, ignored);
    rmdir(folder.c_str());
  } catch (const Refused&) {
    // A later run removes it.
  }
  void wait_for_all(const char* what, Texts& came, const std::function<void()>& look) const {
    std::set<std::string> ever;  // also those who left when their time was over
    wait_until(timeout, [&] {
      watch.begin("meeting of the peers"), look();
      for (const auto& [id, text] : came) ever.insert(short_id(id));
      return came.size() >= count;
    });
    if (came.size() == count) return;
    const std::vector<std::string> names(ever.begin(), ever.end());
    throw Refused{
        strformat("{} of {} {} within {} s: {}", ever.size(), count, what, timeout.count() / 1000, joined(names))};
  }
  std::string path(const std::string& kind, const std::string& id) const { return folder + "/" + kind + "." + id; }

  const std::string folder;
  const size_t count;
  const Ms timeout;
  Watch& watch;
  const std::string me = make_id();
  std::vector<std::string> ids = {};         // of all, sorted
  std::map<std::string, double> least = {};  // ms from a stamp of each until it was seen
  size_t steps = 0;
};

// What one did, and when.
struct Said {
  double at = 0;
  int result = 0;
};
constexpr double kUnseen = -1, kNotTried = -2;  // instead of a time
struct Sample {                                 // a delay by two clocks, until it is known how they differ
  Delays* to;
  size_t writer, observer;
  double ms;
};
struct Cycles {
  bool run(size_t number, View view);
  // Two clocks differ by half of what the least delays of both ways differ.
  void settle() {
    std::string mine;
    for (const auto& [id, ms] : meeting.least) mine += print_format("%.3f ", ms);
    std::vector<std::vector<double>> least;
    for (const auto& [id, text] : meeting.exchange(mine)) {
      std::istringstream numbers(text);
      least.emplace_back(std::istream_iterator<double>(numbers), std::istream_iterator<double>());
      if (least.back().size() != meeting.ids.size()) throw Refused{short_id(id) + " met others"};
    }
    for (const auto& [to, writer, observer, ms] : samples) {
      const double there = least[observer][writer], back = least[writer][observer];
      const double delay = std::max(0.0, ms - (there - back) / 2);
      to->ms.insert(std::upper_bound(to->ms.begin(), to->ms.end(), delay), delay);
      peers.clock_error = std::max(peers.clock_error, (there + back) / 2);
    }
  }
  std::vector<Said> tell(const Said& said, Delays* to = nullptr, size_t writer = 0) {
    std::vector<Said> all;
    for (const auto& [id, text] : meeting.exchange(print_format("%.3f %d", said.at, said.result)))
      std::istringstream(text) >> all.emplace_back().at >> all.back().result;
    for (size_t i = 0; i < all.size() && to != nullptr; i++) {
      if (i != writer && all[i].at > 0) samples.push_back({to, writer, i, all[i].at - all[writer].at});
      if (i != writer && all[i].at == kUnseen) to->missed++;
    }
    return all;
  }
  bool race(const std::string& folder, size_t number) const {
    const std::string prize = folder + "/prize" + std::to_string(number), own = folder + "/own." + meeting.me;
    if (number % 2 == 0) return OpenFile(prize, O_WRONLY | O_CREAT | O_EXCL).is_open();
    must_open(own, O_WRONLY | O_CREAT);
    if (rename_exclusively(own.c_str(), prize.c_str()) == 0) return true;
    return ::link(own.c_str(), prize.c_str()) == 0;
  }

  Meeting& meeting;
  Peers& peers;
  std::vector<Sample> samples = {};
  const Clock::time_point begin = Clock::now();
};

// One makes a name whose file it has locked, lets the lock go and removes the name; the others look for it in one way
// alone. False when all has taken long enough.
bool Cycles::run(size_t number, View view) {
  const size_t writer = number / 3 % meeting.ids.size();
  const std::string &id = meeting.ids[writer], name = "x" + std::to_string(number);
  const std::string folder = meeting.path(kViews[view], id), made = folder + "/made", there = folder + "/" + name;
  const bool mine = id == meeting.me;
  OpenFile file;
  if (mine) flock((file = must_open(made, O_RDWR | O_CREAT)).get(), LOCK_EX | LOCK_NB);
  if (!mine) is_there(folder, view, name);  // now it is known to be absent
  const auto late = [&] { return Clock::now() - begin > std::chrono::seconds(30) ? 2 : 0; };
  for (const Said& said : tell({.result = late()}))
    if (said.result == 2) return false;

  const bool won = race(folder, number);
  const auto act = [&](const std::function<void()>& write, const std::function<bool()>& see) {
    if (!mine) return wait_until(Ms(view == kListing ? 30000 : 5000), see) ? now_ms() : kUnseen;
    usleep(20000);  // until the others look
    const double at = now_ms();
    return write(), at;
  };
  const auto locks = [&] { return flock(file.get(), LOCK_SH | LOCK_NB) == 0; };
  Said named = {.at = act([&] { done(rename(made.c_str(), there.c_str()), "rename"); },
                          [&] { return is_there(folder, view, name); })};
  if (!mine && named.at > 0) file = OpenFile(there, O_RDONLY);
  const bool locked = !mine && file.is_open() && !locks() && errno == EWOULDBLOCK;
  named.result = late() + (locked ? 1 : 0);
  const std::vector<Said> saw = tell(named, &peers.names[view], writer);
  for (size_t i = 0; i < saw.size(); i++)
    if (i != writer && saw[i].at > 0) saw[i].result % 2 == 1 ? peers.locks_seen++ : peers.locks_unseen++;
  if (std::any_of(saw.begin(), saw.end(), [](const Said& said) { return said.result >= 2; })) return false;

  const double unlocked = act([&] { file = OpenFile(); }, [&] { return !locked || locks(); });
  file = OpenFile();
  tell({.at = mine || locked ? unlocked : kNotTried}, &peers.unlocks, writer);
  const double removed = act([&] { done(unlink(there.c_str()), "removal"); },
                             [&] { return named.at == kUnseen || !is_there(folder, view, name); });
  tell({.at = named.at == kUnseen ? kNotTried : removed}, &peers.removals[view], writer);
  const std::vector<Said> racers = tell({.result = won});
  const auto winners = std::count_if(racers.begin(), racers.end(), [](const Said& said) { return said.result == 1; });
  peers.races++, peers.fair_races += winners == 1;
  return true;
}

}  // namespace

Peers meet_peers(const std::string& directory, size_t count, Ms timeout, const std::string& about, Watch& watch) {
  Meeting meeting{directory + "/" + kPrefix + "peers", count, timeout, watch};
  Peers peers;
  try {
    meeting.join();
    for (const auto& [id, text] : meeting.exchange(about))
      peers.ids.push_back(short_id(id)), peers.about.push_back(text);
    Cycles cycles{meeting, peers};
    for (size_t number = 0, more = 1; more != 0 && number < 15; number++)  // five by each view
      if (const size_t view = 2 - number % 3; peers.names[view].missed == 0)
        more = cycles.run(number, static_cast<View>(view)) ? 1 : 0;
    cycles.settle();
    peers.first = meeting.ids[0] == meeting.me;
    meeting.end();
  } catch (const Refused&) {
    meeting.remove(meeting.me);
    throw;
  }
  return peers;
}

}  // namespace cli
