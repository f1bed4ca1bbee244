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
#include <sstream>

#include "cli/text.h"

namespace cli {
namespace {

using Texts = std::map<std::string, std::string>;  // by id

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string short_id(const std::string& id) { return id.substr(0, id.rfind('-', id.rfind('-') - 1)); }

class Meeting {
 public:
  Meeting(std::string folder, size_t count, Ms timeout, Watch& watch)
      : folder_(std::move(folder)), count_(count), timeout_(timeout), watch_(watch) {}
  void join();
  Texts exchange(const std::string& text);
  void end() const;
  void remove_mine() const;

  std::string path(const std::string& kind, const std::string& id) const { return folder_ + "/" + kind + "." + id; }
  const std::string& me() const { return me_; }
  const std::vector<std::string>& ids() const { return ids_; }           // of all, sorted
  const std::map<std::string, double>& least() const { return least_; }  // ms from a stamp of each until it was seen

 private:
  void wait_for_all(const char* what, Texts& came, const std::function<void()>& look) const;

  const std::string folder_, me_ = make_id();
  const size_t count_;
  const Ms timeout_;
  Watch& watch_;
  std::vector<std::string> ids_;
  std::map<std::string, double> least_;
  size_t steps_ = 0;
};

void Meeting::wait_for_all(const char* what, Texts& came, const std::function<void()>& look) const {
  wait_until(timeout_, [&] { return watch_.begin("meeting of the peers"), look(), came.size() >= count_; });
  if (came.size() == count_) return;
  std::vector<std::string> names;
  for (const auto& [id, text] : came) names.push_back(short_id(id));
  throw Refused{
      format("{} of {} {} within {} s: {}", came.size(), count_, what, timeout_.count() / 1000, joined(names))};
}

// A file of a killed run says hello, too. So who is here has to answer: acknowledge a name that is new.
void Meeting::join() {
  Texts here, answered = {{me_, ""}};
  wait_for_all("came", here, [&] {
    // The last of an earlier meeting may remove the folder at any time.
    if (mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) done(-1, "creation of a folder");
    if (const OpenFile hello(path("hello", me_), O_WRONLY | O_CREAT); !hello.is_open()) {
      if (errno == ENOENT) return;
      done(-1, "creation of a file");
    }
    for (const char* view : kViews) mkdir(path(view, me_).c_str(), 0700);
    here = {{me_, ""}};
    for (const std::string& name : names_in(folder_)) {
      const std::string id = id_of(name);
      if (name == "ack." + id + "." + me_) here[id];
      if (answered.try_emplace(id).second) must_open(path("ack", me_ + "." + id), O_WRONLY | O_CREAT);
    }
  });
  for (const auto& [id, text] : here) ids_.push_back(id);
}

// What each says, as soon as all have said it.
Texts Meeting::exchange(const std::string& text) {
  const std::string kind = "s" + std::to_string(++steps_);
  std::ofstream draft(path("draft", me_));
  draft << print_format("%.3f ", now_ms()) << text << "\nend" << std::flush;
  draft.close();
  done(draft ? rename(path("draft", me_).c_str(), path(kind, me_).c_str()) : -1, "write");
  Texts said;
  wait_for_all("still answered", said, [&] {
    for (const std::string& name : names_in(folder_)) {
      const std::string id = id_of(name);
      if (name != kind + "." + id || said.contains(id) || !std::binary_search(ids_.begin(), ids_.end(), id)) continue;
      const double seen = now_ms();
      std::ifstream file(folder_ + "/" + name);
      std::string line, end;
      double at = 0;
      if (!(file >> at && file.get() && std::getline(file, line) && file >> end && end == "end")) continue;
      said[id] = line;
      const auto known = least_.try_emplace(id, seen - at).first;
      known->second = std::min(known->second, seen - at);
    }
  });
  unlink(path("s" + std::to_string(steps_ - 1), me_).c_str());
  return said;
}

// Who has said bye reads nothing any more. The first waits for that, and removes all, also what killed runs left.
void Meeting::end() const {
  must_open(path("bye", me_), O_WRONLY | O_CREAT);
  Texts gone;
  const auto look = [&] {
    for (const std::string& name : names_in(folder_))
      if (name == "bye." + id_of(name)) gone[id_of(name)];
  };
  if (ids_[0] != me_) return;
  wait_for_all("said bye", gone, look);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Meeting::remove_mine() const try {
  std::error_code ignored;
  for (const std::string& name : names_in(folder_))
    if (id_of(name) == me_) std::filesystem::remove_all(folder_ + "/" + name, ignored);
  rmdir(folder_.c_str());
} catch (const Refused&) {
  // The next run removes it.
}

struct Said {  // what one did, and when
  double at = 0;
  bool seen = true;
  int flag = 0;  // what came of it; -1: it does not count
};

class Cycles {
 public:
  Cycles(Meeting& meeting, Peers& peers) : meeting_(meeting), peers_(peers) {}
  bool run(size_t number, View view, Delays& names, Delays& removals);
  void settle();

 private:
  struct Sample {  // a delay by two clocks, until it is known how they differ
    Delays* to;
    size_t writer, observer;
    double ms;
  };
  std::vector<Said> tell(const Said& said, Delays* to = nullptr, size_t writer = 0);
  bool race(const std::string& folder, size_t number) const;

  Meeting& meeting_;
  Peers& peers_;
  std::vector<Sample> samples_;
  const Clock::time_point begin_ = Clock::now();
};

std::vector<Said> Cycles::tell(const Said& said, Delays* to, size_t writer) {
  std::vector<Said> all;
  for (const auto& [id, text] : meeting_.exchange(print_format("%.3f %d %d", said.at, said.seen ? 1 : 0, said.flag)))
    std::istringstream(text) >> all.emplace_back().at >> all.back().seen >> all.back().flag;
  for (size_t i = 0; i < all.size() && to != nullptr; i++) {
    if (i == writer || all[i].flag < 0) continue;
    if (all[i].seen) samples_.push_back({to, writer, i, all[i].at - all[writer].at});
    if (!all[i].seen) to->missed++;
  }
  return all;
}

bool Cycles::race(const std::string& folder, size_t number) const {
  const std::string prize = folder + "/prize" + std::to_string(number), own = folder + "/own." + meeting_.me();
  if (number % 2 == 0) return OpenFile(prize, O_WRONLY | O_CREAT | O_EXCL).is_open();
  return must_open(own, O_WRONLY | O_CREAT).is_open() && name_exclusively(own, prize);
}

// One makes a name whose file it has locked, lets the lock go and removes the name; the others look for it in one way
// alone. False when all has taken long enough.
bool Cycles::run(size_t number, View view, Delays& names, Delays& removals) {
  const size_t writer = number / 3 % meeting_.ids().size();
  const std::string &id = meeting_.ids()[writer], name = "x" + std::to_string(number);
  const std::string folder = meeting_.path(kViews[static_cast<size_t>(view)], id);
  const std::string made = folder + "/made", there = folder + "/" + name;
  const bool mine = id == meeting_.me();
  OpenFile file;
  if (mine) flock((file = must_open(made, O_RDWR | O_CREAT)).get(), LOCK_EX | LOCK_NB);
  if (!mine) is_there(folder, view, name);  // now it is known to be absent
  const bool late = Clock::now() - begin_ > std::chrono::seconds(30);
  for (const Said& said : tell({.flag = late ? 1 : 0}))
    if (said.flag == 1) return false;

  const bool won = race(folder, number);
  const auto act = [&](const std::function<void()>& write, const std::function<bool()>& see) {
    if (mine) usleep(20000);  // until the others look
    Said said{.at = now_ms()};
    if (mine) write();
    if (!mine) said.seen = wait_until(Ms(view == View::kListing ? 30000 : 5000), see), said.at = now_ms();
    return said;
  };
  Said named =
      act([&] { done(rename(made.c_str(), there.c_str()), "rename"); }, [&] { return is_there(folder, view, name); });
  if (!mine && named.seen) file = OpenFile(there, O_RDONLY);
  const auto locks = [&] { return flock(file.get(), LOCK_SH | LOCK_NB) == 0; };
  named.flag = !mine && file.is_open() && !locks() && errno == EWOULDBLOCK ? 1 : 0;
  const std::vector<Said> saw = tell(named, &names, writer);
  for (size_t i = 0; i < saw.size(); i++)
    if (i != writer && saw[i].seen) saw[i].flag == 1 ? peers_.locks_seen++ : peers_.locks_unseen++;

  Said unlocked = act([&] { file = OpenFile(); }, [&] { return named.flag == 0 || locks(); });
  if (!mine && named.flag == 0) unlocked.flag = -1;
  file = OpenFile();
  tell(unlocked, &peers_.unlocks, writer);

  Said removed = act([&] { done(unlink(there.c_str()), "removal"); },
                     [&] { return !named.seen || !is_there(folder, view, name); });
  if (!named.seen) removed.flag = -1;
  tell(removed, &removals, writer);
  const std::vector<Said> racers = tell({.flag = won ? 1 : 0});
  const auto winners = std::count_if(racers.begin(), racers.end(), [](const Said& said) { return said.flag == 1; });
  peers_.races++, peers_.fair_races += winners == 1 ? 1 : 0;
  return true;
}

// Two clocks differ by half of what the least delays of both ways differ.
void Cycles::settle() {
  std::string mine;
  for (const auto& [id, ms] : meeting_.least()) mine += print_format("%.3f ", ms);
  std::vector<std::vector<double>> least;
  for (const auto& [id, text] : meeting_.exchange(mine)) {
    std::istringstream numbers(text);
    least.emplace_back(std::istream_iterator<double>(numbers), std::istream_iterator<double>());
    if (least.back().size() != meeting_.ids().size()) throw Refused{short_id(id) + " met others"};
  }
  for (const auto& [to, writer, observer, ms] : samples_) {
    const double there = least[observer][writer], back = least[writer][observer];
    const double delay = std::max(0.0, ms - (there - back) / 2);
    to->ms.insert(std::upper_bound(to->ms.begin(), to->ms.end(), delay), delay);
    peers_.clock_error = std::max(peers_.clock_error, (there + back) / 2);
  }
}

}  // namespace

Peers meet_peers(const std::string& directory, size_t count, Ms timeout, const std::string& about, Watch& watch) {
  Meeting meeting(directory + "/" + kMeeting, count, timeout, watch);
  Peers peers;
  try {
    meeting.join();
    for (const auto& [id, text] : meeting.exchange(about))
      peers.ids.push_back(short_id(id)), peers.about.push_back(text);
    Cycles cycles(meeting, peers);
    for (size_t number = 0, more = 1; more != 0 && number < 15; number++)  // five by each view
      if (const size_t view = 2 - number % 3; peers.names[view].missed == 0)
        more = cycles.run(number, static_cast<View>(view), peers.names[view], peers.removals[view]) ? 1 : 0;
    cycles.settle();
    peers.first = meeting.ids()[0] == meeting.me();
    meeting.end();
  } catch (const Refused&) {
    meeting.remove_mine();
    throw;
  }
  return peers;
}

}  // namespace cli
