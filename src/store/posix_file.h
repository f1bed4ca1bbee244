// The system calls that the POSIX store is made of: EINTR, short transfers, links and old kernels are handled here.
// Nothing here is shared, so all of it may run concurrently.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::store {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();

  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  // 0 or errno. Some file systems report a lost write only here.
  int close();

 private:
  int fd_ = -1;
};

template <typename Call>
auto retry(Call&& call) {
  for (;;)
    if (auto result = call(); result != -1 || errno != EINTR) return result;
}

// from_errno, plus what only this store can know: ELOOP is a link in the way (FORMAT), ESTALE a file removed by another
// client.
Status fail(int error, std::string_view action, std::string_view path);

Status write_all(int fd, uint64_t offset, Bytes data, std::string_view path);
Status read_all(int fd, uint64_t offset, MutableBytes out, std::string_view path);
// To be called once for the same data: after an error the kernel forgets what it could not write.
Status sync_file(int fd, std::string_view path);
Status sync_directory(int fd, std::string_view path);

// The file lives in the page cache (tmpfs): there is nothing to pass it by for, although O_DIRECT is accepted.
bool lives_in_memory(int fd);
bool same_file(const struct stat& a, const struct stat& b);
bool is_symlink(int directory, const char* name);

// Renames within a directory unless `to` is there. 0 or errno; EOPNOTSUPP where the file system has no such step.
// `from_stays` where `from` may be there afterwards, even if it worked: then both are names of the file.
int rename_exclusive(int directory, const char* from, const char* to, bool* from_stays);

// The directory that a store lives in. The root itself may be reached through links; below it none is followed.
class Root {
 public:
  explicit Root(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string path(std::string_view key) const;

  // Opens what is there ("" is the root); `flags` without O_CREAT. O_CLOEXEC is added.
  Result<Fd> open(std::string_view key, int flags) const;
  // For listing and for fsync.
  Result<Fd> open_directory(std::string_view key) const;
  // Whether `key` still leads to the file behind `fd`. An error says that nobody knows.
  Result<bool> leads_to(std::string_view key, int fd) const;

 private:
  std::string path_;  // absolute, without a '/' at its end but for "/"
};

}  // namespace ckpt::store
