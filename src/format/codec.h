// Chunks as they are stored: filtered and compressed where that makes them smaller, raw otherwise (FORMAT §5).
// Decoding takes bytes that nobody vouches for: any input gives OK with all of `raw` written, or an error.
// Functions may be called from any thread; a CodecScratch belongs to one thread at a time.
#pragma once

#include <memory>
#include <new>
#include <string_view>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::format {

struct CodecSpec {
  Codec codec = Codec::kRaw;
  Filter filter = Filter::kNone;
  int filter_width = 0;  // 0 without filter
  bool operator==(const CodecSpec&) const = default;
};

// OK where FORMAT allows this combination in a segment; FORMAT otherwise.
Status check_codec(const CodecSpec& spec);

// Working memory, kept between chunks so that nothing is allocated for each. Grows to the largest chunk it has met;
// reserve() does so beforehand. Throws only std::bad_alloc.
class CodecScratch {
 public:
  void reserve(size_t raw_size);

 private:
  friend size_t encode_chunk(const CodecSpec&, Bytes, MutableBytes, CodecScratch&);
  friend Status decode_chunk(const CodecSpec&, Bytes, MutableBytes, CodecScratch&);
  friend class CodecTrial;
  // The compressed size; 0 where it would not come out smaller.
  size_t compress(const CodecSpec& spec, Bytes raw, MutableBytes stored);
  MutableBytes filtered(size_t size);
  void* lz4_state();

  // Aligned to a cache line, since planes are written a line at a time.
  struct Release {
    void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Release> filtered_;
  size_t capacity_ = 0;
  std::unique_ptr<std::byte[]> lz4_state_;
};

// `stored` needs this many bytes beyond the size of the raw chunk: none, since a chunk that does not shrink is stored
// raw.
inline constexpr size_t kEncodeSlack = 0;

// Encodes one chunk and returns its stored size: below raw.size(), or equal to it where `stored` holds the raw bytes
// themselves, without filter. `raw` and `stored` must not overlap.
size_t encode_chunk(const CodecSpec& spec, Bytes raw, MutableBytes stored, CodecScratch& scratch);

// The inverse. FORMAT where `stored` does not decode to exactly raw.size() bytes; what `raw` holds then is undefined.
Status decode_chunk(const CodecSpec& spec, Bytes stored, MutableBytes raw, CodecScratch& scratch);

// What the option `compression` (none, lz4, bitplane-lz4, auto) means for data of this dtype. auto tries out a few
// pieces of `sample` and takes the smallest result; raw unless it saves at least 5 %. `sample` is the data or a part of
// it, and stands for `stands_for` bytes (if more than its own), so large data may be given whole: at most 1/32 of that,
// 2 KiB at least and 64 KiB at most, is tried.
CodecSpec choose_codec(std::string_view compression, uint16_t dtype, Bytes sample, uint64_t stands_for = 0);

}  // namespace ckpt::format
