#include "store/posix_recycle.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <optional>
#include <set>

#include "store/keys.h"
#include "store/posix_directory.h"

namespace ckpt::store {

// ---- whether a file may be overwritten ----

// Whether a lease covers everyone who can reach the file, and a write goes to the blocks that the file has. Elsewhere
// another machine may have the file open (NFS, Lustre, FUSE), a write takes new blocks anyway (btrfs, ZFS), or the
// kernel grants a lease on a file that somebody has mapped (overlayfs). tests/store/file_systems.sh proves that the
// checks hold on each file system that qualifies.
static bool recycles(int fd) {
  constexpr long kXfs = 0x58465342;
  struct statfs found;
  if (fstatfs(fd, &found) != 0) return false;
  const long type = static_cast<long>(found.f_type);
  return type == EXT4_SUPER_MAGIC || type == kXfs || type == TMPFS_MAGIC;
}

// The kernel grants a write lease only if no other descriptor is open. A mapping counts, since it keeps its descriptor.
static bool has_no_other_user(int file) {
  // If somebody opens the file during the lease, the kernel sends us a signal. The default, SIGIO, would end the
  // process.
  if (fcntl(file, F_SETSIG, SIGURG) != 0 || fcntl(file, F_SETLEASE, F_WRLCK) != 0) return false;
  bool still_alone = fcntl(file, F_GETLEASE) == F_WRLCK;
  return fcntl(file, F_SETLEASE, F_UNLCK) == 0 && still_alone;
}

// A file that another checkpoint shares has a second name. While a save gives it one, the checkpoint that it is in is
// locked, and cannot be retired.
static bool is_ours_alone(const struct stat& found) {
  return S_ISREG(found.st_mode) && found.st_nlink == 1 && found.st_uid == geteuid();
}

Fd open_unused(int directory, const std::string& name) {
  const Busy busy("open", name);
  struct stat found;
  // Checked before the open, since opening a device may do something.
  if (fstatat(directory, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0 || !is_ours_alone(found)) return Fd();
  constexpr int kFlags = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  Fd file(retry([&] { return openat(directory, name.c_str(), kFlags); }));
  if (!file || !recycles(file.get()) || !has_no_other_user(file.get())) return Fd();
  // O_NONBLOCK was only for the open; io_uring would apply it to every write.
  if (fstat(file.get(), &found) != 0 || !is_ours_alone(found) || fcntl(file.get(), F_SETFL, 0) != 0) return Fd();
  return file;
}

// ---- the pool ----

void empty_pool(const Root& root) {
  Result<Fd> pool = root.open_directory(kPoolDir);
  auto files = list_directory(root, kPoolDir);
  if (!pool.ok() || !files.ok()) return;
  for (const Entry& file : *files) (void)unlink_file(pool->get(), file.name, root.path(kPoolDir));
}

// The rename needs an empty pool, so the pool never holds the files of two directories.
static bool become_pool(const Root& root, std::string_view key) {
  Result<Fd> from = root.open_directory(directory_of(key)), to = root.open_directory(directory_of(kPoolDir));
  if (!from.ok() || !to.ok()) return false;
  std::string name(last_of(key)), pool(last_of(kPoolDir));
  const Busy busy("move", root.path(), key);
  // Others retire directories too, and may fill the pool that was just emptied.
  for (int pass = 0; pass < 4; pass++) {
    empty_pool(root);
    // Not synced: after a power cut the directory may be back under `key`, without its first file. It is then removed
    // from there.
    if (retry([&] { return renameat(from->get(), name.c_str(), to->get(), pool.c_str()); }) == 0) return true;
    if (errno != ENOTEMPTY && errno != EEXIST) return false;
  }
  return false;
}

Status retire_directory(const Root& root, std::string_view key, std::string_view first) {
  CKPT_ASSIGN(Fd directory, root.open_directory(key));
  CKPT_ASSIGN(std::vector<std::string> files, start_removal(root, key, directory.get(), first));
  const size_t count = files.size();
  std::erase_if(files, [&](const std::string& name) {
    struct stat found;
    Fd file = open_unused(directory.get(), name);
    const Busy busy("inspection", root.path(), key);
    return file && fstat(file.get(), &found) == 0 && static_cast<uint64_t>(found.st_size) >= kRecycleFrom;
  });
  if (files.size() == count) return finish_removal(root, key, directory.get(), std::move(files));
  for (const std::string& file : files) CKPT_TRY(unlink_file(directory.get(), file, root.path(key)));
  return become_pool(root, key) ? Ok() : finish_removal(root, key, directory.get(), {});
}

// ---- taking ----

// The names in the pool, the best match first.
static std::vector<std::string> candidates_for(const Root& root, std::string_view name, uint64_t size) {
  auto files = list_files(root, kPoolDir);
  if (!files.ok()) return {};
  auto distance = [&](const FileUse& file) {
    return std::pair(file.name != name, file.size > size ? file.size - size : size - file.size);
  };
  std::stable_sort(files->begin(), files->end(),
                   [&](const FileUse& a, const FileUse& b) { return distance(a) < distance(b); });
  std::vector<std::string> names;
  for (FileUse& file : *files) names.push_back(std::move(file.name));
  return names;
}

// The extended attributes of a file, access control lists among them, as "name=value"; nullopt if they cannot be read.
static std::optional<std::set<std::string>> attributes_of(int file) {
  std::set<std::string> all;
  char names[4096], value[4096];
  const ssize_t size = flistxattr(file, names, sizeof names);
  if (size < 0) return errno == EOPNOTSUPP ? std::optional(all) : std::nullopt;
  for (const char* name = names; name < names + size; name += std::strlen(name) + 1) {
    const ssize_t read = fgetxattr(file, name, value, sizeof value);
    if (read < 0) return std::nullopt;
    all.insert(std::string(name) + "=" + std::string(value, static_cast<size_t>(read)));
  }
  return all;
}

// Whether a file has the device, owner, group, mode and extended attributes that a new file gets here.
static bool same_access(int file, int fresh) {
  struct stat a, b;
  const auto had = attributes_of(file);
  return fstat(file, &a) == 0 && fstat(fresh, &b) == 0 && a.st_dev == b.st_dev && a.st_uid == b.st_uid &&
         a.st_gid == b.st_gid && a.st_mode == b.st_mode && had && had == attributes_of(fresh);
}

Fd take_retired(const Root& root, int directory, const std::string& temporary, std::string_view name, int fresh,
                uint64_t size) {
  Result<Fd> pool = root.open_directory(kPoolDir);
  if (!pool.ok()) return Fd();
  const std::string claimed = temporary_name(name);
  for (const std::string& donor : candidates_for(root, name, size)) {
    // Claim first, then check: under its new name nobody else can get hold of the file, or give it a second name.
    if (retry([&] { return renameat(pool->get(), donor.c_str(), directory, claimed.c_str()); }) != 0) continue;
    Fd file = open_unused(directory, claimed);
    if (file && same_access(file.get(), fresh) &&
        retry([&] { return renameat(directory, claimed.c_str(), directory, temporary.c_str()); }) == 0)
      return file;
    unlinkat(directory, claimed.c_str(), 0);
  }
  return Fd();
}

}  // namespace ckpt::store
