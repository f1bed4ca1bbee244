// A file on its way to its key: written under "<name>.tmp.<nonce>" beside it, made durable, renamed exclusively, its
// directory made durable.
// write_at may run concurrently; publish and the destructor run alone.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "store/posix_file.h"
#include "store/store.h"

namespace ckpt::store {

class PosixWriter final : public Writer {
 public:
  struct Wish {
    uint64_t size = 0;     // to preallocate; 0 for none
    bool at_most = false;  // no room for it is no error
    bool direct = false;   // where possible
    bool recycle = false;  // into a retired file, where one can be had
    bool durable = true;   // false only for the probe, which is about atomicity
  };
  // `key` was checked.
  static Result<std::unique_ptr<PosixWriter>> create(const Root& root, std::string_view key, const Wish& wish);
  ~PosixWriter() override;

  bool direct() const override { return direct_.load(std::memory_order_acquire); }
  Status write_at(uint64_t offset, Bytes data) override;
  bool recycled() const override { return recycled_; }
  // Only of direct files: what copies into the page cache does best by calls.
  int descriptor() const override { return direct() ? file_.get() : -1; }
  Status publish(uint64_t size) override;

  // The key is taken already: answers as publish would, without writing first.
  bool taken() const;
  Status tell_taken() const;

 private:
  PosixWriter(const Root& root, std::string_view key, Fd directory, bool durable);
  Status open_temporary();
  void take_retired(uint64_t size);
  Status preallocate(uint64_t size);
  template <typename Call>
  Status give_way(Call&& call);
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
  Fd held_;  // the file once more, after it was closed: that it is open says that it is somebody's (posix_orphans.h)
  struct stat identity_{};
  bool has_temporary_ = false, recycled_ = false;
  std::atomic<bool> direct_{false};
  std::mutex leaving_direct_;
};

}  // namespace ckpt::store
