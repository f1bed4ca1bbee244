#include "store/cache_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <tuple>

#include "store/cache_name.h"
#include "store/posix_directory.h"

namespace ckpt::store {

static constexpr char kLockFile[] = "lock";
static constexpr int64_t kFreeShare = 20;     // a twentieth of the file system stays free
static constexpr uint64_t kDiskSector = 512;  // of st_blocks

bool lock_patiently(int fd, int how, const std::function<bool()>& enough) {
  constexpr int kTries = 40;
  for (int i = 0; i < kTries && !(enough && enough()); i++) {
    if (retry([&] { return flock(fd, how | LOCK_NB); }) == 0) return true;
    if (errno != EWOULDBLOCK) return false;
    // Not all of them at the same moment.
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + random_id().lo % 10));
  }
  return false;
}

// ---- making it ----

static Status cannot_cache(Status status) { return std::move(status).in("option cache"); }

static Status not_ours(const std::string& path) {
  return Status(CKPT_INVALID, path +
                                  ": expected a directory of this user's, found something else; remove it, or name "
                                  "another directory")
      .with("path", path);
}

// Whatever the umask is.
static Result<Fd> open_lock_file(const Root& root, int directory) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  Fd file(retry([&] { return openat(directory, kLockFile, kFlags, 0600); }));
  if (!file) return fail(errno, "write to", root.path(kLockFile));
  (void)fchmod(file.get(), 0600);
  return file;
}

// What shares one download needs.
static Status try_locks(const Root& root, int directory) {
  CKPT_ASSIGN(const Fd file, open_lock_file(root, directory));
  struct flock range{};
  range.l_type = F_WRLCK;
  const bool ranges = retry([&] { return fcntl(file.get(), F_OFD_GETLK, &range); }) == 0;
  const bool whole = flock(file.get(), LOCK_SH | LOCK_NB) == 0 || errno == EWOULDBLOCK;
  if (ranges && whole) return Ok();
  return Status(CKPT_UNSUPPORTED, root.path() + ": the file system has no locks").with("path", root.path());
}

Result<std::unique_ptr<CacheDirectory>> CacheDirectory::open(const CacheOptions& options) {
  std::error_code error;
  std::string path = std::filesystem::absolute(options.directory, error).lexically_normal().string();
  if (error) return cannot_cache(fail(error.value(), "find the working directory for", options.directory));
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (Status made = make_root(Root(path)); !made.ok()) return cannot_cache(std::move(made));
  // The version is that of what the files look like.
  const std::string own = strformat("{}/ckpt-cache-1.{}", path == "/" ? "" : path, uint64_t{geteuid()});
  const bool made = retry([&] { return mkdir(own.c_str(), 0700); }) == 0;
  if (!made && errno != EEXIST) return cannot_cache(fail(errno, "make directory", own));
  Fd directory(retry([&] { return ::open(own.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }));
  if (!directory && (errno == ENOTDIR || errno == ELOOP)) return cannot_cache(not_ours(own));
  if (!directory) return cannot_cache(fail(errno, "open", own));
  struct stat found{};
  if (made && fstat(directory.get(), &found) == 0 && found.st_uid == geteuid()) (void)fchmod(directory.get(), 0700);
  if (fstat(directory.get(), &found) != 0) return cannot_cache(fail(errno, "inspect", own));
  if (found.st_uid != geteuid() || (found.st_mode & 077) != 0) return cannot_cache(not_ours(own));
  if (Status locks = try_locks(Root(own), directory.get()); !locks.ok()) return cannot_cache(std::move(locks));
  return std::unique_ptr<CacheDirectory>(new CacheDirectory(options, Root(own), std::move(directory)));
}

bool CacheDirectory::has(const std::string& name) const {
  return faccessat(fd(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void CacheDirectory::note(Status failed) const {
  if (options_.trouble) options_.trouble->note(cannot_cache(std::move(failed)).with("path", root_.path()));
}

// ---- how much of it there is ----

std::vector<CacheDirectory::Found> CacheDirectory::find_all() const {
  std::vector<Found> files;
  auto names = list_directory(root_, "");
  for (size_t i = 0; names.ok() && i < names->size(); i++) {
    const std::string& name = (*names)[i].name;
    struct stat found{};
    if (!is_cache_name(name) || fstatat(fd(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(found.st_mode))
      files.push_back({name, static_cast<uint64_t>(found.st_blocks) * kDiskSector, found.st_mtim});
  }
  return files;
}

// How much may be added; less than nothing if there is too much.
int64_t CacheDirectory::room_beside(const std::vector<Found>& files) const {
  if (options_.bytes != 0) {
    uint64_t held = 0;
    for (const Found& file : files) held += file.bytes;
    return static_cast<int64_t>(options_.bytes) - static_cast<int64_t>(held);
  }
  struct statvfs system{};
  if (fstatvfs(fd(), &system) != 0) return 0;
  const auto unit = static_cast<int64_t>(system.f_frsize);
  return (static_cast<int64_t>(system.f_bavail) - static_cast<int64_t>(system.f_blocks) / kFreeShare) * unit;
}

// Whoever reads a file has a lock on it.
bool CacheDirectory::evict(const Found& file) const {
  const Fd opened(retry([&] { return openat(fd(), file.name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); }));
  if (!opened || retry([&] { return flock(opened.get(), LOCK_EX | LOCK_NB); }) != 0) return false;
  auto in_place = root_.leads_to(file.name, opened.get());
  return in_place.ok() && *in_place && unlinkat(fd(), file.name.c_str(), 0) == 0;
}

// The credit that there is then; less than `bytes`: there is no room.
uint64_t CacheDirectory::make_room(uint64_t bytes) const {
  auto lock = open_lock_file(root_, fd());
  if (!lock.ok() || !lock_patiently(lock->get(), LOCK_EX)) return 0;
  std::vector<Found> files = find_all();
  std::sort(files.begin(), files.end(), [](const Found& a, const Found& b) {
    return std::tie(a.opened.tv_sec, a.opened.tv_nsec) < std::tie(b.opened.tv_sec, b.opened.tv_nsec);
  });
  int64_t room = room_beside(files);
  const auto wanted = static_cast<int64_t>(bytes);
  for (size_t i = 0; i < files.size() && room < wanted; i++)
    if (evict(files[i])) room += static_cast<int64_t>(files[i].bytes);
  if (room >= wanted) return std::min(static_cast<uint64_t>(room), std::max(bytes, options_.credit));
  note(no_room(bytes));
  return 0;
}

Status CacheDirectory::no_room(uint64_t bytes) const {
  const std::string limit = options_.bytes != 0
                                ? strformat("cache_bytes is {}, and what is there is being read", options_.bytes)
                                : "5 % of its file system stay free; cache_bytes sets another limit";
  return Status(CKPT_NO_SPACE, strformat("{} has no room for {} bytes more: {}", root_.path(), bytes, limit));
}

bool CacheDirectory::take_room(uint64_t bytes) {
  std::lock_guard guard(mutex_);
  if (credit_ < bytes) credit_ = make_room(bytes);
  if (credit_ < bytes) return false;
  credit_ -= bytes;
  return true;
}

}  // namespace ckpt::store
