#include "cli/mount_probe.h"

#include <linux/fs.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "cli/text.h"

namespace cli {
namespace {

volatile std::sig_atomic_t stopped = 0;  // the signal

constexpr size_t kPage = 4096, kSmall = 16 * kPage, kStep = 4 << 20;
constexpr int kMake = O_RDWR | O_CREAT, kFolder = O_RDONLY | O_DIRECTORY;

std::string words(int error) { return std::generic_category().message(error); }
void need(bool holds, const std::string& otherwise, State state = State::kBroken) {
  if (!holds) throw Refused{otherwise, state};
}
// For what ckpt does without where it is not to be had.
void want(bool holds, State otherwise = State::kWithout) {
  const bool lacks = errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP || errno == EPERM || errno == ENOLCK;
  need(holds, words(errno), lacks ? otherwise : State::kBroken);
}

// Memory that direct I/O takes.
struct Pages {
  explicit Pages(size_t size, unsigned times = 2654435761u)
      : data(static_cast<unsigned char*>(std::aligned_alloc(kPage, size))) {
    for (size_t i = 0; i < size; i++) data[i] = static_cast<unsigned char>(i * times >> 13);
  }
  Pages(const Pages&) = delete;
  ~Pages() { std::free(data); }
  unsigned char* const data;
};
OpenFile make_small(const std::string& path) {
  OpenFile file = must_open(path, kMake);
  need(done(pwrite(file.get(), Pages(kSmall).data, kSmall, 0), "write") == kSmall, "a short write");
  return done(fsync(file.get()), "sync"), std::move(file);
}
void need_small(const OpenFile& file) {
  const Pages found(kSmall, 0);
  const bool whole = done(pread(file.get(), found.data, kSmall, 0), "read") == kSmall;
  need(whole && memcmp(found.data, Pages(kSmall).data, kSmall) == 0, "other bytes than were written");
}
std::string exclusive(const std::string& to, int (*name)(const char*, const char*), State otherwise) {
  const std::string one = to + ".one", two = to + ".two";
  must_open(one, kMake), must_open(two, kMake);
  want(name(one.c_str(), to.c_str()) == 0, otherwise);
  need(name(two.c_str(), to.c_str()) != 0, "a name that was there got another file");
  return need(errno == EEXIST, "second time: " + words(errno)), "";
}
uint64_t free_bytes(const std::string& folder) {
  struct statvfs found{};
  done(statvfs(folder.c_str(), &found), "statvfs");
  return uint64_t{found.f_bavail} * found.f_frsize;
}

struct Probe {
  const char* name;
  const char* otherwise;                       // what ckpt does where it does not hold
  std::string (*call)(const std::string& in);  // returns what it found, if that needs words; throws Refused
};
using Text = std::string;
constexpr Probe kProbes[] = {
    {"exclusive_create", "",
     [](const Text& in) -> Text {
       must_open(in + "/once", kMake | O_EXCL);
       need(!OpenFile(in + "/once", kMake | O_EXCL).is_open(), "O_EXCL made a name that was there");
       return need(errno == EEXIST, "O_EXCL: " + words(errno)), "";
     }},
    {"exclusive_rename", "ckpt uses links",
     [](const Text& in) { return exclusive(in + "/renamed", rename_exclusively, State::kWithout); }},
    {"exclusive_link", "ckpt renames",
     [](const Text& in) {  // without either, nothing can be committed
       const bool renames = OpenFile(in + "/renamed", O_RDONLY).is_open();
       return exclusive(in + "/linked", ::link, renames ? State::kWithout : State::kBroken);
     }},
    {"lock", "ckpt asks a silent rank by a file; do not map checkpoints here",
     [](const Text& in) -> Text {
       const OpenFile one = must_open(in + "/locked", kMake), two = must_open(in + "/locked", O_RDWR);
       want(flock(one.get(), LOCK_EX | LOCK_NB) == 0);
       need(flock(two.get(), LOCK_SH | LOCK_NB) != 0, "a second descriptor gets a lock that is held");
       done(flock(one.get(), LOCK_UN), "unlock");
       return done(flock(two.get(), LOCK_EX | LOCK_NB), "lock that was let go"), "";
     }},
    {"names_seen", "",  // also by a descriptor that asked when there was none
     [](const Text& in) -> Text {
       const OpenFile other = must_open(in, kFolder);
       need(faccessat(other.get(), "new", F_OK, 0) != 0, "a name is there that nobody made");
       must_open(in + "/new", kMake | O_EXCL);
       const auto seen = [&] { return faccessat(other.get(), "new", F_OK, 0) == 0 && is_there(in, kListing, "new"); };
       return need(wait_until(Ms(10000), seen), "not within 10 s"), "";
     }},
    {"direct_write", "ckpt writes through the page cache",
     [](const Text& in) -> Text {
       const OpenFile file = must_open(in + "/direct", O_WRONLY | O_CREAT);
       want(fcntl(file.get(), F_SETFL, O_DIRECT) == 0);
       want(pwrite(file.get(), Pages(kSmall).data, kSmall, 0) == kSmall);
       return need_small(must_open(in + "/direct", O_RDONLY)), "";
     }},
    {"sync_file", "",
     [](const Text& in) -> Text {
       return make_small(in + "/data"), need_small(must_open(in + "/data", O_RDONLY)), "";
     }},
    {"sync_folder", "the server does it by itself",
     [](const Text& in) -> Text { return want(fsync(must_open(in, kFolder).get()) == 0), ""; }},
    {"direct_read", "ckpt reads through the page cache",
     [](const Text& in) -> Text {
       const OpenFile file(in + "/data", O_RDONLY | O_DIRECT);
       want(file.is_open() && pread(file.get(), Pages(kPage).data, kPage, 0) >= 0);
       return need_small(file), "";
     }},
    {"map", "ckpt cannot map checkpoints",
     [](const Text& in) -> Text {
       const OpenFile file = must_open(in + "/data", O_RDONLY);
       need_small(file);  // beyond the end of a short one, memory kills who reads it
       void* address = mmap(nullptr, kSmall, PROT_READ, MAP_SHARED, file.get(), 0);
       need(address != MAP_FAILED, words(errno), State::kWithout);
       const bool same = memcmp(address, Pages(kSmall).data, kSmall) == 0;
       munmap(address, kSmall);
       return need(same, "other bytes than were written"), "";
     }},
    {"removal_of_open", "who loads what is pruned gets an error",
     [](const Text& in) -> Text {
       OpenFile file = make_small(in + "/gone");
       done(unlink((in + "/gone").c_str()), "removal");
       Text hidden;
       for (const Text& name : names_in(in))
         if (name.starts_with(".nfs") || name.starts_with(".fuse_hidden") || name == "gone") hidden = name;
       const ssize_t count = pread(file.get(), Pages(kPage).data, kPage, 0);
       need(count == kPage, "a reader gets " + (count < 0 ? words(errno) : "nothing"), State::kWithout);
       file = OpenFile();
       const bool gone = wait_until(Ms(2000), [&] { return !is_there(in, kListing, hidden); });
       need(gone, hidden + " stays when it is closed", State::kWithout);
       return hidden.empty() ? "" : "its name is " + hidden.substr(0, hidden.find('0')) + "… until it is closed";
     }},
    {"space", "", [](const Text& in) { return human_bytes(free_bytes(in)) + " are free"; }},
};

// Bytes in a second, with a sync at the end; 0 if it is refused.
double rate_of(const std::string& path, int flags, uint64_t bytes) {
  const OpenFile file(path, flags);
  const Pages pages(kStep);
  const bool writes = (flags & O_RDWR) != 0;
  const int fd = file.get();
  const auto begin = Clock::now();
  for (off_t at = 0; at < static_cast<off_t>(bytes); at += kStep)
    if (stopped != 0 || (writes ? pwrite(fd, pages.data, kStep, at) : pread(fd, pages.data, kStep, at)) != kStep)
      return 0;
  if (fsync(file.get()) != 0) return 0;
  return static_cast<double>(bytes) / std::max(1e-6, std::chrono::duration<double>(Clock::now() - begin).count());
}

}  // namespace

void Watch::begin(const char* step) {
  at_->step = step, at_->since = Clock::now();
  need(stopped == 0, "stopped by a signal");
}

Watch::~Watch() {
  at_->step = nullptr;
  if (stopped != 0) std::raise(stopped);  // whose handler is gone
}

Watch::Watch(Ms longest) try {
  struct sigaction act{}, old{};
  act.sa_handler = [](int number) { stopped = number; };
  act.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    if (sigaction(number, nullptr, &old) == 0 && old.sa_handler == SIG_DFL) sigaction(number, &act, nullptr);
  std::thread([at = at_, longest] {
    while (at->step != nullptr && Clock::now() - at->since.load() < longest) usleep(200000);
    if (at->step == nullptr) return;
    std::fprintf(stderr, "ckpt: no answer for %d s: %s\n", static_cast<int>(longest.count() / 1000), at->step.load());
    _exit(1);
  }).detach();
} catch (const std::system_error&) {
  // Then nobody watches.
}

int rename_exclusively(const char* from, const char* to) {  // musl lacks renameat2 before 1.2.6
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE));
}

