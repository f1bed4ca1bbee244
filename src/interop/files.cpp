#include "interop/files.h"

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
#include <vector>

namespace ckpt::interop {

namespace {

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Status exists(const std::string& path) {
  return Status(CKPT_EXISTS, path + " exists; an export never overwrites").with("path", path);
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// ".name.tmp.<random>" in the same directory, so that one rename publishes it. This is the name but for the last part.
std::string temporary_prefix(const std::string& target) {
  const size_t slash = target.rfind('/');
  const size_t room = 200;  // of the 255 that a name may have
  return '.' + target.substr(slash == std::string::npos ? 0 : slash + 1, room) + ".tmp.";
}

std::string beside(const std::string& target) {
  const size_t slash = target.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : target.substr(0, slash + 1);
  return directory + temporary_prefix(target) + to_hex(random_id()).substr(0, 16);
}

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Status sync_directory(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return from_errno(errno, "open", path);
  // EINVAL: a file system on which directories have nothing to sync.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return from_errno(errno, "sync", path);
  return Ok();
}

bool is_empty_directory(const std::string& path) {
  DIR* directory = opendir(path.c_str());
  if (!directory) return false;
  int count = 0;
  while (readdir(directory)) count++;
  closedir(directory);
  return count <= 2;  // "." and ".."
}

void remove_directory(const std::string& path) {
  std::vector<std::string> names;
  if (DIR* directory = opendir(path.c_str())) {
    while (const dirent* entry = readdir(directory)) names.emplace_back(entry->d_name);
    closedir(directory);
  }
  const std::string prefix = path + '/';
  for (const std::string& name : names)
    if (name != "." && name != ".." && ::unlink((prefix + name).c_str()) != 0) remove_directory(prefix + name);
  ::rmdir(path.c_str());
}

// Whether a temporary was left by an export that was killed. One that is at work holds a lock on it; the hour is for
// the moments when it does not yet or no longer.
bool is_left(const std::string& path) {
  constexpr time_t kHour = 3600;
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info{};
  return fd.get() >= 0 && ::fstat(fd.get(), &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) &&
         info.st_mtime < time(nullptr) - kHour && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
}

// Removes what killed exports to the same target left.
void remove_left(const std::string& target) {
  const std::string folder = directory_of(target), prefix = temporary_prefix(target);
  std::vector<std::string> left;
  if (DIR* directory = opendir(folder.c_str())) {
    while (const dirent* entry = readdir(directory)) {
      const std::string_view name = entry->d_name;
      if (name.starts_with(prefix) && name.size() == prefix.size() + 16) left.push_back(folder + '/' + entry->d_name);
    }
    closedir(directory);
  }
  for (const std::string& path : left)
    if (is_left(path) && ::unlink(path.c_str()) != 0) remove_directory(path);
}

// Gives a file its name, unless that is taken. Returns an errno.
int link_exclusively(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  // Not on this file system (NFS): a hard link is as exclusive.
  if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), 0) != 0) return errno;
  ::unlink(from.c_str());
  return 0;
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return from_errno(errno, "open", path);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return from_errno(errno, "stat", path);
  if (!S_ISREG(info.st_mode)) return Status(CKPT_FORMAT, path + " is not a regular file").with("path", path);
  return map(fd.get(), static_cast<uint64_t>(info.st_size), path);
}

Result<MappedFile> MappedFile::map(int fd, uint64_t size, const std::string& path) {
  if (size == 0) return MappedFile(Bytes());
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return from_errno(errno, "map", path);
  return MappedFile(Bytes(static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

// All of `data`; -1 and errno where that fails.
static int write_all(int fd, Bytes data) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd, data.data(), std::min<size_t>(data.size(), 1 << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return -1;
    data = data.subspan(static_cast<size_t>(written));
  }
  return 0;
}

Result<OutputFile> OutputFile::temporary() {
  const char* set = std::getenv("TMPDIR");
  const std::string folder = set && *set ? set : "/tmp";
  int fd = ::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
  if (fd < 0) {  // not on every file system
    std::string name = folder + "/ckpt.XXXXXX";
    fd = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd >= 0) ::unlink(name.c_str());
  }
  if (fd < 0) return from_errno(errno, "create a temporary file in", folder);
  return OutputFile(folder, fd, true);
}

Result<OutputFile> OutputFile::create(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) return from_errno(errno, "create", path);
  (void)::flock(fd, LOCK_EX | LOCK_NB);  // see is_left
  return OutputFile(path, fd, false);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!kept_) ::unlink(path_.c_str());
}

