#include "codec/codec.h"

#include <lz4.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "codec/filter.h"

namespace ckpt::codec {

Status check_codec(const CodecSpec& spec) {
  if (spec.codec != Codec::kRaw && spec.codec != Codec::kLz4)
    return Status(CKPT_FORMAT, "unknown codec " + std::to_string(static_cast<int>(spec.codec)));
  if (spec.filter > Filter::kBitPlanes)
    return Status(CKPT_FORMAT, "unknown filter " + std::to_string(static_cast<int>(spec.filter)));
  if (spec.filter == Filter::kNone ? spec.filter_width != 0 : !filter_width_ok(spec.filter_width))
    return Status(CKPT_FORMAT, "filter " + std::to_string(static_cast<int>(spec.filter)) + " of width " +
                                   std::to_string(spec.filter_width));
  return Ok();
}

void CodecScratch::reserve(size_t raw_size) {
  filtered(raw_size);
  lz4_state();
}

MutableBytes CodecScratch::filtered(size_t size) {
  if (size > capacity_) {
    filtered_.reset();
    capacity_ = 0;
    filtered_.reset(static_cast<std::byte*>(::operator new(size, std::align_val_t{64})));
    capacity_ = size;
  }
  return {filtered_.get(), size};
}

void* CodecScratch::lz4_state() {
  if (!lz4_state_) lz4_state_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(LZ4_sizeofState()));
  return lz4_state_.get();
}

static size_t store_raw(Bytes raw, MutableBytes stored) {
  if (!raw.empty()) std::memcpy(stored.data(), raw.data(), raw.size());
  return raw.size();
}

size_t CodecScratch::compress(const CodecSpec& spec, Bytes raw, MutableBytes stored) {
  Bytes source = raw;
  if (spec.filter != Filter::kNone) {
    MutableBytes output = filtered(raw.size());
    filter_encode(spec.filter, spec.filter_width, raw, output);
    source = output;
  }
  // LZ4 returns 0 if the result would not be smaller.
  int size = LZ4_compress_fast_extState(lz4_state(), reinterpret_cast<const char*>(source.data()),
                                        reinterpret_cast<char*>(stored.data()), static_cast<int>(source.size()),
                                        static_cast<int>(raw.size() - 1), 1);
  return size > 0 ? static_cast<size_t>(size) : 0;
}

size_t encode_chunk(const CodecSpec& spec, Bytes raw, MutableBytes stored, CodecScratch& scratch) {
  if (spec.codec == Codec::kRaw || raw.empty() || raw.size() > kMaxChunkBytes) return store_raw(raw, stored);
  size_t size = scratch.compress(spec, raw, stored);
  return size > 0 ? size : store_raw(raw, stored);
}

static Status wrong_size(std::string_view what, size_t expected, const std::string& found) {
  return Status(CKPT_FORMAT, std::string(what) + ": expected " + std::to_string(expected) + " bytes, found " + found)
      .with("expected", expected)
      .with("found", found);
}

Status decode_chunk(const CodecSpec& spec, Bytes stored, MutableBytes raw, CodecScratch& scratch) {
  CKPT_TRY(check_codec(spec));
  if (stored.size() == raw.size()) {
    store_raw(stored, raw);
    return Ok();
  }
  if (spec.codec == Codec::kRaw) return wrong_size("raw chunk", raw.size(), std::to_string(stored.size()));
  if (raw.size() > kMaxChunkBytes || stored.size() > static_cast<size_t>(LZ4_compressBound(kMaxChunkBytes)))
    return Status(CKPT_FORMAT, "chunk of " + std::to_string(raw.size()) + " bytes stored as " +
                                   std::to_string(stored.size()) + ": expected at most " +
                                   std::to_string(kMaxChunkBytes));
  bool filtered = spec.filter != Filter::kNone;
  MutableBytes target = filtered ? scratch.filtered(raw.size()) : raw;
  int size = LZ4_decompress_safe(reinterpret_cast<const char*>(stored.data()), reinterpret_cast<char*>(target.data()),
                                 static_cast<int>(stored.size()), static_cast<int>(target.size()));
  if (size < 0) return wrong_size("LZ4 block", raw.size(), "a malformed or longer one");
  if (static_cast<size_t>(size) != raw.size()) return wrong_size("LZ4 block", raw.size(), std::to_string(size));
  if (filtered) filter_decode(spec.filter, spec.filter_width, target, raw);
  return Ok();
}

