// A file on its way to its key. It is written beside it under "<name>.tmp.<nonce>", made durable and renamed
// exclusively; then its directory is made durable.
// write_at may run concurrently; publish and the destructor must run alone.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "store/posix_file.h"
#include "store/store.h"

namespace ckpt::store {

class PosixWriter final : public Writer {
 public:
  struct Settings {
    uint64_t size = 0;     // bytes to preallocate; 0: none
    bool at_most = false;  // room is made as the file grows, and lack of space is not an error
    bool direct = false;   // if possible
    bool recycle = false;  // into a retired file, if there is one
    bool durable = true;   // false only for the probe, which tests atomicity
  };
  // `key` must have been checked.
  static Result<std::unique_ptr<PosixWriter>> create(const Root& root, std::string_view key, const Settings& settings);
  ~PosixWriter() override;

  bool direct() const override { return direct_.load(std::memory_order_acquire); }
  uint64_t direct_align() const override { return direct_align_; }
  Status write_at(uint64_t offset, Bytes data) override;
  std::string_view where() const override { return path_; }
  bool recycled() const override { return recycled_; }
  // Direct files only: blocking calls are the best way to copy into the page cache.
  int descriptor() const override { return direct() ? file_.get() : -1; }
  void make_room(uint64_t end) override;
  Status publish(uint64_t size) override;

  // taken: whether the key exists already. already_exists: what publish would then answer, without writing first.
  bool taken() const;
  Status already_exists() const;

 private:
  PosixWriter(const Root& root, std::string_view key, Fd directory, bool durable);
  Status open_temporary();
  void take_retired(uint64_t size);
  Status preallocate(uint64_t size);
  template <typename Call>
  Status with_room(Call&& call);
  void use_direct();
  Status write_direct(uint64_t offset, Bytes data);
  Status leave_direct();
  Status finish(uint64_t size);
  Status claim();
  bool holds_key() const;
  Status sync_parent() const;
  void drop_temporary();

  const Root root_;
  const std::string key_, path_, name_, temporary_;
  const bool durable_;
  Fd directory_, file_;
  Fd held_;  // keeps the file open after file_ is closed, so that nobody takes it for an orphan (posix_orphans.h)
  struct stat identity_{};
  bool has_temporary_ = false, recycled_ = false;
  std::atomic<bool> direct_{false};
  uint64_t direct_align_ = kAlign;
  std::mutex leaving_direct_, growing_;
  std::atomic<uint64_t> room_{UINT64_MAX};  // where no more is wanted
};

}  // namespace ckpt::store
