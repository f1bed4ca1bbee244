#include "cli/mount_probe.h"

#include <dirent.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/text.h"

namespace cli {
namespace {

constexpr size_t kPage = 4096, kSmall = 16 * kPage, kStep = 4 << 20;
constexpr int kMake = O_RDWR | O_CREAT, kFolder = O_RDONLY | O_DIRECTORY;

std::string words(int error) { return std::generic_category().message(error); }
bool no_such_call(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == EPERM || error == ENOLCK;
}
void need(bool holds, const std::string& otherwise, State state = State::kBroken) {
  if (!holds) throw Refused{otherwise, state, 0};
}
// For what ckpt does without where it is not to be had.
void want(bool holds) { need(holds, words(errno), no_such_call(errno) ? State::kWithout : State::kBroken); }

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
void write_small(const OpenFile& file) {
  need(done(pwrite(file.get(), Pages(kSmall).data, kSmall, 0), "write") == kSmall, "a short write");
}
void need_small(const OpenFile& file) {
  const Pages found(kSmall, 0);
  const bool whole = done(pread(file.get(), found.data, kSmall, 0), "read") == kSmall;
  need(whole && memcmp(found.data, Pages(kSmall).data, kSmall) == 0, "other bytes than were written");
}

int rename_exclusively(const char* from, const char* to) {
  return renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}

struct Probes {
  const std::string& folder;
  Watch& watch;
  const Add& add;

