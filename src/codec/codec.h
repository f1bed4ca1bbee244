// Chunks as they are stored: filtered and compressed if that makes them smaller, raw otherwise (FORMAT §5). Decoding
// accepts untrusted bytes: any input gives OK with all of `raw` written, or an error.
// Functions may be called from any thread; a CodecScratch belongs to one thread at a time.
#pragma once

#include <memory>
#include <new>
#include <string_view>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::codec {

struct CodecSpec {
  Codec codec = Codec::kRaw;
  Filter filter = Filter::kNone;
  int filter_width = 0;  // 0 without filter
  bool operator==(const CodecSpec&) const = default;
};

// OK if FORMAT allows this combination in a segment; FORMAT otherwise.
Status check_codec(const CodecSpec& spec);

// Working memory, kept between chunks to avoid an allocation for each. Grows to the largest chunk so far; reserve()
// grows it beforehand. Throws only std::bad_alloc.
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

  // Aligned to a cache line, since planes are written one line at a time.
  struct Release {
    void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Release> filtered_;
  size_t capacity_ = 0;
  std::unique_ptr<std::byte[]> lz4_state_;
};

// The bytes that `stored` needs beyond the size of the raw chunk: none, since a chunk that does not shrink is stored
// raw.
inline constexpr size_t kEncodeSlack = 0;

// Encodes one chunk and returns its stored size: below raw.size(), or equal to it if `stored` holds the raw bytes
// themselves, unfiltered. `raw` and `stored` must not overlap.
size_t encode_chunk(const CodecSpec& spec, Bytes raw, MutableBytes stored, CodecScratch& scratch);

// The inverse. FORMAT if `stored` does not decode to exactly raw.size() bytes; the contents of `raw` are then
// undefined.
Status decode_chunk(const CodecSpec& spec, Bytes stored, MutableBytes raw, CodecScratch& scratch);

// What the option `compression` (none, lz4, bitplane-lz4, auto) means for data of this dtype. auto tries a few pieces
// of `sample` and takes the smallest result, or raw if that saves less than 5 %. `sample` is the data or a part of it,
// and represents `stands_for` bytes (if that is more than its own size). auto tries at most 1/32 of these bytes, but at
// least 2 KiB and at most 64 KiB, so `sample` may be large.
CodecSpec choose_codec(std::string_view compression, uint16_t dtype, Bytes sample, uint64_t stands_for = 0);

}  // namespace ckpt::codec