// The stored size of a few evenly spaced pieces of a sample, under one spec. Trying costs as much as encoding, so the
// amount tried depends on how much data the choice is for.
class CodecTrial {
 public:
  static constexpr uint64_t kShare = 32, kLeast = 2 << 10, kPiece = 16 << 10, kPieces = 4;

  CodecTrial(Bytes sample, uint64_t stands_for) : sample_(sample) {
    size_t tried = std::min<size_t>(sample.size(), std::clamp(stands_for / kShare, kLeast, kPiece * kPieces));
    count_ = std::clamp<size_t>(tried / (2 * kLeast), 1, kPieces);
    piece_ = tried / count_;
    // From the middle of each share, since ends are often unlike the rest; from a whole element of any width.
    for (size_t i = 0; i < count_; i++)
      starts_[i] = (sample.size() / count_ * i + (sample.size() / count_ - piece_) / 2) / 64 * 64;
    stored_ = std::make_unique_for_overwrite<std::byte[]>(piece_ + kEncodeSlack);
  }

  size_t raw_size() const { return piece_ * count_; }
  size_t stored_size(const CodecSpec& spec, size_t most_pieces = kPieces) {
    size_t total = 0;
    for (size_t i = 0; i < std::min<size_t>(count_, most_pieces); i++) {
      size_t size =
          scratch_.compress(spec, sample_.subspan(starts_[i], piece_), {stored_.get(), piece_ + kEncodeSlack});
      total += size > 0 ? size : piece_;
    }
    return total;
  }

 private:
  Bytes sample_;
  size_t piece_ = 0, count_ = 0, starts_[kPieces] = {};
  std::unique_ptr<std::byte[]> stored_;
  CodecScratch scratch_;
};

static CodecSpec choose_by_trial(int width, Bytes sample, uint64_t stands_for) {
  const CodecSpec lz4{Codec::kLz4, Filter::kNone, 0};
  const CodecSpec planes{Codec::kLz4, Filter::kBitPlanes, width}, shuffle{Codec::kLz4, Filter::kByteShuffle, width};
  CodecTrial trial(sample, stands_for);
  const size_t raw = trial.raw_size(), with_lz4 = trial.stored_size(lz4), with_planes = trial.stored_size(planes);
  const bool by_planes = with_planes * 100 <= with_lz4 * 98;  // plain LZ4 loads faster
  const CodecSpec best = by_planes ? planes : lz4;
  const size_t best_size = by_planes ? with_planes : with_lz4;
  // The shuffle compresses slowly, in this trial too. So it gets one piece, must win clearly, and is not tried if the
  // others saved nothing.
  if (width > 1 && best_size < raw && trial.stored_size(shuffle, 1) * 100 <= trial.stored_size(best, 1) * 90)
    return shuffle;
  return best_size * 100 <= raw * 95 ? best : CodecSpec{};
}

CodecSpec choose_codec(std::string_view compression, uint16_t dtype, Bytes sample, uint64_t stands_for) {
  int width = dtype_filter_width(dtype);
  if (compression == "lz4") return {Codec::kLz4, Filter::kNone, 0};
  if (compression == "bitplane-lz4") return {Codec::kLz4, Filter::kBitPlanes, width};
  if (compression == "auto" && !sample.empty())
    return choose_by_trial(width, sample, std::max<uint64_t>(stands_for, sample.size()));
  return {};
}

}  // namespace ckpt::codec
