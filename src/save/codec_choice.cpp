#include "save/codec_choice.h"

#include <algorithm>
#include <map>

namespace ckpt::save {

// The size of a sample: of one tensor that is not read whole, or of all small tensors of a dtype.
static constexpr uint64_t kSampleBytes = 64 << 10;

// The small tensors of one dtype.
struct SmallTensors {
  uint64_t total = 0, passed = 0, sampled = 0;  // bytes
  std::vector<std::byte> sample;
  codec::CodecSpec verdict{};
};

static bool is_small(const Item& item) { return item.size < kLargeSegment; }

// Up to so many bytes from the middle of an item, of whole units.
struct Middle {
  uint64_t first, size;
  Middle(const Item& item, uint64_t most) {
    const uint64_t width = item.source.tensor->width, units = item.size / width,
                   count = std::min(item.size, most) / width;
    first = (units - count) / 2 * width;
    size = count * width;
  }
};

// Whether it is one of the samples: evenly, by bytes.
static bool takes_small(const Item& item, SmallTensors* small) {
  const bool takes = small->passed >= small->sampled * (small->total / kSampleBytes);
  if (takes) small->sampled += item.size;
  small->passed += item.size;
  return takes;
}

static Result<codec::CodecSpec> try_alone(const Item& item, std::string_view compression, bool whole,
                                          device::Transfers* transfers, std::vector<std::byte>* scratch) {
  const uint16_t dtype = item.source.tensor->dtype;
  const Bytes all = item.source.direct(0, item.size);
  if (whole && !all.empty()) return codec::choose_codec(compression, dtype, all);
  const Middle middle(item, kSampleBytes);
  CKPT_ASSIGN(const Bytes sample, item.source.view(middle.first, middle.size, scratch, transfers));
  return codec::choose_codec(compression, dtype, sample, item.size);
}

// What is read of the caller's memory.
static std::vector<Bytes> samples_of(std::span<const Item> items, std::span<const Item* const> small) {
  std::vector<Bytes> samples;
  const auto add = [&](const Item& item) {
    const Middle middle(item, kSampleBytes);
    const Bytes sample = item.source.direct(middle.first, middle.size);
    if (!sample.empty()) samples.push_back(sample);
  };
  for (const Item* item : small) add(*item);
  for (const Item& item : items)
    if (!is_small(item)) add(item);
  return samples;
}

Status choose_codecs(std::string_view compression, std::span<Item> items, LateMemory* memory,
                     device::Transfers* transfers) {
  if (compression == "none") return Ok();
  if (compression != "auto") {
    for (Item& item : items) item.codec = codec::choose_codec(compression, item.source.tensor->dtype, {});
    return Ok();
  }
  std::map<uint16_t, SmallTensors> by_dtype;
  for (const Item& item : items)
    if (is_small(item)) by_dtype[item.source.tensor->dtype].total += item.size;
  std::vector<const Item*> sampled;
  for (const Item& item : items)
    if (is_small(item) && takes_small(item, &by_dtype[item.source.tensor->dtype])) sampled.push_back(&item);
  if (memory) CKPT_TRY(memory->fill(samples_of(items, sampled)));
  for (const Item* item : sampled) {
    std::vector<std::byte>& sample = by_dtype[item->source.tensor->dtype].sample;
    sample.resize(sample.size() + item->size);
    CKPT_TRY(item->source.read(0, MutableBytes(sample).last(item->size), transfers));
  }
  for (auto& [dtype, small] : by_dtype)
    small.verdict = codec::choose_codec(compression, dtype, small.sample, small.total);
  std::vector<std::byte> scratch;
  for (Item& item : items) {
    if (is_small(item)) {
      item.codec = by_dtype[item.source.tensor->dtype].verdict;
    } else {
      CKPT_ASSIGN(item.codec, try_alone(item, compression, !memory, transfers, &scratch));
    }
  }
  return Ok();
}

}  // namespace ckpt::save
