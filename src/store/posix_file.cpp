#include "store/posix_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>
#include <system_error>

#include "store/kernel.h"
#include "store/keys.h"
#include "store/mount.h"
#include "store/posix_directory.h"

namespace ckpt::store {

Fd& Fd::operator=(Fd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Fd::~Fd() { close(); }

int Fd::close() {
  int fd = release();
  if (fd < 0) return 0;
  const Busy busy("close", "a file");
  // Linux closes the descriptor even if close fails with EINTR.
  if (::close(fd) == 0 || errno == EINTR) return 0;
  return errno;
}

static Status fail_as(ckpt_status code, int error, std::string_view action, std::string_view path) {
  std::string message = strformat("{} {}: {}", action, path, std::generic_category().message(error));
  return Busy::of_thread_ended(
      Status(code, std::move(message)).with("path", std::string(path)).with("errno", std::to_string(error)));
}

Status fail(int error, std::string_view action, std::string_view path) {
  switch (error) {
    case ELOOP:
      return Status(CKPT_FORMAT, std::string(action) + " " + std::string(path) + ": a symbolic link is in the way")
          .with("path", std::string(path));
    case ESTALE:
      return fail_as(CKPT_NOT_FOUND, error, action, path);
    case ENAMETOOLONG:
      return fail_as(CKPT_INVALID, error, action, path);
    default:
      return Busy::of_thread_ended(from_errno(error, action, path));
  }
}

static bool fits_off_t(uint64_t offset, uint64_t size) {
  uint64_t end = 0;
  return !add_overflows(offset, size, &end) && end <= static_cast<uint64_t>(std::numeric_limits<off_t>::max());
}

Status write_all(int fd, uint64_t offset, Bytes data, std::string_view path) {
  if (!fits_off_t(offset, data.size())) return fail(EFBIG, "write", path);
  const Busy busy("write", path);
  while (!data.empty()) {
    ssize_t done = retry([&] { return pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset)); });
    if (done < 0) return fail(errno, "write", path);
    if (done == 0) return fail(EIO, "write", path);
    offset += static_cast<uint64_t>(done);
    data = data.subspan(static_cast<size_t>(done));
  }
  return Ok();
}

Status read_all(int fd, uint64_t offset, MutableBytes out, std::string_view path) {
  const uint64_t start = offset, wanted = out.size();
  if (!fits_off_t(offset, out.size())) return ends_early(path, start, wanted, 0);
  const Busy busy("read", path);
  while (!out.empty()) {
    ssize_t done = retry([&] { return pread(fd, out.data(), out.size(), static_cast<off_t>(offset)); });
    if (done < 0 && errno == ESTALE) return fail_as(CKPT_GONE, ESTALE, "read", path);
    if (done < 0) return fail(errno, "read", path);
    if (done == 0) return ends_early(path, start, wanted, offset);
    offset += static_cast<uint64_t>(done);
    out = out.subspan(static_cast<size_t>(done));
  }
  return Ok();
}

Status sync_file(int fd, std::string_view path) {
  const Busy busy("sync", path);
  return retry([&] { return fsync(fd); }) == 0 ? Ok() : fail(errno, "sync", path);
}

Status sync_directory(int fd, std::string_view path) {
  const Busy busy("sync", path);
  if (retry([&] { return fsync(fd); }) == 0) return Ok();
  // EINVAL: the file system (CIFS, for example) cannot sync directories; its server does that by itself.
  return errno == EINVAL ? Ok() : fail(errno, "sync directory", path);
}

bool lives_in_memory(int fd) {
  const Busy busy("inspection", "a file system");
  struct statfs found;
  return retry([&] { return fstatfs(fd, &found); }) == 0 && found.f_type == TMPFS_MAGIC;
}

// FUSE takes any address, but cuts a transfer at the pages of the memory: GlusterFS, which then gets offsets that are
// multiples of nothing, loaded at a fifth of the speed.
uint64_t direct_align_of(int fd) {
  const Busy busy("inspection", "a file system");
  kernel::Statx found{};
  if (!kernel::get_statx(fd, 0, kernel::kStatxDioAlign, &found)) return kAlign;
  if (!(found.mask & kernel::kStatxDioAlign)) return kAlign;
  if (found.dio_offset_align > kAlign || found.dio_mem_align > kAlign) return 0;
  return found.dio_mem_align;
}

// EINVAL: the file system takes the flag but not the transfer (blocks above 4096, some FUSE). EFAULT: the memory has no
// pages that can be pinned (a device's, or one that CUDA manages), but a processor can copy it.
bool refuses_direct(const Status& status) {
  const std::string* error = status.detail("errno");
  return error && (*error == std::to_string(EINVAL) || *error == std::to_string(EFAULT));
}

bool is_local(int fd) {
  const Busy busy("inspection", "a file system");
  struct statfs found;
  return retry([&] { return fstatfs(fd, &found); }) == 0 && !local_type(static_cast<uint32_t>(found.f_type)).empty();
}

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

