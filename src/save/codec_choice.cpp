#include "save/codec_choice.h"

#include <algorithm>
#include <map>

namespace ckpt::save {

// The size of a sample: of one tensor that is not contiguous, or of all small tensors of a dtype.
static constexpr uint64_t kSampleBytes = 64 << 10;

// The small tensors of one dtype.
struct SmallTensors {
  uint64_t total = 0, passed = 0, sampled = 0;  // bytes
  std::vector<std::byte> sample;
  codec::CodecSpec verdict{};
};

static bool is_small(const Item& item) { return item.size < kLargeSegment; }

// `size` bytes from the middle of an item whose memory is contiguous.
static Bytes middle_of(const Item& item, uint64_t size) {
  uint64_t width = item.tensor->width, count = size / width, skipped = (item.size / width - count) / 2;
  return {item.data + skipped * width, count * width};
}

// Appends `size` bytes from the middle of an item.
static Status append_middle(const Item& item, uint64_t size, device::Transfers* transfers,
                            std::vector<std::byte>* sample) {
  if (item.data) {
    const Bytes middle = middle_of(item, size);
    sample->insert(sample->end(), middle.begin(), middle.end());
    return Ok();
  }
  uint64_t width = item.tensor->width, count = size / width, skipped = (item.size / width - count) / 2;
  size_t at = sample->size();
  sample->resize(at + count * width);
  return item.tensor->gather(item.first + skipped, MutableBytes(*sample).subspan(at), transfers);
}

// Whether it is one of the samples: evenly, by bytes.
static bool takes_small(const Item& item, SmallTensors* small) {
  const bool takes = small->passed >= small->sampled * (small->total / kSampleBytes);
  if (takes) small->sampled += item.size;
  small->passed += item.size;
  return takes;
}

static Result<codec::CodecSpec> try_alone(const Item& item, std::string_view compression, bool whole,
                                          device::Transfers* transfers, std::vector<std::byte>* scratch) {
  uint16_t dtype = item.tensor->dtype;
  if (item.data && whole) return codec::choose_codec(compression, dtype, {item.data, item.size});
  scratch->clear();
  CKPT_TRY(append_middle(item, std::min(item.size, kSampleBytes), transfers, scratch));
  return codec::choose_codec(compression, dtype, *scratch, item.size);
}

// What is read of the caller's memory.
static std::vector<Bytes> samples_of(std::span<const Item> items, std::span<const Item* const> small) {
  std::vector<Bytes> samples;
  for (const Item* item : small)
    if (item->data) samples.push_back(middle_of(*item, item->size));
  for (const Item& item : items)
    if (!is_small(item) && item.data) samples.push_back(middle_of(item, std::min(item.size, kSampleBytes)));
  return samples;
}

Status choose_codecs(std::string_view compression, std::span<Item> items, LateMemory* memory,
                     device::Transfers* transfers) {
  if (compression == "none") return Ok();
  if (compression != "auto") {
    for (Item& item : items) item.codec = codec::choose_codec(compression, item.tensor->dtype, {});
    return Ok();
  }
  std::map<uint16_t, SmallTensors> by_dtype;
  for (const Item& item : items)
    if (is_small(item)) by_dtype[item.tensor->dtype].total += item.size;
  std::vector<const Item*> sampled;
  for (const Item& item : items)
    if (is_small(item) && takes_small(item, &by_dtype[item.tensor->dtype])) sampled.push_back(&item);
  if (memory) CKPT_TRY(memory->fill(samples_of(items, sampled)));
  for (const Item* item : sampled)
    CKPT_TRY(append_middle(*item, item->size, transfers, &by_dtype[item->tensor->dtype].sample));
  for (auto& [dtype, small] : by_dtype)
    small.verdict = codec::choose_codec(compression, dtype, small.sample, small.total);
  std::vector<std::byte> scratch;
  for (Item& item : items) {
    if (is_small(item)) {
      item.codec = by_dtype[item.tensor->dtype].verdict;
    } else {
      CKPT_ASSIGN(item.codec, try_alone(item, compression, !memory, transfers, &scratch));
    }
  }
  return Ok();
}

}  // namespace ckpt::save