int64_t done(int64_t result, const char* what) {
  if (result < 0) throw Refused{what + (": " + words(errno)), State::kBroken};
  return result;
}

OpenFile must_open(const std::string& path, int flags) {
  OpenFile file(path, flags);
  done(file.get(), (flags & O_CREAT) != 0 ? "creation of a file" : "open");
  return file;
}

std::vector<std::string> names_in(const std::string& path) {
  posix_fadvise(must_open(path, kFolder).get(), 0, 0, POSIX_FADV_DONTNEED);  // makes an NFS client ask its server
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename());
  need(!error, "listing: " + error.message());
  return names;
}

bool is_there(const std::string& folder, View view, const std::string& name) {
  if (view == kOpened) return faccessat(must_open(folder, kFolder).get(), name.c_str(), F_OK, 0) == 0;
  if (view == kListing)
    if (const auto names = names_in(folder); std::find(names.begin(), names.end(), name) == names.end()) return false;
  return faccessat(AT_FDCWD, (folder + "/" + name).c_str(), F_OK, 0) == 0;
}

bool wait_until(Ms limit, const std::function<bool()>& holds) {
  for (const auto begin = Clock::now(); !holds(); usleep(1000))
    if (stopped != 0 || Clock::now() - begin > limit) return false;
  return true;
}

