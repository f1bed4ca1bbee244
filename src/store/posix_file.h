// The system calls of the POSIX store. EINTR, short transfers, links and old kernels are handled here. Nothing here is
// shared, so all of it may run concurrently.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/call.h"
#include "base/status.h"
#include "base/types.h"
#include "store/posix_fresh.h"

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
  // Returns 0 or errno. Some file systems report a lost write only here.
  int close();

 private:
  int fd_ = -1;
};

template <typename Call>
auto retry(Call&& call) {
  for (;;)
    if (auto result = call(); result != -1 || errno != EINTR) return result;
}

// from_errno, plus what only this store knows: ELOOP means a link in the way (FORMAT), ESTALE a file that another
// client removed.
Status fail(int error, std::string_view action, std::string_view path);

Status write_all(int fd, uint64_t offset, Bytes data, std::string_view path);
Status read_all(int fd, uint64_t offset, MutableBytes out, std::string_view path);
// Call it once for the same data: after an error the kernel forgets what it could not write.
Status sync_file(int fd, std::string_view path);
Status sync_directory(int fd, std::string_view path);

// Whether the file lives in the page cache (tmpfs). Direct I/O is pointless there, although O_DIRECT is accepted.
bool lives_in_memory(int fd);
// The alignment that direct I/O needs of addresses in memory; 0 if there is none in multiples of kAlign.
uint64_t direct_align_of(int fd);
// Whether a direct transfer failed that may succeed through the page cache.
bool refuses_direct(const Status& status);
// Whether no other machine can have the file open, so that a lock on it is one for all. Unknown file systems have
// others.
bool is_local(int fd);
bool same_file(const struct stat& a, const struct stat& b);
bool is_symlink(int directory, const char* name);
Status not_a_store(const std::string& path);  // INVALID: a file lies there
// What a path that cannot be had is: IO where a link in it leads to nothing, which hides what may be there.
Status no_root(const std::string& path, int error, const char* action);

// Renames within a directory, unless `to` exists. Returns 0 or errno; EOPNOTSUPP if the file system has no such step.
// Sets `*from_stays` if `from` may still exist afterwards, even after success: then both are names of the file.
int rename_exclusive(int directory, const char* from, const char* to, bool* from_stays);

// The directory that a store lives in. Links to the root itself are followed; links below it are not, but where it is
// said, and then only that of the first element of a key: a checkpoint's directory that was moved and linked.
class Root {
 public:
  explicit Root(std::string path) : path_(std::move(path)), names_(std::make_shared<FreshNames>()) {}

  const std::string& path() const { return path_; }
  std::string path(std::string_view key) const;

  // Opens what exists ("" is the root). `flags` must not have O_CREAT; O_CLOEXEC is added. NOT_FOUND once the server
  // of a network file system was asked.
  enum class Links { kRefused, kFirst };
  Result<Fd> open(std::string_view key, int flags, Links links = Links::kRefused) const;
  // For listing and for fsync.
  Result<Fd> open_directory(std::string_view key, Links links = Links::kRefused) const;
  // What seemed absent is there, as the server of a network file system says: ask again.
  bool appears(std::string_view key) const { return names_->appears(path(key)); }
  // Whether `key` still leads to the file behind `fd`. An error means that this is unknown.
  Result<bool> leads_to(std::string_view key, int fd) const;

 private:
  Result<Fd> open_once(std::string_view key, int flags, Links links) const;

  std::string path_;  // absolute; no '/' at its end, unless it is "/"
  std::shared_ptr<FreshNames> names_;
};

}  // namespace ckpt::store
