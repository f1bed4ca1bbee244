#include "interop/src/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <vector>

#include "base/call.h"
#include "base/parallel.h"

#ifndef MADV_POPULATE_READ  // of Linux 5.14; glibc before 2.35 does not name it
#define MADV_POPULATE_READ 22
#endif

namespace ckpt::interop {

namespace {

using store::Fd;
using store::retry;

Status exists(const std::string& path) {
  return Status(CKPT_EXISTS, path + " exists; an export never overwrites").with("path", path);
}

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// ---- what is made beside the target ----

// A file that has no name yet is made without one (O_TMPFILE). Where the file system cannot do that it is
// ".target.tmp.<random>"; a directory is made as ".target.tmp.<random>.d", and has a file of that name without ".d",
// its mark, which says which directory it is of. Who is at work holds a lock on that file. Others may write in the
// directory where all this is, so nothing is opened or removed here but by its descriptor and as this user's own.
constexpr char kDirectoryEnding[] = ".d";
constexpr size_t kRandomDigits = 16;
constexpr int kAnew = O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

// ".target.tmp."
std::string temporary_prefix(const std::string& target) {
  constexpr size_t kRoom = 200;  // of the 255 that a name may have
  return '.' + target.substr(0, kRoom) + ".tmp.";
}

std::string random_name(const std::string& target) {
  return temporary_prefix(target) + to_hex(random_id()).substr(0, kRandomDigits);
}

// False: another export saw the file before it was locked, and took it for a left one.
bool keep_for_us(int file) {
  struct stat info{};
  return (retry([&] { return ::flock(file, LOCK_EX | LOCK_NB); }) == 0 || errno != EWOULDBLOCK) &&
         ::fstat(file, &info) == 0 && info.st_nlink != 0;
}

std::string identity_text(const struct stat& info) {
  return strformat("ckpt export {}:{}\n", uint64_t{info.st_dev}, uint64_t{info.st_ino});
}

std::vector<std::string> names_in(int directory) {
  const Busy busy("list", "the directory of an export");
  std::vector<std::string> names;
  Fd again(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const stream = again ? ::fdopendir(again.get()) : nullptr;
  if (!stream) return names;
  (void)again.release();  // the stream closes it
  while (const dirent* entry = ::readdir(stream))
    if (const std::string_view name = entry->d_name; name != "." && name != "..") names.emplace_back(name);
  ::closedir(stream);
  return names;
}

// Opens a directory of this user's; no link is followed.
Fd open_own_directory(int parent, const std::string& name) {
  struct stat info{};
  Fd found(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return found && ::fstat(found.get(), &info) == 0 && info.st_uid == ::geteuid() ? std::move(found) : Fd();
}

// Unlinks this user's files in a directory, and so many levels of directories with theirs.
void remove_own_files(int directory, int levels) {
  for (const std::string& name : names_in(directory)) {
    const Busy busy("removal", name);
    struct stat info{};
    if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || info.st_uid != ::geteuid()) continue;
    if (!S_ISDIR(info.st_mode)) {
      ::unlinkat(directory, name.c_str(), 0);
    } else if (const Fd inner = levels == 0 ? Fd() : open_own_directory(directory, name); inner) {
      remove_own_files(inner.get(), levels - 1);
      ::unlinkat(directory, name.c_str(), AT_REMOVEDIR);
    }
  }
}

// On other file systems a lock may be one of this machine alone, while another one is at work.
bool may_be_in_use_elsewhere(int file, const struct stat& info) {
  constexpr time_t kHour = 3600;
  return !store::is_local(file) && info.st_mtime > ::time(nullptr) - kHour;
}

void remove_left_file(int parent, const std::string& name) {
  const Busy busy("removal", name);
  struct stat info{}, of_directory{};
  const auto is_ours = [&] { return S_ISREG(info.st_mode) && info.st_uid == ::geteuid() && info.st_nlink == 1; };
  if (::fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !is_ours()) return;
  const Fd file(::openat(parent, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file || ::fstat(file.get(), &info) != 0 || !is_ours() || may_be_in_use_elsewhere(file.get(), info) ||
      ::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    return;
  const std::string directory_name = name + kDirectoryEnding;
  if (const Fd directory = open_own_directory(parent, directory_name);
      directory && ::fstat(directory.get(), &of_directory) == 0) {
    char text[64];
    const ssize_t size = ::pread(file.get(), text, sizeof text, 0);
    if (size > 0 && std::string_view(text, static_cast<size_t>(size)) == identity_text(of_directory))
      remove_own_files(directory.get(), 1);
    // Others may have put something else into its place: only what is empty goes.
    ::unlinkat(parent, directory_name.c_str(), AT_REMOVEDIR);
  }
  ::unlinkat(parent, name.c_str(), 0);
}

// Removes what killed exports to the same target left.
void remove_left(int parent, const std::string& target) {
  const std::string prefix = temporary_prefix(target);
  for (const std::string& name : names_in(parent))
    if (name.starts_with(prefix) && name.size() == prefix.size() + kRandomDigits) remove_left_file(parent, name);
}

// A file without a name, which a link may give it later; none where the file system cannot.
Fd make_nameless(int directory, mode_t mode) {
  return Fd(::openat(directory, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, mode));
}

std::string link_of(int file) { return "/proc/self/fd/" + std::to_string(file); }

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Busy busy("open", path);
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return from_errno(errno, "open", path);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return from_errno(errno, "stat", path);
  if (!S_ISREG(info.st_mode)) return Status(CKPT_FORMAT, path + " is not a regular file").with("path", path);
  return map(fd.get(), static_cast<uint64_t>(info.st_size), path);
}

Result<MappedFile> MappedFile::map(int fd, uint64_t size, const std::string& path) {
  if (size == 0) return MappedFile(Bytes(), path);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return from_errno(errno, "map", path);
  return MappedFile(Bytes(static_cast<const std::byte*>(data), size), path);
}

Status MappedFile::prefetch(uint64_t begin, uint64_t size) const {
  constexpr uint64_t kStep = 64 << 20;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t end = begin + size;
  for (uint64_t at = begin / page * page; at < end; at += kStep) {
    const Busy busy("read", path_);
    auto* const data = const_cast<std::byte*>(bytes_.data()) + at;
    if (::madvise(data, std::min(kStep, end - at), MADV_POPULATE_READ) == 0 || errno != EFAULT) continue;
    return Status(CKPT_GONE, path_ + ": it was cut short while it was read, or the disk failed").with("path", path_);
  }
  return Ok();
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Result<OutputFile> OutputFile::temporary() {
  const char* set = std::getenv("TMPDIR");
  const std::string folder = set && *set ? set : "/tmp";
  const Busy busy("creation of a temporary file", folder);
  const Fd directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return from_errno(errno, "open", folder);
  Fd file = make_nameless(directory.get(), 0600);
  if (!file) {  // not on every file system
    const std::string name = random_name("ckpt");
    file = Fd(::openat(directory.get(), name.c_str(), O_RDWR | kAnew, 0600));
    if (!file) return from_errno(errno, "create a temporary file in", folder);
    ::unlinkat(directory.get(), name.c_str(), 0);
  }
  return OutputFile(folder, std::move(file), true);
}

Status OutputFile::reserve(uint64_t size) {
  const Busy busy("preallocation", path_);
  if (size == 0 || ::fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)) == 0) return Ok();
  return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? from_errno(errno, "reserve", path_) : Ok();
}

// The disk begins at once, and not when all is written and synced: meanwhile the next bytes are read.
Status OutputFile::write(Bytes data) {
  constexpr uint64_t kStep = 8 << 20;
  while (!data.empty()) {
    const Bytes piece = data.first(std::min<size_t>(data.size(), kStep));
    CKPT_TRY(store::write_all(file_.get(), size_, piece, path_));
    size_ += piece.size();
    data = data.subspan(piece.size());
    if (is_scratch_ || size_ - begun_ < kStep) continue;
    const Busy busy("write", path_);
    // Only a hint: what fails is told by sync().
    const auto begin = static_cast<off_t>(begun_), count = static_cast<off_t>(size_ - begun_);
    (void)::sync_file_range(file_.get(), begin, count, SYNC_FILE_RANGE_WRITE);
    begun_ = size_;
  }
  return Ok();
}

Status OutputFile::patch(uint64_t offset, Bytes data) { return store::write_all(file_.get(), offset, data, path_); }

Status OutputFile::map_over(MutableBytes memory, uint64_t offset) const {
  const int flags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
  const void* data =
      ::mmap(memory.data(), memory.size(), PROT_READ | PROT_WRITE, flags, file_.get(), static_cast<off_t>(offset));
  return data == MAP_FAILED ? from_errno(errno, "map", path_) : Ok();
}

Status OutputFile::sync() {
  CKPT_TRY(store::sync_file(file_.get(), path_));
  // Some file systems tell of a failed write only here.
  const int error = file_.close();
  return error == 0 ? Ok() : from_errno(error, "close", path_);
}

// ---- the place of an output ----

Result<Output> Output::begin(const std::string& target) {
  Output output;
  output.target_ = target;
  const size_t slash = output.target_.rfind('/');
  output.folder_ = slash == std::string::npos ? "." : slash == 0 ? "/" : output.target_.substr(0, slash);
  output.name_ = output.target_.substr(slash == std::string::npos ? 0 : slash + 1);
  const Busy busy("open", output.folder_);
  output.parent_ = Fd(::open(output.folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!output.parent_) return from_errno(errno, "open", output.folder_);
  return output;
}

bool Output::is_taken(bool unless_empty_directory) const {
  const Busy busy("inspection", target_);
  struct stat info{};
  if (name_.empty()) return true;  // "/", or a file "d/"
  if (::fstatat(parent_.get(), name_.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
  if (!S_ISDIR(info.st_mode) || !unless_empty_directory) return true;
  const Fd there(::openat(parent_.get(), name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return !there || !names_in(there.get()).empty();
}

// Makes the file beside the target that another export sees a lock on.
Status Output::make_locked_file(mode_t mode) {
  constexpr int kTries = 8;
  const Busy busy("creation", target_);
  for (int i = 0; i < kTries; i++) {
    const std::string name = random_name(name_);
    Fd made(::openat(parent_.get(), name.c_str(), O_RDWR | kAnew, mode));
    if (!made) return from_errno(errno, "create", folder_ + '/' + name);
    if (!keep_for_us(made.get())) continue;
    locked_ = std::move(made);
    locked_name_ = name;
    return Ok();
  }
  return Status(CKPT_IO, "create " + folder_ + '/' + random_name(name_) + ": others remove it at once");
}

Result<Output> Output::begin_file(const std::string& target) {
  CKPT_ASSIGN(Output output, begin(target));
  if (output.is_taken(false)) return exists(target);
  remove_left(output.parent_.get(), output.name_);
  const Busy busy("creation", output.target_);
  output.locked_ = make_nameless(output.parent_.get(), 0666);
  struct stat info{};
  if (output.locked_ && ::stat(link_of(output.locked_.get()).c_str(), &info) == 0) return output;
  CKPT_TRY(output.make_locked_file(0666));
  return output;
}

Result<Output> Output::begin_directory(const std::string& target) {
  CKPT_ASSIGN(Output output, begin(without_trailing_slashes(target)));
  if (output.is_taken(true)) return exists(output.target_);
  remove_left(output.parent_.get(), output.name_);
  CKPT_TRY(output.make_locked_file(0777));  // with the rights that the directory will have
  const std::string name = output.locked_name_ + kDirectoryEnding;
  const std::string path = output.folder_ + '/' + name;
  const Busy busy("making", path);
  if (::mkdirat(output.parent_.get(), name.c_str(), 0700) != 0) return from_errno(errno, "create", path);
  output.directory_ = open_own_directory(output.parent_.get(), name);
  struct stat info{};
  if (!output.directory_ || ::fstat(output.directory_.get(), &info) != 0) return from_errno(EEXIST, "open", path);
  CKPT_TRY(store::write_all(output.locked_.get(), 0, as_bytes(identity_text(info)), path));
  return output;
}

// What is left of it goes, the file that says so last.
// Where there is no memory for it, the next export to the same target does it (remove_left).
Output::~Output() {
  if (parent_) (void)call_guarded([&] { return clean(), Ok(); });
}

void Output::clean() {
  std::optional<Closing> failed;
  if (!is_published_) failed.emplace(Status(CKPT_CANCELLED, "the export has failed"));
  if (directory_) remove_own_files(directory_.get(), 1);
  const Busy busy("removal of what is left of", target_);
  if (directory_) ::unlinkat(parent_.get(), (locked_name_ + kDirectoryEnding).c_str(), AT_REMOVEDIR);
  if (!locked_name_.empty()) ::unlinkat(parent_.get(), locked_name_.c_str(), 0);
}

Result<OutputFile> Output::file() const {
  Fd again(::fcntl(locked_.get(), F_DUPFD_CLOEXEC, 0));
  if (!again) return from_errno(errno, "open", target_);
  return OutputFile(target_, std::move(again));
}

// In the directory, or in a directory in it, which is made.
Result<OutputFile> Output::file(const std::string& name) {
  const size_t slash = name.rfind('/');
  const Busy busy("creation", target_, name);
  const std::string path = target_ + '/' + name, inner = slash == std::string::npos ? "" : name.substr(0, slash);
  const Fd* directory = &directory_;
  if (!inner.empty()) {
    Fd& made = inner_[inner];
    if (!made) {
      if (::mkdirat(directory_.get(), inner.c_str(), 0777) != 0) return from_errno(errno, "create", path);
      made = open_own_directory(directory_.get(), inner);
      if (!made) return from_errno(EEXIST, "open", path);
    }
    directory = &made;
  }
  Fd file(::openat(directory->get(), name.c_str() + (inner.empty() ? 0 : slash + 1), O_WRONLY | kAnew, 0666));
  if (!file) return from_errno(errno, "create", path);
  return OutputFile(path, std::move(file));
}

Status Output::sync_directories() {
  const Busy busy("sync", target_);
  for (const auto& [name, inner] : inner_) CKPT_TRY(store::sync_directory(inner.get(), target_ + '/' + name));
  struct stat rights{}, info{};
  if (::fstat(locked_.get(), &rights) != 0 || ::fstat(directory_.get(), &info) != 0 ||
      ::fchmod(directory_.get(), (info.st_mode & 07000) | (rights.st_mode & 0777)) != 0)
    return from_errno(errno, "set the rights of", target_);
  return store::sync_directory(directory_.get(), target_);
}

Status Output::publish() {
  int error = 0;
  bool locked_stays = static_cast<bool>(directory_);
  if (directory_) CKPT_TRY(sync_directories());
  const Busy busy("publication", target_);
  if (directory_) {
    const std::string made = locked_name_ + kDirectoryEnding;
    // rename() puts a directory only in the place of nothing or of an empty directory.
    error = ::renameat(parent_.get(), made.c_str(), parent_.get(), name_.c_str()) == 0 ? 0 : errno;
  } else if (locked_name_.empty()) {
    const std::string link = link_of(locked_.get());
    error = ::linkat(AT_FDCWD, link.c_str(), parent_.get(), name_.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
  } else {
    error = store::rename_exclusive(parent_.get(), locked_name_.c_str(), name_.c_str(), &locked_stays);
  }
  if (error == EEXIST || error == ENOTEMPTY || error == ENOTDIR) return exists(target_);
  if (error != 0) return from_errno(error, "create", target_);
  is_published_ = true;
  directory_ = Fd();
  if (!locked_stays) locked_name_.clear();
  return store::sync_directory(parent_.get(), folder_);
}

}  // namespace ckpt::interop