Status OutputFile::reserve(uint64_t size) {
  if (size == 0 || ::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)) == 0) return Ok();
  return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? from_errno(errno, "reserve", path_) : Ok();
}

// The disk begins at once, and not when all is written and synced: meanwhile the next bytes are read.
Status OutputFile::write(Bytes data) {
  constexpr uint64_t kStep = 8 << 20;
  while (!data.empty()) {
    const Bytes piece = data.first(std::min<size_t>(data.size(), kStep));
    if (write_all(fd_, piece) != 0) return from_errno(errno, "write", path_);
    size_ += piece.size();
    data = data.subspan(piece.size());
    if (kept_ || size_ - begun_ < kStep) continue;
    // Only a hint: what fails is told by sync().
    (void)::sync_file_range(fd_, static_cast<off_t>(begun_), static_cast<off_t>(size_ - begun_), SYNC_FILE_RANGE_WRITE);
    begun_ = size_;
  }
  return Ok();
}

Status OutputFile::patch(uint64_t offset, Bytes data) {
  while (!data.empty()) {
    const ssize_t written = ::pwrite(fd_, data.data(), data.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return from_errno(errno, "write", path_);
    data = data.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return Ok();
}

Status OutputFile::map_over(MutableBytes memory, uint64_t offset) const {
  const int flags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
  const void* data =
      ::mmap(memory.data(), memory.size(), PROT_READ | PROT_WRITE, flags, fd_, static_cast<off_t>(offset));
  return data == MAP_FAILED ? from_errno(errno, "map", path_) : Ok();
}

Status OutputFile::sync() {
  if (::fsync(fd_) != 0) return from_errno(errno, "sync", path_);
  // Some file systems tell of a failed write only here.
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) return from_errno(errno, "close", path_);
  kept_ = true;
  return Ok();
}

Result<Output> Output::begin_file(const std::string& target) {
  struct stat info{};
  if (::lstat(target.c_str(), &info) == 0) return exists(target);
  remove_left(target);
  return Output(target, beside(target), -1);
}

Result<Output> Output::begin_directory(const std::string& target) {
  const std::string path = without_trailing_slashes(target);
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0 && !(S_ISDIR(info.st_mode) && is_empty_directory(path))) return exists(path);
  remove_left(path);
  std::string temporary = beside(path);
  if (::mkdir(temporary.c_str(), 0777) != 0) return from_errno(errno, "create", temporary);
  const int directory = ::open(temporary.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return from_errno(errno, "open", temporary);
  (void)::flock(directory, LOCK_EX | LOCK_NB);  // see is_left
  return Output(path, std::move(temporary), directory);
}

Output::~Output() {
  if (!temporary_.empty() && is_directory())
    remove_directory(temporary_);
  else if (!temporary_.empty())
    ::unlink(temporary_.c_str());
  if (is_directory()) ::close(directory_);
}

Status Output::add_directory(const std::string& name) {
  std::string path = temporary_ + '/' + name;
  if (std::ranges::find(inner_, path) != inner_.end()) return Ok();
  if (::mkdir(path.c_str(), 0777) != 0) return from_errno(errno, "create", path);
  inner_.push_back(std::move(path));
  return Ok();
}

Status Output::publish() {
  for (const std::string& path : inner_) CKPT_TRY(sync_directory(path));
  if (is_directory()) CKPT_TRY(sync_directory(temporary_));
  // rename() puts a directory only in the place of nothing or of an empty directory.
  const int error = !is_directory()                                      ? link_exclusively(temporary_, target_)
                    : ::rename(temporary_.c_str(), target_.c_str()) == 0 ? 0
                                                                         : errno;
  if (error == EEXIST || error == ENOTEMPTY || error == ENOTDIR) return exists(target_);
  if (error != 0) return from_errno(error, "create", target_);
  temporary_.clear();
  return sync_directory(directory_of(target_));
}

}  // namespace ckpt::interop