bool is_symlink(int directory, const char* name) {
  struct stat found;
  return fstatat(directory, name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(found.st_mode);
}

static bool no_such_call(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == EPERM;
}

int rename_exclusive(int directory, const char* from, const char* to, bool* from_stays) {
  const Busy busy("rename", from);
  *from_stays = retry([&] { return renameat2(directory, from, directory, to, RENAME_NOREPLACE); }) != 0;
  if (!*from_stays) return 0;
  if (!no_such_call(errno)) return errno;  // NFS and some FUSE file systems answer EINVAL; a link does the same there.
  if (retry([&] { return linkat(directory, from, directory, to, 0); }) == 0) return 0;
  return no_such_call(errno) ? EOPNOTSUPP : errno;
}

// For kernels before 5.6 and sandboxes without openat2: opens element by element and refuses links.
static int walk_beneath(int root, std::string_view key, int flags) {
  Fd held;
  int directory = root;
  for (std::string_view rest = key; !rest.empty();) {
    std::string element(next_element(rest));
    int how = rest.empty() ? flags : O_PATH | O_DIRECTORY;
    Fd next(retry([&] { return openat(directory, element.c_str(), how | O_NOFOLLOW | O_CLOEXEC); }));
    if (!next) {
      int error = errno;
      // With O_DIRECTORY the kernel reports a link as "not a directory".
      errno = error == ENOTDIR && is_symlink(directory, element.c_str()) ? ELOOP : error;
      return -1;
    }
    held = std::move(next);
    directory = held.get();
  }
  return held.release();
}

static int open_beneath(int root, std::string_view key, int flags) {
  kernel::OpenHow how{};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = kernel::kResolveBeneath | kernel::kResolveNoSymlinks;
  std::string path(key);
  int fd = static_cast<int>(retry([&] { return syscall(kernel::kOpenat2, root, path.c_str(), &how, sizeof how); }));
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM && errno != EINVAL && errno != EAGAIN)) return fd;
  return walk_beneath(root, key, flags);
}

std::string Root::path(std::string_view key) const {
  if (key.empty()) return path_;
  return (path_ == "/" ? path_ : path_ + "/") + std::string(key);
}

static int open_through_link(int root, std::string_view key, int flags) {
  std::string_view rest = key;
  const std::string first(next_element(rest));
  if (first.starts_with('.') || (rest.empty() && !(flags & O_DIRECTORY))) return open_beneath(root, key, flags);
  const int how = rest.empty() ? flags : O_PATH | O_DIRECTORY;
  Fd directory(retry([&] { return openat(root, first.c_str(), how | O_CLOEXEC); }));
  return !directory || rest.empty() ? directory.release() : open_beneath(directory.get(), rest, flags);
}

Status not_a_store(const std::string& path) {
  return Status(CKPT_INVALID, "store " + path + ": expected a directory, but it or what it lies in is another file")
      .with("path", path);
}

Status no_root(const std::string& path, int error, const char* action) {
  struct stat found;
  for (std::string part = path; error == ENOENT; part = parent_of(part)) {
    if (lstat(part.c_str(), &found) == 0) {
      if (!S_ISLNK(found.st_mode) || stat(part.c_str(), &found) == 0) break;
      return Status(CKPT_IO, strformat("store {}: {} is a link to what is not there: is its disk mounted?", path, part))
          .with("path", path);
    }
    if (part == "/") break;
  }
  return fail(error, action, path);
}

Result<Fd> Root::open_once(std::string_view key, int flags, Links links) const {
  const Busy busy("open", path_, key);
  int how = key.empty() ? flags : O_PATH | O_DIRECTORY;
  Fd root(retry([&] { return ::open(path_.c_str(), how | O_CLOEXEC); }));
  if (!root) {
    const int error = errno;  // "none" would be no answer: no store can be there
    if (error == ENOTDIR) return not_a_store(path_);
    return no_root(path_, error, "open");
  }
  if (key.empty()) return root;
  Fd found(open_beneath(root.get(), key, flags));
  if (!found && errno == ELOOP && links == Links::kFirst) found = Fd(open_through_link(root.get(), key, flags));
  if (!found) return fail(errno, "open", path(key));
  return found;
}

Result<Fd> Root::open(std::string_view key, int flags, Links links) const {
  for (int tries = 0; tries < 4; tries++) {
    Result<Fd> found = open_once(key, flags, links);
    if (found.status().code() != CKPT_NOT_FOUND || !appears(key)) return found;
  }
  return Status(CKPT_IO, strformat("open {}: its directory lists it, and it cannot be found: this mount "
                                   "remembers absent names, and must not (NFS: -o lookupcache=pos; see "
                                   "docs/file-systems.md)",
                                   path(key)))
      .with("path", path(key));
}

Result<Fd> Root::open_directory(std::string_view key, Links links) const {
  return open(key, O_RDONLY | O_DIRECTORY, links);
}

Result<bool> Root::leads_to(std::string_view key, int fd) const {
  struct stat held, found;
  Result<Fd> now = open(key, O_PATH, Links::kFirst);
  if (now.status().code() == CKPT_NOT_FOUND || now.status().code() == CKPT_FORMAT) return false;
  if (!now.ok()) return std::move(now).status();
  const Busy busy("inspection", path_, key);
  if (fstat(now->get(), &found) != 0 || fstat(fd, &held) != 0) return fail(errno, "inspect", path(key));
  return same_file(held, found);
}

}  // namespace ckpt::store