  std::string at(const char* name) const { return folder + "/" + name; }
  // `otherwise`: what ckpt does without it. `call` returns what it found, if that needs words, and throws Refused.
  void attempt(const char* name, const std::string& otherwise, const std::function<std::string()>& call) const {
    watch.begin(name);
    try {
      add({name, State::kHolds, call()});
    } catch (const Refused& refused) {
      add({name, refused.state, refused.text + (refused.state == State::kWithout ? "; " + otherwise : "")});
    }
  }
  const char* exclusive(const std::string& to, int (*name)(const char* from, const char* to)) const;
  void try_names() const;
  void try_data() const;
  void try_rest() const;
};

const char* Probes::exclusive(const std::string& to, int (*name)(const char* from, const char* to)) const {
  must_open(at("one"), kMake), must_open(at("two"), kMake);
  want(name(at("one").c_str(), to.c_str()) == 0);
  need(name(at("two").c_str(), to.c_str()) != 0, "a name that was there got another file");
  return need(errno == EEXIST, "second time: " + words(errno)), "";
}

void Probes::try_names() const {
  attempt("exclusive_create", "", [&] {
    must_open(at("once"), kMake | O_EXCL);
    need(!OpenFile(at("once"), kMake | O_EXCL).is_open(), "O_EXCL made a name that was there");
    return need(errno == EEXIST, "O_EXCL: " + words(errno)), "";
  });
  attempt("exclusive_rename", "ckpt uses links", [&] { return exclusive(at("renamed"), rename_exclusively); });
  attempt("exclusive_link", "ckpt renames", [&] {
    try {
      return exclusive(at("linked"), ::link);
    } catch (const Refused& refused) {
      need(OpenFile(at("renamed"), O_RDONLY).is_open(), refused.text + ", nor renameat2: nothing can be committed");
      throw;
    }
  });
  attempt("lock", "ckpt asks a silent rank by a file, and refuses maps", [&] {
    const OpenFile one = must_open(at("locked"), kMake), two = must_open(at("locked"), O_RDWR);
    want(flock(one.get(), LOCK_EX | LOCK_NB) == 0);
    need(flock(two.get(), LOCK_SH | LOCK_NB) != 0, "a second descriptor gets a lock that is held");
    done(flock(one.get(), LOCK_UN), "unlock");
    return done(flock(two.get(), LOCK_EX | LOCK_NB), "lock that was let go"), "";
  });
  // Also by a descriptor that asked when there was none.
  attempt("names_seen", "", [&] {
    const OpenFile other = must_open(folder, kFolder);
    struct stat found{};
    need(fstatat(other.get(), "new", &found, 0) != 0, "a name is there that nobody made");
    must_open(at("new"), kMake | O_EXCL);
    const auto begin = Clock::now();
    const auto seen = [&] {
      return fstatat(other.get(), "new", &found, 0) == 0 && is_there(folder, View::kListing, "new");
    };
    need(wait_until(Ms(10000), seen), "not within 10 s");
    return format("after {} ms", std::chrono::duration_cast<Ms>(Clock::now() - begin).count());
  });
}

void Probes::try_data() const {
  attempt("direct_write", "ckpt writes through the page cache", [&] {
    const OpenFile file = must_open(at("direct"), O_WRONLY | O_CREAT);
    want(fcntl(file.get(), F_SETFL, O_DIRECT) == 0);
    want(pwrite(file.get(), Pages(kSmall).data, kSmall, 0) == kSmall);
    return need_small(must_open(at("direct"), O_RDONLY)), "";
  });
  attempt("sync_file", "", [&] {
    const OpenFile file = must_open(at("data"), kMake);
    write_small(file);
    done(fsync(file.get()), "sync");
    return need_small(must_open(at("data"), O_RDONLY)), "";
  });
  attempt("sync_folder", "the server does it by itself",
          [&] { return want(fsync(must_open(folder, kFolder).get()) == 0), ""; });
  attempt("direct_read", "ckpt reads through the page cache", [&] {
    const OpenFile file(at("data"), O_RDONLY | O_DIRECT);
    want(file.is_open() && pread(file.get(), Pages(kPage).data, kPage, 0) >= 0);
    return need_small(file), "";
  });
  attempt("map", "ckpt cannot map checkpoints", [&] {
    const OpenFile file = must_open(at("data"), O_RDONLY);
    void* address = mmap(nullptr, kSmall, PROT_READ, MAP_SHARED, file.get(), 0);
    need(address != MAP_FAILED, words(errno), State::kWithout);
    const bool same = memcmp(address, Pages(kSmall).data, kSmall) == 0;
    munmap(address, kSmall);
    return need(same, "other bytes than were written"), "";
  });
}

uint64_t free_bytes(const std::string& folder) {
  struct statvfs found{};
  done(statvfs(folder.c_str(), &found), "statvfs");
  return uint64_t{found.f_bavail} * found.f_frsize;
}

void Probes::try_rest() const {
  attempt("removal_of_open", "who loads what is pruned gets an error", [&] {
    OpenFile file = must_open(at("gone"), kMake);
    write_small(file);
    done(fsync(file.get()), "sync");
    done(unlink(at("gone").c_str()), "removal");
    std::string hidden;
    for (const std::string& name : names_in(folder))
      if (name.starts_with(".nfs") || name.starts_with(".fuse_hidden") || name == "gone") hidden = name;
    const ssize_t count = pread(file.get(), Pages(kPage).data, kPage, 0);
    need(count == kPage, "a reader gets " + (count < 0 ? words(errno) : "nothing"), State::kWithout);
    file = OpenFile();
    const bool gone = wait_until(Ms(2000), [&] { return !is_there(folder, View::kListing, hidden); });
    need(gone, hidden + " stays when it is closed", State::kWithout);
    return hidden.empty() ? "" : "its name is " + hidden.substr(0, hidden.find('0')) + "… until it is closed";
  });
  attempt("space", "", [&] { return human_bytes(free_bytes(folder)) + " are free"; });
}

// Bytes in a second by `call(file, offset)`, then a sync if `flags` are for writing; 0 if it was refused.
double rate_of(const std::string& path, int flags, int more, size_t bytes,
               const std::function<ssize_t(int, off_t)>& call) {
  const OpenFile file = must_open(path, flags);
  if (more != 0 && fcntl(file.get(), F_SETFL, more) != 0) return 0;
  const auto begin = Clock::now();
  for (size_t at = 0; at < bytes; at += kStep)
    if (call(file.get(), static_cast<off_t>(at)) != kStep) return 0;
  if (flags != O_RDONLY && fsync(file.get()) != 0) return 0;
  return static_cast<double>(bytes) / std::max(1e-6, std::chrono::duration<double>(Clock::now() - begin).count());
}

// By which processes are told apart that have the same number: the boot of the kernel, and the namespace.
std::string machine_id() {
  struct stat numbers{};
  stat("/proc/self/ns/pid", &numbers);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return print_format("%08x", static_cast<unsigned>(std::hash<std::string>()(boot + std::to_string(numbers.st_ino))));
}

bool is_left_over(const std::string& id, const std::string& path) {
  const size_t last = id.rfind('-'), machine = id.rfind('-', last - 1), process = id.rfind('-', machine - 1);
  if (machine == id.npos || process == id.npos) return false;
  const int number = std::atoi(id.c_str() + process + 1);
  if (id.substr(machine + 1, last - machine - 1) == machine_id()) return kill(number, 0) != 0 && errno == ESRCH;
  struct stat found{};
  return lstat(path.c_str(), &found) == 0 && found.st_mtime < time(nullptr) - 3600;
}

}  // namespace

Watch::Watch(Ms longest) try {
  std::thread([at = at_, longest] {
    while (at->step != nullptr && Clock::now() - at->since.load() < longest) usleep(200000);
    if (at->step == nullptr) return;
    std::fprintf(stderr, "ckpt: no answer for %d s: %s\n", static_cast<int>(longest.count() / 1000), at->step.load());
    _exit(1);
  }).detach();
} catch (const std::system_error&) {
  // Then nobody watches.
}

int64_t done(int64_t result, const char* what) {
  if (result < 0) throw Refused{what + (": " + words(errno)), State::kBroken, errno};
  return result;
}

OpenFile must_open(const std::string& path, int flags) {
  OpenFile file(path, flags);
  done(file.get(), (flags & O_CREAT) != 0 ? "creation of a file" : "open");
  return file;
}

std::vector<std::string> names_in(const std::string& path) {
  OpenFile folder = must_open(path, kFolder);
  posix_fadvise(folder.get(), 0, 0, POSIX_FADV_DONTNEED);  // makes an NFS client ask its server
  DIR* listing = fdopendir(folder.release());
  std::vector<std::string> names;
  for (const dirent* entry = nullptr; errno = 0, (entry = readdir(listing)) != nullptr;)
    if (const std::string_view name = entry->d_name; name != "." && name != "..") names.emplace_back(name);
  const int error = errno;
  closedir(listing);
  need(error == 0, "listing: " + words(error));
  return names;
}

bool is_there(const std::string& folder, View view, const std::string& name) {
  struct stat found{};
  if (view == View::kLookup) return lstat((folder + "/" + name).c_str(), &found) == 0;
  if (view == View::kOpened)
    return fstatat(must_open(folder, kFolder).get(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0;
  const auto names = names_in(folder);
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool wait_until(Ms limit, const std::function<bool()>& holds) {
  for (const auto begin = Clock::now(); !holds(); usleep(1000))
    if (Clock::now() - begin > limit) return false;
  return true;
}

bool name_exclusively(const std::string& from, const std::string& to) {
  if (rename_exclusively(from.c_str(), to.c_str()) == 0) return true;
  return no_such_call(errno) && ::link(from.c_str(), to.c_str()) == 0;
}

std::string make_id() {
  char host[33] = "";
  gethostname(host, sizeof host - 1);
  for (char& c : host) c = c == '\0' || std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  const auto chance = static_cast<unsigned>(Clock::now().time_since_epoch().count() >> 8 & 0xffffff);
  return format("{}-{}-{}-{}", host, getpid(), machine_id(), print_format("%06x", chance));
}

std::string id_of(const std::string& file) {
  const size_t begin = std::min(file.find('.'), file.size() - 1) + 1;
  return file.substr(begin, file.find('.', begin) - begin);
}

void remove_leftovers(const std::string& directory) {
  std::error_code ignored;
  for (const std::string& name : names_in(directory)) {
    const std::string path = directory + "/" + name;
    if (name.starts_with(kPrefix) && is_left_over(name.substr(kPrefix.size()), path))
      std::filesystem::remove_all(path, ignored);
    if (name != kMeeting) continue;
    for (const std::string& file : names_in(path))
      if (is_left_over(id_of(file), path + "/" + file)) std::filesystem::remove_all(path + "/" + file, ignored);
    rmdir(path.c_str());
  }
}

void probe(const std::string& folder, Watch& watch, const Add& add) {
  const Probes probes{folder, watch, add};
  probes.try_names();
  probes.try_data();
  probes.try_rest();
}

Speed probe_speed(const std::string& folder, Watch& watch) try {
  const Pages pages(kStep);
  const auto write = [&](int file, off_t at) { return pwrite(file, pages.data, kStep, at); };
  const auto read = [&](int file, off_t at) { return pread(file, pages.data, kStep, at); };
  const std::string path = folder + "/fast";
  const uint64_t free = free_bytes(folder);
  if (free < 20 * kStep) return {};
  watch.begin("speed");
  // As much as takes about two seconds.
  const double first = rate_of(path, kMake, 0, kStep, write);
  const uint64_t most = std::min({uint64_t{256} << 20, static_cast<uint64_t>(first * 2), free / 10});
  Speed speed{.bytes = std::max<size_t>(1, most / kStep) * kStep};
  speed.write_direct = rate_of(folder + "/direct", kMake, O_DIRECT, speed.bytes, write);
  speed.write_synced = rate_of(path, kMake, 0, speed.bytes, write);
  watch.begin("speed of reads");
  posix_fadvise(must_open(path, O_RDONLY).get(), 0, 0, POSIX_FADV_DONTNEED);
  speed.read = rate_of(path, O_RDONLY, O_DIRECT, speed.bytes, read);
  if (speed.read == 0) speed.read = rate_of(path, O_RDONLY, 0, speed.bytes, read);
  return speed;
} catch (const Refused&) {
  return {};
}

}  // namespace cli
