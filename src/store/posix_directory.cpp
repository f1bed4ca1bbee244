#include "store/posix_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "store/kernel.h"
#include "store/keys.h"
#include "store/posix_recycle.h"

namespace ckpt::store {

std::string parent_of(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

Fd open_plain(const std::string& directory) {
  const Busy busy("open", directory);
  return Fd(retry([&] { return open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
}

static Status sync_parent_of(const std::string& path) {
  const std::string parent = parent_of(path);
  const Fd directory = open_plain(parent);
  return directory ? sync_directory(directory.get(), parent) : fail(errno, "open", parent);
}

static Status make_path(const std::string& path) {
  const Busy busy("making", path);
  int made = retry([&] { return mkdir(path.c_str(), 0777); });
  if (made != 0 && errno == ENOENT && path != "/") {
    CKPT_TRY(make_path(parent_of(path)));
    made = retry([&] { return mkdir(path.c_str(), 0777); });
  }
  if (made == 0) return sync_parent_of(path);
  return errno == EEXIST ? Ok() : no_root(path, errno, "make directory");
}

Status make_root(const Root& root) {
  Status status = make_path(root.path());
  // What was there already, a client of NFS may remember as absent.
  const auto opened = root.open("", O_PATH, Root::Links::kFirst);
  const Busy busy("inspection", root.path());
  struct stat found;
  if (opened.ok() && fstat(opened->get(), &found) == 0 && !S_ISDIR(found.st_mode)) return not_a_store(root.path());
  CKPT_TRY(std::move(status));
  CKPT_TRY(opened.status());
  // Another rank may have made the root a moment ago without syncing it yet. That a parent may not be opened or synced
  // is ignored: "/" may be unreadable, or read-only. That its disk fails, or the system for now, is not.
  const std::string parent = parent_of(root.path());
  const Fd directory = open_plain(parent);
  if (directory && retry([&] { return fsync(directory.get()); }) == 0) return Ok();
  constexpr std::array kFailures = {EIO, ENOSPC, EDQUOT, EMFILE, ENFILE, ENOMEM};
  return std::ranges::count(kFailures, errno) != 0 ? fail(errno, "sync directory", parent) : Ok();
}

Status make_directory(const Root& root, std::string_view key) {
  CKPT_ASSIGN(Fd directory, root.open_directory(""));
  for (std::string_view rest = key; !rest.empty();) {
    std::string element(next_element(rest));
    const std::string_view level = key.substr(0, key.size() - (rest.empty() ? 0 : rest.size() + 1));
    std::string path = root.path(level);
    const Busy busy("making", path);
    const auto make = [&] { return retry([&] { return mkdirat(directory.get(), element.c_str(), 0777); }); };
    int made = make();
    // Only this is tried again: of a sync that failed, the next would not tell what was lost.
    if (made != 0 && (errno == ENOSPC || errno == EDQUOT)) empty_pool(root), made = make();
    if (made != 0 && errno != EEXIST) return fail(errno, "make directory", path);
    // Levels that exist are synced too, since whoever made them may not have done so yet.
    CKPT_TRY(sync_directory(directory.get(), parent_of(path)));
    constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    const auto open = [&] { return Fd(retry([&] { return openat(directory.get(), element.c_str(), kFlags); })); };
    Fd next = open();
    if (!next && errno == ENOENT && root.appears(level)) next = open();
    if (!next && (errno == ENOTDIR || errno == ELOOP)) return not_a_directory(path);
    if (!next) return fail(errno, "open", path);
    directory = std::move(next);
  }
  return Ok();
}

// Through its directory, which is opened: an NFS client asks the server then whether the directory changed.
Result<bool> exists(const Root& root, std::string_view key) {
  auto directory = root.open_directory(directory_of(key), Root::Links::kFirst);
  if (directory.status().code() == CKPT_NOT_FOUND) return false;
  if (!directory.ok()) return std::move(directory).status();
  struct stat found;
  const std::string name(last_of(key));
  const Busy busy("inspection", root.path(), key);
  if (retry([&] { return fstatat(directory->get(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW); }) == 0) return true;
  if (errno == ENOENT || errno == ESTALE) return root.appears(key);
  return fail(errno, "inspect", root.path(key));
}

static DIR* open_stream(int directory, const std::string& path) {
  const Busy busy("list", path);
  return fdopendir(directory);
}

static int close_stream(DIR* stream) {
  const Busy busy("close", "a directory");
  return closedir(stream);
}

static const dirent* next_entry(DIR* stream, const std::string& path) {
  const Busy busy("list", path);
  return readdir(stream);
}

// Calls visit(name, stat), which returns a Status, for each entry of a directory; of stat only the kind is set, unless
// `sizes`. An entry counts even if it was removed after it was listed: what took its place may not have been listed.
// But what must be looked at has to be there.
template <typename Visit>
static Status for_each_entry(Fd directory, const std::string& path, bool sizes, Visit&& visit) {
  forget_listing(directory.get());
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(open_stream(directory.get(), path), close_stream);
  if (!stream) return fail(errno, "list", path);
  const int fd = directory.release();  // the stream closes it
  for (;;) {
    errno = 0;
    const dirent* entry = next_entry(stream.get(), path);
    if (!entry && errno != 0) return fail(errno, "list", path);
    if (!entry) return Ok();
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat found = {};
    if (entry->d_type == DT_DIR || (entry->d_type != DT_UNKNOWN && !sizes)) {
      found.st_mode = DTTOIF(entry->d_type);
      CKPT_TRY(visit(std::move(name), found));
      continue;
    }
    const Busy busy("inspection", path, name);
    if (retry([&] { return fstatat(fd, name.c_str(), &found, AT_SYMLINK_NOFOLLOW); }) == 0)
      CKPT_TRY(visit(std::move(name), found));
    else if (errno != ENOENT && errno != ESTALE)  // otherwise it was removed meanwhile
      return fail(errno, "inspect", strformat("{}/{}", path, name));
  }
}

std::string link_of(const Root& root, std::string_view name) {
  std::string to(4096, '\0');
  const Busy busy("inspection", root.path(), name);
  const ssize_t size = readlink(root.path(name).c_str(), to.data(), to.size());
  return to.substr(0, size < 0 ? 0 : static_cast<size_t>(size));
}

Result<std::vector<Entry>> list_directory(const Root& root, std::string_view key) {
  CKPT_ASSIGN(Fd directory, root.open_directory(key, Root::Links::kFirst));
  std::vector<Entry> entries;
  CKPT_TRY(for_each_entry(std::move(directory), root.path(key), false, [&](std::string name, const struct stat& found) {
    const bool linked = key.empty() && S_ISLNK(found.st_mode);  // maybe to a directory, maybe to none that is there
    entries.push_back(Entry{std::move(name), linked || S_ISDIR(found.st_mode)});
    return Ok();
  }));
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

Result<std::vector<FileUse>> list_files(const Root& root, std::string_view key) {
  CKPT_ASSIGN(Fd directory, root.open_directory(key, Root::Links::kFirst));
  std::vector<FileUse> files;
  CKPT_TRY(for_each_entry(std::move(directory), root.path(key), true, [&](std::string name, const struct stat& found) {
    if (S_ISREG(found.st_mode))
      files.push_back({std::move(name), static_cast<uint64_t>(found.st_size), found.st_nlink, found.st_ino});
    return Ok();
  }));
  return files;
}

// Returns 0 or errno.
static int rename_directory(int from_parent, const char* from, int to_parent, const char* to) {
  const Busy busy("rename", from);
  if (retry([&] { return renameat2(from_parent, from, to_parent, to, RENAME_NOREPLACE); }) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP && errno != EPERM) return errno;
  // Something may appear after this check. But rename then replaces only an empty directory.
  struct stat found;
  if (fstatat(to_parent, to, &found, AT_SYMLINK_NOFOLLOW) == 0) return EEXIST;
  return retry([&] { return renameat(from_parent, from, to_parent, to); }) == 0 ? 0 : errno;
}

Status move_directory(const Root& root, std::string_view from, std::string_view to) {
  if (to.starts_with(std::string(from) + "/"))
    return Status(CKPT_INVALID, "move " + root.path(from) + ": it cannot move into itself")
        .with("path", root.path(from));
  CKPT_ASSIGN(Fd from_parent, root.open_directory(directory_of(from)));
  CKPT_ASSIGN(Fd to_parent, root.open_directory(directory_of(to)));
  std::string from_name(last_of(from)), to_name(last_of(to));
  const Busy busy("move", root.path(), from);
  struct stat found;
  if (fstatat(from_parent.get(), from_name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0)
    return fail(errno, "move", root.path(from));
  if (!S_ISDIR(found.st_mode)) return not_a_directory(root.path(from));
  int error = rename_directory(from_parent.get(), from_name.c_str(), to_parent.get(), to_name.c_str());
  if (error == EEXIST || error == ENOTEMPTY) return exists(root.path(to));
  if (error != 0) return fail(error, "move", root.path(from));
  CKPT_TRY(sync_directory(to_parent.get(), root.path(directory_of(to))));
  return sync_directory(from_parent.get(), root.path(directory_of(from)));
}

// What the client of NFS keeps of a removed file that a process of this machine has open; it goes when that closes it.
static bool is_kept_open(const std::string& name) { return name.starts_with(".nfs"); }

// The names of all files; IO if one of them is a directory.
static Result<std::vector<std::string>> files_of(const Root& root, std::string_view key) {
  CKPT_ASSIGN(Fd directory, root.open_directory(key));
  std::vector<std::string> files;
  CKPT_TRY(for_each_entry(std::move(directory), root.path(key), false, [&](std::string name, const struct stat& found) {
    if (S_ISDIR(found.st_mode))
      return Status(CKPT_IO, "remove directory " + root.path(key) + ": expected only files, found directory " + name)
          .with("path", root.path(key) + "/" + name);
    files.push_back(std::move(name));
    return Ok();
  }));
  return files;
}

Status unlink_file(int directory, const std::string& name, const std::string& path) {
  const Busy busy("removal", path, name);
  if (retry([&] { return unlinkat(directory, name.c_str(), 0); }) == 0 || errno == ENOENT) return Ok();
  return fail(errno, "remove", path + "/" + name);
}

Result<std::vector<std::string>> start_removal(const Root& root, std::string_view key, int directory,
                                               std::string_view first) {
  CKPT_ASSIGN(std::vector<std::string> files, files_of(root, key));  // fails before anything is lost
  if (first.empty()) return files;
  CKPT_TRY(unlink_file(directory, std::string(first), root.path(key)));
  CKPT_TRY(sync_directory(directory, root.path(key)));
  std::erase(files, first);
  return files;
}

Status finish_removal(const Root& root, std::string_view key, int directory, std::vector<std::string> files) {
  const std::string path = root.path(key), name(last_of(key));
  CKPT_ASSIGN(Fd parent, root.open_directory(directory_of(key)));
  // A writer that is still at work may add a file between a pass and the rmdir, but not for ever.
  for (int pass = 0; pass < 16; pass++) {
    for (const std::string& file : files)
      if (!is_kept_open(file)) CKPT_TRY(unlink_file(directory, file, path));
    const Busy busy("removal", path);
    if (retry([&] { return unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR); }) == 0)
      return sync_directory(parent.get(), root.path(directory_of(key)));
    if (errno != ENOTEMPTY && errno != EEXIST) return fail(errno, "remove directory", path);
    CKPT_ASSIGN(files, files_of(root, key));
    if (!files.empty() && std::all_of(files.begin(), files.end(), is_kept_open))
      return Status(CKPT_CONFLICT, strformat("remove directory {}: a process of this machine has a removed file open, "
                                             "which NFS keeps as {}",
                                             path, files[0]))
          .with("path", path);
  }
  return fail(ENOTEMPTY, "remove directory", path);
}

Status remove_directory(const Root& root, std::string_view key, std::string_view first) {
  CKPT_ASSIGN(Fd directory, root.open_directory(key));
  CKPT_ASSIGN(std::vector<std::string> files, start_removal(root, key, directory.get(), first));
  return finish_removal(root, key, directory.get(), std::move(files));
}

}  // namespace ckpt::store
