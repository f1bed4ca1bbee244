// An open file of the POSIX store, and the flock of one. Readers may be used concurrently.
#pragma once

#include <memory>
#include <mutex>

#include "store/posix_file.h"
#include "store/store.h"

namespace ckpt::store {

class PosixReader final : public Reader {
 public:
  static Result<std::unique_ptr<PosixReader>> open(const Root& root, std::string_view key);
  ~PosixReader() override;

  uint64_t size() const override { return size_; }
  Status read_at(uint64_t offset, MutableBytes out) const override;
  Result<Bytes> map() const override;

 private:
  PosixReader(Fd file, uint64_t size, std::string path) : file_(std::move(file)), size_(size), path_(std::move(path)) {}

  const Fd file_;
  const uint64_t size_;
  const std::string path_;
  mutable std::mutex mapping_;
  mutable void* map_ = nullptr;
};

// `exclusive`: CONFLICT while anyone has a lock; shared: while someone has an exclusive one.
Result<std::unique_ptr<Lock>> lock_posix(const Root& root, std::string_view key, bool exclusive);

}  // namespace ckpt::store
