// What the file system of a folder does, tried with plain system calls. One thread.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cli {

using Ms = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

enum class State { kHolds, kWithout, kBroken };  // kWithout: it does not hold, and ckpt does without it
struct Promise {
  std::string name;  // "exclusive_create"
  State state = State::kHolds;
  std::string found;
};

// Ends the process when one step takes too long: a server that hangs hangs its callers. SIGINT, SIGTERM and SIGHUP end
// the step that waits, then no other begins (Refused), so that folders are removed, and at last the process; the second
// one ends it at once.
class Watch {
 public:
  explicit Watch(Ms longest);
  ~Watch();
  void begin(const char* step);

 private:
  struct At {
    std::atomic<const char*> step = "open";
    std::atomic<Clock::time_point> since = Clock::now();
  };
  const std::shared_ptr<At> at_ = std::make_shared<At>();
};

// What a system call was refused, "sync: Invalid argument", or what it did wrong.
struct Refused {
  std::string text;
  State state = State::kBroken;
};
int64_t done(int64_t result, const char* what);  // throws Refused
int rename_exclusively(const char* from, const char* to);

class OpenFile {
 public:
  OpenFile() = default;
  OpenFile(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}  // may fail
  OpenFile(OpenFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept { return std::swap(fd_, other.fd_), *this; }
  ~OpenFile() { is_open() ? ::close(fd_) : 0; }
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};
OpenFile must_open(const std::string& path, int flags);  // throws Refused

// How a name is looked for: by its path; in the folder, opened anew; in a listing for which the server is asked,
// and then by its path, as ckpt opens what it finds.
enum View { kLookup, kOpened, kListing };
std::vector<std::string> names_in(const std::string& folder);
bool is_there(const std::string& folder, View view, const std::string& name);
bool wait_until(Ms limit, const std::function<bool()>& holds);

std::string make_id();  // "nodeA-4711-71b2f0": host, process, chance
inline const std::string kPrefix = ".ckpt-check.";
// Removes what killed runs left an hour ago or earlier.
void remove_leftovers(const std::string& directory);

// What one machine can try alone, in an empty folder.
void probe(const std::string& folder, Watch& watch, std::vector<Promise>& promises);
std::string probe_speed(const std::string& folder, Watch& watch);

}  // namespace cli
