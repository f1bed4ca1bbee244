#include "store/posix_fresh.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/call.h"
#include "store/posix_directory.h"

namespace ckpt::store {

void forget_listing(int directory) { (void)posix_fadvise(directory, 0, 0, POSIX_FADV_DONTNEED); }

// The coarsest clocks of servers' file systems tick once in two seconds.
static constexpr int64_t kTickMs = 2500;
static constexpr size_t kMostKnown = 256;

// Lustre, GPFS, CephFS, GFS2, OCFS2: their clients hold leases or locks on what they remember.
static constexpr std::array<uint32_t, 5> kCoherent = {0x0bd00bd0, 0x47504653, 0x00c36400, 0x01161970, 0x7461636f};

static uint32_t type_of(int directory) {
  struct statfs found;
  return retry([&] { return fstatfs(directory, &found); }) == 0 ? static_cast<uint32_t>(found.f_type) : 0;
}

static bool same_time(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

// Whether a client of NFS may have a delegation of a directory, and then asks for its time no more, whatever is said to
// it (AT_STATX_FORCE_SYNC).
static bool may_hold_directories() {
  static const bool may = [] {
    utsname system;
    int major = 0, minor = 0;
    if (uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return true;
    return std::pair(major, minor) >= std::pair(6, 19);
  }();
  return may;
}

// The server's clock was at `time` or later when this was first seen. What is made a tick after that changes the time.
bool FreshNames::is_known(const struct stat& directory) {
  std::lock_guard lock(mutex_);
  if (known_.size() > kMostKnown) known_.clear();
  Known& known = known_[{directory.st_dev, directory.st_ino}];
  if (known.since_ms == 0 || !same_time(known.time, directory.st_mtim)) known = {directory.st_mtim, steady_ms(), false};
  return known.complete;
}

void FreshNames::note_read(const struct stat& before, int64_t began_ms) {
  std::lock_guard lock(mutex_);
  const auto known = known_.find({before.st_dev, before.st_ino});
  if (known == known_.end() || !same_time(known->second.time, before.st_mtim)) return;
  if (began_ms - known->second.since_ms > kTickMs) known->second.complete = true;
}

// Reads all of it also once the name was found: what is read brings the other names, too. Gives up with the call.
static bool read_names(int directory, const std::string& path, const std::string& name, bool* whole) {
  const Busy busy("list", path);
  forget_listing(directory);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(directory), closedir);
  if (!stream) return false;
  bool found = false;
  for (size_t i = 1; i % 1024 != 0 || CallContext::current().of(busy).check().ok(); i++) {
    errno = 0;
    const dirent* entry = readdir(stream.get());
    *whole = !entry && errno == 0;
    if (!entry) return found;
    found |= name == entry->d_name;
  }
  return found;
}

bool FreshNames::is_listed(int directory, const std::string& path, const std::string& name) {
  const Busy busy("inspection", path);
  if (is_local(directory)) return false;
  const uint32_t type = type_of(directory);
  if (std::find(kCoherent.begin(), kCoherent.end(), type) != kCoherent.end()) return false;
  struct stat before;
  const bool has_time = type == NFS_SUPER_MAGIC && !may_hold_directories() && fstat(directory, &before) == 0;
  if (has_time && is_known(before)) return false;
  const int64_t began_ms = steady_ms();
  bool whole = false;
  const bool found = read_names(fcntl(directory, F_DUPFD_CLOEXEC, 0), path, name, &whole);
  if (has_time && whole) note_read(before, began_ms);
  return found;
}

bool FreshNames::appears(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos || path.size() < 2) return false;
  const std::string parent = parent_of(path);
  Fd directory = open_plain(parent);
  if (!directory && errno == ENOENT && appears(parent)) directory = open_plain(parent);
  return directory && is_listed(directory.get(), parent, path.substr(slash + 1));
}

}  // namespace ckpt::store
