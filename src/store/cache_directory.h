// The directory of a cache: a directory of its own for each user in what option `cache` names, so that nobody else's
// files are in it; one file for each object (cache_entry.h); and how much of it there may be.
// Several processes and handles use it at once. May be used by many threads.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "store/posix_file.h"
#include "store/store.h"

namespace ckpt::store {

class CacheDirectory {
 public:
  // Makes it. INVALID, UNSUPPORTED, or an error that names it.
  static Result<std::unique_ptr<CacheDirectory>> open(const CacheOptions& options);

  const Root& root() const { return root_; }
  int fd() const { return directory_.get(); }
  bool has(const std::string& name) const;
  int64_t patience_ms() const { return options_.patience_ms; }

  // Whether so many more bytes may be added; if there is no room, that is noted. Removes what was opened least
  // recently, unless somebody reads it. The handle then has credit for what it adds next, so that it need not look at
  // all files each time.
  bool take_room(uint64_t bytes);
  // Nothing more is kept: the disk has failed, is full, or can only be read.
  void note(Status failed) const;

 private:
  struct Found {
    std::string name;
    uint64_t bytes;
    timespec opened;
  };
  CacheDirectory(CacheOptions options, Root root, Fd directory)
      : options_(std::move(options)), root_(std::move(root)), directory_(std::move(directory)) {}
  std::vector<Found> find_all() const;
  int64_t room_beside(const std::vector<Found>& files) const;
  bool evict(const Found& file) const;
  uint64_t make_room(uint64_t bytes) const;
  Status no_room(uint64_t bytes) const;

  const CacheOptions options_;
  const Root root_;
  const Fd directory_;
  std::mutex mutex_;
  uint64_t credit_ = 0;
};

// A lock that ends with the descriptor: flock, tried for a fifth of a second. False if somebody else keeps it, or once
// `enough` says that it is not needed any more.
bool lock_patiently(int fd, int how, const std::function<bool()>& enough = nullptr);

}  // namespace ckpt::store
