// An object that is written from front to back. A small one is put at once by publish(); a larger one is a multipart
// upload, whose parts go out while later ones are still being made, each from the writer's memory together with the
// few bytes before it that were too little for a part. Nothing is under the key before publish().
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "store/cloud/upload.h"

namespace ckpt::store::cloud {

class ObjectWriter final : public Writer {
 public:
  static constexpr uint64_t kLeastPart = 5 << 20;  // of S3, but for the last part
  // Parts need no copy where there are no more writes than this; else these bytes are in memory, or one part.
  static constexpr uint64_t kMostBlocks = 8000, kMostCopied = 64 << 20;
  // Parts are as large as it takes to hold `expected_size` bytes in 10,000 of them.
  ObjectWriter(std::shared_ptr<Bucket> bucket, std::string_view key, uint64_t expected_size,
               uint64_t least_part = kLeastPart);

  bool direct() const override { return false; }
  // Waits until all that comes before has been taken.
  Status write_at(uint64_t offset, Bytes data) override;
  Status publish(uint64_t size) override;
  void abandon() override;

 private:
  // A part that is to be sent: what was carried, then `rest`.
  struct Part {
    size_t number = 0;  // from 0
    std::vector<std::byte> carried;
    Bytes rest;
  };
  using Lock = std::unique_lock<std::mutex>;

  uint64_t part_bytes() const;
  Status take_turn(Lock& lock, uint64_t offset);
  Status cut(Bytes data, std::vector<Part>* parts);
  Status take(Bytes data, std::vector<Part>* parts);
  Status send(const Part& part);
  Status send_all_of(const std::vector<Part>& parts);
  Status send_last();

  const std::shared_ptr<Bucket> bucket_;
  const std::string key_;
  const uint64_t expected_, least_;
  Multipart upload_;  // not begun before the first part

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t taken_ = 0;                  // bytes
  std::vector<std::byte> carried_;      // the last of them, which are in no part yet
  size_t sending_ = 0;                  // calls
  uint64_t copied_ = 0;                 // bytes, of the parts that they send
  std::vector<Multipart::Piece> sent_;  // by number
  Status error_;
  bool published_ = false;
};

}  // namespace ckpt::store::cloud