std::string make_id() {
  char host[33] = "";
  gethostname(host, sizeof host - 1);
  for (char& c : host) c = c == '\0' || std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  const auto chance = static_cast<unsigned>(Clock::now().time_since_epoch().count() >> 8 & 0xffffff);
  return strformat("{}-{}-{}", host, getpid(), print_format("%06x", chance));
}

void remove_leftovers(const std::string& directory) {
  std::error_code ignored;
  struct stat found{};
  for (const std::string& name : names_in(directory))
    if (const std::string path = directory + "/" + name; name.starts_with(kPrefix))
      if (lstat(path.c_str(), &found) == 0 && found.st_uid == geteuid() && found.st_mtime < time(nullptr) - 3600)
        std::filesystem::remove_all(path, ignored);
}

void probe(const std::string& folder, Watch& watch, std::vector<Promise>& promises) {
  for (const auto& [name, otherwise, call] : kProbes) {
    watch.begin(name);
    try {
      promises.push_back({name, State::kHolds, call(folder)});
    } catch (const Refused& refused) {
      const std::string then = refused.state == State::kWithout ? strformat("; {}", otherwise) : "";
      promises.push_back({name, refused.state, refused.text + then});
    }
  }
}

std::string probe_speed(const std::string& folder, Watch& watch) {
  watch.begin("speed");
  const std::string path = folder + "/fast";
  const uint64_t free = free_bytes(folder);
  if (free < 20 * kStep) return "not measured: the file system is nearly full";
  // As much as takes about two seconds.
  const auto most = std::min({uint64_t{256} << 20, static_cast<uint64_t>(rate_of(path, kMake, kStep) * 2), free / 10});
  const uint64_t bytes = std::max<uint64_t>(1, most / kStep) * kStep;
  const auto text = [](double rate) { return rate > 0 ? human_rate(rate) : "refused"; };
  const std::string direct = text(rate_of(folder + "/direct", kMake | O_DIRECT, bytes));
  const std::string synced = text(rate_of(path, kMake, bytes));
  posix_fadvise(OpenFile(path, O_RDONLY).get(), 0, 0, POSIX_FADV_DONTNEED);
  const double read = rate_of(path, O_RDONLY | O_DIRECT, bytes);
  return strformat("direct writes {}, writes with a sync {}, reads {}", direct, synced,
                   text(read > 0 ? read : rate_of(path, O_RDONLY, bytes)));
}

}  // namespace cli
