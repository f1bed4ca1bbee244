// An open file of the POSIX store, and the flock of one. Readers may be used concurrently.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "store/posix_file.h"
#include "store/store.h"

namespace ckpt::store {

class PosixReader final : public Reader {
 public:
  // Descriptors of a file that is read as streams, at most.
  static constexpr unsigned kStreams = 4;
  // `direct`: use direct reads if possible. `stream_bytes`: see Traits.
  static Result<std::unique_ptr<PosixReader>> open(const Root& root, std::string_view key, bool direct,
                                                   uint64_t stream_bytes = 0);
  ~PosixReader() override;

  uint64_t size() const override { return size_; }
  std::string_view where() const override { return path_; }
  Status read_at(uint64_t offset, MutableBytes out) const override;
  bool cached(uint64_t offset, uint64_t size) const override;
  Way way(uint64_t offset, uint64_t size) const override;
  uint64_t direct_align() const override { return direct().align; }
  Status read_direct(uint64_t offset, MutableBytes out) const override;
  int direct_descriptor(uint64_t, uint64_t) const override { return stream_bytes_ == 0 ? direct().file.get() : -1; }
  Result<Bytes> map() const override;
  Status keep_map() override;

 private:
  struct Direct {
    Fd file;  // -1 if there are no direct reads
    uint64_t align = 0;
  };

  PosixReader(Fd file, uint64_t size, std::string path, bool allow_direct, uint64_t stream_bytes)
      : file_(std::move(file)),
        size_(size),
        path_(std::move(path)),
        allow_direct_(allow_direct),
        stream_bytes_(stream_bytes) {}
  const Direct& direct() const;
  int stream_at(uint64_t offset) const;
  Direct open_direct() const;

  Fd file_;
  const uint64_t size_;
  const std::string path_;
  const bool allow_direct_;
  const uint64_t stream_bytes_;
  mutable std::once_flag direct_tried_;
  mutable Direct direct_;
  mutable std::mutex opening_;
  mutable std::array<Fd, kStreams - 1> streams_;  // besides that of direct_; opened as they are needed
  mutable std::mutex mapping_;
  mutable void* map_ = nullptr;
};

// CONFLICT while anyone holds a lock (`exclusive`) or while someone holds an exclusive one (shared). `common`: other
// machines see it; else it protects nothing.
Result<std::unique_ptr<Lock>> lock_posix(const Root& root, std::string_view key, bool exclusive, bool common);

}  // namespace ckpt::store
