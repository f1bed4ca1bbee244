// The bytes of a pickle, taken from front to back; every number is compared with what is left. Pure.
#pragma once

#include <cstring>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::interop {

class PickleInput {
 public:
  explicit PickleInput(Bytes bytes) : text_(as_text(bytes)) {}

  size_t offset() const { return offset_; }
  size_t left() const { return text_.size() - offset_; }

  Result<std::string_view> take(uint64_t size) {
    if (size > left())
      return Status(CKPT_FORMAT, strformat("expected {} bytes, found {}", size, left()))
          .with("expected", size)
          .with("found", left());
    const std::string_view bytes = text_.substr(offset_, size);
    offset_ += bytes.size();
    return bytes;
  }

  // Only if something is left. A pickle has an opcode for every few bytes.
  uint8_t next() { return static_cast<uint8_t>(text_[offset_++]); }

  // Little-endian, up to 8 bytes.
  Result<uint64_t> number(unsigned size) {
    if (size == 1 && left() != 0) return uint64_t{next()};
    CKPT_ASSIGN(const std::string_view bytes, take(size));
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }

  // Without its line feed.
  Result<std::string_view> line() {
    const size_t end = text_.find('\n', offset_);
    if (end == std::string_view::npos) return Status(CKPT_FORMAT, "expected a line, found the end");
    const std::string_view line = text_.substr(offset_, end - offset_);
    offset_ = end + 1;
    return line;
  }

 private:
  std::string_view text_;
  size_t offset_ = 0;
};

}  // namespace ckpt::interop
